"""Answer relevance (Tool-MAD, section III; RAGAS): how directly an answer addresses the claim.

A chat model writes questions that the answer would fit; the score is the mean cosine of their vectors with the claim's.
RAGAS has the same formula, but also a term for evasive answers, which is left out here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

from langchain_core.language_models import BaseChatModel
from moot.core.errors import MootError
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._records.entries import Task
from moot.nodes._runtime.ceilings import in_time
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.settings import Settings, by_preset
from moot.nodes._runtime.state import ScoreState
from moot.nodes._steps.score import (
    closeness,
    failed_score_update,
    missing_score_update,
    score_update,
    written_answer,
)
from moot.nodes._texts.replies import Reply, Text
from moot.nodes._texts.show import show_origin
from moot.nodes._texts.task import is_question
from moot.prompts import as_data
from moot.retrievers._encoders import Encoder
from pydantic import Field, WithJsonSchema, create_model, model_validator

PROMPT = "scoring/questions"
ORIGIN_RULE = (
    "\n- The answer is about something that was said: below is who said it, or when. Put back the words of that "
    'speaker at that time: "we" for those for whom the speaker speaks, "here" for their country, "last year" for the '
    "year before."
)
"""The line of the prompt for a claim whose speaker or date is known: the claim's own words are compared."""


class QuestionsReply(Reply):
    """Questions that an answer would fit."""

    questions: list[Text]
    noncommittal: Annotated[bool | None, WithJsonSchema({"type": "boolean"})]  # None if the model does not say

    @model_validator(mode="before")
    @classmethod
    def _default_noncommittal(cls, given: Any) -> Any:
        return {"noncommittal": None, **given} if isinstance(given, dict) else given


@lru_cache(maxsize=64)
def questions_reply(count: int) -> type[QuestionsReply]:
    """The class of replies with exactly ``count`` questions."""
    kind = Annotated[list[Text], Field(min_length=count, max_length=count)]
    return create_model("QuestionsReply", __base__=QuestionsReply, questions=(kind, ...))


@dataclass(frozen=True)
class AnswerRelevance:
    """An answer relevance score and the questions that it was computed from."""

    score: float | None
    questions: list[str]
    noncommittal: bool | None = None
    """Whether the answer is evasive (RAGAS); None if the model did not say. The score ignores it, because "not enough
    info" is an answer.
    """


ClaimForm = Literal["question", "as_given"]
"""The form in which a claim is compared with questions."""


def claim_to_compare(claim: str, form: ClaimForm = "question") -> str:
    """The claim, to compare with questions that an answer would fit: as a question or, as in Tool-MAD III, as given."""
    return claim if form == "as_given" or is_question(claim) else f"Is it true that {claim}?"


async def answer_relevance(
    claim: str,
    answer: str,
    model: Speaker | BaseChatModel,
    encoder: Encoder,
    n: int = 3,
    *,
    claim_form: ClaimForm = "question",
    task: Task | None = None,
) -> AnswerRelevance:
    """How directly an answer addresses the claim. In one call, a model writes questions that the answer would fit.

    The score is the mean cosine of the claim's vector with the questions' vectors.

    Args:
        claim: the claim of the debate.
        answer: the answer with its reasons.
        model: the model that writes the questions.
        encoder: the text encoder.
        n: the number of questions, at least 1.
        claim_form: ``question`` makes the claim a question, if necessary; ``as_given`` keeps it, as in Tool-MAD III.
        task: the claim's task. If it has the claim's speaker and date, the model is told them.

    Returns:
        ``score``, from -1 to 1; the ``questions``; and ``noncommittal``: whether the answer is evasive, None if the
        model did not say.

    Raises:
        UserError, WorldError, ReplyError: the call or the encoder failed, or no reply could be used.
    """
    speaker = as_speaker(model, "scorer")
    origin = show_origin(task) if task else ""
    shown = "\n".join(filter(None, (as_data("answer", answer), origin)))
    values = {"answer": shown, "count": str(n)}
    values["origin_rule"] = ORIGIN_RULE.format(subject=task["subject"]) if task and origin else ""
    reply = await speaker.ask(PROMPT, values, questions_reply(n))
    compared = claim_to_compare(claim, claim_form)
    near = await in_time(closeness(compared, reply.questions, encoder), "text encoder")
    return AnswerRelevance(near, reply.questions, reply.noncommittal)


class RelevanceSettings(Settings):
    """Settings of `answer_relevance_node`."""

    questions: int = Field(
        default=3, ge=1, le=10, description="Number of questions over which answer relevance is averaged."
    )
    claim_form: ClaimForm = by_preset(
        paper="as_given",
        practical="question",
        description="The text to compare with. question: the claim as a question, if necessary in the form "
        '"Is it true that ...?"; as_given: the claim unchanged, exactly as in the paper.',
    )


def answer_relevance_node() -> Node:
    """Scores the answer relevance of the only turn in the state, and writes it to the turn's ``scores``.

    Reads: claim, task, turns. The questions and ``noncommittal`` are also written to ``scores``. The score is null if
    the turn has no answer, or if scoring failed; a warning states the reason. The debate fails if an error affects all
    calls, such as a wrong key.
    """

    async def step(state: ScoreState, run: NodeContext) -> dict[str, Any]:
        turn = state["turns"][0]
        if turn.get("answer") is None:
            return missing_score_update(turn, "answer_relevance", run)
        claim, answer = state["claim"], written_answer(state["task"], turn)
        # If the task's subject is a question, a claim is a question, even without a question mark: "Solve x + 1 = 2".
        form: ClaimForm = "as_given" if state["task"]["subject"] == "question" else run.settings.claim_form
        try:
            speaker, encoder = await run.speaker("scorer"), await run.encoder()
            n = run.settings.questions
            found = await answer_relevance(claim, answer, speaker, encoder, n, claim_form=form, task=state["task"])
        except MootError as error:
            return failed_score_update(turn, "answer_relevance", error, run)
        details = {"questions": found.questions, "noncommittal": found.noncommittal}
        return score_update(turn, {"answer_relevance": found.score, **details})

    return Node(step, prompts=(PROMPT,))
