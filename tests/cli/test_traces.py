"""A process sends its last traces before it ends. If LangSmith does not answer, the process soon drops them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.collector import collecting
from tests.conftest import free_port

LONGEST_DELAY = 2.0
"""The longest extra delay, in seconds, at the end of a process if LangSmith does not answer."""
ATTEMPTS = 3
COMMAND: tuple[str, ...] = ("-c", "from moot.cli.main import run; run()", "verify", "Bees fly.", "--json")
COMMAND += ("--graph", "society_of_minds", "--model", "fake:1")
PROGRAM = """
import asyncio, json
from moot.graphs.society_of_minds import graph
print(json.dumps(asyncio.run(graph.ainvoke({"claim": "Bees fly."}, context={"model": "fake:1"})), indent=2), flush=True)
"""


@cache
def run_untraced(arguments: tuple[str, ...]) -> tuple[dict[str, Any], str, float]:
    """Like `timed_run`, without tracing. The result is cached."""
    return timed_run(arguments)


def timed_run(arguments: tuple[str, ...], **environment: str) -> tuple[dict[str, Any], str, float]:
    """Run a debate; return its document, its stderr, and the seconds from the document to the end of the process.

    The debate has a home of its own, so that stderr does not tell of earlier checks of the claim.
    """
    command = [sys.executable, *arguments]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with (
        TemporaryDirectory() as home,
        subprocess.Popen(command, env=os.environ | environment | {"MOOT_HOME": home}, text=True, **streams) as process,  # type: ignore[call-overload]
    ):
        lines: list[str] = []
        while not lines or lines[-1] != "}\n":
            lines.append(process.stdout.readline())
            assert lines[-1], process.stderr.read()
        printed = time.monotonic()
        stderr = process.stderr.read()
        assert process.wait() == 0, stderr
        return json.loads("".join(lines)), stderr, time.monotonic() - printed


@contextmanager
def silent() -> Iterator[str]:
    """The address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def mute() -> Iterator[str]:
    """The address of a LangSmith server that answers questions about itself, but no upload."""
    with collecting(mute=True) as collector:
        yield collector.url


@contextmanager
def closed() -> Iterator[str]:
    """The address of a closed port."""
    yield f"http://127.0.0.1:{free_port()}"


def test_a_trace_is_sent_before_the_command_ends() -> None:
    for _ in range(ATTEMPTS):  # on a busy machine, an upload may take longer than the command waits
        with collecting() as collector:
            document, stderr, _ = timed_run(COMMAND, **collector.environment)
        if not stderr:
            break
    assert stderr == ""
    calls = [run for run in collector.runs.values() if run["run_type"] == "llm"]
    assert len(calls) == len(document["calls"]) == 6  # three agents, two rounds
    assert all(run["end_time"] for run in collector.runs.values())


@pytest.mark.parametrize(
    ("dead", "arguments"),
    [(closed, COMMAND), (silent, COMMAND), (mute, ("-c", PROGRAM))],
    ids=["closed-command", "silent-command", "mute-program"],
)
def test_a_dead_langsmith_delays_the_exit_by_less_than_two_seconds(dead: Any, arguments: tuple[str, ...]) -> None:
    plain, _, usual = run_untraced(arguments)
    delays: list[float] = []
    # A busy machine may be slow once, so a long delay is measured again.
    while len(delays) < ATTEMPTS and (not delays or delays[-1] >= usual + LONGEST_DELAY):
        with collecting() as collector, dead() as address:
            document, stderr, delay = timed_run(arguments, **collector.environment | {"LANGSMITH_ENDPOINT": address})
        assert stderr.endswith("moot: parts of the trace have not reached LangSmith.\n")
        assert arguments != COMMAND or stderr.count("\n") == 1
        assert document["turns"] == plain["turns"]
        delays.append(delay)
    assert min(delays) < usual + LONGEST_DELAY
