"""The whole loop on tasks that can be learnt in seconds."""

import json
import math
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from toys import toy_config, toy_records, variant_config, write_splits

from exadec.api import load
from exadec.config import Config, CorpusConfig
from exadec.corpus.prepare import prepare
from exadec.corpus.readers import known_styles
from exadec.corpus.vocabulary import Vocabulary
from exadec.errors import InputError
from exadec.exemplars.retrieve import retrieve
from exadec.loading.loader import Loader
from exadec.textmetrics.metrics import score_all
from exadec.training.checkpoint import BEST, LAST, open_corpus, open_run, read_notes
from exadec.training.evaluation import Output, decode_split, evaluate, read_outputs, score_style
from exadec.training.events import Evaluated, LossLine
from exadec.training.optimizer import build_optimizer, learning_rate
from exadec.training.trainer import Interrupted, Trainer, build_model, train


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy")
    write_splits(folder, toy_records(600, seed=0))
    lines = [json.dumps({**record, "uid": str(i)}) for i, record in enumerate(toy_records(60, seed=1))]
    for split in ("valid", "test"):
        (folder / f"{split}.jsonl").write_text("\n".join(lines), "utf-8")
    return folder


@pytest.fixture(scope="module")
def runs(toy: Path) -> dict[str, Path]:
    torch.set_num_threads(1)
    return {v: train(variant_config(toy, v), toy / v).folder for v in ("seq2seq", "adadec", "adadec+attexp")}


def assert_usable(folder: Path) -> None:
    """The weights can be loaded, are sound, and write from the source: a text that ends by itself or at the limit."""
    writer = load(folder)
    generation = writer.write("house1 n1 k1", "up n1 k1")
    assert -100 < generation.score < 0  # what NaN is not
    assert len(generation.pieces) <= writer.run.config.search.max_length
    assert {"n1", "k1", "up", "down"} & set(generation.text.split())


def test_adaptive_decoder_learns_manner_and_content(runs: dict[str, Path]) -> None:
    outputs = evaluate(runs["adadec"])
    assert score_all(["rougeL"], [o.text for o in outputs], [o.references for o in outputs])[0].value > 95
    assert read_outputs(runs["adadec"] / "test.outputs.jsonl") == outputs


def test_manner_is_out_of_reach_without_the_exemplar(runs: dict[str, Path]) -> None:
    """The houses are unknown words: a model that does not read exemplars can only guess."""
    first = [output.text.split()[0] == output.references[0].split()[0] for output in evaluate(runs["seq2seq"])]
    assert 0.2 < np.mean(first) < 0.8


def test_swapping_the_exemplar_swaps_the_manner(runs: dict[str, Path]) -> None:
    source = "house1 house1 house1 n3 k5"
    writer = load(runs["adadec"])
    assert writer.write(source, "up n9 k2").text == "up n3 k5"
    assert writer.write(source, "down k2 n9").text == "down k5 n3"
    control = load(runs["seq2seq"])
    assert control.write(source, "up n9 k2").text == control.write(source, "down k2 n9").text


def test_writer_explains_what_it_wrote(runs: dict[str, Path]) -> None:
    for variant, memory in (("adadec", 5), ("adadec+attexp", 8)):
        writer = load(runs[variant])
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


def test_writer_refuses_what_it_cannot_use(runs: dict[str, Path]) -> None:
    writer = load(runs["adadec"])
    with pytest.raises(InputError, match="has no word the model knows"):
        writer.write("house1 n1 k1", "xyzzy plugh")
    with pytest.raises(InputError, match="the source is empty"):
        writer.write("  ", "up n1 k1")
    with pytest.raises(ValueError, match="There are 2 sources, but 1 exemplars"):
        writer.write_all(["a", "b"], ["c"])


def test_writer_counts_what_it_cuts(runs: dict[str, Path]) -> None:
    limit = open_run(runs["adadec"]).config.corpus.max_source
    assert load(runs["adadec"]).write("n1 " * (limit + 7), "up n1 k1").truncated == 7


def test_two_trainings_with_one_seed_are_the_same(toy: Path) -> None:
    config = variant_config(toy, "adadec", epochs=1)
    first, second = (load_file(train(config, toy / name).folder / LAST) for name in ("same-1", "same-2"))
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_resumed_training_equals_uninterrupted_training(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = variant_config(toy, "adadec", epochs=3)
    whole = train(config, toy / "whole")
    steps = []
    step = Trainer._step

    def interrupted_step(self: Trainer, *arguments: object) -> None:
        step(self, *arguments)
        steps.append(1)
        if len(steps) == 27:  # in the second epoch, between two evaluations
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Trainer, "_step", interrupted_step)
    with pytest.raises(Interrupted):
        train(config, toy / "parts")
    monkeypatch.undo()
    assert_usable(toy / "parts")
    assert read_notes(toy / "parts" / LAST)["position"]["step"] == 27
    assert read_notes(toy / "parts" / BEST)["position"]["step"] == 19  # the first evaluation
    resumed = train(config, toy / "parts", resume=True)
    first, second = load_file(whole.folder / LAST), load_file(resumed.folder / LAST)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)
    without_time = [[replace(event, seconds=0.0) for event in run.metrics()] for run in (whole, resumed)]
    assert without_time[0] == without_time[1]
    assert [type(event) for event in without_time[0]] == [Evaluated, LossLine, Evaluated, LossLine, Evaluated]


def test_metrics_after_the_last_checkpoint_are_dropped_on_resume(toy: Path) -> None:
    """After a kill, not an interrupt, the file may know of steps that the checkpoint does not."""
    config = variant_config(toy, "seq2seq", epochs=1)
    run = train(config, toy / "killed")
    before = run.metrics()
    with (run.folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "loss", "step": 10**6, "epoch": 9, "loss": 1.0, "seconds": 1}) + "\n")
    assert train(config, run.folder, resume=True).metrics() == before


def test_ctrl_c_leaves_a_usable_run(toy: Path) -> None:
    """A real process, a real signal."""
    config = variant_config(toy, "adadec", epochs=500, patience=500)
    (toy / "long.yaml").write_text(json.dumps(config.to_dict()), "utf-8")
    command = [sys.executable, "-m", "exadec", "train", str(toy / "long.yaml"), "--run", str(toy / "ctrl-c")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    metrics = toy / "ctrl-c" / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (metrics.is_file() and metrics.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 130, messages
    assert "--resume to continue" in " ".join(messages.split())
    assert_usable(toy / "ctrl-c")
    assert read_notes(toy / "ctrl-c" / LAST)["position"]["step"] >= 19  # the first line of metrics was there


def test_existing_run_is_refused_unless_forced(toy: Path, runs: dict[str, Path]) -> None:
    config = variant_config(toy, "seq2seq", epochs=1)
    with pytest.raises(InputError, match="the run already exists; use --resume to continue it or --force"):
        train(config, runs["seq2seq"])
    with pytest.raises(InputError, match="there is no run to resume"):
        train(config, toy / "absent", resume=True)
    with pytest.raises(InputError, match="started with another configuration"):
        train(config, runs["seq2seq"], resume=True)
    once = train(config, toy / "forced")
    assert train(config, once.folder, force=True).metrics()[-1].step == 19


@pytest.mark.parametrize("epochs", [1, 2])  # seen at the evaluation after 19 steps, or by the loss of the first 25
def test_training_that_diverges_is_stopped_with_advice(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epochs: int
) -> None:
    if epochs == 2:
        monkeypatch.setattr(Trainer, "_evaluate", lambda self, batches: None)
    with pytest.raises(InputError, match=r"no longer finite at step (19|25); try a lower training.learning_rate"):
        train(toy_config(toy, epochs=epochs, learning_rate=1e38), tmp_path / "run")


def test_early_stopping_keeps_the_best_weights(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = iter([10.0, 30.0, 20.0, 25.0, 99.0])
    config = variant_config(toy, "seq2seq", epochs=5, patience=2)

    def fake_scores(names: list[str], texts: list[str], references: list[list[str]]):
        value = next(scores)
        return [type("Fake", (), {"name": names[0], "value": value, "signature": "fake"})]

    monkeypatch.setattr("exadec.training.trainer.score_all", fake_scores)
    run = train(config, toy / "stopped")
    assert [event.value for event in run.metrics() if isinstance(event, Evaluated)] == [10.0, 30.0, 20.0, 25.0]
    assert read_notes(run.folder / BEST)["position"]["step"] == 38  # the second of the epochs, 19 batches each


def test_checkpoint_from_another_vocabulary_is_refused(toy: Path, runs: dict[str, Path], tmp_path: Path) -> None:
    run = open_run(runs["seq2seq"])
    folder = tmp_path / "run"
    folder.mkdir()
    for path in run.folder.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    Vocabulary(["other", "words"]).save(folder / "vocabulary.json")
    with pytest.raises(InputError, match="trained with another vocabulary"):
        load(folder)
    save_file({"x": torch.zeros(1)}, folder / BEST)
    with pytest.raises(InputError, match="not a checkpoint of exadec, or damaged"):
        load(folder)
    (folder / BEST).write_bytes(b"rubbish")
    with pytest.raises(InputError, match="not a checkpoint of exadec, or damaged"):
        load(folder)
    (folder / BEST).unlink()
    with pytest.raises(InputError, match="no such checkpoint"):
        load(folder)
    with pytest.raises(InputError, match="not a run folder"):
        load(tmp_path)


def test_corpus_that_has_changed_is_refused(toy: Path, runs: dict[str, Path], tmp_path: Path) -> None:
    run = open_run(runs["seq2seq"])
    changed = run.facts | {"corpus": "0" * 64}
    with pytest.raises(InputError, match="has changed since"):
        open_corpus(type(run)(run.folder, run.config, changed, run.vocabulary, run.segmenter))


def test_every_instance_is_seen_once_an_epoch(toy: Path) -> None:
    corpus = prepare(toy_config(toy))
    loader = Loader(corpus, retrieve(corpus), "train", copy_exemplar=False)
    epochs = [loader.training_batches(32, seed=1, epoch=epoch) for epoch in (0, 1)]
    for batches in epochs:
        assert sorted(np.concatenate(batches).tolist()) == list(range(600))
    assert not all(np.array_equal(a, b) for a, b in zip(*epochs, strict=True))


def test_outputs_keep_the_order_of_the_split(toy: Path, runs: dict[str, Path]) -> None:
    run = open_run(runs["adadec"])
    corpus = open_corpus(run)
    outputs = decode_split(run.load_model(), corpus, retrieve(corpus), "test", run.config.search, limit=7)
    assert [output.source for output in outputs] == [record.source for record in list(corpus.records("test"))[:7]]


def test_learning_rate_is_annealed_in_steps() -> None:
    config = Config.from_dict({"folder": "x"}).training
    rates = [learning_rate(config, epochs) for epochs in (0, 3.999, 4, 7.9, 8)]
    assert rates == pytest.approx([0.001, 0.001, 0.0002, 0.0002, 0.00004])


def test_optimizer_is_decoupled_adam_over_all_parameters(toy: Path) -> None:
    """One step by hand: p ← p - η·0.01·p - η·m̂/(√v̂ + ε), for every parameter, the clipped gradient inside."""
    config = variant_config(toy, "adadec", epochs=1)
    corpus = prepare(config)
    model = build_model(config, corpus)
    optimizer = build_optimizer(model, config.training)
    batch = Loader(corpus, retrieve(corpus), "train", copy_exemplar=False).batch(np.arange(8))
    model(batch).sum().mul(-100).backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.training.clip_norm)
    assert norm > config.training.clip_norm
    before = {name: (p.detach().clone(), p.grad.clone()) for name, p in model.named_parameters()}
    assert sum(grad.square().sum() for _, grad in before.values()).sqrt().item() == pytest.approx(1.0, rel=1e-3)
    optimizer.step()
    rate = config.training.learning_rate
    for name, parameter in model.named_parameters():
        old, gradient = before[name]
        # After one step the bias-corrected moments are the gradient and its square.
        expected = old * (1 - rate * 0.01) - rate * gradient / (gradient.abs() + 1e-8)
        torch.testing.assert_close(parameter.detach(), expected, rtol=1e-4, atol=1e-6, msg=name)


def test_style_score_counts_matching_styles() -> None:
    texts = ["On Friday, Riley won Senegal general election with 67 percent", "something else"]
    outputs = [Output("u", "s", texts[0], 1.0, ("r",), text, 0.0) for text in texts]
    styles = known_styles(CorpusConfig(format="wire"))
    assert styles
    assert score_style(outputs, styles).value == 50.0


@pytest.mark.parametrize(
    "settings", [{"cell": "gru"}, {"cell": "elman"}, {"copy": "separate"}, {"input_feeding": True}]
)
def test_other_architectures_train_and_write(toy: Path, settings: dict[str, object]) -> None:
    config = variant_config(toy, "adadec", epochs=2).replace("model", **settings)
    run = train(config, toy / "-".join(str(value) for value in settings.values()))
    first, line, second = run.metrics()  # 19 steps an epoch, a line of loss every 25
    assert isinstance(line, LossLine)
    assert line.loss < math.log(31) / 2  # half of what guessing evenly among the words would give
    assert isinstance(first, Evaluated)
    assert isinstance(second, Evaluated)
    assert max(first.value, second.value) > 70
    assert_usable(run.folder)
