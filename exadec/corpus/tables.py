"""Readers of published data-to-text data sets: WikiBio, E2E and WebNLG; and the list of all published formats.

In: a folder as its publisher laid it out. Out: `Record`s whose tables are kept beside the linearised text.
"""

import csv
import re
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree

from exadec.corpus.record import Record, linearize, read_lines
from exadec.corpus.summaries import (
    SPLITS,
    gigaword_files,
    locate,
    nyt_files,
    read_aligned,
    read_elements,
    read_gigaword,
    read_nyt,
    require_split,
    spaced,
)
from exadec.errors import InputError

Table = tuple[tuple[str, str], ...]

NONE = "<none>"
"""The value of a WikiBio field that the infobox leaves open."""

E2E_FILES = {"train": "trainset.csv", "valid": "devset.csv", "test": "testset_w_refs.csv"}

_NUMBERED = re.compile(r"(.+)_(\d+)")
# One `attribute[value]` of a meaning representation, with the comma that separates it from the next one.
_SLOT = re.compile(r"\s*([^\[\],]+?)\s*\[([^\[\]]*)\]\s*(?:,|$)")


def _table_record(uid: str, table: Table, target: str, references: tuple[str, ...] = ()) -> Record:
    return Record(uid=uid, source=linearize(table), target=target, table=table, references=references)


# WikiBio --------------------------------------------------------------------------------------------------------------


def wikibio_files(folder: Path, split: str) -> list[Path]:
    """`.box`, `.nb` and `.sent` of the original; `.box` and `.summary` where there are no sentences."""
    require_split(split)
    box, numbers, sentences, summary = (
        locate(folder, f"{split}/{split}.{ending}") for ending in ("box", "nb", "sent", "summary")
    )
    if sentences.is_file() or numbers.is_file() or not summary.is_file():
        return [box, numbers, sentences]
    return [box, summary]


def read_wikibio(folder: Path, split: str) -> Iterator[Record]:
    """Infoboxes and first sentences (Lebret et al., 2016), tokens such as `-lrb-` as they come."""
    box, *rest = wikibio_files(folder, split)
    pairs = read_aligned(box, rest[0]) if len(rest) == 1 else _first_sentences(box, *rest)
    for number, line, sentence in pairs:
        yield _table_record(str(number - 1), _parse_box(line, f"{box}:{number}"), spaced(sentence))


def _first_sentences(box: Path, numbers: Path, sentences: Path) -> Iterator[tuple[int, str, str]]:
    """(line number, table, first sentence): `.nb` says how many lines of `.sent` belong to each table."""
    texts = read_lines(sentences)
    expected = found = 0
    for number, line, announced in read_aligned(box, numbers):
        if not announced.strip().isdecimal() or int(announced) < 1:
            rule = "expected a number of sentences of at least 1"
            raise InputError(f"{numbers}:{number}: {rule}, but found {announced.strip()!r}.")
        expected += int(announced)
        own = [text for _, (_, text) in zip(range(int(announced)), texts, strict=False)]
        found += len(own)
        if found < expected:
            message = f"{expected} sentences are announced up to here, but {sentences.name} has only {found}."
            raise InputError(f"{numbers}:{number}: {message}")
        if not own[0].strip():
            raise InputError(f"{sentences}:{found - len(own) + 1}: the line is empty.")
        yield number, line, own[0]
    surplus = sum(1 for _ in texts)
    if surplus:
        message = f"{numbers.name} announces {expected} sentences, but {sentences.name} has {expected + surplus}."
        raise InputError(f"{sentences}:{expected + 1}: {message}")


def _parse_box(line: str, where: str) -> Table:
    """`name_1:ada<TAB>name_2:lovelace<TAB>image:<none>` -> (("name", "ada lovelace"),)."""
    fields: dict[str, list[tuple[int, str]]] = {}
    for cell in line.split("\t"):
        if not cell.strip():
            continue
        name, colon, token = cell.partition(":")  # values may hold colons, names do not
        if not colon or not name.strip():
            raise InputError(f"{where}: expected field:token between tabs, but found {cell!r}.")
        numbered = _NUMBERED.fullmatch(name)
        field, position = (numbered[1], int(numbered[2])) if numbered else (name, 1)
        if token.strip() and token != NONE:
            fields.setdefault(field, []).append((position, token))
    if not fields:
        raise InputError(f"{where}: no field of the table has a value.")
    return tuple(
        (spaced(field), spaced(" ".join(token for _, token in sorted(tokens, key=lambda pair: pair[0]))))
        for field, tokens in fields.items()
    )


# E2E ------------------------------------------------------------------------------------------------------------------


def e2e_files(folder: Path, split: str) -> list[Path]:
    """The one CSV file of a split."""
    require_split(split)
    return [locate(folder, E2E_FILES[split])]


def read_e2e(folder: Path, split: str) -> Iterator[Record]:
    """Meaning representations and descriptions (Novikova et al., 2017).

    For training, every row is a record. For development and test, consecutive rows with the same meaning
    representation are one record whose references are all their descriptions.
    """
    (path,) = e2e_files(folder, split)
    rows = _e2e_rows(path)
    groups = (
        ([row] for row in rows) if split == "train" else (list(same) for _, same in groupby(rows, lambda row: row[1]))
    )
    count = 0
    for count, group in enumerate(groups, start=1):
        line, meaning, first = group[0]
        references = () if split == "train" else tuple(text for _, _, text in group)
        yield _table_record(str(count - 1), _parse_meaning(meaning, f"{path}:{line}"), first, references)
    if count == 0:
        raise InputError(f"{path}: the file holds no records.")


def _e2e_rows(path: Path) -> Iterator[tuple[int, str, str]]:
    """(last line of the row, meaning representation, description)"""
    reader = csv.reader((line + "\n" for _, line in read_lines(path)), strict=True)
    try:
        header = next(reader, [])
        missing = [name for name in ("mr", "ref") if name not in header]
        if missing:
            found = ", ".join(header) or "nothing"
            raise InputError(f"{path}:1: expected the columns mr and ref, but found {found} in the first line.")
        meaning, reference = header.index("mr"), header.index("ref")
        for row in filter(None, reader):
            if len(row) != len(header):
                raise InputError(f"{path}:{reader.line_num}: expected {len(header)} columns, but found {len(row)}.")
            if not row[reference].strip():
                raise InputError(f"{path}:{reader.line_num}: the description is empty.")
            yield reader.line_num, spaced(row[meaning]), spaced(row[reference])
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: {error}.") from None


def _parse_meaning(meaning: str, where: str) -> Table:
    """`name[The Eagle], food[French]` -> (("name", "The Eagle"), ("food", "French"))."""
    pairs, end = [], 0
    while end < len(meaning):
        slot = _SLOT.match(meaning, end)
        if slot is None:
            raise InputError(f"{where}: expected attribute[value], but found {meaning[end:].strip()!r}.")
        if slot[2].strip():
            pairs.append((slot[1], spaced(slot[2])))
        end = slot.end()
    if not pairs:
        raise InputError(f"{where}: the meaning representation is empty.")
    return tuple(pairs)


# WebNLG ---------------------------------------------------------------------------------------------------------------


def webnlg_files(folder: Path, split: str) -> list[Path]:
    """All XML files below the split's folder (`dev` or `valid` for development), less those not for generation."""
    require_split(split)
    names = ("dev", "valid") if split == "valid" else (split,)
    home = next((folder / name for name in names if (folder / name).is_dir()), folder / names[0])
    if not home.is_dir():
        raise InputError(f"{home}: no such folder.")
    # The test folder of release 3 also holds the same entries without texts, and those of the parsing task.
    paths = [path for path in sorted(home.rglob("*.xml")) if not re.search("without|semantic-parsing", path.name)]
    if not paths:
        raise InputError(f"{home}: the folder holds no XML files.")
    return paths


def read_webnlg(folder: Path, split: str) -> Iterator[Record]:
    """Sets of triples and texts (Gardent et al., 2017).

    For training, every text is a record. For development and test, the texts of an entry are its references.
    """
    for path in webnlg_files(folder, split):
        count = 0
        for count, (number, entry) in enumerate(read_elements(path, "entry"), start=1):
            where = f"{path}:{number}"
            table = _parse_triples(entry, where)
            # Release 3 has Russian texts beside the English ones.
            texts = [spaced("".join(lex.itertext())) for lex in entry.findall("lex") if lex.get("lang", "en") == "en"]
            texts = [text for text in texts if text]
            if not texts:
                raise InputError(f"{where}: entry {entry.get('eid')!r} has no text (`lex`).")
            uid = f"{path.stem}/{entry.get('eid', count)}"
            if split == "train":
                for position, text in enumerate(texts, start=1):
                    yield _table_record(f"{uid}/{position}", table, text)
            else:
                yield _table_record(uid, table, texts[0], tuple(texts))
        if count == 0:
            raise InputError(f"{path}: the file holds no entries.")


def _parse_triples(entry: ElementTree.Element, where: str) -> Table:
    """(property, object) pairs; ("subject", name) stands before the first triple about each subject in turn."""
    pairs: list[tuple[str, str]] = []
    previous = None
    for triple in entry.findall("./modifiedtripleset/mtriple"):
        parts = [part.strip() for part in (triple.text or "").split(" | ")]
        if len(parts) != 3 or not all(parts):
            raise InputError(f"{where}: expected subject | property | object, but found {triple.text!r}.")
        subject, attribute, value = parts
        if subject != previous:
            pairs.append(("subject", _entity(subject)))
            previous = subject
        pairs.append((attribute, _entity(value)))
    if not pairs:
        raise InputError(f"{where}: entry {entry.get('eid')!r} has no triples (`modifiedtripleset`).")
    return tuple(pairs)


def _entity(name: str) -> str:
    """`Ada_Lovelace` and `"Ada Lovelace"` as text: what a writer would write, so that it can be copied."""
    return spaced(name.replace("_", " ").strip('"')) or name


# All published formats ------------------------------------------------------------------------------------------------

READERS: dict[str, Callable[[Path, str], Iterator[Record]]] = {
    "gigaword": read_gigaword,
    "nyt": read_nyt,
    "wikibio": read_wikibio,
    "e2e": read_e2e,
    "webnlg": read_webnlg,
}
"""Format -> reader(folder, split)."""

_FILES: dict[str, Callable[[Path, str], list[Path]]] = {
    "gigaword": gigaword_files,
    "nyt": nyt_files,
    "wikibio": wikibio_files,
    "e2e": e2e_files,
    "webnlg": webnlg_files,
}


def published_files(format: str, folder: Path) -> list[Path]:
    """Every file that the three splits of a format are read from; a missing one is refused by name."""
    if format not in _FILES:
        raise InputError(f"a published format is one of {', '.join(_FILES)}, but got {format!r} instead.")
    paths = list(dict.fromkeys(path for split in SPLITS for path in _FILES[format](folder, split)))
    for path in paths:
        if not path.is_file():
            raise InputError(f"{path}: no such file.")
    return paths
