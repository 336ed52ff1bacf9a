"""The gated debate: agents answer independently (the gate). By default, a debate follows only if the claim stays open.

The tests cover when the debate runs, which evidence it gets, and the costs of both parts.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest
from moot.core.errors import UserError
from moot.evals._runs.identity import code_version, parts_of
from moot.graphs import load_graph
from moot.nodes._runtime.settings import checked_settings
from moot.nodes._steps.gate import inner_input, verified_origins
from moot.nodes._texts.given import check_given
from moot.nodes._texts.task import make_task
from moot.transcript import Live, round_sections

from tests.conftest import CLAIM, StartStub

NEWS = {"retriever": "bm25:demo-news"}
GATE_AGENTS = [{"name": "one", **NEWS}, {"name": "two", "retriever": "bm25:demo-encyclopaedia"}]
DEBATERS = [{"name": "rag", "retriever": "bm25:demo-news"}, {"name": "search", "retriever": "bm25:demo-news"}]
TOOL_MAD_SETTINGS = {"debaters": DEBATERS, "scoring": "consensus_only", "max_rounds": 2}
LETTER = {"id": "letter-1", "text": "The platypus lays one to three eggs.", "url": "https://a.org/1"}
NOTE = {"id": "note-2", "text": "A note says that monotremes hatch from eggs.", "url": "https://b.org/2"}
CITES = {"citations": [{"evidence_id": "letter-1", "quote": "The platypus lays one to three eggs"}]}
CITES_NOTE = {"citations": [{"evidence_id": "note-2", "quote": "monotremes hatch from eggs"}]}


def says(role: str, answer: str, **fields: Any) -> dict[str, Any]:
    """A rule for an agent's answer."""
    return {"model": f"stub-{role}$", "match": "your `answer`", "fields": {"answer": answer, "citations": [], **fields}}


def settings_of(**settings: Any) -> Any:
    """The settings of a gated debate in which each role has its own model."""
    system = load_graph("gated")
    inner = (
        {**TOOL_MAD_SETTINGS, **settings.pop("debate_settings", {})}
        if settings.get("debate", "tool_mad") == "tool_mad"
        else {}
    )
    plain = {"agents": GATE_AGENTS, "query_formulation": False, "attempts": 1, "model": "openai:stub", "k": 2}
    without_models = checked_settings(system.settings, {**plain, "debate_settings": inner, **settings})
    roles = {role: f"openai:stub-{role}" for role in without_models.roles()}
    return checked_settings(system.settings, {**plain, "debate_settings": inner, "models": roles, **settings})


async def debate(given: list[dict[str, str]] | None = None, **settings: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {"claim": CLAIM, "given": given or [LETTER, NOTE]}
    document: dict[str, Any] = await load_graph("gated").graph.ainvoke(asked, context=settings_of(**settings))
    return document


def transcript_of(document: dict[str, Any]) -> str:
    return "\n".join(
        f"{section.heading}\n" + "\n".join(line.text for line in section.lines) for section in round_sections(document)
    )


# --- the gate ---------------------------------------------------------------------------------------------------------


async def test_the_log_has_one_start_and_one_end_for_the_whole_debate(
    start_stub: StartStub, caplog: pytest.LogCaptureFixture
) -> None:
    start_stub([says("one", "SUPPORTS"), says("two", "REFUTES")])
    with caplog.at_level(logging.INFO, "moot.debates"):
        document = await debate()
    assert document["metrics"]["gate"]["passed"] is False
    logged = [(record.getMessage(), record.__dict__["graph"]) for record in caplog.records]
    assert logged == [("debate begun", "gated"), ("debate ended", "gated")]


async def test_no_debate_follows_if_readers_agree_and_a_quote_is_verified(start_stub: StartStub) -> None:
    start_stub([says("one", "SUPPORTS", **CITES), says("two", "SUPPORTS")])
    document = await debate()
    assert (document["answer"], document["stop_reason"], document["rounds"]) == ("SUPPORTS", "consensus", 0)
    assert [call["role"] for call in document["calls"]] == ["one", "two"]
    assert document["metrics"]["gate"] == {
        "answers": {"one": "SUPPORTS", "two": "SUPPORTS"},
        "agreed": "SUPPORTS",
        "origins": ["a.org"],
        "passed": True,
        "spent": {"calls": 2, "tokens": document["usage"]["prompt_tokens"] + document["usage"]["completion_tokens"]},
        "debate": None,
    }
    assert (document["confidence"], document["confidence_from"]) == (1.0, "2 of 2 answers")
    assert {turn["phase"] for turn in document["turns"]} == {"gate"}
    assert document["metrics"]["verdict_citations"]["verified"] == 1
    assert "First answers" in transcript_of(document)
    assert "The gate ends the debate" in transcript_of(document)


async def test_equal_readers_at_temperature_0_cause_a_warning(start_stub: StartStub) -> None:
    """Equal readers have the same model and the same source."""
    start_stub([says("one", "SUPPORTS", **CITES), says("two", "SUPPORTS")])
    same = [{"name": name, **NEWS} for name in ("one", "two")]
    models = dict.fromkeys(("one", "two"), "openai:stub-one")

    async def named_in_warnings(temperature: float | None, **settings: Any) -> list[str]:
        document = await debate(temperature=temperature, models=models, **settings)
        assert document["metrics"]["gate"]["passed"]
        return [w["detail"].partition(":")[0] for w in document["warnings"] if w["kind"] == "readers_alike"]

    assert await named_in_warnings(0, agents=same) == ["one, two"]
    assert await named_in_warnings(0.7, agents=same) == []
    assert await named_in_warnings(None, agents=same) == []  # the endpoint's default temperature applies
    assert await named_in_warnings(0) == []  # each reader has its own source


@pytest.mark.parametrize(
    ("rules", "least", "reason"),
    [
        ([says("one", "SUPPORTS", **CITES), says("two", "REFUTES")], 1, "disputed"),
        ([says("one", "SUPPORTS"), says("two", "SUPPORTS")], 1, "unverified"),
        ([says("one", "SUPPORTS", **CITES), says("two", "SUPPORTS", **CITES)], 2, "unverified"),  # both quote a.org
        ([says("one", "SUPPORTS", **CITES), {"model": "stub-two$", "reply": "It depends."}], 1, "disputed"),
    ],
)
async def test_if_the_gate_is_not_passed_the_debate_uses_all_evidence_of_the_gate(
    start_stub: StartStub, rules: list[dict[str, Any]], least: int, reason: str
) -> None:
    stub = start_stub([*rules, says("rag", "REFUTES", **CITES_NOTE), says("search", "REFUTES")])
    document = await debate(min_verified=least)
    assert (document["status"], document["answer"], document["stop_reason"]) == ("done", "REFUTES", "consensus")
    assert [(r["phase"], r["round"], r["reason"]) for r in document["round_log"]] == [
        ("gate", 0, reason),
        ("primary", 1, "agreed"),
    ]
    found = {piece["id"] for piece in document["evidence"]}
    assert len(found) > 2
    # The debaters do not search in the first round. So their prompts show what the gate found.
    for role in ("rag", "search"):
        (prompt,) = stub.prompts(f"stub-{role}")
        assert all(id in prompt for id in found)
    assert {r["agent"] for piece in document["evidence"] for r in piece["retrievals"]} == {"given", "one", "two"}
    gate = document["metrics"]["gate"]
    assert (gate["passed"], gate["debate"]["graph"], gate["debate"]["calls"]) == (False, "tool_mad", 2)
    assert gate["spent"]["calls"] + gate["debate"]["calls"] == len(document["calls"])
    assert (document["graph"], document["rounds"]) == ("gated", 1)
    assert document["metrics"]["verdict_citations"]["verified"] == 1
    why = "the answers differ" if reason == "disputed" else "all agents gave the same answer"
    assert f"The gate leaves the claim open: {why}" in transcript_of(document)


@pytest.mark.parametrize("name", ["rag", "gate"])
async def test_debaters_search_from_the_second_round_on(start_stub: StartStub, name: str) -> None:
    two = [says(name, "SUPPORTS"), says("search", "REFUTES")]
    start_stub([says("one", "SUPPORTS"), says("two", "REFUTES"), *two, says("judge", "NOT ENOUGH INFO")])
    document = await debate(debate_settings={"debaters": [{**DEBATERS[0], "name": name}, DEBATERS[1]]})
    assert (document["answer"], document["stop_reason"], document["rounds"]) == ("NOT ENOUGH INFO", "max_rounds", 2)
    searched = [(t["round"], t["agent"]) for t in document["turns"] if t["phase"] == "primary" and t.get("retrieval")]
    assert searched == [(2, name), (2, "search")]
    found = {r["agent"] for piece in document["evidence"] for r in piece["retrievals"] if r["round"] == 2}
    assert found == {name, "search"}
    assert document["confidence_from"] == "0 of 6 answers in 3 rounds"


async def test_the_setting_named_when_forces_or_forbids_the_debate(start_stub: StartStub) -> None:
    rules = [says("one", "SUPPORTS", **CITES), says("rag", "REFUTES"), says("search", "REFUTES")]
    start_stub([*rules, says("two", "SUPPORTS")])
    always = await debate(when="always")
    assert (always["answer"], always["metrics"]["gate"]["passed"], len(always["calls"])) == ("REFUTES", True, 4)
    start_stub([*rules, says("two", "REFUTES")])
    never = await debate(when="never")
    assert (never["answer"], never["stop_reason"], len(never["calls"])) == ("SUPPORTS", "single_pass", 2)
    assert never["confidence_from"] == "1 of 2 votes"
    assert never["dissent"]["votes"] == [{"answer": "SUPPORTS", "votes": 1}, {"answer": "REFUTES", "votes": 1}]
    [minority] = never["dissent"]["minority"]
    assert (minority["answer"], [one["agent"] for one in minority["by"]]) == ("REFUTES", ["two"])


@pytest.mark.parametrize("name", ["standard_mad", "society_of_minds", "cortex_debate", "proclaim"])
async def test_systems_other_than_tool_mad_can_debate_behind_the_gate(start_stub: StartStub, name: str) -> None:
    stub = start_stub([says("one", "SUPPORTS"), says("two", "REFUTES"), {"fields": {"relevance": 1, "credibility": 1}}])
    settings: dict[str, Any] = {
        "proclaim": {"max_rounds": 2, "sources": ["bm25:demo-news"], "seed_k": 2, "max_premises": 2}
    }
    document = await debate(debate=name, debate_settings=settings.get(name, {}), embedder="openai:stub-embedding")
    assert (document["status"], document["error"], document["graph"]) == ("done", None, "gated")
    assert document["metrics"]["gate"]["debate"]["graph"] == name
    assert document["usage"]["calls"] == sum(call["kind"] == "chat" for call in stub.calls())
    assert "First answers" in transcript_of(document)
    asked = [p for p in stub.prompts() if "your `answer`" in p or "your `argument`" in p]
    assert any("letter-1" in prompt and "evidence" in prompt for prompt in asked[2:])


# --- faults, ceilings, settings ---------------------------------------------------------------------------------------


async def test_a_failed_debate_fails_the_run_but_keeps_the_gates_turns(start_stub: StartStub) -> None:
    start_stub([says("one", "SUPPORTS"), says("two", "REFUTES"), {"status": 401}])
    document = await debate()
    assert (document["status"], document["answer"]) == ("failed", None)
    assert document["error"]["kind"] == "authentication"
    assert [turn["agent"] for turn in document["turns"] if turn["phase"] == "gate"] == ["one", "two"]


async def test_live_output_says_that_there_is_no_verdict_if_a_run_ends_before_the_gate_decides(
    start_stub: StartStub,
) -> None:
    start_stub([{"status": 401}])
    document = await debate()
    assert (document["status"], document["metrics"].get("gate")) == ("failed", None)
    interrupted = {**document, "status": "interrupted", "error": None}  # as after SIGTERM
    for ended in (document, interrupted):
        assert "no verdict" in "\n".join(line.text for line in Live(settings_of()).end(ended)).lower()


async def test_a_ceiling_of_calls_holds_for_gate_and_debate_together(start_stub: StartStub) -> None:
    """One call is reserved for the judge."""
    rules = [says("one", "SUPPORTS"), says("two", "REFUTES"), says("rag", "SUPPORTS"), says("search", "REFUTES")]
    start_stub([*rules, says("judge", "REFUTES")])
    for most in (1, 3, 5):
        document = await debate(max_calls=most)
        assert (document["status"], document["answer"], len(document["calls"])) == ("done", "REFUTES", most)
        assert document["stop_reason"] == "budget_exhausted"
        assert document["calls"][-1]["role"] == "judge"


def test_the_debate_inherits_settings_that_debate_settings_do_not_replace() -> None:
    tool_mad = load_graph("tool_mad").settings
    inner = settings_of(temperature=0.3, budget=50_000, debate_settings={"k": 7}).of_debate(tool_mad)
    # `budget` is not inherited, because it bounds the gate and the debate together.
    assert (inner.temperature, inner.k, inner.budget, inner.retrieval) == (0.3, 7, None, "later")
    assert inner.models["rag"] == "openai:stub-rag"
    pool = settings_of(debate="standard_mad").of_debate(load_graph("standard_mad").settings)
    assert (pool.retrieval, pool.k) == ("none", 2)


def test_invalid_settings_of_the_gate_or_the_debate_are_refused() -> None:
    for wrong, message in (
        ({"debate_settings": {"rounds": 3}}, "There is no setting 'rounds'"),
        ({"debate": "gated"}, "debate: "),
        ({"models": {"judges": "fake:1"}}, "there is no role 'judges'"),
        ({"agents": [{"name": "rag"}, {"name": "two"}]}, "'rag' is also a role in tool_mad"),
    ):
        with pytest.raises(UserError, match=message):
            checked_settings(load_graph("gated").settings, wrong)


async def test_a_task_that_does_not_fit_the_debate_is_refused_before_any_call(start_stub: StartStub) -> None:
    stub = start_stub()
    asked = {"claim": "How many?", "task": "number"}
    document = await load_graph("gated").graph.ainvoke(asked, context=settings_of(debate="proclaim"))
    assert (document["error"]["kind"], stub.requests()) == ("unfit_task", [])


def test_verified_quotes_count_once_per_origin() -> None:
    pieces = check_given([LETTER, NOTE, {"id": "again", "text": "Another page.", "url": "https://www.a.org/9"}])
    turns: Any = [
        {"citations": [{"evidence_id": "letter-1", "verified": True}, {"evidence_id": "again", "verified": True}]},
        {"citations": [{"evidence_id": "note-2", "verified": False}]},
        {},
    ]
    assert verified_origins(turns, pieces) == ["a.org"]


@pytest.mark.parametrize(
    "asked",
    [{"task": "fever"}, {"task": "mmlu", "options": ["x", "y"]}, {"labels": {"true": "it is so", "open": ""}}],
)
def test_the_debate_gets_the_task_of_the_gate(asked: dict[str, Any]) -> None:
    task = make_task(asked.get("task"), asked.get("labels"), asked.get("options"), "It is.")
    again = inner_input({"claim": "It is.", "task": task})  # type: ignore[typeddict-item]
    assert make_task(again["task"], again.get("labels"), again.get("options"), "It is.") == task


def test_the_identity_of_a_run_includes_the_debate_behind_the_gate() -> None:
    first, other = (parts_of("gated", {"model": "fake:1", "debate": name}) for name in ("tool_mad", "madke"))
    assert {"tool_mad/judge", "rag/answer"} <= set(first["prompts"])
    assert "madke/summary" in other["prompts"]
    assert first["behaviour"] == f"gated {code_version()}+tool_mad {code_version()}" != other["behaviour"]
