"""Too large models and batches are refused by an estimate, and nothing is allocated to find out."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from exadec.config import VARIANTS, ModelConfig
from exadec.corpus.vocabulary import PAD
from exadec.errors import InputError
from exadec.model.cells import CELLS
from exadec.model.seq2seq import Seq2seq, count_parameters
from exadec.training import memory
from exadec.training.memory import available_memory, require_batch_memory, require_memory
from exadec.training.trainer import train
from support.small_models import VOCABULARY, batch_for
from support.toys import toy_records, variant_config, write_splits

CPU = torch.device("cpu")
SMALL = ModelConfig(hidden=8, embedding=8, exemplar_hidden=4)
FIRST, SECOND = "memory/jobs/mine", "jobs/mine"
"""Where the two versions of control groups keep the limits of a process in `/jobs/mine`"""


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_estimate_is_sixteen_bytes_a_parameter(monkeypatch: pytest.MonkeyPatch, variant: str) -> None:
    config = replace(SMALL, **VARIANTS[variant])
    count = count_parameters(Seq2seq(config, 50))["all"]
    for copies in (1, 3):
        monkeypatch.setattr(memory, "available_memory", lambda copies=copies: 16 * count * copies)
        require_memory([config] * copies, CPU, 50)
        monkeypatch.setattr(memory, "available_memory", lambda copies=copies: 16 * count * copies - 1)
        with pytest.raises(InputError, match=rf"^{copies * count:,} parameters take .* GB .*, but only .* are free;"):
            require_memory([config] * copies, CPU, 50)


@pytest.mark.parametrize("weights", ["factored", "unconstrained", "residual"])
def test_any_size_that_can_be_set_is_counted(weights: str) -> None:
    sizes = dict.fromkeys(("hidden", "embedding", "exemplar_hidden"), 1_000_000)
    with pytest.raises(InputError, match="parameters take"):
        require_memory([replace(SMALL, **VARIANTS["adadec"], **sizes, weights=weights)], CPU)  # type: ignore[arg-type]


def test_where_nothing_is_known_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    require_memory([replace(SMALL, hidden=500_000)], CPU)
    require_batch_memory(SMALL, (np.array([10**9]), np.array([10**9])), 1, 4, CPU)


def test_the_estimate_of_a_batch_counts_the_pieces_of_the_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = np.array([3, 5]), np.array([1, 2])
    source, target = 8 + 2 * 3 * (4 + 2) * 8, 8 + (4 + 2) * 8  # embedding; gates, h and c of each LSTM
    needed = 4 * (8 * source + 3 * target)  # of both instances
    for rows, share in ((1, needed // 2), (2, needed), (1_000_000, needed)):
        monkeypatch.setattr(memory, "available_memory", lambda share=share: share)
        require_batch_memory(SMALL, lengths, rows, 4, CPU)
        monkeypatch.setattr(memory, "available_memory", lambda share=share: share - 1)
        with pytest.raises(InputError, match=rf"^a batch of {min(rows, 2)} instances takes more than 0.0 GB, but only"):
            require_batch_memory(SMALL, lengths, rows, 4, CPU)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_batch_takes_more_than_its_estimate(monkeypatch: pytest.MonkeyPatch, variant: str, cell: str) -> None:
    config = replace(SMALL, **VARIANTS[variant], cell=cell)
    model, batch = Seq2seq(config, VOCABULARY).train(), batch_for(config, 64)
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = model(batch).sum()
    assert loss.requires_grad
    weights = {one.untyped_storage().data_ptr() for one in model.parameters()}
    activations = sum(size for place, size in kept.items() if place not in weights)
    lengths = batch.source_lengths.numpy(), (batch.target_output != PAD).sum(1).numpy()
    monkeypatch.setattr(memory, "available_memory", lambda: activations)
    require_batch_memory(config, lengths, 64, 4, CPU)
    monkeypatch.setattr(memory, "available_memory", lambda: activations // 20)  # so the estimate is not idle
    with pytest.raises(InputError):
        require_batch_memory(config, lengths, 64, 4, CPU)


def test_a_batch_that_cannot_fit_stops_training_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_splits(tmp_path, toy_records(100, seed=0))
    config = variant_config(tmp_path, "adadec", epochs=1, batch_size=1_000_000)
    monkeypatch.setattr("exadec.training.trainer.require_memory", lambda *_: None)
    monkeypatch.setattr(memory, "available_memory", lambda: 10_000)
    with pytest.raises(InputError, match=r"a batch of 100 instances takes .*; choose a smaller training.batch_size\.$"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def describe_machine(root: Path, monkeypatch: pytest.MonkeyPatch, groups: str, files: dict[str, str]) -> None:
    described = {"proc/meminfo": "MemTotal: 9000 kB\nMemAvailable:    1000 kB\n", "proc/self/cgroup": groups, **files}
    for name, content in described.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content, "utf-8")
    monkeypatch.setattr(memory, "_PROC", root / "proc")
    monkeypatch.setattr(memory, "_GROUPS", root / "groups")


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("", {}, 1_024_000),
        ("0::/jobs/mine\n", {f"{SECOND}/memory.max": "max\n", f"{SECOND}/memory.current": "5\n"}, 1_024_000),
        ("0::/jobs/mine\n", {f"{SECOND}/memory.max": "900\n", f"{SECOND}/memory.current": "500\n"}, 400),
        ("0::/jobs/mine\n", {"jobs/memory.max": "700\n", "jobs/memory.current": "500\n"}, 200),  # of a group around it
        ("0::/../other/of/the/host\n", {"memory.max": "900\n", "memory.current": "800\n"}, 100),
        ("0::/jobs/mine\n", {f"{SECOND}/memory.max": "900\n", f"{SECOND}/memory.current": "950\n"}, 0),
        (
            "0::/jobs/mine\n",
            {
                f"{SECOND}/memory.max": "900\n",
                f"{SECOND}/memory.current": "500\n",
                f"{SECOND}/memory.stat": "anon 7\ninactive_file 50\n",
            },
            450,
        ),
        (
            "7:cpu:/x\n4:memory:/jobs/mine\n",
            {
                f"{FIRST}/memory.limit_in_bytes": "900\n",
                f"{FIRST}/memory.usage_in_bytes": "500\n",
                f"{FIRST}/memory.stat": "inactive_file 10\ntotal_inactive_file 60\n",
            },
            460,
        ),
    ],
)
def test_a_container_may_have_less_than_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: str, files: dict[str, str], expected: int
) -> None:
    describe_machine(tmp_path, monkeypatch, groups, {f"groups/{name}": content for name, content in files.items()})
    assert available_memory() == expected


def test_a_system_that_does_not_say_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_PROC", tmp_path)
    monkeypatch.setattr(memory, "_GROUPS", tmp_path)
    assert available_memory() is None
