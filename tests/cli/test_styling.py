"""`exadec style`, and `generate --style`, as a user meets them."""

import json
import signal
import sys
from pathlib import Path

import pytest

from exadec.api import load
from exadec.cli import main
from exadec.request import Request
from exadec.styles import Mixture
from support.command import SOURCE, exadec


def test_a_style_is_saved_listed_used_and_removed(run: Path, tmp_path: Path) -> None:
    assert "There are no styles yet" in exadec("style", run).stderr
    lines = tmp_path / "exemplars.txt"
    lines.write_text("up n2 k2\n\nup n3 k4\n", "utf-8")
    done = exadec("style", run, "loud", "--exemplar", "up n1 k1", "--exemplars", lines)
    assert done.returncode == 0, done.stderr
    assert "Saved the style loud, the mean of 3 exemplars." in done.stderr
    assert exadec("style", run).stdout == "loud\t3\n"
    assert exadec("style", run, "loud").stdout == "1\tup n1 k1\n1\tup n2 k2\n1\tup n3 k4\n"
    writer = load(run)
    assert writer.styles.get("loud") == Mixture.of(["up n1 k1", "up n2 k2", "up n3 k4"])
    records = json.dumps({"source": SOURCE}) + "\n" + json.dumps({"source": SOURCE, "exemplar": "down k1 n1"}) + "\n"
    done = exadec("generate", run, "--style", "loud", "--records", "--json", stdin=records.encode())
    assert done.returncode == 0, done.stderr
    styled, given = map(json.loads, done.stdout.splitlines())
    assert styled["text"] == writer.write(Request(SOURCE, style="loud")).text
    assert styled["exemplar"] == "up n1 k1"
    assert given["exemplar"] == "down k1 n1"  # a record's own exemplar comes first
    assert exadec("style", run, "loud", "--remove").returncode == 0
    assert exadec("style", run).stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["style", "RUN", "--exemplar", "up"], "give the style a name"),
        (["style", "RUN", "--remove"], "give the style a name"),
        (["style", "RUN", "loud", "--remove", "--exemplar", "up"], "--remove takes no exemplars"),
        (["style", "RUN", "loud", "--remove"], "there is no style 'loud'; no style has been saved yet"),
        (["style", "RUN", "loud"], "there is no style 'loud'"),
        (["style", "RUN", "--device", "cpu"], "--device is where λ of a new style is computed; leave it out"),
        (["style", "RUN", "loud", "--remove", "--device", "cpu"], "leave it out where no style is saved"),
        (["style", "RUN", ".loud", "--exemplar", "up"], "cannot be the name of a style"),
        (["style", "RUN", "loud", "--exemplar", "zzz"], "has no word the model knows"),
        (["generate", "RUN", "--style", "loud"], "there is no style 'loud'"),
        (["generate", "RUN", "--style", "loud", "--group", "a"], "leave out --exemplar and --group"),
    ],
)
def test_mistakes_get_one_line_and_status_two(
    run: Path,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["exadec", *(str(run) if one == "RUN" else one for one in arguments)])
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as end:
        main()
    signal.signal(signal.SIGTERM, before)
    shown = capsys.readouterr()
    assert end.value.code == 2
    assert message in shown.err
    assert shown.out == ""
    assert len(shown.err.strip().splitlines()) == 1
