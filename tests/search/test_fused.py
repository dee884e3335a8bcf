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


def test_texts_are_those_of_the_ordinary_search_when_triton_interprets_the_kernels() -> None:
    """Of models with everything that a search step has to do: other case, guidance, blocked and banned words."""
    assert interpret_kernels(FEW).split() == ["0", "0"]


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
