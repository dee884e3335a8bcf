"""Kill each stage at random instants, run the same command again, and compare with a run that nobody disturbed.

    python tests/campaign/kills.py --kills 100 --stages prepare,retrieve,train --out kills.json

In: the number of kills. Out: for each stage how many were survived, as JSON. Survived means: the command succeeded the
second time, every file has the same content (times aside), and nothing is left over. A kill that comes after the end is
not counted, and another one takes its place. With `--out FILE` each run adds to those before it, under the next seed.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": ""}
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from safetensors import safe_open

import exadec.training.side_by_side  # noqa: F401 - loaded once, before processes are forked
from exadec.cli import main
from exadec.exemplars.index import BowIndex
from support.toys import toy_config, toy_records, write_splits

RUN = "run"


@dataclass(frozen=True)
class Stage:
    """What is killed: a command, a program under `torchrun`, or a function."""

    before: tuple[str, ...] = ()
    """Stages that have to be finished."""
    arguments: tuple[str, ...] = ()
    processes: int = 1
    call: Callable[[Path], None] | None = None
    settled: Callable[[Path], bool] = lambda folder: False
    """Whether the work is done already, so that it is not done again."""


def add_texts(folder: Path) -> None:
    BowIndex.open(folder / "index").add([f"text {number} of those added" for number in range(300)])


def delete_texts(folder: Path) -> None:
    BowIndex.open(folder / "index").delete(range(100, 200))


def build_index(folder: Path) -> None:
    BowIndex.build([f"word{number % 37} and word{number % 11}" for number in range(1000)]).save(folder / "index")


def has_size(size: int) -> Callable[[Path], bool]:
    return lambda folder: len(BowIndex.open(folder / "index")) == size


def has_index(folder: Path) -> bool:
    """And opens it, which removes what a kill after the last step left: the file that says who is writing."""
    return (folder / "index" / "manifest.json").is_file() and has_size(1000)(folder)


TRAIN = ("train", "toy.yaml", "--run", RUN, "--resume")
STAGES = {
    "prepare": Stage(arguments=("prepare", "toy.yaml")),
    "retrieve": Stage(("prepare",), ("retrieve", "toy.yaml")),
    "train": Stage(("prepare", "retrieve"), TRAIN),
    "generate": Stage(("prepare", "retrieve", "train"), ("generate", RUN, "--split", "test")),
    "side by side": Stage(
        ("prepare", "retrieve"), ("train", "toy.yaml", "--variants", "seq2seq,adadec", "--at-once", "2", "--resume")
    ),
    "torchrun": Stage(("prepare", "retrieve"), TRAIN, processes=2),
    "index": Stage(call=build_index, settled=has_index),
    "index add": Stage(("index",), call=add_texts, settled=has_size(1300)),
    "index delete": Stage(("index",), call=delete_texts, settled=has_size(900)),
}


def start(stage: Stage, folder: Path, log: Path) -> int:
    """Start the stage in a new process, and return its number. A fork has all modules loaded, so it is quick."""
    if stage.processes > 1:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(stage.processes)]
        with log.open("w") as file:
            return subprocess.Popen(
                [*command, "--standalone", "-m", "--", "exadec", *stage.arguments], cwd=folder, stdout=file, stderr=file
            ).pid
    number = os.fork()
    if number:
        return number
    status = 1
    try:
        os.chdir(folder)
        descriptor = os.open(log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        sys.argv = ["exadec", *stage.arguments]
        if stage.call is not None:
            stage.call(folder)
        else:
            main()
        status = 0
    except SystemExit as end:
        status = int(end.code or 0)
    finally:
        os._exit(status)


def finish(number: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def descendants(number: int) -> list[int]:
    """A process and all that it has started."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
    found = [number]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def kill(number: int) -> None:
    """SIGKILL to a process and all that it has started, and wait until they are gone."""
    everyone = descendants(number)
    for one in everyone:
        try:
            os.kill(one, signal.SIGKILL)
        except ProcessLookupError:
            continue
    finish(number)
    while any(Path(f"/proc/{one}").exists() for one in everyone):
        time.sleep(0.01)


def snapshot(folder: Path) -> dict[str, str]:
    """A hash of each file's content, by path. Times that are part of the content do not count."""
    return {str(path.relative_to(folder)): _hash(path) for path in sorted(folder.rglob("*")) if path.is_file()}


def _hash(path: Path) -> str:
    if path.suffix == ".safetensors":
        with safe_open(path, framework="pt") as file:
            notes = json.loads(file.metadata()["notes"])
            notes["position"]["seconds"] = 0
            parts = [json.dumps(notes)]
            for key in sorted(file.keys()):
                parts.append(key + hashlib.sha256(file.get_tensor(key).numpy().tobytes()).hexdigest())
        content = "\n".join(parts).encode()
    elif path.name == "metrics.jsonl":
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        content = json.dumps([{key: row[key] for key in row if key != "seconds"} for row in rows]).encode()
    elif path.name == "run.json":
        facts = json.loads(path.read_text("utf-8"))
        content = json.dumps({key: facts[key] for key in facts if key != "created"}).encode()
    else:
        content = path.read_bytes()
    return hashlib.sha256(content).hexdigest()


@dataclass
class Campaign:
    """All happens in one folder, because a run's files name the corpus's place."""

    root: Path
    dice: random.Random
    folder: Path

    @property
    def log(self) -> str:
        """What the last command said."""
        return self._log.read_text("utf-8", "replace")

    @property
    def _log(self) -> Path:
        return self.root / "log.txt"

    def begin(self) -> None:
        """The files that everything starts from."""
        self.folder.mkdir()
        write_splits(self.folder, toy_records(300, 1))
        config = toy_config(self.folder, epochs=3)
        (self.folder / "toy.yaml").write_text(json.dumps(config.to_dict()), "utf-8")

    def run(self, stage: Stage) -> int:
        if stage.settled(self.folder):
            return 0
        return finish(self.start(stage))

    def start(self, stage: Stage) -> int:
        return start(stage, self.folder, self._log)

    def reset(self, base: Path) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(base, self.folder)

    def prepare(self, stage: Stage) -> tuple[Path, float, dict[str, str]]:
        """A copy of all that comes before the stage; then the stage's seconds and files, if nobody disturbs it.

        It runs twice: the first time takes longer, because files and compiled code are read from the disk.
        """
        base = self.root / "base"
        shutil.rmtree(base, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.begin()
        for earlier in stage.before:
            assert self.run(STAGES[earlier]) == 0, self.log
        shutil.copytree(self.folder, base)
        assert self.run(stage) == 0, self.log
        expected = snapshot(self.folder)
        self.reset(base)
        started = time.monotonic()
        assert self.run(stage) == 0, self.log
        seconds = time.monotonic() - started
        assert snapshot(self.folder) == expected, "two undisturbed runs differ"
        return base, seconds, expected

    def test(self, name: str, kills: int) -> dict[str, Any]:
        stage = STAGES[name]
        base, seconds, expected = self.prepare(stage)
        survived, in_time, failures = 0, 0, []
        while in_time < kills:
            self.reset(base)
            number = self.start(stage)
            instant = self.dice.uniform(0, seconds)
            time.sleep(instant)
            too_late = os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            kill(number)
            if too_late:
                continue
            in_time += 1
            status = self.run(stage)
            found = snapshot(self.folder)
            if status == 0 and found == expected:
                survived += 1
            else:
                differing = sorted(key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key))
                failure = {"instant": round(instant, 3), "status": status, "differing": differing}
                failures.append(failure | {"log": self.log[-500:]})
        return {"kills": kills, "survived": survived, "failures": failures}


def run_campaign(stages: list[str], kills: int, out: Path | None = None) -> bool:
    """Whether all kills were survived."""
    torch.set_num_threads(1)
    runs = json.loads(out.read_text("utf-8")) if out is not None and out.exists() else []
    unharmed = True
    with tempfile.TemporaryDirectory() as made:
        root = Path(made).resolve()
        for name in stages:
            seed = 1 + sum(run["stage"] == name for run in runs)
            found = Campaign(root, random.Random(f"{seed} {name}"), root / "work").test(name, kills)
            unharmed &= found["survived"] == kills
            print(f"{name}: {found['survived']} of {kills} kills survived", flush=True)
            runs.append({"stage": name, "seed": seed} | found)
            if out is not None:
                out.write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
    return unharmed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="kills of each stage")
    parser.add_argument("--stages", default=",".join(STAGES), help=f"comma-separated; all: {', '.join(STAGES)}")
    parser.add_argument("--out", type=Path, help="add the results to this file")
    options = parser.parse_args()
    sys.exit(not run_campaign(options.stages.split(","), options.kills, options.out))
