"""Standard MAD and the controls on the scripted endpoint: their calls, prompts, verdicts, costs and settings."""

from __future__ import annotations

import json
from typing import Any

import pytest
from moot.graphs import load_graph

from tests.conftest import StartStub, free_port

CLAIM = "The kilogram is no longer defined by a metal cylinder kept in France."
NEWS = "bm25:demo-news"
READERS = ("madke", "standard_mad", "rag")
Rule = dict[str, Any]


async def run(graph: str, given: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    system = load_graph(graph)
    defaults: dict[str, Any] = {"model": "openai:stub-agent"}
    sources = {"sources": [NEWS], "fallback": []} if graph in READERS else {}
    context = system.settings.model_validate(defaults | sources | settings)
    document: dict[str, Any] = await system.graph.ainvoke(given or {"claim": CLAIM}, context=context)
    return document


def says(answer: Any, times: int | None = None, **fields: Any) -> Rule:
    """A rule for this answer. It applies at most ``times`` times, by default always."""
    rule = {"fields": {"answer": answer, "citations": [], **fields}}
    return rule | ({"times": times} if times else {})


def outcome(document: dict[str, Any]) -> tuple[Any, ...]:
    return document["status"], document["answer"], document["stop_reason"], document["rounds"]


def kinds(document: dict[str, Any]) -> list[str]:
    return [warning["kind"] for warning in document["warnings"]]


def tokens(document: dict[str, Any]) -> list[int]:
    """The tokens of each call."""
    return [call["prompt_tokens"] + call["completion_tokens"] for call in document["calls"]]


# --- one call ---------------------------------------------------------------------------------------------------------

SINGLE = ("standard_prompting", "chain_of_thought")


@pytest.mark.parametrize("graph", [*SINGLE, "self_consistency", "rag", "madke"])
@pytest.mark.parametrize(
    ("given", "count"),
    [({"claim": "How many?", "task": "number"}, 3), ({"claim": CLAIM, "labels": ["true", "false"]}, 1)],
)
async def test_more_demonstrations_than_exist_are_an_error_before_any_call(
    graph: str, given: dict[str, Any], count: int
) -> None:
    document = await run(graph, given, demonstrations=count, model="fake:1")
    assert outcome(document)[:3] == ("failed", None, None)
    assert (document["error"]["kind"], document["calls"]) == ("invalid_setting", [])
    assert "demonstrations" in document["error"]["detail"]


@pytest.mark.parametrize("graph", ["rag", "madke"])
async def test_worked_examples_are_in_the_first_answers_prompts_only(start_stub: StartStub, graph: str) -> None:
    stub = start_stub([{"match": "debater-1", **says("REFUTES")}, says("SUPPORTS")])
    document = await run(graph, demonstrations=1)
    assert document["status"] == "done"
    shown = sum(prompt.count("<example>") for prompt in stub.prompts())
    assert shown == (1 if graph == "rag" else len(document["settings"]["debaters"]))


# --- self-consistency -------------------------------------------------------------------------------------------------


def sample_answers(document: dict[str, Any]) -> list[str | None]:
    """The samples' answers in the order of their numbers."""
    turns = sorted((t for t in document["turns"] if t["step"] == "respond"), key=lambda t: t["number"])
    assert [t["number"] for t in turns] == list(range(1, len(turns) + 1))
    return [t["answer"] for t in turns]


async def test_a_budget_sets_the_number_of_samples(start_stub: StartStub) -> None:
    stub = start_stub([says("SUPPORTS", rationale="It is so.")], latency_ms=50)
    [each] = tokens(await run("self_consistency", samples=1))
    for budget in (2_000, 5_000, 20_000):
        document = await run("self_consistency", budget=budget)
        assert outcome(document) == ("done", "SUPPORTS", "budget_exhausted", 1)
        spent = tokens(document)
        # A further sample did not fit: 512 tokens are reserved for its reply, and less than 3 * each for its prompt.
        assert sum(spent) <= budget < sum(spent) + 3 * each + 512
        assert len(spent) == len(sample_answers(document)) == len(document["votes"])
        assert document["usage"]["ceilings"] == {"budget": {"ceiling": budget, "spent": sum(spent)}}
    assert max(call["in_flight"] for call in stub.calls()) > 5


async def test_a_budget_too_small_for_one_sample_is_refused_before_any_call(start_stub: StartStub) -> None:
    stub = start_stub([says("SUPPORTS")])
    document = await run("self_consistency", budget=500)
    assert (document["status"], document["error"]["kind"], document["calls"]) == ("failed", "invalid_setting", [])
    assert "`budget` allows 500 tokens, but the smallest decision (agent-1" in document["error"]["detail"]
    assert stub.requests() == []


async def test_a_budget_includes_repeated_requests(start_stub: StartStub) -> None:
    start_stub([{"reply": "It depends. " * 20}])
    for budget in (1_600, 5_000):
        document = await run("self_consistency", budget=budget)
        assert outcome(document)[:3] == ("failed", None, None)  # no sample gave an answer
        assert sum(tokens(document)) <= budget
    assert len(document["calls"]) > len(sample_answers(document))  # with the larger budget, replies are requested again


@pytest.mark.parametrize("budget", [5_000, None])
async def test_a_budget_needs_token_counts_and_a_run_without_ceilings_does_not(
    start_stub: StartStub, budget: int | None
) -> None:
    text = json.dumps({"rationale": "So.", "citations": [], "answer": "SUPPORTS"})
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "stub", "choices": [choice]}
    start_stub([{"raw": json.dumps(body)}])
    document = await run("self_consistency", budget=budget)
    if budget is None:
        assert outcome(document) == ("done", "SUPPORTS", "single_pass", 1)
        assert document["usage"]["uncounted"] == 5
    else:
        assert outcome(document)[:3] == ("failed", None, None)
        assert (document["error"]["kind"], len(document["calls"])) == ("invalid_setting", 1)
        assert "tokens" in document["error"]["detail"]
        assert "budget" in document["error"]["detail"]


# --- RAG --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", ["rag", "standard_mad"])
async def test_if_the_only_search_fails_there_is_no_verdict(
    start_stub: StartStub, monkeypatch: pytest.MonkeyPatch, graph: str
) -> None:
    monkeypatch.setenv("WIKIPEDIA_BASE_URL", f"http://127.0.0.1:{free_port()}")
    start_stub([says("SUPPORTS")])
    document = await run(graph, sources=["wikipedia"], fallback=[], attempts=1)
    assert (document["status"], document["answer"], document["calls"]) == ("failed", None, [])
    assert (document["error"]["kind"], kinds(document)) == ("retrieval_failed", ["retrieval_failed"])


# --- defaults and settings --------------------------------------------------------------------------------------------
