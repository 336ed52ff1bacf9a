"""SIGTERM and Ctrl-C stop a command, also while a thread is busy. A stopped debate still writes its document."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli import blocking
from tests.commands import COMMAND
from tests.conftest import CLAIM, StartStub
from tests.forked import start

SIGNALS = (signal.SIGTERM, signal.SIGINT)
RAG = ["--graph", "rag", "--model", "openai:stub"]
AT_IMPORT = """
import os, sys
class AtImport:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), {signal})
sys.meta_path.insert(0, AtImport())
from moot.cli.main import run
run()
"""
"""A program that runs a command, and sends itself the signal ``signal`` when it first imports ``module``."""
IGNORED = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
"""Makes a process ignore SIGINT, as a shell script does for the commands that it starts in the background."""


def start_debate(*words: str, program: Sequence[str] = COMMAND) -> subprocess.Popen[str]:
    """Start a debate in a new process, with its standard input open.

    Only `COMMAND` is forked. Other programs start without imported modules.
    """
    command = [*program, "verify", CLAIM, *words]
    pipe = subprocess.PIPE
    return (start if program is COMMAND else subprocess.Popen)(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def read_until(process: subprocess.Popen[str], words: str) -> None:
    """Read stderr until it contains these words."""
    assert process.stderr is not None
    stderr = ""
    while words not in stderr:
        character = process.stderr.read(1)
        assert character, stderr
        stderr += character


def check_stopped(process: subprocess.Popen[str], out: Path, number: signal.Signals) -> dict[str, object]:
    """Wait for a stopped debate; check its exit code, output and document; return the document."""
    stdout, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number, errors
    assert errors.count("moot: interrupted") == 1
    assert "Traceback" not in errors
    document: dict[str, object] = json.loads(out.read_text())
    assert json.loads(stdout) == document
    assert (document["status"], document["answer"], document["claim"]) == ("interrupted", None, CLAIM)
    return document


@pytest.mark.parametrize(
    ("module", "number"),
    [
        ("moot.cli.verify", signal.SIGTERM),
        ("moot.nodes._models.chat_models", signal.SIGINT),
        ("chromadb", signal.SIGINT),
    ],
)
def test_a_signal_before_the_first_call_stops_the_debate(
    number: signal.Signals, module: str, start_stub: StartStub, tmp_path: Path
) -> None:
    stub, out = start_stub(), tmp_path / "verdict.json"
    program = [sys.executable, "-c", AT_IMPORT.format(module=module, signal=int(number))]
    # An encoder in the process would import PyTorch, which takes longer than the rest of the test.
    sources = ["--set", 'sources=["chroma:demo-news"]', "--set", "embedder=openai:stub-embedding"]
    process = start_debate(*RAG, *sources, "--json", "--out", str(out), program=program)
    document = check_stopped(process, out, number)
    chats = [call for call in stub.calls() if call["kind"] == "chat"]  # calls of the encoder are allowed
    assert (document["calls"], chats) == ([], [])


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_a_thread_is_busy_stops_the_debate(
    number: signal.Signals, start_stub: StartStub, tmp_path: Path
) -> None:
    start_stub()
    out = tmp_path / "verdict.json"
    process = start_debate(
        *RAG, "--set", f'sources=["langchain:{blocking.__name__}:in_thread"]', "--json", "--out", str(out)
    )
    read_until(process, blocking.ASKED)
    process.send_signal(number)
    check_stopped(process, out, number)


@pytest.mark.parametrize("limit", ["timeout=1", "max_seconds=1"])
def test_a_command_at_its_time_limit_ends_despite_a_busy_thread(limit: str, start_stub: StartStub) -> None:
    start_stub()
    process = start_debate(
        *RAG, "--set", f'sources=["langchain:{blocking.__name__}:in_thread"]', "--set", limit, "--json"
    )
    said, errors = process.communicate(timeout=60)  # the thread is busy for ten minutes
    assert (process.returncode, json.loads(said)["status"]) == (3, "failed"), errors


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_the_debate_waits_for_a_person_stops_the_debate(
    number: signal.Signals, start_stub: StartStub, tmp_path: Path
) -> None:
    start_stub()
    out = tmp_path / "verdict.json"
    more = ["--set", 'sources=["bm25:demo-news"]', "--ask", "evidence", "--json", "--out", str(out)]
    process = start_debate(*RAG, *more)
    read_until(process, "numbers to strike")
    process.send_signal(number)
    assert check_stopped(process, out, number)["evidence"]


def test_a_second_ctrl_c_ends_the_command_at_once(start_stub: StartStub) -> None:
    start_stub()
    process = start_debate(*RAG, "--set", f'sources=["langchain:{blocking.__name__}:in_loop"]')
    read_until(process, blocking.ASKED)
    process.send_signal(signal.SIGINT)
    read_until(process, "Press Ctrl-C again")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT


@pytest.mark.parametrize(("number", "preamble"), [(signal.SIGTERM, ""), (signal.SIGINT, ""), (signal.SIGTERM, IGNORED)])
def test_a_command_stopped_during_its_imports_prints_a_message(number: signal.Signals, preamble: str) -> None:
    program = [sys.executable, "-c", preamble + AT_IMPORT.format(module="moot.cli.tables", signal=int(number))]
    done = subprocess.run([*program, "tasks"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (128 + number, "moot: interrupted.\n")
