"""Consensus and stability: what the conditional edges of a debate look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from moot.nodes.run import Node, Run
from moot.nodes.score import average
from moot.nodes.state import DebateState, StopReason, Turn

METRICS = ("faithfulness", "answer_relevance")


def answers_of(turns: Sequence[Turn], round: int | None = None) -> list[Turn]:
    """The debaters' answers of a round, by default of the last, in the order of the debaters."""
    given = [t for t in turns if t["step"] == "respond"]
    last = max((t["round"] for t in given), default=0) if round is None else round
    return [t for t in given if t["round"] == last]


def agreed_answer(turns: Sequence[Turn]) -> str | None:
    """The answer that all of these turns give; None where they differ, or where any gave none."""
    answers = {t.get("answer") for t in turns}
    return answers.pop() if len(answers) == 1 else None


def average_scores(turns: Sequence[Turn]) -> dict[str, dict[str, float | None]]:
    """Each debater's mean of each score over its rounds so far; null where none is known."""
    given = [t for t in turns if t["step"] == "respond"]
    agents = list(dict.fromkeys(t["agent"] for t in given))
    return {
        agent: {m: average([t.get("scores", {}).get(m) for t in given if t["agent"] == agent]) for m in METRICS}
        for agent in agents
    }


def tally(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """Who answered what."""
    return [{"agent": t["agent"], "answer": t.get("answer")} for t in turns]


def compare_node() -> Node:
    """Closes a round: its number, and who answered what. Reads: turns."""

    async def step(state: DebateState, run: Run) -> dict[str, Any]:
        last = answers_of(state["turns"])
        return {"rounds": last[0]["round"] if last else 0, "votes": tally(last)}

    return Node(step)


def average_scores_node() -> Node:
    """Averages each debater's scores over its rounds. Reads: turns."""

    async def step(state: DebateState, run: Run) -> dict[str, Any]:
        return {"scores": average_scores(state["turns"])}

    return Node(step)


def agree_node(reason: Callable[[Any], StopReason]) -> Node:
    """Ends the debate with the answer that the last round agrees on. Reads: turns.

    Args:
        reason: the stop reason, from the settings.
    """

    async def step(state: DebateState, run: Run) -> dict[str, Any]:
        answer = agreed_answer(answers_of(state["turns"]))
        return {"answer": answer, "raw_verdict": answer, "stop_reason": reason(run.settings)}

    return Node(step)
