"""Run a real ``langgraph dev`` without ``--allow-blocking``, or another server, with a scripted endpoint of models."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conftest import StubEndpoint, free_port
from tests.forked import start

ROOT = Path(__file__).parents[1]
DEV = ["-c", "from langgraph_cli.cli import cli; cli()", "dev", "--no-browser", "--no-reload"]
QUIET = {"LANGGRAPH_CLI_NO_ANALYTICS": "1", "LANGGRAPH_NO_VERSION_CHECK": "true"}


class Planted:
    """An object that creates an empty file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return eval, (f"open({str(self.mark)!r}, 'w').close() or {{}}",)


def plant(folder: Path) -> Path:
    """Put pickles where a server looks for its files; return the path of the file that they create if unpickled."""
    mark = folder / "unpickled"
    (folder / ".langgraph_api").mkdir()
    for name in (".langgraph_ops.pckl", ".langgraph_checkpoint.1.pckl", "store.pckl"):
        (folder / ".langgraph_api" / name).write_bytes(pickle.dumps(Planted(mark)))
    return mark


class Server:
    """A running server, and the scripted endpoint that it calls."""

    def __init__(self, url: str, folder: Path, stub: StubEndpoint, process: subprocess.Popen[bytes]) -> None:
        self.url = url
        self.folder = folder
        self.stub = stub
        self.process = process

    def send(self, path: str, body: Any = None, headers: dict[str, str] | None = None, method: str = "") -> bytes:
        """Send a request, by default a POST if it has a body, otherwise a GET; return the body of the response.

        Raises:
            HTTPError: the status of the response is an error.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json", "accept": "application/json", **(headers or {})}
        request = urllib.request.Request(self.url + path, data, headers, method=method or None)
        with urllib.request.urlopen(request, timeout=240) as reply:
            content: bytes = reply.read()
            return content

    def json(self, path: str, body: Any = None) -> Any:
        """Send a request as `send` does; return the parsed JSON of the response."""
        return json.loads(self.send(path, body))

    def refused(self, path: str, body: Any = None, headers: dict[str, str] | None = None, method: str = "") -> Any:
        """Send a request whose response must have an error status; return this status and the JSON of the response."""
        try:
            self.send(path, body, headers, method)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())
        raise AssertionError(f"{path} was not refused")

    def log(self) -> str:
        """The server's log."""
        return (self.folder / "log").read_text()


def running(command: list[str], folder: Path, port: int, stub: StubEndpoint, **environment: str) -> Iterator[Server]:
    """Start a server in a folder, wait until it responds, yield it, and terminate it afterwards."""
    variables = {"OPENAI_BASE_URL": stub.url, "MOOT_HOME": str(folder / "home"), "MOOT_ALLOWED_ORIGINS": ""}
    variables["WIKIPEDIA_BASE_URL"] = f"http://127.0.0.1:{free_port()}"
    with (
        (folder / "log").open("w") as sink,
        start(
            [sys.executable, *command],
            server=True,
            cwd=folder,
            env=os.environ | variables | environment,
            stdout=sink,
            stderr=sink,
        ) as process,
    ):
        server = Server(f"http://127.0.0.1:{port}", folder, stub, process)
        try:
            deadline = time.monotonic() + 120
            while True:
                assert process.poll() is None, server.log()[-3000:]
                assert time.monotonic() < deadline, server.log()[-3000:]
                try:
                    server.send("/ok")
                    break
                except (urllib.error.URLError, ConnectionError):
                    time.sleep(0.05)
            yield server
        finally:
            process.terminate()


def langgraph_dev(folder: Path, stub: StubEndpoint, **environment: str) -> Iterator[Server]:
    """Run ``langgraph dev`` with the project's configuration in a new folder with planted pickles."""
    port = free_port()
    folder.mkdir()
    plant(folder)
    (folder / "langgraph.json").write_text((ROOT / "langgraph.json").read_text())
    yield from running(
        [*DEV, "--port", str(port), "--n-jobs-per-worker", "4"], folder, port, stub, **QUIET, **environment
    )
