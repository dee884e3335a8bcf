"""`exadec.load` of a server's address gives what `exadec.load` of its run gives."""

import copy
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import exadec
from exadec.api import Generation, Writer
from exadec.config import SearchConfig
from exadec.errors import InputError, RequestError
from exadec.remote import Service, is_address
from exadec.request import Request
from exadec.training.trainer import train
from support.serving import Server, serving
from support.toys import make_guidable, toy_records, variant_config, write_splits

SOURCES = [f"house{i} house{i} n{i % 12} k{i % 7}" for i in range(40)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("remote")
    records = [{**record, "group": str(record["target"]).split()[0]} for record in toy_records(100, seed=0)]
    write_splits(folder, records)
    return make_guidable(train(variant_config(folder, "adadec", epochs=8), folder / "run")).folder


@pytest.fixture(scope="module")
def server(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    # A queue that is smaller than what the client asks at the same time: it has to come back.
    with serving(run, "--queue", 4, "--exemplars", tmp_path_factory.mktemp("accepted"), token="geheim") as server:
        yield server


@pytest.fixture(scope="module")
def remote(server: Server) -> Writer:
    return exadec.load(server.address, token="geheim")


@pytest.fixture(scope="module")
def local(run: Path) -> Writer:
    return exadec.load(run)


def assert_same(one: Generation, other: Generation) -> None:
    for name in ("text", "exemplar", "exemplar_id", "exemplars", "similarity", "pieces", "memory", "truncated"):
        assert getattr(one, name) == getattr(other, name), name
    assert one.score == pytest.approx(other.score, abs=1e-5)
    assert [text for text, _ in one.alternatives] == [text for text, _ in other.alternatives]
    np.testing.assert_allclose(one.coefficients, other.coefficients, atol=1e-5)
    assert one.coefficients.dtype == other.coefficients.dtype


def test_texts_are_those_of_the_run(remote: Writer, local: Writer) -> None:
    assert isinstance(remote, exadec.Writer)
    assert_same(remote.write(SOURCES[0]), local.write(SOURCES[0]))
    assert_same(remote.write(SOURCES[0], "up n9 k2", n_best=2), local.write(SOURCES[0], "up n9 k2", n_best=2))
    assert_same(remote.write(SOURCES[0], group="down"), local.write(SOURCES[0], group="down"))
    assert_same(remote.write(SOURCES[0], guidance=2.0), local.write(SOURCES[0], guidance=2.0))
    expected = local.write_all(SOURCES)
    assert len({one.text for one in expected}) > 10
    for one, other in zip(remote.write_all(SOURCES), expected, strict=True):
        assert_same(one, other)
    assert remote.write_all([]) == []


def test_explanations_are_fetched_when_they_are_looked_at(remote: Writer, local: Writer) -> None:
    one, other = remote.write(SOURCES[1]), local.write(SOURCES[1])
    np.testing.assert_allclose(one.attention, other.attention, atol=1e-5)
    np.testing.assert_allclose(one.copy_gate, other.copy_gate, atol=1e-5)


def test_streams_are_those_of_the_run(remote: Writer, local: Writer) -> None:
    for source in SOURCES[:5]:
        assert list(remote.stream(source)) == list(local.stream(source))
    assert "".join(remote.stream(SOURCES[0], "up n9 k2")) == local.write(SOURCES[0], "up n9 k2").text
    for writer in (remote, local):
        with pytest.raises(RequestError, match="no word the model knows"):
            list(writer.stream(SOURCES[0], "xyzzy"))
        with pytest.raises(RequestError):
            list(writer.stream(" "))
    with pytest.raises(RequestError, match="its own settings"):
        remote.stream(SOURCES[0], search=SearchConfig())


def test_variants_are_those_of_the_run(remote: Writer, local: Writer) -> None:
    expected = {source: local.vary(source, 5) for source in SOURCES[:10]}
    assert all(expected.values())
    for source, texts in expected.items():
        for one, other in zip(remote.vary(source, 5), texts, strict=True):
            assert_same(one, other)
    grouped = local.vary(SOURCES[0], 3, group="down")
    assert [one.text for one in remote.vary(SOURCES[0], 3, group="down")] == [one.text for one in grouped]


def test_exemplars_are_those_of_the_run(remote: Writer, local: Writer) -> None:
    assert remote.retrieve([*SOURCES, "unheard"]) == local.retrieve([*SOURCES, "unheard"])
    assert remote.retrieve(SOURCES[:3], "up") == local.retrieve(SOURCES[:3], "up")
    for writer in (remote, local):
        with pytest.raises(RequestError, match="has the group 'nobody'"):
            writer.retrieve(SOURCES[:1], "nobody")


def test_what_is_wrong_with_one_request_does_not_disturb_the_others(remote: Writer, local: Writer) -> None:
    requests = [Request(" "), Request(SOURCES[0]), Request(SOURCES[0], "xyzzy"), Request(SOURCES[0], group="nobody")]
    found, expected = remote.answer(requests), local.answer(requests)
    assert (
        [type(one) for one in found]
        == [type(one) for one in expected]
        == [RequestError, Generation] + [RequestError] * 2
    )
    assert str(found[2]) == str(expected[2])
    with pytest.raises(RequestError, match="no word the model knows"):
        remote.write(SOURCES[0], "xyzzy")
    remote.refuse("up", None)


def test_an_explanation_of_a_text_that_would_now_be_another_is_refused(remote: Writer, server: Server) -> None:
    source = "house3 house3 n3 k3 quux"
    one = remote.write(source)
    name = server.ask("/v1/exemplars", {"source": source, "target": "down k3 n3"})[1]["id"]
    with pytest.raises(RequestError, match="exemplars have changed"):
        _ = one.attention
    assert server.ask(f"/v1/exemplars/{name}", method="DELETE")[0] == 204
    assert one.attention is not None


def test_a_server_has_no_run_to_look_at(remote: Writer) -> None:
    with pytest.raises(AttributeError, match="a server's model has no `run` here; load the run itself"):
        _ = remote.run
    assert type(copy.copy(remote)) is type(remote)


def test_errors_say_what_to_do(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="the token is missing or wrong"):
        exadec.load(server.address, token="x").write("a")
    monkeypatch.setenv("EXADEC_TOKEN", "geheim")
    assert exadec.load(f"{server.address}/").write(SOURCES[0]).pieces
    with pytest.raises(InputError, match=r"no server answers there \(Connection refused\); start one with"):
        exadec.load("http://127.0.0.1:9").write("a")
    with pytest.raises(InputError, match="a server has its own settings"):
        exadec.load(server.address, device="cpu")
    for address in ("http://", "http://a:b", "http://a?b=c"):
        with pytest.raises(InputError, match="not the address of a server"):
            exadec.load(address)
    assert not is_address(Path("http://a"))
    assert not is_address("work/run")


@contextmanager
def answering(*answers: tuple[int, bytes]) -> Iterator[tuple[str, list[str]]]:
    """A server that gives these answers, one after the other, and closes each connection after its answer."""
    left, asked = list(answers), list[str]()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def do_GET(self) -> None:
            asked.append(self.path)
            status, content = left.pop(0)
            self.send_response(status)
            self.send_header("Retry-After", "0")
            if content.startswith(b"event: "):
                self.send_header("Content-Type", "text/event-stream; charset=utf-8")
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    stub = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=stub.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{stub.server_port}/prefix", asked
    finally:
        stub.shutdown()
        thread.join()
        stub.server_close()


def test_a_busy_server_is_asked_again_and_another_one_is_recognised() -> None:
    with answering((429, b"{}"), (503, b"{}"), (200, b'{"a": 1}'), (200, b"<html>"), (404, b"[]")) as (address, asked):
        service = Service(address)
        assert service.ask("/v1/model") == {"a": 1}
        assert asked == ["/prefix/v1/model"] * 3
        for _ in range(2):
            with pytest.raises(InputError, match="is not exadec"):
                service.ask("/v1/model")


def test_a_stream_is_asked_for_again_or_says_why_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exadec.remote.time.sleep", lambda _: None)
    text, done = b'event: text\ndata: {"text": "a"}\n\n', b'event: done\ndata: {"text": "a b"}\n\n'
    busy = b'event: error\ndata: {"status": 429, "error": "too many"}\n\n'
    refused = b'event: error\ndata: {"status": 409, "error": "no such word"}\n\n'
    answers = (
        (429, b"{}"),
        (200, busy),
        (200, text + done),
        (200, text),
        (200, text + refused),
        (401, b'{"error": "x"}'),
    )
    with answering(*answers) as (address, asked):
        service = Service(address)
        assert list(service.listen("/v1/write", {})) == [("text", {"text": "a"}), ("done", {"text": "a b"})]
        assert asked == ["/prefix/v1/write"] * 3
        for kind, message in ((InputError, "in the middle of an answer"), (RequestError, "no such word")):
            heard = service.listen("/v1/write", {})
            assert next(heard) == ("text", {"text": "a"})
            with pytest.raises(kind, match=message):
                next(heard)
        with pytest.raises(InputError, match=": x"):
            next(service.listen("/v1/write", {}))
    with pytest.raises(InputError, match="no server answers there"):
        next(service.listen("/v1/write", {}))
