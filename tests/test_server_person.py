"""A person takes part in debates over the API of a real server.

The person replies to interrupts, and starts a branch from a past checkpoint.
"""

from __future__ import annotations

from typing import Any

from tests.conftest import CLAIM, READERS
from tests.serving import Server

CONTEXT = {"model": "openai:stub-person", "embedder": "openai:stub-embedding", "max_rounds": 1, "attempts": 1}


def open_questions(server: Server, thread: str) -> list[Any]:
    """The interrupts of a thread that have no reply yet."""
    state = server.json(f"/threads/{thread}/state")
    return [interrupt for task in state["tasks"] for interrupt in task["interrupts"]]


def resume(server: Server, thread: str, graph: str, reply: Any) -> Any:
    """Reply to open questions in a request without settings; return the state after the run."""
    return server.json(f"/threads/{thread}/runs/wait", {"assistant_id": graph, "command": {"resume": reply}})


def test_a_run_waits_for_a_person_and_continues_with_the_replies(server: Server) -> None:
    thread = server.json("/threads", {})["thread_id"]
    context = {**CONTEXT, "debaters": READERS, "ask_person": ["queries", "verdict"], "scoring": "all_rounds"}
    run = {"assistant_id": "tool_mad", "input": {"claim": CLAIM}, "context": context}
    server.json(f"/threads/{thread}/runs/wait", run)
    asked = open_questions(server, thread)
    # Both debaters ask at the same time.
    assert [question["value"]["kind"] for question in asked] == ["queries", "queries"]
    names = {question["id"]: next(iter(question["value"]["proposed"]["queries"])) for question in asked}
    replies = {id: {"queries": {name: f"eggs for {name}"}} for id, name in names.items()}
    resume(server, thread, "tool_mad", replies)
    (question,) = open_questions(server, thread)
    assert question["value"]["kind"] == "verdict"
    resume(server, thread, "tool_mad", "never mind")
    (question,) = open_questions(server, thread)
    assert "cannot be used" in question["value"]["problem"]
    document = resume(server, thread, "tool_mad", {"accept": True})
    assert (document["status"], document["rounds"]) == ("done", 1)
    used = {t["agent"]: t["query"] for t in document["turns"] if t["step"] == "respond"}
    assert used == {"rag": "eggs for rag", "search": "eggs for search"}
    assert {call["model"] for call in document["calls"]} == {"openai:stub-person"}


def test_a_branch_from_a_past_checkpoint_uses_the_changed_evidence(server: Server) -> None:
    thread = server.json("/threads", {})["thread_id"]
    context = {**CONTEXT, "sources": ["bm25:demo-news"]}
    run = {"assistant_id": "standard_mad", "input": {"claim": CLAIM}, "context": context}
    first = server.json(f"/threads/{thread}/runs/wait", run)
    history = server.json(f"/threads/{thread}/history", {"limit": 100})
    before_judge = next(state for state in history if state["next"] == ["judge"])
    changed = {**first["evidence"][0], "id": "ev-changed", "text": "Nobody on the server has seen an egg."}
    update = {"values": {"evidence": {"__overwrite__": [changed]}}, "checkpoint": before_judge["checkpoint"]}
    status, refused = server.refused(f"/threads/{thread}/state", update | {"values": {"evidense": []}})
    assert (status, "Did you mean evidence?" in refused["detail"]) == (400, True)
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
