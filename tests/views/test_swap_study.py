"""The swap study: which exemplars are drawn, who writes what with them, and the arithmetic of a study made by hand."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from exadec.api import Writer, load
from exadec.corpus.prepare import Corpus, prepare
from exadec.errors import InputError
from exadec.textmetrics import leak, manner, support
from exadec.training.checkpoint import open_corpus
from exadec.views.manner import Column
from exadec.views.swap_study import PLAIN, draw_cases, find_worst, give_cases, list_traits, study_swaps
from support.swaps import CASES, EXEMPLARS, GUIDED_TEXTS, SOURCES, make_study
from support.toys import config_for, write_splits

MANNERS = {"colon": "News: word{} came", "question mark": "Did word{} come?", PLAIN: "The word{} came"}


def make_corpus(folder: Path, groups: str, counts: dict[str, int]) -> Corpus:
    """Records in turn of each group, with so many targets of each manner."""
    targets = [MANNERS[manner].format(number) for manner, count in counts.items() for number in range(count)]
    records: list[dict[str, object]] = [{"source": f"about {text}", "target": text} for text in targets]
    if groups:
        records = [{**record, "group": groups[number % len(groups)]} for number, record in enumerate(records)]
    write_splits(folder, records)
    return prepare(config_for(folder))


def test_rare_traits_are_as_frequent_as_common_ones(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path, "ab", {PLAIN: 60, "colon": 16, "question mark": 4})
    cases = draw_cases(corpus, 24, seed=1)
    assert Counter(case.drawn_for for case in cases) == {PLAIN: 10, "colon": 10, "question mark": 4}
    for case in cases:
        assert list_traits(case.exemplar) == ([] if case.drawn_for == PLAIN else [case.drawn_for])
        assert {case.group, case.exemplar_group} == {"a", "b"}
        assert case.exemplar not in case.references
    assert len({case.exemplar for case in cases}) == len({case.uid for case in cases}) == 24


def test_draws_depend_on_the_seed_alone(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path, "abc", {PLAIN: 40, "colon": 20})
    assert draw_cases(corpus, 12, seed=1) == draw_cases(corpus, 12, seed=1)
    assert draw_cases(corpus, 12, seed=1) != draw_cases(corpus, 12, seed=2)


@pytest.mark.parametrize("groups", ["", "a"], ids=["none", "a single one"])
def test_without_groups_any_other_target_will_do(tmp_path: Path, groups: str) -> None:
    cases = draw_cases(make_corpus(tmp_path, groups, {PLAIN: 10, "colon": 10}), 8, seed=1)
    assert len(cases) == 8
    assert not any(case.exemplar in case.references for case in cases)


def test_no_group_is_not_a_second_group(tmp_path: Path) -> None:
    records: list[dict[str, object]] = [{"source": f"about {n}", "target": f"text {n}", "group": "a"} for n in range(9)]
    write_splits(tmp_path, [*records, {"source": "about 9", "target": "text 9"}])
    assert len(draw_cases(prepare(config_for(tmp_path)), 8, seed=1)) == 8


def test_given_exemplars_are_used_in_turn(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path, "ab", {PLAIN: 20})
    cases = give_cases(corpus, 7, 1, ["One: two", "Three?", "four"])
    assert [case.exemplar for case in cases] == ["One: two", "Three?", "four", "One: two", "Three?", "four", "One: two"]
    assert {(case.drawn_for, case.exemplar_group) for case in cases} == {("given", None)}
    assert len({case.uid for case in cases}) == 7


def test_too_few_targets_are_an_error(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path, "aaab", {PLAIN: 20})  # a quarter of the targets for three quarters of the instances
    with pytest.raises(InputError, match=r"after \d+ swaps no training target is left to swap in; ask for fewer"):
        draw_cases(corpus, 20, seed=1)


def rate(column: Column, trait: str) -> list[tuple[float, int]]:
    """% of texts with the trait and number of cases, where the exemplar has it and where not."""
    row = next(row for row in column.traits if row.trait == trait)
    assert row.if_exemplar_has is not None
    assert row.if_exemplar_has_not is not None
    scores = [row.if_exemplar_has.score, row.if_exemplar_has_not.score]
    return [(score.value, score.count) for score in scores]  # type: ignore[attr-defined]


def test_rates_are_counted_against_the_exemplars_swapped_in() -> None:
    study = make_study()
    plain, guided = study.strengths
    assert rate(plain.swapped, "colon") == [(50, 2), (0, 2)]
    assert rate(guided.swapped, "colon") == [(100, 2), (0, 2)]
    assert rate(plain.chance, "colon") == [(0, 2), (50, 2)]
    assert rate(study.reference, "colon") == [(0, 2), (0, 2)]
    assert rate(plain.swapped, "question mark") == [(100, 1), (0, 3)]
    assert rate(plain.own, "colon") == [(0, 0), (pytest.approx(100 / 3), 3)]  # one has no exemplar of its own


def test_measures_are_those_of_textmetrics() -> None:
    guided = make_study().strengths[1]
    texts = GUIDED_TEXTS.swapped
    expected = [manner(texts, EXEMPLARS), leak(texts, SOURCES, EXEMPLARS), support(texts, SOURCES)]
    for score, measured in zip(expected, guided.swapped.measures.values(), strict=True):
        assert (measured.score.value, measured.score.signature) == (score.value, score.signature)
    assert guided.swapped.measures["Leak"].score.value == pytest.approx(100 * 5 / 9)  # shut, ice, roads, strike, mayor


def test_recall_is_of_the_references_and_content_of_what_the_source_has() -> None:
    plain, guided = make_study().strengths
    # The references have 4, 3, 3 and 2 words. Stems count: `cut` is `cuts`.
    assert plain.own_recall.score.value == 100
    assert plain.recall.score.value == pytest.approx(100 * (4 / 4 + 2 / 3 + 1 / 3 + 2 / 2) / 4)
    assert guided.recall.score.value == pytest.approx(100 * (2 / 4 + 1 / 3 + 0 / 3 + 1 / 2) / 4)
    for strength in (plain, guided):
        assert strength.kept.score.value == pytest.approx(strength.recall.score.value)
        assert strength.kept.low <= strength.kept.score.value <= strength.kept.high
    # flood, cut, lowmoor; brack, refus, deal; fire, hurt, two; rain: `fell` is not `falls`.
    assert plain.content.score.value == pytest.approx(100 * (3 + 2 + 1 + 1) / 10)
    assert guided.content.score.value == pytest.approx(100 * (2 + 1 + 0 + 0) / 10)
    assert plain.own_content.score.value == 100


def test_worst_cases_come_first_at_their_worst_strength() -> None:
    study = make_study()
    found = find_worst(study, "leaked", 10)
    assert [failure.leaked for failure in found] == [["Ice", "roads"], ["shut"], ["strike"], ["Mayor"]]
    assert [failure.guidance for failure in found] == [0.5] * 4
    assert find_worst(study, "leaked", 1) == found[:1]
    (missed,) = find_worst(study, "missed", 10)
    assert (missed.case, missed.guidance, missed.missed, missed.leaked) == (CASES[1], 0.0, ["colon"], [])


def test_every_source_is_written_without_and_with_the_swap(writer: Writer) -> None:
    seen: list[tuple[str, int, int | None]] = []

    def report(what: str, count: int, total: int | None = None) -> None:
        seen.append((what, count, total))

    config = writer.run.config.replace("model", exemplar_skipping=0.1)  # as if it had been trained for guidance
    writer = Writer(replace(writer.run, config=config), writer.model)
    study = study_swaps(writer, 12, [0.0, 1.0], seed=4, report=report)
    assert seen == [("writing, guidance 0", 12, 12), ("writing, guidance 1", 12, 12)]
    assert study.cases == draw_cases(open_corpus(writer.run), 12, seed=4)
    for strength, guidance in zip(study.strengths, (0.0, 1.0), strict=True):
        for number, case in enumerate(study.cases):
            own = writer.write(case.source, guidance=guidance)
            assert (strength.texts.own[number], strength.texts.own_exemplars[number]) == (own.text, own.exemplar)
            assert strength.texts.swapped[number] == writer.write(case.source, case.exemplar, guidance=guidance).text
    assert study.settings["exemplars"] == "training targets of another group"
    assert sum(study.settings["drawn_for"].values()) == 12
    assert "guidance" not in study.settings["search"]


def test_own_exemplars_come_from_the_own_group_if_the_run_retrieves_there(writer: Writer) -> None:
    within = writer.run.config.replace("exemplars", group="only").replace("search", batch_size=2)
    grouped = Writer(replace(writer.run, config=within), writer.model)
    study = study_swaps(grouped, 12, [0.0])
    assert len({case.group for case in study.cases}) > 1
    for case, exemplar in zip(study.cases, study.strengths[0].texts.own_exemplars, strict=True):
        assert exemplar == grouped.write(case.source, group=case.group).exemplar


def test_a_study_cannot_be_larger_than_the_test_set(writer: Writer) -> None:
    assert len(study_swaps(writer, 1000, [0.0]).cases) == open_corpus(writer.run).size("test")


def test_a_model_without_exemplars_has_nothing_to_study(runs: list[Path]) -> None:
    with pytest.raises(InputError, match="nothing to swap"):
        study_swaps(load(runs[1]), 3, [0.0])
