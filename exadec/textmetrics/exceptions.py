"""WordNet's irregular forms, which ROUGE-1.5.5 looks up before it stems by rule: children -> child.

In: the script's lists of exceptions, or the database that it made of them. Out: base forms by word.

The lists belong to WordNet and are not part of this package. The script reads only the database `WordNet-2.0.exc.db`.
Its program buildExeptionDB.pl makes it of the lists in the order of the directory, which differs from machine to
machine, and later lists overrule earlier ones. Three words that the script looks up are in two lists, so that two
copies of the script may disagree on them: best and better (adj.exc: good, adv.exc: well), and testes (noun.exc: testis,
verb.exc: testes). To score as your copy does, give its database. From the lists we read adj.exc last: good and testes.
"""

import struct
from pathlib import Path

from exadec.reading.content import read_bytes, read_text

_MAGIC = 0x061561
_HASH_PAGES = (2, 13)  # P_HASH_UNSORTED, P_HASH
_ON_PAGE = 1  # H_KEYDATA: the item is here, and not on a page of its own
_SMALLEST_PAGE = 512
_HEADER = 26  # bytes of a page before the places of its items


def read_exceptions(path: Path) -> dict[str, str]:
    """Read a folder of lists `*.exc` (a word and its base form per line), or the database `WordNet-2.0.exc.db`."""
    if path.is_file():
        try:
            return _read_database(read_bytes(path), str(path))
        except (struct.error, IndexError):
            raise ValueError(f"{path}: the database is damaged; give the folder of lists (*.exc).") from None
    lists = sorted(path.glob("*.exc"), key=lambda one: (one.name == "adj.exc", one.name))
    if not lists:
        raise ValueError(f"{path}: there are no exception lists (*.exc) in this folder.")
    lines = (line.split() for one in lists for line in read_text(one).splitlines())
    return {words[0]: words[1] for words in lines if len(words) > 1}


def _read_database(content: bytes, name: str) -> dict[str, str]:
    """The keys and values of a hash of Berkeley DB, whatever bucket they are in."""
    order = next((order for order in "<>" if content[12:16] == struct.pack(f"{order}I", _MAGIC)), None)
    if order is None:
        raise ValueError(f"{name}: not a hash of Berkeley DB, version 2 or later; give the folder of lists (*.exc).")
    (size,) = struct.unpack_from(f"{order}I", content, 20)
    if size < _SMALLEST_PAGE:
        raise ValueError(f"{name}: the database is damaged; give the folder of lists (*.exc).")
    found: dict[str, str] = {}
    for start in range(size, len(content), size):
        page = content[start : start + size]
        if page[25] not in _HASH_PAGES:
            continue
        (count,) = struct.unpack_from(f"{order}H", page, 20)
        begins = struct.unpack_from(f"{order}{count}H", page, _HEADER)
        # Items fill a page from its end: each one ends where the one before it begins.
        items = [page[begin:end] for begin, end in zip(begins, (size, *begins), strict=False)]
        if any(item[0] != _ON_PAGE for item in items):
            raise ValueError(f"{name}: an entry is too long for a word; give the folder of lists (*.exc).")
        texts = [item[1:].decode("utf-8", "replace") for item in items]
        found.update(zip(texts[::2], texts[1::2], strict=True))
    return found
