"""Tools of real MCP servers as sources: a process and an HTTP server."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moot.core.endpoint import Limits
from moot.retrievers import MootError, UserError, WorldError, open_retriever

pytestmark = pytest.mark.usefixtures("sockets_of_mcp")

SERVER = str(Path(__file__).with_name("mcp_server.py"))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a server that speaks HTTP."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, SERVER, str(port)])
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            assert process.poll() is None
            time.sleep(0.05)
    yield f"http://127.0.0.1:{port}/mcp"
    process.terminate()
    process.wait()


@pytest.fixture
def servers(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The operator's file."""
    locked = {"url": address, "headers": {"X-Key": "${LAKE_KEY}"}}
    tools = ["words", "nothing", "odd", "broken", "slow", "two", "gone"]
    file = tmp_path / "servers.json"
    file.write_text(
        json.dumps(
            {
                "mcpServers": {
                    "own": {
                        "command": sys.executable,
                        "args": [SERVER],
                        "env": {"LAKE_KEY": "${LAKE_KEY}"},
                        "tools": ["words"],
                    },
                    "lakes": locked | {"tools": {"search": {"language": "de"}, **{name: {} for name in tools}}},
                    "shut": {"url": address, "tools": ["search"]},
                    "dead": {"url": "http://127.0.0.1:9/mcp", "tools": ["search"]},
                    "missing": {"command": "no-such-command", "tools": ["search"]},
                    "crashing": {"command": sys.executable, "args": ["-c", "exit('bad luck')"], "tools": ["search"]},
                    "unset": {"command": "a", "args": ["${NOT_SET_AT_ALL}"], "tools": ["search"]},
                }
            }
        )
    )
    monkeypatch.setenv("MOOT_MCP_SERVERS", str(file))
    monkeypatch.setenv("LAKE_KEY", "open")
    monkeypatch.setenv("OTHER_API_KEY", "key-0123456789abcdef")
    return file


async def found_by(name: str, **limits: Any) -> list[Any]:
    return [*await (await open_retriever(name, limits=Limits(**limits))).search("Baikal", 3)]


async def test_a_tool_of_an_http_server_is_searched(servers: Path) -> None:
    """The file gives the tool a fixed argument, and the server a header with the value of a variable."""
    first, *others = await found_by("mcp:lakes/search")
    assert (first["title"], first["text"]) == ("Baikal", "Deep: Baikal in de.")
    assert first["url"] == first["source"] == "https://example.org/baikal"
    assert first["retrievals"] == [{"query": "Baikal", "score": None, "retriever": "mcp:lakes/search"}]
    assert [piece["title"] for piece in others] == ["Lake 1", "Lake 2"]
    assert await found_by("mcp:lakes/nothing") == []


@pytest.mark.usefixtures("servers")
async def test_a_tool_of_a_process_is_searched() -> None:
    """The process has the variables that its entry names, and not moot's own keys."""
    [piece] = await found_by("mcp:own/words")
    assert piece["text"] == "Baikal is wet. KEY=open, HOME=True"
    assert piece["source"] == "mcp:own/words"


@pytest.mark.usefixtures("servers")
@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("lakes/odd", "bad_response", "no text"),
        ("lakes/broken", "search_failed", "reports a fault: Error executing tool broken"),
        ("lakes/two", "unknown_retriever", "needs the argument place"),
        ("lakes/gone", "unknown_retriever", "has no tool 'gone'. It has: search, words"),
        ("shut/search", "search_failed", "Check its entry"),
        ("dead/search", "search_failed", "ConnectError"),
        ("missing/search", "search_failed", "No such file or directory: 'no-such-command'"),
        ("crashing/search", "search_failed", "it wrote: bad luck"),
        ("unset/search", "invalid_environment", "NOT_SET_AT_ALL"),
        ("lakes/other", "unknown_retriever", "tool 'other' of 'lakes' is not in the file in MOOT_MCP_SERVERS"),
        ("others/search", "unknown_retriever", "MCP server 'others' is not in the file"),
        ("lakes", "unknown_retriever", "is unknown. Known: chroma"),
        ("lakes/", "unknown_retriever", "is unknown. Known: chroma"),
    ],
)
async def test_faults_say_what_to_do(name: str, kind: str, words: str) -> None:
    with pytest.raises(MootError, match=words) as caught:
        await found_by(f"mcp:{name}")
    assert (caught.value.kind, caught.value.detail.endswith(".")) == (kind, True)


@pytest.mark.usefixtures("servers")
async def test_a_slow_tool_times_out() -> None:
    with pytest.raises(WorldError, match="in time") as caught:
        await found_by("mcp:lakes/slow", timeout=1)
    assert (caught.value.kind, caught.value.retryable) == ("timeout", True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "No MCP servers are set up"),
        ("{", "cannot be used"),
        ('{"mcpServers": {"lakes": {"tools": ["search"]}}}', "either a `command` or a `url`"),
        ('{"mcpServers": {"lakes": {"command": "a", "url": "http://a.example", "tools": []}}}', "either"),
        ('{"mcpServers": {"lakes": {"command": "a"}}}', "It lists no tools"),
        ('{"mcpServers": {"lakes": {"command": "a", "tools": [1]}}}', "mcpServers.lakes.tools"),
        ('{"servers": {"lakes": {"url": "ftp://a.example", "tools": ["search"]}}}', "not a web address"),
    ],
)
async def test_a_bad_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, words: str
) -> None:
    if text is not None:
        (tmp_path / "servers.json").write_text(text)
        monkeypatch.setenv("MOOT_MCP_SERVERS", str(tmp_path / "servers.json"))
    with pytest.raises(UserError, match=words):
        await open_retriever("mcp:lakes/search")


async def test_a_missing_file_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MOOT_MCP_SERVERS", str(tmp_path / "no.json"))
    with pytest.raises(UserError, match="MOOT_MCP_SERVERS: There is no file"):
        await open_retriever("mcp:lakes/search")
