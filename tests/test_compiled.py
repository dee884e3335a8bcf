"""Loops that are compiled, wherever they may be kept."""

from typing import Any

import numba
import pytest

from exadec.compiled import compiled


def test_loops_are_compiled_where_nothing_can_be_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for another user's installation without a home folder: numba refuses to cache, with a RuntimeError."""
    njit = numba.njit

    def without_cache(cache: bool = False, **options: bool) -> Any:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**options)

    with monkeypatch.context() as patch:
        patch.setattr(numba, "njit", without_cache)

        @compiled()
        def double(x: int) -> int:
            return 2 * x

    assert double(21) == 42
