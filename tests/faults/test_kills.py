"""Debates and an evaluation that are killed and run again. ``make faults`` kills more debates and evaluations."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage
from moot.nodes._models.call.asking import second_request

from tests.faults.ceilings import Kills, debate_error, evaluation_error
from tests.faults.debates import SYSTEMS, Sandbox, sandbox, words_of
from tests.faults.kills import Moment, count_sent, count_stored, kill, moments, start_by_resume
from tests.forked import start

REPEAT_REQUEST = str(second_request(AIMessage(""), "")[1].content).splitlines()[0]
"""The first line of the message that follows an unusable reply."""


@pytest.fixture(autouse=True)
def _forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sandbox, "process", start)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kills")


@pytest.mark.parametrize("moment", [*moments(4, seed=1)], ids=lambda moment: f"{moment.system}-{moment.signal.name}")
def test_the_same_command_finishes_a_killed_debate(moment: Moment, folder: Path) -> None:
    """The verdict is that of an undisturbed debate, and only calls without a usable reply are repeated."""
    assert kill(moment, folder).wrong == ""


def test_a_debate_killed_after_its_gate_does_not_repeat_the_gate(folder: Path) -> None:
    killed = kill(Moment("gated", signal.SIGKILL, 0.6, "calls"), folder, again=start_by_resume)
    assert killed.wrong == ""
    assert killed.before > len(SYSTEMS["gated"]["agents"])  # the kill came after the gate's calls, one per agent


def test_every_answered_call_is_stored_before_a_kill(tmp_path: Path) -> None:
    """The first replies of three agents are unusable. One repeated request is not answered before the kill."""
    rules = [{"match": REPEAT_REQUEST, "delay_ms": 600_000, "times": 1}, {"reply": "No JSON.", "times": 3}]
    with sandbox(tmp_path / "here", rules) as here:
        words = [*words_of("cortex_debate"), "--out", str(here.out)]
        process = here.start(*words)
        # Each of the three agents sends a first and a repeated request. Five of these six requests are answered.
        while here.served(6) < 6 or count_stored(here.stored()).chats < 5:
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
        here.end(process)
        assert here.end(here.start(*words)).code == 0
        assert count_sent(here.stub.calls()) == count_stored(here.stored())  # the endpoint logs answered calls only
        assert "".join(here.stub.prompts()).count(REPEAT_REQUEST) == 4  # one per agent, and the unanswered one again


def test_calls_in_flight_at_a_kill_count_against_the_ceiling(tmp_path: Path) -> None:
    with sandbox(tmp_path / "here", latency_ms=300) as here:
        words = [*words_of("proclaim", max_calls=14), "--out", str(here.out)]
        for killed_after in (5, 3):
            before, process = here.served(), here.start(*words)
            while process.poll() is None and here.served(before + killed_after) < before + killed_after:
                pass
            process.kill()
            here.end(process)
        ended = here.end(here.start(*words))
        sent = [call for call in here.stub.calls() if call["kind"] == "chat"]
    document = ended.document or {}
    assert (ended.code, document["status"], document["stop_reason"]) == (0, "done", "budget_exhausted")
    assert len(document["calls"]) < len(sent) <= 14  # some replies were lost
    assert document["usage"]["ceilings"]["max_calls"] == {"ceiling": 14, "spent": 14}


def test_a_killed_debate_stays_within_its_budget(tmp_path: Path) -> None:
    kills = Kills("budget", 4000, after=[3], signals=[signal.SIGKILL])
    assert debate_error("madke", kills, tmp_path / "here") == ""


def test_a_killed_evaluation_stays_within_its_ceiling_of_costs(tmp_path: Path) -> None:
    kills = Kills("max_cost", 0.008, after=[3], signals=[signal.SIGKILL])
    assert evaluation_error(kills, tmp_path / "here") == ""
