"""Tests of the LangGraph API with LangGraph's own clients, of MCP, of A2A, and of ``moot assistants``."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import jsonschema
import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.pregel.remote import RemoteGraph
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError
from mcp import Client, MCPError
from moot.cli.main import app
from moot.graphs import DESCRIPTIONS
from moot.web.assistants import create_assistants, title_of
from typer.testing import CliRunner
from typing_extensions import TypedDict

from tests.commands import output_of
from tests.conftest import CLAIM
from tests.serving import Server
from tests.test_docs_programs import programs

ASKED: dict[str, Any] = {"claim": CLAIM}
FAKE: dict[str, Any] = {"model": "fake:1"}
SLOW: dict[str, Any] = {"model": "openai:stub-slow", "attempts": 1}
GRAPH = "standard_prompting"


@pytest.fixture
async def client(server: Server) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=server.url, api_key=None) as client:
        yield client


async def test_a_stream_has_updates_progress_and_tokens(server: Server, client: LangGraphClient) -> None:
    parts: dict[str, list[Any]] = {}
    modes: Any = ["updates", "custom", "messages-tuple", "values"]
    settings: dict[str, Any] = {"model": "openai:stub", "agents": 2, "max_rounds": 1}
    stream = client.runs.stream(None, "society_of_minds", input=ASKED, context=settings, stream_mode=modes)
    async for part in stream:
        parts.setdefault(part.event, []).append(part.data)
    assert [*parts["updates"][0], *parts["updates"][-1]] == ["open", "close"]
    started, ended = ([e for e in parts["custom"] if e["event"] == event] for event in ("begin", "step"))
    assert [(e["node"], e["agent"], e["round"]) for e in started if e["node"] == "answer"] == [
        ("answer", "agent-1", 1),
        ("answer", "agent-2", 1),
    ]
    assert sorted(map(key_of_step, started)) == sorted(map(key_of_step, ended))
    document = parts["values"][-1]
    assert sum(e["calls"] for e in ended) == document["usage"]["calls"] == 2
    counted = document["usage"]["prompt_tokens"] + document["usage"]["completion_tokens"]
    assert sum(e["tokens"] for e in ended) == counted > 0  # tokens of streamed replies are counted
    tokens = [message for message, about in parts["messages"] if about["langgraph_node"] == "answer"]
    assert {message["type"] for message in tokens} == {"AIMessageChunk"}
    assert document["answer"] in "".join(message["content"] for message in tokens)


def key_of_step(event: dict[str, Any]) -> tuple[str, ...]:
    """The node, agent, round and phase of a progress event."""
    return tuple(str(event[key]) for key in ("node", "agent", "round", "phase"))


async def test_progress_names_the_nodes_of_subgraphs(client: LangGraphClient) -> None:
    debaters = [{"name": name, "retriever": None} for name in ("one", "two")]
    context: dict[str, Any] = FAKE | {"debaters": debaters, "max_rounds": 1, "scoring": "all_rounds"}
    stream = client.runs.stream(
        None, "tool_mad", input=ASKED, context=context, stream_mode="custom", stream_subgraphs=True
    )
    nodes = {(part.data["node"], part.data["agent"]) async for part in stream if part.event.startswith("custom")}
    assert {("respond", "one"), ("respond", "two"), ("judge", None), ("close", None)} <= nodes


async def test_the_history_has_every_step_of_a_background_run(client: LangGraphClient) -> None:
    thread = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread, GRAPH, input=ASKED, context=FAKE)
    document: Any = await client.runs.join(thread, run["run_id"])
    assert (document["status"], (await client.runs.get(thread, run["run_id"]))["status"]) == ("done", "success")
    history = await client.threads.get_history(thread, limit=20)
    assert [state["next"] for state in history][::-1] == [
        ["__start__"],
        ["open"],
        ["answer"],
        ["conclude"],
        ["close"],
        [],
    ]
    values: Any = (await client.threads.get_state(thread))["values"]
    assert values["answer"] == document["answer"]


async def test_a_thread_accepts_a_new_run_after_a_cancelled_run(server: Server, client: LangGraphClient) -> None:
    thread = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread, GRAPH, input=ASKED, context=SLOW, stream_mode="custom")
    async for part in client.runs.join_stream(thread, run["run_id"], stream_mode="custom"):
        if part.data.get("node") == "answer":
            break
    await client.runs.cancel(thread, run["run_id"], wait=True)
    assert (await client.runs.get(thread, run["run_id"]))["status"] == "interrupted"
    document: Any = await client.runs.wait(thread, GRAPH, input=ASKED, context=FAKE)
    assert (document["status"], document["settings"]["model"]) == ("done", "fake:1")


@pytest.mark.parametrize(("strategy", "left"), [("interrupt", ["interrupted", "success"]), ("rollback", ["success"])])
async def test_a_second_run_interrupts_or_rolls_back_the_first_run(
    client: LangGraphClient, strategy: Any, left: list[str]
) -> None:
    """With the strategy "reject", the second run is refused."""
    thread = (await client.threads.create())["thread_id"]
    await client.runs.create(thread, GRAPH, input=ASKED, context=SLOW)
    with pytest.raises(ConflictError):
        await client.runs.create(thread, GRAPH, input=ASKED, context=FAKE, multitask_strategy="reject")
    document: Any = await client.runs.wait(thread, GRAPH, input=ASKED, context=FAKE, multitask_strategy=strategy)
    assert (document["status"], document["claim"], document["calls"][0]["model"]) == ("done", CLAIM, "fake:1")
    assert sorted(run["status"] for run in await client.runs.list(thread)) == left


async def test_an_enqueued_second_run_does_not_stop_the_first(client: LangGraphClient) -> None:
    thread = (await client.threads.create())["thread_id"]
    first = await client.runs.create(thread, GRAPH, input={"claim": "A."}, context=FAKE)
    second: Any = await client.runs.wait(
        thread, GRAPH, input={"claim": "B."}, context=FAKE, multitask_strategy="enqueue"
    )
    assert (second["claim"], (await client.runs.get(thread, first["run_id"]))["status"]) == ("B.", "success")


class Report(TypedDict, total=False):
    """The state of a user's graph that runs a debate as a node."""

    claim: str
    answer: str | None
    status: str
    settings: dict[str, Any]


async def test_a_remote_graph_works_as_a_client_and_as_a_node(server: Server, client: LangGraphClient) -> None:
    remote = RemoteGraph(GRAPH, url=server.url, client=client)
    document: Any = await remote.ainvoke(ASKED, context=FAKE)
    assert (document["status"], document["settings"]["model"]) == ("done", "fake:1")
    assert {"open", "answer", "conclude", "close"} <= {*(await remote.aget_graph(xray=True)).nodes}
    assistant = await client.assistants.create(GRAPH, context={"model": "fake:2"})
    graph = StateGraph(Report)
    graph.add_node("debate", RemoteGraph(assistant["assistant_id"], url=server.url, client=client))
    graph.add_edge(START, "debate")
    graph.add_edge("debate", END)
    report = await graph.compile().ainvoke({"claim": CLAIM})
    assert (report["claim"], report["status"], report["settings"]["model"]) == (CLAIM, "done", "fake:2")


def test_the_program_with_a_debate_on_a_server_runs(server: Server) -> None:
    (program,) = (one for one in programs("howto/nodes.md") if "RemoteGraph" in one)
    assert "'answer':" in output_of(program.replace("http://127.0.0.1:2024", server.url))


@pytest.mark.usefixtures("sockets_of_mcp")
async def test_an_mcp_client_calls_graphs_and_assistants_as_tools(server: Server, client: LangGraphClient) -> None:
    """If the arguments are invalid, the result is an error that explains the fault. An unknown tool is an MCPError."""
    await client.assistants.create(GRAPH, name="quick check", description="A quick check.", context=FAKE)
    async with Client(f"{server.url}/mcp?tools=rag,quick_check") as session:
        few = (await session.list_tools()).tools
    async with Client(f"{server.url}/mcp") as session:
        listed = (await session.list_tools()).tools
        assert few[1] in listed
        own = [tool for tool in listed if tool.name in {*DESCRIPTIONS, "find_claims"}]
        assert [tool.name for tool in own] == ["tool_mad", "rag", "find_claims"]
        assert len(json.dumps([tool.model_dump(mode="json", exclude_none=True) for tool in own])) < 60_000
    async with Client(f"{server.url}/mcp?tools=all") as session:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert few == [tools["rag"], tools["quick_check"]]
        assert {*DESCRIPTIONS, "quick_check"} <= set(tools)
        for tool in tools.values():
            assert tool.description
            assert next(iter(tool.input_schema["properties"])) == ("text" if tool.name == "find_claims" else "claim")
            assert {"model", "budget"} <= set(tool.input_schema["properties"])
            assert "messages" not in tool.input_schema["properties"]
            assert all(field.get("description") for field in tool.input_schema["properties"].values())
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        found: Any = await session.call_tool("quick_check", ASKED)
        small = {"model": "fake:2", "corpus": "demo-news", "settings": {"max_rounds": 1}}
        plain: Any = await session.call_tool("tool_mad", ASKED | small)
        faults: list[Any] = [
            await session.call_tool("quick_check", {"claim": " "}),
            await session.call_tool("quick_check", {}),
            await session.call_tool("tool_mad", ASKED | {"max_round": 1}),
            await session.call_tool("tool_mad", ASKED | {"model": "opnai:x"}),
            await session.call_tool("tool_mad", ASKED | {"max_rounds": 99}),
            await session.call_tool("tool_mad", ASKED),
        ]
        with pytest.raises(MCPError, match="Did you mean tool_mad"):
            await session.call_tool("tool_mat", ASKED)
    for called in (found, plain):
        assert not called.is_error
        result = called.structured_content
        assert json.loads(called.content[0].text) == result
        jsonschema.validate(result, tools["tool_mad"].output_schema)
        assert (result["status"], result["claim"]) == ("done", CLAIM)
        assert result["reasons"][0]["by"]
        assert result["confidence"] is None  # because no calibration was named
        assert result["votes"].endswith(("debaters", "one answer"))
        assert (result["decision"], result["prediction_set"]) == (None, None)  # because no calibration was named
        document = server.json(result["document"])
        document = document.get("document", document)
        assert (document["id"], document["answer"]) == (result["id"], result["verdict"])
    messages = (
        "The claim is empty.",
        "needs a `claim`",
        "Did you mean max_rounds?",
        "Did you mean openai",
        "max_rounds",
        "MOOT_MODEL",
    )
    for fault, message in zip(faults, messages, strict=True):
        assert fault.is_error
        assert message in fault.content[0].text


async def test_an_mcp_client_finds_the_claims_of_a_text(server: Server) -> None:
    """If the arguments are invalid, the result is an error that explains the fault."""
    async with Client(f"{server.url}/mcp") as session:
        [tool] = [tool for tool in (await session.list_tools()).tools if tool.name == "find_claims"]
        found: Any = await session.call_tool("find_claims", {"text": CLAIM, "model": "fake:1"})
        faults: list[Any] = [
            await session.call_tool("find_claims", {"text": CLAIM}),
            await session.call_tool("find_claims", {"text": CLAIM, "model": "fake:1", "corpus": "mine"}),
            await session.call_tool("find_claims", {"text": CLAIM, "model": "fake:1", "settings": {"corpus": "mine"}}),
        ]
    assert (found.is_error, found.structured_content["status"]) == (False, "done")
    jsonschema.validate(found.structured_content, tool.output_schema)
    assert found.structured_content["cost"]["calls"] > 0
    for fault, message in zip(faults, ("name a `model`", "takes no 'corpus'", "leave out corpus"), strict=True):
        assert fault.is_error
        assert message in fault.content[0].text


async def test_a_chat_continues_on_its_thread(client: LangGraphClient) -> None:
    thread = (await client.threads.create())["thread_id"]
    for number, claim in enumerate((CLAIM, "Bees make honey."), 1):
        state: dict[str, Any] = {"messages": [{"role": "user", "content": claim}]}
        document: Any = await client.runs.wait(thread, GRAPH, input=state, context=FAKE)
        assert (document["claim"], len(document["messages"])) == (claim, 2 * number)
        assert document["messages"][-1]["type"] == "ai"
        assert document["answer"] in document["messages"][-1]["content"]


async def test_an_agent_gets_the_reply_of_a_debate_over_a2a(server: Server, client: LangGraphClient) -> None:
    assistant = await client.assistants.create(GRAPH, context=FAKE)
    parts = [{"kind": "text", "text": CLAIM}]
    message = {"role": "user", "parts": parts, "messageId": "1"}
    asked = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}}
    answer = server.json(f"/a2a/{assistant['assistant_id']}", asked)
    assert answer["result"]["history"][-1]["parts"][0]["text"] == reply_text(answer)


def reply_text(answer: dict[str, Any]) -> str:
    """The text of the artifact in an A2A response."""
    return str(answer["result"]["artifacts"][0]["parts"][0]["text"])


async def test_each_system_becomes_an_assistant_and_changed_assistants_are_restored(
    server: Server, client: LangGraphClient
) -> None:
    made = [title_of(system) for system in DESCRIPTIONS]
    assert create_assistants(server.url) == dict.fromkeys(made, "created")
    [ours] = await client.assistants.search(metadata={"practical": "tool_mad"})
    await client.assistants.update(ours["assistant_id"], context={"max_rounds": 1})
    done = CliRunner().invoke(app, ["assistants", "--url", server.url])
    assert done.stdout.splitlines() == [f"{made[0]}: updated", *(f"{name}: unchanged" for name in made[1:])]
    [ours] = await client.assistants.search(name="Tool-MAD, practical")
    assert (ours["context"], ours["description"]) == ({"preset": "practical"}, DESCRIPTIONS["tool_mad"])
    document: Any = await client.runs.wait(
        None, ours["assistant_id"], input=ASKED, context=FAKE | {"corpus": "demo-news"}
    )
    assert (document["status"], document["settings"]["read_pages"]) == ("done", True)


def test_moot_assistants_without_a_server_says_how_to_start_one() -> None:
    done = CliRunner().invoke(app, ["assistants", "--url", "http://127.0.0.1:1"])
    assert "Start one with: moot serve" in str(done.exception)
