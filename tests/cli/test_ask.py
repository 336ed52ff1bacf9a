"""``moot verify --ask``: the questions at the terminal, and the replies."""

from __future__ import annotations

import json

from tests.commands import moot, moot_process

VERIFY = ["verify", "Dolly the sheep was put down."]
RAG = [*VERIFY, "--graph", "rag", "--model", "fake:1", "--set", 'sources=["bm25:demo-news"]', "--ask", "evidence"]


def test_lines_of_the_standard_input_are_replies() -> None:
    """One reply strikes a piece of evidence, and another adds a text.

    After an unknown number, the question is asked again. A file that cannot be read is reported and skipped.
    """
    typed = "7\n\n1\nMonotremes lay leathery eggs.\n@missing.txt\n\n"
    done = moot_process(*RAG, "--json", typed=typed)
    document = json.loads(done.stdout)
    assert (done.returncode, document["status"]) == (0, "done"), done.stderr
    (turn,) = [turn for turn in document["turns"] if turn["agent"] == "person"]
    known = {piece["id"]: piece for piece in document["evidence"]}
    assert [known[id].get("struck") for id in turn["struck"]] == [True]
    assert [known[id]["text"] for id in turn["added"]] == ["Monotremes lay leathery eggs."]
    assert "none of the pieces shown has the id '7'" in done.stderr
    assert "missing.txt" in done.stderr

    done = moot(*RAG, typed="1\n\n")
    (line,) = [line for line in done.stdout.splitlines() if "  person " in line]
    assert line.split()[:2] == ["person", "strikes"]
    assert turn["struck"][0] in line


def test_the_end_of_input_leaves_the_debate_interrupted() -> None:
    done = moot(*RAG, "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["status"], document["answer"]) == (130, "interrupted", None)
    assert document["evidence"]


def test_an_interrupted_debate_keeps_the_turns_and_calls_of_its_agents() -> None:
    """The debater with a source waits for a person. The debater without a source does not."""
    debaters = '[{"name":"news","retriever":"bm25:demo-news"},{"name":"plain"}]'
    # Without a plan, each debater asks its model for a query, so the one that waits has made a call.
    command = [*VERIFY, "--graph", "tool_mad", "--model", "fake:1", "--set", f"debaters={debaters}"]
    done = moot(*command, "--set", "plan=false", "--ask", "evidence", "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["status"]) == (130, "interrupted"), done.stderr
    steps = {(turn["agent"], turn["step"]) for turn in document["turns"]}
    assert {("news", "respond"), ("plain", "respond")} <= steps
    assert document["evidence"]
    calls = [(call["agent"], call["node"], call["seconds"]) for call in document["calls"]]
    assert len(calls) == len(set(calls)) == document["usage"]["calls"]
    assert {agent for agent, _, _ in calls} == {"news", "plain"}


def test_a_question_that_the_graph_does_not_ask_is_refused() -> None:
    done = moot(*VERIFY, "--graph", "rag", "--ask", "verdict")
    assert done.returncode == 2
    assert "ask_person" in done.stderr
