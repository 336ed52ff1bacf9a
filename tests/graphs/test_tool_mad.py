"""Tool-MAD on the scripted endpoint: calls, prompts, stop reasons and failures."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from moot.graphs.tool_mad import ToolMadSettings, builder, graph

from tests.conftest import MODELS, READERS, StartStub, says, supports

CLAIM = "The kilogram is no longer defined by a metal cylinder kept in France."


async def debate(claim: str = CLAIM, **settings: Any) -> dict[str, Any]:
    given = {"models": MODELS, "debaters": READERS, "embedder": "openai:stub-embedding", **settings}
    document: dict[str, Any] = await graph.ainvoke({"claim": claim}, context=ToolMadSettings.model_validate(given))
    return document


def agreement(answer: str = "SUPPORTS") -> list[dict[str, Any]]:
    """Rules: both debaters give this answer in every round."""
    return [says("rag", answer), says("search", answer)]


@pytest.mark.parametrize(("threshold", "stop"), [(0.5, "stable_consensus"), (0.51, "max_rounds")])
async def test_faithfulness_must_reach_its_threshold(start_stub: StartStub, threshold: float, stop: str) -> None:
    """The faithfulness is 0.5."""
    start_stub([*agreement(), *supports([True, False], CLAIM), says("judge", "SUPPORTS")])
    assert (await debate(max_rounds=1, faithfulness_threshold=threshold))["stop_reason"] == stop


async def test_a_debate_fails_if_no_debater_gives_a_parsable_answer(start_stub: StartStub) -> None:
    start_stub([
        {"model": "stub-rag$", "match": "your `answer`", "reply": "I would rather not say."},
        {"model": "stub-search$", "match": "your `answer`", "reply": "Nor would I."},
        says("judge", "SUPPORTS"),
    ])  # fmt: skip
    document = await debate(max_rounds=2)
    assert document["status"] == "failed"  # no debater gave a usable answer, so there is nothing to judge
    assert document["error"]["kind"] == "unparsed"
    assert document["answer"] is None
    assert {t["answer"] for t in document["turns"]} == {None}
    assert {t["outcome"] for t in document["turns"]} == {"unparsed"}
    assert sum(w["kind"] == "unparsed" for w in document["warnings"]) == 8  # 2 debaters x 2 rounds x 2 requests


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ({"reply": "no JSON"}, "unparsed"),
        ({"reply": '{"answer": "SUPPORTS", "ra'}, "unparsed"),
        ({"reply": ""}, "empty"),
        ({"finish": "content_filter"}, "refused"),
        ({"finish": "length"}, "cut"),
        ({"status": 401}, "authentication"),
        ({"status": 404}, "unknown_model"),
        ({"status": 429, "retry_after": "0"}, "rate_limited"),
        ({"status": 500, "retry_after": "0"}, "server_error"),
        ({"raw": "<html>busy</html>"}, "bad_response"),
    ],
)
async def test_without_a_usable_reply_of_the_judge_there_is_no_verdict(
    start_stub: StartStub, rule: dict[str, Any], kind: str
) -> None:
    start_stub([{"model": "stub-judge", **rule}])
    document = await debate(max_rounds=1, scoring="all_rounds", max_wait=0)
    assert (document["status"], document["answer"], document["stop_reason"]) == ("failed", None, None)
    assert document["error"]["kind"] == kind
    assert len(document["turns"]) == 2  # the debaters' turns are kept
    assert len(document["error"]["detail"]) > 20


async def test_a_debate_fails_if_the_endpoint_is_unreachable(
    start_stub: StartStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_stub()
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    document = await debate(embedder="all-MiniLM-L6-v2", attempts=1)
    assert (document["status"], document["error"]["kind"]) == ("failed", "unreachable")


async def test_an_unknown_corpus_is_an_error_before_any_call(start_stub: StartStub) -> None:
    start_stub([])
    document = await debate(debaters=[{"name": "rag", "retriever": "chroma:none"}, {"name": "search"}])
    assert (document["status"], document["error"]["kind"]) == ("failed", "unknown_corpus")
    assert document["calls"] == []


async def test_a_consensus_is_not_stable_if_the_scoring_calls_fail(start_stub: StartStub) -> None:
    """The scores that these calls would give are then unknown."""
    start_stub([*agreement(), {"model": "stub-scorer", "status": 500, "retry_after": "0"}, says("judge", "REFUTES")])
    document = await debate(max_rounds=1)
    assert (document["stop_reason"], document["answer"]) == ("max_rounds", "REFUTES")
    assert document["scores"]["rag"] == {"faithfulness": None, "answer_relevance": None}
    assert sum(w["kind"] == "score_missing" for w in document["warnings"]) == 4  # two scores of two debaters


async def test_the_next_debate_on_a_thread_starts_from_empty_state(start_stub: StartStub) -> None:
    start_stub(
        [*(r | {"match": "saffron"} for r in agreement("REFUTES")), *agreement(), *supports([True, True], CLAIM)]
    )
    checkpointed = builder.compile(checkpointer=InMemorySaver())

    async def run_on_thread(given: Any, **settings: Any) -> dict[str, Any]:
        chosen = ToolMadSettings.model_validate(
            {"models": MODELS, "debaters": READERS, "embedder": "openai:stub-embedding"}
            | {"scoring": "consensus_only", **settings}
        )
        config: Any = {"configurable": {"thread_id": "one"}}
        document: dict[str, Any] = await checkpointed.ainvoke(given, config, context=chosen)
        return document

    first = await run_on_thread({"claim": CLAIM, "labels": ["SUPPORTS", "REFUTES"]})
    assert (first["answer"], first["task"]["name"], len(first["calls"])) == ("SUPPORTS", "labels", 4)
    failed = await run_on_thread({"claim": "  "})
    assert (failed["status"], failed["error"]["kind"], failed["turns"]) == ("failed", "invalid_claim", [])
    failed = await run_on_thread(
        {"claim": CLAIM}, debaters=[{"name": "rag", "retriever": "bm25:none"}, {"name": "search"}]
    )
    assert failed["error"]["kind"] == "unknown_corpus"
    second = await run_on_thread({"claim": "Bees make saffron."})
    assert (second["status"], second["answer"], second["task"]["name"]) == ("done", "REFUTES", "fever")
    assert (second["rounds"], len(second["turns"]), len(second["calls"]), second["depth"]) == (1, 2, 4, 2)
    assert {r["query"] for e in second["evidence"] for r in e["retrievals"]} == {t["query"] for t in second["turns"]}


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"models": {**MODELS, "judge": "nobody:x"}}, "unknown_provider"),
        ({"embedder": "no-such/model"}, "unknown_encoder"),
    ],
)
async def test_unknown_models_and_encoders_are_errors_before_any_call(
    start_stub: StartStub, settings: dict[str, Any], kind: str
) -> None:
    start_stub([])
    document = await debate(**{"debaters": [{"name": "rag"}, {"name": "search"}], **settings})
    assert (document["error"]["kind"], document["error"]["where"], document["calls"]) == (kind, "open", [])


def test_misspelt_roles_are_refused() -> None:
    with pytest.raises(ValueError, match="no role 'jugde'"):
        ToolMadSettings.model_validate({"models": {"jugde": "fake:1"}})


async def test_faithfulness_is_unknown_if_the_endpoint_refuses_to_score_it(start_stub: StartStub) -> None:
    start_stub([{"model": "stub-scorer", "match": "Give `verdicts`", "status": 400}, *agreement()])
    document = await debate(max_rounds=1)
    assert document["status"] == "done", document["error"]
    assert document["turns"][0]["scores"]["faithfulness"] is None
    assert [w["kind"] for w in document["warnings"]].count("score_missing") == 2


async def test_without_a_context_the_default_settings_apply() -> None:
    document = await graph.ainvoke({"claim": "  "})
    assert document["error"]["kind"] == "invalid_claim"
    assert document["settings"]["max_rounds"] == 3
    assert set(document) == set(graph.output_schema.__annotations__)


async def test_parallel_debates_share_the_limit_of_concurrent_calls(start_stub: StartStub) -> None:
    stub = start_stub(latency_ms=5)
    claims = [f"{CLAIM} {i}" for i in range(8)]
    documents = await asyncio.gather(
        *(debate(claim, max_concurrency=4, max_rounds=1, embedder="all-MiniLM-L6-v2") for claim in claims)
    )
    assert {d["status"] for d in documents} == {"done"}
    assert max(c["in_flight"] for c in stub.calls()) <= 4
