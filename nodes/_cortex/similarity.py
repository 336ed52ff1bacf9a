"""The similarity of two agents' outputs, by cosine, cross-encoder or prompt (CortexDebate, Eq. 6; D.2, table 10)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Literal

from langchain_core.language_models import BaseChatModel
from moot.core.errors import UserError, WorldError
from moot.core.lazy import imported
from moot.nodes._cortex.debating_graph import pair
from moot.nodes._models.parallel import all_at_once
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._models.step_record import record_failed_call
from moot.nodes._records.entries import Task, Turn
from moot.nodes._runtime.node import NodeContext
from moot.nodes._steps.score import mean_cosine
from moot.nodes._texts.replies import ScoreReply
from moot.nodes._texts.show import show_claim
from moot.prompts import as_data
from moot.retrievers._cross_encoders import CrossScorer
from moot.retrievers._encoders import Encoder

Similarity = Literal["embedder", "cross_encoder", "prompt"]
PROMPT = "cortex_debate/similarity"
ROLE = "similarity"
"""The role whose model rates the similarity of two texts."""


def outputs_of(answers: Sequence[Turn]) -> dict[str, str]:
    """The answer and the reasons of each agent with a valid answer, without the confidence (CortexDebate, Eq. 6)."""
    given = [turn for turn in answers if turn.get("answer") is not None]
    return {turn["agent"]: f"{turn['answer']}\n{turn.get('rationale')}" for turn in given}


async def similarities(answers: Sequence[Turn], encoder: Encoder) -> dict[str, float]:
    """The cosine of the outputs of every two agents with a valid answer, by `pair`."""
    outputs = outputs_of(answers)
    vectors = await encoder.embed([*outputs.values()]) if outputs else []
    rows = [imported("numpy").asarray(vector, dtype=float) for vector in vectors]  # only once per vector
    found = {}
    for (one, first), (other, second) in combinations(zip(outputs, rows, strict=True), 2):
        cosine = mean_cosine(first, [second])
        if cosine is not None:
            found[pair(one, other)] = cosine
    return found


async def similarities_by_cross_encoder(answers: Sequence[Turn], encoder: CrossScorer) -> dict[str, float]:
    """A cross-encoder's rating of the outputs of every two agents with a valid answer, by `pair`."""
    outputs, rated = outputs_of(answers), dict[tuple[str, str], float]()
    for name, text in outputs.items():
        others = [other for other in outputs if other != name]
        values = await encoder.compare(text, [outputs[other] for other in others]) if others else []
        rated |= {(name, other): value for other, value in zip(others, values, strict=True)}
    if strange := [value for value in rated.values() if not -1 <= value <= 1]:
        raise UserError(
            f"The cross-encoder {encoder.name} returned the similarity {strange[0]:.3g}, but a similarity is between "
            "-1 and 1. Use a cross-encoder that was trained for text similarity.",
            kind="unknown_encoder",
        )
    # A cross-encoder may rate the two orders of the texts differently.
    return {pair(*both): (rated[both] + rated[both[::-1]]) / 2 for both in combinations(outputs, 2)}


async def rate_similarity(
    claim: str, task: Task, first: str, second: str, model: Speaker | BaseChatModel, *, prompt: str = PROMPT
) -> ScoreReply:
    """Asks a model how similar two outputs are; the score in the reply is from 0 to 1 (CortexDebate, D.2)."""
    texts = {"first": as_data("text", first, number="1"), "second": as_data("text", second, number="2")}
    values = {"subject": task["subject"], "claim": show_claim(claim, task), **texts}
    return await as_speaker(model, ROLE).ask(prompt, values, ScoreReply)


async def similarities_by_model(claim: str, task: Task, answers: Sequence[Turn], run: NodeContext) -> dict[str, float]:
    """A model's rating of the outputs of every two agents, by `pair`, without those whose call failed."""
    outputs, speaker = outputs_of(answers), await run.speaker(ROLE)

    async def rate(first: str, second: str) -> float | None:
        try:
            return (await rate_similarity(claim, task, outputs[first], outputs[second], speaker)).score
        except WorldError as error:
            record_failed_call(error, run.record)
            return None

    pairs = [*combinations(outputs, 2)]
    ratings = await all_at_once(rate(*names) for names in pairs)
    if any(value is None for value in ratings):
        run.record.warn(
            "similarity_missing",
            "The outputs of some agents could not be compared. These agents keep their last similarity. If they have "
            "none, their outputs count as equal.",
        )
    return {pair(*names): value for names, value in zip(pairs, ratings, strict=True) if value is not None}
