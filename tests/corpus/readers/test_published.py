"""Published data sets: streamed, prepared, hashed, and refused with the name of what is missing."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from exadec.config import Config, ConfigError, CorpusConfig
from exadec.corpus.prepare import prepare
from exadec.corpus.readers import FORMATS, find_format
from exadec.corpus.readers.e2e import read_e2e
from exadec.corpus.readers.gigaword import read_gigaword
from exadec.corpus.readers.published import PublishedFormat
from exadec.corpus.readers.webnlg import read_webnlg
from exadec.corpus.readers.wikibio import read_wikibio
from exadec.errors import InputError
from support.reader_files import published_files, refusal, write


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


def test_a_corpus_is_prepared_again_by_a_revised_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gigaword(tmp_path / "giga", ["one", "two"])
    corpus = prepare(gigaword(tmp_path))
    assert "reader" not in corpus.manifest  # so that corpora made before there were revisions are as fresh as this one
    monkeypatch.setitem(FORMATS, "gigaword", replace(FORMATS["gigaword"], revision=2))
    revised = prepare(gigaword(tmp_path))
    assert revised.hash != corpus.hash
    assert prepare(gigaword(tmp_path)).hash == revised.hash


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


READERS = {name: format.records for name, format in FORMATS.items() if isinstance(format, PublishedFormat)}


def test_five_data_sets_can_be_read_as_published() -> None:
    assert list(READERS) == ["gigaword", "nyt", "wikibio", "e2e", "webnlg"]


@pytest.mark.parametrize("format", READERS)
def test_unknown_split_is_refused(tmp_path: Path, format: str) -> None:
    message = "a split is one of train, valid, test, but got 'dev' instead"
    assert message in refusal(READERS[format], tmp_path, "dev")


@pytest.mark.parametrize(
    ("format", "name"),
    [("gigaword", "train.article.txt"), ("wikibio", "train.box"), ("e2e", "trainset.csv"), ("webnlg", "train")],
)
def test_missing_file_is_named(tmp_path: Path, format: str, name: str) -> None:
    message = re.compile(re.escape(str(tmp_path / name)) + ": no such (file|folder)")
    assert message.search(refusal(READERS[format], tmp_path))
    with pytest.raises(InputError, match=message):
        published_files(format, tmp_path)


def test_published_files_are_all_files_of_the_three_splits(tmp_path: Path) -> None:
    names = ["trainset.csv", "devset.csv", "testset_w_refs.csv"]
    for name in names:
        write(tmp_path / name, "mr,ref\nname[A],x\n")
    assert [path.name for path in published_files("e2e", tmp_path)] == names


WEBNLG = """<benchmark><entries><entry eid="1">
<modifiedtripleset><mtriple>a | b | c</mtriple></modifiedtripleset><lex>a b c.</lex>
</entry></entries></oops>
"""


def test_readers_stream(tmp_path: Path) -> None:
    """The first record comes before the damage behind it is seen: a reader does not hold the file."""
    write(tmp_path / "train.article.txt", b"a\n\xff\n")
    write(tmp_path / "train.title.txt", "x\ny\n")
    write(tmp_path / "trainset.csv", "mr,ref\nname[A],x\nname[B]\n")
    write(tmp_path / "train.box", "name_1:a\nname\n")
    write(tmp_path / "train.summary", "x\ny\n")
    write(tmp_path / "train" / "a.xml", WEBNLG)
    for reader in (read_gigaword, read_e2e, read_wikibio, read_webnlg):
        records = reader(tmp_path, "train")
        assert next(records)
        with pytest.raises(InputError):
            list(records)


ENTITIES = {
    "bomb": '<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY x "&b;&b;&b;&b;">',
    "long": f'<!ENTITY x "{"ha" * 1000}">',
    "external": '<!ENTITY x SYSTEM "file://{secret}">',
    "public": '<!ENTITY x PUBLIC "-//X" "file://{secret}">',
    "parameter": '<!ENTITY % p SYSTEM "file://{secret}"> %p;',
    "parameter that declares": """<!ENTITY % p "&#60;!ENTITY x 'ha'>"> %p;""",
    "on two lines": '<!ENTITY\nx "ha">',
}
HOSTS = {
    "webnlg": ("train/a.xml", WEBNLG.replace("</oops>", "</benchmark>").replace("a b c.", "a &x; c.")),
    "nyt": ("2003/01/01/1.xml", "<nitf><head><pubdata date.publication='20030101'/></head><body>&x;</body></nitf>\n"),
}


@pytest.mark.parametrize("format", HOSTS)
@pytest.mark.parametrize("kind", ENTITIES)
def test_xml_that_declares_entities_is_refused(tmp_path: Path, format: str, kind: str) -> None:
    secret = write(tmp_path / "secret.txt", "SECRET")
    name, content = HOSTS[format]
    root = content[1:].partition(">")[0]
    declared = ENTITIES[kind].replace("{secret}", str(secret))
    write(tmp_path / name, f"<!DOCTYPE {root} [\n{declared}\n]>\n{content}")
    assert f"{name}:2: declares an XML entity" in refusal(READERS[format], tmp_path)


@pytest.mark.parametrize("format", HOSTS)
def test_an_external_dtd_is_not_read(tmp_path: Path, format: str) -> None:
    """What it declares stays unknown, so that a reference to it is an error, and its text does not come in."""
    dtd = write(tmp_path / "some.dtd", '<!ENTITY x "SECRET">\n')
    name, content = HOSTS[format]
    root = content[1:].partition(">")[0]
    write(tmp_path / name, f'<!DOCTYPE {root} SYSTEM "file://{dtd}">\n{content}')
    message = refusal(READERS[format], tmp_path)
    assert "not well-formed XML (undefined entity" in message
    assert "SECRET" not in message
    write(tmp_path / "train" / "a.xml", (tmp_path / name).read_text("utf-8").replace("&x;", "&amp; &#65;"))
    if format == "webnlg":
        assert next(read_webnlg(tmp_path, "train")).target == "a & A c."


@pytest.mark.parametrize("format", READERS)
def test_published_formats_need_their_folder(tmp_path: Path, format: str) -> None:
    with pytest.raises(ConfigError, match=f"`corpus.source_folder` is missing: say where the {format} files are"):
        find_format(CorpusConfig(format=format)).inputs(CorpusConfig(format=format))
    with pytest.raises(InputError, match=r"absent: no such folder \(named by `corpus.source_folder`\)"):
        published_files(format, tmp_path / "absent")
