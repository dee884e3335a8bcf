"""The search of a GPU against the ordinary one: interpreted on a CPU, and on a GPU. See also `tests/test_cuda.py`."""

import pytest
import torch

from support.interpreter import interpret_kernels

FEW = """
from exadec.search import fused
from support.fused_runs import CASES, differing_texts
print(differing_texts("cpu", False, CASES[5], sizes=(2,)) + differing_texts("cpu", True, CASES[4], sizes=(2,)))
fused.FEW = 8  # longer memories than that are long
print(differing_texts("cpu", False, CASES[5], sizes=(2,)) + differing_texts("cpu", True, CASES[4], sizes=(2,)))
"""


WHOLE = """
import torch
from exadec.config import VARIANTS, SearchConfig
from exadec.search import generate
from exadec.search.captured import RecordedSearch
from support.small_models import ALL_OPTIONS, VOCABULARY, batch_for, build_small_model
form = torch.arange(VOCABULARY) % 3 != 0
for variant, guidance in (("seq2seq", 0.0), ("adadec+attexp", 1.0)):
    model = build_small_model(**VARIANTS[variant], **ALL_OPTIONS).float()
    batch = batch_for(model.config, 5)
    config = SearchConfig(beam_size=3, max_length=8, guidance=guidance, batch_size=2)  # others wait for their turn
    generate.recorded_search = lambda model: RecordedSearch(lambda work: work)  # work that is repeated, not recorded
    with torch.no_grad():
        found, found_lam = generate._replay(model, batch, config, 2, None, form)
        texts, lam = generate._search(model, generate.Task(batch), config, 2, None, form)
    for ours, theirs in zip(found, texts, strict=True):
        print([one.ids for one in ours] == [one.ids for one in theirs])
    assert (lam is None and found_lam is None) or torch.allclose(lam, found_lam)
"""


def test_texts_are_those_of_the_ordinary_search_when_triton_interprets_the_kernels() -> None:
    """Of models with everything that a search step has to do: other case, guidance, blocked and banned words."""
    assert interpret_kernels(FEW).split() == ["0", "0"]


def test_a_whole_search_of_a_gpu_finds_the_same_texts_and_coefficients() -> None:
    assert interpret_kernels(WHOLE).split() == ["True"] * 10


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("case", range(7))
def test_texts_are_those_of_the_ordinary_search(
    case: int, single: bool, long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from exadec.search import fused
    from support.fused_runs import CASES, differing_texts  # imports Triton

    assert len(CASES) == 7
    monkeypatch.setattr(fused, "FEW", 8 if long else fused.FEW)
    assert differing_texts("cuda", single, CASES[case]) == 0
