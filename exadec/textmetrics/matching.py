"""How much two texts share, for many pairs of texts at once.

In: texts. Out: rows of token ids; shared n-grams and longest common subsequences of paired rows.

For texts of up to 64 tokens, each hypothesis token has one 64-bit word, in which bit i says that reference token i is
the same. Both measures are then a few operations on these words, for thousands of pairs at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exadec.textmetrics.scores import IntArray

WordArray = NDArray[np.uint64]

_WORD_BITS = 64  # tokens whose matches fit into one machine word
_PAIRS_PER_BLOCK = 4096  # keeps the matrices of one block inside the processor's cache
_CHUNK = 8  # letters that fit into one machine word
_CHUNK_MASKS = np.array([(1 << 8 * length) - 1 for length in range(_CHUNK + 1)], dtype=np.uint64)


def _letters_and_digits() -> bytes:
    """Translation table: letters become lower case, digits and line ends stay, all else becomes a space."""
    table = bytearray(b" " * 256)
    for kept in b"abcdefghijklmnopqrstuvwxyz0123456789\n":
        table[kept] = kept
    for upper in b"ABCDEFGHIJKLMNOPQRSTUVWXYZ":
        table[upper] = ord(chr(upper).lower())
    return bytes(table)


_TABLE = _letters_and_digits()


@dataclass(frozen=True)
class TokenRows:
    """Rows of token ids in one shared array; selecting and cutting rows copies no tokens."""

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
        """Every row, cut to at most this many tokens."""
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
        """(longest, rows): one column per row, so that a position of all rows is contiguous."""
        columns = np.full((len(self.lengths), int(self.lengths.max(initial=0))), padding, dtype=np.int64)
        columns[np.arange(columns.shape[1]) < self.lengths[:, None]] = self.flat()
        return np.ascontiguousarray(columns.T)


def tokenize(texts: Sequence[str], stem: Callable[[str], str] | None = None, unicode_case: bool = False) -> TokenRows:
    """Lower-case A-Z, keep runs of a-z and 0-9, `stem` words of more than three letters: the tokens of ROUGE-1.5.5.

    The script sees bytes, so a letter outside ASCII separates words as punctuation does. With `unicode_case` all
    letters are lower-cased first, as in rouge-score; that turns a few into ASCII (the Kelvin sign becomes k). It is
    fast because all texts are split as one byte string.
    """
    joined = "\n".join([*texts, ""])
    if joined.count("\n") > len(texts):  # a line end inside a text
        joined = "\n".join([text.replace("\n", " ") for text in texts] + [""])
    encoded = (joined.lower() if unicode_case else joined).encode("utf-8", "surrogatepass")
    # With spaces around, no word touches the beginning, and eight letters can be read anywhere.
    plain = b" " + encoded.translate(_TABLE) + b" " * _CHUNK
    letters = np.frombuffer(plain, dtype=np.uint8)
    inside = letters >= ord("0")
    edges = np.flatnonzero(inside[1:] != inside[:-1]) + 1
    starts, ends = edges[::2], edges[1::2]  # (tokens,)
    ids, size = _number_words(plain, starts, ends - starts)
    if stem is not None:
        ids, size = _merge_stems(plain, starts, ends, ids, size, stem)
    row_ends = np.searchsorted(starts, np.flatnonzero(letters == ord("\n")))
    lengths = np.diff(row_ends, prepend=0)
    return TokenRows(ids, row_ends - lengths, lengths, size)


def _number_words(plain: bytes, starts: IntArray, lengths: IntArray) -> tuple[IntArray, int]:
    """Ids (tokens,), equal for equal words, and an upper bound of them.

    Eight letters at a time are read as one integer. A word's id follows from the integers of its first eight letters,
    its second eight, and so on.
    """
    windows = np.ndarray((len(plain) - _CHUNK + 1,), dtype="<u8", buffer=plain, strides=(1,))
    distinct, ids = np.unique(windows[starts] & _CHUNK_MASKS[np.minimum(lengths, _CHUNK)], return_inverse=True)
    size, offset = len(distinct), _CHUNK
    longer = np.flatnonzero(lengths > offset)
    while len(longer):
        chunks = windows[starts[longer] + offset] & _CHUNK_MASKS[np.minimum(lengths[longer] - offset, _CHUNK)]
        distinct, chunk_ids = np.unique(chunks, return_inverse=True)
        distinct, word_ids = np.unique(ids[longer] * len(distinct) + chunk_ids, return_inverse=True)
        ids[longer] = size + word_ids
        size, offset = size + len(distinct), offset + _CHUNK
        longer = longer[lengths[longer] > offset]
    return ids, size


def _merge_stems(
    plain: bytes, starts: IntArray, ends: IntArray, ids: IntArray, size: int, stem: Callable[[str], str]
) -> tuple[IntArray, int]:
    """Ids (tokens,), equal for equal stems, and an upper bound of them."""
    example = np.full(size, -1)
    example[ids] = np.arange(len(ids))  # any token of each word
    used = np.flatnonzero(example >= 0)
    stems: dict[str, int] = {}
    numbers = []
    for start, end in zip(starts[example[used]].tolist(), ends[example[used]].tolist(), strict=True):
        word = plain[start:end].decode()
        numbers.append(stems.setdefault(stem(word) if end - start > 3 else word, len(stems)))
    example[used] = numbers
    return example[ids], len(stems)


def count_matches(hypotheses: TokenRows, references: TokenRows, measures: Sequence[str]) -> dict[str, IntArray]:
    """For each measure, what row r of `hypotheses` shares with row r of `references` (rows,).

    A measure is the order of the n-grams, with clipped matches, or L for the longest common subsequence.
    """
    longest = np.maximum(hypotheses.lengths, references.lengths)
    matches = {measure: np.zeros(len(longest), dtype=np.int64) for measure in measures}
    # Sorted by length, the rows of a block need little padding.
    fitting = np.argsort(longest, kind="stable")[: int((longest <= _WORD_BITS).sum())]
    for begin in range(0, len(fitting), _PAIRS_PER_BLOCK):
        block = fitting[begin : begin + _PAIRS_PER_BLOCK]
        matching = _matching_words(hypotheses.select(block), references.select(block))
        for measure in matches:
            matches[measure][block] = _lcs_of(matching) if measure == "L" else _ngrams_of(matching, int(measure))
    rest = np.flatnonzero(longest > _WORD_BITS)
    if len(rest):
        rows = hypotheses.select(rest), references.select(rest)
        ngrams = shared_ngrams(*rows, [int(measure) for measure in matches if measure != "L"])
        for measure in matches:
            matches[measure][rest] = long_common_subsequences(*rows) if measure == "L" else ngrams[int(measure)]
    return matches


def _matching_words(hypotheses: TokenRows, references: TokenRows) -> WordArray:
    """(H, pairs): bit i of a hypothesis token's word says that reference token i equals it."""
    tokens = hypotheses.padded(-1)  # (H, pairs)
    matching = np.zeros(tokens.shape, dtype=np.uint64)
    for position, token in enumerate(references.padded(-2)):
        matching |= (tokens == token).astype(np.uint64) << np.uint64(position)
    return matching


def _ngrams_of(matching: WordArray, order: int) -> IntArray:
    """Clipped n-gram matches (pairs,): each n-gram of the hypothesis takes the first equal one that is still free."""
    runs = matching[
        : max(len(matching) - order + 1, 0)
    ].copy()  # bit i: the n-gram at reference token i equals this one
    for offset in range(1, order):
        runs &= matching[offset : offset + len(runs)] >> np.uint64(offset)
    free = np.full(matching.shape[1], ~np.uint64(0))
    for run in runs:
        equal = run & free
        free ^= equal & (~equal + np.uint64(1))  # the lowest bit
    return _count_bits(~free)


def _lcs_of(matching: WordArray) -> IntArray:
    """`lcs_length` (pairs,) of many pairs at once."""
    unmatched = np.full(matching.shape[1], ~np.uint64(0))
    for match in matching:
        hit = unmatched & match
        unmatched = (unmatched + hit) | (unmatched - hit)  # wraps round if the carry leaves the word, as it should
    return _count_bits(~unmatched)


def _count_bits(words: WordArray) -> IntArray:
    counts: IntArray = np.unpackbits(words.view(np.uint8).reshape(-1, 8), axis=1).sum(axis=1, dtype=np.int64)
    return counts


def shared_ngrams(hypotheses: TokenRows, references: TokenRows, orders: Sequence[int]) -> dict[int, IntArray]:
    """For each order, the clipped n-gram matches (rows,) of row r of `hypotheses` with row r of `references`.

    This works for rows of any length; `count_matches` has a faster way for short ones. An n-gram is one integer that
    begins with the number of its pair. One sort of all n-grams of both sides therefore brings equal ones of a pair
    together. The lowest bit tells the sides apart.
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
        if 2 * bound * size >= 1 << 63:  # the next key would not fit, so replace keys by their ranks
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
    # A key that both sides have gives an even value and, right after it, the next odd one.
    shared = np.flatnonzero((np.diff(values) == 1) & (values[1:] & 1 == 1))
    matches = np.minimum(occurrences[shared], occurrences[shared + 1])
    # Keys begin with the pair: in sorted order the first counts[0] belong to pair 0, and so on.
    pair = np.repeat(np.arange(len(counts)), counts)[(np.cumsum(occurrences) - 1)[shared]]
    return np.bincount(pair, weights=matches, minlength=len(counts)).astype(np.int64)


def long_common_subsequences(hypotheses: TokenRows, references: TokenRows) -> IntArray:
    """`lcs_length` (rows,) of row r of `hypotheses` and row r of `references`, one pair after the other."""
    rows = range(len(hypotheses.lengths))
    return np.array([lcs_length(hypotheses.row(row), references.row(row)) for row in rows], dtype=np.int64)


def lcs_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Length of the longest common subsequence, one bit per token (Hyyrö 2004), on integers of any width.

    A cleared bit i marks where a row of the dynamic programme grows from i to i + 1. Addition carries each match to the
    next set bit, which computes a whole row of the programme at once.
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
