"""A judge's comparison of a system's evidence with AVeriTeC's gold evidence (Ev2R, Akhtar et al. 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from moot.evals._stats.averitec import MOST_PAIRS, ev2r_recall
from moot.nodes._models.chat_models import open_chat_model
from moot.nodes._models.speaker import Speaker
from moot.nodes._models.step_record import StepRecord
from moot.nodes._texts.replies import Reply, Text
from moot.prompts import as_data
from pydantic import Field

COVERAGE = "scoring/coverage"
"""The name of the prompt that compares two sets of evidence."""


class CoveredFact(Reply):
    """A fact of the reference evidence, and whether the found evidence states it."""

    fact: Text
    reason: str
    stated: bool


class CoverageReply(Reply):
    """The facts of the reference evidence."""

    facts: Annotated[list[CoveredFact], Field(min_length=1)]


async def judge_recall(
    claim: str,
    reference: Sequence[str],
    found: Sequence[tuple[str, str]],
    model: str,
    record: StepRecord | None = None,
) -> float:
    """The recall of a system's evidence by a judge, in one call; 0 if there is no evidence."""
    if not found:
        return 0.0
    speaker = Speaker("evidence_judge", await open_chat_model(model), record or StepRecord())
    values = {
        "claim": as_data("claim", claim),
        "reference": as_data("reference", "\n\n".join(reference)),
        "found": as_data("found", "\n\n".join(map(_shown, found[:MOST_PAIRS]))),
    }
    reply = await speaker.ask(COVERAGE, values, CoverageReply)
    return ev2r_recall([fact.stated for fact in reply.facts])


def _shown(pair: tuple[str, str]) -> str:
    return f"Search: {pair[0]}\nFound: {pair[1]}"
