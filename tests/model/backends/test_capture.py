"""Recording on a GPU, with stand-ins for CUDA's own parts; tests/test_cuda.py records real graphs."""

import gc
import weakref
from collections.abc import Iterator
from contextlib import nullcontext

import pytest
import torch

from exadec.model.backends.capture import Recorder


class Held:
    """Freed by a collection alone, as a recorded search and its model are."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 0))
    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "graph", lambda graph, pool: nullcontext())
    usual = gc.get_threshold()
    yield Recorder()
    gc.set_threshold(*usual)


def test_nothing_is_collected_while_work_is_recorded(recorder: Recorder) -> None:
    gc.collect()
    gc.set_threshold(1_000_000_000)
    held = weakref.ref(Held())
    alive = []

    def work() -> None:
        gc.set_threshold(1)  # any new object would begin a collection
        _ = [[] for _ in range(1000)]
        alive.append(held() is not None)

    recorder(work)
    assert alive == [True]
    gc.collect()
    assert held() is None


@pytest.mark.parametrize("collecting", [True, False])
def test_collecting_goes_on_as_before_even_if_the_work_fails(recorder: Recorder, collecting: bool) -> None:
    def fail() -> None:
        raise RuntimeError("no memory")

    if not collecting:
        gc.disable()
    try:
        with pytest.raises(RuntimeError, match="no memory"):
            recorder(fail)
        assert gc.isenabled() == collecting
    finally:
        gc.enable()
