"""Data sets -> `Record`s: one file for each format, and the list of them.

To add a data set, add a file here and a line to `FORMATS`. If the style of a text can be told from the text, the format
also implements `KnownStyles`, which scores, reports and swaps then use.
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
    """How to read the records of the data that a configuration names."""

    def inputs(self, config: CorpusConfig) -> dict[str, Path]:
        """All files that the records depend on, by a name that does not change when the data is moved."""

    def read(self, config: CorpusConfig, split: str) -> Iterator[Record]:
        """The records of a split, one at a time."""


@runtime_checkable
class KnownStyles(Protocol):
    """An optional addition to `Format`, for data in which the style of a text can be told from the text."""

    about: str
    """A description of the styles, for reports."""

    def style_of(self, text: str) -> str | None:
        """The style of a text; None if it is in none of the known styles."""

    def subject_of(self, record: Record) -> str:
        """What a record is about. Examples are chosen to have different subjects."""


FORMATS: dict[str, Format] = {
    "records": RecordFiles(),
    "wire": GeneratedWire(),
    "gigaword": PublishedFormat(gigaword_files, read_gigaword),
    "nyt": PublishedFormat(nyt_files, read_nyt),
    "wikibio": PublishedFormat(wikibio_files, read_wikibio),
    "e2e": PublishedFormat(e2e_files, read_e2e),
    "webnlg": PublishedFormat(webnlg_files, read_webnlg, revision=2),
}
"""All values of `corpus.format`."""


@runtime_checkable
class InChunks(Protocol):
    """An optional addition to `Format`, for records that can be read without parsing them."""

    def chunks(self, config: CorpusConfig, split: str) -> Iterator[Lines | list[Record]]:
        """The records of a split in chunks; other processes can parse the lines."""


def find_format(config: CorpusConfig) -> Format:
    """The format that `corpus.format` names; the error for an unknown one lists all formats."""
    require_choice(config.format, FORMATS, "corpus.format")
    return FORMATS[config.format]


def revision_of(config: CorpusConfig) -> int:
    """Of the format's reader: see `PublishedFormat.revision`."""
    format = find_format(config)
    return format.revision if isinstance(format, PublishedFormat) else 1


def read_split(config: CorpusConfig, split: str) -> Iterator[Lines | list[Record]]:
    """The records of a split in chunks, parsed or not."""
    format = find_format(config)
    return format.chunks(config, split) if isinstance(format, InChunks) else chunked(format.read(config, split))


def known_styles(config: CorpusConfig) -> KnownStyles | None:
    """The known styles of a corpus's texts; None if they are unknown."""
    format = find_format(config)
    return format if isinstance(format, KnownStyles) else None
