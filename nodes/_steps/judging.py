"""Judging: a judge gives the final answer, based on the whole debate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from moot.core.errors import ReplyError
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._records.entries import Task, Turn
from moot.nodes._runtime.ceilings import Decision, rounds_or_budget, stopped_by_ceiling
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import DebateState
from moot.nodes._runtime.turns import Citation, Known, Said, Started, tells
from moot.nodes._steps.assess import tell_assessment
from moot.nodes._steps.compare import common_outcome
from moot.nodes._steps.responding import quote_check, tell_answer, with_answer, without_unshown_evidence
from moot.nodes._texts.answers import ABSTENTION
from moot.nodes._texts.replies import AnswerReply, answer_reply
from moot.nodes._texts.show import (
    NOT_LOOKED_FOR,
    NOTHING,
    show_claim,
    show_evidence,
    show_given,
    show_history,
    show_remarks,
    show_scores,
    shown_ids,
)
from moot.nodes._texts.task import wording
from moot.retrievers import Evidence
from moot.retrievers._evidence import active_evidence, given_evidence

PROMPT = "tool_mad/judge"


class Judgement(Started):
    """A judge's answer."""

    step: Literal["judge"]
    answer: str | None
    rationale: str | None
    citations: list[Citation]
    outcome: str


@tells(Judgement, late=True)
def tell_judgement(turn: Turn, known: Known) -> Iterator[Said]:
    """The judge's answer."""
    yield from tell_answer(turn, "decides", "decision")
    yield from tell_assessment(turn)


async def judge(
    claim: str,
    task: Task,
    history: Sequence[Turn],
    evidence: Sequence[Evidence],
    model: Speaker | BaseChatModel,
    *,
    scores: Mapping[str, Mapping[str, float | None]] | None = None,
    verified_quotes: bool = False,
    known: bool = False,
    prompt: str = PROMPT,
) -> AnswerReply:
    """Asks a judge, in one call, for the final answer (Tool-MAD, section III-D).

    Args:
        claim: the claim of the debate.
        task: the form of an answer.
        history: the debaters' answers of all rounds.
        evidence: all evidence that the debaters found or were given.
        model: the judge's model.
        scores: each debater's average scores; None if the judge must not see them.
        verified_quotes: as for `respond`.
        known: as for `respond`.
        prompt: the prompt's name.

    Returns:
        The judge's reply, with ``answer``, ``rationale``, and ``citations``, each with ``evidence_id`` and ``quote``.

    Raises:
        UserError, WorldError, ReplyError: the call failed, or no reply could be used.
    """
    speaker = as_speaker(model, "judge")
    values = wording(task, given=bool(given_evidence(evidence)), known=known) | {
        "claim": show_claim(claim, task),
        "evidence": show_evidence(evidence, NOT_LOOKED_FOR if known else NOTHING),
        "given": show_given(evidence),
        "history": show_history(history),
        "scores": show_scores(scores or {}, history),
    }
    shown = shown_ids(evidence)
    check = quote_check(evidence, shown, speaker) if verified_quotes and evidence else None
    kind = answer_reply(task, may_abstain=ABSTENTION in speaker.filled(prompt, values)[0])
    return await speaker.ask(prompt, values, kind, sorted(shown), check)


def judge_node(prompt: str = PROMPT) -> Node:
    """Adds the judge's turn, its answer and the stop reason.

    Reads: claim, task, turns, evidence and, if present, scores and rounds.

    The debate fails if the judge gives no usable answer. It also fails if no debater ever gave a usable answer and no
    ceiling prevented an answer. If no debater gave a usable answer, but a ceiling prevented an answer, the judge
    answers from the claim and the evidence.

    Args:
        prompt: the name of one of moot's prompts; the default serves every debate whose turns are answers with reasons.
            Its text is a setting of the debate, `judge_prompt`, so another text needs no other name.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        history = [t for t in state["turns"] if t["step"] == "respond"]
        if all(t.get("answer") is None for t in history) and not any(map(stopped_by_ceiling, history)):
            raise ReplyError(
                "No debater gave a usable answer in any round, so there is nothing to judge. "
                "Try another model, or another value of `structured_output`.",
                common_outcome(history),
            )
        speaker = await run.speaker_of({"name": "judge", "told": show_remarks(state["turns"])})
        evidence = active_evidence(state["evidence"])
        reply = await judge(
            state["claim"],
            state["task"],
            history,
            evidence,
            speaker,
            scores=state.get("scores"),
            verified_quotes=run.settings.verified_quotes,
            known=not evidence and not any(t.get("query") or t.get("retrieval") for t in state["turns"]),
            prompt=prompt,
        )
        turn: Turn = {"round": state.get("rounds", 0), "phase": "primary", "agent": "judge", "step": "judge"}
        turn |= {"role": "judge", "side": None, "query": None, "scores": {}}
        turn = without_unshown_evidence(
            {**turn, "evidence_ids": [piece["id"] for piece in evidence]}, speaker.not_shown
        )
        turn = with_answer(turn, reply, evidence, shown_ids(evidence) - speaker.not_shown, run.record)
        return {
            "turns": [turn],
            "answer": reply.answer,
            "raw_verdict": reply.answer,
            "stop_reason": rounds_or_budget(state, run.settings),
        }

    return Node(
        step, prompts=(prompt,), decides=lambda settings: {"judge": Decision(prompt, answer_reply, around=1200)}
    )
