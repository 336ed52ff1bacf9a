"""Debates in nodes and tools of other graphs: they resume where they were, as LangGraph's own subgraphs do."""

from __future__ import annotations

import asyncio
import operator
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Interrupt, RetryPolicy, Send
from moot.core.errors import MootError, UserError
from moot.core.store import Store, open_store
from moot.graphs import standard_mad
from moot.nodes import Debate, Node, Settings, StoreUse, graph_node, store_use
from typing_extensions import TypedDict

from tests.cluster.postgres import Server, binaries, running_postgres
from tests.conftest import StartStub, StubEndpoint
from tests.graphs.test_person import RULES

CLAIM = "The platypus is a mammal that lays eggs."
MODEL = {"model": "openai:stub", "models": {"debater-1": "openai:stub-debater-1", "judge": "openai:stub-judge"}}
SETTINGS = standard_mad.StandardMadSettings.model_validate(
    MODEL | {"sources": ["bm25:demo-news"], "max_rounds": 2, "ask_person": ["evidence", "remark", "verdict"]}
)
"""Settings of a debate that makes five calls and asks three questions, one after the other."""
SILENT = SETTINGS.model_copy(update={"ask_person": ()})
ROOT = Path(__file__).parents[2]


class Parent(TypedDict, total=False):
    """The state of a graph that runs debates. Each debate appends its document to ``documents``."""

    claim: str
    documents: Annotated[list[dict[str, Any]], operator.add]
    messages: Annotated[list[Any], add_messages]
    answer: str | None
    error: Any
    turns: list[Any]
    calls: list[Any]


def appended(document: dict[str, Any]) -> Any:
    return {"documents": [document]}


def in_graph_node(builder: StateGraph[Any], graph: Any, settings: Any, **options: Any) -> None:
    """Add ``graph_node(graph)`` to a graph, as the node ``debate``."""
    node = graph_node(graph).with_settings(settings, "debate")
    builder.add_node("debate", node.with_keys(lambda state: {"claim": state["claim"]}, appended), **options)


def called(builder: StateGraph[Any], graph: Any, settings: Any, **options: Any) -> None:
    """Add a node that calls the debate, and does not pass on its config."""

    async def debate(state: Parent) -> Any:
        return appended(await graph.ainvoke({"claim": state["claim"]}, context=settings))

    builder.add_node("debate", debate, **options)


def called_with_config(builder: StateGraph[Any], graph: Any, settings: Any, **options: Any) -> None:
    """Add a node that calls the debate, and passes on its config."""

    async def debate(state: Parent, config: RunnableConfig) -> Any:
        return appended(await graph.ainvoke({"claim": state["claim"]}, config, context=settings))

    builder.add_node("debate", debate, **options)


def second_in_node(builder: StateGraph[Any], graph: Any, settings: Any, **options: Any) -> None:
    """Add a node that calls two debates, one after the other. Only the second asks a person."""
    first = settings.model_copy(update={"ask_person": (), "max_rounds": 1})

    async def debate(state: Parent) -> Any:
        await graph.ainvoke({"claim": "The echidna lays eggs."}, context=first)
        return appended(await graph.ainvoke({"claim": state["claim"]}, context=settings))

    builder.add_node("debate", debate, **options)


def in_tool(builder: StateGraph[Any], graph: Any, settings: Any, **options: Any) -> None:
    """Add a `ToolNode`; its tool runs the debate, and returns the answer."""

    @tool
    async def check(claim: str) -> Any:
        """Debates a claim."""
        return Command(update=appended(await graph.ainvoke({"claim": claim}, context=settings)) | {"messages": [DONE]})

    async def debate(state: Parent) -> Any:
        call = {"name": "check", "args": {"claim": state["claim"]}, "id": "1"}
        return {"messages": [AIMessage("", tool_calls=[call])]}

    builder.add_node("ask", debate)
    builder.add_node("debate", ToolNode([check], handle_tool_errors=False), **options)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", "debate")


DONE: Any = {"role": "tool", "content": "done", "tool_call_id": "1"}


def as_subgraph(builder: StateGraph[Any], graph: Any, settings: Any, **options: Any) -> None:
    """Add the debate itself, as a node; its settings are the context."""
    builder.add_node("debate", graph, **options)


def within_a_debate(builder: Debate, graph: Any, settings: Any) -> None:
    """Add two nodes that call the debate, one after the other, to a debate."""

    async def step(state: Any, run: Any) -> dict[str, Any]:
        document = await graph.ainvoke({"claim": state["claim"]}, context=settings)
        return {key: document[key] for key in ("answer", "raw_verdict", "stop_reason", "calls")}

    builder.add_node("first", Node(step))
    builder.add_node("second", Node(step))
    builder.add_edge("open", "first")
    builder.add_edge("first", "second")
    builder.add_verdict("second")


WAYS = [in_graph_node, called, called_with_config, second_in_node, in_tool, as_subgraph]
Way = Callable[..., None]


def parent(way: Way, saver: Any, settings: Any = SETTINGS, graph: Any = standard_mad.graph, **options: Any) -> Any:
    """A graph that runs a debate in this way."""
    if way is within_a_debate:
        outer = Debate("outer", Settings)
        way(outer, graph, settings)
        return outer.compile(name="Outer", checkpointer=saver)
    builder: Any = StateGraph(Parent, context_schema=type(settings))
    way(builder, graph, settings, **options)
    if way is not in_tool:
        builder.add_edge(START, "debate")
    builder.add_edge("debate", END)
    return builder.compile(checkpointer=saver)


# --- where checkpoints are stored -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with running_postgres() as server:
        yield server


Saver = Callable[[], AbstractAsyncContextManager[BaseCheckpointSaver[Any]]]


def in_memory() -> Saver:
    """A function that returns one saver in memory."""
    kept: BaseCheckpointSaver[Any] = InMemorySaver()
    return lambda: nullcontext(kept)


NO_POSTGRES = pytest.mark.skipif(binaries() is None, reason="no Postgres is installed (initdb is not found)")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=NO_POSTGRES)])
async def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Saver:
    """A function that opens the same checkpoints again, as a new process would."""
    if request.param == "memory":
        return in_memory()
    if request.param == "sqlite":
        return partial(AsyncSqliteSaver.from_conn_string, str(tmp_path / "checkpoints.sqlite"))
    postgres = pytest.importorskip("langgraph.checkpoint.postgres.aio", reason="no langgraph-checkpoint-postgres")
    open_saver = partial(postgres.AsyncPostgresSaver.from_conn_string, request.getfixturevalue("postgres").url)
    async with open_saver() as opened:
        await opened.setup()
        await opened.adelete_thread(THREAD["configurable"]["thread_id"])
    return open_saver


@pytest.fixture
async def store(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    """A new store."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    opened = open_store()
    yield opened
    await asyncio.to_thread(opened.close)


@pytest.fixture
def stub(start_stub: StartStub) -> StubEndpoint:
    return start_stub(RULES)


REMARK = "Mind the spines of "
THREAD: Any = {"configurable": {"thread_id": "1"}}


def reply_to(wait: Interrupt) -> Any:
    """A remark that names the interrupt's id, or the acceptance of a proposal."""
    return {"remark": f"{REMARK}{wait.id}."} if wait.value["kind"] == "remark" else {"accept": True}


async def run_parent(
    way: Way, saver: Saver, given: Any, settings: Any = SETTINGS, max_calls: int | None = None
) -> dict[str, Any]:
    """Run or resume the parent on the checkpoints of ``saver``; return its state. ``max_calls`` bounds the parent."""
    context = Settings(model="openai:stub", max_calls=max_calls) if way is within_a_debate else settings
    async with saver() as opened:
        state: dict[str, Any] = await parent(way, opened, settings).ainvoke(given, THREAD, context=context)
    return state


async def accept_all(
    way: Way, saver: Saver, given: Any, *, by_id: bool = True, **more: Any
) -> tuple[dict[str, Any], list[Any]]:
    """Run or resume the parent until it ends, with a reply to each question (`reply_to`).

    Returns:
        The debate's document, and the values of all interrupts.
    """
    asked: list[Any] = []
    while len(asked) < 9:
        state = await run_parent(way, saver, given, **more)
        waits = state.get("__interrupt__", [])
        if not waits:
            return state["documents"][-1] if state.get("documents") else state, asked
        (wait,) = waits
        asked.append(wait.value)
        given = Command(resume={wait.id: reply_to(wait)} if by_id else reply_to(wait))
    raise AssertionError(asked)


# --- a person ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_each_question_of_a_debate_in_a_node_is_asked_once(way: Way, saver: Saver, stub: StubEndpoint) -> None:
    document, asked = await accept_all(way, saver, {"claim": CLAIM})
    assert [value["kind"] for value in asked] == ["evidence", "remark", "verdict"]
    assert all("problem" not in value for value in asked)
    reviews = [turn for turn in document["turns"] if turn["agent"] == "person"]
    assert [turn["step"] for turn in reviews] == ["review_evidence", "review_remark", "review_verdict"]
    assert REMARK in reviews[1]["remark"]
    assert len(stub.prompts()) == len(document["calls"]) + (3 if way is second_in_node else 0)
    assert document["answer"] == "SUPPORTS"


@pytest.mark.parametrize("way", WAYS[:3], ids=lambda way: way.__name__)
async def test_each_reply_reaches_its_debate_if_several_debates_wait(
    way: Way, saver: Saver, stub: StubEndpoint
) -> None:
    builder: Any = StateGraph(Parent)
    way(builder, standard_mad.graph, SETTINGS)
    claims = [f"{animal} lay eggs." for animal in ("Platypuses", "Echidnas", "Whales")]
    builder.add_conditional_edges(START, lambda state: [Send("debate", {"claim": one}) for one in claims], ["debate"])
    builder.add_edge("debate", END)
    given: Any = {"claim": ""}
    ids: list[str] = []
    while given and len(ids) < 12:
        async with saver() as opened:
            state = await builder.compile(checkpointer=opened).ainvoke(given, THREAD)
        waits = state.get("__interrupt__", [])
        answered = waits[1:] or waits  # the first debate stays behind the others
        ids += [wait.id for wait in answered]
        given = Command(resume={wait.id: reply_to(wait) for wait in answered}) if waits else None
    assert len(ids) == len({*ids}) == 9
    assert [document["claim"] for document in state["documents"]] == claims
    assert len(stub.prompts()) == 15
    for document in state["documents"]:
        (remark,) = [turn["remark"] for turn in document["turns"] if turn.get("remark")]
        shown = [prompt for prompt in stub.prompts() if remark in prompt]
        assert shown
        assert all(document["claim"] in prompt for prompt in shown)


@pytest.mark.parametrize("by_id", [False, True])
async def test_debates_within_a_debate_resume_where_they_were(saver: Saver, by_id: bool, stub: StubEndpoint) -> None:
    document, asked = await accept_all(within_a_debate, saver, {"claim": CLAIM}, by_id=by_id)
    assert [value["kind"] for value in asked] == ["evidence", "remark", "verdict"] * 2
    assert len(stub.prompts()) == len(document["calls"]) == 10


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_without_a_checkpointer_a_debate_that_would_wait_fails_before_its_first_call(
    way: Way, stub: StubEndpoint
) -> None:
    graph = parent(way, None)
    if way is in_graph_node:
        with pytest.raises(UserError, match="compile that graph with one"):
            await graph.ainvoke({"claim": CLAIM}, context=SETTINGS)
    else:
        state = await graph.ainvoke({"claim": CLAIM}, context=SETTINGS)
        error = state["documents"][-1]["error"] if state.get("documents") else state["error"]
        assert error["kind"] == "no_checkpointer"
        assert "compile that graph with one" in error["detail"]
    assert len(stub.prompts()) == (3 if way is second_in_node else 0)


# --- failures ---------------------------------------------------------------------------------------------------------


class CrashError(Exception):
    """Ends a run as an error of the program around it would."""


async def run_until(node: str, graph: Any, first_calls: int, stub: StubEndpoint) -> None:
    """Run a graph until a node starts after ``first_calls`` calls; then raise `CrashError`."""
    options: Any = {"stream_mode": "tasks", "subgraphs": True, "durability": "sync", "context": SILENT}
    async with aclosing(graph.astream({"claim": CLAIM}, THREAD, **options)) as tasks:
        async for _, task in tasks:
            if task["name"] == node and len(stub.prompts()) >= first_calls:
                raise CrashError


# Not SQLite: if a run ends during a write, aiosqlite may keep the file locked until the process ends.
@pytest.mark.parametrize("saver", [pytest.param("memory"), pytest.param("postgres", marks=NO_POSTGRES)], indirect=True)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_after_a_crash_only_the_missing_nodes_run(way: Way, saver: Saver, stub: StubEndpoint) -> None:
    calls = 8 if way is second_in_node else 5
    async with saver() as opened:
        with pytest.raises(CrashError):
            await run_until("close", parent(way, opened, SILENT), calls, stub)
    document, _ = await accept_all(way, saver, None, settings=SILENT)
    assert len(stub.prompts()) == calls
    assert len(document["calls"]) == 5
    assert document["answer"] == "SUPPORTS"


PROGRAM = """
import asyncio, os, sys
from tests.graphs import test_nested as nested

async def run(file, endpoint):
    os.environ["OPENAI_BASE_URL"] = endpoint
    async with nested.AsyncSqliteSaver.from_conn_string(file) as saver:
        graph = nested.parent(nested.in_graph_node, saver, settings=nested.SILENT)
        options = {"stream_mode": "tasks", "subgraphs": True, "durability": "sync", "context": nested.SILENT}
        async for _, task in graph.astream({"claim": nested.CLAIM}, nested.THREAD, **options):
            if task["name"] == "judge":
                os._exit(9)

asyncio.run(run(*sys.argv[1:]))
"""


async def test_a_new_process_resumes_a_debate_whose_process_died(tmp_path: Path, stub: StubEndpoint) -> None:
    file = str(tmp_path / "checkpoints.sqlite")
    command = [sys.executable, "-c", PROGRAM, file, stub.url]
    died = await asyncio.to_thread(subprocess.run, command, cwd=ROOT, check=False)
    assert died.returncode == 9
    before = len(stub.prompts())
    assert 4 <= before <= 5  # the judge's request may have been sent
    saver: Saver = partial(AsyncSqliteSaver.from_conn_string, file)
    document, _ = await accept_all(in_graph_node, saver, None, settings=SILENT)
    assert document["answer"] == "SUPPORTS"
    assert len(stub.prompts()) == before + 1


async def test_a_node_that_is_retried_debates_again(start_stub: StartStub) -> None:
    stub = start_stub([FAULT, *RULES])
    policy = RetryPolicy(initial_interval=0.001, jitter=False, retry_on=MootError)
    graph = parent(in_graph_node, InMemorySaver(), SILENT, retry_policy=policy)
    state = await graph.ainvoke({"claim": CLAIM}, THREAD)
    assert state["documents"][0]["status"] == "done"
    assert len(stub.prompts()) == 6


FAULT = {"model": "debater-1", "status": 400, "raw": "The model is not loaded.", "times": 1}


async def test_graph_node_starts_a_failed_debate_again_when_its_parent_is_resumed(
    start_stub: StartStub, saver: Saver
) -> None:
    stub = start_stub([FAULT, *RULES])
    settings: Any = {"settings": SETTINGS.model_copy(update={"ask_person": ("verdict",)})}
    with pytest.raises(MootError, match="The model is not loaded"):
        await run_parent(in_graph_node, saver, {"claim": CLAIM}, **settings)
    document, asked = await accept_all(in_graph_node, saver, None, **settings)
    assert [value["kind"] for value in asked] == ["verdict"]
    assert document["answer"] == "SUPPORTS"
    assert len(stub.prompts()) == 6


# --- what a resumed debate has spent ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("way", "inner", "outer"),
    [(in_graph_node, 4, None), (called, 4, None), (within_a_debate, 4, None), (within_a_debate, None, 9)],
)
async def test_the_calls_before_a_question_count_against_the_ceilings(
    way: Way, inner: int | None, outer: int | None, stub: StubEndpoint
) -> None:
    saver = in_memory()
    settings = SETTINGS.model_copy(update={"max_calls": inner})
    document, asked = await accept_all(way, saver, {"claim": CLAIM}, settings=settings, max_calls=outer)
    allowed = outer or (8 if way is within_a_debate else 4)
    assert [value["kind"] for value in asked] == ["evidence", "remark", "verdict"] * (2 if allowed > 4 else 1)
    assert len(stub.prompts()) == len(document["calls"]) == allowed


async def test_a_debate_in_a_node_goes_on_in_the_store(stub: StubEndpoint, store: Store) -> None:
    saver = in_memory()
    given: Any = {"claim": CLAIM}
    seen: list[tuple[str, int, int]] = []
    with store_use(StoreUse("record")):
        while given and len(seen) < 5:
            waits = (await run_parent(called, saver, given)).get("__interrupt__", [])
            (row,) = store.runs()
            seen.append((row.status, row.replies, len(stub.prompts())))
            given = Command(resume={wait.id: reply_to(wait) for wait in waits}) if waits else None
    assert [status for status, _, _ in seen] == ["waiting", "waiting", "waiting", "done"]
    assert seen[-1][2] == 5
    assert len({replies - calls for _, replies, calls in seen}) == 1  # all replies are stored, each once


async def test_two_nodes_that_run_the_same_debate_have_replies_of_their_own_in_the_store(
    stub: StubEndpoint, store: Store
) -> None:
    outer = parent(within_a_debate, None, SILENT)
    with store_use(StoreUse("record")):
        document = await outer.ainvoke({"claim": CLAIM})
    assert len(stub.prompts()) == len(document["calls"]) == 10
    with store_use(StoreUse("replay", id=document["id"])):
        replayed = await outer.ainvoke({"claim": CLAIM})
    assert len(stub.prompts()) == 10
    assert replayed["answer"] == document["answer"]


@dataclass
class OwnContext:
    """The context of an application, which has the settings of its debates under a key."""

    user: str
    debate: Any = None


@pytest.mark.parametrize("settings", [SILENT, SILENT.model_dump(exclude_unset=True) | {"ask_person": []}])
@pytest.mark.parametrize("way", [in_graph_node, as_subgraph, called])
async def test_the_context_of_another_graph_has_the_settings_of_its_debate(
    start_stub: StartStub, way: Any, settings: Any
) -> None:
    stub = start_stub(RULES)
    builder: Any = StateGraph(Parent, context_schema=OwnContext)
    if way is in_graph_node:
        settings = SILENT
        node = graph_node(standard_mad.graph).with_keys(lambda state: {"claim": state["claim"]}, appended)
        builder.add_node("debate", node)
    else:
        way(builder, standard_mad.graph, None)
    builder.add_edge(START, "debate")
    graph = builder.compile()
    await graph.ainvoke({"claim": CLAIM}, context=OwnContext("me", settings))
    assert len(stub.calls()) == 5
    with pytest.raises(UserError, match="key 'debate'"):
        await graph.ainvoke({"claim": CLAIM}, context=OwnContext("me"))


# --- a debate that fails ----------------------------------------------------------------------------------------------

RAISING = SILENT.model_copy(update={"on_failure": "raise"})
JUDGE_FAILS = [{"model": "judge", "status": 400, "raw": "The model is not loaded.", "times": 1}, *RULES]


async def test_a_failed_debate_raises_its_error_with_its_document_if_told_to(start_stub: StartStub) -> None:
    start_stub([JUDGE_FAILS[0] | {"times": 2}, *RULES])
    with pytest.raises(MootError, match="The model is not loaded") as raised:
        await standard_mad.graph.ainvoke({"claim": CLAIM}, context=RAISING)
    expected = await standard_mad.graph.ainvoke({"claim": CLAIM}, context=SILENT)
    document = raised.value.document
    assert document
    assert document.keys() == expected.keys()
    assert (document["status"], document["error"]) == ("failed", expected["error"])
    assert len(document["calls"]) == len(expected["calls"]) == 5
    assert document["turns"] == expected["turns"]
    with pytest.raises(MootError) as refused:
        await standard_mad.graph.ainvoke({"claim": ""}, context=RAISING)
    assert refused.value.document
    assert refused.value.document["error"]["kind"] == "invalid_claim"


async def test_after_a_raised_failure_only_the_missing_nodes_run(start_stub: StartStub) -> None:
    stub = start_stub(JUDGE_FAILS)
    graph = standard_mad.builder.compile(checkpointer=InMemorySaver())
    with pytest.raises(MootError, match="The model is not loaded"):
        await graph.ainvoke({"claim": CLAIM}, THREAD, context=RAISING)
    document = await graph.ainvoke(None, THREAD, context=RAISING)
    assert (document["status"], document["error"]) == ("done", None)
    assert len(stub.prompts()) == 6


@pytest.mark.parametrize("way", [as_subgraph, called])
async def test_a_retry_policy_runs_a_debate_that_raises_its_failure_again(way: Way, start_stub: StartStub) -> None:
    """LangGraph begins the debate anew, as it does with its own subgraphs."""
    stub = start_stub(JUDGE_FAILS)
    policy = RetryPolicy(initial_interval=0.001, jitter=False, retry_on=MootError)
    graph = parent(way, InMemorySaver(), RAISING, retry_policy=policy)
    await graph.ainvoke({"claim": CLAIM}, THREAD, context=RAISING)
    assert len(stub.prompts()) == 10


async def test_a_batch_of_failures_gives_the_errors(start_stub: StartStub) -> None:
    """LangChain's own way to keep going: `return_exceptions`."""
    start_stub(JUDGE_FAILS)
    documents = await standard_mad.graph.abatch(
        [{"claim": CLAIM}, {"claim": CLAIM}], context=RAISING, return_exceptions=True
    )
    failed, done = sorted(documents, key=lambda one: isinstance(one, dict))
    assert isinstance(failed, MootError)
    assert done["status"] == "done"
