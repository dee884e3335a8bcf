"""WordNet's exceptions, from lists and from a database made for these tests; test_rouge_parity.py has the script's."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exadec.textmetrics.exceptions import read_exceptions

SIZE = 512


def database(pages: list[dict[str, str]], order: str = "<", kind: int = 1) -> bytes:
    """A hash of Berkeley DB: a page that says so, then a page for each bucket, and one that is no bucket."""
    about = struct.pack(f"{order}QIIIIBB", 0, 0, 0x061561, 9, SIZE, 0, 8).ljust(SIZE, b"\0")
    for number, pairs in enumerate(pages, start=1):
        texts = [bytes([kind]) + text.encode() for pair in pairs.items() for text in pair]
        ends = [SIZE - sum(map(len, texts[: place + 1])) for place in range(len(texts))]
        free = min(ends, default=SIZE)
        header = struct.pack(f"{order}QIIIHHBB", 0, number, 0, 0, len(texts), free, 0, 13)
        header += struct.pack(f"{order}{len(ends)}H", *ends)
        about += header.ljust(free, b"\0") + b"".join(reversed(texts))
    return about + b"\0" * SIZE


def test_adjectives_overrule_other_lists(tmp_path: Path) -> None:
    (tmp_path / "adj.exc").write_text("better good well\nworst bad\n")
    (tmp_path / "adv.exc").write_text("better well\n\nlonely\n")
    (tmp_path / "noun.exc").write_text("testes testis\n")
    (tmp_path / "verb.exc").write_text("testes testes\n")
    assert read_exceptions(tmp_path) == {"better": "good", "worst": "bad", "testes": "testes"}


words = st.text("abcdefghij_é", min_size=1, max_size=9)


@given(st.lists(st.dictionaries(words, words, max_size=8), max_size=3), st.sampled_from("<>"))
def test_a_database_gives_what_it_holds(
    tmp_path_factory: pytest.TempPathFactory, pages: list[dict[str, str]], order: str
) -> None:
    path = tmp_path_factory.mktemp("wordnet") / "WordNet-2.0.exc.db"
    path.write_bytes(database(pages, order))
    assert read_exceptions(path) == {word: base for page in pages for word, base in page.items()}


def test_what_holds_no_exceptions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there are no exception lists \(\*\.exc\)"):
        read_exceptions(tmp_path)
    path = tmp_path / "some.db"
    for content in (b"", b"best good\n" * 9):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"some\.db: not a hash of Berkeley DB"):
            read_exceptions(path)
    path.write_bytes(database([{"best": "good"}])[: SIZE + 20])
    with pytest.raises(ValueError, match="the database is damaged"):
        read_exceptions(path)
    path.write_bytes(database([])[:20] + bytes(4) + database([])[24:])  # pages of no size
    with pytest.raises(ValueError, match=r"some\.db: the database is damaged"):
        read_exceptions(path)
    (tmp_path / "adj.exc").write_bytes(b"best \xff\n")
    with pytest.raises(ValueError, match=r"adj\.exc: not valid UTF-8"):
        read_exceptions(tmp_path)
    path.write_bytes(database([{"best": "good"}], kind=3))
    with pytest.raises(ValueError, match="an entry is too long"):
        read_exceptions(path)
