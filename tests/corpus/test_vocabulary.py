"""Vocabularies, and ids for pieces outside them."""

from collections import Counter

from exadec.corpus.vocabulary import SPECIALS, UNK, PieceTable, Vocabulary


def test_vocabulary_keeps_the_most_frequent_and_breaks_ties_by_the_alphabet() -> None:
    vocabulary = Vocabulary.most_frequent(Counter({"b": 2, "a": 2, "c": 3, "d": 1}), len(SPECIALS) + 3)
    assert vocabulary.pieces == (*SPECIALS, "c", "a", "b")


def test_piece_table_numbers_unknown_pieces_and_gives_them_back() -> None:
    table = PieceTable(Vocabulary(["a", "b"]))
    ids = table.encode(["a", "x", "y", "x", "<pad>"])
    assert ids == [5, 7, 8, 7, 9]
    assert table.decode(ids) == ["a", "x", "y", "x", "<pad>"]
    assert table.decode([0, 2, 5, 3, UNK]) == ["a", "<unk>"]
