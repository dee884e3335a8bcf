"""Work on a second CUDA stream.

In: a block of calls. Out: the same results, computed while other work goes on, until someone waits for them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch


@contextmanager
def second_stream(device: torch.device, number: int = 0) -> Iterator[None]:
    """Run the block on a second CUDA stream; wait (`wait_for`) before using its results.

    Keep the tensors that the block reads alive until then: the allocator hands freed memory out again at once. On a
    CPU, where Triton's interpreter may run the kernels, the block just runs.
    """
    if device.type != "cuda":
        yield
        return
    _stream(device, number).wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(_stream(device, number)):
        yield


def wait_for(device: torch.device, *made: torch.Tensor | None, number: int = 0) -> None:
    """Let the current stream wait for the second one.

    `made` are tensors of the second stream that the backward pass of the current one reads. Autograd runs the backward
    pass of each block on the stream of its forward pass, so the second stream could otherwise be given their memory
    while the current one still has to read it.
    """
    if device.type != "cuda":
        return
    here = torch.cuda.current_stream(device)
    here.wait_stream(_stream(device, number))
    for tensor in made:
        if tensor is not None:
            tensor.record_stream(here)


@cache
def _stream(device: torch.device, number: int) -> torch.cuda.Stream:
    # torch hands out 32 streams of each priority in turn. Graphs are captured on one of ordinary priority, which must
    # not happen to be this one.
    return torch.cuda.Stream(device, priority=-1)
