"""`Record`, the type of all raw data, and its files.

In: JSONL, TSV or CSV files (optionally .gz or .xz). Out: `Record`s, one at a time or a chunk at a time.
"""

import csv
import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from exadec.config import RECORD_FIELDS
from exadec.corpus.columns import find_columns, rename_keys, require_column
from exadec.errors import InputError
from exadec.reading.content import decode, parse_json
from exadec.reading.lines import LONGEST, decode_lines, raw_lines, read_lines

SPLITS = ("train", "valid", "test")
CHUNK = 10_000
"""Records processed at a time."""
_CHUNK_LENGTH = 1 << 24
"""Bytes or characters after which a chunk ends, even with fewer records: documents may be long."""
_BRACE = ord("{")
_ENTRIES = "[attribute, value] pairs, or of [subject, property, object] triples"
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode
_PLACES = 5
"""Places that a message names; of the others it gives the number."""

logger = logging.getLogger(__name__)


Table = tuple[tuple[str, ...], ...]
"""(attribute, value) pairs, or (subject, property, object) triples."""


@dataclass(frozen=True)
class Record:
    """One instance: what to say (`source` or `table`) and how someone said it (`target`)."""

    uid: str
    source: str
    """The text to write from. For data-to-text records this is the linearised table."""
    target: str
    table: Table | None = None
    """Kept in addition to the linearised source."""
    references: tuple[str, ...] = ()
    """All acceptable targets, for scoring; empty means only the target."""
    group: str | None = None
    """Whose voice this is: an outlet, an author, a product line."""

    def scoring_references(self) -> tuple[str, ...]:
        return self.references or (self.target,)


def fingerprint(text: str) -> int:
    """A 64-bit hash of a text; different texts collide with a probability of 2 ** -64."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def linearize(table: Iterable[tuple[str, ...]]) -> str:
    """A table as one token stream, field name before value: `name : Ada Lovelace | born : 1815`.

    The subject of triples comes before the first of them, and where it changes: `subject : Ada Lovelace | born : 1815`.
    """
    cells, known = [], None
    for *subject, attribute, value in table:
        if subject and subject != known:
            cells.append(f"subject : {subject[0]}")
            known = subject
        cells.append(f"{attribute} : {value}")
    return " | ".join(cells)


def says_something(table: Iterable[tuple[object, ...]]) -> bool:
    """Whether an attribute of the table has both a name and a value."""
    return any(str(attribute).strip() and str(value).strip() for *_, attribute, value in table)


def announce(group: str) -> str:
    """What the model reads before a source of this group if `corpus.group_in_source` is set: `The Oak Gazette |`."""
    return f"{' '.join(group.split())} |"


@dataclass(frozen=True)
class Reading:
    """How the rows of a file become records."""

    require_target: bool = True
    require_source: bool = True
    skip_empty: bool = False
    """Leave out records whose source or target is empty. Otherwise they are errors."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Field -> the name of its column or key, where that is not the field's own."""


AS_WRITTEN = Reading()
"""For files that exadec wrote: nothing is missing, empty or renamed."""


def read_records(path: Path, reading: Reading = AS_WRITTEN) -> Iterator[Record]:
    """Stream the records of a file; the error for a bad line has its number.

    The format follows the file's ending: .jsonl (one object per line), .tsv and .csv (first line names the columns).
    """
    skipped: list[str] = []
    for chunk in read_chunks(path, 100, reading):
        yield from chunk.records(skipped) if isinstance(chunk, Lines) else chunk
    log_skipped(skipped)


def log_skipped(places: list[str]) -> None:
    """Say in one line how many empty texts were left out, and where; nothing if there were none."""
    if places:
        more = f" and {len(places) - _PLACES:,} more" if len(places) > _PLACES else ""
        what = "1 empty text was" if len(places) == 1 else f"{len(places):,} empty texts were"
        logger.warning("%s skipped: %s%s.", what, ", ".join(places[:_PLACES]), more)


@dataclass(frozen=True)
class Lines:
    """Consecutive lines of a JSONL file, not yet parsed, so that another process can parse them."""

    path: Path
    lines: list[bytes]
    first_line: int
    """Number of the first line, starting at 1"""
    first_record: int
    """Number of records before it"""
    reading: Reading = AS_WRITTEN

    def records(self, skipped: list[str] | None = None) -> Iterator[Record]:
        """Parse the lines. The places of empty texts that the reading leaves out are added to `skipped`."""
        rows = _jsonl_rows(decode_lines(self.lines, str(self.path), self.first_line), self.path)
        named = self.reading.columns
        if named:
            rows = ((line, rename_keys(row, named, f"{self.path}:{line}")) for line, row in rows)
        return _to_records(rows, self.path, self.reading, self.first_record, [] if skipped is None else skipped)


def read_chunks(path: Path, size: int = CHUNK, reading: Reading = AS_WRITTEN) -> Iterator[Lines | list[Record]]:
    """The records of a file, `size` at a time, or fewer if they are long. JSONL is read but not parsed."""
    ending = _ending(path)
    if is_text_file(path):
        raise InputError(f"{path}: unknown format; expected a name ending in .jsonl, .tsv or .csv (and .gz or .xz).")
    chunks: Iterator[Lines | list[Record]]
    skipped: list[str] = []
    if ending == ".jsonl":
        chunks = _line_chunks(path, size, reading)
    else:
        rows = _column_rows(path, "\t" if ending == ".tsv" else ",", reading)
        chunks = chunked(_to_records(rows, path, reading, 0, skipped), size)
    empty = True
    for chunk in chunks:
        yield chunk
        empty = False
    if empty:
        raise InputError(f"{path}: the file holds no records.")
    log_skipped(skipped)


def chunked(records: Iterable[Record], size: int = CHUNK) -> Iterator[list[Record]]:
    """Records, `size` at a time, or fewer if they are long."""
    chunk: list[Record] = []
    length = 0
    for record in records:
        chunk.append(record)
        length += len(record.source) + len(record.target)
        if len(chunk) == size or length > _CHUNK_LENGTH:
            yield chunk
            chunk, length = [], 0
    if chunk:
        yield chunk


def _line_chunks(path: Path, size: int, reading: Reading) -> Iterator[Lines]:
    """Chunks with `size` non-blank lines each; blank lines stay, so that lines keep their numbers."""
    lines: list[bytes] = []
    first_line, records, before, length = 1, 0, 0, 0
    for number, raw in enumerate(raw_lines(path), start=1):
        lines.append(raw)
        # Nearly every line begins with a brace, which is faster to check than whether it is blank.
        records += raw[0] == _BRACE or bool(raw.decode("utf-8-sig" if number == 1 else "utf-8", "replace").strip())
        length += len(raw)
        if records == size or (records and length > _CHUNK_LENGTH):
            yield Lines(path, lines, first_line, before, reading)
            first_line, before = first_line + len(lines), before + records
            lines, records, length = [], 0, 0
    if records:
        yield Lines(path, lines, first_line, before, reading)


def is_text_file(path: Path) -> bool:
    """Whether a file holds plain lines rather than records, judging by its ending."""
    return _ending(path) not in (".jsonl", ".tsv", ".csv")


def _ending(path: Path) -> str:
    """The file's ending, which names its format, without .gz or .xz."""
    suffixes = [suffix for suffix in path.suffixes if suffix not in (".gz", ".xz")]
    return suffixes[-1] if suffixes else ""


def to_line(record: Record) -> bytes:
    """A record as one line of JSONL."""
    row: dict[str, object] = {"uid": record.uid}
    if not record.table or record.source != linearize(record.table):
        row["source"] = record.source
    if record.table:
        row["table"] = record.table
    row["target"] = record.target
    if record.references:
        row["references"] = record.references
    if record.group is not None:
        row["group"] = record.group
    return (_ENCODE(row) + "\n").encode()


def parse_record(line: bytes, where: str) -> Record:
    """The record of one line of JSONL."""
    return to_record(parse_row(decode(line, where), where), where, "0", require_target=True)


def _jsonl_rows(lines: Iterable[tuple[int, str]], path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    for number, line in lines:
        if not line.strip():
            continue
        yield number, parse_row(line, f"{path}:{number}")


def parse_row(line: str, where: str) -> dict[str, object]:
    """The JSON object of one line."""
    row = parse_json(line, where)
    if not isinstance(row, dict):
        raise InputError(f"{where}: expected a JSON object, but found {name_kind(row)}.")
    return row


def _column_rows(path: Path, delimiter: str, reading: Reading) -> Iterator[tuple[int, dict[str, object]]]:
    # A TSV file has no quoting: a quotation mark is part of the text. CSV follows RFC 4180.
    lines = (line + "\n" for _, line in read_lines(path))
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST))  # by default a field has less than a line may have
    if delimiter == "\t":
        reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE, strict=True)
    else:
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        header = next(reader, None)
        if header is None:
            return
        found = find_columns(header, RECORD_FIELDS, reading.columns, path)
        if reading.require_source:
            require_column(("source", "table"), found, header, path)
        if reading.require_target:
            require_column(("target",), found, header, path)
        for values in reader:
            if not values:
                continue
            if len(values) != len(header):
                message = f"expected {len(header)} columns, but found {len(values)}."
                raise InputError(f"{path}:{reader.line_num}: {message}")
            yield reader.line_num, {name: values[place] for name, place in found.items()}
    except csv.Error as error:
        raise InputError(
            f"{path}:{reader.line_num}: this is not CSV ({error}); look for a quotation mark that is not closed or not "
            "doubled, in this line or before it, and for old Mac line ends."
        ) from None


def _to_records(
    rows: Iterable[tuple[int, dict[str, object]]], path: Path, reading: Reading, first: int, skipped: list[str]
) -> Iterator[Record]:
    """Records, whose uids count from `first` where the rows have none; those skipped are counted, too."""
    for number, (line, row) in enumerate(rows, first):
        where = f"{path}:{line}"
        texts = (row.get(name) for name in ("source", "target"))
        if reading.skip_empty and any(isinstance(text, str) and not text.strip() for text in texts):
            skipped.append(where)
        else:
            yield to_record(row, where, str(number), reading.require_target, reading.require_source)


def to_record(
    row: dict[str, object], where: str, default_uid: str, require_target: bool, require_source: bool = True
) -> Record:
    """Check the fields of a record. Others are ignored."""
    required = {"source": require_source, "target": require_target}
    table = _read_table(row.get("table"), where)
    source = row.get("source")
    if source is None and table is not None:
        source = linearize(table)
    source = "" if source is None and not require_source else source
    target = row.get("target")
    target = "" if target is None and not require_target else target
    for name, value in (("source", source), ("target", target)):
        if value is None:
            lacking = "'source' and no 'table'" if name == "source" else repr(name)
            raise InputError(f"{where}: the record has no {lacking}.")
        if not isinstance(value, str):
            raise InputError(f"{where}: {name!r} must be text, but is {name_kind(value)}.")
        if not value.strip() and required[name]:
            raise InputError(f"{where}: the record's {name!r} is empty.")
    references = row.get("references") or ()
    if isinstance(references, str):
        references = _read_cell(references, where)
    if not isinstance(references, list | tuple) or not all(isinstance(text, str) for text in references):
        raise InputError(f"{where}: 'references' must be a list of texts.")
    uid, group = row.get("uid"), row.get("group")
    for name, value in (("uid", uid), ("group", group)):
        if isinstance(value, dict | list):
            raise InputError(f"{where}: {name!r} must be text or a number, but is {name_kind(value)}.")
    assert isinstance(source, str)
    assert isinstance(target, str)
    # An empty cell of a table says nothing.
    uid, group = (None if value is None or not str(value).strip() else str(value) for value in (uid, group))
    return Record(
        uid=default_uid if uid is None else uid,
        source=" ".join(source.split()),
        target=" ".join(target.split()),
        table=table,
        references=tuple(" ".join(text.split()) for text in references),
        group=group,
    )


def _read_cell(cell: str, where: str) -> list[object]:
    """The references in a cell of a TSV or CSV file: a JSON list of texts, or one text."""
    try:
        found = parse_json(cell, where)
    except InputError:
        found = None
    return found if isinstance(found, list) else [cell]


def name_kind(value: object) -> str:
    """What a JSON value is, for people. In Python it may be something else, too."""
    kinds: dict[type, str] = {dict: "an object", list: "a list", bool: "true or false", str: "text", type(None): "null"}
    other = "a number" if isinstance(value, int | float) else f"of the type {type(value).__name__}"
    return kinds.get(type(value), other)


def _read_table(value: object, where: str) -> Table | None:
    if value is None:
        return None
    if isinstance(value, str):  # a TSV or CSV cell holds the JSON list
        try:
            value = parse_json(value, where)
        except InputError:
            raise InputError(f"{where}: 'table' must be a JSON list of {_ENTRIES}.") from None
    if isinstance(value, dict):
        value = list(value.items())
    if not isinstance(value, list) or not all(isinstance(entry, list | tuple) for entry in value):
        raise InputError(f"{where}: 'table' must be a list of {_ENTRIES}.")
    if not value:
        raise InputError(f"{where}: 'table' is empty.")
    if {len(entry) for entry in value} not in ({2}, {3}):
        raise InputError(f"{where}: 'table' must be a list of {_ENTRIES}.")
    for part in chain.from_iterable(value):
        if not isinstance(part, str | int | float) or isinstance(part, bool):
            kind = name_kind(part)
            raise InputError(f"{where}: an attribute or a value of 'table' must be text or a number, but is {kind}.")
    if not says_something(value):
        raise InputError(f"{where}: 'table' has no attribute with a name and a value.")
    return tuple(tuple(map(str, entry)) for entry in value)
