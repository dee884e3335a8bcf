"""Recording work on a GPU, for training and for search.

In: work that launches kernels. Out: a CUDA graph that repeats it with one launch.
"""

import gc
from collections.abc import Callable

import torch


class Recorder:
    """Records CUDA graphs that share their working memory: they run one after the other."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph:
        """Record the work without running it.

        Meanwhile Python collects no garbage: freeing a graph of another model would break the recording.
        """
        graph, collecting = torch.cuda.CUDAGraph(), gc.isenabled()
        gc.disable()
        try:
            with torch.cuda.graph(graph, pool=self._pool):
                work()
        finally:
            if collecting:
                gc.enable()
        return graph
