"""Work that a GPU does beside other work.

In: a block of calls. Out: the same results; on a GPU they are computed while other calls go on, until someone joins.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch


@contextmanager
def aside(device: torch.device, number: int = 0) -> Iterator[None]:
    """What is called inside goes on beside what comes after it; it sees all that came before.

    Tensors that it reads must live until someone joins: the memory of one that is let go is given to others at once.
    """
    if device.type != "cuda":
        yield
        return
    _stream(device, number).wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(_stream(device, number)):
        yield


def join(device: torch.device, *made: torch.Tensor | None, number: int = 0) -> None:
    """What comes after sees what was done aside.

    `made` are tensors made aside that the backward pass reads here. What was done aside, backward does aside as well,
    and would take the memory of those that were let go here, where they may still have to be read.
    """
    if device.type == "cuda":
        here = torch.cuda.current_stream(device)
        here.wait_stream(_stream(device, number))
        for tensor in made:
            if tensor is not None:
                tensor.record_stream(here)


@cache
def _stream(device: torch.device, number: int) -> torch.cuda.Stream:
    # torch hands out 32 streams of each priority in turn. Graphs are captured in one of ordinary priority, which must
    # not happen to be this one.
    return torch.cuda.Stream(device, priority=-1)
