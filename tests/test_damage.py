"""Damaged and hostile files, command by command: one line that names the file, or the right result.

`tests/campaign` has the same for as long as one likes.
"""

import json
import os
import random
import shutil
from pathlib import Path

import pytest
from campaign.fuzz import TARGETS, fuzz

from exadec.api import load
from support import damage
from support.damage import ALL, READ_BY, SIGNED, Workshop, commands_for, list_files
from support.forked import run_forked


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("damage") / "workshop")


def test_the_commands_work_while_nothing_is_damaged(workshop: Workshop) -> None:
    assert {name: outcome.status for name, outcome in workshop.expected.items()} == dict.fromkeys(damage.COMMANDS, 0)
    assert {str(path.parent) for path in list_files(workshop.whole)} == {name or "." for name in READ_BY}


@pytest.mark.parametrize("folder", READ_BY)
def test_no_damage_is_fatal(workshop: Workshop, folder: str) -> None:
    """Files are damaged as by accident, or by someone who signs them. All ways to do so take turns."""
    files = [path for path in list_files(workshop.whole) if path.parent == Path(folder)]
    draw, problems, statuses = random.Random(folder), list[str](), set[int]()
    for number in range(min(14, 4 * len(files))):
        path, signed = draw.choice(files), number % 2 == 1
        ways, commands = SIGNED if signed else ALL, commands_for(path)
        way = ways[(7 * list(READ_BY).index(folder) + number // 2) % len(ways)]
        status, problem = workshop.try_case(path, way, draw, signed, commands[number // 2 % len(commands)])
        statuses.add(status)
        problems += [problem] if problem else []
    assert not problems
    assert 2 in statuses  # something was refused


@pytest.mark.parametrize("way", [damage.deep, damage.aliases, damage.link, damage.pipe_instead, damage.nothing_left])
def test_settings_of_a_run_are_refused_by_name(workshop: Workshop, way: damage.Damage) -> None:
    workshop.renew()
    way(workshop.project / "work/run/config.yaml", random.Random(1))
    outcome = workshop.run("generate")
    assert outcome.status == 2
    assert outcome.peak < 1024
    assert "work/run" in outcome.errors
    assert len(outcome.errors.splitlines()) == 1


@pytest.mark.parametrize("name", [".test.outputs.jsonl.draft", "test.outputs.draft", "test.outputs.jsonl"])
def test_nothing_is_written_through_a_link_in_a_run(workshop: Workshop, name: str) -> None:
    workshop.renew()
    precious = workshop.project / "precious"
    precious.write_text("mine", "utf-8")
    link = workshop.project / "work/run" / name
    link.unlink(missing_ok=True)
    link.symlink_to(precious)
    outcome = workshop.run("split")
    assert outcome.status == 2
    assert f"{name}: a symbolic link" in outcome.errors
    assert precious.read_text("utf-8") == "mine"


@pytest.mark.parametrize("how", ["absolute", "relative", "named"])
def test_a_run_from_elsewhere_writes_nothing_beside_a_corpus(workshop: Workshop, tmp_path: Path, how: str) -> None:
    """Whether the run itself leads there, or the user named the corpus."""
    workshop.renew()
    theirs, run = workshop.project / "work", tmp_path / "run"
    shutil.move(theirs / "run", run)
    way = theirs / "corpus" if how == "absolute" else os.path.relpath(theirs / "corpus", run)
    if how != "named":
        facts = json.loads((run / "run.json").read_text("utf-8"))
        (run / "run.json").write_text(json.dumps({**facts, "corpus_folder": str(way)}), "utf-8")
    corpus = theirs / "corpus" if how == "named" else None
    for name in ("index-words-raw", "terms-words-source"):
        shutil.rmtree(theirs / name)
    before = sorted(path.name for path in theirs.iterdir())
    first = load(run, corpus=corpus).write("house1 n3 k5")
    assert sorted(path.name for path in theirs.iterdir()) == before
    assert {"index-words-raw", "terms-words-source"} <= {path.name for path in run.iterdir()}
    again = load(run, corpus=corpus).write("house1 n3 k5")
    assert (again.text, again.exemplar) == (first.text, first.exemplar)
    assert first.exemplar is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("corpus_folder", "/dev/zero"),
        ("corpus_folder", "a\0b"),
        ("corpus_folder", 5),
        ("corpus", None),
        ("exemplars", ["x"]),
        ("vocabulary", "x"),
        ("groups", [1]),
        ("created", 5),
        ("created", "yesterday"),
    ],
)
def test_facts_of_a_run_are_checked(workshop: Workshop, name: str, value: object) -> None:
    workshop.renew()
    path = workshop.project / "work/run/run.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), name: value}), "utf-8")
    outcome = workshop.run("split")
    assert outcome.status == 2
    assert len(outcome.errors.splitlines()) == 1


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x93NUMPY"])
@pytest.mark.parametrize("name", ["ids.npy", "scores.npy", "done.npy", "job"])
def test_a_damaged_ledger_is_started_again(workshop: Workshop, name: str, content: bytes) -> None:
    """The rest of an interrupted `retrieve`."""
    workshop.renew()
    shutil.rmtree(workshop.project / "work/exemplars")
    ledger = workshop.project / "work/.exemplars-unfinished/train/all"
    shutil.copytree(workshop.project / "work/corpus", ledger)  # anything
    (ledger / name).write_bytes(content)
    outcome = run_forked(damage.COMMANDS["retrieve"], workshop.project)
    assert outcome.status == 0, outcome.errors
    whole = workshop.whole / "work/exemplars/train.index.npy"
    assert (workshop.project / "work/exemplars/train.index.npy").read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("target", TARGETS)
def test_no_mutation_gets_through(target: str) -> None:
    found = fuzz(target, cases={"run": 100, "index": 100, "bundle": 100}.get(target, 500))
    assert not found["problems"]
    assert not found["hangs"]
    assert found["refused"] > found["executions"] // 3
    assert found["memory_growth_mib"] < 200
