"""WikiBio: infoboxes and first sentences of biographies (Lebret et al., 2016).

In: the original folder, or the common derivative with `.summary` files. Out: `Record`s with their tables.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from exadec.corpus.readers.published import align, locate, read_aligned, require_split, spaced, table_record
from exadec.corpus.record import Record, Table, log_skipped
from exadec.errors import InputError
from exadec.reading.lines import read_lines

NONE = "<none>"
"""The value of a WikiBio field that is empty in the infobox."""

_NUMBERED = re.compile(r"(.+)_(\d{1,9})")
_COUNT = re.compile(r"\d{1,9}")


def wikibio_files(folder: Path, split: str) -> list[Path]:
    """`.box`, `.nb` and `.sent` of the original; `.box` and `.summary` if there is no `.sent`."""
    require_split(split)
    box, numbers, sentences, summary = (
        locate(folder, f"{split}/{split}.{ending}") for ending in ("box", "nb", "sent", "summary")
    )
    if sentences.is_file() or numbers.is_file() or not summary.is_file():
        return [box, numbers, sentences]
    return [box, summary]


def read_wikibio(folder: Path, split: str) -> Iterator[Record]:
    """Infoboxes and first sentences (Lebret et al., 2016), with tokens such as `-lrb-` left as they are."""
    box, *rest = wikibio_files(folder, split)
    pairs = read_aligned(box, rest[0]) if len(rest) == 1 else _first_sentences(box, *rest)
    for number, line, sentence in pairs:
        yield table_record(str(number - 1), _parse_box(line, f"{box}:{number}"), spaced(sentence))


def _first_sentences(box: Path, numbers: Path, sentences: Path) -> Iterator[tuple[int, str, str]]:
    """(line number, table, first sentence): `.nb` says how many lines of `.sent` belong to each table."""
    texts = read_lines(sentences)
    expected = found = 0
    skipped = []
    for number, line, announced in align(box, numbers):
        announced = announced.strip()  # of more than `int` would strip
        if not _COUNT.fullmatch(announced) or int(announced) < 1:
            rule = "expected a number of sentences of at least 1"
            raise InputError(f"{numbers}:{number}: {rule}, but found {announced[:60]!r}.")
        count = int(announced)
        expected += count
        own = [text for _, (_, text) in zip(range(count), texts, strict=False)]
        found += len(own)
        if found < expected:
            message = f"{expected} sentences are announced up to here, but {sentences.name} has only {found}."
            raise InputError(f"{numbers}:{number}: {message}")
        if not line.strip():
            skipped.append(f"{box}:{number}")
        elif not own[0].strip():
            skipped.append(f"{sentences}:{found - len(own) + 1}")
        else:
            yield number, line, own[0]
    log_skipped(skipped)
    surplus = sum(1 for _ in texts)
    if surplus:
        message = f"{numbers.name} announces {expected} sentences, but {sentences.name} has {expected + surplus}."
        raise InputError(f"{sentences}:{expected + 1}: {message}")


def _parse_box(line: str, where: str) -> Table:
    """`name_1:ada<TAB>name_2:lovelace<TAB>image:<none>` -> (("name", "ada lovelace"),)."""
    fields: dict[str, list[tuple[int, str]]] = {}
    for cell in line.split("\t"):
        if not cell.strip():
            continue
        name, colon, token = cell.partition(":")  # values may contain colons, names do not
        if not colon or not name.strip():
            raise InputError(f"{where}: expected field:token between tabs, but found {cell!r}.")
        numbered = _NUMBERED.fullmatch(name)
        field, position = (numbered[1], int(numbered[2])) if numbered else (name, 1)
        if token.strip() and token != NONE:
            fields.setdefault(field, []).append((position, token))
    if not fields:
        raise InputError(f"{where}: no field of the table has a value.")
    return tuple(
        (spaced(field), spaced(" ".join(token for _, token in sorted(tokens, key=lambda pair: pair[0]))))
        for field, tokens in fields.items()
    )
