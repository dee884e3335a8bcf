"""The one text-side type, and its files.

In: JSONL, TSV or CSV files (optionally .gz or .xz). Out: `Record`s, one at a time.
"""

import csv
import gzip
import hashlib
import json
import lzma
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from exadec.errors import InputError

FIELDS = ("uid", "source", "table", "target", "references", "group")
SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Record:
    """One instance: what to say (`source` or `table`) and how somebody said it (`target`)."""

    uid: str
    source: str
    """The text to write from. For data-to-text records this is the linearised table."""
    target: str
    table: tuple[tuple[str, str], ...] | None = None
    """(attribute, value) pairs, kept beside the linearised source."""
    references: tuple[str, ...] = ()
    """All acceptable targets, for scoring; empty means the target alone."""
    group: str | None = None
    """Whose voice this is: an outlet, an author, a product line."""

    def scoring_references(self) -> tuple[str, ...]:
        return self.references or (self.target,)


def fingerprint(text: str) -> int:
    """64 bits of a text: equal for equal texts, and for others with a probability of 2 ** -64."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def linearize(table: Iterable[tuple[str, str]]) -> str:
    """A table as one token stream, field name before value: `name : Ada Lovelace | born : 1815`."""
    return " | ".join(f"{attribute} : {value}" for attribute, value in table)


def read_records(path: Path, require_target: bool = True) -> Iterator[Record]:
    """Stream the records of a file, refusing the first bad line by its number.

    The format follows the file's ending: .jsonl (one object a line), .tsv and .csv (first line names the columns).
    """
    kind = _kind(path)
    if is_text_file(path):
        raise InputError(f"{path}: unknown format; expected a name ending in .jsonl, .tsv or .csv (and .gz or .xz).")
    rows = _jsonl_rows(path) if kind == ".jsonl" else _column_rows(path, delimiter="\t" if kind == ".tsv" else ",")
    number = 0
    for number, (line, row) in enumerate(rows, start=1):
        yield _to_record(row, f"{path}:{line}", default_uid=str(number - 1), require_target=require_target)
    if number == 0:
        raise InputError(f"{path}: the file holds no records.")


def is_text_file(path: Path) -> bool:
    """Whether a file's ending says that it holds plain lines rather than records."""
    return _kind(path) not in (".jsonl", ".tsv", ".csv")


def _kind(path: Path) -> str:
    """The ending that names the format, compression aside."""
    suffixes = [suffix for suffix in path.suffixes if suffix not in (".gz", ".xz")]
    return suffixes[-1] if suffixes else ""


def write_records(path: Path, records: Iterable[Record]) -> int:
    """Write JSONL; returns how many records were written."""
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for record in records:
            row = {field: getattr(record, field) for field in FIELDS if getattr(record, field) not in (None, ())}
            if record.table is not None and record.source == linearize(record.table):
                del row["source"]
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
    return count


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(line number, text) of a UTF-8 file."""
    if not path.is_file():
        raise InputError(f"{path}: no such file.")
    with _open_bytes(path) as file:
        try:
            yield from decode_lines(file, str(path))
        except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"{path}: the compressed file is damaged or truncated ({error}).") from None


def decode_lines(file: BinaryIO, name: str) -> Iterator[tuple[int, str]]:
    """(line number, text) of a stream; a line that is not UTF-8 is refused by its number."""
    for number, raw in enumerate(file, start=1):
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{name}:{number}: not valid UTF-8 (byte {error.start + 1} of the line).") from None
        yield number, text.rstrip("\r\n")


def _open_bytes(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    if path.suffix == ".xz":
        return cast(BinaryIO, lzma.open(path, "rb"))
    return path.open("rb")


def _jsonl_rows(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"{path}:{number}: not JSON ({error.msg} at column {error.colno}).") from None
        if not isinstance(row, dict):
            raise InputError(f"{path}:{number}: expected a JSON object, but found a {type(row).__name__}.")
        yield number, row


def _column_rows(path: Path, delimiter: str) -> Iterator[tuple[int, dict[str, object]]]:
    # A TSV file has no quoting: a quotation mark is part of the text. CSV follows RFC 4180.
    lines = (line + "\n" for _, line in read_lines(path))
    if delimiter == "\t":
        reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE, strict=True)
    else:
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        header = next(reader, None)
        if header is None:
            return
        unknown = [name for name in header if name not in FIELDS]
        if unknown:
            raise InputError(f"{path}:1: unknown column {unknown[0]!r}; the columns are {', '.join(FIELDS)}.")
        for values in reader:
            if not values:
                continue
            if len(values) != len(header):
                message = f"expected {len(header)} columns, but found {len(values)}."
                raise InputError(f"{path}:{reader.line_num}: {message}")
            yield reader.line_num, dict(zip(header, values, strict=True))
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: {error}.") from None


def _to_record(row: dict[str, object], where: str, default_uid: str, require_target: bool) -> Record:
    table = _read_table(row.get("table"), where)
    source = row.get("source")
    if source is None and table is not None:
        source = linearize(table)
    target = row.get("target")
    if target is None and not require_target:
        target = ""
    for name, value in (("source", source), ("target", target)):
        if value is None:
            raise InputError(f"{where}: the record has no {name!r}.")
        if not isinstance(value, str):
            raise InputError(f"{where}: {name!r} must be text, but is a {type(value).__name__}.")
        if not value.strip() and (name == "source" or require_target):
            raise InputError(f"{where}: the record's {name!r} is empty.")
    references = row.get("references") or ()
    if isinstance(references, str):  # a TSV or CSV cell
        references = [references]
    if not isinstance(references, list | tuple) or not all(isinstance(text, str) for text in references):
        raise InputError(f"{where}: 'references' must be a list of texts.")
    group = row.get("group")
    assert isinstance(source, str)
    assert isinstance(target, str)
    return Record(
        uid=str(row.get("uid", default_uid)),
        source=" ".join(source.split()),
        target=" ".join(target.split()),
        table=table,
        references=tuple(" ".join(text.split()) for text in references),
        group=None if group is None else str(group),
    )


def _read_table(value: object, where: str) -> tuple[tuple[str, str], ...] | None:
    if value is None:
        return None
    if isinstance(value, str):  # a TSV or CSV cell holds the JSON list
        try:
            value = json.loads(value)
        except json.JSONDecodeError:
            raise InputError(f"{where}: 'table' must be a JSON list of [attribute, value] pairs.") from None
    if isinstance(value, dict):
        value = list(value.items())
    if not isinstance(value, list) or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in value):
        raise InputError(f"{where}: 'table' must be a list of [attribute, value] pairs.")
    if not value:
        raise InputError(f"{where}: 'table' is empty.")
    return tuple((str(attribute), str(text)) for attribute, text in value)
