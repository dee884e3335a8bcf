"""Sequences of ids: expanded in blocks, fingerprinted, written as numpy writes."""

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from exadec.corpus.sequences import ArrayFile, Sequences, fingerprints

sequences = st.lists(st.lists(st.integers(0, 9), max_size=5), min_size=1, max_size=12)


def as_sequences(rows: list[list[int]]) -> Sequences:
    return Sequences(np.array([number for row in rows for number in row], np.int32), np.cumsum([0, *map(len, rows)]))


@given(rows=sequences, parts=st.lists(st.lists(st.integers(0, 99), max_size=3), min_size=10, max_size=10))
def test_sequences_are_expanded_block_by_block(rows: list[list[int]], parts: list[list[int]]) -> None:
    packed, table, expanded = as_sequences(rows), as_sequences(parts), []
    blocks = list(packed.blocks(4))
    assert [end for _, end in blocks[:-1]] == [begin for begin, _ in blocks[1:]]
    for begin, end in blocks:
        ids, lengths = packed.expand(table, begin, end)
        expanded += [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]
    assert expanded == [[part for number in row for part in parts[number]] for row in rows]


@given(sequences)
def test_fingerprints_are_equal_for_equal_sequences_alone(rows: list[list[int]]) -> None:
    rows = [[number % 2 for number in row] or [7] for row in rows]  # few kinds of them
    found = fingerprints(as_sequences(rows).ids, as_sequences(rows).lengths).tolist()
    assert [a == b for a in found for b in found] == [a == b for a in rows for b in rows]


def test_array_files_are_those_of_numpy(tmp_path: Path) -> None:
    values = np.arange(100_000, dtype=np.int64)
    for count in (0, 7, 100_000):
        with ArrayFile(tmp_path / "grown.npy", np.int64) as file:
            for part in np.array_split(values[:count], 3):
                file.append(part)
        np.save(tmp_path / "whole.npy", values[:count])
        assert (tmp_path / "grown.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
