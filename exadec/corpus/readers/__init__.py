"""Data sets -> `Record`s: one file for each format, and the one list of them.

A new data set is a new file here and a line in `FORMATS`. If its texts show which style they are written in, its
format is also a `KnownStyles`; scores, reports and swaps then use them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, runtime_checkable

from exadec.config import CorpusConfig
from exadec.corpus.readers.e2e import e2e_files, read_e2e
from exadec.corpus.readers.generated_wire import GeneratedWire
from exadec.corpus.readers.gigaword import gigaword_files, read_gigaword
from exadec.corpus.readers.nyt import nyt_files, read_nyt
from exadec.corpus.readers.published import PublishedFormat
from exadec.corpus.readers.record_files import RecordFiles
from exadec.corpus.readers.webnlg import read_webnlg, webnlg_files
from exadec.corpus.readers.wikibio import read_wikibio, wikibio_files
from exadec.corpus.record import Lines, Record, chunked
from exadec.strict_yaml import require_choice


class Format(Protocol):
    """How the data that a configuration names become records."""

    def inputs(self, config: CorpusConfig) -> dict[str, Path]:
        """All files that the records depend on, by a name that stays the same when the data move."""

    def read(self, config: CorpusConfig, split: str) -> Iterator[Record]:
        """The records of a split, one at a time."""


@runtime_checkable
class KnownStyles(Protocol):
    """What a format offers beyond `Format` if its texts show which style they are written in."""

    about: str
    """What the styles are, for the reader of a report."""

    def style_of(self, text: str) -> str | None:
        """The style of any text; None for a text in none of the known styles."""

    def subject_of(self, record: Record) -> str:
        """What a record is about: examples are picked so that they differ in it."""


FORMATS: dict[str, Format] = {
    "records": RecordFiles(),
    "wire": GeneratedWire(),
    "gigaword": PublishedFormat(gigaword_files, read_gigaword),
    "nyt": PublishedFormat(nyt_files, read_nyt),
    "wikibio": PublishedFormat(wikibio_files, read_wikibio),
    "e2e": PublishedFormat(e2e_files, read_e2e),
    "webnlg": PublishedFormat(webnlg_files, read_webnlg),
}
"""What `corpus.format` may be."""


@runtime_checkable
class InChunks(Protocol):
    """What a format offers beyond `Format` if its records can be read before they are parsed."""

    def chunks(self, config: CorpusConfig, split: str) -> Iterator[Lines | list[Record]]:
        """The records of a split, many at a time; lines are left for other processes to parse."""


def find_format(config: CorpusConfig) -> Format:
    """The format that `corpus.format` names; an unknown one is refused with the list."""
    require_choice(config.format, FORMATS, "corpus.format")
    return FORMATS[config.format]


def read_split(config: CorpusConfig, split: str) -> Iterator[Lines | list[Record]]:
    """The records of a split, many at a time, parsed or not."""
    format = find_format(config)
    return format.chunks(config, split) if isinstance(format, InChunks) else chunked(format.read(config, split))


def known_styles(config: CorpusConfig) -> KnownStyles | None:
    """The styles of a corpus's texts, or None where nobody can tell them."""
    format = find_format(config)
    return format if isinstance(format, KnownStyles) else None
