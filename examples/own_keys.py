"""Maps the state keys of your own graph to moot's: two colleagues at a shop disagree, and moot's judge decides.

    python examples/own_keys.py                        # on the demonstration model
    python examples/own_keys.py openai:gpt-4o-mini     # on any other model; see docs/howto/models.md

Your own graph is the shop's complaints desk, whose state has none of moot's keys. `read` turns the desk's keys into the
keys that the docstring of `judge_node` lists. `write` turns the judge's result into the desk's keys.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from moot.nodes import Settings, judge_node, make_task, new_turn
from moot.retrievers import make_evidence
from typing_extensions import TypedDict

RULINGS = make_task(labels={"refund": "the money is paid back", "repair": "it is mended", "refuse": "neither"})


class Desk(TypedDict, total=False):
    """A complaint, the shop's rules, the colleagues' opinions (who, ruling, why), and the judge's decision."""

    complaint: str
    rules: list[str]
    opinions: list[tuple[str, str, str]]
    ruling: str
    grounds: str
    cost: int  # in tokens


def read(desk: Desk) -> dict[str, Any]:
    """The judge's input: the complaint as the question, opinions as answers, rules as evidence."""
    turns = [{**new_turn(1, who), "answer": ruling, "rationale": why} for who, ruling, why in desk["opinions"]]
    rules = [make_evidence(text=rule, title="Rule", source="the shop's rules") for rule in desk["rules"]]
    return {"claim": desk["complaint"], "task": RULINGS, "turns": turns, "evidence": rules}


def write(update: dict[str, Any]) -> Desk:
    """The desk's keys: the judge's answer, its reasons, and the number of tokens that the endpoint counted."""
    tokens = sum((call["prompt_tokens"] or 0) + (call["completion_tokens"] or 0) for call in update["calls"])
    return {"ruling": update["answer"], "grounds": update["turns"][0]["rationale"], "cost": tokens}


def build(model: str) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The desk's graph, whose only node is the judge."""
    builder = StateGraph(Desk)
    builder.add_node("judge", judge_node().with_settings(Settings(model=model), "judge").with_keys(read, write))
    builder.add_edge(START, "judge")
    builder.add_edge("judge", END)
    return builder.compile()


async def main(model: str = "embedded:smollm2-135m") -> dict[str, Any]:
    """The desk's state after one complaint."""
    desk: Desk = {
        "complaint": "The kettle that I bought three weeks ago leaks. I want my money back.",
        "rules": ["Within 30 days, faulty goods are refunded.", "After 30 days, faulty goods are repaired."],
        "opinions": [
            ("Ada", "refund", "Three weeks are less than 30 days."),
            ("Ben", "repair", "A leak can be mended, and a repair is cheaper."),
        ],
    }
    state: dict[str, Any] = await build(model).ainvoke(desk)
    return state


if __name__ == "__main__":
    desk = asyncio.run(main(*sys.argv[1:]))
    print(f"{desk['ruling']}: {desk['grounds']} ({desk['cost']} tokens)")
