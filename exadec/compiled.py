"""Loops that numba compiles.

In: a function over arrays. Out: the same, compiled at its first call and kept for later processes.
"""

import numba


def compiled(fastmath=False):
    """Compile a loop, and keep it beside its file or in the user's cache, if either can be written."""

    # Python's model of errors looks for a division by zero each time, so that such loops are not vectorised.
    options = {"nogil": True, "fastmath": fastmath, "error_model": "numpy"}

    def compile_loop(function):
        try:
            return numba.njit(cache=True, **options)(function)
        except RuntimeError:  # nowhere to keep it: it is compiled again in each process
            return numba.njit(**options)(function)

    return compile_loop
