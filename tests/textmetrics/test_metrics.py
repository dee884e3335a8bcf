"""The list of metrics: each is the score of its own function."""

from dataclasses import replace
from typing import Any

import pytest

from exadec.errors import InputError
from exadec.textmetrics import bleu, confidence_interval, leak, licensed, manner, metrics, parent, rouge, support
from exadec.textmetrics.manner import agreements
from exadec.textmetrics.metrics import METRICS, choose_for_report, require_steering, score_all, with_both_bleus
from exadec.textmetrics.traits import YES_OR_NO

TEXTS = ["Ada was born in 1815 .", "Bob is here ."]


GOLD = [("Ada was born in London in 1815 .", "Ada , born 1815 ."), ("Bob is not here .",)]


TABLES = [(("name", "Ada"), ("born", "1815")), (("name", "Bob"),)]


SOURCES = ["In 1815 Ada was born.", "Bob"]


EXEMPLARS = ["Eve was born in 1700 .", None]
GIVEN = {"tables": TABLES, "sources": SOURCES, "exemplars": EXEMPLARS}


def test_every_listed_metric_is_the_score_of_its_own_function() -> None:
    """Names that share a pass over the texts give what each function gives when it is called alone."""
    orders = ["1", "2", "4", "L"]
    plain, recall = rouge(TEXTS, GOLD, orders), rouge(TEXTS, GOLD, orders, kind="recall")
    cut = rouge(TEXTS, GOLD, orders, cut="reference-length", kind="recall")
    expected = {f"rouge{order}": score for order, score in plain.items()}
    expected |= {f"rouge{order}_recall": score for order, score in recall.items()}
    expected |= {f"recall{order}": score for order, score in cut.items()}
    expected |= {"bleu": bleu(TEXTS, GOLD), "bleu_tokenised": bleu(TEXTS, GOLD, tokenize="none")}
    expected |= {"bleu_lc": bleu(TEXTS, GOLD, lower_case=True)}
    expected |= {"bleu_tokenised_lc": bleu(TEXTS, GOLD, tokenize="none", lower_case=True)}
    assert len({score.name for score in expected.values()}) == len(expected)
    of_tables = parent(TEXTS, GOLD, TABLES)
    expected |= {"parent": of_tables["f1"], "parent_precision": of_tables["precision"]}
    expected |= {"parent_recall": of_tables["recall"], "manner": manner(TEXTS, EXEMPLARS)}
    expected |= {"leak": leak(TEXTS, SOURCES, EXEMPLARS), "support": support(TEXTS, SOURCES)}
    expected |= {"facts": licensed(TEXTS, SOURCES)}
    for trait, found in zip(YES_OR_NO, agreements(TEXTS, EXEMPLARS), strict=False):
        assert found.if_exemplar_has is not None
        expected[f"follows_{trait}"] = replace(found.if_exemplar_has, name=f"{YES_OR_NO[trait]} followed")
    assert list(METRICS) == list(expected)
    for names in (list(METRICS), list(reversed(METRICS)), *([name] for name in METRICS), ["bleu", "rouge1", "bleu"]):
        for name, score in zip(names, score_all(names, TEXTS, GOLD, **GIVEN), strict=True):
            assert (score.name, score.value, score.signature) == (
                expected[name].name,
                expected[name].value,
                expected[name].signature,
            )


def test_a_byte_limit_is_for_rouge_alone() -> None:
    names = ["rouge1", "rougeL_recall", "bleu"]
    first, longest, unchanged = score_all(names, TEXTS, GOLD, byte_limit=12)
    assert first.value == rouge(TEXTS, GOLD, ["1"], cut=12)["1"].value != rouge(TEXTS, GOLD, ["1"])["1"].value
    assert longest.value == rouge(TEXTS, GOLD, ["L"], cut=12, kind="recall")["L"].value
    assert unchanged.value == bleu(TEXTS, GOLD).value
    with pytest.raises(ValueError, match="has a cut of its own"):
        score_all(["recall1"], TEXTS, GOLD, byte_limit=12)


def test_case_does_not_count_in_bleu_lc() -> None:
    shouted = [text.upper() for text in TEXTS]
    assert score_all(["bleu"], shouted, GOLD)[0].value < score_all(["bleu"], TEXTS, GOLD)[0].value
    for name in ("bleu_lc", "bleu_tokenised_lc"):
        (loud,), (quiet,) = score_all([name], shouted, GOLD), score_all([name], TEXTS, GOLD)
        assert loud.value == quiet.value
        assert "case:lc" in loud.signature


def test_a_trait_is_followed_where_text_and_exemplar_have_it() -> None:
    texts = ["What next: a flood?", "A flood came", "Storm: ten dead"]
    exemplars = ["Fire: two dead", "Vote: who won?", "Peace at last"]
    colon, question = score_all(["follows_colon", "follows_question"], texts, [["x"]] * 3, exemplars=exemplars)
    assert (colon.value, colon.name) == (50.0, "colon followed")
    assert question.value == 0.0


def test_unknown_metrics_and_missing_material_are_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown metric 'meteor'; the metrics are rouge1, .*, follows_long\."):
        score_all(["rouge1", "meteor"], TEXTS, GOLD)
    needy = {name: metric.needs for name, metric in METRICS.items() if metric.needs}
    assert len(needy) == 14
    for name, needs in needy.items():
        for missing in needs:
            rest = {need: GIVEN[need] for need in needs if need != missing}
            with pytest.raises(ValueError, match=f"`{name}` needs the {missing} of the texts: give `{missing}`"):
                score_all([name], TEXTS, GOLD, **rest)


def test_metrics_that_may_steer_training_need_texts_alone() -> None:
    for name, metric in METRICS.items():
        if metric.steers_training:
            require_steering(name)
            (score,) = score_all([name], TEXTS, GOLD)
            assert score.value > 0
            assert not score.lower_is_better
        else:
            with pytest.raises(
                InputError, match=r"`training\.metric` must be one of rouge1, rouge2, rouge4, rougeL, bleu"
            ):
                require_steering(name)


def test_reports_show_what_runs_were_trained_for() -> None:
    raw = [("Ada was born in London.",)] * 2
    assert choose_for_report(["rougeL", "rougeL"], raw, False) == ["rouge1", "rouge2", "rougeL", "bleu"]
    assert choose_for_report(["rougeL", "rouge4"], raw, False) == ["rouge4", "rougeL", "bleu"]
    tokenised = ["rouge1", "rouge2", "rougeL", "bleu", "bleu_tokenised", "parent"]
    assert choose_for_report(["bleu"], GOLD, True) == tokenised
    assert with_both_bleus(["rouge1"], GOLD) == ["rouge1"]
    assert with_both_bleus(["bleu", "rouge1"], GOLD) == ["bleu", "bleu_tokenised", "rouge1"]
    assert with_both_bleus(["bleu_lc"], GOLD) == ["bleu_lc", "bleu_tokenised_lc"]
    assert with_both_bleus(["bleu_lc", "bleu"], raw) == ["bleu_lc", "bleu"]


def test_score_gives_rows_with_intervals_and_signatures() -> None:
    texts, references = ["the cat sat", "a dog ran"], ["the cat sat", "the dog ran off"]
    rows = metrics.score(texts, references, ["rouge1", "bleu"])
    direct = score_all(["rouge1", "bleu"], texts, [[one] for one in references])
    assert [row["metric"] for row in rows] == ["rouge1", "bleu"]
    for row, one in zip(rows, direct, strict=True):
        assert (row["measure"], row["value"], row["signature"]) == (one.name, one.value, one.signature)
        assert (row["low"], row["high"]) == confidence_interval(one)
        assert row["instances"] == 2
    several = [["the cat sat", "a cat"], ["a dog ran"]]
    assert metrics.score(texts, several, ["rouge1"])[0]["value"] == score_all(["rouge1"], texts, several)[0].value
    assert len({tuple(row) for row in rows}) == 1  # the same columns in every row


@pytest.mark.parametrize("given", [("a b", ["a b"]), (["a"], "b"), (["a"], ["b"], "rouge1")])
def test_one_text_is_no_list_of_texts(given: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="must be a list, but is one text"):
        metrics.score(*given)


def test_score_chooses_metrics_by_what_is_given() -> None:
    texts = ["the cat sat", "a dog ran"]
    assert [row["metric"] for row in metrics.score(texts, texts)] == ["rouge1", "rouge2", "rougeL", "bleu"]
    more = metrics.score(texts, texts, sources=texts, exemplars=["a", None])
    assert [row["metric"] for row in more] == ["rouge1", "rouge2", "rougeL", "bleu", "manner", "leak", "support"]


@pytest.mark.parametrize("name", ["references", "sources", "exemplars"])
def test_score_refuses_lists_of_other_lengths(name: str) -> None:
    given = {"references": ["a", "b"], name: ["a"]}
    with pytest.raises(ValueError, match=f"There are 2 texts, but 1 {name}"):
        metrics.score(["a", "b"], **given)
