"""Graphs run for synchronous callers, too: scripts, notebooks, threads, and graphs with synchronous checkpointers."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command
from moot.core.endpoint import close_clients
from moot.core.errors import UserError
from moot.graphs import load_graph, rag
from moot.nodes._runtime.sync import event_loop

from tests.conftest import StartStub, reading_demo
from tests.graphs.test_nested import Parent, appended

CLAIM: Any = {"claim": "The kilogram is defined by a metal cylinder."}
MODEL = {"model": "openai:stub", "embedder": "openai:stub-embedding"}
SETTINGS = rag.RagSettings.model_validate({**MODEL, "sources": ["bm25:demo-news"]})
ASKING = SETTINGS.model_copy(update={"ask_person": ("evidence",)})


@pytest.fixture(autouse=True)
def _clients_are_closed() -> Iterator[None]:
    yield
    asyncio.run_coroutine_threadsafe(close_clients(), event_loop()).result()


@pytest.mark.parametrize("name", ["tool_mad", "proclaim", "reconcile", "react"])
async def test_invoke_gives_the_document_of_ainvoke(start_stub: StartStub, name: str) -> None:
    """`invoke` is called in the thread of a running event loop, as in a notebook."""
    start_stub([])
    system = load_graph(name)
    settings = system.settings.model_validate(MODEL | reading_demo(system.settings))
    document = system.graph.invoke(CLAIM, context=settings)
    expected = await system.graph.ainvoke(CLAIM, context=settings)
    assert document["status"] == "done"
    for key in ("answer", "stop_reason", "rounds"):
        assert document[key] == expected[key]
    assert {piece["id"] for piece in document["evidence"]} == {piece["id"] for piece in expected["evidence"]}
    assert len(document["calls"]) == len(expected["calls"])


def test_batch_and_stream(start_stub: StartStub) -> None:
    start_stub([])
    documents = rag.graph.batch([{"claim": f"Claim {i}."} for i in range(5)], context=SETTINGS)
    assert [document["claim"] for document in documents] == [f"Claim {i}." for i in range(5)]
    parts = list(rag.graph.stream(CLAIM, context=SETTINGS, stream_mode=["updates", "messages"]))
    nodes = [name for mode, part in parts if mode == "updates" for name in part]
    searched = ["open", "plan", "retrieve", "review_evidence", "answer"]
    assert nodes == [*searched, "conclude", "assess", "second_opinion", "robustness", "close"]
    assert any(mode == "messages" and part[0].text for mode, part in map(tuple, parts))


def test_a_stream_that_is_left_ends_the_debate(start_stub: StartStub) -> None:
    stub = start_stub([])
    stream: Any = rag.graph.stream(CLAIM, context=SETTINGS)
    assert list(next(stream)) == ["open"]
    stream.close()
    assert not asyncio.all_tasks(event_loop())
    assert not stub.calls()


def test_a_synchronous_call_in_the_event_loop_of_such_calls_is_refused() -> None:
    """It would wait for ever."""

    async def answer() -> Any:
        return rag.graph.invoke(CLAIM, context=SETTINGS)["answer"]

    with pytest.raises(RuntimeError, match="await the asynchronous one"):
        asyncio.run_coroutine_threadsafe(answer(), event_loop()).result()


def test_errors_reach_the_caller() -> None:
    with pytest.raises(UserError, match="There is no setting 'modle'"):
        rag.graph.invoke(CLAIM, context={"modle": "fake:1"})  # type: ignore[call-overload]


def called(state: Parent) -> Any:
    return appended(rag.graph.invoke({"claim": state["claim"]}, context=ASKING))


def called_with_config(state: Parent, config: RunnableConfig) -> Any:
    return appended(rag.graph.invoke({"claim": state["claim"]}, config, context=ASKING))


@pytest.mark.parametrize("node", [called, called_with_config, rag.graph])
@pytest.mark.parametrize(
    "saver", [InMemorySaver, lambda: SqliteSaver(sqlite3.connect(":memory:", check_same_thread=False))]
)
def test_a_debate_in_a_synchronous_graph_waits_and_goes_on(
    start_stub: StartStub, node: Any, saver: Callable[[], Any]
) -> None:
    stub = start_stub([])
    builder: Any = StateGraph(Parent, context_schema=rag.RagSettings)
    builder.add_node("debate", node)
    builder.add_edge(START, "debate")
    builder.add_edge("debate", END)
    graph, thread = builder.compile(checkpointer=saver()), {"configurable": {"thread_id": "1"}}
    (question,) = graph.invoke(CLAIM, thread, context=ASKING)["__interrupt__"]
    assert not stub.calls()
    reply: Command[Any] = Command(resume={question.id: {"accept": True}})
    parts = list(graph.stream(reply, thread, context=ASKING, stream_mode="updates", subgraphs=True))
    assert [name for _, part in parts for name in part][:2] == ["review_evidence", "answer"]
    assert not graph.get_state(thread).next
    assert len(stub.calls()) == 1


PROGRAM = """
import signal, sys, threading
from moot.graphs.rag import graph
for part in graph.stream({"claim": "x"}, context={"model": "openai:stub", "sources": ["bm25:demo-news"]}):
    print(*part, flush=True)
"""


def test_ctrl_c_ends_a_synchronous_debate(start_stub: StartStub) -> None:
    """The endpoint would answer after an hour."""
    start_stub(latency_ms=3_600_000)
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        while process.stdout.readline() != b"review_evidence\n":
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        error = process.stderr.read()
    assert b"KeyboardInterrupt" in error
    assert process.returncode == -signal.SIGINT
