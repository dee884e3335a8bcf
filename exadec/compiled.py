"""Loops that numba compiles.

In: a function over arrays. Out: the same, compiled at its first call and kept for later processes.
"""

import numba


def compiled(fastmath=False):
    """Compile a loop, and keep it beside its file or in the user's cache, if either can be written."""

    def compile_loop(function):
        try:
            return numba.njit(nogil=True, cache=True, fastmath=fastmath)(function)
        except RuntimeError:  # nowhere to keep it: it is compiled again in each process
            return numba.njit(nogil=True, fastmath=fastmath)(function)

    return compile_loop
