"""Pieces: every text can be put together again, and BPE learns what `tokenizers` learns."""

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from exadec.corpus.segment import (
    JOINER,
    BpeSegmenter,
    EitherCaseSegmenter,
    Segmenter,
    WordSegmenter,
    change_case,
    count_stretches,
    find_other_case,
)
from exadec.corpus.vocabulary import SPECIALS, PieceTable, Vocabulary
from exadec.reading.folder import Folder


def spaced(text: str) -> str:
    return " ".join(text.split())


texts = st.text(max_size=60).map(spaced)


@given(texts)
def test_words_join_to_the_same_text(text: str) -> None:
    segmenter = WordSegmenter(pretokenized=False, lower_case=False)
    assert segmenter.join(segmenter.segment(text)) == spaced(text.replace(JOINER, " "))


def test_words_by_hand() -> None:
    segmenter = WordSegmenter(pretokenized=False, lower_case=False)
    assert segmenter.segment('The U.S. paid $4,000.50, Norway\'s "aid".') == [
        "The", "U.S.", "paid", "$", "￭4,000.50", "￭,", "Norway's", '"', "￭aid", '￭"', "￭."
    ]  # fmt: skip
    assert WordSegmenter(pretokenized=True, lower_case=True).segment("-LRB- a.b , c") == ["-lrb-", "a.b", ",", "c"]


@pytest.fixture(scope="module")
def bpe() -> BpeSegmenter:
    return BpeSegmenter.learn(["the lower the newer", "the widest Ünïcode 東京"] * 5, 300, lower_case=False)


def test_pieces_that_no_text_has_side_by_side_are_written_apart() -> None:
    """A model may copy the number of `$25 million` without its sign."""
    words = WordSegmenter(pretokenized=False, lower_case=False)
    assert words.segment("$25 million") == ["$", "￭25", "million"]
    assert words.join(["bought", "for", "￭25", "million"]) == "bought for 25 million"
    assert words.join(["￭25", "￭-", "￭2", "￭.", "￭5"]) == "25-2.5"


def test_a_text_is_one_line_whatever_pieces_it_is_made_of(bpe: BpeSegmenter) -> None:
    text = bpe.join(bpe.pieces())
    assert text.splitlines() == [text]
    assert "\t" not in text


@given(text=texts)
def test_bpe_joins_to_the_same_text(bpe: BpeSegmenter, text: str) -> None:
    assert bpe.join(bpe.segment(text)) == text


def test_bpe_is_saved_and_opened(bpe: BpeSegmenter, tmp_path: Path) -> None:
    bpe.save(tmp_path)
    opened = BpeSegmenter.open(Folder(tmp_path, "learn it again"), lower_case=False)
    assert opened.segment("the newest 東京") == bpe.segment("the newest 東京")
    assert opened.pieces() == bpe.pieces()


@pytest.mark.parametrize("lower_case", [False, True])
@given(text=texts)
def test_pieces_of_a_text_are_those_of_its_words(bpe: BpeSegmenter, text: str, lower_case: bool) -> None:
    segmenters: list[Segmenter] = [WordSegmenter(pretokenized, lower_case) for pretokenized in (False, True)]
    encodings = [BpeSegmenter(bpe.tokenizer, lower_case), EitherCaseSegmenter(BpeSegmenter(bpe.tokenizer, lower_case))]
    for segmenter in (*segmenters, *encodings):
        assert [piece for word in text.split() for piece in segmenter.segment(word)] == segmenter.segment(text)


@pytest.mark.parametrize("lower_case", [False, True])
def test_bpe_learns_from_counts_what_it_learns_from_texts(lower_case: bool) -> None:
    random = np.random.default_rng(0)
    odd = "The U.S. isn't paying $4,000.50 — Norway’s “aid” 東京 naïve re-elected the they'll"
    words = [*odd.split(" "), "x" * 70]
    texts = [" ".join(random.choice(words, 12)) for _ in range(900)]
    oracle = Tokenizer(models.BPE())
    oracle.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    trainer = trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    oracle.train_from_iterator((text.lower() if lower_case else text for text in texts), trainer)
    learnt = json.loads(BpeSegmenter.learn(texts, 330, lower_case).tokenizer.to_str())
    assert learnt["model"] == json.loads(oracle.to_str())["model"]
    assert learnt["pre_tokenizer"] == json.loads(oracle.to_str())["pre_tokenizer"]
    assert len(learnt["model"]["merges"]) > 50


STORY = (
    "The explosion shook NATO today. Today's Explosion was the worst in McAllen, officials said; Officials of iOS "
    "and the U.S. said the Same. 東京 Ünder Zebras eXtra the explosions officially said that 4,000 zebras"
)


def learn_either_case(size: int, lower_case: bool = False, text: str = STORY) -> EitherCaseSegmenter:
    words = text.split()
    counts = count_stretches((words, [1 + i % 5 for i in range(len(words))], lower_case))
    return EitherCaseSegmenter.learn_from_counts(counts, size, lower_case)


@pytest.fixture(scope="module")
def either() -> EitherCaseSegmenter:
    return learn_either_case(420)


mixed_case = st.lists(
    st.one_of(st.sampled_from(STORY.split()), st.text(alphabet="aAbBeEsStTzZ.'-É½ß", max_size=8), texts), max_size=8
).map(lambda words: spaced(" ".join(words)))


@given(text=mixed_case)
def test_either_case_joins_to_the_same_text(either: EitherCaseSegmenter, text: str) -> None:
    pieces = either.segment(text)
    assert either.join(pieces) == text
    assert set(pieces) <= set(either.pieces())
    assert [piece for word in text.split() for piece in either.segment(word)] == pieces


@given(text=mixed_case)
def test_either_case_in_lower_case_joins_to_lower_case(text: str) -> None:
    lower = learn_either_case_once()
    assert lower.join(lower.segment(text)) == text.lower()


@cache
def learn_either_case_once() -> EitherCaseSegmenter:
    return learn_either_case(330, lower_case=True)


@given(word=st.from_regex(r"[a-z]{1,12}(['.-]?[a-z0-9]{0,5}){0,2}", fullmatch=True))
def test_either_case_splits_a_word_in_the_same_places(either: EitherCaseSegmenter, word: str) -> None:
    lower, upper = either.segment(word), either.segment(word[0].upper() + word[1:])
    if lower[0] == "Ġ":  # a letter that never begins a word of the story with this one
        return
    assert [change_case(lower[0]), *lower[1:]] == upper
    assert change_case(upper[0]) == lower[0] != upper[0]


def test_either_case_is_more_than_bpe() -> None:
    """Ordinary BPE splits the same words differently, and spends no pieces on the other case."""
    either = learn_either_case(420)
    assert either.segment("Explosion said") == ["ĠExplosion", "Ġsaid"]
    assert either.segment("explosion Said") == ["Ġexplosion", "ĠSaid"]
    assert either.segment("Zebras")[1:] == either.segment("zebras")[1:]
    assert either.segment("NATO") == BpeSegmenter(either.bpe.tokenizer, False).segment("NATO")
    plain = BpeSegmenter.learn([STORY] * 3, 420, lower_case=False)
    assert len(plain.segment("Officially")) != len(plain.segment("officially"))


@pytest.mark.parametrize("size", [256, 257, 258, 259, 300, 377, 1000])
@pytest.mark.parametrize("lower_case", [False, True])
def test_either_case_has_both_cases_and_no_more_than_its_size(size: int, lower_case: bool) -> None:
    either = learn_either_case(size, lower_case)
    pieces = either.pieces()
    assert len(set(pieces)) == len(pieces) <= size
    if size < 400:  # larger than what the story has
        assert len(pieces) >= size - 1
    for piece in pieces:
        if re.match("Ġ[a-z]", piece):
            assert change_case(piece) in pieces
    other = find_other_case(Vocabulary(pieces))
    assert (other[other] == np.arange(len(SPECIALS) + len(pieces))).all()
    for number in np.flatnonzero(other != np.arange(len(other))) - len(SPECIALS):
        assert pieces[other[number + len(SPECIALS)] - len(SPECIALS)] == change_case(pieces[number]) != pieces[number]


@pytest.mark.parametrize("text", ["", "a", "A", "東京", "!!", "A A A a", "İstanbul ǅ"])
def test_either_case_learns_from_next_to_nothing(text: str) -> None:
    either = learn_either_case(300, text=text)
    for other in (text, "Zebra zebra NATO"):
        assert either.join(either.segment(other)) == other


def test_either_case_is_saved_and_opened_and_numbers_its_pieces(either: EitherCaseSegmenter, tmp_path: Path) -> None:
    either.save(tmp_path)
    opened = EitherCaseSegmenter.open(Folder(tmp_path, "learn it again"), lower_case=False)
    assert opened.pieces() == either.pieces()
    table = PieceTable(Vocabulary(either.pieces()))
    lines = ["", STORY, "Explosion", "Qq qq", STORY.title(), "x"]
    encoded = list(opened.encode_all(lines, table))
    assert encoded == [table.encode(either.segment(line)) for line in lines]
    assert not table.unknown
    assert [opened.join(table.decode(ids)) for ids in encoded] == lines


def test_other_case_of_pieces_and_of_words() -> None:
    assert [change_case(piece) for piece in ("ĠThe", "the", "￭Aid", "Ġ", "Ã©cole", "4th", "")] == [
        "Ġthe", "The", "￭aid", "Ġ", "Ã©cole", "4th", ""
    ]  # fmt: skip
    vocabulary = Vocabulary(["The", "the", "aid", "NATO", "A", "a"])
    first = len(SPECIALS)
    assert (find_other_case(vocabulary) - first).tolist()[first:] == [1, 0, 2, 3, 5, 4]
    assert find_other_case(vocabulary)[:first].tolist() == list(range(first))
