"""Too large models are refused by an estimate, and nothing is allocated to find out."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from exadec.config import VARIANTS, ModelConfig
from exadec.errors import InputError
from exadec.model.seq2seq import Seq2seq, count_parameters
from exadec.training import memory
from exadec.training.memory import available_memory, require_memory

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
