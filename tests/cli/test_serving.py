"""`exadec serve` on the command line; `tests/server` asks it."""

from pathlib import Path

import pytest

from exadec.cli import serving
from exadec.errors import InputError
from support.command import assert_needs_no_torch, assert_refused, exadec


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "find_spec", lambda name: None if name == "uvicorn" else name)
    with pytest.raises(InputError, match=r"needs uvicorn: pip install 'exadec\[serve\]'"):
        serving.serve(Path("run"))


@pytest.mark.parametrize("token", ["", " ", " abc ", "\u00e9", "a\tb"])
def test_a_token_that_nobody_could_send_is_refused(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    assert_refused(exadec("serve", "run", "--token", token), "exadec: the token in --token TEXT ")
    monkeypatch.setenv("EXADEC_TOKEN", token)
    assert_refused(exadec("serve", "run"), "exadec: the token in the variable EXADEC_TOKEN ")


def test_help_teaches_and_is_quick() -> None:
    shown = exadec("serve", "--help").stdout
    for words in ("--exemplars", "/v1/write", "/docs", "EXADEC_TOKEN", "429", "413"):
        assert words in shown
    assert_needs_no_torch("serve", "--help")
