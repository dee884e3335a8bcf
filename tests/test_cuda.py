"""The GPU against the CPU reference, end to end: values, all gradients, search, training. Run them with `make cuda`."""

import copy
import dataclasses
import gc
import json
import operator
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from exadec.config import VARIANTS, ModelConfig, SearchConfig
from exadec.corpus.vocabulary import PAD
from exadec.errors import InputError
from exadec.exemplars.retrieve import retrieve
from exadec.search.generate import Task, search_batch
from exadec.textmetrics.metrics import score_all
from exadec.training import step
from exadec.training.checkpoint import LAST, open_corpus
from exadec.training.evaluation import choose_sample, decode_split, evaluate, mean_surprise
from exadec.training.events import Evaluated, LossLine
from exadec.training.memory import require_batch_memory, require_memory
from exadec.training.trainer import train
from support.small_models import ALL_OPTIONS, VOCABULARY, batch_for, build_small_model
from support.toys import toy_records, variant_config, write_splits

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize(
    "shape",
    [{}, {"copy": "separate", "input_feeding": True}, {"cell": "gru"}, {"cell": "elman"}, ALL_OPTIONS],
    ids=lambda shape: "-".join(shape),
)
@pytest.mark.parametrize("variant", VARIANTS)
def test_values_and_all_gradients_equal_the_cpu(variant: str, shape: dict[str, object]) -> None:
    reference = build_small_model(**VARIANTS[variant], **shape).train()
    model = copy.deepcopy(reference).cuda()
    batch = batch_for(model.config, 9)
    words = batch.target_output != PAD
    expected, found = reference(batch), model(batch.to(torch.device("cuda")))
    torch.testing.assert_close(found.cpu()[words], expected[words], rtol=1e-9, atol=1e-9)
    expected[words].sum().backward()
    found[words.cuda()].sum().backward()
    for (name, mine), (_, theirs) in zip(model.named_parameters(), reference.named_parameters(), strict=True):
        torch.testing.assert_close(
            mine.grad.cpu(), theirs.grad, rtol=1e-8, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("option", [{}, ALL_OPTIONS], ids=["paper", "all"])
@pytest.mark.parametrize("guided", [False, True])
@pytest.mark.parametrize("at_once", [64, 4])
@pytest.mark.parametrize("variant", VARIANTS)
def test_search_equals_the_cpu(variant: str, at_once: int, guided: bool, option: dict[str, object]) -> None:
    """With places for all instances, and with so few that most of them wait for their turn."""
    model = build_small_model(**VARIANTS[variant], **option)
    batch = batch_for(model.config, 17)
    guidance = 1.0 if guided and model.config.reads_exemplars else 0.0
    config = SearchConfig(beam_size=4, max_length=8, block_ngram=2, guidance=guidance, batch_size=at_once)
    form = torch.arange(VOCABULARY) % 3 != 0
    expected = search_batch(model, Task(batch), config, n_best=3, form=form).hypotheses
    model, form = model.cuda(), form.cuda()
    for _ in range(2):  # recorded, then replayed
        found = search_batch(model, Task(batch), config, n_best=3, form=form).hypotheses
        assert [[h.ids for h in row] for row in found] == [[h.ids for h in row] for row in expected]
    # Other instances on the same recording
    others = batch_for(model.config, 19)
    found = search_batch(model, Task(others), config, n_best=3, form=form).hypotheses
    expected = search_batch(model.cpu(), Task(others), config, n_best=3, form=form.cpu()).hypotheses
    assert [[h.ids for h in row] for row in found] == [[h.ids for h in row] for row in expected]


@pytest.mark.parametrize("beam", [20, 40])
def test_beam_wider_than_the_kernels_take_equals_the_cpu(beam: int) -> None:
    model = build_small_model(**VARIANTS["adadec+attexp"], **ALL_OPTIONS)
    batch = batch_for(model.config, 7)
    config = SearchConfig(beam_size=beam, max_length=8)
    expected = search_batch(model, Task(batch), config, n_best=beam).hypotheses
    found = search_batch(model.cuda(), Task(batch), config, n_best=beam).hypotheses
    assert [[h.ids for h in row] for row in found] == [[h.ids for h in row] for row in expected]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cuda")
    write_splits(folder, toy_records(600, seed=0))
    return folder


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_task_is_learnt_in_both_precisions(toy: Path, precision: str) -> None:
    run = train(variant_config(toy, "adadec", precision=precision), toy / precision)
    outputs = evaluate(run.folder)
    assert score_all(["rougeL"], [o.text for o in outputs], [o.references for o in outputs])[0].value > 95
    losses = [event.loss for event in run.metrics() if isinstance(event, LossLine)]
    assert losses
    assert np.isfinite(losses).all()


@pytest.mark.parametrize("beyond", [False, True], ids=["paper", "all"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_texts_do_not_depend_on_the_batch(toy: Path, variant: str, beyond: bool) -> None:
    """In both precisions; and half of the precision changes few texts of a model that knows what to write."""
    config = variant_config(toy, variant, epochs=6)
    if beyond:
        config = config.replace("exemplars", neighbours=3).replace("model", **ALL_OPTIONS)
    run = train(config, toy / f"batches-{variant}-{beyond}")
    corpus = open_corpus(run)
    split = run.load_model(device="cuda"), corpus, retrieve(corpus, config.exemplars), "test"
    texts: dict[tuple[str, int], list[str]] = {}
    for precision in ("float32", "rounded"):
        for size in (64, 7, 1):
            search = dataclasses.replace(config.search, precision=precision, batch_size=size)
            texts[precision, size] = [one.text for one in decode_split(*split, search)]
        assert texts[precision, 64] == texts[precision, 7] == texts[precision, 1]
    same = map(operator.eq, texts["float32", 64], texts["rounded", 64])
    assert sum(same) >= 0.95 * len(texts["float32", 64])


def test_only_texts_that_break_a_rule_are_searched_again_and_equal_the_cpu(tmp_path: Path) -> None:
    """A model that has hardly learnt its task writes numbers that its sources do not have."""
    records = [{field: str(text).replace(" k", " ") for field, text in one.items()} for one in toy_records(300, seed=3)]
    write_splits(tmp_path, records)
    config = variant_config(tmp_path, "adadec", epochs=3).replace("model", copy="none")
    run = train(config, tmp_path / "run")
    corpus = open_corpus(run)
    sources = [str(record["source"]).split() for record in records]
    texts = {}
    for device, facts in (("cuda", "off"), ("cuda", "strict"), ("cpu", "strict")):
        search = dataclasses.replace(config.search, facts=facts)
        found = decode_split(run.load_model(device=device), corpus, retrieve(corpus, config.exemplars), "test", search)
        texts[device, facts] = [one.text for one in found]

    def unlicensed(name: tuple[str, str]) -> list[bool]:
        """Whether a text has a number, or a word with one in it, that its source has not."""
        read = zip(texts[name], sources, strict=True)
        return [any(word[-1].isdigit() and word not in source for word in text.split()) for text, source in read]

    wrong = unlicensed(("cuda", "off"))
    assert any(wrong)
    assert not any(unlicensed(("cuda", "strict")))
    pairs = zip(texts["cuda", "off"], texts["cuda", "strict"], wrong, strict=True)
    assert all(free == strict for free, strict, again in pairs if free and not again)  # an empty text is searched again
    same = map(operator.eq, texts["cuda", "strict"], texts["cpu", "strict"])
    assert sum(same) >= 0.98 * len(records)


def test_recordings_go_with_their_model() -> None:
    config = SearchConfig(beam_size=4, max_length=8)
    taken = []
    for _ in range(3):
        model = build_small_model(**VARIANTS["adadec"]).cuda()
        search_batch(model, Task(batch_for(model.config, 7)), config)
        del model
        gc.collect()
        torch.cuda.empty_cache()
        taken.append(torch.cuda.memory_reserved())
    assert taken[2] <= taken[0]


def test_model_too_large_for_the_gpu_is_refused_before_it_takes_memory() -> None:
    before = torch.cuda.memory_allocated()
    with pytest.raises(InputError, match=r"are free on the GPU; choose a smaller model\.hidden"):
        require_memory([ModelConfig(hidden=200_000)], torch.device("cuda"))
    lengths = np.full(1000, 500), np.full(1000, 500)
    with pytest.raises(InputError, match=r"are free on the GPU; choose a smaller training\.batch_size"):
        require_batch_memory(ModelConfig(hidden=20_000), lengths, 1000, 4, torch.device("cuda"))
    assert torch.cuda.memory_allocated() == before


@pytest.mark.parametrize(
    ("backend", "precision", "tolerance"),
    [
        ("reference", "float32", 1e-3),
        ("reference", "bfloat16", 0.02),
        ("triton", "float32", 1e-3),
        ("triton", "bfloat16", 0.02),
        ("hopper", "bfloat16", 0.02),
    ],
)
@pytest.mark.parametrize("variant", VARIANTS)
def test_surprise_at_the_development_set_equals_the_cpu(
    toy: Path, variant: str, backend: str, precision: str, tolerance: float
) -> None:
    """The trainer reads the development set with the backend and the precision of training."""
    if backend == "hopper" and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs an H100 or H200")
    config = variant_config(toy, variant, backend=backend, precision=precision, epochs=2)
    run = train(config, toy / f"surprise-{variant}-{backend}-{precision}")
    logged = [event.surprise for event in run.metrics() if isinstance(event, Evaluated)]
    corpus = open_corpus(run)
    expected = mean_surprise(run.load_model(LAST).cpu(), corpus, retrieve(corpus), "valid", choose_sample(600, 50))
    assert logged[-1] == pytest.approx(expected, rel=tolerance)


def test_master_weights_stay_in_float32(toy: Path) -> None:
    run = train(variant_config(toy, "adadec", precision="bfloat16", epochs=1), toy / "master")
    kinds = {
        tensor.dtype for key, tensor in load_file(run.folder / LAST).items() if key.startswith(("model.", "adam."))
    }
    assert kinds == {torch.float32}


def test_bfloat16_losses_are_near_those_of_float32(toy: Path) -> None:
    """The same seed and data: after an epoch the two losses differ by rounding, not by kind."""
    losses = []
    for precision in ("float32", "bfloat16"):
        config = variant_config(toy, "adadec", precision=precision, epochs=2)
        run = train(config, toy / f"near-{precision}")
        losses.append([event.loss for event in run.metrics() if isinstance(event, LossLine)][-1])
    assert losses[1] == pytest.approx(losses[0], rel=0.25)


@pytest.mark.parametrize("beyond", [False, True], ids=["paper", "all"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_trainings_with_one_seed_are_the_same_captured_or_not(
    toy: Path, variant: str, beyond: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = variant_config(toy, variant, precision="bfloat16", epochs=2, clip_norm=0.1)
    if beyond:
        config = config.replace("exemplars", neighbours=3).replace("model", **ALL_OPTIONS, exemplar_skipping=0.3)
    name = f"same-{variant}-{'all' if beyond else 'paper'}"
    runs = [train(config, toy / f"{name}-{number}") for number in range(3)]
    monkeypatch.setattr(step, "_CAPTURE_AFTER", 1_000_000)
    runs.append(train(config, toy / f"{name}-eager"))
    first, *others = (load_file(run.folder / LAST) for run in runs)
    keys = [key for key in first if key.startswith(("model.", "adam."))]
    assert {key.partition(".")[0] for key in keys} == {"model", "adam"}
    for other in others:
        assert all(torch.equal(first[key], other[key]) for key in keys)


@pytest.mark.parametrize("backend", ["reference", "triton", "auto"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_deterministic_training_repeats_bit_for_bit(toy: Path, tmp_path: Path, backend: str, precision: str) -> None:
    """In processes of their own: cuBLAS reads its setting once."""
    options = {**ALL_OPTIONS, "exemplar_skipping": 0.3}
    config = variant_config(toy, "adadec+attexp", backend=backend, precision=precision, epochs=2)
    config = config.replace("exemplars", neighbours=3).replace("model", **options)
    path = tmp_path / "toy.yaml"
    path.write_text(json.dumps(config.to_dict()), "utf-8")
    environment = {key: value for key, value in os.environ.items() if key != "CUBLAS_WORKSPACE_CONFIG"}
    for number in range(2):
        command = [sys.executable, "-m", "exadec", "train", path, "--deterministic", "--run", tmp_path / str(number)]
        command += ["--variant", "adadec+attexp"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    first, second = (load_file(tmp_path / str(number) / LAST) for number in range(2))
    assert all(torch.equal(first[key], second[key]) for key in first)
