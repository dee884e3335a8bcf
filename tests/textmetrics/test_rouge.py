"""ROUGE against cases counted by hand and the rouge-score package.

`test_rouge_parity.py` compares it with the official script.
"""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from exadec.textmetrics import count_overlaps, rouge
from exadec.textmetrics.rouge import printed_average

MEASURES = ("1", "2", "4", "L")


WORDS = (
    "cat",
    "cats",
    "running",
    "run",
    "nation",
    "nationally",
    "skies",
    "a1",
    "2019",
    "-",
    "é",
    "İ",
    "\u212a",
    "|",
    "\n",
)


texts = st.one_of(st.text(max_size=30), st.lists(st.sampled_from(WORDS), max_size=90).map(" ".join))


def rouge_score_arrays(hypotheses: list[str], references: list[str], stemmed: bool) -> np.ndarray:
    """(measures, 3, pairs): precision, recall, F1."""
    scorer = RougeScorer([f"rouge{measure}" for measure in MEASURES], use_stemmer=stemmed)
    scores = [scorer.score(reference, text) for text, reference in zip(hypotheses, references, strict=True)]
    return np.array([list(score.values()) for score in scores]).transpose(1, 2, 0)


def own_arrays(hypotheses: list[str], references: list[str], stemmed: bool) -> np.ndarray:
    wrapped = [[text] for text in references]
    overlaps = count_overlaps(hypotheses, wrapped, MEASURES, stemmed, dialect="rouge-score")
    return np.array([[overlap.precision, overlap.recall, overlap.f1] for overlap in overlaps.values()])


def test_rouge_counted_by_hand() -> None:
    # the cat sat on the mat | the cat is on a mat: the, cat, on, mat; the cat; the cat on mat.
    overlaps = count_overlaps(["The cat sat on the mat"], [["the cat is on a red mat."]], ("1", "2", "L"), stem=False)
    counts = {
        measure: (overlap.matches[0], overlap.hypothesis_counts[0], overlap.reference_counts[0])
        for measure, overlap in overlaps.items()
    }
    assert counts == {"1": (4, 6, 7), "2": (1, 5, 6), "L": (4, 6, 7)}
    scores = rouge(["The cat sat on the mat"], [["the cat is on a red mat."]], stem=False)
    assert [score.value for score in scores.values()] == pytest.approx([800 / 13, 200 / 11, 800 / 13])


def test_repeated_ngrams_are_clipped() -> None:
    overlap = count_overlaps(["a a a b a a"], [["a a b b"]], ("1", "2"), stem=False)
    assert overlap["1"].matches.tolist() == [3]
    assert overlap["2"].matches.tolist() == [2]  # a a once, a b once


def test_corpus_value_is_the_mean_over_instances() -> None:
    score = rouge(["a b", "c"], [["a b"], ["d"]], measures=("1",))["1"]
    assert score.per_instance.tolist() == [100, 0]
    assert score.value == 50


def test_several_references_are_combined() -> None:
    # Against the two references 4 and 2 of 4 unigrams match, and 0 and 1 of 3 bigrams.
    several = (["a b c d"], [["d c b a", "a b x y z"]], ("1", "2"), False)
    summed = rouge(*several)
    assert summed["1"].value == pytest.approx(100 * 2 * 6 / (8 + 9))
    assert summed["2"].value == pytest.approx(100 * 2 * 1 / (6 + 7))
    assert rouge(*several, kind="recall")["1"].value == pytest.approx(100 * 6 / 9)
    assert rouge(*several, kind="precision")["1"].value == pytest.approx(100 * 6 / 8)
    best = rouge(*several, combination="best")
    assert best["1"].value == 100  # the first reference
    assert best["2"].value == pytest.approx(100 * 2 / 7)  # the second


def test_reference_of_highest_recall_decides() -> None:
    # Recall is 2 of 2 and then 4 of 5, though F1 is higher for the second.
    several = (["a b c d", "a"], [["a b", "a b c d e", "c d"], ["b"]], ("1", "2", "L"), False)
    scores = rouge(*several, kind="precision", combination="highest-recall")
    assert scores["1"].per_instance.tolist() == [50, 0]
    assert scores["2"].per_instance[0] == pytest.approx(100 / 3)
    assert rouge(*several, combination="best")["1"].per_instance[0] == pytest.approx(100 * 8 / 9)


def test_best_reference_equals_score_multi() -> None:
    hypotheses = ["the nations were running", "cats", ""]
    references = [["a nation runs", "the nation was running fast", "!"], ["a cat", "cat"], ["x"]]
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
    scores = rouge(hypotheses, references, dialect="rouge-score")
    for index, (text, several) in enumerate(zip(hypotheses, references, strict=True)):
        expected = [100 * score.fmeasure for score in scorer.score_multi(several, text).values()]
        assert [score.per_instance[index] for score in scores.values()] == pytest.approx(expected, abs=1e-9)


def test_printed_average_is_near_the_mean() -> None:
    generator = np.random.default_rng(6)
    texts = ["a " * count + "b " * (9 - count) for count in generator.integers(0, 10, 300)]
    score = rouge(texts, [["a a a a a b b b b"]] * 300)["1"]
    error = score.per_instance.std() / np.sqrt(300 * 1000)
    assert 0 < abs(printed_average(score) - score.value) < 4 * error
    same = rouge(["a b"] * 12, [["a b c"]] * 12)["1"]
    assert printed_average(same, resamples=3) == pytest.approx(same.value)


def test_recall_at_reference_length_cuts_each_hypothesis() -> None:
    # Cut to three tokens the hypothesis is "x a b": 2 of 3 unigrams, 1 of 2 bigrams.
    scores = rouge(["x a b c"], [["a b c"]], stem=False, cut="reference-length", kind="recall")
    assert [score.value for score in scores.values()] == pytest.approx([200 / 3, 50, 200 / 3])
    # Against the second reference nothing is cut away, and recall is 3 of 4.
    several = (["x a b c"], [["a b c", "a b c d"]], ("1",), False, "reference-length", "recall")
    assert rouge(*several, combination="best")["1"].value == pytest.approx(75)
    assert rouge(*several)["1"].value == pytest.approx(100 * 5 / 7)
    # Uncut, all of the first reference is found.
    assert rouge(["x a b c"], [["a b c"]], stem=False, kind="recall")["1"].value == 100


def test_a_byte_limit_cuts_hypotheses_and_references_alike() -> None:
    # Ten bytes of either are "one two th" and "one two x,": a word cut in half is another word.
    texts = ["one two three four"], [["one two x, three four"]], ("1", "2"), False
    assert [score.value for score in rouge(*texts, 10, "recall").values()] == pytest.approx([200 / 3, 50])
    assert [score.value for score in rouge(*texts, 8).values()] == [100, 100]
    assert rouge(*texts, 999)["1"].per_instance == rouge(*texts)["1"].per_instance
    # É has two bytes, so that four bytes of "aÉbc" hold the b, and the rest of "É" is no letter.
    for text in ("aÉbc", "a--b", "a  b", "\nb a"):
        assert rouge([text], [["a b" if text[0] == "a" else "b a"]], ("1",), False, 4)["1"].value == 100
    assert rouge(["aÉbc"], [["a"]], ("1",), False, 2)["1"].value == 100


@given(st.text("ab é-", max_size=12), st.text("ab é-", max_size=12), st.integers(1, 30))
def test_a_byte_limit_beyond_both_texts_changes_nothing(first: str, second: str, limit: int) -> None:
    cut = rouge([first], [[second]], ("1", "L"), cut=limit)
    if limit >= max(len(first.encode()), len(second.encode())):
        whole = rouge([first], [[second]], ("1", "L"))
        assert [score.value for score in cut.values()] == [score.value for score in whole.values()]
    by_hand = [text.encode()[:limit].decode("ascii", "replace") for text in (first, second)]
    again = rouge(by_hand[:1], [by_hand[1:]], ("1", "L"))
    assert [score.value for score in cut.values()] == [score.value for score in again.values()]


def test_signatures_say_the_recipe(tmp_path: Path) -> None:
    plain = rouge(["a"], [["a"]], measures=("1", "L"))
    assert re.fullmatch(
        r"rouge-L\|f1\|cut:no\|stem:rouge-1.5.5\|tok:rouge-1.5.5\|refs:sum\|v:[^|]+", plain["L"].signature
    )
    assert plain["1"].name == "ROUGE-1"
    cut = rouge(["a"], [["a"]], measures=("4",), stem=False, cut="reference-length", kind="recall")["4"]
    assert cut.name == "ROUGE-4 recall at reference length"
    assert cut.signature.startswith("rouge-4|recall|cut:reference-length|stem:no|")
    assert str(plain["1"]).startswith("ROUGE-1 = 100.00 [rouge-1|f1|")
    whole = rouge(["a"], [["a"]], kind="recall")["1"]
    assert whole.name == "ROUGE-1 recall"
    assert whole.signature.startswith("rouge-1|recall|cut:no|")
    first = rouge(["a"], [["a"]], cut=75, kind="recall")["1"]
    assert first.name == "ROUGE-1 recall at 75 bytes"
    assert first.signature.startswith("rouge-1|recall|cut:75-bytes|")
    assert rouge(["a"], [["a"]], cut=75)["1"].name == "ROUGE-1 at 75 bytes"
    other = rouge(["a"], [["a"]], kind="precision", dialect="rouge-score")["2"]
    assert other.name == "ROUGE-2 precision"
    assert "rouge-2|precision|cut:no|stem:porter-nltk|tok:rouge-score|refs:best|" in other.signature
    (tmp_path / "noun.exc").write_text("geese goose\n")
    listed = rouge(["geese"], [["goose"]], stem=tmp_path, combination="highest-recall")["1"]
    assert "|stem:rouge-1.5.5+wordnet|tok:rouge-1.5.5|refs:highest-recall|" in listed.signature


def test_exceptions_are_looked_up_before_the_rules(tmp_path: Path) -> None:
    (tmp_path / "adj.exc").write_text("better good\nworst bad\n")
    (tmp_path / "adv.exc").write_text("better well\n\nlonely\n")
    hypotheses, references = ["better", "worst", "cats"], [["good"], ["bad"], ["cat"]]
    assert rouge(hypotheses, references, ("1",))["1"].per_instance.tolist() == [0, 0, 100]
    assert rouge(hypotheses, references, ("1",), stem=tmp_path)["1"].per_instance.tolist() == [100, 100, 100]
    with pytest.raises(ValueError, match=r"no exception lists \(\*\.exc\)"):
        rouge(["a"], [["a"]], stem=tmp_path / "nothing")


def test_dialects_differ_in_letters_outside_ascii() -> None:
    # Lower-cased, the Kelvin sign is the letter k; the script sees three bytes that are no letters.
    hypotheses, references = ["\u212aelvin"], [["kelvin elvin"]]
    assert rouge(hypotheses, references, ("1",), dialect="rouge-score")["1"].value == pytest.approx(200 / 3)
    assert count_overlaps(hypotheses, references, ("1",))["1"].matches.tolist() == [1]
    assert count_overlaps(["kelvin"], references, ("1",))["1"].matches.tolist() == [1]
    assert rouge(["Éa bÉc"], [["a b c"]], ("1",))["1"].value == 100


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"kind": "F"}, "`kind` must be one of f1, recall, precision, but is 'F' instead"),
        ({"dialect": "1.5"}, "`dialect` must be one of"),
        ({"combination": "A"}, "`combination` must be one of"),
        ({"kind": "precision", "cut": "reference-length"}, "at reference length"),
        ({"cut": "reference-length"}, "at reference length, but is 'f1'"),
        ({"cut": 0}, "at least 1 byte"),
        ({"cut": True}, "at least 1 byte"),
    ],
)
def test_wrong_choice_is_refused(choice: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rouge(["a"], [["a"]], **choice)


@pytest.mark.parametrize(
    ("hypotheses", "references", "measures", "message"),
    [
        (["a", "b"], [["a"]], ("1",), "have 2 and 1 instead"),
        ([], [], ("1",), "at least 1 text"),
        (["a", "b"], [["a"], []], ("1",), r"references\[1\]. must hold at least 1"),
        (["a"], ["a"], ("1",), "single text 'a'"),
        (["a"], [["a"]], ("1", "W"), "is 'W' instead"),
        (["a"], [["a"]], ("0",), "is '0' instead"),
    ],
)
def test_wrong_input_is_refused(hypotheses: list, references: list, measures: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rouge(hypotheses, references, measures)


@pytest.mark.parametrize("stemmed", [True, False])
@settings(max_examples=150, deadline=None)
@given(pairs=st.lists(st.tuples(texts, texts), min_size=1, max_size=6))
def test_any_text_equals_rouge_score(stemmed: bool, pairs: list[tuple[str, str]]) -> None:
    hypotheses, references = [list(side) for side in zip(*pairs, strict=True)]
    expected = rouge_score_arrays(hypotheses, references, stemmed)
    np.testing.assert_allclose(own_arrays(hypotheses, references, stemmed), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("stemmed", [True, False])
def test_odd_and_long_text_equals_rouge_score(stemmed: bool) -> None:
    generator = np.random.default_rng(3)
    words = np.array(["house", "houses", "running", "sky", "skies", "u.s.", "1,000", "naïve", "İstanbul", "don't"])
    odd = ["", " ", "...", "é", "\n", "a\nb\r\nc", "\x00a\x1fb", "|", "a|b", "\ud800x", "😀 cat", "\u212aelvin", "ΑΣ a"]
    long = [" ".join(generator.choice(words, length)) for length in (63, 64, 65, 66, 400, 700)]
    collection = odd + long
    hypotheses = [text for text in collection for _ in collection]
    references = collection * len(collection)
    # Reversed pairs of the long texts would double the slow part and add nothing.
    kept = [index for index, text in enumerate(hypotheses) if len(text) <= len(references[index])]
    hypotheses, references = [hypotheses[index] for index in kept], [references[index] for index in kept]
    expected = rouge_score_arrays(hypotheses, references, stemmed)
    np.testing.assert_allclose(own_arrays(hypotheses, references, stemmed), expected, rtol=0, atol=1e-9)


def test_blocks_do_not_change_the_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(4)
    hypotheses = [" ".join(generator.choice(list("abcde"), 7)) for _ in range(50)]
    references = [[" ".join(generator.choice(list("abcde"), 7)) for _ in range(1 + index % 3)] for index in range(50)]
    whole = count_overlaps(hypotheses, references, MEASURES)
    # By name, because the package's attribute `rouge` is the function.
    monkeypatch.setattr(importlib.import_module("exadec.textmetrics.rouge"), "_BLOCK_CHARACTERS", 40)
    blocks = count_overlaps(hypotheses, references, MEASURES)
    assert list(blocks) == list(MEASURES)
    for measure, overlap in blocks.items():
        np.testing.assert_array_equal(overlap.matches, whole[measure].matches)
        np.testing.assert_array_equal(overlap.reference_counts, whole[measure].reference_counts)


def test_documents_of_thousands_of_tokens() -> None:
    generator = np.random.default_rng(5)
    document = generator.integers(0, 3000, 6000)
    shuffled = generator.permutation(document)
    joined = [" ".join(f"w{token}" for token in tokens) for tokens in (document, shuffled)]
    overlaps = count_overlaps([joined[0], joined[0]], [[joined[0]], [joined[1]]], MEASURES)
    assert [overlaps[measure].f1[0] for measure in MEASURES] == [1, 1, 1, 1]
    assert overlaps["1"].f1[1] == 1
    assert 0 < overlaps["L"].f1[1] < 0.2
