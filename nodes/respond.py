"""Answering (S1, algorithm 1, Respond): a debater's answer from its evidence and the others' last answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from moot.nodes.replies import AnswerReply, Quote, answer_reply
from moot.nodes.run import Node, Run
from moot.nodes.show import show_claim, show_evidence, show_opponents, shown_ids
from moot.nodes.speaker import Ledger, Speaker, as_speaker
from moot.nodes.state import Citation, DebaterState, Task, Turn
from moot.nodes.task import wording
from moot.prompts import fill, load
from moot.retrievers import Evidence
from moot.retrievers.errors import ReplyError


async def respond(
    claim: str,
    task: Task,
    evidence: Sequence[Evidence],
    model: Speaker | BaseChatModel,
    *,
    opponents: Sequence[Turn] = (),
    prompt: str = "tool_mad/respond",
) -> AnswerReply:
    """An answer to a claim, with reasons and citations.

    Args:
        claim: what is debated.
        task: what an answer is.
        evidence: what the debater found; may be empty.
        model: who answers.
        opponents: the other debaters' last answers.
        prompt: the prompt's name.

    Raises:
        UserError, WorldError, ReplyError: the call failed, or no reply could be used.
    """
    speaker = as_speaker(model, "debater")
    values = wording(task) | {
        "name": speaker.role,
        "claim": show_claim(claim, task),
        "evidence": show_evidence(evidence),
        "opponents": show_opponents(opponents),
    }
    ids = sorted(shown_ids(evidence, opponents))
    return await speaker.ask(fill(load(prompt), values), answer_reply(task), ids)


def respond_node(prompt: str = "tool_mad/respond") -> Node:
    """Writes the debater's answer into its turn.

    Reads: claim, task, debater, opponents, evidence, turns. An answer that cannot be used is recorded as what it is
    (``outcome``), with a null answer.
    """

    async def step(state: DebaterState, run: Run) -> dict[str, Any]:
        debater, turn = state["debater"], state["turns"][0]
        speaker = await run.speaker(debater["name"], debater.get("model"))
        try:
            reply = await respond(
                state["claim"],
                state["task"],
                state["evidence"],
                speaker,
                opponents=state["opponents"],
                prompt=prompt,
            )
        except ReplyError as error:
            return {"turns": [without_answer(turn, error)]}
        shown = shown_ids(state["evidence"], state["opponents"])
        return {"turns": [with_answer(turn, reply, shown, run.ledger)]}

    return Node(step)


def with_answer(turn: Turn, reply: AnswerReply, shown: set[str], ledger: Ledger) -> Turn:
    """The turn with an answer; citations of what was not shown are marked and warned of."""
    return {
        **turn,
        "answer": reply.answer,
        "rationale": reply.rationale,
        "citations": check_citations(reply.citations, shown, ledger),
        "outcome": "ok",
    }


def without_answer(turn: Turn, error: ReplyError) -> Turn:
    """The turn of somebody whose reply could not be used."""
    return {**turn, "answer": None, "rationale": None, "citations": [], "outcome": error.kind}


def check_citations(quotes: Iterable[Quote], shown: set[str], ledger: Ledger) -> list[Citation]:
    """Citations, each marked as fabricated where its id was not shown; a warning names those."""
    citations: list[Citation] = [
        {"evidence_id": q.evidence_id, "quote": q.quote, "fabricated": q.evidence_id not in shown} for q in quotes
    ]
    for citation in citations:
        if citation["fabricated"]:
            ledger.warn("fabricated_citation", f"cites {citation['evidence_id'][:80]!r}, which was not shown")
    return citations
