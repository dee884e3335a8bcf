"""Readers of published summarization data sets: Gigaword and the New York Times Annotated Corpus.

In: a folder as its publisher laid it out. Out: `Record`s, one at a time; a damaged file is refused by its line.
"""

import logging
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from exadec.corpus.record import Record, read_lines
from exadec.corpus.segment import WordSegmenter
from exadec.errors import InputError

SPLITS = ("train", "valid", "test")

GIGAWORD_FILES = {
    "train": ("train/train.article.txt", "train/train.title.txt"),
    "valid": ("train/valid.article.filter.txt", "train/valid.title.filter.txt"),
    "test": ("Giga/input.txt", "Giga/task1_ref0.txt"),
}
"""(sentences, headlines) as the archive of Rush et al. unpacks; the subfolder may be left out."""

NYT_YEARS = (2003, 2007)
"""The first and the last year that Durrett et al. use."""
NYT_TEST_SINCE = "20070101"
"""Documents published on this day or later are for testing (Durrett et al., 2016)."""
NYT_SUMMARY_OVER = 50
"""Test documents are used when their summaries have more tokens than this (section 4.2)."""
NYT_DEVELOPMENT = 9_000
"""Training documents drawn at random for development (section 4.2)."""
NYT_SEED = 1
"""Ours: the paper does not say which documents it drew."""

logger = logging.getLogger(__name__)


# What all readers share -----------------------------------------------------------------------------------------------


def require_split(split: str) -> None:
    if split not in SPLITS:
        raise InputError(f"a split is one of {', '.join(SPLITS)}, but got {split!r} instead.")


def locate(folder: Path, name: str) -> Path:
    """The file `name` (or `name`.gz) below a folder; its subfolder may be left out.

    When there is none, the path comes back nevertheless, so that whoever opens it can name what is missing.
    """
    candidates = [folder / name, folder / Path(name).name]
    for candidate in candidates:
        for path in (candidate, candidate.with_name(candidate.name + ".gz")):
            if path.is_file():
                return path
    return candidates[-1]


def read_aligned(first: Path, second: Path) -> Iterator[tuple[int, str, str]]:
    """(line number, line of `first`, line of `second`); files of different length and empty lines are refused."""
    lines, others = read_lines(first), read_lines(second)
    number = 0
    for number, text in lines:
        other = next(others, None)
        if other is None:
            count = number + sum(1 for _ in lines)
            _refuse_lengths(first, count, second, number - 1)
        else:
            for path, content in ((first, text), (second, other[1])):
                if not content.strip():
                    raise InputError(f"{path}:{number}: the line is empty.")
            yield number, text, other[1]
    surplus = sum(1 for _ in others)
    if surplus:
        _refuse_lengths(second, number + surplus, first, number)
    if number == 0:
        raise InputError(f"{first}: the file holds no lines.")


def _refuse_lengths(longer: Path, count: int, shorter: Path, short_count: int) -> None:
    raise InputError(
        f"{longer}:{short_count + 1}: {shorter} has no such line: "
        f"{longer.name} has {count} lines, but {shorter.name} has {short_count}."
    )


def read_elements(path: Path, tag: str) -> Iterator[tuple[int, ElementTree.Element]]:
    """(line of its end, element) for every element of this name in an XML file, without holding the whole file."""
    parser: ElementTree.XMLPullParser[ElementTree.Element] = ElementTree.XMLPullParser(("end",))
    try:
        for number, line in read_lines(path):
            parser.feed(line + "\n")
            for event in parser.read_events():
                element = event[-1]
                if isinstance(element, ElementTree.Element) and element.tag == tag:
                    yield number, element
                    element.clear()
        parser.close()
    except ElementTree.ParseError as error:
        line_number, column = error.position
        reason = str(error).partition(":")[0]
        raise InputError(f"{path}:{line_number}: not well-formed XML ({reason} at column {column + 1}).") from None


def spaced(text: str) -> str:
    """Text on one line, with single spaces."""
    return " ".join(text.split())


# Gigaword -------------------------------------------------------------------------------------------------------------


def gigaword_files(folder: Path, split: str) -> list[Path]:
    """The sentences and the headlines of a split."""
    require_split(split)
    return [locate(folder, name) for name in GIGAWORD_FILES[split]]


def read_gigaword(folder: Path, split: str) -> Iterator[Record]:
    """First sentences and headlines in the files of Rush et al. (2015), `UNK` and `#` as they come."""
    sentences, headlines = gigaword_files(folder, split)
    for number, sentence, headline in read_aligned(sentences, headlines):
        yield Record(uid=str(number - 1), source=spaced(sentence), target=spaced(headline))


# New York Times -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NytDocument:
    """What we use of a NITF file."""

    uid: str
    published: str
    """YYYYMMDD"""
    article: str
    summary: str

    def to_record(self) -> Record:
        return Record(uid=self.uid, source=self.article, target=self.summary)


def nyt_files(folder: Path, split: str) -> list[Path]:
    """The files that may hold documents of a split, and the list of its documents where there is one."""
    require_split(split)
    part = _nyt_part(split)
    listing = folder / f"{part}.ids"
    return [*([listing] if listing.is_file() else []), *_walk_nyt(folder, part)]


def read_nyt(folder: Path, split: str, development: int = NYT_DEVELOPMENT, seed: int = NYT_SEED) -> Iterator[Record]:
    """Articles and abstracts of the LDC's NITF files, in the split of Durrett et al. (2016) and section 4.2.

    Documents without an abstract or without full text are passed over. Where the folder holds `train.ids` or
    `test.ids` (one document number a line), no other documents are used.
    """
    require_split(split)
    if split == "test":
        yield from _read_nyt_test(folder)
        return
    # Only the numbers are kept between the two passes; sorting makes the draw independent of the folder's layout.
    uids = sorted(document.uid for document in _read_documents(folder, "train"))
    if len(uids) <= development:
        raise InputError(
            f"{folder}: {development:,} training documents must be drawn for development, "
            f"but there are only {len(uids):,} documents with an abstract from before 2007."
        )
    drawn = set(random.Random(seed).sample(uids, development))
    for document in _read_documents(folder, "train"):
        if (document.uid in drawn) == (split == "valid"):
            yield document.to_record()


def _read_nyt_test(folder: Path) -> Iterator[Record]:
    words = WordSegmenter(pretokenized=False, lower_case=False)
    count = used = 0
    for document in _read_documents(folder, "test"):
        count += 1
        if len(words.segment(document.summary)) > NYT_SUMMARY_OVER:
            used += 1
            yield document.to_record()
    logger.info(
        "%s: %d test documents (Table 1: 9,706), of which %d have summaries over %d tokens and are used (text: 3,452).",
        folder,
        count,
        used,
        NYT_SUMMARY_OVER,
    )
    if used == 0:
        raise InputError(
            f"{folder}: none of the {count:,} test documents has a summary of more than {NYT_SUMMARY_OVER} tokens."
        )


def _nyt_part(split: str) -> str:
    return "test" if split == "test" else "train"


def _read_documents(folder: Path, part: str) -> Iterator[NytDocument]:
    """The documents of `train` (development included) or `test` that have an article and an abstract."""
    first = f"{NYT_YEARS[0]}0101"
    listing = folder / f"{part}.ids"
    listed = {line.strip() for _, line in read_lines(listing)} if listing.is_file() else None
    for path in _walk_nyt(folder, part):
        document = _read_document(path)
        in_part = (
            document.published >= NYT_TEST_SINCE if part == "test" else first <= document.published < NYT_TEST_SINCE
        )
        if in_part and document.article and document.summary and (listed is None or document.uid in listed):
            yield document


def _walk_nyt(folder: Path, part: str) -> Iterator[Path]:
    """XML files in order of their names. Folders named after other years are not entered."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder.")
    years = {str(NYT_YEARS[1])} if part == "test" else {str(year) for year in range(*NYT_YEARS)}
    found = packed = 0
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not _is_year(name) or name in years)
        packed += sum(name.endswith(".tgz") for name in names)
        for name in sorted(names):
            if name.endswith(".xml"):
                found += 1
                yield Path(parent) / name
    if found == 0:
        hint = f", but {packed} .tgz archives: unpack them first" if packed else ""
        raise InputError(f"{folder}: no XML files of the {part} years ({', '.join(sorted(years))}){hint}.")


def _is_year(name: str) -> bool:
    return len(name) == 4 and name.isdecimal() and name.startswith(("19", "20"))


def _read_document(path: Path) -> NytDocument:
    document = None
    for number, root in read_elements(path, "nitf"):
        published = root.find("./head/pubdata")
        date = "" if published is None else published.get("date.publication", "")[:8]
        if len(date) != 8 or not date.isdecimal():
            raise InputError(f"{path}:{number}: no date of publication (YYYYMMDD in head/pubdata).")
        identity = root.find("./head/docdata/doc-id")
        uid = path.stem if identity is None else identity.get("id-string", path.stem)
        document = NytDocument(
            uid=uid,
            published=date,
            article=_paragraphs(root.find("./body/body.content/block[@class='full_text']")),
            summary=_paragraphs(root.find("./body/body.head/abstract")),
        )
    if document is None:
        raise InputError(f"{path}: no `nitf` element; expected a document of the New York Times Annotated Corpus.")
    return document


def _paragraphs(element: ElementTree.Element | None) -> str:
    return "" if element is None else spaced(" ".join(element.itertext()))
