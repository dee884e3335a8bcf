"""The index against brute force, and against crashes, damage, and other processes."""

import hashlib
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import exadec.exemplars.index as index_module
from exadec.corpus.stage import MANIFEST, hash_value
from exadec.errors import InputError
from exadec.exemplars.bow import BagOfWords, Weighting, terms
from exadec.exemplars.index import BowIndex, Hit
from exadec.exemplars.index_files import FORMAT, LOCK
from support.damage import sign

sentences = st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f"]), max_size=6).map(" ".join)


class Model:
    """Live texts by id, and the weights of words; everything is computed anew for each search."""

    def __init__(self, weighting: Weighting, texts: list[str]):
        self.weighting = weighting
        self.texts = dict(enumerate(texts))
        self.next_id = len(texts)
        self.weigh()

    def weigh(self) -> None:
        frequencies = Counter(word for text in self.texts.values() for word in set(terms(text)))
        self.weights = {word: self.weight(frequency) for word, frequency in frequencies.items()}
        self.unseen = self.weight(0)

    def weight(self, frequency: int) -> int:
        inverse = math.log((1 + len(self.texts)) / (1 + frequency)) + 1
        return round(64 * inverse) if self.weighting == "tfidf" else 1

    def vector(self, text: str) -> dict[str, int]:
        counts = Counter(terms(text))
        times = dict.fromkeys(counts, 1) if self.weighting == "binary" else counts
        return {word: times[word] * self.weights.get(word, self.unseen) for word in times}

    def search(self, text: str, k: int) -> list[Hit]:
        """dot² / ‖candidate‖² in rational numbers, rounded once; the lowest id wins ties."""
        query, found = self.vector(text), []
        for number, candidate in self.texts.items():
            vector = self.vector(candidate)
            dot = sum(query[word] * vector.get(word, 0) for word in query)
            if dot:
                score = Fraction(dot**2, sum(value**2 for value in vector.values()))
                found.append((-float(score), number, score / sum(value**2 for value in query.values())))
        return [Hit(number, float(cosine) ** 0.5) for _, number, cosine in sorted(found)[:k]]


def assert_same(found: list[Hit], expected: list[Hit]) -> None:
    assert [hit.id for hit in found] == [hit.id for hit in expected]
    assert [hit.similarity for hit in found] == pytest.approx([hit.similarity for hit in expected], abs=1e-6)


class IndexMachine(RuleBasedStateMachine):
    """Any sequence of changes, in memory and in a folder."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp())
        self.saves = 0

    def teardown(self) -> None:
        shutil.rmtree(self.place)

    @initialize(
        weighting=st.sampled_from(["raw", "binary", "tfidf"]), texts=st.lists(sentences, min_size=1, max_size=20)
    )
    def build(self, weighting: Weighting, texts: list[str]) -> None:
        self.index = BowIndex.build(texts, weighting, corpus="c")
        self.model = Model(weighting, texts)

    @rule(texts=st.lists(sentences, max_size=4))
    def add(self, texts: list[str]) -> None:
        ids = list(range(self.model.next_id, self.model.next_id + len(texts)))
        assert self.index.add(iter(texts)).tolist() == ids
        self.model.texts |= dict(zip(ids, texts, strict=True))
        self.model.next_id += len(texts)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.integers(0, self.model.next_id - 1), max_size=3))
        self.index.delete(ids)
        for number in ids:
            self.model.texts.pop(number, None)

    @rule()
    def compact(self) -> None:
        self.index.compact()
        self.model.weigh()
        assert self.index.segments == 1

    @rule(again=st.booleans())
    def save(self, again: bool) -> None:
        """Somewhere else, or over an older index."""
        self.saves += not again
        self.index.save(self.place / str(self.saves))

    @rule()
    def reopen(self) -> None:
        if self.index.folder is not None:
            self.index = BowIndex.open(self.index.folder, "c")
            self.index.verify()

    @rule(texts=st.lists(sentences.map("z ".__add__) | sentences, max_size=4), k=st.integers(1, 4))
    def search(self, texts: list[str], k: int) -> None:
        ids, similarities = self.index.search_many(texts, k)
        assert ids.shape == similarities.shape == (len(texts), k)
        assert (ids.dtype, similarities.dtype) == (np.int64, np.float32)
        for text, *found in zip(texts, ids.tolist(), similarities.tolist(), strict=True):
            expected = self.model.search(text, k)
            assert_same([Hit(*hit) for hit in zip(*found, strict=True) if hit[0] >= 0], expected)
            assert_same(self.index.search(text, k), expected)

    @invariant()
    def holds_what_was_not_deleted(self) -> None:
        assert len(self.index) == len(self.model.texts)
        assert np.flatnonzero(self.index.alive).tolist() == sorted(self.model.texts)
        found = {hit.id for hit in self.index.search("a b c d e f", 1000)}
        assert found == {number for number, text in self.model.texts.items() if text}


def test_any_sequence_of_changes_equals_brute_force() -> None:
    effort = settings(max_examples=50, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(IndexMachine, settings=effort)


def built(folder: Path, texts: list[str] | None = None) -> BowIndex:
    index = BowIndex.build(texts or ["a b", "b c", "c d"], corpus="news")
    index.save(folder)
    return index


def ids_of(index: BowIndex, text: str = "a b c d e") -> list[int]:
    return sorted(hit.id for hit in index.search(text, 1000))


def test_search_finds_the_most_similar_text() -> None:
    index = BowIndex.build(["x y", "a b", "b a", "a a b b"])
    assert index.search("A, b!") == [Hit(1, 1.0)]
    assert index.search("unknown words") == index.search("") == []
    assert (index.weighting, index.corpus, index.folder, len(index), index.segments) == ("raw", "", None, 4, 1)
    index.verify()
    bag = BagOfWords("tfidf")
    counted = BowIndex.from_rows(bag, bag.fit(["a b", "b c"]), "news")
    assert counted.search("b a", 2) == BowIndex.build(["a b", "b c"], "tfidf").search("b a", 2)
    with pytest.raises(ValueError, match="`k` must be at least 1, but is 0"):
        index.search("a", 0)
    with pytest.raises(InputError, match="nothing to index"):
        BowIndex.build([])


def test_an_empty_index_and_texts_without_words_find_nothing(tmp_path: Path) -> None:
    index = built(tmp_path / "i", ["", "a"])
    index.delete([0, 1])
    for _ in range(2):
        index.compact()
        assert (len(index), index.search("a"), index.search_many(["a", "b"])[0].tolist()) == (0, [], [[-1], [-1]])
        index = BowIndex.open(tmp_path / "i")
    assert index.add(["a"]).tolist() == [2]
    assert ids_of(BowIndex.open(tmp_path / "i")) == [2]


def test_search_can_be_limited_to_some_texts() -> None:
    index = BowIndex.build(["a b", "a", "b", "a b"])
    index.delete([3])
    some = np.array([False, True, True, True])
    assert index.search_many(["a b"], 3, some)[0].tolist() == [[1, 2, -1]]
    assert index.search_many(["a", "b"], 1, some)[0].tolist() == [[1], [2]]


def test_unknown_ids_are_refused_and_deleted_ones_are_not(tmp_path: Path) -> None:
    index = built(tmp_path / "i")
    index.delete([1])
    manifest = (tmp_path / "i" / MANIFEST).read_bytes()
    index.delete([1, 1])
    index.delete([])
    for unknown in (3, -1):
        with pytest.raises(InputError, match=f"no text with the id {unknown}; nothing was deleted"):
            index.delete([0, unknown])
    assert ids_of(index) == [0, 2]
    assert (tmp_path / "i" / MANIFEST).read_bytes() == manifest


def test_compaction_leaves_no_trace_of_deleted_texts(tmp_path: Path) -> None:
    folder = tmp_path / "i"
    index = built(folder, ["a b", "secret word", "b c"])
    index.delete([1])
    assert b"secret" in b"".join(path.read_bytes() for path in folder.iterdir())
    index.compact()
    assert b"secret" not in b"".join(path.read_bytes() for path in folder.iterdir())
    assert len(list(folder.iterdir())) == 12 + 2  # one segment, deleted ids, manifest
    assert ids_of(BowIndex.open(folder)) == [0, 2]


def test_many_small_additions_make_few_segments(tmp_path: Path) -> None:
    index = BowIndex.build([f"same word{i}" for i in range(300)])
    index.save(tmp_path / "i")
    most = 0
    for i in range(300, 400):
        index.add([f"same word{i}"])
        most = max(most, index.segments)
    assert 1 < most <= 5
    assert len(list((tmp_path / "i").iterdir())) == 12 * index.segments + 2
    for again in (index, BowIndex.open(tmp_path / "i")):
        assert again.search_many([f"word{i}" for i in range(400)])[0][:, 0].tolist() == list(range(400))


@pytest.mark.parametrize("swept", [True, False], ids=["error", "killed"])
@pytest.mark.parametrize("call", ["save", "fsync", "replace"])
@pytest.mark.parametrize("change", ["add", "delete", "compact", "build", "first save"])
def test_crash_leaves_the_index_as_it_was(
    change: str, call: str, swept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "i"
    index = built(folder)
    index.delete(index.add(["d e", "gone"])[1:])
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    changes: dict[str, Callable[[], object]] = {
        "add": lambda: index.add(["e"]),
        "delete": lambda: index.delete([0]),
        "compact": index.compact,
        "build": lambda: BowIndex.build(["x"]).save(folder),
        "first save": lambda: BowIndex.build(["x"]).save(tmp_path / "other"),
    }
    with monkeypatch.context() as patched:
        patched.setattr(np if call == "save" else os, call, Mock(side_effect=KeyboardInterrupt))
        if not swept:
            patched.setattr(index_module, "sweep", lambda folder: None)
        with pytest.raises(KeyboardInterrupt):
            changes[change]()
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert (after if swept else {name: after[name] for name in before}) == before
    assert ids_of(index) == ids_of(BowIndex.open(folder)) == [0, 1, 2, 3]
    changes[change]()
    opened = BowIndex.open(folder)
    opened.verify()
    expected = {"add": [0, 1, 2, 3, 5], "delete": [1, 2, 3], "build": [0]}.get(change, [0, 1, 2, 3])
    assert ids_of(opened, "a b c d e x") == expected
    assert len(list(folder.iterdir())) == 12 * opened.segments + 2  # what the crash left is gone


def test_files_are_on_disk_before_the_manifest_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index, calls = built(tmp_path / "i"), []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda number: (calls.append(os.fstat(number).st_ino), fsync(number)))
    monkeypatch.setattr(os, "replace", lambda draft, path: (calls.append(-1), replace(draft, path)))
    index.add(["e"])
    place = calls.index(-1)
    files = {path.stat().st_ino for path in (tmp_path / "i").glob("[!.]*")}
    assert set(calls[:place]) == files  # the new manifest, too, which was a draft then
    assert calls[place + 1 :] == [(tmp_path / "i").stat().st_ino]


def test_each_damaged_file_is_named(tmp_path: Path) -> None:
    index = built(tmp_path / "i")
    index.delete([0])
    paths = sorted((tmp_path / "i").glob("*.npy"))
    assert len(paths) == 12 + 1  # one segment, deleted ids
    for path in paths:
        content = path.read_bytes()
        flipped = [content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :] for at in (0, len(content) - 1)]
        for damaged in (b"", content[:-1], content + b" ", *flipped):
            path.write_bytes(damaged)
            with pytest.raises(InputError, match=f"{path.name}: the file is damaged: it is not what was written"):
                BowIndex.open(tmp_path / "i")
        path.unlink()
        with pytest.raises(InputError, match=f"{path.name}: no such file; delete .* and build the index again"):
            BowIndex.open(tmp_path / "i")
        path.write_bytes(content)
    opened = BowIndex.open(tmp_path / "i")
    opened.verify()
    paths[0].write_bytes(b"damaged since")
    with pytest.raises(InputError, match=paths[0].name):
        opened.verify()


def changed(array: np.ndarray, place: int, value: int) -> np.ndarray:
    array = array.copy()
    array.reshape(-1)[place] = value
    return array


HOSTILE: list[tuple[str, Callable[[np.ndarray], np.ndarray], str]] = [
    ("columns", lambda a: changed(a, -1, 10**6), "not from 0 to"),
    ("columns", lambda a: a[::-1].copy(), "do not ascend"),
    ("ids", lambda a: changed(a, 0, -1), "not from 0 to"),
    ("ids", lambda a: changed(a, -1, 10**9), "not from 0 to"),
    ("offsets", lambda a: changed(a, 1, -5), "offsets do not ascend"),
    ("offsets", lambda a: changed(a, 1, 1 << 60), "offsets do not ascend"),
    ("offsets", lambda a: a[:-1].copy(), "its shape is"),
    ("terms", lambda a: changed(a, 0, 1 << 30), "not from 0 to"),
    ("terms", lambda a: changed(a, 0, -1), "not from 0 to"),
    ("terms", lambda a: a.astype(np.int64), "its numbers are <i8"),
    ("terms", lambda a: changed(a, 1, int(a[0])), "do not ascend"),
    ("counts", lambda a: changed(a, 0, 0), "not from 1 to"),
    ("squares", lambda a: changed(a, 0, 0), "the norm of a text is 0"),
    ("head_of", lambda a: np.zeros_like(a), "a column belongs to no term, or to several"),
    ("head_of", lambda a: changed(a, 0, 30_000), "not from -1 to"),
    ("head", lambda a: a[:, :, :-1].copy(), "its shape is"),
    ("tail_offsets", lambda a: changed(a, 0, 1), "offsets do not ascend"),
    ("tail_rows", lambda a: np.zeros_like(a), "a list in it has no end"),
    ("tail_rows", lambda a: np.concatenate([[-7], a[1:]]).astype(np.int32), "a list in it has no end"),
    ("word_weights", lambda a: changed(a, 0, 0), "not from 1 to"),
    ("words", lambda a: np.frombuffer(b'["a"]'.ljust(len(a)), np.uint8), "its shape is|not a list of new words"),
    ("words", lambda a: np.frombuffer(b"[" * len(a), np.uint8), "nested too deeply|not JSON"),
]


@pytest.mark.parametrize(("part", "change", "message"), HOSTILE)
def test_signed_files_cannot_lead_the_kernels_astray(
    tmp_path: Path, part: str, change: Callable[[np.ndarray], np.ndarray], message: str
) -> None:
    """Whoever makes an index can make its hashes, too: the numbers themselves are checked."""
    built(tmp_path / "i", [f"a b w{number} w{number % 7}" for number in range(200)])
    path = tmp_path / "i" / f"000001.0.{part}.npy"
    np.save(path, change(np.load(path)))
    sign(path)
    with pytest.raises(InputError, match=f"000001.0.{part[:4]}.*: .*({message})"):
        BowIndex.open(tmp_path / "i")


def test_a_long_tail_is_checked_for_order(tmp_path: Path) -> None:
    """More terms than dense columns, so that there are inverted lists with several rows."""
    built(tmp_path / "i", [" ".join(f"w{(number * step) % 90}" for step in range(1, 9)) for number in range(90)])
    path = tmp_path / "i" / "000001.0.tail_rows.npy"
    rows = np.load(path)
    place = int(np.flatnonzero((rows[1:] < 90) & (rows[:-1] < 90))[0])
    for value, message in ((89, "does not ascend"), (-1, "not from 0 to 89"), (90, "not from 0 to 89|does not ascend")):
        np.save(path, changed(rows, place, value))
        sign(path)
        with pytest.raises(InputError, match=message):
            BowIndex.open(tmp_path / "i")


def test_links_in_an_index_are_refused(tmp_path: Path) -> None:
    index, precious = built(tmp_path / "i"), tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "i" / "000002.0.ids.npy").symlink_to(precious)
    for use in (lambda: index.add(["e f"]), lambda: BowIndex.open(tmp_path / "i")):
        with pytest.raises(InputError, match=r"000002.0.ids.npy: a symbolic link"):
            use()
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "000001.0.ids.npy").symlink_to(precious)
    with pytest.raises(InputError, match="a symbolic link"):
        BowIndex.build(["a"]).save(tmp_path / "new")
    assert precious.read_text() == "mine"


def test_damaged_manifests_are_refused(tmp_path: Path) -> None:
    built(tmp_path / "i")
    path = tmp_path / "i" / MANIFEST
    manifest = path.read_text()
    for damaged in ("", manifest[:-9], manifest.replace('"next_id": 3', '"next_id": 2'), "\xff", "[]", "{}"):
        path.write_bytes(damaged.encode("latin-1"))
        for use in (BowIndex.open, BowIndex.build(["a"]).save):
            with pytest.raises(InputError, match=r"manifest.json: .*; delete|not an index"):
                use(tmp_path / "i")


def test_other_formats_corpora_and_splits_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "i"
    built(folder)
    assert BowIndex.open(folder, "news").corpus == BowIndex.open(folder).corpus == "news"
    with pytest.raises(InputError, match="made from another corpus"):
        BowIndex.open(folder, "olds")
    with pytest.raises(InputError, match="an index of words, not of letters"):
        BowIndex.open(folder, split=list, split_name="letters")
    with pytest.raises(ValueError, match="`split_name` must be 'words'"):
        BowIndex.open(folder, split=list)
    BowIndex.build(["abc", "bcd"], split=list, split_name="letters").save(tmp_path / "letters")
    assert BowIndex.open(tmp_path / "letters", split=list, split_name="letters").search("d")[0].id == 1
    with pytest.raises(InputError, match="an index of letters, not of words"):
        BowIndex.open(tmp_path / "letters")
    manifest = json.loads((folder / MANIFEST).read_text()) | {"format": FORMAT + "0"}
    (folder / MANIFEST).write_text(json.dumps(manifest | {"key": hash_value(manifest)}))
    with pytest.raises(InputError, match=f"an index of another format than .*; delete {folder} and build the index"):
        BowIndex.open(folder)
    (folder / MANIFEST).write_text(json.dumps({"format": 7}))
    with pytest.raises(InputError, match="not an index; choose another folder"):
        BowIndex.open(folder)


def test_what_is_not_an_index_is_neither_opened_nor_overwritten(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"not an index \(there is no manifest.json\)"):
        BowIndex.open(tmp_path / "nowhere")
    (tmp_path / "thesis.txt").write_text("ten years")
    for place in (tmp_path, tmp_path / "thesis.txt"):
        with pytest.raises(InputError, match="not an index"):
            BowIndex.build(["a"]).save(place)
    assert (tmp_path / "thesis.txt").read_text() == "ten years"


def test_a_stale_index_cannot_undo_a_change(tmp_path: Path) -> None:
    built(tmp_path / "i")
    first, second = BowIndex.open(tmp_path / "i"), BowIndex.open(tmp_path / "i")
    first.delete([0])
    first.compact()
    assert ids_of(second) == [0, 1, 2]  # what it mapped is there as long as it is open
    for change in (lambda: second.add(["a"]), lambda: second.delete([1]), second.compact):
        with pytest.raises(InputError, match="someone else has changed this index"):
            change()
    assert ids_of(BowIndex.open(tmp_path / "i")) == [1, 2]


def test_opening_while_files_vanish_tries_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = built(tmp_path / "i")
    read = index_module.read_state

    def read_late(folder: Path, *others: object) -> object:
        monkeypatch.setattr(index_module, "read_state", read)
        index.delete([0])
        index.compact()
        return read(folder, *others)

    monkeypatch.setattr(index_module, "read_state", read_late)
    assert ids_of(BowIndex.open(tmp_path / "i")) == [1, 2]


def test_threads_find_what_one_thread_finds_while_another_adds() -> None:
    generator = random.Random(0)
    texts = [" ".join(generator.choices("abcdefghijklmnopqrst", k=8)) for _ in range(3000)]
    index = BowIndex.build(texts, "tfidf")
    expected = [index.search(text, 3) for text in texts[:200]]

    def work(number: int) -> bool:
        if number == 0:
            for i in range(50):
                index.delete(index.add([f"v w {i}"]))
        return all(index.search(text, 3) == hits for text, hits in zip(texts[:200], expected, strict=True))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


PROCESS = """
import sys
from pathlib import Path
from exadec.exemplars.index import BowIndex
from exadec.exemplars.kernels import search_rows
BowIndex.build(["a"]).search("a")
index = BowIndex.open(Path(sys.argv[1]))
print([hit.id for hit in index.search("a b", 9)])
index.delete([0])
index.add(["a new text"])
print([hit.id for hit in index.search("a b", 9)], index.search_many(["a b", "b"])[0].tolist())
index.save(Path(sys.argv[1] + ".copy"))
print(len(search_rows.signatures))
"""


def test_what_one_process_deletes_no_other_finds(tmp_path: Path) -> None:
    built(tmp_path / "i", ["a b", "b c"])
    ran = subprocess.run([sys.executable, "-c", PROCESS, tmp_path / "i"], capture_output=True, text=True, check=True)
    # Built, mapped and added arrays are of one kind, so that the kernel is compiled once.
    assert ran.stdout.splitlines() == ["[0, 1]", "[1, 2] [[1], [1]]", "1"]
    for folder in (tmp_path / "i", tmp_path / "i.copy"):
        index = BowIndex.open(folder)
        index.verify()
        assert [hit.id for hit in index.search("a b new text", 9)] == [2, 1]


SLOW = """
import sys, time
from pathlib import Path
import exadec.exemplars.index as module
index = module.BowIndex.open(Path(sys.argv[1]))
def wait(*arguments):
    print("writing", flush=True)
    time.sleep(60)
module.write_state = wait
index.add(["slow"])
"""


def test_a_second_process_that_changes_it_is_refused_and_told_who_does(tmp_path: Path) -> None:
    folder = tmp_path / "i"
    index = built(folder)
    process = subprocess.Popen([sys.executable, "-c", SLOW, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        who = rf"{folder}: process {process.pid} on \S+ has been writing it since 20.*; wait until it has finished, or"
        for change in (lambda: index.add(["d"]), lambda: index.delete([0]), lambda: BowIndex.build(["d"]).save(folder)):
            with pytest.raises(InputError, match=who):
                change()
        assert ids_of(BowIndex.open(folder)) == [0, 1, 2]  # to read it is no change
    finally:
        process.kill()
        process.communicate()
    assert (folder / LOCK).exists()
    BowIndex.open(folder)
    assert not (folder / LOCK).exists()  # a dead process holds nothing
    assert index.add(["d"]).tolist() == [3]


def test_threads_that_change_it_take_turns(tmp_path: Path) -> None:
    index = built(tmp_path / "i")
    with ThreadPoolExecutor(8) as pool:
        added = list(pool.map(lambda number: index.add([f"new{number}"]).item(), range(40)))
    assert sorted(added) == list(range(3, 43))
    again = BowIndex.open(tmp_path / "i")
    assert [again.search(f"new{number}")[0].id for number in range(40)] == added


OLD_FILES = {
    "000001.0.words": np.frombuffer(b'["a", "b", "c"]', np.uint8),
    "000001.0.word_weights": np.ones(3, np.int64),
    "000001.0.columns": np.arange(3, dtype=np.int32),
    "000001.0.ids": np.arange(2),
    "000001.0.offsets": np.array([0, 2, 4]),
    "000001.0.terms": np.array([0, 1, 1, 2], np.int32),
    "000001.0.counts": np.array([1, 1, 2, 1], np.int32),
    "000001.0.squares": np.array([2, 5]),
    "000001.0.head_of": np.array([1, 0, 2], np.int16),
    "000001.0.head": np.array([[[1, 2], [1, 0], [0, 1], [0, 0]]], np.uint8),
    "000001.0.tail_offsets": np.arange(4),
    "000001.0.tail_rows": np.full(3, 2**31 - 1, np.int32),
    "000001.deleted": np.zeros(0, np.int64),
}
"""What the first version of the format keeps of the texts `a b` and `b b c`."""


def test_an_index_written_by_the_first_version_opens(tmp_path: Path) -> None:
    files = {}
    for name, array in OLD_FILES.items():
        path = tmp_path / f"{name}.npy"
        np.save(path, array)
        files[path.name] = {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    manifest = {"format": "bag-of-words index 1, blocks of 8192", "corpus": "", "split": "words", "generation": 1}
    manifest |= {"weighting": "raw", "unseen_weight": 1, "next_id": 2, "segments": ["000001.0"], "files": files}
    manifest["key"] = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    (tmp_path / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    index = BowIndex.open(tmp_path)
    index.verify()
    assert_same(index.search("a b b", 2), [Hit(0, 3 / 10**0.5), Hit(1, 4 / 5)])
    index.add(["a d"])
    index.delete([0])
    assert [hit.id for hit in BowIndex.open(tmp_path).search("a b", 3)] == [1, 2]
    # The same texts are written the same way today.
    BowIndex.build(["a b", "b b c"]).save(tmp_path / "new")
    assert {path.name for path in (tmp_path / "new").glob("*.npy")} == set(files)
    for name, array in OLD_FILES.items():
        written = np.load(tmp_path / "new" / f"{name}.npy")
        assert written.dtype == array.dtype
        np.testing.assert_array_equal(written, array)
