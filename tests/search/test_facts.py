"""Strict search states only what the source licenses: random models, trained models, both segmentations."""

import itertools
import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from exadec.api import Generation, Writer, load
from exadec.bundle.packing import export
from exadec.config import VARIANTS, Config, SearchConfig
from exadec.corpus.prepare import prepare
from exadec.corpus.segment import BpeSegmenter, Segmenter, WordSegmenter
from exadec.corpus.vocabulary import EOS, PieceTable, Vocabulary
from exadec.exemplars.retrieve import open_trained_exemplars
from exadec.request import Request
from exadec.search.beam import Hypothesis, Known, beam_search
from exadec.search.facts import Licensed, licensing_text, names_of
from exadec.search.generate import Task, search_batch
from exadec.search.rules import Rule, Spelling
from exadec.textmetrics import licensed
from exadec.textmetrics.facts import Names
from exadec.textmetrics.licensing import Checker
from exadec.training.checkpoint import NAMES, Run, open_corpus, open_run
from exadec.training.evaluation import (
    Output,
    check_facts,
    decode_split,
    evaluate,
    read_outputs,
    score_facts,
    score_outputs,
    write_outputs,
)
from exadec.training.trainer import train
from exadec.views.results import compare_runs
from support.letters import FORBIDDEN
from support.random_models import Prefix, start
from support.small_models import build_small_model, random_batch, random_instances
from support.toys import config_for, write_splits

CPU = torch.device("cpu")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
TOWNS = ("Porto", "Accra", "Oslo", "Quito", "Turin")

SOURCES = {
    "On Monday 12 people left Porto .": r"Fri|Friday|Sun|13|[Tt]hirteen|Accra|2\.5|(?:12|[Tt]welve) million",
    "Accra paid 2.5 million on Friday , they say .": r"Mon(day)?|Sun|1[23]|[Tt](welve|hirteen)|Porto|2\.5(?! million)",
    "Nothing was said .": r"Mon|Monday|Fri|Friday|Sun|1[23]|[Tt]welve|[Tt]hirteen|2\.5|Porto|Accra",
}
"""A source, and a pattern for what it does not license of `SENTENCES`."""
SENTENCES = [
    "people left Porto on Mon , 12 died",
    "they say Accra paid 2.5 million Fri",
    "on Friday thirteen people left",
    "twelve left Accra Monday , 13 paid",
    "Sun : Porto people paid 12 million",
    "People Left Accra On Friday",
    "nothing was said",
]
KNOWN = Names.from_sources(["He saw Porto and Accra there.", "In Porto they saw Accra."])


def segmenters() -> list[Segmenter]:
    return [
        WordSegmenter(pretokenized=True, lower_case=False),
        BpeSegmenter.learn([*SENTENCES, *SOURCES], 290, lower_case=False),
        BpeSegmenter.learn([*SENTENCES, *SOURCES], 400, lower_case=False),
    ]


class Babbler:
    """Writes pieces that follow one another in `SENTENCES`, at random, and now and then anything else."""

    def __init__(self, spelling: Spelling, seed: int):
        self.seed, self.size = seed, len(spelling.table.vocabulary)
        texts = [[0, *spelling.ids(text), EOS] for text in SENTENCES]
        self.pairs = {pair for text in texts for pair in itertools.pairwise(text)}

    def distribution(self, prefix: list[int]) -> torch.Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed, *prefix)) % 2**31)
        logits = 2 * torch.randn(self.size, generator=generator)
        last = prefix[-1] if len(prefix) > 2 else 0
        for before, after in self.pairs:
            logits[after] += 6 if before == last else 0
        logits[EOS] += 2 * (len(prefix) > 8)
        return torch.log_softmax(logits, dim=0)

    def step(self, state: Prefix, words: torch.Tensor) -> tuple[Known, Prefix]:
        longer = torch.cat([state.words, words[:, None]], dim=1)
        return Known(torch.stack([*map(self.distribution, longer.tolist())])), Prefix(longer, state.instances)


@pytest.mark.parametrize("number", range(3), ids=["words", "small pieces", "larger pieces"])
@pytest.mark.parametrize("source", SOURCES)
def test_random_models_write_nothing_unlicensed(source: str, number: int) -> None:
    segmenter = segmenters()[number]
    pieces = sorted({piece for text in (*SENTENCES, *SOURCES) for piece in segmenter.segment(text)})
    spelling = Spelling(segmenter, PieceTable(Vocabulary(pieces)))
    rule = Licensed(Checker(source, KNOWN), spelling)
    config = SearchConfig(beam_size=3, max_length=14)
    free_facts = texts = 0
    for seed in range(12):
        babbler = Babbler(spelling, seed)
        for rules in (None, [rule] * 2):
            found = beam_search(babbler.step, start(2), 2, config, FORBIDDEN, CPU, n_best=2, rules=rules)
            stated = [spelling.text(one.ids) for best in found for one in best]
            wrong = [text for text in stated if re.search(rf"(?<![\w.])(?:{SOURCES[source]})(?![\w.])", text)]
            free_facts += len(wrong) if rules is None else 0
            texts += 0 if rules is None else len(stated)
            assert rules is None or not wrong
    assert free_facts > 5  # the rule has something to do
    assert texts > 30  # and does not end every search


def records(count: int) -> list[dict[str, object]]:
    """The target's weekday is any: a model can only guess it."""
    random = np.random.default_rng(5)
    made: list[dict[str, object]] = []
    for number in range(count):
        day, town, people = DAYS[random.integers(7)], TOWNS[random.integers(5)], int(random.integers(2, 30))
        source = f"A storm reached {town} on {day} and left {people} people dead, they said in {TOWNS[number % 5]}."
        target = f"{town} storm: {people} dead, {DAYS[random.integers(7)][:3]}"
        made.append({"source": source, "target": target, "group": f"Desk {number % 3}"})
    return made


@pytest.fixture(scope="module", params=["words", "bpe"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """With strict search in training, too."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("facts")
    write_splits(folder, records(240))
    config = config_for(folder, segmentation=request.param, vocabulary_size=330, group_in_source=True)
    values: Config = config.replace("model", hidden=12, embedding=12, encoder_layers=1, **VARIANTS["seq2seq"])
    values = values.replace("training", epochs=2, batch_size=8, evaluation_size=20, learning_rate=0.02)
    return train(values.replace("search", facts="strict", beam_size=3, max_length=24), folder / "work" / "run")


def decode(run: Run, **search: object) -> list[tuple[str, str]]:
    """(text, source) for the test set."""
    corpus = open_corpus(run)
    exemplars = open_trained_exemplars(corpus, run.config.exemplars, run.facts["exemplars"])
    settings = replace(run.config.search, **search)
    outputs = decode_split(run.load_model(), corpus, exemplars, "test", settings, np.arange(40))
    return [(output.text, output.source) for output in outputs]


def test_the_last_resort_is_not_the_name_of_the_group(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search under rules finds nothing, and a free one no words. So the beginning of the source is left."""

    def find(step: object, state: object, size: int, *rest: object) -> list[list[Hypothesis]]:
        has_rules = any(isinstance(one, list) for one in rest)
        return [[] if has_rules else [Hypothesis([], -1.0)] for _ in range(size)]

    monkeypatch.setattr("exadec.search.generate.beam_search", find)
    for text, source in decode(run):
        assert text.startswith("A storm reached"), text
        assert source.startswith(text)


def count_wrong(texts: list[tuple[str, str]]) -> int:
    """Texts with another weekday, town or number than their source; by other means than `exadec.textmetrics`."""

    def facts(text: str) -> set[str]:
        days = {day for day in DAYS if re.search(rf"\b{day[:3]}", text)}
        return days | {town for town in TOWNS if re.search(rf"\b{town}\b", text)} | set(re.findall(r"\d+", text))

    return sum(not facts(text) <= facts(source) for text, source in texts)


def test_strict_search_of_a_split_writes_nothing_unlicensed(run: Run) -> None:
    assert count_wrong(decode(run, facts="off")) > 5
    strict = decode(run)
    assert count_wrong(strict) == 0
    assert all(text for text, _ in strict)
    assert decode(run, batch_size=7) == strict
    assert decode(run, batch_size=1) == strict
    assert decode(run, facts="mark") == decode(run, facts="off")


def test_a_writer_is_strict_in_any_batch_and_order(run: Run) -> None:
    writer = Writer(run)
    requests = [Request(str(record["source"]), group="Desk 1") for record in records(30)]
    answers = writer.answer(requests, n_best=2)
    assert all(isinstance(one, Generation) for one in answers)
    texts = [one.text for one in answers if isinstance(one, Generation)]
    assert texts == [one.text for one in reversed(writer.answer(requests[::-1])) if isinstance(one, Generation)]
    assert texts == [writer.write(one.source, group="Desk 1").text for one in requests]
    for one, request in zip(answers, requests, strict=True):
        assert isinstance(one, Generation)
        for text in (one.text, *(text for text, _ in one.alternatives)):
            assert count_wrong([(text, request.source)]) == 0
        assert one.facts is not None
        assert all(fact.licensed and one.text[fact.begin : fact.end] == fact.words for fact in one.facts)


def test_a_demand_that_the_source_does_not_license_is_refused_at_once(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exadec.api.search_texts", lambda *_: pytest.fail("it was searched for"))
    source = str(records(1)[0]["source"])
    missing = next(day for day in DAYS if day not in source)
    for request in (
        Request(source, group="Desk 1", required=(f"on {missing}",)),
        Request(source, group="Desk 1", beginning="In 1847"),
    ):
        [refused] = Writer(run).answer([request])
        assert "so strict search cannot write it" in str(refused)
        assert "the source does not license" in str(refused)


def test_mark_reports_and_changes_nothing(run: Run) -> None:
    sources = [str(record["source"]) for record in records(30)]
    free = load(run.folder, ["search.facts=off"]).write(sources)
    marked = load(run.folder, ["search.facts=mark"]).write(sources)
    assert [one.text for one in free] == [one.text for one in marked]
    assert all(one.facts is None for one in free)
    assert any(not fact.licensed for one in marked for fact in one.facts or ())
    assert any(fact.licensed for one in marked for fact in one.facts or ())


def test_outputs_of_a_split_are_marked(run: Run) -> None:
    outputs = evaluate(run.folder, overrides=["search.facts=mark"])
    stated = check_facts(run.folder, outputs, "test", ["search.facts=mark"])
    assert sum(any(not fact.licensed for fact in facts or ()) for facts in stated) >= count_wrong(
        [(output.text, output.source) for output in outputs]
    )
    assert check_facts(run.folder, outputs, "test", ["search.facts=off"]) == [None] * len(outputs)


def test_texts_of_strict_search_score_100(run: Run) -> None:
    evaluate(run.folder)
    [system] = compare_runs([run.folder]).systems
    assert system.measures["Facts"].score.value == 100
    assert score_outputs(["facts"], system.outputs, run)[0].value == 100


def test_a_run_is_scored_by_its_own_names_and_by_what_licensed_its_texts(run: Run, tmp_path: Path) -> None:
    """Not by the names of the test sources: strict search does not know them."""
    outputs = [
        Output("0", "The mayor met Zork there.", None, 0.0, ("r",), "mayor met Zork there", 0.0),
        Output("1", "The mayor left.", None, 0.0, ("r",), "Zork mayor left", 0.0),  # no name of the training sources
        Output("2", "The mayor left.", None, 0.0, ("r",), "mayor left from Desk 1", 0.0, group="Desk 1"),
    ]
    assert licensed([one.text for one in outputs], [one.source for one in outputs]).value < 34
    assert score_facts(outputs, run).value == 100
    assert "names:training" in score_facts(outputs, run).signature
    unlicensed = Output("3", "The mayor left.", None, 0.0, ("r",), "Porto mayor left", 0.0)  # a name of theirs
    other_group = replace(outputs[2], group="Desk 2")
    assert score_facts([*outputs, unlicensed, other_group], run).value == 60
    path = tmp_path / "test.outputs.jsonl"
    write_outputs(path, outputs)
    assert read_outputs(path) == outputs
    assert [json.loads(line).get("group") for line in path.read_text().splitlines()] == [None, None, "Desk 1"]


def test_names_come_with_a_run_and_its_bundle(run: Run, tmp_path: Path) -> None:
    names = names_of(open_corpus(run))
    assert {town.lower() for town in TOWNS} <= names.names
    assert "storm" in names.common
    assert run.read_names() == names
    path = export(run.folder, tmp_path / "run.exadec")
    packed = load(path)
    assert packed.run.read_names() == names
    source = str(records(1)[0]["source"])
    assert packed.write(source).text == Writer(run).write(source).text


def test_a_run_of_an_earlier_version_has_no_names(run: Run, tmp_path: Path) -> None:
    old = Path(shutil.copytree(run.folder, tmp_path / "old"))
    (old / NAMES).unlink()
    assert open_run(old).read_names() == Names()
    assert load(export(old, tmp_path / "old.exadec")).run.read_names() == Names()


def test_the_announced_group_is_licensed() -> None:
    assert licensing_text("They paid.", "Oslo Post", group_in_source=True) == "Oslo Post | They paid."
    assert licensing_text("They paid.", "Oslo Post", group_in_source=False) == "They paid."
    assert licensing_text("They paid.", None, group_in_source=True) == "They paid."


class OneWord(Rule):
    """The text is one of these words, and no more."""

    def __init__(self, *words: int):
        self.words = words

    def allows(self, ids: Sequence[int], word: int) -> bool:
        return bool(ids) if word == EOS else not ids and word in self.words


class NoWayAfter(Rule):
    """A text that begins with this word can neither go on nor end."""

    def __init__(self, word: int):
        self.word = word

    def allows(self, ids: Sequence[int], word: int) -> bool:
        return not ids or ids[0] != self.word


STRICT = SearchConfig(beam_size=1, max_length=5, facts="strict")


def test_a_dead_end_is_searched_more_widely() -> None:
    model, batch = build_small_model(), random_batch(3)
    firsts = [best.ids[0] for [best] in search_batch(model, Task(batch), STRICT).hypotheses]
    rules = [NoWayAfter(first) for first in firsts]
    assert search_batch(model, Task(batch, rules), replace(STRICT, facts="off")).hypotheses == [[], [], []]
    found = search_batch(model, Task(batch, rules), STRICT).hypotheses
    assert all(best.ids and best.ids[0] != first for [best], first in zip(found, firsts, strict=True))


def test_a_strict_text_is_told_when_no_other_can_take_its_place() -> None:
    model, batch = build_small_model(), random_batch(3)
    [lost], *others = search_batch(model, Task(batch), STRICT).hypotheses
    rules = [NoWayAfter(lost.ids[0]), Rule(), Rule()]
    told: list[tuple[int, list[int]]] = []
    found = search_batch(model, Task(batch, rules), STRICT, tell=lambda *what: told.append(what)).hypotheses
    assert found[1:] == others
    assert told == [(number, best.ids) for number, [best] in enumerate(found)]


def test_what_no_search_finds_is_cut_from_a_free_text_or_from_the_source() -> None:
    """Each text is to have three words at least, which the rule does not allow."""
    model, batch = build_small_model(), random_batch(3)
    config = replace(STRICT, min_length=3)
    free = [best for [best] in search_batch(model, Task(batch), config).hypotheses]
    rules = [OneWord(best.ids[0]) for best in free]
    assert search_batch(model, Task(batch, rules), replace(config, facts="off")).hypotheses == [[], [], []]
    cut = search_batch(model, Task(batch, rules), config).hypotheses
    assert [(best.ids, best.score) for [best] in cut] == [(best.ids[:1], best.score) for best in free]
    sources = [one.source.tolist() for one in random_instances(3)]  # those of the batch
    assert any(source[0] != best.ids[0] for source, best in zip(sources, free, strict=True))
    begun = search_batch(model, Task(batch, [OneWord(source[0]) for source in sources]), config).hypotheses
    assert [best.ids for [best] in begun] == [source[:1] for source in sources]
    told = Task(batch, [OneWord(source[1]) for source in sources], openings=[1] * 3)  # the name of a group is no text
    assert [best.ids for [best] in search_batch(model, told, config).hypotheses] == [source[1:2] for source in sources]
    assert search_batch(model, Task(batch, [OneWord()] * 3), config).hypotheses == [[], [], []]


def test_an_empty_text_is_no_way_out() -> None:
    spelling = Spelling(WordSegmenter(pretokenized=True, lower_case=False), PieceTable(Vocabulary(["storm"])))
    rule = Licensed(Checker("The storm is over .", Names()), spelling)
    assert not rule.accepts([])
    assert rule.accepts(spelling.ids("storm"))


def test_a_corpus_without_names_is_no_obstacle(tmp_path: Path) -> None:
    write_splits(tmp_path, [{"source": "all in small letters", "target": "small"}] * 3)
    corpus = prepare(config_for(tmp_path, vocabulary_size=300))
    assert names_of(corpus).names == frozenset()
