"""Dissent: agents that did not support the verdict, their best argument, and changes of an agent's answer."""

from __future__ import annotations

from typing import Any

from moot.nodes._texts.dissent import dissent_of
from moot.nodes._texts.task import make_task


def answer_turn(agent: str, round: int, answer: str | None, *cited: str, **more: Any) -> dict[str, Any]:
    """A turn with an answer that cites the evidence with the ids ``cited``. A final ``!`` marks an unverified quote."""
    citations = [{"evidence_id": id.strip("!"), "quote": f"of {id}", "verified": "!" not in id} for id in cited]
    turn = {"step": "respond", "phase": "primary", "agent": agent, "round": round, "answer": answer}
    return {**turn, "rationale": f"{agent} {round}", "citations": citations, **more}


def document(*turns: dict[str, Any], answer: str | None = "SUPPORTS", **more: Any) -> dict[str, Any]:
    """A result document with these turns and the verdict ``answer``; ``more`` has further keys."""
    calls = [{"role": agent, "model": f"fake:{agent}"} for agent in "abc"]
    task = make_task(None, None, None, "A claim.")
    return {"task": task, "turns": turns, "calls": calls, "votes": [], "answer": answer, "raw_verdict": answer} | more


def test_the_minority_and_each_change_of_an_answer_are_reported() -> None:
    found = dissent_of(
        document(
            answer_turn("a", 1, "SUPPORTS", "ev-1"),
            answer_turn("b", 1, "REFUTES"),
            answer_turn("c", 1, "REFUTES", "ev-2"),
            answer_turn("a", 2, "SUPPORTS", "ev-1"),
            answer_turn("b", 2, "SUPPORTS", "ev-1", "ev-9!"),
            answer_turn("c", 2, "REFUTES", "ev-2"),
        )
    )
    assert found["votes"] == [{"answer": "SUPPORTS", "votes": 2}, {"answer": "REFUTES", "votes": 1}]
    assert found["minority"] == [
        {
            "answer": "REFUTES",
            "by": [{"agent": "c", "model": "fake:c", "number": None}],
            "argument": "c 2",
            "quotes": [{"evidence_id": "ev-2", "quote": "of ev-2"}],
        }
    ]
    [change] = found["changes"]
    assert change == {
        "agent": "b", "model": "fake:b", "number": None, "round": 2, "before": "REFUTES", "answer": "SUPPORTS",
        "after": ["a"], "evidence_ids": ["ev-1"],
    }  # fmt: skip


def test_the_minoritys_argument_is_the_one_with_the_most_verified_quotes() -> None:
    turns = [answer_turn(a, 1, "REFUTES", *ids) for a, ids in (("a", ("ev-1!", "ev-2!")), ("b", ("ev-1",)), ("c", ()))]
    [other] = dissent_of(document(*turns, answer_turn("d", 1, "SUPPORTS")))["minority"]
    assert ([one["agent"] for one in other["by"]], other["argument"]) == (["a", "b", "c"], "b 1")


def test_some_samples_of_an_agent_may_be_the_minority() -> None:
    """Different answers in samples are not changes of the agent's answer."""
    turns = [answer_turn("a", 1, answer, number=n) for n, answer in enumerate(("SUPPORTS", "REFUTES", None), 1)]
    found = dissent_of(document(*turns))
    assert [(one["answer"], one["by"][0]["number"]) for one in found["minority"]] == [("REFUTES", 2), (None, 3)]
    assert found["changes"] == []


def test_votes_decide_which_short_answers_count_as_equal() -> None:
    task = make_task("short_answer", None, None, "Which bird?")
    turns = [
        answer_turn(agent, 1, answer) for agent, answer in (("a", "an emu"), ("b", "the emu bird"), ("c", "a kiwi"))
    ]
    votes = [{"agent": agent, "answer": "", "group": group} for agent, group in (("a", 0), ("b", 0), ("c", 1))]
    found = dissent_of(document(*turns, answer="an emu", task=task, votes=votes))
    assert [one["answer"] for one in found["minority"]] == ["a kiwi"]
    assert [one["votes"] for one in found["votes"]] == [2, 1]


def test_a_judge_of_a_panel_may_be_the_minority() -> None:
    judged = [
        {"step": "judge", "phase": "panel", "agent": agent, "round": 1, "verdict": verdict, "reason": f"By {agent}."}
        for agent, verdict in (("a", "SUPPORTED"), ("b", "INCONCLUSIVE"), ("c", "SUPPORTED"))
    ]
    found = dissent_of(document(*judged, raw_verdict="SUPPORTED"))
    assert [(one["answer"], one["argument"]) for one in found["minority"]] == [("INCONCLUSIVE", "By b.")]
