"""BLEU against sacrebleu, in every reading; and the detection of tokenised text."""

import logging
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from exadec.textmetrics import bleu, looks_tokenized
from exadec.textmetrics.bleu import _reader
from exadec.textmetrics.bootstrap import resample_weights

RAW = [
    "Dr. Smith's U.S. tour (1999-2001) didn't end well.",
    "It's 1,000 dollars, about £800, isn't it?",
    "Éric and ÖMER met in Ωmega; nothing else.",
    "It cost 3.5% more in pre-\nwar times & later.",
]
TOKENISED = [
    "dr. smith 's u.s. tour -lrb- 1999 -- 2001 -rrb- did n't end well .",
    "it 's 1,000 dollars , about £800 , is n't it ?",
    "éric and ömer met in ωmega ; nothing else .",
    "`` it cost 3.5 % more , '' she said .",
]
texts = st.text(st.sampled_from(list("aZÉΣß059 .,-&;<>/'\"()\n\t\u00a0")) | st.characters(), max_size=30)


def sacrebleu_of(hypotheses: list[str], references: list[list[str]], **options: object) -> tuple[float, str]:
    metric = BLEU(**options)
    most = max(map(len, references))
    columns = [[texts[number] if number < len(texts) else None for texts in references] for number in range(most)]
    return metric.corpus_score(hypotheses, columns).score, str(metric.get_signature())


@pytest.mark.parametrize("corpus", [RAW, TOKENISED], ids=["raw", "tokenised"])
@pytest.mark.parametrize("tokenize", ["13a", "none"])
@pytest.mark.parametrize("lower_case", [False, True])
def test_every_reading_equals_sacrebleu(corpus: list[str], tokenize: str, lower_case: bool) -> None:
    hypotheses = [" ".join(text.upper().split()[1:]) if index % 2 else text for index, text in enumerate(corpus)]
    references = [[text, text.lower()[3:]] for text in corpus]
    value, signature = sacrebleu_of(hypotheses, references, tokenize=tokenize, lowercase=lower_case)
    score = bleu(hypotheses, references, tokenize, lower_case)
    assert score.value == pytest.approx(value, abs=1e-9)
    assert score.signature == signature
    assert f"case:{'lc' if lower_case else 'mixed'}|eff:no|tok:{tokenize}|" in signature
    names = {"13a": ("BLEU", "BLEU (lower case)"), "none": ("BLEU (tokenised)", "BLEU (tokenised, lower case)")}
    assert score.name == names[tokenize][lower_case]


@given(
    st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=4), st.booleans(), st.sampled_from(["13a", "none"])
)
@settings(max_examples=200, deadline=None)
def test_any_text_equals_sacrebleu(rows: list[tuple[str, str, str]], lower_case: bool, tokenize: str) -> None:
    hypotheses, references = [row[0] for row in rows], [list(row[1:]) for row in rows]
    expected, _ = sacrebleu_of(hypotheses, references, tokenize=tokenize, lowercase=lower_case)
    assert bleu(hypotheses, references, tokenize, lower_case).value == pytest.approx(expected, abs=1e-9)


@given(texts, st.booleans())
@settings(max_examples=500, deadline=None)
def test_tokens_word_by_word_are_those_of_the_whole_text(text: str, lower_case: bool) -> None:
    whole = BLEU(tokenize="13a", lowercase=lower_case).tokenizer((text.lower() if lower_case else text).rstrip())
    assert _reader("13a", lower_case)(text).split() == whole.split()


def test_resampled_values_of_every_reading() -> None:
    references = [[text] for text in TOKENISED]
    hypotheses = [re.sub("e|o", "a", text) for text in TOKENISED]
    (weights,) = resample_weights(len(TOKENISED), 10, seed=3)
    for tokenize in ("13a", "none"):
        values = bleu(hypotheses, references, tokenize).resampled_values(weights)
        for row, value in zip(weights, values, strict=True):
            drawn = np.repeat(np.arange(len(row)), row.astype(int))
            expected, _ = sacrebleu_of(
                [hypotheses[index] for index in drawn], [references[index] for index in drawn], tokenize=tokenize
            )
            assert value == pytest.approx(expected, abs=1e-9)


def test_lower_case_is_mteval_without_c_where_capitals_are_ascii() -> None:
    # mteval-v13a.pl: tr/[A-Z]/[a-z]/ unless -c is given.
    to_lower = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
    for hypothesis, reference, agree in [
        ("The CAT sat on the MAT", "the cat sat on a mat", True),
        ("The École sat on the MAT", "the École sat on a mat", True),
        ("The ÉCOLE sat on the MAT", "the école sat on a mat", False),
    ]:
        mteval = bleu([hypothesis.translate(to_lower)], [[reference.translate(to_lower)]]).value
        ours = bleu([hypothesis], [[reference]], lower_case=True).value
        assert (ours == pytest.approx(mteval)) == agree
        assert bleu([hypothesis], [[reference]]).value < ours


def test_the_two_readings_differ_and_are_not_comparable() -> None:
    # 13a cuts u.s. into u . s . (four tokens), and dr. into dr . (two).
    hypothesis, reference = "dr. smith saw the u.s. tour .", "mr. smith saw the u.s. tour ."
    one, other = bleu([hypothesis], [[reference]]), bleu([hypothesis], [[reference]], tokenize="none")
    assert (one.statistics[0, 0], other.statistics[0, 0]) == (11, 7)
    assert one.signature != other.signature
    assert one.value > other.value


def test_tokenised_input_is_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    many = TOKENISED * 60  # more than the 100 lines at which sacrebleu itself warns, by three lines
    with caplog.at_level(logging.WARNING):
        bleu(many, [[text] for text in many])
    assert [record.name for record in caplog.records] == ["exadec.textmetrics.bleu"]
    assert "\n" not in caplog.records[0].message
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        bleu(RAW, [[text] for text in TOKENISED])
    assert len(caplog.records) == 1  # one side alone is reason enough
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        bleu(many, [[text] for text in many], tokenize="none")
        bleu(RAW, [[text] for text in RAW])
    assert not caplog.records


@pytest.mark.parametrize(
    "text", [*RAW[:3], "plain words", "", "Il est là ! Pourquoi ? Parce que : non ; oui.", "a.b ..."]
)
def test_ordinary_text_does_not_look_tokenised(text: str) -> None:
    assert not looks_tokenized([text])


@pytest.mark.parametrize("text", [*TOKENISED, "it is n't", "ada -LRB- born", "state @-@ of @-@ the @-@ art", "( b )"])
def test_tokenised_text_looks_tokenised(text: str) -> None:
    assert looks_tokenized([text])


words = st.text("abcxyzABC", min_size=2, max_size=8)


@given(st.lists(st.tuples(words, st.sampled_from(["", "", ",", ".", "'s"])), min_size=1, max_size=12))
@settings(deadline=None)
def test_cutting_marks_off_is_what_makes_text_look_tokenised(pieces: list[tuple[str, str]]) -> None:
    ordinary = " ".join(word + mark for word, mark in pieces)
    cut = " ".join(f"{word} {mark}".strip() for word, mark in pieces)
    assert not looks_tokenized([ordinary])
    assert looks_tokenized([cut]) == any(mark for _, mark in pieces)


def test_half_of_the_marks_decide() -> None:
    assert looks_tokenized(["a b .", "a b."])
    assert not looks_tokenized(["a b .", "a b.", "c d,"])
    assert looks_tokenized(text for text in ["john smith jr. was here , once ."])
    assert not looks_tokenized([])


def test_refusals() -> None:
    with pytest.raises(ValueError, match="'intl' instead"):
        bleu(["a"], [["a"]], tokenize="intl")
    with pytest.raises(ValueError, match="single text"):
        looks_tokenized("a b .")


HYPOTHESES = [
    "The cat sat on the mat.",
    "A quick brown fox jumped over the dog",
    "",
    "It's 1,000 dollars (about £800).",
    "Nothing shared",
]


REFERENCES = [
    ["The cat is sitting on the mat.", "A cat sat on the mat."],
    ["The quick brown fox jumps over the lazy dog"],
    ["empty answer", ""],
    ["It costs 1,000 dollars (about £800).", "It's 1,000 dollars.", "A thousand"],
    ["wholly different words"],
]


def test_bleu_counted_by_hand() -> None:
    # Precisions 5/6, 3/5, 1/4, 0/3 smoothed to 1/(2*3); the lengths are equal, so no brevity penalty.
    score = bleu(["the cat sat on the mat"], [["the cat is on the mat"]])
    assert score.statistics.tolist() == [[6, 6, 5, 3, 1, 0, 6, 5, 4, 3]]
    assert score.value == pytest.approx(100 * (5 / 6 * 3 / 5 * 1 / 4 * 1 / 6) ** 0.25)


def test_bleu_equals_sacrebleu_and_carries_its_signature() -> None:
    value, signature = sacrebleu_of(HYPOTHESES, REFERENCES)
    score = bleu(HYPOTHESES, REFERENCES)
    assert score.value == pytest.approx(value, abs=1e-9)
    assert score.signature == signature
    assert "nrefs:var|" in signature
    single = [texts[:1] for texts in REFERENCES]
    assert bleu(HYPOTHESES, single).signature == sacrebleu_of(HYPOTHESES, single)[1]
    assert bleu(HYPOTHESES, single).signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


@pytest.mark.parametrize("hypotheses", [[""], ["!?"], ["é"]])
def test_bleu_of_texts_that_share_nothing(hypotheses: list[str]) -> None:
    assert bleu(hypotheses, [["a b"]]).value == 0


def test_bleu_resampled_equals_bleu_of_the_resampled_texts() -> None:
    score = bleu(HYPOTHESES, REFERENCES)
    (weights,) = resample_weights(len(HYPOTHESES), 20, seed=7)
    for row, value in zip(weights, score.resampled_values(weights), strict=True):
        drawn = np.repeat(np.arange(len(row)), row.astype(int))
        texts, references = [HYPOTHESES[index] for index in drawn], [REFERENCES[index] for index in drawn]
        assert value == pytest.approx(sacrebleu_of(texts, references)[0], abs=1e-9)


def test_bleu_refuses_wrong_input() -> None:
    with pytest.raises(ValueError, match="have 1 and 2 instead"):
        bleu(["a"], [["a"], ["b"]])
