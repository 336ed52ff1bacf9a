"""Every document of a system with rounds says which answers changed, and terminal and reports say it in a sentence.

The replies of the debates' models are random.
"""

from __future__ import annotations

import html
from collections.abc import AsyncIterator
from typing import Any

import pytest
from moot.graphs import load_graph
from moot.graphs._registry import DESCRIPTIONS
from moot.nodes._texts.answers import same_answer
from moot.transcript import ending
from moot.transcript.end import debate_in_words
from moot.transcript.line import has_rounds
from moot.transcript.report.report import report

from tests.conftest import StartStub

WITH_ROUNDS = [name for name in DESCRIPTIONS if has_rounds(load_graph(name).settings.model_fields) or name == "gated"]
FIXED_SIDES = ("debate_cv", "proclaim")
"""Systems whose speakers have fixed sides: instead, the moderator or the critic may find the other side ahead."""
TEXTS = [{"text": f"Passage {n}: the canal has {n} locks.", "url": f"https://site{n}.org"} for n in "123"]


async def debates(name: str, task: str) -> AsyncIterator[dict[str, Any]]:
    """Some debates, whose answers depend on the number in the claim."""
    system = load_graph(name)
    chosen = {"model": "openai:stub", "retrieval": "none", "embedder": "openai:stub", "role_switch": False}
    chosen |= {"max_rounds": 3, "rounds": 2, "agents": 3, "min_rounds": 3, "preset": "practical"}
    known = {key: value for key, value in chosen.items() if key in system.settings.model_fields}
    known |= {"agents": [{"name": "one"}, {"name": "two"}]} if name == "gated" else {}
    for number in range(10):
        asked = f"The canal has {number} locks." if task == "fever" else f"Where is lock {number}?"
        settings = system.settings.model_validate(known)
        document = await system.graph.ainvoke({"claim": asked, "task": task, "given": TEXTS}, context=settings)
        if document["status"] == "done":
            yield document


def answers_in_other_words(document: dict[str, Any]) -> list[tuple[str, int]]:
    """The agent and the round of each answer in other words than the agent's answer before."""
    found: list[tuple[str, int]] = []
    last: dict[str, str] = {}
    for turn in document["turns"]:
        if turn["step"] == "respond" and turn.get("answer") is not None:
            before = last.get(turn["agent"])
            if before is not None and not same_answer(document["task"], before, turn["answer"]):
                found.append((turn["agent"], turn["round"]))
            last[turn["agent"]] = turn["answer"]
    return found


@pytest.mark.parametrize("name", WITH_ROUNDS)
async def test_every_system_with_rounds_lists_its_changed_answers(start_stub: StartStub, name: str) -> None:
    start_stub([{"fields": {"preferred": None}}])  # the moderator of tit_for_tat prefers no answer
    async for document in debates(name, "fever"):
        changes = document["dissent"]["changes"]
        if name not in FIXED_SIDES:
            assert [(one["agent"], one["round"]) for one in changes] == answers_in_other_words(document)
        if not changes:
            continue
        sentence = debate_in_words(document)
        assert sentence
        assert sentence in "\n".join(line.text for line in ending(document).lines)
        for kind in ("md", "html"):
            page = html.unescape(report(document, kind, "en")).replace("\\", "")
            assert sentence in page
            assert f"In round {changes[0]['round']}, " in page
        return
    pytest.fail("no answer changed in any debate")


@pytest.mark.parametrize("name", [name for name in WITH_ROUNDS if name not in FIXED_SIDES])
async def test_free_answers_change_too(start_stub: StartStub, name: str) -> None:
    start_stub([{"fields": {"preferred": None}}])  # the moderator of tit_for_tat prefers no answer
    async for document in debates(name, "short_answer"):
        changes = document["dissent"]["changes"]
        # A model may have found that answers in other words mean the same.
        assert {(one["agent"], one["round"]) for one in changes} <= {*answers_in_other_words(document)}
        if changes:
            assert changes[0]["before"] != changes[0]["answer"]
            assert debate_in_words(document)
            return
    pytest.fail("no answer changed in any debate")
