"""A person in the loop through the API of a real server: interrupts, replies, and a branch from a past checkpoint."""

from __future__ import annotations

from typing import Any

from tests.conftest import CLAIM, READERS
from tests.serving import Server

CONTEXT = {"model": "openai:stub-person", "embedder": "openai:stub-embedding", "max_rounds": 1, "attempts": 1}


def waits(server: Server, thread: str) -> list[Any]:
    """The open questions of a thread."""
    state = server.json(f"/threads/{thread}/state")
    return [wait for task in state["tasks"] for wait in task["interrupts"]]


def resume(server: Server, thread: str, graph: str, reply: Any) -> Any:
    """Reply to a question without repeating the debate's settings; return the document."""
    return server.json(f"/threads/{thread}/runs/wait", {"assistant_id": graph, "command": {"resume": reply}})


def test_a_run_waits_and_continues(server: Server) -> None:
    thread = server.json("/threads", {})["thread_id"]
    context = {**CONTEXT, "debaters": READERS, "ask_person": ["queries", "verdict"], "scoring": "all_rounds"}
    run = {"assistant_id": "tool_mad", "input": {"claim": CLAIM}, "context": context}
    server.json(f"/threads/{thread}/runs/wait", run)
    asked = waits(server, thread)
    assert [wait["value"]["kind"] for wait in asked] == ["queries", "queries"]  # the queries of both debaters together
    names = {wait["id"]: next(iter(wait["value"]["proposed"]["queries"])) for wait in asked}
    replies = {id: {"queries": {name: f"eggs for {name}"}} for id, name in names.items()}
    resume(server, thread, "tool_mad", replies)
    (wait,) = waits(server, thread)
    assert wait["value"]["kind"] == "verdict"
    resume(server, thread, "tool_mad", "never mind")
    (wait,) = waits(server, thread)
    assert "cannot be used" in wait["value"]["problem"]
    document = resume(server, thread, "tool_mad", {"accept": True})
    assert (document["status"], document["rounds"]) == ("done", 1)
    used = {t["agent"]: t["query"] for t in document["turns"] if t["step"] == "respond"}
    assert used == {"rag": "eggs for rag", "search": "eggs for search"}
    assert {call["model"] for call in document["calls"]} == {"openai:stub-person"}


def test_a_past_checkpoint_starts_another_branch(server: Server) -> None:
    thread = server.json("/threads", {})["thread_id"]
    context = {**CONTEXT, "sources": ["bm25"]}
    run = {"assistant_id": "standard_mad", "input": {"claim": CLAIM}, "context": context}
    first = server.json(f"/threads/{thread}/runs/wait", run)
    history = server.json(f"/threads/{thread}/history", {"limit": 100})
    before = next(state for state in history if state["next"] == ["judge"])
    changed = {**first["evidence"][0], "id": "ev-changed", "text": "Nobody on the server has seen an egg."}
    update = {"values": {"evidence": {"__overwrite__": [changed]}}, "checkpoint": before["checkpoint"]}
    branch = server.json(f"/threads/{thread}/state", update)["checkpoint"]
    again = {"assistant_id": "standard_mad", "checkpoint": branch}
    second = server.json(f"/threads/{thread}/runs/wait", again)
    assert (second["status"], [piece["id"] for piece in second["evidence"]]) == ("done", ["ev-changed"])
    assert [t["evidence_ids"] for t in second["turns"] if t["step"] == "judge"] == [["ev-changed"]]
    assert sum("Nobody on the server has seen an egg." in prompt for prompt in server.stub.prompts()) == 1
    checkpoints = server.json(f"/threads/{thread}/history", {"limit": 100})
    finished = [
        state["values"] for state in checkpoints if not state["next"] and state["values"].get("status") == "done"
    ]
    assert [[p["id"] for p in values["evidence"]] for values in finished] == [
        ["ev-changed"],
        [p["id"] for p in first["evidence"]],
    ]
