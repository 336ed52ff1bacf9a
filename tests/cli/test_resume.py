"""``moot verify`` goes on by the ledger: the same command, ``--resume``, ``--fresh``; a person's replies are kept."""

from __future__ import annotations

import fcntl
import json
import os
import select
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.commands import COMMAND, moot, moot_process
from tests.conftest import StartStub, StubEndpoint

CLAIM = "An otter holds hands while it sleeps."
RAG = ["verify", CLAIM, "--graph", "rag", "--model", "openai:stub", "--set", 'sources=["bm25:demo-news"]']
DOWN = {"status": 500, "times": 1}
ONCE = ["--set", "attempts=1"]


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    if (home / "corpora").exists():
        (tmp_path / "home" / "corpora").symlink_to(home / "corpora")


def document(*words: str, typed: str = "") -> tuple[int, dict[str, Any], str]:
    done = moot(*RAG, *words, "--json", typed=typed)
    return done.returncode, json.loads(done.stdout or "null"), done.stderr


def test_resume_takes_the_debate_with_its_settings(start_stub: StartStub) -> None:
    start_stub([DOWN])
    code, failed, _ = document(*ONCE, "--set", "k=2")
    assert (code, failed["status"]) == (3, "failed")
    code, _, said = document("--resume", "--set", "k=3")
    assert (code, "other settings (k)" in said) == (2, True), said
    code, done, _ = document("--resume")
    assert (code, done["id"], done["settings"]["k"]) == (0, failed["id"], 2)
    code, _, said = document("--resume")
    assert (code, "no unfinished debate" in said) == (2, True), said


def test_what_a_person_replied_is_not_asked_twice(start_stub: StartStub) -> None:
    stub = start_stub([DOWN])
    code, failed, _ = document(*ONCE, "--ask", "evidence", typed="\nOtters sleep on their backs.\n\n")
    assert (code, failed["status"]) == (3, "failed")
    code, done, said = document(*ONCE, "--ask", "evidence")
    assert (code, done["id"]) == (0, failed["id"]), said
    assert "going on with the debate that failed at" in said
    assert "Otters sleep on their backs." in stub.prompts()[-1]


def test_a_debate_that_waits_for_a_person_goes_on_in_another_process(start_stub: StartStub) -> None:
    stub = start_stub()
    words = ["verify", CLAIM, "--graph", "peer_review", "--model", "openai:stub", "--ask", "remark", "--json"]
    first = subprocess.Popen([*COMMAND, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert first.stderr is not None
    said = b""
    while b"> " not in said:  # it asks
        said += os.read(first.stderr.fileno(), 4096)
    first.kill()
    first.communicate()
    [row] = json.loads(moot("ledger", "--json").stdout)
    assert (row["status"], row["calls"]) == ("waiting", len(chats(stub)))
    assert row["calls"]
    second = moot_process(*words, typed="Otters sleep on their backs.\n" * 9)
    document = json.loads(second.stdout)
    assert (second.returncode, document["status"], document["id"]) == (0, "done", row["id"]), second.stderr
    assert "going on with the debate that waited for you" in second.stderr
    assert f": {row['calls']} calls are in the ledger" in second.stderr
    assert len(chats(stub)) == document["usage"]["calls"]  # none was made twice
    assert "Otters sleep on their backs." in stub.prompts()[-1]


def chats(stub: StubEndpoint) -> list[Any]:
    return [call for call in stub.calls() if call["kind"] == "chat"]


def test_fresh_begins_anew(start_stub: StartStub) -> None:
    start_stub([DOWN])
    _, failed, _ = document(*ONCE)
    code, done, said = document(*ONCE, "--fresh")
    assert (code, done["id"] != failed["id"], "going on" in said) == (0, True, False)
    code, _, said = document("--fresh", "--resume")
    assert (code, "--resume goes on" in said) == (2, True)


def test_a_mode_that_there_is_not_is_refused() -> None:
    code, _, said = document("--ledger", "maybe")
    assert (code, "record, reuse, replay, off" in said) == (2, True)


def test_a_document_that_was_not_written_costs_nothing(start_stub: StartStub, tmp_path: Path) -> None:
    stub, pipe = start_stub(), tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(pipe, os.O_WRONLY)  # else it ends when the command has seen that it can be written
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)  # less than the document: its writer waits
    first = subprocess.Popen([*COMMAND, *RAG, "--out", str(pipe)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    select.select([reader], [], [])
    first.kill()
    _, said = first.communicate()
    os.close(reader)
    os.close(writer)
    paid = len(stub.calls())
    assert paid, said
    assert [row["status"] for row in json.loads(moot("ledger", "--json").stdout)] == ["interrupted"]
    assert moot(*RAG, "--out", tmp_path / "verdict.json").returncode == 0
    assert json.loads((tmp_path / "verdict.json").read_text())["status"] == "done"
    assert len(stub.calls()) == paid
    assert [row["status"] for row in json.loads(moot("ledger", "--json").stdout)] == ["done"]


def test_resume_finds_the_graph(start_stub: StartStub) -> None:
    start_stub([DOWN])
    _, failed, _ = document(*ONCE)
    done = json.loads(moot("verify", CLAIM, "--resume", "--json").stdout)
    assert (done["id"], done["graph"], done["status"]) == (failed["id"], "rag", "done")
