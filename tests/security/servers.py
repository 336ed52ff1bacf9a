"""Runs each server that ships, prepared for attacks: `moot serve`, ``langgraph dev`` and `moot service`."""

from __future__ import annotations

import json
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from moot.core.home import private_folder

from tests.conftest import free_port, running_stub
from tests.service.running import OURS, TOKENS, running_service
from tests.serving import ROOT, langgraph_dev, running

TOKEN = "a-token-of-the-operator"
OPERATOR = {"MOOT_FETCH_HOSTS": "localhost", "MOOT_EMBEDDER": "openai:usual-embedder"}
"""What the operator lists: one host to fetch, which redirects, and an encoder in the default settings."""
SECRET = "the content of a file of the operator"


class Inner:
    """A website in the private network. It counts its visitors, and redirects ``/to?ADDRESS`` to an address."""

    def __init__(self) -> None:
        self.visits: list[str] = []
        inner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path, _, to = self.path.partition("?")
                if path != "/to":
                    inner.visits.append(self.path)
                self.send_response(302 if to else 200)
                self.send_header("location" if to else "content-type", to or "text/plain")
                self.send_header("content-length", "0")
                self.end_headers()

            def do_POST(self) -> None:
                self.do_GET()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@dataclass
class Target:
    """A running server that is attacked.

    Args:
        name: ``serve``, ``dev`` or ``service``.
        url: its address.
        token: a token of a user.
        homes: the ``MOOT_HOME`` of each of its processes.
        mark: a file that exists if the module `evilmod` was imported.
        inner: a website that only this machine may reach.
        planted: the names of files that `prepare` puts into the homes.
        ids: values for the placeholders in paths and bodies, such as ``{thread}``.
    """

    name: str
    url: str
    token: str
    homes: list[Path]
    mark: Path
    inner: Inner
    planted: tuple[str, ...] = ("secret.json", "pipe.json")
    ids: dict[str, str] = field(default_factory=dict)

    def send(
        self, method: str, path: str, body: Any = None, more_headers: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        """Send a request with the user's token; return the status and the text of the response.

        The body is sent as JSON; bytes are sent unchanged.
        """
        text = "" if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False)
        for name, value in self.ids.items():
            text, path = text.replace(f"{{{name}}}", value), path.replace(f"{{{name}}}", value)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        headers["Accept"] = "application/json, text/event-stream"
        data = body if body is None or isinstance(body, bytes) else text.encode()
        request = urllib.request.Request(self.url + path, data, {**headers, **(more_headers or {})}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def prepare(self) -> None:
        """Create a thread and an assistant, and plant files where callers may look for them."""
        own = {"graph_id": "rag", "context": {"model": "fake:1"}, "name": "own"}
        made = {"thread": ("/threads", {}), "assistant": ("/assistants", own)}
        for name, (path, body) in made.items():
            status, answer = self.send("POST", path, body)
            assert status == 200, answer
            self.ids[name] = json.loads(answer)[f"{name}_id"]
        self.ids["inner"] = str(self.inner.port)
        for home in self.homes:
            private_folder(home / "calibrations")
            (home / "secret.json").write_text(SECRET)
            (home / "calibrations" / "linked.json").symlink_to(home / "secret.json")
            os.mkfifo(home / "calibrations" / "pipe.json")
            (home / "calibrations" / "device.json").symlink_to("/dev/zero")


def plant_module(folder: Path) -> Path:
    """Put the module `evilmod` into a new folder; return the file that it creates if it is imported."""
    (folder / "modules").mkdir()
    mark = folder / "imported"
    (folder / "modules" / "evilmod.py").write_text(f"open({str(mark)!r}, 'w').close()\nx = 1\n")
    return mark


@contextmanager
def running_target(name: str, folder: Path) -> Iterator[Target]:
    """Run a server, with what `OPERATOR` lists and with a token, and prepare it.

    Args:
        name: ``serve``, ``dev`` or ``service``.
        folder: an empty folder.
    """
    mark, inner, port = plant_module(folder), Inner(), free_port()
    with ExitStack() as stack:
        stack.enter_context(inner.server)
        stack.callback(inner.server.shutdown)
        stub = stack.enter_context(running_stub(folder / "stub"))
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("PYTHONPATH", f"{folder / 'modules'}:{ROOT}")
        if name == "service":
            service = stack.enter_context(running_service(folder, stub, OPERATOR))
            url, homes = f"http://127.0.0.1:{service.ports['page']}", [folder / f"home-{one}" for one in OURS]
        else:
            variables = OPERATOR | {"MOOT_TOKEN": TOKEN}
            program = ["-c", "from moot.cli.main import run; run()", "serve", "--port", str(port)]
            server = stack.enter_context(
                contextmanager(running)(program, folder, port, stub, **variables)
                if name == "serve"
                else contextmanager(langgraph_dev)(folder / "dev", stub, **variables)
            )
            url, homes = server.url, [server.folder / "home"]
        target = Target(name, url, TOKENS["cid"] if name == "service" else TOKEN, homes, mark, inner)
        target.prepare()
        yield target
