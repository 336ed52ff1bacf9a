"""One file adds a step: its reply, its turn with a new field, its node, and how it is told. Nothing else knows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from moot.graphs import load_graph
from moot.nodes._runtime.state import ResultDocument
from moot.nodes._runtime.turns import KINDS
from moot.transcript import Live, round_sections
from moot.transcript.report.report import report
from pydantic import TypeAdapter, ValidationError

from tests.conftest import CLAIM, StartStub
from tests.installed.conftest import Install

STEP = '''
"""Doubt: what is most doubtful in the answers."""

from __future__ import annotations

from typing import Literal

from langgraph.graph import START
from moot.core.errors import ReplyError
from moot.nodes import (
    Debate, Node, SingleAgentSettings, agent_node, conclude_node, new_turn, single_needs, to_agent
)
from moot.nodes._runtime.turns import Said, Started, tells
from moot.nodes._steps.round_summary import PROMPT
from moot.nodes._texts.replies import Reply, Text
from moot.nodes._texts.show import show_answers, show_claim
from moot.nodes._texts.task import wording


class DoubtReply(Reply):
    doubt: Text
    grounds: list[str]


class Doubt(Started):
    """What is most doubtful in the answers."""

    step: Literal["doubt"]
    doubt: str | None
    grounds: list[str] | None
    outcome: str


@tells(Doubt)
def tell_doubt(turn, known):
    if turn["doubt"] is None:
        yield Said("doubt", "doubts", outcome=turn["outcome"])
    else:
        yield Said("doubt", "doubts", turn["doubt"], "; ".join(turn["grounds"]))


def doubt_node():
    async def step(state, run):
        turn = new_turn(1, "agent-1", "doubt")
        try:
            task, shown = state["task"], {"answers": show_answers(state["turns"])}
            values = wording(task) | {"claim": show_claim(state["claim"], task)} | shown
            reply = await (await run.speaker("agent-1")).ask(PROMPT, values, DoubtReply)
        except ReplyError as error:
            return {"turns": [{**turn, "doubt": None, "grounds": None, "outcome": error.kind}]}
        return {"turns": [{**turn, **reply.model_dump(), "outcome": "ok"}]}

    return Node(step, prompts=(PROMPT,))


builder = Debate("doubting", SingleAgentSettings, single_needs)
builder.add_node("answer", agent_node(then=None))
builder.add_node("doubt", doubt_node())
builder.add_node("conclude", conclude_node("single_pass"))
builder.add_conditional_edges(START, to_agent, ["answer"])
builder.add_edge("answer", "doubt")
builder.add_edge("doubt", "conclude")
builder.add_verdict("conclude")
graph = builder.compile()
'''
ANSWER = {"match": "your `answer`", "fields": {"answer": "SUPPORTS", "rationale": "It is known.", "citations": []}}
DOUBT = {"match": "the `summary`", "fields": {"doubt": "The year is unsure.", "grounds": ["Two are named."]}}


@pytest.fixture
def doubting(install: Install) -> Iterator[Any]:
    install("doubting", STEP, graph="doubting = doubting:graph")
    yield load_graph("doubting")
    KINDS.pop("doubt")


async def debate(doubting: Any, start_stub: StartStub, *rules: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    start_stub([*rules, ANSWER])
    settings = doubting.settings(model="openai:stub", attempts=1)
    return await doubting.graph.ainvoke({"claim": CLAIM}, context=settings), settings


async def test_the_new_field_is_in_the_document_the_terminal_and_the_report(
    doubting: Any, start_stub: StartStub
) -> None:
    document, settings = await debate(doubting, start_stub, DOUBT)
    turn = document["turns"][-1]
    assert (turn["step"], turn["doubt"], turn["grounds"]) == ("doubt", "The year is unsure.", ["Two are named."])
    reader: TypeAdapter[Any] = TypeAdapter(ResultDocument)
    assert reader.validate_python(document) == document
    with pytest.raises(ValidationError):
        reader.validate_python({**document, "turns": [{**turn, "grounds": "none"}]})
    about = reader.json_schema()["$defs"]["Doubt"]
    assert about["description"] == "What is most doubtful in the answers."
    assert about["required"][-3:] == ["doubt", "grounds", "outcome"]
    words = "The year is unsure. - Two are named."
    shown = [line for section in round_sections(document) for line in section.lines]
    live = Live(settings).feed({"turns": [turn]})
    for lines in (shown, live):
        assert ("agent-1", "doubts", words) in [(line.who, line.what, line.text) for line in lines]
    assert "Doubts" in report(document, "md")
    assert words in report(document, "html")


async def test_an_unusable_reply_of_the_new_step_is_told(doubting: Any, start_stub: StartStub) -> None:
    document, _ = await debate(doubting, start_stub, {"match": "the `summary`", "reply": "No."})
    lines = [line for section in round_sections(document) for line in section.lines]
    assert [(line.text, line.tone) for line in lines if line.what == "doubts"] == [
        ("no usable reply (unparsed)", "warning")
    ]
    assert "no reply that can be used" in report(document, "md")
