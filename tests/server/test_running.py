"""Real processes: limits, tokens, signals, kills, and what schemathesis makes of the description."""

import http.client
import json
import os
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import exadec as package
from exadec.api import train as train_by_name
from exadec.bundle.packing import export
from exadec.errors import InputError
from exadec.server.door import Limits
from exadec.server.running import serve
from support.command import assert_refused, exadec
from support.serving import Server, serving
from support.small_wire import SMALL

SOURCE = "house1 house1 house1 n3 k5"
SLOW = """
import time
from exadec.api import Writer
answer = Writer.answer
def slow(*arguments, **options):
    time.sleep(float({seconds}))
    return answer(*arguments, **options)
Writer.answer = slow
"""
"""The same server, but each batch takes longer."""


def ask_together(server: Server, count: int) -> list[tuple[int, object, dict[str, str]]]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _: server.ask("/v1/write", {"source": SOURCE}), range(count)))


def test_a_full_queue_says_when_to_come_back(run: Path, tmp_path: Path) -> None:
    options = ("--queue", 2, "--exemplars", tmp_path, "--set", "search.batch_size=1")
    with serving(run, *options, program=SLOW.format(seconds=0.3)) as server:
        found = ask_together(server, 12)
        assert {status for status, _, _ in found} == {200, 429}
        refused = [(answer, headers) for status, answer, headers in found if status == 429]
        assert all(int(headers["retry-after"]) >= 1 for _, headers in refused)
        assert refused[0][0] == {"error": "too many requests are waiting; ask again later."}
        assert server.ask("/v1/write", {"source": SOURCE})[0] == 200


def test_the_time_limit_ends_a_wait_but_not_the_server(run: Path, tmp_path: Path) -> None:
    options = ("--timeout", 2, "--exemplars", tmp_path)
    program = SLOW.format(seconds="4 if arguments[1][0].source == 'slow' else 0")
    with serving(run, *options, program=program) as server:
        status, answer, headers = server.ask("/v1/write", {"source": "slow"})
        assert (status, answer) == (503, {"error": "this took longer than 2 seconds; ask again later."})
        assert headers["retry-after"] == "1"
        statuses = [server.ask("/v1/write", {"source": SOURCE})[0] for _ in range(10)]
        assert statuses[-1] == 200  # the first may have waited for the slow one
        _, content, _ = server.ask("/v1/write", {"source": "slow", "stream": True})
        assert '"status": 503' in content.strip().split("\n\n")[-1]


def test_one_bad_request_does_not_take_its_batch_along(run: Path, tmp_path: Path) -> None:
    program = """
from exadec.api import Writer
answer = Writer.answer
def failing(self, requests, *rest, **named):
    if any(one.source == "bomb" for one in requests):
        raise KeyError("bomb secret")
    return answer(self, requests, *rest, **named)
Writer.answer = failing
"""
    with serving(run, "--exemplars", tmp_path, program=program) as server:
        sources = [SOURCE, "bomb"] * 10
        with ThreadPoolExecutor(20) as pool:
            found = list(pool.map(lambda source: server.ask("/v1/write", {"source": source})[:2], sources))
        assert [status for status, _ in found] == [200, 500] * 10
        assert found[1][1] == {"error": "the server failed; its log says where."}
        said = server.stop().splitlines()
    assert len([line for line in said if line.startswith("exadec: POST /v1/write: KeyError at ")]) == 10
    assert not [line for line in said if "secret" in line or "Traceback" in line or "bomb" in line]


def test_a_token_is_asked_for(run: Path, tmp_path: Path) -> None:
    with serving(run, "--exemplars", tmp_path, token="geheim") as server:
        assert server.ask("/v1/model")[0] == 200
        for path in ("/v1/model", "/metrics"):
            for given in ("", "Bearer", "Bearer geheimer", "Basic geheim", "Bearer gehei\u00fc"):
                status, answer, headers = server.ask(path, headers={"Authorization": given})
                assert (status, headers["www-authenticate"]) == (401, "Bearer")
                assert "Authorization: Bearer TOKEN" in answer["error"]
        for path in ("/healthz", "/openapi.json"):
            assert server.ask(path, headers={"Authorization": ""})[0] == 200


def test_a_server_that_is_told_to_stop_finishes_what_it_began(run: Path, tmp_path: Path) -> None:
    options = ("--exemplars", tmp_path, "--set", "search.batch_size=2")
    with serving(run, *options, program=SLOW.format(seconds=0.4)) as server, ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(server.ask, "/v1/write", {"source": SOURCE}) for _ in range(6)]
        while float(server.ask("/metrics")[1].split("\nexadec_waiting ")[1].split()[0]) < 2:
            time.sleep(0.02)
        said = server.stop()
        assert [one.result()[0] for one in asked] == [200] * 6
    assert said.splitlines()[-1] == "Stopped; what was begun is finished."


def test_nothing_that_was_accepted_is_lost_when_it_is_killed(run: Path, tmp_path: Path) -> None:
    kept: dict[str, str] = {}
    deleted: set[str] = set()
    draw = random.Random(5)
    for life in range(3):
        with serving(run, "--exemplars", tmp_path) as server:
            for name, text in kept.items():
                assert server.ask(f"/v1/exemplars/{name}")[1]["text"] == text
            for name in deleted:
                assert server.ask(f"/v1/exemplars/{name}")[0] == 404
            killer = threading.Timer(draw.uniform(0.1, 0.6), lambda server=server: server.process.kill())
            killer.start()
            _change_until_it_is_gone(server, kept, deleted, life)
            killer.join()
    assert len(kept) > 10
    with serving(run, "--exemplars", tmp_path) as server:
        assert {name: server.ask(f"/v1/exemplars/{name}")[1]["text"] for name in kept} == kept
        assert {server.ask(f"/v1/exemplars/{name}")[0] for name in deleted} == {404}
        found = server.ask("/v1/retrieve", {"source": "zork", "k": 100})[1]["exemplars"]
        assert not deleted & {one["id"] for one in found}


def _change_until_it_is_gone(server: Server, kept: dict[str, str], deleted: set[str], life: int) -> None:
    """Accept and delete. A name is in neither once its deletion was asked for but not confirmed."""
    for number in range(100_000):
        text = f"up zork n{number} k{life}"
        try:
            status, answer, _ = server.ask("/v1/exemplars", {"source": f"zork house1 n{number}", "target": text})
            assert status == 201
            assert answer["id"] not in kept
            assert answer["id"] not in deleted
            kept[answer["id"]] = text
            if number % 3 == 0:
                name = answer["id"]
                del kept[name]
                assert server.ask(f"/v1/exemplars/{name}", method="DELETE")[0] == 204
                deleted.add(name)
        except (OSError, http.client.HTTPException):
            return


def test_schemathesis_finds_no_violation(run: Path, tmp_path: Path) -> None:
    with serving(run, "--exemplars", tmp_path, token="geheim") as server:
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{server.address}/openapi.json"]
        options = [
            "-H",
            "Authorization: Bearer geheim",
            "-n",
            "8",
            "--seed",
            "1",
            "--phases",
            "examples,fuzzing,stateful",
        ]
        environment = {**os.environ, "PYTHONPATH": ""}
        done = subprocess.run(
            [*command, *options], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr
        assert "18 selected / 18 total" in done.stdout
        assert server.ask("/v1/write", {"source": SOURCE})[0] in (200, 409)


def test_every_example_of_the_page_works(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "server.md").read_text("utf-8")
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", page, re.DOTALL)).replace("\\\n", "")
    commands = [line for line in blocks.splitlines() if line]
    (sample,) = (json.loads(one) for one in re.findall(r"```json\n(.*?)```", page, re.DOTALL))
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    overrides = {**SMALL, "training.epochs": 1, "folder": str(tmp_path)}
    run = train_by_name("wire", variant="adadec", overrides=overrides).folder
    with serving(run) as server:
        answers = []
        for command in commands:
            asked = command.replace("curl ", "curl --fail-with-body ").replace("localhost:8000", server.address[7:])
            assert asked.count(server.address[7:]) == asked.count("--fail") == 1, command
            done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=False)
            assert done.returncode == 0, command + done.stdout + done.stderr
            answers.append(done.stdout)
        assert len(answers) >= 9
        assert list(json.loads(answers[0])) == list(sample)
        assert [list(one) for one in sample["facts"]] == [["words", "begin", "end", "kind", "licensed"]] * 2
        assert answers[-1] == "204\n"
        names: dict[str, Any] = {"exadec": package}
        exec(program.replace("http://127.0.0.1:8000", server.address), names)
        assert len(names["texts"]) == 2
        lines = re.findall(r"^    exadec (\w+ http.*?)(?: < stories.txt)?$", page, re.MULTILINE)
        assert [line.split()[0] for line in lines] == ["generate", "swap", "style"]
        for line in lines:
            arguments = shlex.split(line.replace("http://127.0.0.1:8000", server.address))
            done = exadec(*arguments, stdin=b"A flood reached Porto on Monday.")
            assert done.returncode == 0, done


def test_what_was_deleted_is_not_there_after_a_restart(run: Path, tmp_path: Path) -> None:
    with serving(run, "--exemplars", tmp_path) as server:
        own = server.ask("/v1/exemplars", {"source": SOURCE, "target": "up zork"})[1]["id"]
        found = [one["id"] for one in server.ask("/v1/retrieve", {"source": SOURCE, "k": 100})[1]["exemplars"]]
        assert own in found
        trained = next(name for name in found if name.startswith("train-"))
        for name in (own, trained):
            assert server.ask(f"/v1/exemplars/{name}", method="DELETE")[0] == 204
    with serving(run, "--exemplars", tmp_path) as server:
        found = {one["id"] for one in server.ask("/v1/retrieve", {"source": SOURCE, "k": 100})[1]["exemplars"]}
        assert len(found) > 10
        assert not {own, trained} & found
        assert server.ask("/v1/exemplars", {"source": SOURCE, "target": "up"})[1] == {"id": "own-1"}
    assert "zork" not in (tmp_path / "accepted.jsonl").read_text("utf-8")


def test_a_bundle_without_exemplars_writes_with_given_ones(run: Path, tmp_path: Path) -> None:
    bundle = export(run, tmp_path / "toy.exadec")
    with serving(bundle) as server:
        assert server.ask("/v1/write", {"source": SOURCE, "exemplar": "up n9 k2"})[0] == 200
        asked = [("/v1/write", {"source": SOURCE}), ("/v1/retrieve", {"source": SOURCE})]
        for path, body in [*asked, ("/v1/exemplars", {"source": SOURCE, "target": "up"})]:
            status, answer, _ = server.ask(path, body)
            assert (status, "without its exemplars" in answer["error"]) == (409, True)
        status, answer, _ = server.ask("/v1/map")
        assert (status, "there is no map" in answer["error"]) == (409, True)
        assert server.ask("/v1/model")[1]["exemplars"] is None
        assert server.ask("/v1/examples")[1] == {"examples": []}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["toy.exadec"]


def test_what_cannot_start_says_why_in_one_line(run: Path, tmp_path: Path) -> None:
    with serving(run, "--exemplars", tmp_path) as server:
        port = server.address.rsplit(":", 1)[1]
        assert_refused(exadec("serve", run, "--port", port), "Address already in use; choose another --port NUMBER")
        other = exadec("serve", run, "--port", "0", "--exemplars", tmp_path)
        assert_refused(other, f"{tmp_path}: process {server.process.pid} on ")
        assert "; choose --exemplars FOLDER." in other.stderr
    with pytest.raises(InputError, match="there is no such address here"):
        serve(lambda: pytest.fail("it was loaded"), "no.such.host.invalid", 0, None, Limits(1, 1, 1), print)


def test_ctrl_c_stops_it_in_order(run: Path, tmp_path: Path) -> None:
    with serving(run, "--exemplars", tmp_path) as server:
        server.process.send_signal(signal.SIGINT)
        said = server.process.communicate(timeout=60)[1]
        assert (server.process.returncode, said) == (0, "Stopped; what was begun is finished.\n")


def test_a_client_that_does_not_read_cannot_keep_the_server_from_stopping(run: Path, tmp_path: Path) -> None:
    def answered() -> list[str]:
        return re.findall(r'exadec_requests_total\{route="/v1/map",status="200"\} (\S+)', server.ask("/metrics")[1])

    with (
        serving(run, "--exemplars", tmp_path, "--timeout", 1) as server,
        socket.create_connection(("127.0.0.1", int(server.address.rsplit(":", 1)[1]))) as deaf,
    ):
        deaf.sendall(b"GET /v1/map HTTP/1.1\r\nHost: exadec\r\n\r\n" * 3000)  # more than buffers hold
        before = None
        while before != (before := answered()) or not before:
            time.sleep(0.5)
        said = server.stop()
    assert said.splitlines() == [
        "exadec: connections closed, because their clients did not take the answers: 1.",
        "Stopped; what was begun is finished.",
    ]
