"""What a rounded search on a CPU rounds once: codes against numpy, the halved model against autocast."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exadec.config import VARIANTS, TrainingConfig
from exadec.model.backends.reference import REFERENCE
from exadec.model.cells import LSTM
from exadec.search import rounding
from exadec.search.cpu_kernels import step_lstm
from exadec.search.rounding import HalvedBackend, read_rounded, round_once, round_rows
from exadec.training.optimizer import build_optimizer
from support.choices import spread_out
from support.small_models import ALL_OPTIONS, batch_for, build_small_model


@given(st.integers(1, 6), st.integers(1, 40), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_rows_are_rounded_to_8_bits_like_numpy(rows: int, size: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=(rows, size)).astype(np.float32)
    values[0] *= seed % 3  # sometimes zeros
    codes, scales = (part.numpy() for part in round_rows(torch.from_numpy(values)))
    np.testing.assert_allclose(scales, np.maximum(np.abs(values).max(1), 1e-30) / 127, rtol=1e-6)
    np.testing.assert_array_equal(codes, np.rint(values / scales[:, None]).astype(np.int8))
    assert np.abs(codes.astype(np.float32) * scales[:, None] - values).max() <= 0.5001 * scales.max()


@given(st.integers(1, 5), st.integers(1, 40), st.floats(0.1, 60), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_a_compiled_step_of_an_lstm_is_that_of_torch(rows: int, size: int, scale: float, seed: int) -> None:
    """With gates that are nearly open and nearly shut, too."""
    torch.manual_seed(seed)
    projected, recurrent = scale * torch.randn(rows, 4, size), (scale * torch.randn(rows, 4, size)).bfloat16()
    state = torch.randn(rows, size), torch.randn(rows, size)
    expected = LSTM.update(projected.double(), recurrent.double(), tuple(part.double() for part in state))
    found = torch.empty(rows, size), torch.empty(rows, size)
    by_gate = recurrent.transpose(0, 1).contiguous()  # in another order than the other half
    memory = projected.flatten().numpy(), by_gate.view(torch.int16).flatten().numpy()
    step_lstm(*memory, (4 * size, size, size, rows * size), state[1].numpy(), *(part.numpy() for part in found))
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine.double(), theirs, rtol=1e-5, atol=1e-6)


def test_weights_are_rounded_again_once_the_optimizer_has_changed_them() -> None:
    model = build_small_model(**VARIANTS["seq2seq"]).float()
    before = round_once(model)
    assert round_once(model) is before
    optimizer = build_optimizer(model, TrainingConfig())
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    weight = model.decoder.softmax()[0]
    assert torch.equal(round_once(model).codes[0], round_rows(weight.detach())[0])


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_attended_to_is_rounded_once_for_all_steps(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounding, "halves", lambda: True)
    model = build_small_model(**VARIANTS[variant]).float()
    with torch.no_grad():
        state = read_rounded(model, batch_for(model.config, 3))
    assert {state.memory.values.dtype, state.memory.keys.dtype} == {torch.bfloat16}
    assert {part.dtype for part in (*state.recurrent, state.attentional)} == {torch.float32}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_halved_model_computes_what_autocast_does_and_shares_all_that_is_not_halved(
    variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounding, "halves", lambda: True)
    model = spread_out(build_small_model(**VARIANTS[variant], **ALL_OPTIONS).float())
    halved = round_once(model).halved
    assert halved is not None
    dtypes = {name: weight.dtype for name, weight in halved.named_parameters()}
    assert dtypes["decoder.attention.combine.weight"] == dtypes["decoder.cell.P.weight"] == torch.bfloat16
    for name, weight in model.named_parameters():
        mine = halved.get_parameter(name)
        assert mine is weight or torch.equal(mine, weight.bfloat16())
    assert halved.embedding.weight is model.embedding.weight
    state = model.encode(batch_for(model.config, 3))
    words = torch.tensor([7, 8, 9])
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        expected, found = (
            decoder.parts(state, words, backend)[0]
            for decoder, backend in ((model.decoder, REFERENCE), (halved.decoder, HalvedBackend()))
        )
    torch.testing.assert_close(found.attentional, expected.attentional, rtol=0, atol=0.02)
    torch.testing.assert_close(found.weights, expected.weights, rtol=0, atol=0.02)
