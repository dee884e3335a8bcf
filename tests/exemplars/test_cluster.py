"""The join on several worker processes of a real Ray, against the join on one machine."""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from exadec.errors import InputError
from exadec.exemplars import cluster
from exadec.exemplars.bow import BagOfWords, Rows
from exadec.exemplars.candidates import Candidates
from exadec.exemplars.cluster import Blocks, join_on_cluster
from exadec.exemplars.join import Allowed, Neighbours, search
from support.join_cases import some_ceilings

ray = pytest.importorskip("ray", reason="needs the extra `cluster`")

import psutil  # noqa: E402 - Ray brings it along
from ray.cluster_utils import Cluster  # noqa: E402

pytestmark = pytest.mark.slow  # a real Ray has to start

PATIENT = {"health_check_period_ms": 500, "health_check_failure_threshold": 20}
"""A dead node is noticed within ten seconds. Given less, a slow node counts as dead and takes this process with it."""
STORE = 100 * 2**20


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Cluster]:
    """Three workers on two nodes, each with an object store of its own; nobody is connected to them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        head = {"num_cpus": 2, "object_store_memory": STORE, "include_dashboard": False, "_system_config": PATIENT}
        nodes = Cluster(initialize_head=True, head_node_args=head)
        nodes.add_node(num_cpus=1, object_store_memory=STORE)
        yield nodes
        nodes.shutdown()


@pytest.fixture(scope="module")
def workers(two_nodes: Cluster) -> Iterator[None]:
    """The Ray of the caller. Not one for each test: every connection starts workers of its own."""
    ray.init(two_nodes.address, log_to_driver=False)
    yield
    ray.shutdown()


def sentences(count: int, words: int, seed: int) -> list[str]:
    """Of zero to nine words, some of them frequent; short ones are often equal."""
    random = np.random.default_rng(seed)
    ranks = np.minimum(random.zipf(1.3, (count, 9)), words)
    lengths = random.integers(0, 10, count)
    return [" ".join(f"w{rank}" for rank in row[:length]) for row, length in zip(ranks, lengths, strict=True)]


def rows_of(count: int, words: int = 40, seed: int = 0) -> tuple[Rows, np.ndarray]:
    bag = BagOfWords("tfidf")
    rows = bag.fit(sentences(count, words, seed))
    return rows, bag.weights


def all_but_itself(count: int) -> Allowed:
    own = np.arange(count, dtype=np.int64)[None]  # (1, count)
    everyone = Allowed.all(count, count)
    return Allowed(own, own, everyone.alive, everyone.query_ranges)


def on_one_machine(queries: Rows, candidates: Rows, weights: np.ndarray, k: int, allowed: Allowed) -> Neighbours:
    return search(queries, Candidates.arrange(candidates, weights), k, allowed, np.arange(len(queries)))


def assert_same(found: Neighbours, expected: Neighbours) -> None:
    assert found.ids.dtype == expected.ids.dtype
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.scores.view(np.int64), expected.scores.view(np.int64))


def test_without_ray_the_user_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, weights = rows_of(2)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'exadec\[cluster\]'"):
        join_on_cluster(rows, rows, weights, 1, Allowed.all(2, 2))


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere.invalid:6379"])
def test_an_address_without_a_cluster_is_named(address: str) -> None:
    rows, weights = rows_of(2)
    with pytest.raises(InputError, match=f"no Ray cluster answers at {address}"):
        join_on_cluster(rows, rows, weights, 1, Allowed.all(2, 2), address=address)


def test_a_block_without_rows_is_refused() -> None:
    with pytest.raises(InputError, match="a block of candidates must have at least 1 row, but has 0"):
        Blocks(candidates=0)


def test_blocks_are_cut_to_the_cluster() -> None:
    assert Blocks.for_cores(6400, 10**9, 10**9) == Blocks()
    assert Blocks.for_cores(64, 700_000, 700_000).queries == 1367  # 513 tasks
    assert Blocks.for_cores(64, 10, 10).queries == 1024


def test_a_cluster_at_an_address_is_joined_and_left(two_nodes: Cluster, tmp_path: Path) -> None:
    """Comes before the tests with `workers`, from which on the caller is connected."""
    rows, weights = rows_of(60)
    for name in ("offsets", "terms", "counts", "squares"):
        np.save(tmp_path / f"{name}.npy", getattr(rows, name))
    mapped = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("offsets", "terms", "counts", "squares")]
    files = Rows(*mapped)
    expected = on_one_machine(rows, rows, weights, 1, all_but_itself(60))
    assert_same(join_on_cluster(files, files, weights, 1, all_but_itself(60), None, two_nodes.address), expected)
    assert not ray.is_initialized()


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("blocks", [Blocks(90, 5), Blocks(17, 64), Blocks(10, 149), Blocks(149, 150)], ids=str)
def test_blocks_of_any_size_find_what_one_machine_finds(blocks: Blocks, k: int) -> None:
    rows, weights = rows_of(150)
    allowed = all_but_itself(150)
    expected = on_one_machine(rows, rows, weights, k, allowed)
    assert (expected.ids[np.diff(rows.offsets) == 0] == -1).all()
    assert_same(join_on_cluster(rows, rows, weights, k, allowed, blocks), expected)


@pytest.mark.usefixtures("workers")
def test_equal_candidates_of_different_blocks_come_in_the_order_of_their_numbers() -> None:
    bag = BagOfWords()
    rows = bag.fit(["c", "a b", "", "b a", "a a b b", "a b"])
    found = join_on_cluster(bag.count(["a b", "z", "z b a"]), rows, bag.weights, 3, Allowed.all(3, 6), Blocks(2, 1))
    assert found.ids.tolist() == [[1, 3, 4], [-1] * 3, [1, 3, 4]]


@pytest.mark.usefixtures("workers")
def test_keys_ranges_ceilings_and_deleted_rows_are_respected() -> None:
    rows, weights = rows_of(120)
    random = np.random.default_rng(1)
    begins, lengths = random.integers(0, 100, 120), random.integers(0, 60, 120)
    allowed = Allowed(
        query_keys=random.integers(0, 9, (2, 120)),
        candidate_keys=random.integers(0, 9, (2, 120)),
        alive=random.random(120) < 0.8,
        query_ranges=np.stack([begins, np.minimum(begins + lengths, 120)], axis=1),
        query_ceilings=some_ceilings(120, random),
    )
    expected = on_one_machine(rows, rows, weights, 2, allowed)
    assert_same(join_on_cluster(rows, rows, weights, 2, allowed, Blocks(50, 23)), expected)


@pytest.mark.usefixtures("workers")
def test_no_queries_and_no_candidates_find_nothing() -> None:
    rows, weights = rows_of(5)
    assert join_on_cluster(rows.slice(0, 0), rows, weights, 2, Allowed.all(0, 5)).ids.shape == (0, 2)
    assert_same(join_on_cluster(rows, rows.slice(0, 0), weights, 2, Allowed.all(5, 0)), Neighbours.none(5, 2))
    bare = Rows(np.zeros(4, np.int64), rows.terms[:0], rows.counts[:0], np.zeros(3, np.int64))
    assert_same(join_on_cluster(bare, bare, weights, 2, Allowed.all(3, 3)), Neighbours.none(3, 2))


@pytest.mark.usefixtures("workers")
def test_progress_rises_to_the_total_with_few_tasks_on_their_way(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = []

    class Watched(cluster._Flight):
        def add_pair(self, finished: object) -> None:
            super().add_pair(finished)
            waiting.append(len(self.waiting))

    monkeypatch.setattr(cluster, "_Flight", Watched)
    rows, weights = rows_of(100)
    reported = []
    report = lambda done, total: reported.append((done, total))  # noqa: E731
    join_on_cluster(rows, rows, weights, 1, all_but_itself(100), Blocks(25, 10), report=report)
    assert reported == [(done, 40) for done in range(1, 41)]
    assert len(waiting) == 40
    assert max(waiting) <= 2 * 3


@pytest.mark.usefixtures("workers")
def test_an_interrupt_and_an_error_come_through_and_the_cluster_stays_usable() -> None:
    rows, weights = rows_of(100)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        join_on_cluster(rows, rows, weights, 1, all_but_itself(100), Blocks(50, 10), report=interrupt)
    with pytest.raises(IndexError):
        join_on_cluster(rows, rows, weights[:1], 1, all_but_itself(100), Blocks(50, 10))
    expected = on_one_machine(rows, rows, weights, 1, all_but_itself(100))
    assert_same(join_on_cluster(rows, rows, weights, 1, all_but_itself(100), Blocks(50, 10)), expected)


def kill_a_worker_at_work() -> list[psutil.Process]:
    """Stopped, a worker cannot finish what it works at; so it surely dies in the middle of it.

    Between two tasks no worker may be at work, on a busy machine for a while: it is waited for.
    """
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        for process in psutil.Process().children(recursive=True):
            try:
                if process.cmdline()[:1] == ["ray::_match"]:
                    process.suspend()
                    at_work = process.cmdline()[:1] == ["ray::_match"]
                    os.kill(process.pid, signal.SIGKILL if at_work else signal.SIGCONT)
                    if at_work:
                        return [process]
            except psutil.NoSuchProcess:
                continue
    return []


@pytest.mark.usefixtures("workers")
def test_killed_workers_lose_nothing() -> None:
    rows, weights = rows_of(6000, words=2000)
    allowed = all_but_itself(6000)
    killed: list[psutil.Process] = []

    def report(done: int, total: int) -> None:
        if len(killed) < 2 and 0.1 + 0.4 * len(killed) < done / total < 0.9:
            killed.extend(kill_a_worker_at_work())

    found = join_on_cluster(rows, rows, weights, 1, allowed, Blocks(3000, 500), report=report)
    assert len(killed) == 2
    assert len(psutil.wait_procs(killed, timeout=10)[0]) == 2
    assert_same(found, on_one_machine(rows, rows, weights, 1, allowed))


def told(task: Callable[..., object], folder: Path, held_on: str | None = None) -> Callable[..., object]:
    """A task that leaves a file behind each time it begins, and never ends on the node `held_on`."""

    def begin(*arguments: object) -> object:
        here = ray.get_runtime_context().get_node_id()
        tempfile.mkstemp(prefix=here, dir=folder)
        if here == held_on:
            time.sleep(600)  # the node is lost before
        return task(*arguments)

    return begin


@pytest.mark.usefixtures("workers")
def test_a_lost_node_loses_nothing(two_nodes: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 2,000 candidates lie in the stores of the nodes; those of one node are lost with it."""
    rows, weights = rows_of(20_000, words=2000)
    queries, itself = rows.slice(0, 4000), all_but_itself(20_000)
    allowed = Allowed(itself.query_keys[:, :4000], itself.candidate_keys, itself.alive, itself.query_ranges[:4000])
    [node] = [node for node in two_nodes.list_all_nodes() if node is not two_nodes.head_node]
    matches = tmp_path / "matches"
    matches.mkdir()
    monkeypatch.setattr(cluster, "_match", told(cluster._match, matches, held_on=node.node_id))
    removed = []

    def report(done: int, total: int) -> None:
        if not removed and done / total > 0.3 and any(matches.glob(f"{node.node_id}*")):
            removed.append(node)
            two_nodes.remove_node(node, allow_graceful=False)

    found = join_on_cluster(queries, rows, weights, 1, allowed, Blocks(1000, 2000), report=report)
    assert removed
    deadline = time.monotonic() + 60
    while all(record["Alive"] for record in ray.nodes()) and time.monotonic() < deadline:
        time.sleep(0.2)  # the join may end before the node counts as dead
    assert [record["Alive"] for record in ray.nodes()].count(False) == 1
    assert len(list(matches.iterdir())) > 4 * 10  # the match that the node never ended was done again
    assert_same(found, on_one_machine(queries, rows, weights, 1, allowed))
