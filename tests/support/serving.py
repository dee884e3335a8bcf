"""A server in a real process, and questions to it."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Server:
    """A running `exadec serve`."""

    process: subprocess.Popen[str]
    address: str
    token: str | None = None

    def ask(
        self, path: str, body: object = None, method: str | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, answer (JSON if it is) and headers. `body` may be bytes, to send what is no JSON."""
        parts = urlsplit(self.address)
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
        sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        asked = {"Content-Type": "application/json"}
        if self.token is not None:
            asked["Authorization"] = f"Bearer {self.token}"
        try:
            connection.request(method or ("GET" if sent is None else "POST"), path, sent, asked | (headers or {}))
            answer = connection.getresponse()
            content = answer.read().decode()
            found = {name.lower(): value for name, value in answer.getheaders()}
            is_json = found.get("content-type", "").startswith("application/json")
            return answer.status, json.loads(content) if is_json else content, found
        finally:
            connection.close()

    def stop(self) -> str:
        """Ask it to stop, wait until it has, and return what it said."""
        self.process.send_signal(signal.SIGTERM)
        said = self.process.communicate(timeout=60)[1]
        assert self.process.returncode == 0, said
        return said


@contextmanager
def serving(run: Path, *options: object, token: str | None = None, program: str | None = None) -> Iterator[Server]:
    """A server on a free port. `program` is Python that runs before the command, in the same process."""
    start = ["-m", "exadec"] if program is None else ["-c", f"{program}\nfrom exadec.cli import main\nmain()"]
    command = [sys.executable, "-W", "error", *start, "serve", str(run), "--port", "0", *map(str, options)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"} | ({} if token is None else {"EXADEC_TOKEN": token})
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if line.startswith("Ready at "):
                break
        assert said, "it said nothing"
        assert said[-1].startswith("Ready at "), "".join(said)
        yield Server(process, said[-1].split()[-1], token)
    finally:
        process.kill()
        process.communicate()
