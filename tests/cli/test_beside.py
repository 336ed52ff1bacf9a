"""``moot verify --beside`` runs a control (self-consistency) after a debate, at no higher cost than the debate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from moot.nodes._runtime.state import VerdictOutput
from moot.transcript.report.report import report
from pydantic import TypeAdapter

from tests.commands import moot
from tests.conftest import StartStub, StubEndpoint

CLAIM = "An otter holds hands while it sleeps."
DEBATE = ["verify", CLAIM, "--graph", "society_of_minds", "--model", "openai:stub", "--beside", "self_consistency"]
ANSWERS = [
    {"match": "Reason step by step", "fields": {"answer": "REFUTES", "citations": []}},
    {"fields": {"answer": "SUPPORTS", "citations": []}},
]
REFUSED = {"match": "Reason step by step", "status": 401, "times": 1}


@pytest.fixture(autouse=True)
def _temporary_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    (tmp_path / "prices.jsonl").write_text('{"model": "openai:stub", "input": 1, "output": 8}')
    monkeypatch.setenv("MOOT_PRICES", str(tmp_path / "prices.jsonl"))


def run_debate(*words: str) -> tuple[int, dict[str, Any], str]:
    """Run a debate with its control; return the exit code, the document and stderr."""
    done = moot(*DEBATE, *words, "--json")
    return done.returncode, json.loads(done.stdout or "null"), done.stderr


def call_counts(stub: StubEndpoint) -> tuple[int, int]:
    """The numbers of calls of the debates and of their controls."""
    prompts = stub.prompts()
    controls = sum("Reason step by step" in prompt for prompt in prompts)
    return len(prompts) - controls, controls


@pytest.mark.parametrize("equal", ["tokens", "usd", "calls"])
def test_verdicts_and_costs_of_debate_and_control_are_printed_and_stored(
    start_stub: StartStub, tmp_path: Path, equal: str
) -> None:
    stub = start_stub(ANSWERS)
    done = moot(*DEBATE, "--equal", equal, "--set", "seed=1", "--out", tmp_path / "it.json")
    assert done.returncode == 0, done.stderr
    stored = json.loads((tmp_path / "it.json").read_text())
    TypeAdapter(VerdictOutput).validate_python(stored, strict=True)
    beside = stored["beside"]
    assert (stored["answer"], beside["document"]["answer"], beside["error"]) == ("SUPPORTS", "REFUTES", None)
    assert (beside["control"], beside["equal"]) == ("self_consistency", equal)
    control_cost, debate_cost = beside["taken"]["control"], beside["taken"]["debate"]
    assert 0 < control_cost[equal] <= debate_cost[equal]
    assert beside["ratios"] == {name: control_cost[name] / debate_cost[name] for name in control_cost}
    printed = [line for line in done.stdout.splitlines() if "control" in line or "Relative to the debate" in line]
    unit = {"tokens": "tokens", "usd": "USD", "calls": "calls"}[equal]
    assert printed[0] == f"Running the control self-consistency at equal {unit} ..."
    assert printed[1].strip().endswith("REFUTES, unlike the debate")
    assert f"USD x{beside['ratios']['usd']:.2f} (${control_cost['usd']:.6f} of ${debate_cost['usd']:.6f})" in printed[2]
    for kind in ("md", "html"):
        assert f"A vote over several lines of reasoning, at equal {unit}: Refuted, unlike the debate." in report(
            stored, kind
        )
    seeds = [request["seed"] for request in stub.requests()]
    assert len(set(seeds)) == len(seeds) == sum(call_counts(stub))


def test_a_second_run_repeats_only_a_failed_control(start_stub: StartStub) -> None:
    stub = start_stub([REFUSED, *ANSWERS])
    code, result, stderr = run_debate()
    assert (code, result["status"], result["answer"]) == (2, "done", "SUPPORTS"), stderr
    assert (result["beside"]["error"]["kind"], result["beside"]["document"]["status"]) == ("authentication", "failed")
    assert "A vote over several lines of reasoning came to no verdict: " in report(result, "md")
    debate_calls, _ = call_counts(stub)
    code, again, stderr = run_debate()
    assert (code, again["answer"], again["beside"]["document"]["answer"]) == (0, "SUPPORTS", "REFUTES"), stderr
    assert "; its control is unfinished. The replies to" in stderr
    assert again["beside"]["ratios"]["seconds"] is None  # because the debate was read from the store
    assert call_counts(stub)[0] == debate_calls
    code, _, stderr = run_debate("--resume")  # by now, debate and control are finished
    assert (code, "no unfinished debate" in stderr) == (2, True), stderr


def test_resume_needs_no_graph_option_if_only_the_control_is_unfinished(start_stub: StartStub) -> None:
    stub = start_stub([REFUSED, *ANSWERS])
    _, result, _ = run_debate()
    debate_calls, _ = call_counts(stub)
    done = moot("verify", CLAIM, "--resume", "--beside", "self_consistency", "--json")
    again = json.loads(done.stdout or "null")
    assert done.returncode == 0, done.stderr
    assert (again["graph"], again["beside"]["document"]["status"]) == (result["graph"], "done")
    assert call_counts(stub)[0] == debate_calls


def test_no_control_runs_until_the_failed_debate_is_resumed(start_stub: StartStub) -> None:
    stub = start_stub([{"status": 401, "times": 1}, *ANSWERS])
    code, result, _ = run_debate()
    assert (code, result["status"], result["beside"]) == (2, "failed", None)
    assert call_counts(stub)[1] == 0
    code, result, stderr = run_debate("--resume")
    assert (code, result["answer"], result["beside"]["document"]["answer"]) == (0, "SUPPORTS", "REFUTES"), stderr


def test_a_ceiling_holds_for_debate_and_control_separately(start_stub: StartStub) -> None:
    start_stub(ANSWERS)
    code, result, stderr = run_debate("--set", "max_calls=3", "--equal", "calls")
    assert (code, result["usage"]["calls"], result["beside"]["document"]["usage"]["calls"]) == (0, 3, 3), stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--beside", "rag"], "--beside takes self_consistency, not 'rag'"),
        (["--equal", "euros"], "--equal takes tokens, usd, calls, not 'euros'"),
        (["--equal", "usd", "--model", "openai:dear"], "No price is known for openai:dear"),
        (["--model", "fake:1", "--set", 'models={"agent-1": "openai:stub"}'], "The control uses only the model"),
    ],
)
def test_a_control_that_cannot_run_is_refused_before_the_debate(
    start_stub: StartStub, words: list[str], message: str
) -> None:
    stub = start_stub(ANSWERS)
    done = moot(*DEBATE, *words)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert not stub.calls()
