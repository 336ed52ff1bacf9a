"""``moot serve``: its start, its end, and its environment; it contacts no other host."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import urllib.request
import webbrowser
from collections.abc import Iterator
from pathlib import Path

import pytest
from moot.core.errors import UserError
from moot.graphs._registry import DESCRIPTIONS, OTHER_GRAPHS
from moot.web.serve import STUDIO, announce, announcement, browser_url, check_free, prepare, server_config, webhooks
from typer.testing import CliRunner

from tests.conftest import CLAIM, free_port, running_stub
from tests.forked import start
from tests.serving import Server, plant, running


class RecordingProxy:
    """A proxy for all external addresses. It records each connection and closes it without an answer."""

    def __init__(self) -> None:
        self.callers: list[bytes] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        try:
            while True:
                caller, _ = self.listener.accept()
                with caller:
                    self.callers.append(caller.recv(200))
        except OSError:
            return  # the socket is closed


@pytest.fixture(scope="module")
def recording_proxy() -> Iterator[RecordingProxy]:
    proxy = RecordingProxy()
    yield proxy
    proxy.listener.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, recording_proxy: RecordingProxy) -> Iterator[Server]:
    """``moot serve --studio``, started in a folder with planted pickles. Its LangSmith never answers."""
    folder = tmp_path_factory.mktemp("serve")
    plant(folder)
    (folder / "tmp").mkdir()
    port = free_port()
    environment = {"HTTPS_PROXY": recording_proxy.url, "HTTP_PROXY": recording_proxy.url, "NO_PROXY": "127.0.0.1"}
    command = ["-c", "from moot.cli.main import run; run()", "serve", "--studio", "--port", str(port)]
    slow = {"model": "stub-slow", "delay_ms": 600_000}
    with running_stub(folder / "stub", [slow]) as stub, socket.create_server(("127.0.0.1", 0), backlog=100) as silent:
        environment |= dict.fromkeys(("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"), "true")
        environment |= {"LANGSMITH_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        yield from running(command, folder, port, stub, TMPDIR=str(folder / "tmp"), **environment)


def test_a_server_unpickles_no_file_and_contacts_no_other_host(served: Server, recording_proxy: RecordingProxy) -> None:
    context = {"model": "openai:stub", "sources": ["bm25:demo-news"]}
    run = {"assistant_id": "rag", "input": {"claim": CLAIM}, "context": context}
    assert served.json("/runs/wait", run)["status"] == "done"
    assert "debug" not in served.log()
    assert len(served.json("/assistants/search", {"limit": 100})) == len(DESCRIPTIONS | OTHER_GRAPHS)
    assert not (served.folder / "unpickled").exists()
    [own] = (served.folder / "tmp").glob("moot-*")
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    for line in ("/moot", "/docs", "/mcp", f"{STUDIO}/studio/?baseUrl={served.url}"):
        assert line in served.log()
    assert recording_proxy.callers == []


def test_the_studio_option_allows_studio_but_not_another_website(served: Server) -> None:
    request = urllib.request.Request(f"{served.url}/info", headers={"origin": STUDIO, "sec-fetch-site": "cross-site"})
    with urllib.request.urlopen(request) as reply:
        assert reply.headers["access-control-allow-origin"] == "*"
    asks = {"origin": STUDIO, "access-control-request-method": "POST", "access-control-request-private-network": "true"}
    preflight = urllib.request.Request(f"{served.url}/runs/stream", headers=asks, method="OPTIONS")
    with urllib.request.urlopen(preflight) as reply:
        assert reply.headers["access-control-allow-private-network"] == "true"
    assert served.refused("/info", headers={"origin": "https://evil.example"})[0] == 403


def test_a_port_in_use_is_an_error(served: Server) -> None:
    from moot.cli.main import app

    port = served.url.rpartition(":")[2]
    done = CliRunner().invoke(app, ["serve", "--port", port])
    assert "cannot listen at 127.0.0.1" in str(done.exception)
    assert f"Choose another port: --port {int(port) + 1}" in str(done.exception)
    check_free("127.0.0.1", free_port())


def test_an_interrupted_server_stops_during_a_debate_and_removes_its_folder(served: Server) -> None:
    run = {"assistant_id": "standard_prompting", "input": {"claim": CLAIM}, "context": {"model": "openai:stub-slow"}}
    body = json.dumps(run | {"stream_mode": "custom"}).encode()
    request = urllib.request.Request(f"{served.url}/runs/stream", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request) as stream:
        while b'"node":"answer"' not in stream.readline():  # until the debate runs; the client stays connected
            pass
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(30) == 0
    assert list((served.folder / "tmp").glob("moot-*")) == []
    assert "Traceback" not in served.log()


def test_the_start_sets_the_allowed_host_and_an_absolute_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the option for Studio, the announcement names the option."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "MOOT_ALLOWED_HOSTS",
        "MOOT_ALLOWED_ORIGINS",
        "LANGGRAPH_NO_VERSION_CHECK",
        "LOG_LEVEL",
        "MOOT_PRICES",
        "LANGSMITH_USE_DAEMON",
        "LANGSMITH_DISABLE_RUN_COMPRESSION",
        "FORWARDED_ALLOW_IPS",
    ):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("MOOT_HOME", "home")
    handler = signal.getsignal(signal.SIGTERM)
    prepare("192.168.1.7", studio=False)
    signal.signal(signal.SIGTERM, handler)
    logging.disable(logging.NOTSET)
    assert (os.environ["MOOT_HOME"], os.environ["MOOT_ALLOWED_HOSTS"]) == (str(tmp_path / "home"), "192.168.1.7")
    assert "Studio: with --studio" in announcement("http://127.0.0.1:2024", "127.0.0.1")


def test_the_addresses_are_printed_after_the_server_has_begun_to_listen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]

        def start_to_listen(seconds: float) -> None:
            assert capsys.readouterr().err == ""
            listener.listen()

        monkeypatch.setattr(time, "sleep", start_to_listen)
        monkeypatch.setattr(webbrowser, "open", opened.append)
        announce("127.0.0.1", port, open_browser=True)
    assert f"Page:   http://127.0.0.1:{port}/moot" in capsys.readouterr().err
    assert opened == [f"http://127.0.0.1:{port}/moot"]


def test_the_address_for_a_browser_has_brackets_around_an_ipv6_address() -> None:
    """For a server on all interfaces, the address has the host ``localhost``."""
    assert browser_url("::1", 2024) == "http://[::1]:2024"
    assert browser_url("::", 2024) == browser_url("0.0.0.0", 2024) == "http://localhost:2024"


def test_a_server_on_all_interfaces_announces_that_allowed_hosts_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_ALLOWED_HOSTS", "")
    assert "MOOT_ALLOWED_HOSTS" in announcement("http://localhost:2024", "0.0.0.0")
    assert "MOOT_ALLOWED_HOSTS" not in announcement("http://localhost:2024", "127.0.0.1")
    monkeypatch.setenv("MOOT_ALLOWED_HOSTS", "moot.example.org")
    assert "MOOT_ALLOWED_HOSTS" not in announcement("http://localhost:2024", "0.0.0.0")


def test_an_environment_variable_configures_webhooks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert webhooks()["url"]["disable_private_ips"]
    monkeypatch.setenv("LANGGRAPH_WEBHOOKS", '{"url": {"allowed_domains": ["hooks.example.org"]}}')
    assert server_config()["webhooks"] == {"url": {"allowed_domains": ["hooks.example.org"]}}
    for wrong in ("{", "[]"):
        monkeypatch.setenv("LANGGRAPH_WEBHOOKS", wrong)
        with pytest.raises(UserError, match="LANGGRAPH_WEBHOOKS must be a JSON object"):
            server_config()


@pytest.mark.parametrize("variable", ["MOOT_USERS", "MOOT_DATABASE"])
def test_moot_serve_does_not_start_with_a_variable_of_the_service(variable: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from moot.cli.main import run; run()", "serve", "--port", str(free_port())]
    variables = os.environ | {"MOOT_HOME": str(tmp_path), variable: "postgresql://127.0.0.1/moot"}
    pipe = subprocess.PIPE
    with start(command, server=True, env=variables, stdout=pipe, stderr=subprocess.STDOUT, text=True) as process:
        printed, _ = process.communicate(timeout=120)
    assert process.returncode == 3
    assert f"{variable} is set, but this server " in printed
