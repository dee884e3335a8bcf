"""E2E: meaning representations and descriptions of restaurants (Novikova et al., 2017).

In: the folder of the three CSV files. Out: `Record`s with their tables.
"""

import csv
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from exadec.corpus.columns import find_columns
from exadec.corpus.readers.published import locate, require_split, spaced, table_record
from exadec.corpus.record import Record, Table, log_skipped
from exadec.errors import InputError
from exadec.reading.lines import read_lines

E2E_FILES = {"train": "trainset.csv", "valid": "devset.csv", "test": "testset_w_refs.csv"}

# One `attribute[value]` of a meaning representation, with the comma that separates it from the next one.
_SLOT = re.compile(r"\s*([^\[\],]+?)\s*\[([^\[\]]*)\]\s*(?:,|$)")


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
        yield table_record(str(count - 1), _parse_meaning(meaning, f"{path}:{line}"), first, references)
    if count == 0:
        raise InputError(f"{path}: the file holds no records.")


def _e2e_rows(path: Path) -> Iterator[tuple[int, str, str]]:
    """(last line of the row, meaning representation, description)"""
    reader = csv.reader((line + "\n" for _, line in read_lines(path)), strict=True)
    skipped: list[str] = []
    try:
        header = next(reader, [])
        places = find_columns(header, ("mr", "ref"), {}, path)
        if len(places) < 2:
            found = ", ".join(header) or "nothing"
            raise InputError(f"{path}:1: expected the columns mr and ref, but found {found} in the first line.")
        meaning, reference = places["mr"], places["ref"]
        for row in filter(None, reader):
            if len(row) != len(header):
                raise InputError(f"{path}:{reader.line_num}: expected {len(header)} columns, but found {len(row)}.")
            if row[meaning].strip() and row[reference].strip():
                yield reader.line_num, spaced(row[meaning]), spaced(row[reference])
            else:
                skipped.append(f"{path}:{reader.line_num}")
        log_skipped(skipped)
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
