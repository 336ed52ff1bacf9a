"""A command that is killed after any of its writes leaves every debate once, and listed as it is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_batch import read_table, write_claims
from tests.commands import moot
from tests.conftest import StartStub
from tests.forked import start

MODEL = ("--model", "openai:stub", "--graph", "chain_of_thought")
KILLED = """
import os, signal
from moot.cli.main import run
from moot.core.store import FileStore

left = int(os.environ["WRITES"])

def dying(write):
    def run(*words, **options):
        global left
        result = write(*words, **options)
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return run

FileStore.do, os.replace = dying(FileStore.do), dying(os.replace)
run()
"""


def run_until_write(words: list[object], writes: int) -> bool:
    """Run a command that is killed after a number of writes; return whether it was killed."""
    command = [sys.executable, "-c", KILLED, *map(str, words)]
    env = {**os.environ, "WRITES": str(writes)}
    with start(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        code = process.wait()
    assert code in (0, -signal.SIGKILL)
    return bool(code)


def listed() -> list[dict[str, Any]]:
    """The entries of ``moot list``. A debate is listed once, and is done if and only if it has a document."""
    entries: list[dict[str, Any]] = json.loads(moot("list", "--json").stdout)
    statuses = {run["id"]: run["status"] for run in json.loads(moot("replies", "--json").stdout)}
    for entry in entries:
        assert entry["status"] == statuses[entry["id"][-32:]]
        assert (moot("show", entry["id"], "--json").returncode == 0) == (entry["status"] == "done")
    assert len({entry["id"] for entry in entries}) == len(entries)
    return entries


@pytest.mark.parametrize("workers", [1, 2])
def test_a_batch_killed_after_any_write_has_every_row_once(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    stub, claims = start_stub(), write_claims(tmp_path, ["An otter sleeps.", "A heron sleeps."])
    for writes in range(workers, 100, 3):  # the other test kills after other numbers of writes
        monkeypatch.setenv("MOOT_HOME", str(tmp_path / f"home{writes}"))
        out, before = tmp_path / f"out{writes}", len(stub.calls())
        words: list[object] = ["batch", claims, "--out", out, *MODEL, "--at-once", 1, "--workers", workers]
        was_killed = run_until_write(words, writes)
        listed()
        if was_killed:
            assert moot(*words).returncode == 0
        assert sorted(row["status"] for row in read_table(out)) == ["done", "done"]
        assert [entry["status"] for entry in listed()] == ["done", "done"]
        assert len(stub.calls()) - before <= 2 + was_killed * workers  # a killed call in flight is made again
        if not was_killed:
            assert writes > 5
            return
    raise AssertionError("the batch never ended")


def test_a_debate_killed_after_any_write_is_done_or_resumed(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = start_stub()
    for writes in range(1, 50, 2):
        monkeypatch.setenv("MOOT_HOME", str(tmp_path / f"home{writes}"))
        words: list[object] = ["verify", "An otter sleeps.", *MODEL, "--out", tmp_path / f"{writes}.json"]
        before, was_killed = len(stub.calls()), run_until_write(words, writes)
        if [entry["status"] for entry in listed()] != ["done"]:
            assert was_killed
            assert moot(*words).returncode == 0
        assert [entry["status"] for entry in listed()] == ["done"]
        assert json.loads((tmp_path / f"{writes}.json").read_bytes())["status"] == "done"
        assert len(stub.calls()) - before == 1
        if not was_killed:
            return
    raise AssertionError("the debate never ended")
