"""Feed mutated files to the readers, as many a second as they take, and count what goes wrong.

    python tests/campaign/fuzz.py --target records --seconds 300

The targets are `records` (JSONL, TSV, CSV), the readers of published data sets (`gigaword`, `nyt`, `wikibio`, `e2e`,
`webnlg`, whose files are in `seeds/`), `config` (YAML and overrides), `run` (a run folder's files), `index` (an index,
signed as its maker could, then searched) and `bundle` (a run in one file, signed or not). Each execution takes a file
of a small project, changes some of it, and opens it in this process. Only `InputError` may come out. The summary is
JSON: executions, executions a second, other exceptions with a case that shows each, hangs (over `--limit` seconds),
and growth of memory. If a kernel crashes, the parent process says with which case: a target runs in a child, and each
case follows from its number and the seed. With `--out FILE` each run adds to those before it, under the next seed.
"""

import argparse
import hashlib
import json
import logging
import mmap
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

from exadec.bank import FILE as BANK
from exadec.bundle.packed import RECORDS, open_bundle
from exadec.config import Config
from exadec.corpus.readers import FORMATS
from exadec.corpus.readers.e2e import read_e2e
from exadec.corpus.readers.gigaword import read_gigaword
from exadec.corpus.readers.nyt import read_nyt
from exadec.corpus.readers.published import PublishedFormat
from exadec.corpus.readers.webnlg import read_webnlg
from exadec.corpus.readers.wikibio import read_wikibio
from exadec.corpus.record import Reading, Record, read_records
from exadec.corpus.stage import hash_value
from exadec.errors import InputError
from exadec.exemplars.index import BowIndex
from exadec.experiment.plan import describe_settings
from exadec.training.checkpoint import BEST, open_run
from exadec.training.evaluation import read_outputs
from support.damage import make_project, read_members, sign, write_members
from support.forked import fork

Target = Callable[[random.Random], None]
TOKENS = (
    b"", b"\0", b"\xff", b'"', b"\\", b"\n", b"\t", b",", b"[", b"]", b"{", b"}", b":", b"-1", b"1e999", b"NaN",
    b"null", b"true", rb"\ud800", b"9" * 20, b"9" * 5000, b"&a ", b"*a ", b"<<: ", b"!!python/object ", b"? ",
    b"- ", b"|\n", b"[" * 40, b"\xef\xbb\xbf", b"../", b"0x", b".inf", b"2024-13-01", b"\xe2\x80\xa8",
    b"<", b">", b"/>", b"&", b"&x;", b"&#0;", b"&#x110000;", b"<![CDATA[", b"<!--", b"<a>" * 40, b"<!ENTITY a 'b'>",
)  # fmt: skip


class HungError(BaseException):
    """A case took too long. No reader may catch it."""


def mutate(content: bytes, draw: random.Random) -> bytes:
    """Change, insert, remove, repeat or cut some bytes."""
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        place = draw.randrange(len(changed) + 1)
        span = draw.randrange(1, 9)
        kind = draw.randrange(7)
        if kind == 0:
            changed[place : place + 1] = bytes([draw.randrange(256)])
        elif kind == 1 and place < len(changed):
            changed[place] ^= 1 << draw.randrange(8)
        elif kind == 2:
            changed[place:place] = draw.choice(TOKENS)
        elif kind == 3:
            changed[place : place + span] = draw.choice(TOKENS)
        elif kind == 4:
            del changed[place : place + span]
        elif kind == 5:
            other = draw.randrange(len(changed) + 1)
            changed[place:place] = changed[other : other + 4 * span]
        else:
            changed[place : place + span] = draw.randbytes(span)
        if draw.random() < 0.02:
            del changed[draw.randrange(len(changed) + 1) :]
    return bytes(changed)


def fuzz_records(folder: Path) -> Target:
    row = b'{"uid": "a", "source": "b c", "target": "d", "group": "e", "references": ["f"]}\n'
    table = b'{"table": [["name", "The Oak"], ["food", 5]], "target": "x\\ud83d\\ude00"}\n'
    columns = b"source,target,group\na b,c,d\n", b"source\ttarget\ttable\na\tc\t[[1, 2]]\n"
    seeds = [(row * 2, ".jsonl"), (table, ".jsonl"), (columns[0], ".csv"), (columns[1], ".tsv")]

    def one(draw: random.Random) -> None:
        content, ending = draw.choice(seeds)
        path = folder / f"case{ending}"
        path.write_bytes(mutate(content, draw))
        for record in read_records(path, Reading(require_target=draw.random() < 0.5, skip_empty=draw.random() < 0.5)):
            record.source.encode()

    return one


SEEDS = Path(__file__).parent / "seeds"
"""A few small files in the layout of each publisher, and what earlier campaigns found, if anything."""
PUBLISHED = {
    "gigaword": (read_gigaword, ("train",)),
    "nyt": (partial(read_nyt, development=0), ("train", "test")),
    "wikibio": (read_wikibio, ("train", "valid")),
    "e2e": (read_e2e, ("train", "valid")),
    "webnlg": (read_webnlg, ("train", "valid")),
}
"""The reader of each published data set, and the splits that its seeds have"""


def read_published(name: str, folder: Path, split: str) -> None:
    reader: Callable[[Path, str], Iterator[Record]] = PUBLISHED[name][0]
    for record in reader(folder, split):
        record.source.encode()
        record.target.encode()


def fuzz_published(name: str, folder: Path) -> Target:
    home = folder / name
    shutil.copytree(SEEDS / name, home)
    format = FORMATS[name]
    assert isinstance(format, PublishedFormat)
    files = [(path, split) for split in PUBLISHED[name][1] for path in format.files(home, split)]
    whole = {path: path.read_bytes() for path, _ in files}

    def one(draw: random.Random) -> None:
        path, split = draw.choice(files)
        path.write_bytes(mutate(whole[path], draw))
        try:
            read_published(name, home, split)
        finally:
            path.write_bytes(whole[path])

    return one


def fuzz_config(folder: Path) -> Target:
    seeds = [
        b"folder: x\npreset: exadec\nmodel:\n  hidden: 8\n  rank: 4\ntraining: {seed: 1, learning_rate: 1e-3}\n",
        b"folder: &a x\ncorpus: {train: *a, valid: b, format: records}\nsearch:\n  length_penalty: 0.5\n",
    ]
    overrides = [b"search.beam_size=3", b"folder=2024-12-01", b"preset=released", b"training.seed=5"]

    def one(draw: random.Random) -> None:
        path = folder / "case.yaml"
        if draw.random() < 0.7:
            path.write_bytes(mutate(draw.choice(seeds), draw))
            Config.load(path)
        else:
            path.write_bytes(b"folder: x\n")
            Config.load(path, [os.fsdecode(mutate(draw.choice(overrides), draw))])

    return one


def brief_settings(config: Config) -> bytes:
    """Without the defaults, which take most of the time to parse."""
    described = {"folder": "work", **{key: {} for key in ("corpus", "model", "training", "search")}}
    for name, value in describe_settings(config).items():
        section, _, key = name.partition(".")
        described[section][key] = value
    return yaml.safe_dump(described).encode()


def fuzz_run(folder: Path) -> Target:
    run = folder / "project" / "work" / "run"
    (run / "config.yaml").write_bytes(brief_settings(open_run(run).config))
    whole = {path.name: path.read_bytes() for path in run.iterdir()}
    # The smaller files are as interesting as the larger ones, and faster.
    names = [name for name in whole if name != "last.safetensors"]

    def one(draw: random.Random) -> None:
        name = draw.choice(names)
        content = whole[name]
        start = draw.choice((0, 0, max(0, len(content) - 2000)))
        (run / name).write_bytes(
            content[:start] + mutate(content[start : start + 2000], draw) + content[start + 2000 :]
        )
        try:
            opened = open_run(run)
            if name == BEST:
                opened.load_model()
            elif name == "metrics.jsonl":
                opened.metrics()
            elif name.endswith("outputs.jsonl"):
                read_outputs(run / name)
            opened.segmenter.segment("house1 n3 ü")
        finally:
            (run / name).write_bytes(content)

    return one


def fuzz_index(folder: Path) -> Target:
    home = folder / "index"
    index = BowIndex.build([f"a b w{number} w{number % 3}" for number in range(20)], "tfidf")
    index.save(home)
    index.add([f"a new{number} words words" for number in range(4)])
    index.delete([3])
    index.search("a b")  # compiles the kernel, which takes longer than any case may
    whole = {path.name: path.read_bytes() for path in home.iterdir() if path.name != ".lock"}

    def one(draw: random.Random) -> None:
        name = draw.choice(sorted(whole))
        (home / name).write_bytes(mutate(whole[name], draw))
        sign(home / name)
        try:
            opened = BowIndex.open(home)
            opened.search_many(["a b w1 words", "new1 w2 unknown"], 3)
            opened.search("a new1 w1")
        finally:
            for path, content in whole.items():  # what a manifest does not list is swept when an index is opened
                if path in (name, "manifest.json") or not (home / path).exists():
                    (home / path).write_bytes(content)

    return one


FOR_RETRIEVAL = (*RECORDS, "config.yaml", "run.json", "manifest.json")


def fuzz_bundle(folder: Path) -> Target:
    """Either any byte of the file changes, or a member does and is signed as its maker could."""
    path = folder / "project" / "bundle" / "run.exadec"
    members = read_members(path)
    members["config.yaml"] = brief_settings(open_bundle(path).config)
    write_members(path, members)
    whole = path.read_bytes()
    # What describes the file lies at its end, and before each member.
    places = [0, whole.rindex(b"{", 0, whole.rindex(b"PK\1\2")), whole.index(b"PK\1\2"), len(whole) - 60]
    places += [found.start() for found in re.finditer(b"PK\3\4", whole)]
    names = [name for name in members if name != "README.md"]
    # Compile the kernel for both types of sums first: that takes longer than any case may.
    for source in ("n1", "n1 " * 40_000):
        open_bundle(path).open_retriever().find([source])

    def one(draw: random.Random) -> None:
        if draw.random() < 0.4:
            start = draw.choice([*places, draw.randrange(len(whole))])
            path.write_bytes(whole[:start] + mutate(whole[start : start + 200], draw) + whole[start + 200 :])
            read(path, draw.choice(names))
            return
        name = draw.choice(names)
        content = members[name]
        start = draw.choice((0, 0, max(0, len(content) - 2000)))
        changed = content[:start] + mutate(content[start : start + 2000], draw) + content[start + 2000 :]
        changing = {**members, name: changed}
        if name.startswith("index/") and name != "index/manifest.json":
            manifest = json.loads(members["index/manifest.json"])
            facts = {"bytes": len(changed), "sha256": hashlib.sha256(changed).hexdigest()}
            manifest["files"][name.removeprefix("index/")] = facts
            manifest["key"] = hash_value({key: value for key, value in manifest.items() if key != "key"})
            changing["index/manifest.json"] = json.dumps(manifest).encode()
        try:
            write_members(path, changing)
        except (ValueError, TypeError, RecursionError):  # a manifest that is no JSON cannot be signed
            return
        read(path, name)

    def read(path: Path, name: str) -> None:
        """Open the bundle, and read what a member is for."""
        run = open_bundle(path)
        if name in ("weights.safetensors", "config.yaml", BANK):
            run.open_bank(run.load_model(device="cpu"))
        if name in ("vocabulary.json", "bpe.json", "config.yaml"):
            run.segmenter.segment("house1 n3 ü")
        if name not in FOR_RETRIEVAL and not name.startswith("index/"):
            return
        retriever = run.open_retriever()
        for group in (None, "g1"):
            for found in retriever.find(["house1 house1 n3 k5", "n7 unheard"], group):
                if found.number is not None:
                    retriever.corpus.text(retriever.corpus.targets("train")[found.number]).encode()

    return one


TARGETS = {
    "records": fuzz_records,
    **{name: partial(fuzz_published, name) for name in PUBLISHED},
    "config": fuzz_config,
    "run": fuzz_run,
    "index": fuzz_index,
    "bundle": fuzz_bundle,
}


def campaign(name: str, folder: Path, seed: int, cases: int, seconds: float, limit: float, place: mmap.mmap) -> dict:
    """Run one target, and count."""

    def on_alarm(number: int, frame: object) -> None:
        raise HungError

    def attempt(case: int) -> None:
        signal.setitimer(signal.ITIMER_REAL, limit)
        try:
            one(random.Random(f"{seed}/{case}"))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    signal.signal(signal.SIGALRM, on_alarm)
    logging.disable()  # what readers skip
    one = TARGETS[name](folder)
    problems: dict[str, str] = {}
    hangs: list[int] = []
    refused = executions = 0
    memory = None
    started = time.monotonic()
    while executions < cases and time.monotonic() - started < seconds:
        place[:8] = executions.to_bytes(8, "little")
        try:
            try:
                attempt(executions)
            except HungError:  # once more: the process may have been stopped
                attempt(executions)
        except InputError as error:
            refused += 1
            if "\n" in str(error):
                problems.setdefault("a message of several lines", f"case {executions}: {error!r}")
        except HungError:
            hangs.append(executions)
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            key = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}"
            problems.setdefault(key, f"case {executions}: {error!r}"[:300])
        executions += 1
        if executions == 1000:
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    took = time.monotonic() - started
    growth = 0 if memory is None else (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) >> 10
    return {
        "target": name,
        "seed": seed,
        "executions": executions,
        "a_second": round(executions / took, 1),
        "refused": refused,
        "problems": problems,
        "hangs": hangs[:10],
        "memory_growth_mib": growth,
    }


def fuzz(name: str, seed: int = 1, cases: int = 1 << 60, seconds: float = 60, limit: float = 5) -> dict:
    """Run one target in a child, so that a crash of the process is a result, too."""
    home = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=home) as folder, mmap.mmap(-1, 8) as place:
        if name in ("run", "bundle"):
            make_project(Path(folder) / "project")
            shutil.rmtree(Path(folder) / "project" / "work" / "corpus")
        reading, writing = os.pipe()
        child = fork()
        if child == 0:
            try:
                found = campaign(name, Path(folder), seed, cases, seconds, limit, place)
                os.write(writing, json.dumps(found).encode())
            except BaseException:
                traceback.print_exc()
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            answer = pipe.read()
        _, status = os.waitpid(child, 0)
        if not answer:
            case = int.from_bytes(place[:8], "little")
            crash = f"case {case} ended the process: {os.waitstatus_to_exitcode(status)}"
            counts = {"executions": case, "a_second": 0.0, "refused": 0, "hangs": [], "memory_growth_mib": 0}
            return {"target": name, "seed": seed, "problems": {"crash": crash}, **counts}
        found = json.loads(answer)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", choices=[*TARGETS, "all"], default="all")
    parser.add_argument("--cases", type=int, default=1 << 60, help="stop each target after so many executions")
    parser.add_argument("--seconds", type=float, default=60, help="stop each target after so long")
    parser.add_argument("--limit", type=float, default=5, help="seconds after which a case hangs")
    parser.add_argument("--out", type=Path, help="add the results to this file")
    parser.add_argument("--seed", type=int, help="default: one more than the target's last seed in the file, or 1")
    options = parser.parse_args()
    earlier = json.loads(options.out.read_text("utf-8")) if options.out and options.out.exists() else []
    found = []
    for name in TARGETS if options.target == "all" else [options.target]:
        last = max((one["seed"] for one in earlier if one["target"] == name), default=0)
        seed = last + 1 if options.seed is None else options.seed
        found.append(fuzz(name, seed, options.cases, options.seconds, options.limit))
        print(json.dumps(found[-1], indent=1), flush=True)
        if options.out:
            options.out.write_text(json.dumps(earlier + found, indent=1) + "\n", "utf-8")
    sys.exit(1 if any(one["problems"] or one["hangs"] for one in found) else 0)


if __name__ == "__main__":
    main()
