"""What earlier versions wrote can still be read: a corpus, exemplars, an index, a run and a bundle of each format.

`tests/frozen/format1.tar.xz` was made once, from the toy task, and `format1.exadec` once from the run in it, with
exemplars. They are never made again: a new format gets its own file.
"""

import json
import tarfile
from pathlib import Path

import pytest

from exadec.api import load
from exadec.corpus.prepare import Corpus
from exadec.corpus.stage import hash_value
from exadec.errors import InputError
from exadec.exemplars.index import BowIndex
from exadec.exemplars.retrieve import open_trained_exemplars
from exadec.training.checkpoint import open_corpus, open_run
from support.command import SOURCE, assert_refused, exadec
from support.damage import read_members, write_members

FROZEN = Path(__file__).parent / "frozen"
BUNDLES = sorted(FROZEN.glob("*.exadec"))


@pytest.fixture(params=sorted(path.name for path in FROZEN.glob("*.tar.xz")))
def opened(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder `work` of an earlier version; paths in it are relative to the current folder."""
    with tarfile.open(FROZEN / request.param) as file:
        file.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    return Path("work")


def test_corpus_exemplars_and_index_are_read(opened: Path) -> None:
    corpus = Corpus(opened / "corpus")
    corpus.verify()
    assert [corpus.size(split) for split in ("train", "valid", "test")] == [60, 60, 60]
    run = open_run(opened / "run")
    exemplars = open_trained_exemplars(corpus, run.config.exemplars, run.facts["exemplars"])
    assert exemplars.indices("test").shape == (60,)
    index = BowIndex.open(opened / "index-words-raw", corpus.hash)
    (hit,) = index.search("house3 house3 house3 n3 k5")
    assert corpus.target(hit.id) == "up n3 k11"


def test_run_writes_what_it_wrote(opened: Path) -> None:
    run = open_run(opened / "run")
    assert open_corpus(run).hash == run.facts["corpus"]
    assert len(run.evaluations()) == 6
    assert run.created_on is None
    generation = load(opened / "run").write("house3 house3 house3 n3 k5")
    assert (generation.exemplar, generation.text) == ("up n3 k11", "up n5")
    assert generation.score == pytest.approx(-2.0424, abs=1e-3)


@pytest.mark.parametrize("path", BUNDLES, ids=lambda path: path.name)
def test_bundle_writes_what_it_wrote(path: Path) -> None:
    writer = load(path)
    writer.run.files.verify()
    generation = writer.write("house3 house3 house3 n3 k5")
    assert (generation.exemplar, generation.text) == ("up n3 k11", "up n5")
    assert generation.score == pytest.approx(-2.0424, abs=1e-3)
    assert writer.write("house3 n3 k5", "down k1 n1").exemplar == "down k1 n1"


def test_run_of_a_later_format_is_refused(opened: Path) -> None:
    facts = json.loads((opened / "run" / "run.json").read_text("utf-8"))
    assert facts["format"] == 1
    (opened / "run" / "run.json").write_text(json.dumps({**facts, "format": 2}), "utf-8")
    with pytest.raises(
        InputError, match="work/run: a run of another format than 1; open it with the version that made"
    ):
        open_run(opened / "run")


def test_index_of_a_later_format_is_refused(opened: Path) -> None:
    manifest = opened / "index-words-raw" / "manifest.json"
    content = json.loads(manifest.read_text("utf-8"))
    assert content["format"].startswith("bag-of-words index 1,")
    changed = {**content, "format": content["format"].replace("index 1", "index 2")}
    manifest.write_text(json.dumps({**changed, "key": hash_value({**changed, "key": None})}), "utf-8")
    done = exadec("generate", opened / "run", stdin=SOURCE.encode())
    assert_refused(done, "index-words-raw: an index of another format than 'bag-of-words index 1,")
    assert f"delete {manifest.parent.resolve()} and build the index again." in done.stderr


@pytest.mark.parametrize("path", BUNDLES, ids=lambda path: path.name)
def test_bundle_of_a_later_format_is_refused(path: Path, tmp_path: Path) -> None:
    members = read_members(path)
    manifest = json.loads(members["manifest.json"])
    assert manifest["format"] == 1
    members["manifest.json"] = json.dumps({**manifest, "format": 2}).encode()
    write_members(tmp_path / "later.exadec", members)
    done = exadec("generate", tmp_path / "later.exadec", stdin=SOURCE.encode())
    assert_refused(done, "later.exadec: of another format than 1; open it with the version of exadec that made it.")
