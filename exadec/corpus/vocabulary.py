"""Pieces <-> ids.

In: pieces. Out: ids. Unknown pieces get ids at or above the vocabulary's size, so that they can be copied.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from exadec.corpus.stage import hash_value
from exadec.reading.folder import Folder

PAD, UNK, BOS, EOS, NONE = range(5)
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>", "<none>")
"""Padding, unknown word, begin, end, and the exemplar of an instance that has none."""


class Vocabulary:
    """The pieces the model knows. Ids below `len(SPECIALS)` are symbols that no text contains."""

    def __init__(self, pieces: Sequence[str]):
        self.pieces = (*SPECIALS, *pieces)
        self._ids = {piece: number for number, piece in enumerate(self.pieces)}
        # If a text contains the characters of a special symbol, they are ordinary unknown text.
        for symbol in SPECIALS:
            if symbol not in pieces:
                del self._ids[symbol]

    def __len__(self) -> int:
        return len(self.pieces)

    def get(self, piece: str) -> int | None:
        return self._ids.get(piece)

    @staticmethod
    def most_frequent(counts: Counter[str], size: int) -> "Vocabulary":
        """The `size` most frequent pieces, special symbols included; ties in alphabetical order."""
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return Vocabulary([piece for piece, _ in ranked[: max(0, size - len(SPECIALS))]])

    def hash(self) -> str:
        return hash_value(self.pieces)

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(self.pieces[len(SPECIALS) :], ensure_ascii=False, indent=0), encoding="utf-8")

    @staticmethod
    def open(folder: Folder, name: str) -> "Vocabulary":
        return Vocabulary(folder.read_names(name))


class PieceTable:
    """A vocabulary, and the pieces outside it, numbered from `len(vocabulary)` in order of appearance."""

    def __init__(self, vocabulary: Vocabulary, unknown: Sequence[str] = ()):
        self.vocabulary = vocabulary
        self.unknown = list(unknown)
        self._ids = {piece: len(vocabulary) + number for number, piece in enumerate(self.unknown)}

    @property
    def size(self) -> int:
        """The first id that stands for nothing"""
        return len(self.vocabulary) + len(self.unknown)

    def encode(self, pieces: Iterable[str]) -> list[int]:
        return [self._id(piece) for piece in pieces]

    def look_up(self, pieces: Iterable[str]) -> list[int]:
        """Ids of pieces without adding new ones to the table: all new ones get the next free id."""
        new = len(self.vocabulary) + len(self.unknown)
        known = ((piece, self.vocabulary.get(piece)) for piece in pieces)
        return [self._ids.get(piece, new) if number is None else number for piece, number in known]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The pieces of ids, without special symbols other than <unk>."""
        size = len(self.vocabulary)
        return [
            self.vocabulary.pieces[number] if number < size else self.unknown[number - size]
            for number in ids
            if number == UNK or number >= len(SPECIALS)
        ]

    def _id(self, piece: str) -> int:
        known = self.vocabulary.get(piece)
        if known is not None:
            return known
        number = self._ids.setdefault(piece, len(self.vocabulary) + len(self.unknown))
        if number == len(self.vocabulary) + len(self.unknown):
            self.unknown.append(piece)
        return number
