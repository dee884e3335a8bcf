"""The New York Times Annotated Corpus: articles and abstracts (LDC2008T19), with the split of Durrett et al. (2016).

In: the folder of unpacked NITF files. Out: `Record`s, one at a time; errors in a damaged file name the line.
"""

import logging
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from exadec.corpus.readers.published import read_elements, require_split, spaced
from exadec.corpus.record import Record, log_skipped
from exadec.corpus.segment import WordSegmenter
from exadec.errors import InputError
from exadec.reading.lines import read_lines

NYT_YEARS = (2003, 2007)
"""The first and the last year that Durrett et al. use."""
NYT_TEST_SINCE = "20070101"
"""Documents published on this day or later are for testing (Durrett et al., 2016)."""
NYT_SUMMARY_OVER = 50
"""Test documents are used if their summaries have more tokens than this (section 4.2)."""
NYT_DEVELOPMENT = 9_000
"""Training documents drawn at random for development (section 4.2)."""
NYT_SEED = 1
"""Ours: the paper does not say which documents it drew."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class NytDocument:
    """The parts of a NITF file that we use."""

    uid: str
    published: str
    """YYYYMMDD"""
    article: str
    summary: str

    def to_record(self) -> Record:
        return Record(uid=self.uid, source=self.article, target=self.summary)


def nyt_files(folder: Path, split: str) -> list[Path]:
    """The files that may hold documents of a split, and the list of its documents, if there is one."""
    require_split(split)
    part = _nyt_part(split)
    listing = folder / f"{part}.ids"
    return [*([listing] if listing.is_file() else []), *_walk_nyt(folder, part)]


def read_nyt(folder: Path, split: str, development: int = NYT_DEVELOPMENT, seed: int = NYT_SEED) -> Iterator[Record]:
    """Articles and abstracts of the LDC's NITF files, in the split of Durrett et al. (2016) and section 4.2.

    Documents without an abstract or without full text are skipped. If the folder has `train.ids` or `test.ids` (one
    document number per line), only those documents are used.
    """
    require_split(split)
    if split == "test":
        yield from _read_nyt_test(folder)
        return
    # Only document numbers are kept between the two passes. Sorting makes the draw independent of the folder's layout.
    uids = sorted(document.uid for document in _read_documents(folder, "train", []))
    if len(uids) <= development:
        raise InputError(
            f"{folder}: {development:,} training documents must be drawn for development, "
            f"but there are only {len(uids):,} documents with an abstract from before 2007."
        )
    drawn = set(random.Random(seed).sample(uids, development))  # noqa: S311 - a draw, no secret
    skipped: list[str] = []
    for document in _read_documents(folder, "train", skipped):
        if (document.uid in drawn) == (split == "valid"):
            yield document.to_record()
    log_skipped(skipped)


def _read_nyt_test(folder: Path) -> Iterator[Record]:
    words = WordSegmenter(pretokenized=False, lower_case=False)
    count = used = 0
    skipped: list[str] = []
    for document in _read_documents(folder, "test", skipped):
        count += 1
        if len(words.segment(document.summary)) > NYT_SUMMARY_OVER:
            used += 1
            yield document.to_record()
    log_skipped(skipped)
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


def _read_documents(folder: Path, part: str, skipped: list[str]) -> Iterator[NytDocument]:
    """The documents of `train` (development included) or `test` that have an article and an abstract.

    The files of those that lack one of them are added to `skipped`.
    """
    first = f"{NYT_YEARS[0]}0101"
    listing = folder / f"{part}.ids"
    listed = {line.strip() for _, line in read_lines(listing)} if listing.is_file() else None
    for path in _walk_nyt(folder, part):
        document = _read_document(path)
        in_part = (
            document.published >= NYT_TEST_SINCE if part == "test" else first <= document.published < NYT_TEST_SINCE
        )
        if in_part and (listed is None or document.uid in listed):
            if document.article and document.summary:
                yield document
            else:
                skipped.append(str(path))


def _walk_nyt(folder: Path, part: str) -> Iterator[Path]:
    """XML files, sorted by name. Folders named after other years are skipped."""
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
