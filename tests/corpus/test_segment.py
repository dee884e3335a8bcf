"""Pieces: every text can be put together again, and BPE learns what `tokenizers` learns."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from exadec.corpus.segment import JOINER, BpeSegmenter, Segmenter, WordSegmenter


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


@given(text=texts)
def test_bpe_joins_to_the_same_text(bpe: BpeSegmenter, text: str) -> None:
    assert bpe.join(bpe.segment(text)) == text


def test_bpe_is_saved_and_opened(bpe: BpeSegmenter, tmp_path: Path) -> None:
    bpe.save(tmp_path)
    opened = BpeSegmenter.open(tmp_path, lower_case=False)
    assert opened.segment("the newest 東京") == bpe.segment("the newest 東京")
    assert opened.pieces() == bpe.pieces()


@pytest.mark.parametrize("lower_case", [False, True])
@given(text=texts)
def test_pieces_of_a_text_are_those_of_its_words(bpe: BpeSegmenter, text: str, lower_case: bool) -> None:
    segmenters: list[Segmenter] = [WordSegmenter(pretokenized, lower_case) for pretokenized in (False, True)]
    for segmenter in (*segmenters, BpeSegmenter(bpe.tokenizer, lower_case)):
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
