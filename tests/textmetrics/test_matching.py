"""Matching tokens: n-grams and longest common subsequences against plain programmes."""

from itertools import chain

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from exadec.textmetrics.matching import TokenRows, count_matches, lcs_length, shared_ngrams, tokenize
from exadec.textmetrics.stemming import stem_like_script


def plain_lcs(first: list[int], second: list[int]) -> int:
    row = [0] * (len(second) + 1)
    for token in first:
        previous = row
        row = [0]
        for position, other in enumerate(second):
            equal = previous[position] + 1
            row.append(equal if token == other else max(previous[position + 1], row[position]))
    return row[-1]


def token_rows(rows: list[list[int]], size: int) -> TokenRows:
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    return TokenRows(np.array([*chain(*rows)], dtype=np.int64), np.cumsum(lengths) - lengths, lengths, size)


sequences = st.lists(st.integers(0, 4), max_size=140)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(sequences, sequences), min_size=1, max_size=4))
def test_lcs_equals_plain_dynamic_programme(pairs: list[tuple[list[int], list[int]]]) -> None:
    expected = [plain_lcs(first, second) for first, second in pairs]
    assert [lcs_length(first, second) for first, second in pairs] == expected
    firsts, seconds = (token_rows(list(side), 5) for side in zip(*pairs, strict=True))
    assert count_matches(firsts, seconds, ("L",))["L"].tolist() == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(sequences, sequences), min_size=1, max_size=4))
def test_ngrams_of_machine_words_equal_those_of_sorting(pairs: list[tuple[list[int], list[int]]]) -> None:
    firsts, seconds = (token_rows(list(side), 5) for side in zip(*pairs, strict=True))
    expected = shared_ngrams(firsts, seconds, (1, 2, 3, 9))
    found = count_matches(firsts, seconds, ("1", "2", "3", "9"))
    assert {measure: matches.tolist() for measure, matches in found.items()} == {
        str(order): matches.tolist() for order, matches in expected.items()
    }


def test_ngram_keys_that_outgrow_a_machine_word() -> None:
    rows = [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 3, 4, 5, 6, 7, 8, 1]]
    small = shared_ngrams(token_rows(rows, 10), token_rows(rows[::-1], 10), range(1, 10))
    large = shared_ngrams(token_rows(rows, 1 << 30), token_rows(rows[::-1], 1 << 30), range(1, 10))
    assert {order: matches.tolist() for order, matches in small.items()} == {
        order: matches.tolist() for order, matches in large.items()
    }
    assert small[8].tolist() == [1, 1]
    assert small[9].tolist() == [0, 0]


def test_tokenize_rows() -> None:
    rows = tokenize(["Cats, cat", "", "the CATS"], stem_like_script)
    assert rows.lengths.tolist() == [2, 0, 2]
    assert rows.row(0)[0] == rows.row(0)[1] == rows.row(2)[1]
    assert tokenize([]).lengths.tolist() == []
    assert tokenize(["", "-"]).lengths.tolist() == [0, 0]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.text("aB1", min_size=1, max_size=30).map(lambda word: word * 3), max_size=9), min_size=1))
def test_words_of_any_length_are_told_apart(texts_of_words: list[list[str]]) -> None:
    rows = tokenize([" ".join(words) for words in texts_of_words])
    numbers: dict[str, int] = {}
    for index, words in enumerate(texts_of_words):
        expected = [
            numbers.setdefault(word.lower(), number) for word, number in zip(words, rows.row(index), strict=True)
        ]
        assert rows.row(index) == expected
    assert len(set(numbers.values())) == len(numbers)
    assert all(number < rows.vocabulary_size for number in numbers.values())
