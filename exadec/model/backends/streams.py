"""Work on a second CUDA stream.

In: a block of code. Out: the same results, computed while the current stream goes on; wait before using them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch


@contextmanager
def second_stream(device: torch.device, number: int = 0) -> Iterator[None]:
    """Run the block on a second CUDA stream; wait (`wait_for`) before using its results.

    Keep the tensors that the block reads alive until then: the allocator reuses freed memory at once. On a CPU, where
    Triton's interpreter may run the kernels, the block just runs.
    """
    if device.type != "cuda":
        yield
        return
    _stream(device, number).wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(_stream(device, number)):
        yield


def wait_for(device: torch.device, *made: torch.Tensor | None, number: int = 0) -> None:
    """Make the current stream wait for the second one.

    `made` are tensors of the second stream that the backward pass reads on the current one. Autograd runs the backward
    pass of each block on the stream of its forward pass. Without this, the allocator could reuse their memory on the
    second stream before the current one has read it.
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
    # torch hands out 32 streams of each priority in turn. CUDA graphs are captured on a stream of normal priority; a
    # high-priority stream is never the same one.
    return torch.cuda.Stream(device, priority=-1)
