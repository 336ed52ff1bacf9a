"""Prompts that do not fit into the context: moot shortens them, and learns the context's length from refusals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from moot.core.endpoint import Endpoint
from moot.core.errors import ReplyError
from moot.graphs import load_graph
from moot.nodes._models.chat_models import ChatModel
from moot.nodes._models.fake import FakeChatModel
from moot.nodes._models.speaker import Speaker
from moot.nodes._steps.responding import respond
from moot.nodes._texts.given import check_given
from moot.nodes._texts.task import make_task

from tests.conftest import StartStub, StubEndpoint

CLAIM = "The bells of the old mill ring at noon."
CONTEXT = 8000
LONG = " ".join(f"The reasons go on, and point {i} is that the miller owned no watch." for i in range(12))
GIVEN = [
    {
        "id": f"letter-{n}",
        "title": f"Letter {n}",
        "text": " ".join(f"Letter {n} says in line {i} that the bells rang at noon." for i in range(90)),
    }
    for n in range(1, 11)
]
assert sum(len(text["text"]) for text in GIVEN) > 45_000
LEFT_OUT = "letter-9"
QUOTE = [{"evidence_id": "letter-1", "quote": "Letter 1 says in line 2 that the bells rang at noon."}]


def answer_rule(model: str, answer: str) -> dict[str, Any]:
    """A rule: a model's answer in every round. The answers in `RULES` differ, so no agreement ends a debate."""
    return {"model": model, "fields": {"answer": answer, "rationale": LONG, "citations": QUOTE, "confidence": 0.8}}


LONG_FIELDS: dict[str, Any] = {
    "rationale": LONG,
    "citations": QUOTE,
    "argument": LONG,
    "testimony": LONG,
    "reason": LONG,
}
ADMITS = {"relevance": 1, "credibility": 1}
RULES = [
    {"match": "your `verdict`", "fields": {"verdict": "SUPPORTED", "reason": "So it is."}},
    {
        "match": 'look for the evidence yourself.*<evidence id="letter',
        "reply": json.dumps({**LONG_FIELDS, "answer": "SUPPORTS"}),
    },
    answer_rule("-a$", "SUPPORTS"),
    answer_rule("-b$", "REFUTES"),
    answer_rule("-c$", "NOT ENOUGH INFO"),
    {"fields": {**LONG_FIELDS, **ADMITS, "needed": True, "granted": True, "debate_resolved": False, "close": False}},
]
MODELS = ("openai:stub-a", "openai:stub-b", "openai:stub-c")


def speakers(count: int = 2) -> list[dict[str, Any]]:
    """The settings of speakers. Each has its own model."""
    return [{"name": f"speaker-{n}", "model": model} for n, model in enumerate(MODELS[:count], 1)]


# Systems, each with its settings; `debate` sets ten rounds.
SYSTEMS: dict[str, dict[str, Any]] = {
    "tool_mad": {
        "retrieval": "none",
        "scoring": "consensus_only",
        "debaters": [{**one, "retriever": "chroma:none"} for one in speakers()],
    },
    "madke": {"sources": [], "debaters": speakers()},
    "proclaim": {"sources": [], "plateau": 0},
    "cortex_debate": {"agents": speakers(3), "evaluation": "none"},
    "society_of_minds": {"agents": speakers(3)},
    "react": {"sources": ["bm25:demo-news"]},
}


async def debate(name: str, **more: Any) -> dict[str, Any]:
    system = load_graph(name)
    rounds = {"max_rounds": 10} if "max_rounds" in system.settings.model_fields else {}
    chosen = system.settings.model_validate(
        {"model": "openai:stub", "embedder": "openai:stub-embedding", "attempts": 1, **rounds, **SYSTEMS[name], **more}
    )
    document: dict[str, Any] = await system.graph.ainvoke({"claim": CLAIM, "given": GIVEN}, context=chosen)
    json.dumps(document)  # raises TypeError if the document is not JSON
    return document


def chat_statuses(stub: StubEndpoint) -> list[int]:
    return [call["status"] for call in stub.calls() if call["kind"] == "chat"]


@pytest.mark.parametrize("name", SYSTEMS)
async def test_prompts_are_shortened_for_a_small_context(start_stub: StartStub, name: str) -> None:
    stub = start_stub(RULES, context=CONTEXT)
    document = await debate(name, context_tokens=CONTEXT)
    assert document["error"] is None, document["error"]
    assert document["answer"] is not None or name == "cortex_debate"  # a tie gives CortexDebate no answer
    assert name == "react" or document["rounds"] == 10, document["stop_reason"]
    assert set(chat_statuses(stub)) == {200}  # a prompt that does not fit is never sent
    shortened = [call["left_out"] for call in document["calls"] if "left_out" in call]
    assert shortened
    assert all(left["context"] == CONTEXT for left in shortened)
    roles = [warning["where"] for warning in document["warnings"] if warning["kind"] == "prompt_shortened"]
    assert set(roles) == {call["role"] for call in document["calls"] if "left_out" in call}
    assert len(roles) == len(set(roles))
    shortened_prompts = [prompt for prompt in stub.prompts() if "(Left out here" in prompt]
    assert len(shortened_prompts) == len(shortened)
    assert all(CLAIM in prompt for prompt in stub.prompts())


@pytest.mark.parametrize("name", SYSTEMS)
async def test_an_unknown_context_length_is_learned_from_refusals(start_stub: StartStub, name: str) -> None:
    stub = start_stub(RULES, context=CONTEXT, refuses_as="vllm" if name in ("madke", "react") else "openai")
    document = await debate(name, **({} if name == "react" else {"max_rounds": 4}))
    assert document["error"] is None, document["error"]
    refused = chat_statuses(stub).count(400)
    # Calls in flight at the first refusal may also be refused.
    assert 1 <= refused <= 2 * len({call["model"] for call in document["calls"]}) + 8
    assert [call["outcome"] for call in document["calls"]].count("failed") == refused
    assert any(call.get("left_out", {}).get("context") == CONTEXT for call in document["calls"])


@pytest.mark.parametrize("server", ["openai", "vllm", "llama.cpp", "ollama"])
async def test_after_one_refusal_by_any_kind_of_server_the_next_prompt_fits(start_stub: StartStub, server: str) -> None:
    stub = start_stub(RULES, context=CONTEXT, refuses_as=server)
    document = await debate("society_of_minds", max_rounds=1, agents=1, min_agents=1, max_tokens=600)
    assert document["error"] is None
    assert chat_statuses(stub) == [400, 200]


async def test_a_citation_of_left_out_evidence_is_marked_as_fabricated(start_stub: StartStub) -> None:
    cites = [{"evidence_id": LEFT_OUT, "quote": "Letter 9 says in line 2 that the bells rang at noon."}]
    start_stub([{"fields": {"answer": "SUPPORTS", "rationale": "So it is.", "citations": [*cites, *QUOTE]}}])
    document = await debate("society_of_minds", max_rounds=1, agents=1, min_agents=1, context_tokens=CONTEXT)
    [turn] = document["turns"]
    assert [(c["evidence_id"], c["fabricated"], c["verified"]) for c in turn["citations"]] == [
        (LEFT_OUT, True, False),
        ("letter-1", False, True),
    ]
    [call] = document["calls"]
    assert LEFT_OUT in call["left_out"]["ids"]
    assert set(turn["evidence_ids"]) == {text["id"] for text in GIVEN} - set(call["left_out"]["ids"])


async def test_no_call_is_made_if_even_the_shortest_prompt_is_too_long(start_stub: StartStub) -> None:
    stub = start_stub(RULES)
    document = await debate("society_of_minds", context_tokens=256)
    assert document["error"]["kind"] == "too_long"
    assert "accepts 256 tokens, of which 64 are for the reply" in document["error"]["detail"]
    assert chat_statuses(stub) == []


async def test_the_reply_schema_has_no_ids_of_left_out_evidence(start_stub: StartStub, monkeypatch: Any) -> None:
    stub = start_stub(RULES)
    speaker = Speaker("agent", ChatModel("openai:stub", FakeChatModel(), Endpoint(stub.url, ""), tight=True))
    speaker.context_tokens = CONTEXT
    asked: list[Sequence[str]] = []

    def record_ids(model: Any, how: str, reply: Any, ids: Sequence[str]) -> dict[str, Any]:
        asked.append(ids)
        return {}

    monkeypatch.setattr("moot.nodes._models.speaker.reply_request", record_ids)
    pieces = check_given(GIVEN)
    with pytest.raises(ReplyError):
        await respond(CLAIM, make_task(), pieces, speaker)
    assert speaker.not_shown
    # The first request options are made before the prompt is shortened.
    assert {id for ids in asked[1:] for id in ids} == {piece["id"] for piece in pieces} - speaker.not_shown
