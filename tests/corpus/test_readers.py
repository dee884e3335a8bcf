"""The list of formats: a new one is one line, and an unknown one is refused."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exadec.config import Config, ConfigError, CorpusConfig
from exadec.corpus.prepare import prepare
from exadec.corpus.readers import FORMATS, find_format, known_styles
from exadec.corpus.readers.record_files import RecordFiles
from exadec.corpus.record import SPLITS, Record
from exadec.errors import InputError
from support.reader_files import write


def test_unknown_format_is_refused_with_the_list() -> None:
    names = "records, wire, gigaword, nyt, wikibio, e2e, webnlg"
    with pytest.raises(ConfigError, match=f"`corpus.format` must be one of {names}, but is 'duc' instead"):
        find_format(CorpusConfig(format="duc"))


def test_records_are_read_from_the_files_that_are_named(tmp_path: Path) -> None:
    files = {
        split: str(write(tmp_path / f"{split}.jsonl", f'{{"source": "a", "target": "{split}"}}')) for split in SPLITS
    }
    config = CorpusConfig(**files)
    assert {name: str(path) for name, path in find_format(config).inputs(config).items()} == files
    for split in SPLITS:
        assert [record.target for record in find_format(config).read(config, split)] == [split]
    with pytest.raises(ConfigError, match=r"`corpus\.test` is missing: name the file of test records"):
        find_format(config).inputs(CorpusConfig(train=files["train"], valid=files["valid"]))


def test_the_wire_depends_on_its_generator_and_its_settings() -> None:
    config = CorpusConfig(format="wire", wire_train=5, wire_heldout=3, wire_outlets=10)
    wire = find_format(config)
    assert [path.name for path in wire.inputs(config).values()] == ["wire.py", "wire_lexicon.py"]
    assert {split: len(list(wire.read(config, split))) for split in SPLITS} == {"train": 5, "valid": 3, "test": 3}


def test_only_the_wire_has_known_styles() -> None:
    assert [name for name in FORMATS if known_styles(CorpusConfig(format=name))] == ["wire"]
    config = CorpusConfig(format="wire", wire_train=50)
    styles = known_styles(config)
    assert styles
    records = list(find_format(config).read(config, "train"))
    assert all(styles.style_of(record.target) for record in records)
    assert styles.style_of("What is said in no house style.") is None
    assert len({styles.subject_of(record) for record in records}) > 1


class Shouts(RecordFiles):
    """Records of one's own, some of them in capitals."""

    about = "Some texts are in capitals."

    def style_of(self, text: str) -> str | None:
        return "capitals" if text.isupper() else None

    def subject_of(self, record: Record) -> str:
        return record.source


def test_a_new_format_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its corpus is prepared, and its styles are known, without any other change."""
    monkeypatch.setitem(FORMATS, "shouts", Shouts())
    lines = "".join(f'{{"source": "a b", "target": "{text}"}}\n' for text in ("OH NO", "oh no"))
    files = {split: str(write(tmp_path / f"{split}.jsonl", lines)) for split in SPLITS}
    words = {"segmentation": "words", "vocabulary_size": 20}
    config = Config.from_dict({"folder": str(tmp_path / "work"), "corpus": {"format": "shouts", **files, **words}})
    corpus = prepare(config)
    styles = known_styles(corpus.config)
    assert styles
    assert [styles.style_of(record.target) for record in corpus.records("train")] == ["capitals", None]


SEEDS = Path(__file__).parents[1] / "campaign" / "seeds"
ALL_SEEDS = [path for path in sorted(SEEDS.rglob("*")) if path.is_file()]


@pytest.mark.parametrize("seed", ALL_SEEDS, ids=lambda path: str(path.relative_to(SEEDS)))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_file_is_read_or_refused_in_one_line(seed: Path, data: st.DataObject) -> None:
    """Part of a file of a published data set is replaced by any bytes, or by any text."""
    name = seed.relative_to(SEEDS).parts[0]
    content = seed.read_bytes()
    begin = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(begin, min(len(content), begin + 40)))
    inserted = data.draw(st.binary(max_size=20) | st.text(max_size=20).map(str.encode))
    format = FORMATS[name]
    with TemporaryDirectory() as made:
        home = Path(shutil.copytree(SEEDS / name, Path(made) / name))
        (home / seed.relative_to(SEEDS / name)).write_bytes(content[:begin] + inserted + content[end:])
        for split in SPLITS:
            try:
                for record in format.read(CorpusConfig(format=name, source_folder=str(home)), split):
                    record.source.encode()
            except InputError as error:
                assert "\n" not in str(error)  # noqa: PT017 - most changes are refused, but not all
