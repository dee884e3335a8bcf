"""The worker: batches by kind, a bounded queue, and nothing begun whose time is up."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exadec.api import Writer, load
from exadec.errors import RequestError
from exadec.request import Request
from exadec.server.worker import BusyError, ClosedError, Task, Worker


@pytest.fixture(scope="module")
def writer(run: Path) -> Writer:
    """As if it had been trained for guidance."""
    writer = load(run, {"search.batch_size": 4})
    return Writer(replace(writer.run, config=writer.run.config.replace("model", exemplar_skipping=0.1)), writer.model)


@contextmanager
def held(worker: Worker) -> Iterator[None]:
    """Keep the worker busy, so that jobs wait together."""
    begun, go = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        go.wait(60)

    job = worker.call(wait)
    begun.wait(60)
    try:
        yield
    finally:
        go.set()
        job.result(60)


def task(source: str, **more: object) -> Task:
    return Task(Request(source), **more)  # type: ignore[arg-type]


def test_a_greedy_search_is_told_word_by_word(writer: Writer) -> None:
    greedy = load(writer.run.folder, ["search.beam_size=1"])
    worker = Worker(greedy, 10)
    heard: list[str] = []
    observe = lambda name, data: heard.append(data["text"]) if name == "text" else None  # noqa: E731
    text = worker.write(task("n1 k1", observe=observe)).result(60).text
    worker.close()
    words = text.split()
    assert heard == [" ".join(words[:count]) for count in range(1, len(words) + 1)]


def test_what_waits_together_is_written_together_if_it_can_be(writer: Writer) -> None:
    sizes: list[int] = []
    worker = Worker(writer, 100, lambda size, took: sizes.append(size))
    heard: list[tuple[str, dict[str, int]]] = []
    with held(worker):
        one = [worker.write(task(f"n{i} k1", observe=lambda *event: heard.append(event))) for i in range(6)]
        two = [worker.write(task(f"n{i} k1", n_best=2)) for i in range(2)]
        guided = worker.write(task("n1 k1", settings=(("guidance", 1.0),)))
        assert len(worker) == 9
    texts = [future.result(60) for future in (*one, *two, guided)]
    worker.close()
    assert sizes == [4, 2, 2, 1]
    begun = [data for name, data in heard if name == "started"]
    assert begun == [{"together": 4}] * 4 + [{"together": 2}] * 2
    expected = [writer.write(f"n{i} k1") for i in range(6)]
    assert [found.text for found in texts[:6]] == [found.text for found in expected]
    assert [len(found.alternatives) for found in texts] == [0] * 6 + [1] * 2 + [0]


def test_a_full_queue_refuses_and_later_takes_again(writer: Writer) -> None:
    worker = Worker(writer, 2)
    with held(worker):
        waiting = [worker.write(task("n1")) for _ in range(2)]
        with pytest.raises(BusyError) as refused:
            worker.write(task("n1"))
        assert refused.value.seconds >= 1
        with pytest.raises(BusyError):
            worker.call(lambda: None)
    assert all(future.result(60).pieces for future in waiting)
    assert worker.call(lambda: 3).result(60) == 3
    worker.close()


def test_what_was_cancelled_is_not_begun(writer: Writer) -> None:
    sizes: list[int] = []
    worker = Worker(writer, 10, lambda size, took: sizes.append(size))
    called: list[int] = []
    with held(worker):
        first, second = worker.write(task("n1")), worker.write(task("n2"))
        change = worker.call(lambda: called.append(1))
        assert first.cancel()
        assert change.cancel()
    assert second.result(60).pieces
    worker.close()
    assert (sizes, called) == ([1], [])


def test_closing_finishes_what_waits_and_takes_nothing_new(writer: Writer) -> None:
    worker = Worker(writer, 10)
    with held(worker):
        waiting = [worker.write(task(f"n{i}", n_best=1 + i % 2)) for i in range(6)]
        closing = threading.Thread(target=worker.close)
        closing.start()
    closing.join(60)
    assert all(future.done() for future in waiting)
    with pytest.raises(ClosedError):
        worker.write(task("n1"))


def test_what_was_cancelled_does_not_fill_the_queue(writer: Writer) -> None:
    worker = Worker(writer, 3)
    with held(worker):
        waiting = [worker.call(lambda: 1) for _ in range(3)]
        with pytest.raises(BusyError):
            worker.call(lambda: 2)
        assert len(worker) == 3
        assert waiting[0].cancel()
        assert len(worker) == 2
        later = worker.call(lambda: 2)
    assert later.result(60) == 2
    worker.close()


def test_a_batch_that_fails_is_written_one_by_one_and_told_once(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = writer.answer

    def fail_together(requests: list[Request], *more: Any, tell: Any, **options: Any) -> Any:
        if len(requests) > 1:
            tell(0, answer(requests[:1])[0].text.split()[0])
            raise RuntimeError("out of memory")
        return answer(requests, *more, tell=tell, **options)

    monkeypatch.setattr(writer, "answer", fail_together)
    worker = Worker(writer, 10)
    heard: list[list[tuple[str, Any]]] = [[], []]
    with held(worker):
        written = [
            worker.write(task(f"n{number} k1", observe=lambda *event, known=known: known.append(event)))
            for number, known in enumerate(heard)
        ]
    texts = [one.result(60).text for one in written]
    for known, text in zip(heard, texts, strict=True):
        assert [name for name, _ in known].count("started") == 1
        told = [data["text"] for name, data in known if name == "text"]
        assert told == sorted(set(told), key=len)
        assert all(text.startswith(part) for part in told)
    worker.close()


def test_errors_belong_to_their_own_jobs(writer: Writer) -> None:
    worker = Worker(writer, 10)

    def fail() -> None:
        raise KeyError("x")

    with held(worker):
        sound, refused = worker.write(task("n1", explain=True)), worker.write(Task(Request("n1", group="nobody")))
        failed = worker.call(fail)
    assert isinstance(refused.result(60), RequestError)
    assert vars(sound.result(60))["_explanation"].attention is not None  # computed by the worker
    with pytest.raises(KeyError):
        failed.result(60)
    assert worker.call(lambda: 1).result(60) == 1
    worker.close()
