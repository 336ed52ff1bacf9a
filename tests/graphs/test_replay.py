"""Debates with stored replies: they are replayed and resumed, and their calls are reused and shared."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from moot.core.store import Store, open_store
from moot.core.transfer import export_run, import_run
from moot.graphs import load_graph
from moot.nodes._models.chat_models import open_chat_model
from moot.nodes._models.prices import paid_calls
from moot.nodes._models.replies import DebateReplies, StoreUse, store_use
from moot.nodes._models.session import Session
from moot.nodes._models.speaker import Speaker
from moot.nodes._models.step_record import StepRecord
from moot.nodes._texts.replies import QueryReply
from moot.transcript.end import costs

from tests.conftest import MODELS, StartStub, StubEndpoint, reading_demo, says, supports
from tests.graphs.test_person import RULES, settings_of

CLAIM = {"claim": "The platypus is a mammal that lays eggs."}
SYSTEMS = ("tool_mad", "proclaim", "cortex_debate")
PROMPTS = {"write": "Write.\n---\nThe data."}


@pytest.fixture
async def store(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    """A new store in a new home folder, with the corpora that all tests share."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (home / "corpora").mkdir(exist_ok=True)
    (tmp_path / "home" / "corpora").symlink_to(home / "corpora")
    opened = open_store()
    yield opened
    await asyncio.to_thread(opened.close)


@pytest.fixture
def stub(start_stub: StartStub) -> StubEndpoint:
    """An endpoint that replies after 0 to 20 ms."""
    return start_stub(latency_ms=10, jitter=1)


async def debate(name: str, seed: int, use: StoreUse, **more: Any) -> dict[str, Any]:
    system = load_graph(name)
    given = {"model": "openai:stub", "embedder": "openai:stub-embedding", "seed": seed} | reading_demo(system.settings)
    with store_use(use):
        settings = system.settings.model_validate(given | more)
        document: dict[str, Any] = await system.graph.ainvoke(CLAIM, context=settings)
    return document


def comparable(document: dict[str, Any]) -> dict[str, Any]:
    """A document without times, without the field ``from_store``, and without ids except those of evidence."""

    def without_volatile(value: Any) -> Any:
        if isinstance(value, dict):
            hidden = {"seconds", "started_at", "retrieved", "from_store"} | (set() if "text" in value else {"id"})
            return {name: without_volatile(of) for name, of in value.items() if name not in hidden}
        return [without_volatile(item) for item in value] if isinstance(value, list) else value

    plain: dict[str, Any] = without_volatile(json.loads(json.dumps(document, default=str)))
    return plain


async def test_replayed_debates_make_no_call_and_equal_the_recorded_debates(stub: StubEndpoint, store: Store) -> None:
    systems_and_seeds = [(SYSTEMS[n % 3], n) for n in range(6)]
    recorded = await asyncio.gather(*(debate(*what, StoreUse("record"), max_rounds=2) for what in systems_and_seeds))
    assert {document["status"] for document in recorded} == {"done"}, [d["error"] for d in recorded]
    sent = len(stub.calls())
    uses = [StoreUse("replay", id=first["id"]) for first in recorded]
    replays = zip(systems_and_seeds, uses, strict=True)
    replayed = await asyncio.gather(*(debate(*what, use, max_rounds=2) for what, use in replays))
    for (name, _), first, again in zip(systems_and_seeds, recorded, replayed, strict=True):
        assert again["error"] is None, name
        assert comparable(again) == comparable(first)
        assert all(call["from_store"] for call in again["calls"])
        assert again["usage"]["from_store"]["calls"] == again["usage"]["calls"] == len(first["calls"])
    assert len(stub.calls()) == sent


async def test_a_replay_with_another_seed_fails_and_names_the_call(stub: StubEndpoint, store: Store) -> None:
    first = await debate("society_of_minds", 0, StoreUse("record"))
    sent = len(stub.calls())
    other = await debate("society_of_minds", 5, StoreUse("replay", id=first["id"]))
    assert other["error"]["kind"] == "replay_miss"
    assert "no stored reply for a call of" in other["error"]["detail"]
    assert len(stub.calls()) == sent


async def test_a_failed_debate_resumes_at_the_failed_call(start_stub: StartStub, store: Store) -> None:
    models: dict[str, Any] = {"models": MODELS, "attempts": 1, "max_rounds": 2}
    answers = [says("rag", "SUPPORTS"), says("search", "REFUTES")]
    failing = {"model": "stub-judge", "status": 500, "times": 1}
    stub = start_stub([failing, *answers, *supports([True], CLAIM["claim"])], latency_ms=1)
    first = await debate("tool_mad", 0, StoreUse("record"), **models)
    assert (first["status"], first["error"]["where"].partition(",")[0]) == ("failed", "judge"), first["error"]
    [row] = store.runs()
    assert (row.id, row.status) == (first["id"], "failed")
    before = len(stub.calls())
    second = await debate("tool_mad", 0, StoreUse("record"), **models)
    assert (second["status"], second["id"]) == ("done", first["id"]), second["error"]
    assert len(stub.calls()) == before + 1
    fresh = [call for call in second["calls"] if "from_store" not in call]
    assert [call["role"] for call in fresh] == ["judge"]
    assert second["usage"]["from_store"]["calls"] == second["usage"]["calls"] - 1
    usage = second["usage"]
    for total in ("calls", "prompt_tokens", "completion_tokens"):
        assert usage[total] == sum(role[total] for role in usage["by_role"].values())
    [judge] = paid_calls(second["calls"])
    assert judge["prompt_tokens"] == usage["prompt_tokens"] - usage["from_store"]["prompt_tokens"]
    tokens = f"{judge['prompt_tokens']:,} + {judge['completion_tokens']:,} tokens in {usage['calls']} calls"
    from_store = f"({usage['calls'] - 1} of {usage['calls']} replies were stored and cost nothing)"
    assert costs(second).startswith(f"{tokens} {from_store}")
    # The debate is done, so a further run makes all calls again.
    third = await debate("tool_mad", 0, StoreUse("record"), **models)
    assert third["id"] != first["id"]
    assert not any(call.get("from_store") for call in third["calls"])


async def test_the_reuse_mode_takes_replies_of_another_debate(stub: StubEndpoint, store: Store) -> None:
    first = await debate("society_of_minds", 0, StoreUse("record"))
    sent = len(stub.calls())
    second = await debate("society_of_minds", 0, StoreUse("reuse"))
    assert second["id"] != first["id"]
    assert comparable(second) == comparable(first)
    assert len(stub.calls()) == sent


async def test_an_old_exported_debate_without_its_passages_is_repeated_elsewhere(
    stub: StubEndpoint, store: Store, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replies older than those that are kept count from their import. Whoever repeats the debate has the corpora."""
    first = await debate("rag", 0, StoreUse("record"))
    sent, file = len(stub.calls()), tmp_path / "debate.moot"
    run = store.run(first["id"])
    assert run
    export_run(store, dataclasses.replace(run, updated=run.updated - 100 * 86400), file, only_models=True)
    assert not re.search(r'"kind": ?"(search|page)"', file.read_text())
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "corpora").symlink_to(home / "corpora")
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "elsewhere"))
    other = open_store()
    import_run(other, file)
    again = await debate("rag", 0, StoreUse("reuse"))
    assert comparable(again) == comparable(first)
    assert len(stub.calls()) == sent
    await asyncio.to_thread(other.close)


SOURCES = {"react": {"sources": ["bm25:demo-news"]}}


class EndedRuns(AsyncCallbackHandler):
    """A callback handler that records each chat run that ends: name, tags, metadata, text, tokens."""

    def __init__(self) -> None:
        self.begun: dict[Any, Any] = {}
        self.ended: list[Any] = []

    async def on_chat_model_start(self, serialized: Any, messages: Any, **more: Any) -> None:
        own = {name: of for name, of in more["metadata"].items() if not name.startswith(("langgraph", "checkpoint"))}
        self.begun[more["run_id"]] = (more["name"], sorted(more["tags"]), own)

    async def on_llm_end(self, response: Any, **more: Any) -> None:
        message = response.generations[0][0].message
        self.ended.append((*self.begun[more["run_id"]], message.text, message.usage_metadata))


async def test_replayed_calls_reach_callbacks_and_streams(stub: StubEndpoint, store: Store) -> None:
    system = load_graph("react")
    settings = system.settings.model_validate({"model": "openai:stub", "corpus": "demo-news"} | SOURCES["react"])
    seen = []
    for mode in ("record", "replay"):
        ends, streamed = EndedRuns(), dict[Any, str]()
        use = StoreUse(mode, id=None if mode == "record" else (store.runs())[0].id)
        with store_use(use):
            config: Any = {"callbacks": [ends]}
            async for chunk, about in system.graph.astream(CLAIM, config, context=settings, stream_mode="messages"):
                at = about.get("agent"), about["langgraph_node"], about.get("round")
                streamed[at] = streamed.get(at, "") + chunk.text
        seen.append((sorted(ends.ended, key=str), streamed))
    assert seen[0][0]
    for (*recorded, about, text, tokens), (*replayed, about_again, text_again, tokens_again) in zip(
        *(runs for runs, _ in seen), strict=True
    ):
        assert (replayed, text_again, tokens_again) == (recorded, text, tokens)
        assert about_again == {**about, "from_store": True}
    assert seen[1][1] == seen[0][1]


async def recording_session(store: Store) -> Session:
    start = store.begin("g", {}, {})
    return Session(replies=DebateReplies("record", store, start.id))


async def ask_judge(session: Session, agent: str = "") -> Any:
    """Ask the model of the role ``judge`` for a query, as the first sample of ``agent``; return the recorded calls."""
    model = await open_chat_model("openai:stub")
    speaker = Speaker("judge", model, session=session, sample=(agent, 1), prompts=PROMPTS)
    await speaker.ask("write", {}, QueryReply)
    return speaker.record.calls


async def test_equal_calls_of_one_agent_share_a_request(stub: StubEndpoint, store: Store) -> None:
    """A cancelled call does not share its request."""
    session = await recording_session(store)
    cancelled = asyncio.create_task(ask_judge(session))
    others = [asyncio.create_task(ask_judge(session)) for _ in range(2)]
    while not stub.calls():
        await asyncio.sleep(0)
    cancelled.cancel()
    calls = [call for calls in await asyncio.gather(*others) for call in calls]
    assert [call.get("shared") for call in calls] == [None, True]
    assert [bool(call["prompt_tokens"]) for call in calls] == [True, False]
    assert len(stub.calls()) == 2  # the request of the cancelled call, and the shared request


async def test_equal_calls_of_two_nodes_find_their_own_replies_in_any_order(
    start_stub: StartStub, store: Store
) -> None:
    stub = start_stub([{"fields": {"query": "the first"}, "times": 1}, {"fields": {"query": "the second"}}])

    async def ask(session: Session, node: str) -> str:
        model = await open_chat_model("openai:stub")
        speaker = Speaker("judge", model, StepRecord(node), session=session, prompts=PROMPTS)
        return (await speaker.ask("write", {}, QueryReply)).query

    session = await recording_session(store)
    assert session.replies is not None
    assert [await ask(session, node) for node in ("a", "b")] == ["the first", "the second"]
    replay = Session(replies=DebateReplies("replay", store, session.replies.id))
    assert [await ask(replay, node) for node in ("b", "a")] == ["the second", "the first"]
    assert len(stub.calls()) == 2


async def test_equal_calls_of_two_agents_share_no_request(stub: StubEndpoint, store: Store) -> None:
    session = await recording_session(store)
    await asyncio.gather(ask_judge(session, "a"), ask_judge(session, "b"))
    assert len(stub.calls()) == 2


async def test_a_budget_counts_stored_replies(stub: StubEndpoint, store: Store) -> None:
    spending: dict[str, Any] = {"max_rounds": 4, "budget": 3000}
    first = await debate("tool_mad", 3, StoreUse("record"), **spending)
    again = await debate("tool_mad", 3, StoreUse("replay", id=first["id"]), **spending)
    unlimited = await debate("tool_mad", 3, StoreUse("off"), **{**spending, "budget": None})
    assert len(first["calls"]) < len(unlimited["calls"])
    assert (again["stop_reason"], len(again["calls"])) == (first["stop_reason"], len(first["calls"]))
    assert comparable(again) == comparable(first)


async def test_calls_after_a_persons_reply_are_not_taken_from_the_store(start_stub: StartStub, store: Store) -> None:
    stub = start_stub([{"fields": {"answer": "SUPPORTS", "rationale": "The same in each round."}}])
    system = load_graph("tool_mad")
    given = {"model": "openai:stub", "embedder": "openai:stub-embedding"} | reading_demo(system.settings)
    request_counts = []
    for asking in ([], ["remark"]):
        settings = system.settings.model_validate(given | {"ask_person": asking})
        config: Any = {"configurable": {"thread_id": "1"}}
        before = len(stub.calls())
        with store_use(StoreUse("record")):
            graph = system.graph.builder.compile(checkpointer=InMemorySaver())
            document = await graph.ainvoke(CLAIM, config, context=settings)
            while (await graph.aget_state(config)).next:
                document = await graph.ainvoke(Command(resume=True), config, context=settings)
        assert document["rounds"] == 3
        assert not [call for call in document["calls"] if call.get("from_store")]
        request_counts.append(len([call for call in stub.calls()[before:] if call["kind"] == "chat"]))
    assert request_counts[0] == request_counts[1]


async def test_unusable_replies_before_a_persons_reply_count_once(start_stub: StartStub, store: Store) -> None:
    """The thread's state has their calls, and the store has their cost, too."""
    stub = start_stub([{"model": "stub-agent-1", "reply": "no JSON"}, *RULES])
    graph = load_graph("society_of_minds").graph.builder.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    settings = settings_of("society_of_minds", ask_person=["remark"], max_calls=60)
    with store_use(StoreUse("record")):
        document = await graph.ainvoke(CLAIM, config, context=settings)
        assert document.pop("__interrupt__")
        while (await graph.aget_state(config)).next:
            document = await graph.ainvoke(Command(resume=True), config, context=settings)
    assert [call["outcome"] for call in document["calls"]].count("unparsed") == 4
    assert document["usage"]["ceilings"]["max_calls"]["spent"] == len(document["calls"]) == len(stub.calls())
