"""Writing with a trained run: each encoder runs once, and what is shown is what the model read."""

import ast
import json
import pickle
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from threading import Event
from typing import Never

import numpy as np
import pytest
import torch

import exadec
from exadec.api import Writer, load
from exadec.config import VARIANTS, Config
from exadec.corpus.segment import find_other_case
from exadec.corpus.vocabulary import PieceTable
from exadec.errors import ConfigError, InputError, RequestError
from exadec.exemplars.retrieve import open_trained_exemplars
from exadec.generation import Generation
from exadec.inputs import Inputs
from exadec.loading.batch import Instance, collate
from exadec.request import Request
from exadec.search import choosing, generate
from exadec.search.beam import Hypothesis
from exadec.search.consensus import Distance, rank_by_agreement
from exadec.search.following import STRONGER, Manner
from exadec.styles import Mixture
from exadec.training.checkpoint import open_corpus, open_run
from exadec.training.evaluation import decode_split, evaluate
from exadec.training.trainer import train
from support.tiny_runs import config_beyond_the_paper
from support.toys import config_for, make_guidable, toy_records, variant_config, write_splits

ROOT = Path(__file__).parent.parent
PRECISIONS = ("float32", "float32", "rounded")
SOURCES = ["house1 house1 n3 k5", "house4 house4 house4 n1 k2", "n7"]


@pytest.fixture(scope="module")
def writers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Writer]:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("api")
    write_splits(folder, toy_records(100, seed=0))
    return {v: load(train(variant_config(folder, v, epochs=1), folder / v).folder) for v in VARIANTS}


def count_calls(writer: Writer, calls: Counter[str]) -> None:
    for name in ("encoder", "exemplar_encoder"):
        module = getattr(writer.model, name)
        if module is not None:
            module.register_forward_hook(lambda *_, name=name: calls.update([name]))


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_encoder_runs_once_a_batch(writers: dict[str, Writer], variant: str) -> None:
    calls = Counter[str]()
    writer = load(writers[variant].run.folder)
    count_calls(writer, calls)
    once = {"encoder": 1} | ({} if variant == "seq2seq" else {"exemplar_encoder": 1})
    first, *_ = writer.write_all(SOURCES, None if variant == "seq2seq" else ["up n9 k2", None, None])
    assert calls == once
    assert (first.coefficients is not None) == writer.run.config.model.adaptive
    assert calls == once
    assert first.attention is not None  # asked for: this one text is read again, and only once
    assert first.copy_gate is not None
    assert calls == Counter(once) + Counter(once)


def test_what_is_wrong_with_one_request_does_not_disturb_the_others(writers: dict[str, Writer]) -> None:
    writer = writers["adadec"]
    sound = [Request(source) for source in SOURCES] + [Request(SOURCES[0], "up n9 k2")]
    bad = [Request(" "), Request(SOURCES[0], "xyzzy"), Request(SOURCES[0], group="nobody")]
    mixed = [bad[0], sound[0], sound[1], bad[1], sound[2], bad[2], sound[3]]
    found = writer.answer(mixed, n_best=2)
    expected = iter(writer.answer(sound, n_best=2))
    messages = {0: "the source is empty", 3: "'xyzzy' has no word the model knows", 5: "has the group 'nobody'"}
    for number, one in enumerate(found):
        if number in messages:
            assert messages[number] in str(one)
            assert isinstance(one, RequestError)
        else:
            other = next(expected)
            assert (one.text, one.exemplars) == (other.text, other.exemplars)
            assert one.score == pytest.approx(other.score, abs=1e-5)


def test_a_damaged_file_is_no_fault_of_a_request(writers: dict[str, Writer], monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*_: object) -> str:
        raise InputError("corpus/ids.npy: the file is damaged.")

    monkeypatch.setattr(Inputs, "found_text", damaged)
    with pytest.raises(InputError, match="the file is damaged"):
        writers["adadec"].answer([Request(SOURCES[0], "up n9 k2"), Request(SOURCES[0])])


def test_texts_do_not_depend_on_batches_or_order(writers: dict[str, Writer]) -> None:
    for variant, writer in writers.items():
        sources = [f"house{i % 3} n{i % 7} k{i % 5} " * (1 + i % 4) for i in range(300)]
        given = [None if i % 2 or variant == "seq2seq" else f"up n{i % 9} k1" for i in range(300)]
        requests = [Request(*parts) for parts in zip(sources, given, strict=True)]
        expected = writer.answer(requests, n_best=2)
        assert len({round(one.score, 4) for one in expected}) > 10
        for size in (1, 37, 300):
            other = load(writer.run.folder, {"search.batch_size": size})
            for one, same in zip(reversed(other.answer(requests[::-1], n_best=2)), expected, strict=True):
                assert one.text == same.text
                assert one.score == pytest.approx(same.score, abs=1e-5)
                assert one.alternatives[0] == (
                    same.alternatives[0][0],
                    pytest.approx(same.alternatives[0][1], abs=1e-5),
                )


@pytest.mark.parametrize("variant", VARIANTS)
def test_numbers_are_those_of_the_model_itself(writers: dict[str, Writer], variant: str) -> None:
    """λ, attention and gate against the model's own methods, on the whole batch at once."""
    writer = writers[variant]
    exemplars = ["up n9 k2", "down k2 n9 k1", "up"]
    generations = writer.write_all(SOURCES, None if variant == "seq2seq" else exemplars)
    table, run = PieceTable(writer.run.vocabulary), writer.run

    def ids(text: str) -> np.ndarray:
        return np.array(table.encode(run.segmenter.segment(text)), np.int64)

    texts = zip(SOURCES, exemplars, generations, strict=True)
    instances = [Instance(ids(source), (ids(exemplar),), ids(one.text)) for source, exemplar, one in texts]
    batch = collate(instances, len(run.vocabulary), run.config.model.attend_exemplar)
    with torch.no_grad():
        lam = writer.model.exemplar_coefficients(batch)
        mixture = writer.model.explain(writer.model.encode(batch), batch.target_input)
    for row, one in enumerate(generations):
        steps, source = len(one.pieces), len(instances[row].source)
        weights = mixture.weights[row, :steps]
        attended = [weights[:, :source]]
        if run.config.model.attend_exemplar:
            attended.append(weights[:, batch.source.shape[1] :][:, : len(instances[row].exemplars[0])])
        np.testing.assert_allclose(one.attention, torch.cat(attended, dim=1), atol=1e-6)
        np.testing.assert_allclose(one.copy_gate, mixture.log_copy[row, :steps].exp(), atol=1e-6)
        if lam is None:
            assert one.coefficients is None
        else:
            np.testing.assert_allclose(one.coefficients, lam[row, 0], atol=1e-6)


def test_a_list_is_written_at_once_with_one_exemplar_for_all_or_one_for_each(writers: dict[str, Writer]) -> None:
    writer = writers["adadec"]
    alone = [writer.write(source, "up n9 k2") for source in SOURCES]
    for together in (
        writer.write(SOURCES, "up n9 k2"),
        writer.write(tuple(SOURCES), ["up n9 k2"] * 3),
        writer.write_all(SOURCES, "up n9 k2"),
    ):
        assert [(one.text, one.exemplar) for one in together] == [(one.text, "up n9 k2") for one in alone]
    assert [one.exemplar for one in writer.write(SOURCES)] == [writer.write(source).exemplar for source in SOURCES]
    assert writer.write([]) == []
    with pytest.raises(ValueError, match="`exemplars` must be as long as `sources`, 3, but has length 2 instead"):
        writer.write(SOURCES, ["up n9 k2", None])
    with pytest.raises(ValueError, match="`sources` is one text"):
        writer.write_all(SOURCES[0])


def test_train_takes_a_file_and_overrides_and_returns_the_run(tmp_path: Path) -> None:
    write_splits(tmp_path, toy_records(40, seed=0))
    config = variant_config(tmp_path, "adadec", epochs=5)
    path = tmp_path / "toy.yaml"
    path.write_text(json.dumps(config.to_dict()), "utf-8")
    events: list[object] = []
    overrides = {"training.epochs": 1, "training.learning_rate": 1e-5, "corpus.train": tmp_path / "train.jsonl"}
    run = exadec.train(path, variant="seq2seq", overrides=overrides, observe=events.append)
    assert run.folder == Path(config.folder) / "seq2seq"
    assert (run.config.training.epochs, run.config.training.learning_rate) == (1, 1e-5)
    assert [type(event).__name__ for event in events] == ["Started", *["Evaluating"] * (len(events) - 2), "Evaluated"]
    again = exadec.train(
        str(path), tmp_path / "again", variant="seq2seq", overrides=["training.epochs=1"], device="cpu"
    )
    assert again.folder == tmp_path / "again"
    assert exadec.load(again.folder, {"search.beam_size": 1}).run.config.search.beam_size == 1
    with pytest.raises(InputError, match="already exists; use `resume=True` to continue it or `force=True`"):
        exadec.train(again.config, again.folder)
    with pytest.raises(ValueError, match="change a `Config` by its method `replace`"):
        exadec.train(config, tmp_path / "new", variant="seq2seq")
    with pytest.raises(InputError, match="only search"):
        exadec.load(again.folder, {"model.hidden": 3})


def test_messages_of_the_library_name_no_option_of_the_command_line() -> None:
    """Options belong to `exadec/cli`, which makes them of arguments. A whole command is named with its options."""
    commands = ("`exadec ", "use --nproc-per-node ")
    named = [
        f"{path.name}: {node.value}"
        for path in sorted((ROOT / "exadec").rglob("*.py"))
        if path.parent.name != "cli"
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Raise)
        for node in ast.walk(call)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if re.search(r"(^|\s)--?[a-z]", node.value) and not any(command in node.value for command in commands)
    ]
    assert named == []


def test_generation_is_plain_data_without_the_model(writers: dict[str, Writer]) -> None:
    generation = writers["adadec"].write(SOURCES[0])
    assert "explain" not in " ".join(asdict(generation))
    content = pickle.dumps(generation)
    assert len(content) < 10_000
    np.testing.assert_array_equal(pickle.loads(content).attention, generation.attention)


@pytest.fixture(scope="module")
def shortened(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Texts in mixed case, lower-cased and cut by preparation; exemplars hold words outside the vocabulary."""
    folder = tmp_path_factory.mktemp("shortened")
    records = [
        {"source": f"House{i % 7} N{i} K{i % 5}", "target": f"Up N{i} K{i % 5} SomethingLonger{i}"} for i in range(60)
    ]
    write_splits(folder, records)
    config = variant_config(folder, "adadec+attexp", epochs=1)
    return config.replace("corpus", lower_case=True, max_target=3, vocabulary_size=20)


def test_shown_exemplar_is_what_the_model_read(
    shortened: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = load(train(shortened, tmp_path / "run").folder)
    read: list[list[str]] = []

    def note(instances: list[Instance], *arguments: object) -> object:
        read.extend(tables[-1].decode(one.exemplars[0].tolist()) for one in instances)
        return collate(instances, *arguments)  # type: ignore[arg-type]

    tables: list[PieceTable] = []

    def make_table(*arguments: object) -> PieceTable:
        tables.append(PieceTable(*arguments))  # type: ignore[arg-type]
        return tables[-1]

    monkeypatch.setattr("exadec.api.collate", note)
    monkeypatch.setattr("exadec.api.PieceTable", make_table)
    generations = writer.write_all(["House3 N17 K2", "HOUSE5 n40 k0"])
    assert [one.exemplar for one in generations] == ["up n17 k2", "up n40 k0"]
    assert [" ".join(pieces) for pieces in read] == [one.exemplar for one in generations]
    assert [text for text, _ in writer.retrieve(["House3 N17 K2"])] == ["up n17 k2"]
    # An unknown word of the exemplar is the same word as in the source, so that one copy of it is one word.
    (first, *_), corpus = generations, open_corpus(writer.run)
    assert corpus.vocabulary.get("n17") is None
    assert first.memory == ["house3", "n17", "k2", "up", "n17", "k2"]
    ids = tables[-1].encode(first.memory)
    assert ids[1] == ids[4] >= len(corpus.vocabulary)


def test_same_text_given_or_found_is_read_the_same(shortened: Config, tmp_path: Path) -> None:
    writer = load(train(shortened, tmp_path / "run").folder)
    found = writer.write("House3 N17 K2")
    given = writer.write("House3 N17 K2", "Up N17 K2 SomethingLonger17")
    assert (found.text, found.score) == (given.text, given.score)
    np.testing.assert_array_equal(found.coefficients, given.coefficients)
    np.testing.assert_array_equal(found.attention, given.attention)


def test_writer_explains_what_it_wrote(writers: dict[str, Writer]) -> None:
    for variant, memory in (("adadec", 5), ("adadec+attexp", 8)):
        writer = writers[variant]
        generations = writer.write_all(["h h h n3 k5", "house3 n1 k2"], ["up n9 k2", None], n_best=2)
        first = generations[0]
        assert first.pieces == [*first.text.split(), "</s>"]
        assert first.attention.shape == (len(first.pieces), memory)
        assert len(first.memory) == memory
        np.testing.assert_allclose(first.attention.sum(axis=1), 1, atol=1e-5)
        assert first.copy_gate.shape == (len(first.pieces),)
        assert np.linalg.norm(first.coefficients) == pytest.approx(4.0, rel=1e-4)  # the square root of d = 16
        assert len(first.alternatives) == 1
        assert first.similarity is None
        assert 0 < generations[1].similarity <= 1
        alone = writer.write("house3 n1 k2")
        assert alone.text == generations[1].text
        np.testing.assert_allclose(alone.attention, generations[1].attention, atol=1e-5)


def test_guidance_of_one_call_is_that_of_the_setting(writers: dict[str, Writer], tmp_path: Path) -> None:
    exemplars = ["up n9 k2", "down k2 n9", None]

    def write(writer: Writer, guidance: float | None = None) -> list[tuple[str, float]]:
        return [(one.text, one.score) for one in writer.write_all(SOURCES, exemplars, guidance=guidance)]

    for variant in ("adadec", "attexp", "adadec+attexp"):
        copied = Path(shutil.copytree(writers[variant].run.folder, tmp_path / variant))
        corpus = open_corpus(writers[variant].run).folder
        writer = Writer(make_guidable(open_run(copied, corpus=corpus)))
        plain, guided = write(writer), write(writer, 2.0)
        setting = load(writer.run.folder, ["search.guidance=2"], corpus=corpus)
        assert write(setting) == guided
        assert write(setting, 0.0) == plain == write(writer)
        assert all(one != other for one, other in zip(guided, plain, strict=True))
        alone = writer.write(SOURCES[0], exemplars[0], guidance=2.0)
        assert (alone.text, alone.score) == (guided[0][0], pytest.approx(guided[0][1], rel=1e-4))


def test_a_followed_manner_is_found_with_as_little_guidance_as_possible(
    writers: dict[str, Writer], tmp_path: Path
) -> None:
    """As if a user had searched with each strength by hand, and had read all texts of each search."""
    copied = Path(shutil.copytree(writers["adadec"].run.folder, tmp_path / "run"))
    run = make_guidable(open_run(copied, corpus=open_corpus(writers["adadec"].run).folder))
    writer, followed = Writer(run), replace(run.config.search, manner="followed")
    exemplars = ["up n9 k2 ?", "up : k2 n9 k1", None]
    [*found] = writer.answer([*map(Request, SOURCES, exemplars)], 2, search=followed)
    follows = set()
    for source, exemplar, one in zip(SOURCES, exemplars, found, strict=True):
        assert isinstance(one, Generation)
        manner = Manner.of(one.exemplars)
        best: tuple[int, float, str] | None = None
        for more in STRONGER:
            given = writer.write(source, exemplar, run.config.search.beam_size, guidance=more)
            for text in (given.text, *(text for text, _ in given.alternatives)):
                if best is None or manner.differences(text) < best[0]:
                    best = manner.differences(text), more, text
            if best is not None and best[0] == 0:
                break
        assert best is not None
        assert one.text == best[2]
        assert len(one.alternatives) == 1
        follows.add(best[0] == 0)
    assert follows == {True, False}  # some at once, others never
    with pytest.raises(InputError, match=r"`search.manner` is followed, but this model \(seq2seq\) does not read"):
        writers["seq2seq"].answer([Request(SOURCES[0])], search=followed)


def test_guidance_is_refused_for_a_model_that_was_always_shown_an_exemplar(writers: dict[str, Writer]) -> None:
    writer = writers["adadec"]
    message = r"is 1, but this model \(adadec\) was not trained to write without an exemplar: set it to 0, or train one"
    with pytest.raises(InputError, match=message):
        writer.write(SOURCES[0], guidance=1)
    with pytest.raises(InputError, match=message):
        writer.answer([Request(SOURCES[0])], search=replace(writer.run.config.search, guidance=1.0))
    with pytest.raises(InputError, match=message):
        load(writer.run.folder, ["search.guidance=1"])
    assert writer.write(SOURCES[0], guidance=0).text == writer.write(SOURCES[0]).text


def test_writer_refuses_what_it_cannot_use(writers: dict[str, Writer]) -> None:
    writer = writers["adadec"]
    with pytest.raises(InputError, match="has no word the model knows"):
        writer.write("house1 n1 k1", "xyzzy plugh")
    with pytest.raises(InputError, match=r"^the exemplar '(y ){30}\.\.\.' has no word the model knows"):
        writer.write("house1 n1 k1", "y " * 10**6)
    with pytest.raises(InputError, match="the source is empty"):
        writer.write("  ", "up n1 k1")
    with pytest.raises(InputError, match=r"`search.guidance` must be at least 0, but is -1"):
        writer.write("house1 n1 k1", guidance=-1)
    with pytest.raises(InputError, match=r"this model \(seq2seq\) does not read exemplars: set it to 0"):
        writers["seq2seq"].write("house1 n1 k1", guidance=1)
    with pytest.raises(ValueError, match="`exemplars` must be as long as `sources`, 2, but has length 1 instead"):
        writer.write_all(["a", "b"], ["c"])


def test_writer_counts_what_it_cuts(writers: dict[str, Writer]) -> None:
    writer = writers["adadec"]
    limit = writer.run.config.corpus.max_source
    assert writer.write("n1 " * (limit + 7), "up n1 k1").truncated == 7


@pytest.mark.parametrize("variant", ["seq2seq", "adadec"])
def test_told_writer_reads_what_training_read(tmp_path: Path, variant: str) -> None:
    records = [{**record, "group": f"Team {i % 2}"} for i, record in enumerate(toy_records(40, seed=0))]
    write_splits(tmp_path, records)
    config = variant_config(tmp_path, variant, epochs=1).replace("corpus", group_in_source=True)
    writer = load(train(config, tmp_path / "run").folder)
    corpus, first = open_corpus(writer.run), records[0]
    source = str(first["source"])
    read = writer.write(source, group="Team 0").memory
    assert read == corpus.table.decode(corpus.sources("train")[0].tolist()) == ["Team", "0", "|", *source.split()]
    assert writer.write(source).memory == source.split()
    exemplar = None if variant == "seq2seq" else "up n1 k1"
    assert writer.write(source, exemplar, group="Team 1").memory[:3] == ["Team", "1", "|"]
    groups = ["Team 1", None, "Team 0", "Team 1"]
    together = writer.write_all([source] * 4, group=groups)
    alone = [writer.write(source, group=group) for group in groups]
    assert [(one.text, one.exemplars, one.memory) for one in together] == [
        (one.text, one.exemplars, one.memory) for one in alone
    ]
    with pytest.raises(ValueError, match="`group` must be as long as `sources`, 4, but has length 1 instead"):
        writer.write_all([source] * 4, group=["Team 1"])
    with pytest.raises(InputError, match="no exemplar has the group 'Team 7'"):
        writer.write(source, exemplar, group="Team 7")
    facts = writer.run.folder / "run.json"
    facts.write_text(facts.read_text("utf-8").replace("Team 1", "Team 7"), "utf-8")
    with pytest.raises(InputError, match=r"run.json: its groups are not those of .*groups.json, so one of the two"):
        open_corpus(open_run(writer.run.folder))


def test_a_model_without_exemplars_says_what_it_cannot_read(writers: dict[str, Writer]) -> None:
    writer, mixture = writers["seq2seq"], Mixture.of(["up n1 k1"])
    no_group = r"this model \(seq2seq\) reads neither exemplars nor groups; leave the group out"
    no_style = r"this model \(seq2seq\) does not read exemplars; leave out mixture and style"
    for ask, message in (
        (lambda: writer.write("n1 k1", group="any"), no_group),
        (lambda: writer.refuse(group="any"), no_group),
        (
            lambda: writer.vary("n1 k1", 3),
            r"this model \(seq2seq\) .* do not vary with them; ask for the best texts of",
        ),
        (lambda: writer.write(Request("n1 k1", mixture=mixture)), no_style),
        (lambda: writer.save_style("brief", mixture), no_style),
        (
            lambda: writers["attexp"].save_style("brief", mixture),
            r"\(attexp\) has no coefficients to mix, .*with each text",
        ),
    ):
        with pytest.raises(RequestError, match=message):
            ask()
    writer.refuse()


@pytest.fixture(scope="module", params=["seq2seq", "adadec", "adadec+attexp"])
def beyond(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Writer:
    """A run with every option beyond the paper, on texts in mixed case."""
    folder = tmp_path_factory.mktemp("beyond")
    records = toy_records(60, seed=0)
    for i, record in enumerate(records):
        record["source"] = str(record["source"]).title()
        if i % 2:
            record["target"] = str(record["target"]).title()
    write_splits(folder, records)
    config = config_beyond_the_paper(folder / "work", request.param, config_for(folder, vocabulary_size=340).corpus)
    return load(train(config, folder / "run").folder)


def test_writer_goes_beyond_the_paper(beyond: Writer) -> None:
    """New text is read like the corpus: the same exemplars, the same text, as many columns as pieces."""
    config, corpus = beyond.run.config, open_corpus(beyond.run)
    outputs = evaluate(beyond.run.folder, "test")[:12]
    found = beyond.write_all([output.source for output in outputs])
    for number, (output, one) in enumerate(zip(outputs, found, strict=True)):
        assert (one.text, one.score) == (output.text, pytest.approx(output.score, rel=1e-4))
        assert one.text == beyond.run.segmenter.join(one.pieces[:-1])
        assert one.attention.shape == (len(one.pieces), len(one.memory))
        np.testing.assert_allclose(one.attention.sum(axis=1), 1, atol=1e-5)
        source = beyond.run.segmenter.segment(output.source)
        assert one.memory[: len(source)] == source
        if config.model.reads_exemplars:
            assert one.exemplar == output.exemplar
        if config.model.attend_exemplar:
            exemplars = open_trained_exemplars(corpus, config.exemplars, beyond.run.facts["exemplars"])
            shown = [corpus.targets("train")[i] for i in exemplars.nearest("test", 3)[number]]
            assert one.memory[len(source) :] == corpus.table.decode(np.concatenate(shown).tolist())
        if config.model.adaptive:
            assert one.coefficients.shape == (4,)


def test_writer_beyond_the_paper_takes_what_is_given(beyond: Writer) -> None:
    if not beyond.run.config.model.reads_exemplars:
        pytest.skip("it reads no exemplars")
    first, other = beyond.write_all(["House1 N3 K5"] * 2, ["Up n9 k2", "up N9 K2 down down"], n_best=2)
    assert first.score != other.score
    assert first.attention.shape == (len(first.pieces), len(first.memory))  # without the begin symbol of the exemplar
    guided = beyond.write("House1 N3 K5", "Up n9 k2", guidance=1.5)
    assert guided.score != first.score
    alone = beyond.write("House1 N3 K5", "Up n9 k2")
    assert (alone.text, alone.score) == (first.text, pytest.approx(first.score, rel=1e-4))
    unheard = beyond.write("東京")
    assert unheard.exemplar is None
    assert unheard.memory.count("<none>") == (3 if beyond.run.config.model.attend_exemplar else 0)
    assert unheard.attention.shape == (len(unheard.pieces), len(unheard.memory))


@pytest.mark.parametrize("manner", ["free", "followed"])
def test_exemplars_agree_on_new_text_as_on_a_split(
    beyond: Writer, manner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, settings = beyond.run, ["search.choice=consensus", f"search.manner={manner}"]
    if not run.config.model.reads_exemplars:
        with pytest.raises(ConfigError, match="reads no exemplar"):
            load(run.folder, settings)
        return
    asked: list[tuple[int, bool]] = []  # how many searches, and whether exemplars vote on the form

    def rank(searches: Sequence[Sequence[Hypothesis]], alpha: float, distance: Distance | None) -> list[Hypothesis]:
        asked.append((len(searches), distance is not None))
        return rank_by_agreement(searches, alpha, distance)

    monkeypatch.setattr(choosing, "rank_by_agreement", rank)
    agreeing, corpus = load(run.folder, settings), open_corpus(run)
    exemplars = open_trained_exemplars(corpus, run.config.exemplars, run.facts["exemplars"])
    outputs = decode_split(agreeing.model, corpus, exemplars, "test", agreeing.run.config.search, np.arange(12))
    found = agreeing.write_all([output.source for output in outputs])
    assert [(one.text, round(one.score, 3)) for one in found] == [(one.text, round(one.score, 3)) for one in outputs]
    first, again = 1 + 3 + 1, 1 + 3 + 1 + 1 + 3  # all, each, none; then all and each with guidance
    assert asked.count((first, manner == "followed")) == 2 * 12
    assert set(asked) <= {(first, manner == "followed"), (again, True)}
    if manner == "free":
        given = "House1 N3 K5", "Up n9 k2"  # one exemplar agrees with itself
        assert agreeing.write(*given).text == beyond.write(*given).text


def test_saved_model_knows_the_other_case(beyond: Writer) -> None:
    vocabulary = beyond.run.vocabulary
    np.testing.assert_array_equal(beyond.model.other_case.numpy(), find_other_case(vocabulary))
    assert vocabulary.pieces[beyond.model.other_case[vocabulary.get("Ġup")]] == "ĠUp"


def test_public_names_are_shown_before_their_first_use_and_without_torch() -> None:
    program = (
        "import sys, exadec, pydoc\n"
        "assert {*exadec.__all__, '__version__'} <= set(dir(exadec))\n"
        "assert exadec.__version__[0].isdigit()\n"
        "assert issubclass(exadec.errors.InputError, ValueError)\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
        "shown = pydoc.render_doc(exadec, renderer=pydoc.plaintext)\n"
        "assert all(f'{name}(' in shown for name in exadec.__all__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_wrong_arguments_are_one_line(writers: dict[str, Writer]) -> None:
    writer = writers["adadec"]
    with pytest.raises(InputError, match=r"^the source must be text, but is a number\.$"):
        writer.write(5)  # type: ignore[call-overload]
    with pytest.raises(InputError, match=r"^the source must be text, but is null\.$"):
        writer.write(["a", None])  # type: ignore[list-item]
    with pytest.raises(InputError, match=r"^the exemplar must be text, but is a number\.$"):
        writer.write(SOURCES[0], exemplar=5)  # type: ignore[call-overload]
    with pytest.raises(InputError, match=r"^the group must be text, but is a number\.$"):
        writer.write_all(SOURCES, group=5)  # type: ignore[arg-type]
    for nothing in (None, 5):
        with pytest.raises(InputError, match=f"must be the path of a run or the address of a server, but is {nothing}"):
            load(nothing)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"`split` must be one of train, valid, test, but is 'tst'"):
        evaluate(writer.run.folder, "tst")


def test_a_mixture_lies_between_its_exemplars(writers: dict[str, Writer]) -> None:
    writer = writers["adadec"]
    source, one, other = "house3 house3 house3 n4 k5", "up n1 k2", "down k3 n7"
    alone = [writer.write(source, exemplar).coefficients for exemplar in (one, other)]
    mixed = writer.write(Request(source, mixture=Mixture(((one, 1.0), (other, 3.0)))))
    expected = 0.25 * alone[0] + 0.75 * alone[1]
    norm = np.linalg.norm(alone[0])
    np.testing.assert_allclose(mixed.coefficients, expected * norm / np.linalg.norm(expected), rtol=1e-5)
    assert mixed.exemplars == [other]  # the heaviest; the model reads one
    assert writer.write(Request(source, mixture=Mixture.of([one]))).text == writer.write(source, one).text
    assert mixed.attention is not None
    batch = [Request(source), Request(source, mixture=Mixture.of([other])), Request(source, exemplar=one)]
    together = [result.text for result in writer.answer(batch)]
    assert together == [writer.answer([request])[0].text for request in batch]


def test_styles_are_used_by_name(writers: dict[str, Writer]) -> None:
    writer = writers["adadec"]
    source = "house3 house3 house3 n4 k5"
    mixture = Mixture.of(["up n1 k2", "up n4 k2"])
    writer.styles.save("loud", mixture)
    assert writer.write(Request(source, style="loud")).text == writer.write(Request(source, mixture=mixture)).text
    good, bad = writer.answer([Request(source), Request(source, style="quiet")])
    assert isinstance(good, Generation)
    assert "there is no style 'quiet'; choose one of these: loud" in str(bad)
    with pytest.raises(RequestError, match="exclude each other"):
        Request(source, exemplar="up n1 k1", style="loud")
    with pytest.raises(RequestError, match="leave out mixture and style"):
        writers["seq2seq"].write(Request(source, mixture=mixture))


def test_the_bank_is_that_of_given_exemplars(writers: dict[str, Writer]) -> None:
    writer = writers["adadec"]
    bank = writer.bank()
    targets = writer.run.open_retriever().corpus
    for number in (0, 5, 77):
        text = targets.text(targets.targets("train")[number])
        given = writer.write("house3 house3 house3 n4 k5", text).coefficients
        np.testing.assert_allclose(bank[number, 0], given, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("setting", ["search.facts=off", "search.facts=strict"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_quick_search_writes_the_same_texts_but_for_rounding(
    writers: dict[str, Writer], variant: str, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [f"house{n % 9} house{n % 9} house{n % 9} n{n % 12} k{n % 7}" for n in range(40)]
    folder = writers[variant].run.folder
    ordinary, quick, rounded = (load(folder, [setting, f"search.precision={precision}"]) for precision in PRECISIONS)
    expected = ordinary.write(sources)
    monkeypatch.setattr(generate, "LARGE", 0)  # otherwise it is for larger vocabularies
    for writer, least, tolerance in ((quick, 1.0, 1e-5), (rounded, 0.85, 0.05)):
        pairs = list(zip(writer.write(sources), expected, strict=True))
        scores = [(one.score, other.score) for one, other in pairs if one.text == other.text]
        assert len(scores) >= least * len(sources)
        np.testing.assert_allclose(*zip(*scores, strict=True), atol=tolerance)
    assert any(one != other for one, other in scores)


def test_a_stream_that_is_left_ends_its_search(writers: dict[str, Writer], monkeypatch: pytest.MonkeyPatch) -> None:
    """The search writes one word after another, and the reader goes after the first one."""
    told, ended, gone = list[str](), Event(), Event()

    def answer(requests: object, search: object, tell: Callable[[int, str], None]) -> Never:
        try:
            for text in ("a", "a b", "a b c", "a b c d"):
                tell(0, text)
                told.append(text)
                gone.wait(60)
        finally:
            ended.set()
        raise AssertionError("nobody reads this")

    writer = writers["adadec"]
    monkeypatch.setattr(writer, "answer", answer)
    stream = writer.stream(SOURCES[0])
    assert next(stream) == "a"
    stream.close()
    gone.set()
    assert ended.wait(60)
    assert told == ["a"]
