"""Faithfulness (Tool-MAD, section III; RAGAS): the share of an answer's statements that follow from its evidence.

A chat model lists the statements of an answer, and judges each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from langchain_core.language_models import BaseChatModel
from moot.core.errors import MootError
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._records.entries import Task
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import ScoreState
from moot.nodes._steps.assess import PROMPT as ASSESS
from moot.nodes._steps.assess import assessed
from moot.nodes._steps.score import (
    failed_score_update,
    faithfulness_score,
    missing_score_update,
    score_update,
)
from moot.nodes._texts.replies import Reply, Text, one_of_each
from moot.nodes._texts.show import show_evidence, show_origin
from moot.nodes._texts.task import is_reasoning_task
from moot.prompts import as_data
from moot.retrievers import Evidence
from moot.retrievers._evidence import check_pieces
from pydantic import create_model

STATEMENTS, VERDICTS = "scoring/statements", "scoring/verdicts"
"""The names of the prompts."""


class StatementsReply(Reply):
    """The statements that an answer makes; may be empty."""

    statements: list[Text]


class StatementVerdict(Reply):
    """Whether one statement, numbered from 0, can be inferred from the evidence."""

    index: int
    reason: str
    supported: bool


class VerdictsReply(Reply):
    """One verdict for each statement."""

    verdicts: list[StatementVerdict]


@lru_cache(maxsize=64)
def verdicts_reply(count: int) -> type[VerdictsReply]:
    """The class of replies with exactly one verdict for each of ``count`` statements, sorted by index."""
    verdicts = one_of_each(StatementVerdict, count, "verdict")
    return create_model("VerdictsReply", __base__=VerdictsReply, verdicts=(verdicts, ...))


OF_ALL = ": also what is doubtful or beside the point, and what it says that the evidence does not tell."

EVIDENCE_STATEMENTS = (
    " and takes from the evidence. What it knows, works out or concludes by itself is no statement here; if there is "
    "nothing else, leave `statements` empty."
)
"""The end of a prompt's sentence that requests statements.

`OF_ALL` requests all statements of an answer. `EVIDENCE_STATEMENTS` requests only the statements taken from the
evidence; it is used if an answer may go beyond the evidence.
"""

ORIGIN_HEADING = "Who said what the statements are about, and when. A statement that only repeats this is supported:"
"""The heading of the claim's speaker and date, which follow the evidence in the prompt."""


@dataclass(frozen=True)
class Faithfulness:
    """A faithfulness score, the statements that it was computed from, and whether each statement is supported."""

    score: float | None
    statements: list[str]
    supported: list[bool]


async def faithfulness(
    rationale: str,
    evidence: Sequence[Evidence],
    model: Speaker | BaseChatModel,
    *,
    claim: str = "",
    task: Task | None = None,
) -> Faithfulness:
    """The share of a rationale's statements that the evidence supports. Makes at most two calls, one after the other.

    Args:
        rationale: the reasons of an answer.
        evidence: the evidence on which the answer is based.
        model: the model that splits the rationale and judges its statements.
        claim: the claim, which helps to resolve pronouns.
        task: the claim's task. If the task has the claim's speaker and date, they also count as evidence. On a task of
            reasoning, only statements taken from the evidence count.

    Returns:
        ``score``, from 0 to 1, or None if there is no statement; the ``statements``; and ``supported``, a bool for
        each statement.

    Raises:
        UserError, WorldError, ReplyError: a call failed, or no reply could be used. UserError also: ``evidence`` has
            anything else, such as a document of LangChain.
    """
    check_pieces(evidence)
    speaker = as_speaker(model, "scorer")
    origin = show_origin(task) if task else ""
    topic = "\n".join(filter(None, (as_data("topic", claim), origin)))
    requested = EVIDENCE_STATEMENTS if task and is_reasoning_task(task) else OF_ALL
    values = {"claim": topic, "answer": as_data("answer", rationale), "of": requested}
    listed = await speaker.ask(STATEMENTS, values, StatementsReply)
    if not listed.statements:
        return Faithfulness(None, [], [])
    count = len(listed.statements)
    numbered = "\n".join(as_data("statement", s, index=str(i)) for i, s in enumerate(listed.statements))
    shown = "\n".join([show_evidence(evidence), *([f"{ORIGIN_HEADING}\n{origin}"] if origin else [])])
    values = {"evidence": shown, "statements": numbered, "count": str(count)}
    judged = await speaker.ask(VERDICTS, values, verdicts_reply(count))
    supported = [v.supported for v in judged.verdicts]
    return Faithfulness(faithfulness_score(supported), listed.statements, supported)


def faithfulness_node() -> Node:
    """Scores the faithfulness of the only turn in the state, and writes it to the turn's ``scores``.

    Reads: claim, turns, evidence and, if present, task. The statements and the verdict on each are also written to
    ``scores``.

    The score is null if the turn has no answer, no evidence or no statement, or if scoring failed. A warning states the
    reason, except in two cases. Missing evidence causes no warning if the debater did not search. Missing statements
    cause no warning on tasks of reasoning. On these tasks, debaters may use their own knowledge, so only statements
    taken from the evidence are scored.

    The debate fails if an error affects all calls, such as a wrong key. If the setting ``assess`` is on, the one call
    of `assess` gives the score, and the answer's quotes their warrants.
    """

    async def step(state: ScoreState, run: NodeContext) -> dict[str, Any]:
        turn, task = state["turns"][0], state.get("task")
        if turn.get("answer") is None or not state["evidence"]:
            return missing_score_update(turn, "faithfulness", run)
        claim, rationale = state["claim"], turn["rationale"] or ""
        if task and getattr(run.settings, "assess", False):
            return await assessed(claim, task, turn, state["evidence"], await run.speaker("scorer"), run)
        try:
            speaker = await run.speaker("scorer")
            found = await faithfulness(rationale, state["evidence"], speaker, claim=claim, task=task)
        except MootError as error:
            return failed_score_update(turn, "faithfulness", error, run)
        if found.score is None and not (task and is_reasoning_task(task)):
            run.record.warn("score_missing", "faithfulness: the answer makes no statement")
        details = {"statements": found.statements, "supported": found.supported}
        return score_update(turn, {"faithfulness": found.score, **details})

    return Node(step, prompts=(STATEMENTS, VERDICTS, ASSESS))
