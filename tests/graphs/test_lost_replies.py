"""Requests whose replies are lost. An endpoint may charge for them, so ceilings count the reserved tokens of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from moot.graphs import load_graph
from moot.nodes._models.replies import StoreUse, store_use
from moot.nodes._models.spend import spent_by
from moot.nodes._models.step_record import tokens_of

from tests.benchmarks.ceilings import run_debate
from tests.conftest import StartStub

HANGS: dict[str, Any] = {"model": "slow", "delay_ms": 600_000}
DROPS: dict[str, Any] = {"model": "slow", "drop": True}
AGENTS = [{"name": "quick"}, {"name": "slow", "model": "openai:slow"}]
ROUND: dict[str, Any] = {"agents": AGENTS, "max_rounds": 1}


def error_in_body(code: int) -> str:
    """A body with an error of this code, as gateways send it with the status 200."""
    return json.dumps({"error": {"code": code, "message": "Provider disconnected"}})


PRICES = '{"model": "openai:stub", "input": 1, "output": 4}\n{"model": "openai:slow", "input": 2, "output": 8}'


def spent(document: dict[str, Any], name: str = "budget") -> float:
    """The amount that a debate has used of a ceiling."""
    return float(document["usage"]["ceilings"][name]["spent"])


@pytest.mark.parametrize(
    "fault",
    [
        DROPS,
        HANGS,
        *({"model": "slow", **fault} for fault in ({"status": 504}, {"raw": "{"}, {"raw": error_in_body(502)})),
    ],
)
async def test_ceilings_on_tokens_and_cost_count_the_lost_reply_and_the_received_one(
    fault: dict[str, Any], start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ceiling `max_calls` counts the repeated call once."""
    stub = start_stub([{**fault, "times": 1}])
    (tmp_path / "prices.jsonl").write_text(PRICES)
    monkeypatch.setenv("MOOT_PRICES", str(tmp_path / "prices.jsonl"))
    limits = {"budget": 20_000, "max_cost": 1, "max_calls": 4, "timeout": 2}
    document = await run_debate("society_of_minds", [], **ROUND, **limits)
    assert document["status"] == "done"
    assert document["stop_reason"] != "budget_exhausted"
    [call] = [call for call in document["calls"] if "reserved" in call]
    assert (call["role"], call["outcome"], call["attempts"]) == ("slow", "ok", 2)
    assert len(stub.requests()) == len(document["calls"]) + 1
    prompt, reply = call["reserved"]["prompt_tokens"], call["reserved"]["completion_tokens"]
    assert reply == 512
    assert prompt > call["prompt_tokens"]  # the estimate from the bytes is above the endpoint's count
    assert spent(document) == tokens_of(document["calls"]) + prompt + reply
    assert spent(document, "max_calls") == len(document["calls"])
    counted = sum(
        (2 * one["prompt_tokens"] + 8 * one["completion_tokens"]) / (1 if one["model"] == "openai:slow" else 2)
        for one in [*document["calls"], {"model": "openai:slow", **call["reserved"]}]
    )
    assert spent(document, "max_cost") == pytest.approx(counted / 1e6)


@pytest.mark.parametrize("fault", [{"status": 500}, {"status": 429}, {"raw": error_in_body(429)}])
async def test_requests_that_fail_with_500_or_429_use_no_tokens(fault: dict[str, Any], start_stub: StartStub) -> None:
    stub = start_stub([{**fault, "model": "slow", "times": 1}])
    document = await run_debate("society_of_minds", [], **ROUND, budget=20_000)
    assert len(stub.requests()) == len(document["calls"]) + 1
    assert not [call for call in document["calls"] if "reserved" in call]
    assert spent(document) == tokens_of(document["calls"])


@pytest.mark.parametrize("code", [429, 502])
async def test_a_stream_that_ends_with_an_error_counts_as_a_lost_reply(code: int, start_stub: StartStub) -> None:
    """Even the error 429 counts, because the model has already written a part of the reply."""
    part = {"id": "a", "object": "chat.completion.chunk", "created": 1, "model": "slow"}
    words = {**part, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "An otter " * 200}}]}
    stub = start_stub([{"raw": f"data: {json.dumps(words)}\n\ndata: {error_in_body(code)}\n\n", "times": 1}])
    system = load_graph("standard_prompting")
    context = system.settings.model_validate({"model": "openai:slow", "budget": 20_000})
    async for mode, value in system.graph.astream(
        {"claim": "Otters sleep."}, context=context, stream_mode=["messages", "values"]
    ):
        document: dict[str, Any] = value if mode == "values" else {}
    [call] = document["calls"]
    assert (document["status"], len(stub.requests())) == ("done", 2)
    assert call["reserved"]["completion_tokens"] == 512
    assert spent(document) == tokens_of([call]) + sum(call["reserved"].values())


async def test_the_budget_counts_every_lost_reply_of_a_failed_call(start_stub: StartStub) -> None:
    stub = start_stub([DROPS])
    document = await run_debate("standard_prompting", [], model="openai:slow", budget=20_000, attempts=3)
    assert (document["status"], document["error"]["kind"]) == ("failed", "unreachable")
    [call] = document["calls"]
    assert len(stub.requests()) == call["attempts"] == 3
    assert call["reserved"]["completion_tokens"] == 3 * 512
    assert spent(document) == sum(call["reserved"].values())
    assert spent(document) == spent_by(document["calls"], {}).tokens


async def test_a_call_is_not_repeated_if_too_little_of_the_budget_is_left(start_stub: StartStub) -> None:
    stub = start_stub([DROPS])
    document = await run_debate("society_of_minds", [], **ROUND, budget=3_000, attempts=9)
    assert (document["status"], document["stop_reason"]) == ("done", "budget_exhausted")
    [call] = [call for call in document["calls"] if call["role"] == "slow"]
    assert call["attempts"] == [request["model"] for request in stub.requests()].count("slow") < 9
    assert "charged for, and the ceilings do not allow another request. A call was not made" in call["detail"]
    [warning] = [one["detail"] for one in document["warnings"] if one["kind"] == "budget_exhausted"]
    assert warning.endswith("Sent, but not answered before a ceiling was reached: slow.")
    assert 0 < spent(document) <= 3_000


async def test_a_debate_resumed_with_a_higher_budget_still_counts_its_lost_reply(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run fails, because its budget does not allow another request."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    stub = start_stub([{"drop": True, "times": 1}])
    with store_use(StoreUse("record")):
        first = await run_debate("standard_prompting", [], budget=1_400)
        assert (first["status"], first["error"]["kind"]) == ("failed", "budget_exhausted")
        assert len(stub.requests()) == 1
        second = await run_debate("standard_prompting", [], budget=20_000)
    assert second["status"] == "done"
    assert spent(second) == tokens_of(second["calls"]) + spent(first)


async def test_a_resumed_debate_counts_an_unusable_reply_of_the_first_run_once(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run asks again after the unusable reply. It fails, because the second reply is lost."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    stub = start_stub([{"reply": "no JSON", "times": 1}, {"drop": True, "times": 1}])
    with store_use(StoreUse("record")):
        first = await run_debate("standard_prompting", [], max_calls=3, attempts=1)
        second = await run_debate("standard_prompting", [], max_calls=3, attempts=1)
    assert [(document["status"], spent(document, "max_calls")) for document in (first, second)] == [
        ("failed", 2),
        ("done", 3),
    ]
    assert len(stub.requests()) == 3
