"""Published data sets through `prepare`: wired to the configuration, hashed, and refused by name."""

from pathlib import Path

import pytest

from exadec.config import Config, ConfigError
from exadec.corpus.prepare import prepare
from exadec.errors import InputError


def write_gigaword(folder: Path, sentences: list[str]) -> None:
    folder.mkdir(exist_ok=True)
    for name in ("train.article.txt", "valid.article.filter.txt", "input.txt"):
        (folder / name).write_text("".join(f"{sentence}\n" for sentence in sentences), "utf-8")
    for name in ("train.title.txt", "valid.title.filter.txt", "task1_ref0.txt"):
        (folder / name).write_text("".join(f"title {i}\n" for i in range(len(sentences))), "utf-8")


def gigaword(folder: Path) -> Config:
    corpus = {"format": "gigaword", "source_folder": str(folder / "giga"), "segmentation": "words"}
    return Config.from_dict({"folder": str(folder / "work"), "corpus": corpus})


def test_gigaword_is_prepared_and_prepared_again_when_a_file_changes(tmp_path: Path) -> None:
    write_gigaword(tmp_path / "giga", ["unk said # people", "a second one"])
    corpus = prepare(gigaword(tmp_path))
    assert corpus.manifest["records"] == {"train": 2, "valid": 2, "test": 2}
    assert set(corpus.manifest["inputs"]) == {
        "train.article.txt",
        "train.title.txt",
        "valid.article.filter.txt",
        "valid.title.filter.txt",
        "input.txt",
        "task1_ref0.txt",
    }
    assert corpus.text(corpus.sources("train")[0]) == "unk said # people"
    write_gigaword(tmp_path / "giga", ["changed", "a second one"])
    assert prepare(gigaword(tmp_path)).hash != corpus.hash


def test_missing_and_misaligned_files_leave_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"giga: no such folder \(named by `corpus.source_folder`\)"):
        prepare(gigaword(tmp_path))
    write_gigaword(tmp_path / "giga", ["one", "two"])
    (tmp_path / "giga" / "task1_ref0.txt").write_text("only one\n", "utf-8")
    with pytest.raises(InputError, match=r"task1_ref0\.txt"):
        prepare(gigaword(tmp_path))
    assert not list((tmp_path / "work").glob("*"))
    with pytest.raises(ConfigError, match=r"`corpus\.source_folder` is missing: say where the e2e files are"):
        prepare(Config.from_dict({"folder": str(tmp_path / "work"), "corpus": {"format": "e2e"}}))
