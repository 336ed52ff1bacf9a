"""Spans and metrics of debates on a scripted endpoint, and the recording of content."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from moot.core.errors import UserError
from moot.core.telemetry.instruments import CAPTURE, captures_content
from moot.graphs import load_graph
from moot.graphs.society_of_minds import graph as society
from moot.graphs.standard_prompting import graph as prompting
from moot.nodes._models.replies import StoreUse, store_use
from opentelemetry.trace import StatusCode

from tests.conftest import CLAIM, StartStub
from tests.telemetry.conftest import Recorded

MODEL = "openai:gpt-4o-mini"
CALL = {"gen_ai__operation__name": "chat", "gen_ai__provider__name": "openai", "gen_ai__request__model": "gpt-4o-mini"}
KEY = "sk-canary-2f7f7c1d9a44e0b8"


def settings_of(system: str = "society_of_minds", **more: Any) -> Any:
    return load_graph(system).settings(**{"model": MODEL, **more})


async def test_a_debate_is_a_tree_of_spans(recorded: Recorded, start_stub: StartStub) -> None:
    start_stub()
    document = await society.ainvoke({"claim": CLAIM}, context=settings_of(max_rounds=2))
    [root] = recorded.spans("invoke_workflow")
    assert root.parent is None
    assert (root.name, root.status.status_code) == ("invoke_workflow society_of_minds", StatusCode.UNSET)
    debate_attributes = dict(root.attributes or {})
    assert (debate_attributes["gen_ai.conversation.id"], debate_attributes["moot.status"]) == (document["id"], "done")
    assert (debate_attributes["moot.calls"], debate_attributes["moot.stop_reason"]) == (
        document["usage"]["calls"],
        document["stop_reason"],
    )
    names = {span.context.span_id: span for span in recorded.spans()}
    calls = recorded.spans("chat")
    assert len(calls) == len(document["calls"]) > 2
    for call, record in zip(calls, sorted(document["calls"], key=lambda one: one["round"]), strict=True):
        call_attributes = dict(call.attributes or {})
        assert call.parent
        node = names[call.parent.span_id]
        assert node.parent
        assert node.parent.span_id == root.context.span_id
        assert node.name == call_attributes["moot.node"] == record["node"]
        assert (call_attributes["gen_ai.conversation.id"], call_attributes["moot.round"]) == (
            document["id"],
            record["round"],
        )
        assert call_attributes["gen_ai.usage.input_tokens"]
    assert {dict(call.attributes or {})["gen_ai.agent.name"] for call in calls} == {
        c["agent"] for c in document["calls"]
    }


async def test_metrics_agree_with_the_usage_in_the_document(recorded: Recorded, start_stub: StartStub) -> None:
    start_stub()
    document = await society.ainvoke({"claim": CLAIM}, context=settings_of(max_rounds=1))
    used = document["usage"]
    assert recorded.count("gen_ai.client.operation.duration", **CALL) == used["calls"]
    assert recorded.sum("gen_ai.client.token.usage", **CALL, gen_ai__token__type="input") == used["prompt_tokens"]
    assert recorded.sum("gen_ai.client.token.usage", **CALL, gen_ai__token__type="output") == used["completion_tokens"]
    usd = (used["prompt_tokens"] * 0.15 + used["completion_tokens"] * 0.6) / 1e6
    assert recorded.sum("moot.cost.usd", **CALL) == pytest.approx(usd)
    assert recorded.points("moot.calls.unpriced") == []
    assert recorded.sum("moot.replies", moot__outcome="ok") == used["calls"]
    ended = {"gen_ai__workflow__name": "society_of_minds", "moot__status": "done"}
    assert recorded.count("moot.debate.duration", **ended, moot__stop_reason=document["stop_reason"]) == 1
    assert recorded.sum("moot.debates.running") == 0
    assert {p.attributes["moot.state"]: p.value for p in recorded.points("moot.endpoint.calls")} == {
        "running": 0,
        "waiting": 0,
    }


async def test_a_call_with_refused_requests_is_recorded_once(recorded: Recorded, start_stub: StartStub) -> None:
    """Its span has an event for each refused request."""
    stub = start_stub([{"status": 429, "retry_after": "0", "times": 2}])
    document = await prompting.ainvoke({"claim": CLAIM}, context=settings_of("standard_prompting"))
    assert (document["status"], document["calls"][0]["attempts"], len(stub.calls())) == ("done", 3, 3)
    assert recorded.sum("moot.endpoint.refusals", moot__asked=MODEL) == 2
    assert recorded.count("gen_ai.client.operation.duration", **CALL) == 1
    [call] = recorded.spans("chat")
    assert [dict(event.attributes or {})["error.type"] for event in call.events] == ["rate_limited"] * 2
    assert (dict(call.attributes or {})["moot.requests"], call.status.status_code) == (3, StatusCode.UNSET)


async def test_metrics_of_a_failed_debate_have_the_kind_of_its_error(recorded: Recorded, start_stub: StartStub) -> None:
    start_stub([{"status": 401}])
    document = await prompting.ainvoke({"claim": CLAIM}, context=settings_of("standard_prompting"))
    assert document["error"]["kind"] == "authentication"
    failed = {"error__type": "authentication"}
    assert recorded.count("gen_ai.client.operation.duration", **CALL, **failed) == 1
    assert recorded.count("moot.debate.duration", moot__status="failed", **failed) == 1
    assert [s.status.status_code for s in recorded.spans("chat") + recorded.spans("invoke")] == [StatusCode.ERROR] * 2
    assert recorded.points("gen_ai.client.token.usage") == []


async def test_an_unusable_reply_is_counted_as_unparsed(recorded: Recorded, start_stub: StartStub) -> None:
    start_stub([{"reply": "No JSON.", "times": 1}])
    await prompting.ainvoke({"claim": CLAIM}, context=settings_of("standard_prompting"))
    outcomes = {p.attributes["moot.outcome"]: p.value for p in recorded.points("moot.replies")}
    assert outcomes == {"unparsed": 1, "ok": 1}


async def test_a_cancelled_debate_ends_its_spans_and_is_counted_as_interrupted(
    recorded: Recorded, start_stub: StartStub
) -> None:
    stub = start_stub([{"delay_ms": 600_000}])
    running = asyncio.create_task(prompting.ainvoke({"claim": CLAIM}, context=settings_of("standard_prompting")))
    while not stub.requests():
        await asyncio.sleep(0.01)
    assert recorded.sum("moot.debates.running") == 1
    assert recorded.sum("moot.endpoint.calls", moot__state="running") == 1
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert recorded.sum("moot.debates.running") == 0
    assert recorded.count("moot.debate.duration", moot__status="interrupted") == 1
    assert recorded.count("gen_ai.client.operation.duration", error__type="CancelledError") == 1
    assert {span.name for span in recorded.spans()} >= {"chat gpt-4o-mini", "invoke_workflow standard_prompting"}


async def test_a_stored_reply_is_not_recorded_as_a_call(recorded: Recorded, start_stub: StartStub) -> None:
    stub = start_stub()
    for _ in range(2):
        with store_use(StoreUse("reuse")):
            document = await prompting.ainvoke({"claim": CLAIM}, context=settings_of("standard_prompting"))
    assert document["calls"][0]["from_store"]
    assert len(stub.calls()) == len(recorded.spans("chat")) == recorded.count("gen_ai.client.operation.duration") == 1
    assert recorded.count("moot.debate.duration", moot__status="done") == 2


async def test_a_call_with_an_unknown_price_is_counted_as_unpriced(recorded: Recorded, start_stub: StartStub) -> None:
    start_stub()
    await prompting.ainvoke({"claim": CLAIM}, context=settings_of("standard_prompting", model="openai:nobody-knows"))
    assert recorded.points("moot.cost.usd") == []
    assert recorded.sum("moot.calls.unpriced", gen_ai__request__model="nobody-knows") == 1


async def test_a_search_is_recorded_as_an_operation(recorded: Recorded, start_stub: StartStub) -> None:
    start_stub()
    await load_graph("rag").graph.ainvoke({"claim": CLAIM}, context=settings_of("rag", sources=("bm25:demo-news",)))
    wanted = {"gen_ai__operation__name": "retrieval", "gen_ai__data_source__id": "bm25:demo-news"}
    assert recorded.count("gen_ai.client.operation.duration", **wanted) == len(recorded.spans("retrieval")) == 1


async def test_the_spans_of_an_inner_debate_belong_to_the_outer_debate(
    recorded: Recorded, start_stub: StartStub
) -> None:
    start_stub()
    reads = {"agents": [{"name": name, "retriever": "bm25:demo-news"} for name in ("one", "two")]}
    inner = {"debate": "society_of_minds", "debate_settings": {"max_rounds": 1}}
    document = await load_graph("gated").graph.ainvoke({"claim": CLAIM}, context=settings_of("gated", **reads, **inner))
    [root] = recorded.spans("invoke_workflow")
    spans = {span.context.span_id: span for span in recorded.spans()}
    for span in recorded.spans("chat"):
        while span.parent is not None:
            span = spans[span.parent.span_id]
        assert span is root
    assert document["metrics"]["gate"]["debate"]["graph"] == "society_of_minds"


@pytest.mark.parametrize("wanted", [False, True])
async def test_content_is_recorded_only_if_a_user_turns_it_on(
    request: pytest.FixtureRequest, start_stub: StartStub, monkeypatch: pytest.MonkeyPatch, wanted: bool
) -> None:
    """API keys in the content are never recorded."""
    monkeypatch.setenv(CAPTURE, "true" if wanted else "")
    monkeypatch.setenv("EXAMPLE_API_KEY", KEY)
    recorded: Recorded = request.getfixturevalue("recorded")
    start_stub([{"fields": {"rationale": "MARKED-REPLY"}}])
    await prompting.ainvoke({"claim": f"MARKED-CLAIM {KEY} is a mammal."}, context=settings_of("standard_prompting"))
    text = recorded.text()
    assert KEY not in text
    assert ("MARKED-CLAIM" in text, "MARKED-REPLY" in text) == (wanted, wanted)
    if wanted:
        attributes = dict(recorded.spans("chat")[0].attributes or {})
        sent = json.loads(str(attributes["gen_ai.input.messages"]))
        assert [message["role"] for message in sent] == ["system", "user"]
        assert "MARKED-CLAIM [EXAMPLE_API_KEY]" in sent[1]["parts"][0]["content"]
        assert json.loads(str(attributes["gen_ai.output.messages"]))[0]["finish_reason"] == "stop"


def test_recording_of_content_as_events_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CAPTURE, "EVENT_ONLY")
    with pytest.raises(UserError, match="moot writes no events"):
        captures_content()


async def test_metrics_contain_a_limited_number_of_model_names(recorded: Recorded, start_stub: StartStub) -> None:
    start_stub()
    for number in range(102):
        context = settings_of("standard_prompting", model=f"openai:m{number}")
        await prompting.ainvoke({"claim": CLAIM}, context=context)
    names = {p.attributes["gen_ai.request.model"] for p in recorded.points("gen_ai.client.operation.duration")}
    assert len(names) <= 101  # 100 names, and `_OTHER` for all further names
    assert "_OTHER" in names


async def test_the_cost_metric_uses_the_file_named_by_the_variable_moot_prices(
    request: pytest.FixtureRequest, start_stub: StartStub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "prices.jsonl").write_text('{"model": "openai:nobody-knows", "input": 1000000, "output": 0}\n')
    monkeypatch.setenv("MOOT_PRICES", str(tmp_path / "prices.jsonl"))
    recorded: Recorded = request.getfixturevalue("recorded")
    start_stub()
    context = settings_of("standard_prompting", model="openai:nobody-knows")
    document = await prompting.ainvoke({"claim": CLAIM}, context=context)
    assert recorded.sum("moot.cost.usd") == pytest.approx(document["usage"]["prompt_tokens"])
