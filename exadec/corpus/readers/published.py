"""Code shared by the readers of published data sets.

In: a folder in its publisher's layout. Out: its files, found, paired and parsed; errors name the file and line.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from exadec.config import CorpusConfig
from exadec.corpus.record import SPLITS, Record, Table, linearize, log_skipped
from exadec.errors import ConfigError, InputError
from exadec.reading.lines import read_lines

_ENTITY = "<!ENTITY"


@dataclass(frozen=True)
class PublishedFormat:
    """A data set in its publisher's layout, in `corpus.source_folder`."""

    files: Callable[[Path, str], list[Path]]
    """(folder, split) -> the files that the split is read from."""
    records: Callable[[Path, str], Iterator[Record]]
    """(folder, split) -> the records of the split."""
    revision: int = 1
    """Increased whenever the same files give other records, so that a corpus is prepared again."""

    def inputs(self, config: CorpusConfig) -> dict[str, Path]:
        """All files of the three splits, by path in the folder. The error for a missing file names it."""
        folder = _source_folder(config)
        paths = dict.fromkeys(path for split in SPLITS for path in self.files(folder, split))  # splits may share files
        for path in paths:
            if not path.is_file():
                raise InputError(f"{path}: no such file.")
        return {str(path.relative_to(folder)): path for path in paths}

    def read(self, config: CorpusConfig, split: str) -> Iterator[Record]:
        return self.records(_source_folder(config), split)


def _source_folder(config: CorpusConfig) -> Path:
    if config.source_folder is None:
        raise ConfigError(f"`corpus.source_folder` is missing: say where the {config.format} files are.")
    folder = Path(config.source_folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder (named by `corpus.source_folder`).")
    return folder


def table_record(uid: str, table: Table, target: str, references: tuple[str, ...] = ()) -> Record:
    """A record whose source is the linearised table."""
    return Record(uid=uid, source=linearize(table), target=target, table=table, references=references)


def require_split(split: str) -> None:
    if split not in SPLITS:
        raise InputError(f"a split is one of {', '.join(SPLITS)}, but got {split!r} instead.")


def locate(folder: Path, name: str) -> Path:
    """The file `name` (or `name`.gz) in a folder; its subfolder is optional.

    If there is no such file, the path is returned anyway, so that the error on opening it names the missing file.
    """
    candidates = [folder / name, folder / Path(name).name]
    for candidate in candidates:
        for path in (candidate, candidate.with_name(candidate.name + ".gz")):
            if path.is_file():
                return path
    return candidates[-1]


def read_aligned(first: Path, second: Path) -> Iterator[tuple[int, str, str]]:
    """`align` without the pairs of which one line is empty: these are counted and logged."""
    skipped = []
    for number, text, other in align(first, second):
        empty = [f"{path}:{number}" for path, content in ((first, text), (second, other)) if not content.strip()]
        skipped += empty[:1]
        if not empty:
            yield number, text, other
    log_skipped(skipped)


def align(first: Path, second: Path) -> Iterator[tuple[int, str, str]]:
    """(line number, line of `first`, line of `second`). Files of different length are errors."""
    lines, others = read_lines(first), read_lines(second)
    number = 0
    for number, text in lines:
        other = next(others, None)
        if other is None:
            count = number + sum(1 for _ in lines)
            _refuse_lengths(first, count, second, number - 1)
        else:
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
    """(line of the end tag, element) for each element with this tag in an XML file, which is never all in memory.

    A file that declares entities is refused, so that none can expand without limit or name another file. The parser
    itself reads no external DTD.
    """
    parser: ElementTree.XMLPullParser[ElementTree.Element] = ElementTree.XMLPullParser(("end",))
    try:
        for number, line in read_lines(path):
            if _ENTITY in line:  # whole: a line end cannot divide it
                raise InputError(f"{path}:{number}: declares an XML entity; for safety, exadec reads no such file.")
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
