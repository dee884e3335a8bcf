"""`exadec.load` of a server's address gives what `exadec.load` of its run gives."""

import copy
import http.server
import inspect
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest

import exadec
from exadec.api import Generation, Writer
from exadec.config import SearchConfig
from exadec.errors import InputError, RequestError
from exadec.remote.methods import RemoteMethods
from exadec.remote.service import Service, is_address
from exadec.request import Request
from exadec.styles import Mixture
from exadec.training.trainer import train
from support.command import assert_refused
from support.command import exadec as exadec_command
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
    for count in (3, 1000):
        grouped = local.vary(SOURCES[0], count, group="down")
        found = remote.vary(SOURCES[0], count, group="down")
        assert [one.text for one in found] == [one.text for one in grouped]
        np.testing.assert_allclose(found[-1].attention, grouped[-1].attention, atol=1e-5)
    for writer in (remote, local):
        assert writer.vary("unheard", 3) == []
        with pytest.raises(RequestError, match="has the group 'nobody'"):
            writer.vary(SOURCES[0], 3, group="nobody")
        for given in (Request("a", "up"), Request("a", style="b"), Request("a", mixture=Mixture.of(["up"]))):
            with pytest.raises(RequestError, match="leave out the exemplar, mixture or style"):
                writer.vary(given, 3)
        with pytest.raises(RequestError, match="the model cannot write 'zebra'"):  # with whatever exemplar
            writer.vary(Request(SOURCES[0], required=("zebra",)), 3)
    with pytest.raises(RequestError, match="its own settings"):
        remote.vary(SOURCES[0], 3, search=SearchConfig())


def test_variants_take_guidance_and_demands(remote: Writer, local: Writer) -> None:
    asked = [(SOURCES[0], 2.0), (Request(SOURCES[0], group="down", forbidden=("n0",)), None)]
    asked += [(Request(SOURCES[1], max_characters=5), 1.0)]
    plain = {one.text: one.score for one in local.vary(SOURCES[0], 4)}
    for source, guidance in asked:
        expected, found = local.vary(source, 4, guidance=guidance), remote.vary(source, 4, guidance=guidance)
        assert expected
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
            again = Request(source, one.exemplar) if isinstance(source, str) else replace(source, exemplar=one.exemplar)
            assert local.write(again, guidance=guidance).text == one.text
        np.testing.assert_allclose(found[-1].attention, expected[-1].attention, atol=1e-5)
    guided = local.vary(SOURCES[0], 4, guidance=2.0)
    assert {one.text: one.score for one in guided} != plain
    assert not any("n0" in one.text.split() for one in local.vary(asked[1][0], 4))
    assert all(len(one.text) <= 5 for one in local.vary(asked[2][0], 4))


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


BUILT_ON_OTHERS = {"write", "write_all"}
"""Methods of a `Writer` that only call its other methods, so that they are right for a server as they are."""


def public(names: object) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def test_a_server_has_every_method_of_a_writer_or_says_why_not(remote: Writer, local: Writer) -> None:
    assert public(dir(Writer)) == public(vars(RemoteMethods)) | BUILT_ON_OTHERS
    assert not public(vars(RemoteMethods)) & BUILT_ON_OTHERS
    for name in public(dir(Writer)):
        one, other = inspect.getattr_static(type(remote), name), inspect.getattr_static(Writer, name)
        assert type(one) is type(other), name
        if not isinstance(one, cached_property):
            assert inspect.signature(one) == inspect.signature(other), name
    kept = public(vars(local)) - public(dir(Writer))
    assert kept == {"run", "model"}
    for name in kept:
        with pytest.raises(AttributeError, match=f"keeps its run and its model to itself, so there is no `{name}`"):
            getattr(remote, name)
    with pytest.raises(InputError, match="does not send λ of all training targets"):
        remote.bank()
    with pytest.raises(RequestError, match="`stream` gives one in parts"):
        remote.answer([Request("a")], tell=print)
    assert type(copy.copy(remote)) is type(remote)


def test_styles_are_those_of_the_run(remote: Writer, local: Writer) -> None:
    mixture = Mixture((("up n9 k2", 1.0), ("down k2 n9", 0.25)))
    for one, other in ((remote, local), (local, remote)):
        one.save_style("Käse & Brot 1.0", mixture)
        assert other.styles.get("Käse & Brot 1.0") == mixture
        assert one.styles.all() == other.styles.all() == {"Käse & Brot 1.0": mixture}
        request = Request(SOURCES[0], style="Käse & Brot 1.0")
        assert_same(remote.write(request), local.write(request))
        other.styles.remove("Käse & Brot 1.0")
        assert one.styles.all() == {}
    for writer in (remote, local):
        for name, text in (("a/b", "up"), ("", "up"), ("good", "xyzzy")):
            with pytest.raises(RequestError, match=r"cannot be the name of a style|no word the model knows"):
                writer.save_style(name, Mixture.of([text]))
        for ask in (writer.styles.get, writer.styles.remove):
            with pytest.raises(RequestError, match="there is no style 'good'; no style has been saved yet"):
                ask("good")
    with pytest.raises(AttributeError, match="their file is the server's"):
        _ = remote.styles.path


def test_coefficients_and_exemplars_are_those_of_the_run(remote: Writer, local: Writer) -> None:
    texts = [*(f"up n{i % 12} k{i % 7}" for i in range(130)), "xyzzy", " ", "down"]
    for one, other in zip(remote.read_coefficients(texts), local.read_coefficients(texts), strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            np.testing.assert_allclose(one, other, atol=1e-6)
    assert remote.read_coefficients([]) == local.read_coefficients([]) == []
    assert [remote.exemplar_text(i) for i in range(5)] == [local.exemplar_text(i) for i in range(5)]
    for writer in (remote, local):
        with pytest.raises(IndexError):
            writer.exemplar_text(10**9)
    with pytest.raises(IndexError):
        remote.exemplar_text(-1)


def test_a_wrong_number_of_texts_is_the_same_error(remote: Writer, local: Writer) -> None:
    for wrong in (0, -1, 3, 101, 1.5, "2", None):
        errors = []
        for writer in (remote, local):
            with pytest.raises(ValueError, match="`n_best` must be from 1 to the beam size 2") as error:
                writer.write(SOURCES[0], n_best=wrong)
            errors.append((error.type, str(error.value)))
        assert errors[0] == errors[1]
        assert errors[0][0] is ValueError
    for writer in (remote, local):
        with pytest.raises(ValueError, match="`count` must be a whole number of at least 1, but is 0 instead"):
            writer.vary(SOURCES[0], 0)


NO_TEXT = {"a\x00b": "has a control character (U+0000); take it out.", "up\x1b[2J": "(U+001B); take it out."}
NO_TEXT |= {"a\ud800": "is not valid UTF-8.", "b" * 20_000: "at most 10,000 are read."}
DOORS = {
    "source": lambda writer, text: writer.write(text),
    "exemplar": lambda writer, text: writer.write(SOURCES[0], text),
    "group": lambda writer, text: writer.write(SOURCES[0], group=text),
    "style": lambda writer, text: writer.write(Request(SOURCES[0], style=text)),
    "mixture": lambda writer, text: writer.write(Request(SOURCES[0], mixture=Mixture.of(["up", text]))),
    "streamed": lambda writer, text: list(writer.stream(text)),
    "varied": lambda writer, text: writer.vary(text, 2),
    "varied group": lambda writer, text: writer.vary(SOURCES[0], 2, text),
    "retrieved": lambda writer, text: writer.retrieve([SOURCES[0], text]),
    "retrieved group": lambda writer, text: writer.retrieve(SOURCES[:1], text),
    "coefficients": lambda writer, text: writer.read_coefficients(["up", text]),
    "saved style": lambda writer, text: writer.save_style("good", Mixture.of(["up", text])),
    "refused": lambda writer, text: writer.refuse(text),
    "refused group": lambda writer, text: writer.refuse(group=text),
}


@pytest.mark.parametrize("door", DOORS)
def test_what_is_no_text_is_the_same_error_at_both_doors(remote: Writer, local: Writer, door: str) -> None:
    for text, message in NO_TEXT.items():
        errors = []
        for writer in (remote, local):
            with pytest.raises(InputError, match=re.escape(message)) as error:
                DOORS[door](writer, text)
            errors.append((error.type, str(error.value)))
        assert errors[0] == errors[1]
    assert remote.styles.all() == {}
    if door in ("source", "streamed", "varied", "retrieved"):
        for writer in (remote, local):
            with pytest.raises(RequestError, match=r"^the source is empty\.$"):
                DOORS[door](writer, " ")


WRONG = {
    "exemplar": (lambda writer: writer.write("a", " "), "the exemplar is empty; leave it out, or give another one."),
    "group": (lambda writer: writer.write("a", group=""), "the group is empty; leave it out."),
    "unknown group": (lambda writer: writer.write("a", group="x"), "no exemplar has the group 'x'."),
    "group to retrieve from": (lambda writer: writer.retrieve(["a"], "x"), "no exemplar has the group 'x'."),
    "bytes": (lambda writer: writer.write(b"a"), "the source must be text, but is of the type bytes."),
    "no guidance": (lambda writer: writer.write("a", guidance="x"), "`guidance` must be a number, but is 'x'."),
    "a truth": (lambda writer: writer.write("a", guidance=True), "`guidance` must be a number, but is True."),
    "low guidance": (
        lambda writer: writer.write("a", guidance=-1),
        "`search.guidance` must be at least 0, but is -1.0 instead.",
    ),
    "high guidance": (
        lambda writer: writer.vary("a", 2, guidance=1e9),
        "`search.guidance` must be at most 1000, but is 1000000000.0 instead.",
    ),
    "guidance that is NaN": (
        lambda writer: writer.write("a", guidance=float("nan")),
        "`search.guidance` must be at least 0, but is nan instead.",
    ),
    "a truth of texts": (
        lambda writer: writer.write("a", n_best=True),
        "`n_best` must be from 1 to the beam size 2, but is True instead.",
    ),
    "count": (
        lambda writer: writer.vary("a", "2"),
        "`count` must be a whole number of at least 1, but is '2' instead.",
    ),
    "one request": (
        lambda writer: writer.answer(Request("a")),
        "`requests` is one request, not a list of them; write it in brackets: [request].",
    ),
    "one text": (
        lambda writer: writer.answer("a"),
        "`requests` is one text, not a list of texts; write it in brackets: [text].",
    ),
    "texts": (
        lambda writer: writer.answer(["a"]),
        "`requests` must hold `Request`s, but one is text; write `Request(source)`.",
    ),
    "nothing": (lambda writer: writer.answer(None), "`requests` must be a list, but is null."),
    "no sources": (lambda writer: writer.write_all(None), "`sources` must be a list of texts, but is null."),
    "no texts": (lambda writer: writer.retrieve(None), "`sources` must be a list, but is null."),
    "number": (lambda writer: writer.exemplar_text(-1), "there is no exemplar -1."),
    "large number": (lambda writer: writer.exemplar_text(10**9), "there is no exemplar 1000000000."),
}


@pytest.mark.parametrize("call", WRONG)
def test_a_wrong_argument_is_the_same_error_at_both_doors(remote: Writer, local: Writer, call: str) -> None:
    ask, message = WRONG[call]
    errors = []
    for writer in (remote, local):
        with pytest.raises((ValueError, IndexError), match=f"^{re.escape(message)}$") as error:
            ask(writer)
        errors.append(error.type)
    assert errors[0] is errors[1]


def test_a_blank_request_is_not_sent(remote: Writer, local: Writer) -> None:
    requests = [Request(" "), Request(SOURCES[0]), Request(SOURCES[1], "")]
    for one, other in zip(remote.answer(requests), local.answer(requests), strict=True):
        if isinstance(other, RequestError):
            assert str(one) == str(other)
        else:
            assert_same(one, other)


def test_one_text_is_no_list_of_texts(remote: Writer, local: Writer) -> None:
    for writer in (remote, local):
        for ask, name in ((writer.retrieve, "sources"), (writer.read_coefficients, "exemplars")):
            with pytest.raises(InputError, match=f"`{name}` is one text, not a list of texts; write it in brackets"):
                ask("abc")


def test_what_every_request_would_be_refused_for_is_refused_at_once(remote: Writer, local: Writer) -> None:
    for writer in (remote, local):
        writer.refuse()
        writer.refuse("up")
        writer.refuse(group="down")
        with pytest.raises(RequestError, match="the exemplar 'xyzzy' has no word the model knows"):
            writer.refuse("xyzzy")
        with pytest.raises(RequestError, match="has the group 'nobody'"):
            writer.refuse(group="nobody")
    # A group says where to look for an exemplar, and one is given.
    assert_same(remote.write(SOURCES[0], "up n9 k2", group="down"), local.write(SOURCES[0], "up n9 k2", group="down"))


@pytest.mark.parametrize(
    "options",
    [
        ["--json", "--n-best", "2"],
        ["--json", "--vary", "3"],
        ["--exemplar", "up n9 k2"],
        ["--group", "down"],
        ["--style", "brief"],
    ],
    ids=" ".join,
)
def test_the_command_line_writes_with_a_server(
    server: Server, run: Path, local: Writer, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.setenv("EXADEC_TOKEN", "geheim")
    local.save_style("brief", Mixture.of(["up n9 k2"]))
    lines = "\n".join([*SOURCES[:6], "", "unheard"]).encode()
    there, here = (exadec_command("generate", place, *options, stdin=lines) for place in (server.address, run))
    assert (there.returncode, there.stderr) == (here.returncode, here.stderr)
    assert there.returncode == 2
    if "--json" not in options:
        assert there.stdout == here.stdout
    for one, other in zip(there.stdout.splitlines(), here.stdout.splitlines(), strict=True):
        if "--json" in options:
            found, expected = json.loads(one), json.loads(other)
            assert found.pop("score", 0) == pytest.approx(expected.pop("score", 0), abs=1e-5)
            assert [text for text, _ in found.pop("alternatives")] == [t for t, _ in expected.pop("alternatives")]
            assert found == expected
    local.styles.remove("brief")


def test_a_swap_is_that_of_the_run(server: Server, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXADEC_TOKEN", "geheim")
    monkeypatch.setenv("COLUMNS", "100")
    given = ["--source", SOURCES[0], "--exemplar", "up n9 k2", "--exemplar", "down k2 n9"]
    there, here = (exadec_command("swap", place, *given) for place in (server.address, run))
    assert (there.returncode, there.stdout, there.stderr) == (0, here.stdout, "")
    assert "up n9 k2" in there.stdout
    assert "retrieved, similarity" in there.stdout


def test_the_command_for_styles_works_with_a_server(
    server: Server, run: Path, local: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXADEC_TOKEN", "geheim")
    asked = [[], ["loud", "--exemplar", "up n1 k1", "--exemplar", "up n2 k2"], [], ["loud"], ["loud", "--remove"], []]
    asked += [["loud"], ["loud", "--remove"], [".loud", "--exemplar", "up"], ["loud", "--exemplar", "xyzzy"]]
    for given in asked:
        there = exadec_command("style", server.address, *given)
        # Take back what it did, so that the command with the run finds the same styles.
        if "--exemplar" in given and there.returncode == 0:
            assert local.styles.get("loud") == Mixture.of(["up n1 k1", "up n2 k2"])
            local.styles.remove("loud")
        elif given == ["loud", "--remove"] and there.returncode == 0:
            local.save_style("loud", Mixture.of(["up n1 k1", "up n2 k2"]))
        here = exadec_command("style", run, *given)
        assert (there.returncode, there.stdout, there.stderr) == (here.returncode, here.stdout, here.stderr), given
    assert local.styles.all() == {}
    done = exadec_command("style", server.address, "loud", "--exemplar", "up", "--device", "cpu")
    assert_refused(done, "a server has its own device; leave yours out.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["swap", "SERVER", "--study", "3"], "a server's splits are not here; give --study the run itself."),
        (["swap", "SERVER", "--source", "a", "--set", "search.beam_size=1"], "a server has its own settings"),
        (["report", "RUN", "SERVER"], "a server keeps its model to itself; give this command the run itself."),
        (["export", "SERVER", "--out", "x.exadec"], "a server keeps its model to itself"),
        (["serve", "SERVER"], "a server keeps its model to itself"),
    ],
    ids=lambda one: one[0] if isinstance(one, list) else "",
)
def test_commands_that_need_the_model_say_so(run: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    address = "http://127.0.0.1:9"
    given = [{"SERVER": address, "RUN": str(run)}.get(one, one) for one in arguments]
    assert_refused(exadec_command(*given, cwd=tmp_path), f"exadec: {address}: {message}")
    assert list(tmp_path.iterdir()) == []


def test_a_server_whose_model_reads_no_exemplar_has_nothing_to_swap_or_vary() -> None:
    told = json.dumps({**MODEL, "reads_exemplars": False}).encode()
    with answering((200, told), (200, told)) as (address, _):
        done = exadec_command("generate", address, "--vary", 3, stdin=b"a")
    assert_refused(done, "--vary looks for exemplars, but this model reads none; --n-best N gives several texts.")
    with answering((200, told)) as (address, _):
        done = exadec_command("swap", address, "--source", "a")
    assert_refused(done, "this model reads no exemplar, so there is nothing to swap")


def test_the_command_line_says_what_a_server_cannot_do(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for given, message in (
        (["--split", "test"], "a server's splits are not here; give --split the run itself."),
        (["--set", "search.beam_size=1"], "a server has its own settings; leave yours out."),
        (["--n-best", "3"], "--n-best must be from 1 to the beam size 2."),
        (["--exemplar", "xyzzy"], "the exemplar 'xyzzy' has no word the model knows"),
        (["--style", "nope"], "there is no style 'nope'"),
    ):
        monkeypatch.setenv("EXADEC_TOKEN", "geheim")
        assert_refused(exadec_command("generate", server.address, *given, stdin=b"a"), message)
    monkeypatch.setenv("EXADEC_TOKEN", "x")
    assert_refused(exadec_command("generate", server.address, stdin=b"a"), "the token is missing or wrong")
    assert_refused(exadec_command("generate", "http://127.0.0.1:9", stdin=b"a"), "no server answers there")


def test_errors_say_what_to_do(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        InputError, match="is missing or wrong; set the variable EXADEC_TOKEN, or give `token` to `load`"
    ):
        exadec.load(server.address, token="x").write("a")
    monkeypatch.setenv("EXADEC_TOKEN", "geheim")
    assert exadec.load(f"{server.address}/").write(SOURCES[0]).pieces
    with pytest.raises(InputError, match=r"no server answers there \(Connection refused\); start one with"):
        exadec.load("http://127.0.0.1:9").write("a")
    with pytest.raises(InputError, match="a server has its own device; leave yours out"):
        exadec.load(server.address, device="cpu")
    for address in ("http://", "http://a:b", "http://a?b=c", "http://[::1", "http://a..b:80", f"http://{'a' * 64}:80"):
        with pytest.raises(InputError, match="not the address of a server, such as"):
            exadec.load(address)
    for address in ("http://a b:80", "http://a:80/\u00e9", "http://a:80/b c"):
        with pytest.raises(InputError, match="not the address of a server, such as"):
            exadec.load(address)
    assert not is_address(Path("http://a"))
    assert not is_address("work/run")


def test_an_address_may_be_in_capitals_and_one_without_its_beginning_is_recognised(server: Server) -> None:
    capitals = server.address.replace("http", "HTTP")
    assert exadec.load(capitals, token="geheim").write(SOURCES[0]).text
    assert_refused(exadec_command("report", capitals), "a server keeps its model to itself")
    for place in ("localhost:8000", "127.0.0.1:1", "[::1]:80"):
        with pytest.raises(
            InputError, match=r"there is nothing of this name; the address of a server begins with http://"
        ):
            exadec.load(place)


def test_a_token_that_cannot_be_sent_is_refused_before_anybody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for token, fault in (
        ("", "is empty"),
        (" \n", "is empty"),
        ("geheim\n", "has a space or a line end around it"),
        ("a\nb", "has characters other than letters, digits and signs of ASCII"),
        ("s\u20accret", "has characters other than letters, digits and signs of ASCII"),
    ):
        with pytest.raises(InputError, match=f"the token in `token=TEXT` {fault}; choose another one"):
            exadec.load("http://127.0.0.1:9", token=token)
        monkeypatch.setenv("EXADEC_TOKEN", token)
        with pytest.raises(InputError, match=f"the token in the variable EXADEC_TOKEN {fault}"):
            exadec.load("http://127.0.0.1:9")
    assert_refused(
        exadec_command("generate", "http://127.0.0.1:9", stdin=b"a"), "the token in the variable EXADEC_TOKEN"
    )


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

        do_PUT = do_POST  # noqa: N815 - the name that `http.server` looks for

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
        assert service.ask("/v1/model", {"a": int}) == {"a": 1}
        assert asked == ["/prefix/v1/model"] * 3
        for _ in range(2):
            with pytest.raises(InputError, match="does not look like an exadec server"):
                service.ask("/v1/model", {"a": int})


MODEL = {"exadec": "0", "beam_size": 2, "batch_size": 4, "max_source": 9, "max_target": 9}
MODEL |= {"reads_exemplars": True, "told_groups": False}
WRITTEN = {
    "text": "a",
    "score": -1.0,
    "exemplar": {"id": None, "text": "b", "similarity": None},
    "exemplars": ["b"],
    "similarity": None,
    "alternatives": [{"text": "c", "score": -2}],
    "truncated": 0,
    "exemplar_truncated": 0,
    "facts": [{"words": "a", "begin": 0, "end": 1, "kind": "name", "licensed": True}],
    "coefficients": [1.0, 2],
    "pieces": ["a"],
    "memory": [],
}


def spoil(sound: dict[str, object]) -> list[bytes]:
    """Answers that lack one of these keys, or have another kind of value there."""
    less = [{name: value for name, value in sound.items() if name != left} for left in sound]
    other = [{**sound, name: {"other": [1]}} for name in sound]
    return [json.dumps(one).encode() for one in (*less, *other)]


OF_STRANGERS = [
    (200, b'{"status": "ok", "version": 3}'),
    (200, b"<html><body>It works!</body></html>"),
    (200, b"[1, 2, 3]"),
    (200, b"[" * 100_000),
    (200, b"null"),
    (200, b""),
    (200, b'{"exadec": "\xff"}'),
    (204, b""),
    (301, b"<html>Moved</html>"),
    (401, b"[]"),
    (404, b'{"detail": "Not Found"}'),
    (404, b'{"error": {"message": "Not Found"}}'),
    (500, b"<html>"),
]


OF_STRANGERS += [(200, one) for one in spoil(MODEL)]


@pytest.mark.parametrize("answer", OF_STRANGERS, ids=lambda one: str(one)[:70])
def test_a_server_of_something_else_is_one_clear_line(answer: tuple[int, bytes]) -> None:
    with answering(answer, answer) as (address, _):
        message = f"{address}: this does not look like an exadec server"
        with pytest.raises(InputError) as error:
            exadec.load(address)
        assert str(error.value).startswith(message)
        assert type(error.value) is InputError
        assert_refused(exadec_command("generate", address, stdin=b"a"), message)


ASKING = {
    "write": (lambda writer: writer.write("a"), WRITTEN),
    "vary": (lambda writer: writer.vary("a", 2), {"texts": [WRITTEN]}),
    "retrieve": (lambda writer: writer.retrieve(["a"]), {"exemplars": [{"text": "b", "similarity": 1.0}]}),
    "coefficients": (lambda writer: writer.read_coefficients(["a"]), {"coefficients": [[[1.0]]]}),
    "exemplar": (lambda writer: writer.exemplar_text(0), {"text": "b"}),
    "styles": (lambda writer: writer.styles.all(), {"styles": []}),
    "style": (lambda writer: writer.save_style("x", Mixture.of(["b"])), {"name": "x", "exemplars": []}),
}


@pytest.mark.parametrize("door", ASKING)
def test_every_answer_is_looked_at_before_it_is_used(door: str) -> None:
    ask, sound = ASKING[door]
    wrong = [*spoil(sound), b"[]", b"<html>", b'"text"', b"3"]
    if door == "vary":
        wrong += [json.dumps({"texts": [json.loads(one)]}).encode() for one in spoil(WRITTEN)]
        wrong += [json.dumps({"texts": [{**WRITTEN, "exemplar": None}]}).encode()]
    more = json.dumps({**sound, "of a later version": 1}).encode()
    answers = [json.dumps(MODEL).encode(), json.dumps(sound).encode(), more, *wrong]
    with answering(*((200, one) for one in answers)) as (address, asked):
        writer = exadec.load(address)
        ask(writer)
        ask(writer)
        for one in wrong:
            with pytest.raises(InputError, match="does not look like an exadec server") as error:
                ask(writer)
            assert type(error.value) is InputError, one
        assert len(asked) == len(answers)


def test_a_stream_of_something_else_is_one_clear_line() -> None:
    wrong = [
        b'{"text": "a"}',
        b"<html>",
        b"event: text\ndata: 3\n\n",
        b"event: text\ndata: a\xff\n\n",
        b'event: done\ndata: {"txt": 1}\n\n',
        b'event: error\ndata: {"status": "x", "error": "y"}\n\n',
        b"event: other\ndata: {\n\n",
    ]
    with answering(*((200, one) for one in [json.dumps(MODEL).encode(), *wrong])) as (address, _):
        writer = exadec.load(address)
        for _ in wrong:
            with pytest.raises(InputError, match="does not look like an exadec server"):
                list(writer.stream("a"))


def test_a_stream_is_asked_for_again_or_says_why_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exadec.remote.service.time.sleep", lambda _: None)
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
        with pytest.raises(InputError, match="the token is missing or wrong; set the variable EXADEC_TOKEN"):
            next(service.listen("/v1/write", {}))
    with pytest.raises(InputError, match="no server answers there"):
        next(service.listen("/v1/write", {}))


def test_a_connection_that_the_server_has_closed_is_opened_again() -> None:
    """Over a network, sending still succeeds; only then it turns out that nobody listens any more."""
    accepted: list[socket.socket] = []

    def answer_once_per_connection(listening: socket.socket) -> None:
        for _ in range(2):
            connection, _ = listening.accept()
            accepted.append(connection)
            length = 0
            with connection.makefile("rb") as file:
                while (line := file.readline()) not in (b"\r\n", b""):
                    if line.lower().startswith(b"content-length"):
                        length = int(line.split(b":")[1])
                file.read(length)
            connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{"a": 1}')
            connection.shutdown(socket.SHUT_WR)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        answering = threading.Thread(target=answer_once_per_connection, args=(listening,), daemon=True)
        answering.start()
        service = Service(f"http://127.0.0.1:{listening.getsockname()[1]}")
        with closing(service._connect()) as connection:
            assert [service._ask(connection, "/x", {"a": int}, {"q": number}) for number in range(2)] == [{"a": 1}] * 2
        answering.join(60)
    assert len(accepted) == 2
    for connection in accepted:
        connection.close()


def test_after_a_failure_no_more_is_asked() -> None:
    asked = []

    class Failing(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            content = b'{"error": "it broke"}'
            self.send_response(500)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Failing) as failing:
        threading.Thread(target=failing.serve_forever, daemon=True).start()
        with pytest.raises(InputError, match="it broke"):
            Service(f"http://127.0.0.1:{failing.server_port}").ask_all("/x", {"a": int}, [{"n": 1}] * 500)
        failing.shutdown()
    assert len(asked) < 100
