"""The real LangGraph server, as Studio and the API's users meet it: no key, no network, no ``--allow-blocking``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moot.graphs import DESCRIPTIONS
from moot.graphs.tool_mad import graph

from tests.conftest import MODELS, free_port, running_stub, says, supports

ROOT = Path(__file__).parents[1]
CLAIM = "The platypus is a mammal that lays eggs."


class Server:
    """A running ``langgraph dev``."""

    def __init__(self, url: str, log: Path) -> None:
        self.url = url
        self.log = log

    def send(self, path: str, body: dict[str, Any] | None = None) -> bytes:
        """The body of an answer; a POST where there is a body to send."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=240) as reply:
            content: bytes = reply.read()
            return content

    def json(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """As `send`, read as JSON."""
        return json.loads(self.send(path, body))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server on the scripted endpoint, with a home that holds no corpora yet."""
    tmp_path = tmp_path_factory.mktemp("server")
    rules = [says("rag", "SUPPORTS"), says("search", "SUPPORTS"), *supports([True, True], CLAIM)]
    with running_stub(tmp_path / "stub", rules) as stub:
        yield from serve(tmp_path, stub.url)


def serve(tmp_path: Path, endpoint: str) -> Iterator[Server]:
    """Runs the server in a folder until it is no longer needed."""
    port, log = free_port(), tmp_path / "server.log"
    folder = tmp_path / "server"
    folder.mkdir()
    (folder / "langgraph.json").write_text((ROOT / "langgraph.json").read_text())
    quiet = {"LANGGRAPH_CLI_NO_ANALYTICS": "1", "LANGSMITH_TRACING": "false", "MOOT_HOME": str(tmp_path / "home")}
    quiet["OPENAI_BASE_URL"] = endpoint
    quiet["WIKIPEDIA_BASE_URL"] = f"http://127.0.0.1:{free_port()}"
    # As `langgraph dev --no-browser --no-reload`, from the virtual environment that the tests run in.
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload", "--port", str(port)]
    with log.open("w") as sink:
        process = subprocess.Popen(command, cwd=folder, env=os.environ | quiet, stdout=sink, stderr=sink)
        try:
            running = Server(f"http://127.0.0.1:{port}", log)
            deadline = time.monotonic() + 90
            while True:
                assert process.poll() is None, log.read_text()[-3000:]
                assert time.monotonic() < deadline, log.read_text()[-3000:]
                try:
                    running.send("/ok")
                    break
                except (urllib.error.URLError, ConnectionError):
                    process.poll()
            yield running
        finally:
            process.terminate()
            process.wait()


def test_the_server_shows_and_runs_the_graph(server: Server) -> None:
    assistants = {a["graph_id"]: a for a in server.json("/assistants/search", {"limit": 100})}
    assert {name: a["description"] for name, a in assistants.items()} == DESCRIPTIONS
    assistant = assistants["tool_mad"]
    assert assistant["description"] == DESCRIPTIONS["tool_mad"]

    schemas = server.json(f"/assistants/{assistant['assistant_id']}/schemas")
    assert schemas["input_schema"]["required"] == ["claim"]
    assert schemas["input_schema"]["properties"]["claim"]["maxLength"] == 4000
    settings = schemas["context_schema"]["properties"]
    assert all(field.get("description") and "default" in field for field in settings.values() if "$ref" not in field)
    assert (settings["max_rounds"]["minimum"], settings["max_rounds"]["default"]) == (1, 3)
    assert set(schemas["output_schema"]["properties"]) == set(graph.output_schema.__annotations__)

    drawing = server.json(f"/assistants/{assistant['assistant_id']}/graph?xray=true")
    names = {node["id"] for node in drawing["nodes"]}
    assert {"debater:formulate_query", "debater:retrieve", "debater:respond", "score:faithfulness", "judge"} <= names

    run = {"assistant_id": "tool_mad", "input": {"claim": CLAIM}, "context": {"models": MODELS}}
    document = server.json("/runs/wait", run)
    assert (document["status"], document["answer"], document["stop_reason"]) == ("done", "SUPPORTS", "stable_consensus")
    assert document["evidence"]

    stream = server.send("/runs/stream", run | {"stream_mode": ["updates"], "stream_subgraphs": True}).decode()
    for name in ("formulate_query", "retrieve", "respond", "faithfulness", "answer_relevance", "agree", "close"):
        assert f'"{name}":' in stream

    thread = server.json("/threads", {})["thread_id"]
    for claim, answer in ((CLAIM, "SUPPORTS"), (" ", None), (CLAIM, "SUPPORTS")):
        document = server.json(f"/threads/{thread}/runs/wait", run | {"input": {"claim": claim}})
        assert (document["answer"], len(document["turns"])) == (answer, 2 if answer else 0)

    refused = server.json("/runs/wait", run | {"input": {"claim": " "}})
    assert (refused["status"], refused["error"]["kind"]) == ("failed", "invalid_claim")
    assert "BlockingError" not in server.log.read_text()


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_every_graph_runs_on_the_server(server: Server, name: str) -> None:
    # On its defaults; MADKE reads its stand-ins, as nobody is at WIKIPEDIA_BASE_URL.
    run = {"assistant_id": name, "input": {"claim": CLAIM}, "context": {"model": "openai:stub", "attempts": 1}}
    document = server.json("/runs/wait", run)
    assert (document["graph"], document["status"], document["error"]) == (name, "done", None)
    assert document["calls"]
    assert document["answer"] or name == "cortex_debate"  # which abstains when it ends in a tie
    assert "BlockingError" not in server.log.read_text()


def test_langgraph_json_names_every_graph() -> None:
    named = json.loads((ROOT / "langgraph.json").read_text())["graphs"]
    assert {name: entry["description"] for name, entry in named.items()} == DESCRIPTIONS
    assert all(entry["path"] == f"moot.graphs.{name}:graph" for name, entry in named.items())
