"""BLEU against sacrebleu, and the bootstrap against plain loops."""

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from exadec.errors import InputError
from exadec.textmetrics import bleu, compare, confidence_interval, mean_score, parent, rouge
from exadec.textmetrics.bootstrap import resample_weights
from exadec.textmetrics.metrics import METRICS, choose_for_report, require_steering, score_all, with_both_bleus

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


def sacrebleu_of(hypotheses: list[str], references: list[list[str]]) -> tuple[float, str]:
    most = max(map(len, references))
    columns = [[texts[number] if number < len(texts) else None for texts in references] for number in range(most)]
    metric = BLEU()
    return metric.corpus_score(hypotheses, columns).score, str(metric.get_signature())


def random_texts(count: int, seed: int) -> list[str]:
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice(list("abcdefgh"), generator.integers(3, 12))) for _ in range(count)]


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


def test_mean_score_of_a_rate() -> None:
    score = mean_score("follows style", [100, 0, 100, 100], "style|v:1")
    assert (score.value, score.instances) == (75, 4)
    assert str(score) == "follows style = 75.00 [style|v:1]"


@pytest.mark.parametrize("values", [[], [[1.0]], [1.0, float("nan")]])
def test_mean_score_refuses(values: list) -> None:
    with pytest.raises(ValueError, match="per_instance"):
        mean_score("x", values, "x")


def test_weights_are_counts_of_n_draws_and_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.concatenate(list(resample_weights(30, 40, seed=1)))
    assert whole.shape == (40, 30)
    assert (whole.sum(axis=1) == 30).all()
    monkeypatch.setattr("exadec.textmetrics.bootstrap._CELLS_PER_BLOCK", 100)
    blocks = list(resample_weights(30, 40, seed=1))
    assert [len(block) for block in blocks] == [3] * 13 + [1]
    np.testing.assert_array_equal(np.concatenate(blocks), whole)
    assert (np.concatenate(list(resample_weights(30, 40, seed=2))) != whole).any()


def test_interval_equals_a_plain_loop() -> None:
    values = np.random.default_rng(0).uniform(0, 100, 37)
    weights = np.concatenate(list(resample_weights(37, 200, seed=5)))
    means = []
    for row in weights:
        drawn = [value for value, times in zip(values, row, strict=True) for _ in range(int(times))]
        means.append(sum(drawn) / len(drawn))
    expected = (np.percentile(means, 2.5), np.percentile(means, 97.5))
    assert confidence_interval(mean_score("x", values, "x"), 200, seed=5) == pytest.approx(expected)


def test_comparison_equals_a_plain_loop() -> None:
    generator = np.random.default_rng(1)
    first, second = generator.uniform(0, 100, 25), generator.uniform(5, 100, 25)
    difference = first.mean() - second.mean()
    differences = []
    for row in np.concatenate(list(resample_weights(25, 300, seed=9))):
        drawn = np.repeat(np.arange(25), row.astype(int))
        differences.append(first[drawn].mean() - second[drawn].mean())
    extreme = sum(abs(resampled - difference) >= abs(difference) for resampled in differences)
    result = compare(mean_score("x", first, "x"), mean_score("x", second, "x"), 300, seed=9)
    assert result.difference == pytest.approx(difference)
    assert (result.low, result.high) == pytest.approx(tuple(np.percentile(differences, [2.5, 97.5])))
    assert result.p_value == pytest.approx((1 + extreme) / 301)
    assert result.signature == "bootstrap:paired|resamples:300|seed:9|level:0.95|x"


def test_interval_covers_the_true_mean_about_as_often_as_promised() -> None:
    generator = np.random.default_rng(2)
    covered = 0
    for trial in range(200):
        low, high = confidence_interval(mean_score("x", generator.normal(50, 10, 60), "x"), 300, seed=trial)
        covered += low <= 50 <= high
    assert 180 <= covered <= 199  # 95 % of 200, give or take three standard deviations and the bootstrap's bias


def test_p_value_is_small_for_a_true_difference_and_spread_for_none() -> None:
    generator = np.random.default_rng(3)
    base = generator.normal(50, 10, 100)
    better = mean_score("x", base + generator.normal(3, 2, 100), "x")
    assert compare(better, mean_score("x", base, "x")).p_value == pytest.approx(1 / 1001)
    p_values = []
    for trial in range(200):
        noise = generator.normal(0, 5, (2, 60))
        p_values.append(compare(mean_score("x", noise[0], "x"), mean_score("x", noise[1], "x"), 200, trial).p_value)
    assert np.mean(np.array(p_values) < 0.05) < 0.12
    assert 0.4 < np.mean(p_values) < 0.6


@pytest.mark.parametrize("metric", ["rouge", "bleu"])
def test_comparison_is_symmetric_and_paired(metric: str) -> None:
    references = [[text] for text in random_texts(60, seed=0)]
    systems = [random_texts(60, seed=1), random_texts(60, seed=2)]
    first, second = [rouge(t, references)["1"] if metric == "rouge" else bleu(t, references) for t in systems]
    forward, backward = compare(first, second, 200), compare(second, first, 200)
    assert forward.difference == pytest.approx(-backward.difference)
    assert (forward.low, forward.high) == pytest.approx((-backward.high, -backward.low))
    assert forward.p_value == backward.p_value
    assert compare(first, second, 200) == forward
    same = compare(first, first, 50)
    assert (same.difference, same.low, same.high, same.p_value) == (0, 0, 0, 1)


def test_comparison_refuses_what_is_not_comparable() -> None:
    one, two = mean_score("x", [1, 2], "x"), mean_score("x", [1, 2, 3], "x")
    with pytest.raises(ValueError, match="have 2 and 3 instead"):
        compare(one, two)
    with pytest.raises(ValueError, match="'x' and 'y'"):
        compare(one, mean_score("y", [1, 2], "y"))
    with pytest.raises(ValueError, match="resamples"):
        compare(one, one, resamples=0)
    with pytest.raises(ValueError, match="level"):
        confidence_interval(one, level=95)


# The list of metrics --------------------------------------------------------------------------------------------------

TEXTS = ["Ada was born in 1815 .", "Bob is here ."]
GOLD = [("Ada was born in London in 1815 .", "Ada , born 1815 ."), ("Bob is not here .",)]
TABLES = [(("name", "Ada"), ("born", "1815")), (("name", "Bob"),)]


def test_every_listed_metric_is_the_score_of_its_own_function() -> None:
    """Names that share a pass over the texts give what each function gives when it is called alone."""
    plain, cut = (
        rouge(TEXTS, GOLD, ["1", "2", "4", "L"]),
        rouge(TEXTS, GOLD, ["1", "2", "4", "L"], recall_at_reference_length=True),
    )
    expected = {f"rouge{order}": score for order, score in plain.items()}
    expected |= {f"recall{order}": score for order, score in cut.items()}
    expected |= {"bleu": bleu(TEXTS, GOLD), "bleu_tokenised": bleu(TEXTS, GOLD, tokenize="none")}
    of_tables = parent(TEXTS, GOLD, TABLES)
    expected |= {"parent": of_tables["f1"], "parent_precision": of_tables["precision"]}
    expected |= {"parent_recall": of_tables["recall"]}
    assert list(METRICS) == list(expected)
    for names in (list(METRICS), list(reversed(METRICS)), *([name] for name in METRICS), ["bleu", "rouge1", "bleu"]):
        for name, score in zip(names, score_all(names, TEXTS, GOLD, TABLES), strict=True):
            assert (score.name, score.value, score.signature) == (
                expected[name].name,
                expected[name].value,
                expected[name].signature,
            )


def test_unknown_metrics_and_missing_tables_are_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown metric 'meteor'; the metrics are rouge1, .*, parent_recall\."):
        score_all(["rouge1", "meteor"], TEXTS, GOLD)
    for name in (name for name, metric in METRICS.items() if metric.needs_tables):
        with pytest.raises(ValueError, match=f"`{name}` needs the tables"):
            score_all([name], TEXTS, GOLD)


def test_metrics_that_may_steer_training_need_texts_alone() -> None:
    for name, metric in METRICS.items():
        if metric.steers_training:
            require_steering(name)
            assert score_all([name], TEXTS, GOLD)[0].value > 0
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
