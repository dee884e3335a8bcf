"""onnxruntime computes what PyTorch computes; one file serves all sizes of a batch."""

from collections.abc import Mapping
from typing import Never

import pytest
import torch
from torch import nn
from torch.nn import functional

from exadec.bundle.graphs import trace, translations
from exadec.config import PRESETS, VARIANTS
from support.onnx_models import OnnxModel, assert_same_steps
from support.small_models import ALL_OPTIONS, VOCABULARY, build_small_model, random_batch

MODELS: dict[str, Mapping[str, object]] = {
    "the released code": PRESETS["released"]["model"],
    "all options of ours": {**ALL_OPTIONS, **VARIANTS["adadec+attexp"]},
    "another cell": {"cell": "gru", "per_gate_coefficients": True, "copy": "none", "tied": False},
}
"""What the models of `test_onnx_folder.py` do not have."""


@pytest.mark.parametrize("name", MODELS)
def test_onnxruntime_computes_what_pytorch_computes(name: str) -> None:
    model = build_small_model(**MODELS[name]).float()
    theirs = OnnxModel.of(trace(model), model.config, VOCABULARY)
    for count, exemplars, seed in ((6, model.config.exemplars_read, 1), (1, 1, 2), (17, 2, 3)):
        batch = random_batch(count, seed, model.config.attend_exemplar, exemplars)
        assert_same_steps(model, theirs, batch)


class Logarithms(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.logaddexp(a, b), functional.logsigmoid(a)


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
def test_improbable_words_do_not_underflow() -> None:
    """log(exp(a) + exp(b)), as torch translates it, is -inf where both are below -104; so is log(sigmoid(a))."""
    a = torch.tensor([-300.0, -150.0, -torch.inf, -1e-3, 0.0, 90.0, 300.0])
    b = torch.tensor([-120.0, -150.5, -140.0, -200.0, 0.0, -90.0, 299.0])
    program = torch.onnx.export(
        Logarithms().eval(), (a, b), dynamo=True, verbose=False, custom_translation_table=translations()
    )
    found = program(a, b)
    expected = Logarithms()(a, b)
    assert expected[0].isfinite().all()
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


def test_an_interrupt_stays_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while torch imports its exporter: the exporter trips over the half of it that is there."""

    def trip(*_: object, **__: object) -> Never:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise AttributeError("module 'torch._dynamo' has no attribute 'exc'")  # noqa: B904 - as torch does it

    monkeypatch.setattr(torch.export, "export", trip)
    with pytest.raises(KeyboardInterrupt):
        trace(build_small_model().float())
    monkeypatch.setattr(torch.export, "export", lambda *_, **__: 1 / 0)
    with pytest.raises(torch.onnx.OnnxExporterError):  # whatever else goes wrong is shown as it is
        trace(build_small_model().float())
