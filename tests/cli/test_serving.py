"""`exadec serve` on the command line; `tests/server` asks it."""

from pathlib import Path

import pytest

from exadec.cli import serving
from exadec.errors import InputError
from support.command import assert_needs_no_torch, exadec


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "find_spec", lambda name: None if name == "uvicorn" else name)
    with pytest.raises(InputError, match=r"needs uvicorn: pip install 'exadec\[serve\]'"):
        serving.serve(Path("run"))


def test_help_teaches_and_is_quick() -> None:
    shown = exadec("serve", "--help").stdout
    for words in ("--exemplars", "/v1/write", "/docs", "EXADEC_TOKEN", "429", "413"):
        assert words in shown
    assert_needs_no_torch("serve", "--help")
