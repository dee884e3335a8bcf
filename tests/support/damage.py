"""A small project on disk, ways to damage each of its files, and the commands that read them."""

import hashlib
import importlib
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import numpy as np

from exadec.bundle.packed import ENDING
from exadec.bundle.packing import BundleFile, export
from exadec.config import Config
from exadec.corpus.prepare import Corpus
from exadec.corpus.stage import MANIFEST, hash_value
from exadec.exemplars.retrieve import open_index
from exadec.experiment.plan import list_trials, load_plan
from exadec.experiment.results import write_result
from exadec.training.evaluation import evaluate
from exadec.training.trainer import train
from support.forked import Outcome, run_forked
from support.plans import made_up_result, write_plan
from support.toys import toy_records, write_splits

SOURCE = b"house1 house1 n3 k5\n"
COMMANDS = {
    "prepare": ["prepare", "toy.yaml"],
    "retrieve": ["retrieve", "toy.yaml", "--device", "cpu"],
    "inspect": ["inspect", "toy.yaml"],
    "generate": ["generate", "work/run"],
    "split": ["generate", "work/run", "--split", "test"],
    "swap": ["swap", "work/run", "--source", "house1 n3 k5", "--exemplar", "up n1 k1"],
    "report": ["report", "work/run"],
    "score": ["score", "work/run/test.outputs.jsonl", "--references", "work/run/test.outputs.jsonl"],
    "resume": ["train", "toy.yaml", "--run", "work/run", "--resume"],
    "experiment": ["experiment", "plan.yaml", "--dry-run"],
    "bundle": ["generate", "bundle/run.exadec"],
    "bundle swap": ["swap", "bundle/run.exadec", "--source", "house1 n3 k5", "--exemplar", "up n1 k1"],
}
READ_BY = {
    "": ("prepare", "retrieve", "experiment"),
    "bundle": ("bundle", "bundle swap"),
    "results": ("experiment",),
    "work/corpus": ("prepare", "retrieve", "inspect", "generate", "split", "swap", "report", "resume"),
    "work/exemplars": ("retrieve", "inspect", "split", "report", "resume"),
    "work/index-words-raw": ("generate", "swap", "report"),
    "work/run": ("generate", "split", "swap", "report", "score", "resume"),
    "work/terms-words-source": ("retrieve", "generate"),
}
"""Which commands read a folder's files"""
EDITABLE = ("train.jsonl", "valid.jsonl", "test.jsonl", "toy.yaml", "plan.yaml", "config.yaml", "run.json")
"""Files of the user, or without a hash: another content may be as right"""


def make_project(folder: Path) -> None:
    """Data, a corpus, exemplars, an index, a run with outputs, and results of an experiment."""
    folder.mkdir(parents=True)
    records = [{**record, "group": f"g{i % 3}"} for i, record in enumerate(toy_records(40, seed=0))]
    write_splits(folder, records)
    values = {
        "folder": "work",
        "corpus": {split: f"{split}.jsonl" for split in ("train", "valid", "test")}
        | {"vocabulary_size": 300, "group_in_source": True},
        "model": {"hidden": 8, "embedding": 8, "encoder_layers": 1, "exemplar_hidden": 4},
        "training": {"batch_size": 8, "epochs": 1, "evaluation_size": 4},
        "search": {"beam_size": 2, "max_length": 8},
    }
    (folder / "toy.yaml").write_text(json.dumps(values), "utf-8")
    before = Path.cwd()
    os.chdir(folder)
    try:
        run = train(Config.load("toy.yaml", variant="adadec"), "work/run")
        evaluate(run.folder)
        export(run.folder, "bundle/run.exadec", with_exemplars=True, with_bank=True)
        open_index(Corpus(Path("work/corpus"))).search("n1 k1")  # loads the kernels, for all forked commands
        write_plan(Path(), corpora={"toy": {"config": "toy.yaml"}}, folder="trials", results="results")
        for trial in list_trials(load_plan(Path("plan.yaml"))):
            write_result(Path("results"), trial.file_name, made_up_result(trial, [10.0, 20.0]))
    finally:
        os.chdir(before)


def list_files(project: Path) -> list[Path]:
    """The files of the folders that commands read, relative to the project."""
    return sorted(
        path.relative_to(project) for name in READ_BY for path in (project / name).iterdir() if path.is_file()
    )


def commands_for(path: Path) -> tuple[str, ...]:
    return READ_BY["" if path.parent == Path() else str(path.parent)]


class Workshop:
    """A project that is made anew before each case."""

    def __init__(self, folder: Path):
        self.whole, self.project = folder / "whole", folder / "project"
        make_project(self.project)
        shutil.copytree(self.project, self.whole)
        importlib.import_module("exadec.views.report")  # takes seconds, which each command would need
        importlib.import_module("exadec.views.inspection_tables")
        self.expected = {name: self.run(name) for name in COMMANDS}

    def renew(self) -> None:
        shutil.rmtree(self.project)
        shutil.copytree(self.whole, self.project)

    def run(self, command: str) -> Outcome:
        return run_forked(COMMANDS[command], self.project, SOURCE)

    def try_case(
        self, path: Path, damage: "Damage", random: random.Random, signed: bool, command: str
    ) -> tuple[int, str]:
        """The exit status, and what is wrong with how a command takes a damaged file; empty for nothing."""
        self.renew()
        if signed and path.suffix == ENDING:
            damage_member(self.project / path, damage, random)
        else:
            damage(self.project / path, random)
        if signed:
            sign(self.project / path)
        if path.parent.name.startswith("terms"):  # they are read only to make these
            shutil.rmtree(self.project / "work/exemplars")
            shutil.rmtree(self.project / "work/index-words-raw")
        outcome = self.run(command)
        return outcome.status, self._judge(path, damage, signed, command, outcome)

    def _judge(self, path: Path, damage: "Damage", signed: bool, command: str, outcome: Outcome) -> str:
        told = outcome.errors.strip().splitlines()
        where = f"{command} after {damage.__name__} of {path}{' (signed)' if signed else ''}"
        if not outcome.is_clean:
            return f"{where}: status {outcome.status}: {' / '.join(told[-3:])}"
        if outcome.peak > 4096:
            return f"{where}: took {outcome.peak} MiB"
        names = [path.name] if path.parent == Path() else [path.name, str(path.parent)]
        names += ["`"] if path.suffix == ".yaml" else []  # of settings, the key is named
        if damage is swapped:  # the other file is as wrong
            names += [other.name for other in (self.whole / path).parent.iterdir()]
        if outcome.status == 2 and not any(name in told[-1] for name in names):
            return f"{where}: does not name the file: {told[-1]}"
        is_editable = path.name in EDITABLE or path.suffix == ".jsonl" or path.parent.name == "results"
        is_told = path.name in outcome.out + outcome.errors or str(path.parent) in outcome.errors
        is_told |= "not retrieved yet" in outcome.out  # without a manifest there are no exemplars
        is_same = outcome.out == self.expected[command].out
        if outcome.status == 0 and not (signed or is_editable or is_told or is_same):
            return f"{where}: other results, without a word"
        return ""


def sign(path: Path) -> None:
    """Make the manifest say that this is how the file has to be, as whoever makes a folder can."""
    manifest_path = path.parent / MANIFEST
    if not manifest_path.is_file() or not path.is_file():
        return
    try:
        manifest = json.loads(manifest_path.read_bytes())
        if path.name in manifest["files"]:
            content = path.read_bytes()
            facts = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            manifest["files"][path.name] = facts
        if "format" in manifest:
            manifest["key"] = hash_value({name: value for name, value in manifest.items() if name != "key"})
    except (ValueError, TypeError, KeyError, RecursionError):
        return
    manifest_path.write_text(json.dumps(manifest), "utf-8")


def read_members(path: Path) -> dict[str, bytes]:
    """What is inside a bundle, its manifest last."""
    with ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def write_members(path: Path, members: dict[str, bytes]) -> None:
    """A bundle with these members, signed as its maker could."""
    facts = json.loads(members[MANIFEST])
    with path.open("wb") as file, BundleFile(file) as bundle:
        for name, content in members.items():
            if name != MANIFEST:
                with bundle.member(name) as member:
                    member.write(content)
        with bundle.member(MANIFEST) as member:
            member.write(json.dumps({**facts, "files": bundle.files}).encode())


def damage_member(path: Path, damage: "Damage", random: random.Random) -> None:
    """Damage one member of a bundle, and sign the rest."""
    with tempfile.TemporaryDirectory() as folder:
        members = read_members(path)
        for name, content in members.items():
            place = Path(folder) / name
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(content)
        name = random.choice([name for name in members if name != MANIFEST])
        damage(Path(folder) / name, random)
        if Path(name).parent != Path():
            sign(Path(folder) / name)
        found = {name: (Path(folder) / name).read_bytes() for name in members}
    write_members(path, found)


Damage = Callable[[Path, random.Random], None]


def nothing_left(path: Path, random: random.Random) -> None:
    path.write_bytes(b"")


def cut(path: Path, random: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: random.randrange(len(content) + 1)])


def half_a_line_more(path: Path, random: random.Random) -> None:
    with path.open("ab") as file:
        file.write(b'{"kind": "lo\xc3')


def flip(path: Path, random: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(random.randrange(1, 4)):
        if content:
            content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    path.write_bytes(content)


def garbage(path: Path, random: random.Random) -> None:
    """Of the same size."""
    path.write_bytes(random.randbytes(path.stat().st_size))


def garbage_inside(path: Path, random: random.Random) -> None:
    """Of the same size, after the header."""
    content = path.read_bytes()
    start = min(128, len(content))
    path.write_bytes(content[:start] + random.randbytes(len(content) - start))


def swapped(path: Path, random: random.Random) -> None:
    """With another file of the folder."""
    other = random.choice([other for other in sorted(path.parent.iterdir()) if other.is_file()])
    mine, theirs = path.read_bytes(), other.read_bytes()
    path.write_bytes(theirs)
    other.write_bytes(mine)


def missing(path: Path, random: random.Random) -> None:
    path.unlink()


def link(path: Path, random: random.Random) -> None:
    elsewhere = path.parent.parent / f"elsewhere-{path.name}"
    shutil.move(path, elsewhere)
    path.symlink_to(elsewhere)


def link_to_nowhere(path: Path, random: random.Random) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def folder_instead(path: Path, random: random.Random) -> None:
    path.unlink()
    path.mkdir()


def pipe_instead(path: Path, random: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def deep(path: Path, random: random.Random) -> None:
    path.write_bytes(b'{"a":' * 50_000)


def deep_and_whole(path: Path, random: random.Random) -> None:
    path.write_bytes(b"[" * 600 + b"]" * 600)


def aliases(path: Path, random: random.Random) -> None:
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    path.write_text("\n".join(["a0: &a0 [x]", *levels, "model: *a9"]), "utf-8")


def half_a_character(path: Path, random: random.Random) -> None:
    path.write_bytes(path.read_bytes().replace(b"n3", rb"\ud83d").replace(b"corpus", rb"c\ud800", 1))


def many_digits(path: Path, random: random.Random) -> None:
    path.write_bytes(path.read_bytes().replace(b"1", b"1" * 5000, 2))


def huge_header(path: Path, random: random.Random) -> None:
    """An array that would have 2 ** 60 numbers, or a checkpoint whose header would fill the memory."""
    content = path.read_bytes()
    if content.startswith(b"\x93NUMPY"):
        header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (1152921504606846976,), }"
        path.write_bytes(content[:8] + b"\x76\x00" + header.ljust(117) + b"\n" + content[128:])
    else:
        path.write_bytes((1 << 60).to_bytes(8, "little") + content[8:])


def other_type(path: Path, random: random.Random) -> None:
    """Numbers of another type, or a JSON value of another type somewhere inside."""
    if path.suffix == ".npy":
        np.save(path, np.load(path).astype(random.choice([np.float64, np.int16, np.int64, np.uint8])))
    elif path.suffix == ".json":
        value = json.loads(path.read_bytes())
        path.write_text(json.dumps(_changed(value, random)), "utf-8")
    else:
        flip(path, random)


def _changed(value: object, random: random.Random) -> object:
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(sorted(value))
        return {**value, key: _changed(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.9:
        place = random.randrange(len(value))
        return [*value[:place], _changed(value[place], random), *value[place + 1 :]]
    return random.choice([None, True, -1, 0, 1 << 70, 0.5, float("nan"), "", "x", "../../x", [], {}, ["a"], {"a": 1}])


def odd_numbers(path: Path, random: random.Random) -> None:
    """Negative, huge and repeated numbers: offsets that lead nowhere, ids that nothing has."""
    if path.suffix != ".npy":
        other_type(path, random)
        return
    array = np.load(path)
    if array.size:
        flat = array.reshape(-1)
        for _ in range(random.randrange(1, 4)):
            extremes = [-1, 0, 1e30, np.nan] if array.dtype.kind == "f" else _extremes(array.dtype)
            flat[random.randrange(flat.size)] = random.choice([*extremes, flat[0]])
    np.save(path, array)


def _extremes(dtype: np.dtype) -> list[int]:
    if dtype.kind == "b":
        return [0, 1]
    limits = np.iinfo(dtype)
    return [limits.min, limits.max, limits.max // 2, 0, 1, limits.max - 1]


def fewer_numbers(path: Path, random: random.Random) -> None:
    if path.suffix != ".npy":
        cut(path, random)
        return
    array = np.load(path)
    np.save(path, array[: random.randrange(len(array) + 1)] if array.ndim else array)


ALL: tuple[Damage, ...] = (
    nothing_left, cut, half_a_line_more, flip, garbage, garbage_inside, swapped, missing, link, link_to_nowhere,
    folder_instead, pipe_instead, deep, deep_and_whole, aliases, half_a_character, many_digits, huge_header, other_type,
    odd_numbers, fewer_numbers,
)  # fmt: skip
SIGNED: tuple[Damage, ...] = (
    cut, flip, garbage, garbage_inside, deep_and_whole, half_a_character, huge_header, other_type, odd_numbers,
    fewer_numbers, swapped,
)  # fmt: skip
"""Damage that a stranger would sign"""
