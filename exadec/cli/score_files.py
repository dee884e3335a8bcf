"""The files that `exadec score` reads.

In: plain lines, records, or the outputs of a run. Out: texts, references, sources, exemplars: as many of each.
"""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from exadec.corpus.record import Reading, Record, Table, is_text_file, read_records
from exadec.errors import InputError
from exadec.reading.content import parse_json
from exadec.reading.lines import read_lines


def read_texts(path: Path) -> list[str]:
    """Plain lines, or the 'text' of each line of JSONL."""
    if is_text_file(path):
        return _read_plain(path)
    texts = _read_field(path, "text")
    if None in texts:
        raise InputError(f"{path}: line {texts.index(None) + 1} has no 'text'.")
    return [text for text in texts if text is not None]


def read_exemplars(path: Path) -> list[str | None]:
    """Plain lines, or the 'exemplar' of each line of JSONL. None where there is no exemplar."""
    lines: Sequence[str | None] = _read_plain(path) if is_text_file(path) else _read_field(path, "exemplar")
    exemplars = [line if line and line.strip() else None for line in lines]
    if not any(exemplars):
        raise InputError(f"{path}: there is no exemplar in this file.")
    return exemplars


def read_sources(path: Path) -> list[str]:
    """Plain lines, or the 'source' of each record, which may be a table."""
    return _read_plain(path) if is_text_file(path) else [record.source for record in _read_records(path)]


def read_references(paths: Sequence[Path], other: Path, count: int) -> tuple[list[tuple[str, ...]], list[Table] | None]:
    """Each instance's references, and its table where the references are records that have one."""
    found = [_read_references(path, other, count) for path in paths]
    references = [tuple(chain.from_iterable(texts)) for texts in zip(*(each for each, _ in found), strict=True)]
    return references, next((tables for _, tables in found if tables is not None), None)


def _read_references(path: Path, other: Path, count: int) -> tuple[list[tuple[str, ...]], list[Table] | None]:
    if is_text_file(path):
        lines = _read_plain(path)
        check_aligned(lines, path, other, count)
        return [(line,) for line in lines], None
    records = list(read_records(path, Reading(require_target=False, require_source=False)))
    check_aligned(records, path, other, count)
    references = [tuple(record.scoring_references()) for record in records]
    for number, texts in enumerate(references, start=1):
        if not any(texts):
            raise InputError(f"{path}: record {number} has neither a 'target' nor 'references'.")
    tables = [record.table for record in records if record.table is not None]
    return references, tables if len(tables) == count else None


def check_aligned(found: Sequence[object], path: Path, other: Path, count: int) -> None:
    if len(found) != count:
        raise InputError(f"{path} has {len(found)} lines, but {other} has {count}: they must match line for line.")


def _read_plain(path: Path) -> list[str]:
    lines = [line for _, line in read_lines(path)]
    if not lines:
        raise InputError(f"{path}: the file is empty.")
    return lines


def _read_records(path: Path) -> list[Record]:
    # The outputs of a run have references, but no target.
    return list(read_records(path, Reading(require_target=False)))


def _read_field(path: Path, field: str) -> list[str | None]:
    """A field of each line of JSONL; None where it is null or blank, an error where the key is missing."""
    values = []
    for number, line in read_lines(path):
        try:
            row = parse_json(line, f"{path}:{number}")
        except InputError as error:
            raise InputError(f"{str(error).removesuffix('.')}; give plain lines, or .jsonl with {field!r}.") from None
        value = row.get(field, 0) if isinstance(row, dict) else 0
        if value is not None and not isinstance(value, str):
            raise InputError(f"{path}:{number}: there is no {field!r} in this line.")
        values.append(value)
    if not values:
        raise InputError(f"{path}: the file is empty.")
    return values
