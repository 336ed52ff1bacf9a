"""``moot verify`` resumes an unfinished debate from the store if the command is repeated or has ``--resume``.

``--fresh`` starts a new debate. A person's replies are kept.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.commands import COMMAND, moot, moot_process
from tests.conftest import StartStub, StubEndpoint
from tests.forked import start

CLAIM = "An otter holds hands while it sleeps."
RAG = ["verify", CLAIM, "--graph", "rag", "--model", "openai:stub", "--set", 'sources=["bm25:demo-news"]']
DOWN = {"match": "your `answer`", "status": 500, "times": 1}
ONCE = ["--set", "attempts=1"]


@pytest.fixture(autouse=True)
def _temporary_home(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    if (home / "corpora").exists():
        (tmp_path / "home" / "corpora").symlink_to(home / "corpora")


def run_debate(*words: str, typed: str = "") -> tuple[int, dict[str, Any], str]:
    """Run a debate with the graph ``rag``; return the exit code, the document and stderr."""
    done = moot(*RAG, *words, "--json", typed=typed)
    return done.returncode, json.loads(done.stdout or "null"), done.stderr


def test_resume_continues_a_failed_debate_with_its_settings(start_stub: StartStub) -> None:
    start_stub([DOWN])
    code, failed, _ = run_debate(*ONCE, "--set", "k=2")
    assert (code, failed["status"]) == (3, "failed")
    code, _, stderr = run_debate("--resume", "--set", "k=3")
    assert (code, "other values of k." in stderr) == (2, True), stderr
    code, done, _ = run_debate("--resume")
    assert (code, done["id"], done["settings"]["k"]) == (0, failed["id"], 2)
    code, _, stderr = run_debate("--resume")
    assert (code, "no unfinished debate" in stderr) == (2, True), stderr


def test_a_resumed_debate_does_not_ask_a_person_again(start_stub: StartStub) -> None:
    stub = start_stub([DOWN])
    code, failed, _ = run_debate(*ONCE, "--ask", "evidence", typed="\nOtters sleep on their backs.\n\n")
    assert (code, failed["status"]) == (3, "failed")
    code, done, stderr = run_debate(*ONCE, "--ask", "evidence")
    assert (code, done["id"]) == (0, failed["id"]), stderr
    assert "resuming the debate that failed at" in stderr
    assert "Otters sleep on their backs." in stub.prompts()[-1]


def test_a_debate_that_waits_for_a_person_resumes_in_another_process(start_stub: StartStub) -> None:
    stub = start_stub()
    words = ["verify", CLAIM, "--graph", "peer_review", "--model", "openai:stub", "--ask", "remark", "--json"]
    first = start([*COMMAND, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert first.stderr is not None
    stderr = b""
    while b"> " not in stderr:  # until the command asks the person
        stderr += os.read(first.stderr.fileno(), 4096)
    first.kill()
    first.communicate()
    [row] = json.loads(moot("replies", "--json").stdout)
    assert (row["status"], row["calls"]) == ("waiting", len(chat_calls(stub)))
    assert row["calls"]
    second = moot_process(*words, typed="Otters sleep on their backs.\n" * 9)
    document = json.loads(second.stdout)
    assert (second.returncode, document["status"], document["id"]) == (0, "done", row["id"]), second.stderr
    assert "resuming the debate that has waited for you since" in second.stderr
    assert f"The replies to {row['calls']} calls of this debate are stored." in second.stderr
    assert len(chat_calls(stub)) == document["usage"]["calls"]  # no call was made twice
    assert "Otters sleep on their backs." in stub.prompts()[-1]


def chat_calls(stub: StubEndpoint) -> list[Any]:
    return [call for call in stub.calls() if call["kind"] == "chat"]


def test_fresh_starts_a_new_debate(start_stub: StartStub) -> None:
    start_stub([DOWN])
    _, failed, _ = run_debate(*ONCE)
    code, done, stderr = run_debate(*ONCE, "--fresh")
    assert (code, done["id"] != failed["id"], "resuming" in stderr) == (0, True, False)


def test_fresh_with_resume_is_refused() -> None:
    code, _, stderr = run_debate("--fresh", "--resume")
    assert (code, "--resume uses stored replies" in stderr) == (2, True)


def test_an_unknown_mode_is_refused() -> None:
    code, _, stderr = run_debate("--replies", "maybe")
    assert (code, "record, reuse, replay or off" in stderr) == (2, True)


def test_a_kill_while_the_document_is_written_loses_no_calls(start_stub: StartStub, tmp_path: Path) -> None:
    stub, pipe = start_stub(), tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(pipe, os.O_WRONLY)  # so that `select` waits although the command opens and closes the pipe first
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)  # smaller than the document, so the command blocks while it writes
    first = start([*COMMAND, *RAG, "--out", str(pipe)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    select.select([reader], [], [])
    first.kill()
    _, stderr = first.communicate()
    os.close(reader)
    os.close(writer)
    paid = len(stub.calls())
    assert paid, stderr
    assert [row["status"] for row in json.loads(moot("replies", "--json").stdout)] == ["interrupted"]
    assert moot(*RAG, "--out", tmp_path / "verdict.json").returncode == 0
    assert json.loads((tmp_path / "verdict.json").read_text())["status"] == "done"
    assert len(stub.calls()) == paid
    assert [row["status"] for row in json.loads(moot("replies", "--json").stdout)] == ["done"]


def test_resume_without_a_graph_finds_the_unfinished_debate(start_stub: StartStub) -> None:
    start_stub([DOWN])
    _, failed, _ = run_debate(*ONCE)
    done = json.loads(moot("verify", CLAIM, "--resume", "--json").stdout)
    assert (done["id"], done["graph"], done["status"]) == (failed["id"], "rag", "done")
    again = moot("verify", CLAIM, "--resume")
    assert (again.returncode, "no unfinished debate on this input" in again.stderr) == (2, True), again.stderr


def test_resume_accepts_another_ceiling(start_stub: StartStub) -> None:
    start_stub([DOWN])
    _, failed, _ = run_debate(*ONCE, "--set", "max_calls=3")
    code, done, stderr = run_debate("--resume", "--set", "max_calls=9")
    assert (code, done["id"], done["settings"]["max_calls"]) == (0, failed["id"], 9), stderr
    # The debate that failed is done now, so the command that started it starts a new debate.
    code, another, _ = run_debate(*ONCE, "--set", "max_calls=3")
    assert (code, another["id"] != failed["id"]) == (0, True)


ONE_ROUND = ["--graph", "standard_mad", "--set", "max_rounds=1", "--set", 'sources=["bm25:demo-news"]']
ONE_ROUND += ["--preset", "paper"]  # two debaters and the judge, and no other calls
JUDGED = ["verify", CLAIM, *ONE_ROUND, "--model", "openai:stub", "--set", "models.judge=openai:stub-judge", "--json"]


@pytest.mark.parametrize(("ceiling", "too_low", "higher"), [("max_calls", 3, "4"), ("budget", 5000, None)])
def test_a_debate_killed_at_its_last_call_needs_a_higher_ceiling(
    start_stub: StartStub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ceiling: str,
    too_low: int,
    higher: str | None,
) -> None:
    """The call that was in flight at the kill counts towards the ceiling, so the judge cannot be called again.

    With a higher ceiling or none, only the judge is called.
    """
    stub = start_stub([{"model": "judge", "delay_ms": 3_600_000, "times": 1}])
    bounded = ["--set", f"{ceiling}={too_low}"]
    with start([*COMMAND, *JUDGED, *bounded], stdout=subprocess.DEVNULL) as first:
        while not stub.prompts("judge"):
            assert first.poll() is None
        first.kill()
    before = len(stub.prompts())
    repeated = moot(*JUDGED, *bounded)
    detail = json.loads(repeated.stdout)["error"]["detail"]
    enough = re.search(rf"run it again with `{ceiling}` of (\d+) or more", detail)
    assert enough, detail
    assert len(stub.prompts()) == before
    assert higher in (enough[1], None)
    id, file = json.loads(repeated.stdout)["id"], tmp_path / "debate.jsonl"
    assert moot("replies", "export", id, file).returncode == 0
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "other"))
    moved = moot("replies", "import", file)
    assert moved.returncode == 0, moved.stderr
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    done = moot(*JUDGED, *(["--set", f"{ceiling}={higher}"] if higher else []))
    document = json.loads(done.stdout)
    assert (done.returncode, document["status"]) == (0, "done"), done.stderr
    assert len(stub.prompts()) == before + 1
