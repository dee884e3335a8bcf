"""Chunks of a file: parsed into records with the right line numbers."""

from pathlib import Path

import pytest

from exadec.corpus.record import Lines, Reading
from exadec.corpus.scan import scan_chunk
from exadec.errors import InputError


def test_empty_texts_are_skipped_and_placed() -> None:
    lines = [b'{"source": "a", "target": "b"}\n', b'{"source": "", "target": "b"}\n']
    scanned = scan_chunk(Lines(Path("x.jsonl"), lines, 71, 60, Reading(skip_empty=True)))
    assert (len(scanned.uids), scanned.skipped) == (1, ["x.jsonl:72"])


def test_lines_are_parsed_with_their_numbers() -> None:
    lines = [b'{"source": "a", "target": "b"}\n', b"\n", b"{oops\n"]
    chunk = Lines(Path("x.jsonl"), lines, first_line=71, first_record=60)
    assert next(chunk.records()).uid == "60"
    with pytest.raises(InputError, match=r"x.jsonl:73: not JSON"):
        scan_chunk(chunk)
