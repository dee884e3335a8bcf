"""How much two texts share, for many pairs of texts at once.

In: texts. Out: rows of token ids; shared n-grams and longest common subsequences of paired rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from exadec.textmetrics.scores import IntArray
from exadec.textmetrics.stemming import stem

_WORD_BITS = 64  # tokens whose matches fit one machine word
_PAIRS_PER_BLOCK = 4096  # keeps the matrices of one block inside the processor's cache
_SEPARATOR = b"|"


def _letters_and_digits() -> bytes:
    """Translation table: lower-case letters and digits stay, a line end becomes the separator, all else a space."""
    table = bytearray(b" " * 256)
    for kept in b"abcdefghijklmnopqrstuvwxyz0123456789":
        table[kept] = kept
    table[ord("\n")] = _SEPARATOR[0]
    return bytes(table)


_TABLE = _letters_and_digits()


class _Numbering(dict[str | bytes, int]):
    """Numbers things in order of first sight. A lookup that runs in C: it is the inner loop of tokenisation."""

    def __missing__(self, key: str | bytes) -> int:
        self[key] = number = len(self)
        return number


@dataclass(frozen=True)
class TokenRows:
    """Rows of token ids that lie in one shared array; selecting and cutting rows copies no tokens."""

    ids: IntArray
    """(total,) token ids, each below `vocabulary_size`."""
    starts: IntArray
    """(rows,) where each row begins in `ids`."""
    lengths: IntArray
    """(rows,) number of tokens of each row."""
    vocabulary_size: int

    def select(self, rows: IntArray | slice) -> "TokenRows":
        """These rows, in this order; a row may be named more than once."""
        return TokenRows(self.ids, self.starts[rows], self.lengths[rows], self.vocabulary_size)

    def cut(self, lengths: IntArray) -> "TokenRows":
        """Every row with at most so many tokens."""
        return TokenRows(self.ids, self.starts, np.minimum(self.lengths, lengths), self.vocabulary_size)

    def row(self, index: int) -> list[int]:
        """The ids of one row."""
        start = self.starts[index]
        row: list[int] = self.ids[start : start + self.lengths[index]].tolist()
        return row

    def flat(self) -> IntArray:
        """(sum of lengths,) the ids of all rows, one row after the other."""
        ends = np.cumsum(self.lengths)
        shift = np.repeat(self.starts - (ends - self.lengths), self.lengths)
        return self.ids[np.arange(len(shift)) + shift]

    def padded(self, padding: int) -> IntArray:
        """(longest, rows) one column per row, so that one position of all rows is contiguous."""
        columns = np.full((len(self.lengths), int(self.lengths.max(initial=0))), padding, dtype=np.int64)
        columns[np.arange(columns.shape[1]) < self.lengths[:, None]] = self.flat()
        return np.ascontiguousarray(columns.T)


def tokenize(texts: Sequence[str], stemmed: bool) -> TokenRows:
    """Lower-case, keep runs of a-z and 0-9, stem words of more than three letters if asked: rouge-score's tokens.

    All texts are cut as one byte string, which is what makes this fast. Letters outside ASCII separate words like
    punctuation does, unless lower-casing makes them ASCII (the Kelvin sign becomes k).
    """
    joined = "\n".join([text.replace("\n", " ") for text in texts] + [""]).lower()
    plain = joined.encode("ascii", "replace").translate(_TABLE).replace(_SEPARATOR, b" " + _SEPARATOR + b" ")
    numbering = _Numbering({_SEPARATOR: 0})
    tokens = plain.split()
    ids = np.fromiter(map(numbering.__getitem__, tokens), dtype=np.int64, count=len(tokens))
    ends = np.flatnonzero(ids == 0)
    starts = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    size = len(numbering)
    if stemmed:
        stems = _Numbering()
        words = [token.decode() if isinstance(token, bytes) else token for token in numbering]
        ids = np.array([stems[stem(word) if len(word) > 3 else word] for word in words], dtype=np.int64)[ids]
        size = len(stems)
    return TokenRows(ids, starts, ends - starts, size)


def shared_ngrams(hypotheses: TokenRows, references: TokenRows, orders: Sequence[int]) -> dict[int, IntArray]:
    """For each order, the clipped n-gram matches (rows,) of row r of `hypotheses` with row r of `references`.

    An n-gram is one integer that begins with its pair's number, so one sort of all n-grams of both sides brings equal
    ones of a pair together; the lowest bit tells the sides apart.
    """
    lengths = np.concatenate((hypotheses.lengths, references.lengths))  # (2 rows,)
    ids = np.concatenate((hypotheses.flat(), references.flat()))
    pairs = len(hypotheses.lengths)
    row = np.repeat(np.arange(2 * pairs), lengths)
    side = (row >= pairs).astype(np.int64)
    room = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(ids))  # tokens from here to the end of the row
    size = hypotheses.vocabulary_size
    keys, bound = row - pairs * side, pairs
    positions = np.arange(len(ids))
    matches = {}
    for order in range(1, max(orders, default=0) + 1):
        inside = room[positions] >= order
        positions, keys = positions[inside], keys[inside]
        if 2 * bound * size >= 1 << 63:  # the next key would not fit: replace keys by their ranks, in the same order
            distinct, keys = np.unique(keys, return_inverse=True)
            bound = len(distinct)
        keys, bound = keys * size + ids[positions + order - 1], bound * size
        if order in orders:
            counts = np.maximum(hypotheses.lengths - order + 1, 0) + np.maximum(references.lengths - order + 1, 0)
            matches[order] = _count_matches(2 * keys + side[positions], counts)
    return matches


def _count_matches(marked: IntArray, counts: IntArray) -> IntArray:
    """Sum over equal keys of the smaller side's count, for each pair; `counts[p]` of the keys belong to pair p."""
    values, occurrences = np.unique(marked, return_counts=True)
    # A key that both sides have gives an even value and, right after it, the odd value above.
    shared = np.flatnonzero((np.diff(values) == 1) & (values[1:] & 1 == 1))
    matches = np.minimum(occurrences[shared], occurrences[shared + 1])
    # Keys begin with the pair, so in sorted order the first counts[0] belong to pair 0, and so on.
    pair = np.repeat(np.arange(len(counts)), counts)[(np.cumsum(occurrences) - 1)[shared]]
    return np.bincount(pair, weights=matches, minlength=len(counts)).astype(np.int64)


def longest_common_subsequences(hypotheses: TokenRows, references: TokenRows) -> IntArray:
    """Length (rows,) of the longest common subsequence of row r of `hypotheses` and row r of `references`."""
    longest = np.maximum(hypotheses.lengths, references.lengths)
    lengths = np.zeros(len(longest), dtype=np.int64)
    # By length, so that the rows of a block need little padding.
    fitting = np.argsort(longest, kind="stable")[: int((longest <= _WORD_BITS).sum())]
    for begin in range(0, len(fitting), _PAIRS_PER_BLOCK):
        block = fitting[begin : begin + _PAIRS_PER_BLOCK]
        lengths[block] = _lcs_in_words(hypotheses.select(block), references.select(block))
    for index in np.flatnonzero(longest > _WORD_BITS).tolist():
        lengths[index] = lcs_length(hypotheses.row(index), references.row(index))
    return lengths


def _lcs_in_words(hypotheses: TokenRows, references: TokenRows) -> IntArray:
    """`lcs_length` of many pairs at once, one 64-bit word per pair."""
    tokens = hypotheses.padded(-1)  # (H, pairs)
    matching = np.zeros(tokens.shape, dtype=np.uint64)  # bit i: reference token i equals this token
    for position, token in enumerate(references.padded(-2)):
        matching |= (tokens == token).astype(np.uint64) << np.uint64(position)
    unmatched = np.full(len(hypotheses.lengths), ~np.uint64(0))
    for match in matching:
        hit = unmatched & match
        unmatched = (unmatched + hit) | (unmatched - hit)  # wraps round where the carry leaves the word, as it should
    bits = np.unpackbits((~unmatched).view(np.uint8).reshape(-1, 8), axis=1)
    return bits.sum(axis=1, dtype=np.int64)


def lcs_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Length of the longest common subsequence, one bit per token (Hyyrö 2004), on integers of any width.

    A cleared bit i marks where the dynamic programme's row grows from i to i + 1; adding carries each match to the
    next set bit, which is the step of the programme for a whole row at once.
    """
    short, long = sorted((first, second), key=len)
    wanted = set(short)
    matching: dict[int, int] = {}
    for position, token in enumerate(long):
        if token in wanted:
            matching[token] = matching.get(token, 0) | 1 << position
    everything = (1 << len(long)) - 1
    unmatched = everything
    for token in short:
        hit = unmatched & matching.get(token, 0)
        unmatched = (unmatched + hit | unmatched - hit) & everything
    return len(long) - unmatched.bit_count()
