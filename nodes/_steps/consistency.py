"""Consistency (Tool-MAD, first version): the mean similarity of an answer to its evidence. It needs no chat model."""

from __future__ import annotations

from typing import Any

from moot.core.errors import BudgetExhausted, MootError, UserError
from moot.nodes._runtime.ceilings import in_time
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import DebateState, ScoreState
from moot.nodes._steps.score import (
    average,
    closeness,
    failed_score_update,
    missing_score_update,
    score_update,
    written_answer,
)
from moot.retrievers._cross_encoders import open_cross_encoder
from moot.retrievers._excerpts import shown_text

COSINE_PREFIX = "cosine of"
"""The beginning of ``metrics.similarity`` if the text encoder compares texts; the encoder's name follows."""


def similarity_node() -> Node:
    """Loads the cross-encoder that compares answers with evidence, and writes its name to ``metrics.similarity``.

    If the cross-encoder cannot be loaded, the text encoder's cosine is used (`COSINE_PREFIX`), with a warning. If the
    text encoder cannot be loaded either, the debate fails. If no answer has evidence to compare with, or loading takes
    longer than `max_seconds` allows, nothing is written.

    Reads: metrics, turns.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        name = run.settings.cross_encoder
        if not any(turn.get("answer") is not None and turn.get("evidence_ids") for turn in state["turns"]):
            return {}
        try:
            name = await in_time(_open_similarity(name, run), "cross-encoder")
        except BudgetExhausted:
            return {}
        return {"metrics": {**state["metrics"], "similarity": name}}

    return Node(step)


async def _open_similarity(name: str, run: NodeContext) -> str:
    """Loads the cross-encoder or, if that fails, the text encoder; returns the value of ``metrics.similarity``."""
    try:
        await open_cross_encoder(name)
    except UserError as error:
        run.record.warn("cross_encoder_missing", f"{error.detail} The cosine of {run.settings.embedder} is used.")
        await run.encoder()
        return f"{COSINE_PREFIX} {run.settings.embedder}"
    return name


def consistency_node() -> Node:
    """Scores the consistency of the only turn in the state, and writes it to the turn's ``scores``.

    Consistency is the mean similarity of the answer to each document of its evidence, as in Tool-MAD's first version.

    Reads: task, turns, evidence, metrics. The score is null if the turn has no answer or no evidence, if scoring
    failed, or if `similarity_node` loaded nothing. A warning states the reason, but missing evidence causes no warning
    if the debater did not search. The debate fails if an error affects all calls, such as a wrong key.
    """

    async def step(state: ScoreState, run: NodeContext) -> dict[str, Any]:
        turn = state["turns"][0]
        if turn.get("answer") is None or not state["evidence"]:
            return missing_score_update(turn, "consistency", run)
        answer = written_answer(state["task"], turn)
        documents = [shown_text(piece) for piece in state["evidence"]]
        name: str | None = state["metrics"].get("similarity")
        try:
            if name is None:
                raise BudgetExhausted("The cross-encoder was not loaded within `max_seconds`.")
            if name.startswith(COSINE_PREFIX):
                compared = closeness(answer, documents, await run.encoder())
                score = await in_time(compared, "text encoder")
            else:
                rated = (await open_cross_encoder(name)).compare(answer, documents)
                score = average(await in_time(rated, "cross-encoder"))
        except MootError as error:
            return failed_score_update(turn, "consistency", error, run)
        return score_update(turn, {"consistency": score})

    return Node(step)
