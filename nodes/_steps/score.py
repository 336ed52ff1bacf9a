"""Scores of answers: faithfulness and answer relevance (Tool-MAD, section III; RAGAS), and consistency.

Consistency is a score of Tool-MAD's first version. In this module, "Tool-MAD" alone means the second version.

For faithfulness, a chat model lists the statements of an answer and judges each of them. For answer relevance, a
chat model writes questions that the answer would fit. Pure functions compute both scores. Consistency needs no chat
model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

from langchain_core.language_models import BaseChatModel
from moot.core.errors import BudgetExhausted, MootError, UserError, WorldError
from moot.core.lazy import imported
from moot.nodes._models.speaker import Speaker, affects_only_call, as_speaker
from moot.nodes._records.entries import Task, Turn
from moot.nodes._runtime.budget import in_time
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.settings import Settings
from moot.nodes._runtime.state import DebateState, ScoreState
from moot.nodes._runtime.turns import Known, Said, Score
from moot.nodes._texts.replies import Reply, Text
from moot.nodes._texts.show import score_and_threshold, show_evidence, show_origin
from moot.nodes._texts.task import full_answer, is_question, is_reasoning_task
from moot.prompts import as_data
from moot.retrievers import Evidence
from moot.retrievers._cross_encoders import open_cross_encoder
from moot.retrievers._encoders import Encoder, Vector
from moot.retrievers._excerpts import shown_text
from pydantic import AfterValidator, Field, WithJsonSchema, create_model, model_validator

# --- formulae -------------------------------------------------------------------------------------------------------


def faithfulness_score(supported: Sequence[bool]) -> float | None:
    """The share of statements that the evidence supports (Tool-MAD III; RAGAS); None without statements."""
    return sum(supported) / len(supported) if supported else None


def answer_relevance_score(claim: Sequence[float], questions: Sequence[Sequence[float]]) -> float | None:
    """The mean cosine of the claim's vector with the questions' vectors (Tool-MAD III); None without questions."""
    # RAGAS has the same formula, but also a term for evasive answers, which is left out here.
    return mean_cosine(claim, questions)


def mean_cosine(vector: Sequence[float], others: Sequence[Sequence[float]]) -> float | None:
    """The mean of a vector's cosines with other vectors; None without other vectors."""
    np = imported("numpy")
    if not len(others):
        return None
    c, q = np.asarray(vector, dtype=float), np.asarray(others, dtype=float)
    lengths = np.linalg.norm(q, axis=1) * np.linalg.norm(c)
    if not np.all(np.isfinite(lengths) & (lengths > 0)):
        raise ValueError("a vector is zero or not finite, so it has no cosine")
    return float(np.mean(q @ c / lengths))


def answer_is_stable(
    scores: Mapping[str, float | None], *, faithfulness: float, answer_relevance: float, has_evidence: bool
) -> bool:
    """Whether an answer is stable: its faithfulness and answer relevance reach their thresholds (Tool-MAD III-C).

    An unknown score does not reach its threshold. If an answer need not follow from evidence, only its answer relevance
    counts.

    Args:
        scores: the answer's scores by their names; an unknown score is None or missing.
        faithfulness: the threshold of faithfulness.
        answer_relevance: the threshold of answer relevance.
        has_evidence: whether the answer must follow from evidence (`needs_evidence`).
    """
    f, ar = scores.get("faithfulness"), scores.get("answer_relevance")
    relevant = ar is not None and ar >= answer_relevance
    # Only its relevance counts if an answer need not follow from evidence.
    faithful = not has_evidence or (f is not None and f >= faithfulness)
    return relevant and faithful


def average(values: Sequence[float | None]) -> float | None:
    """The mean of the known values; None if no value is known."""
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None


# --- replies --------------------------------------------------------------------------------------------------------


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


class QuestionsReply(Reply):
    """Questions that an answer would fit."""

    questions: list[Text]
    noncommittal: Annotated[bool | None, WithJsonSchema({"type": "boolean"})]  # None if the model does not say

    @model_validator(mode="before")
    @classmethod
    def _default_noncommittal(cls, given: Any) -> Any:
        return {"noncommittal": None, **given} if isinstance(given, dict) else given


@lru_cache(maxsize=64)
def verdicts_reply(count: int) -> type[VerdictsReply]:
    """The class of replies with exactly one verdict for each of ``count`` statements, sorted by index."""

    def check_complete(verdicts: list[StatementVerdict]) -> list[StatementVerdict]:
        given = sorted(v.index for v in verdicts)
        if given != list(range(count)):
            raise ValueError(f"needs one verdict for each index from 0 to {count - 1}, not for {given}")
        return sorted(verdicts, key=lambda v: v.index)

    place = Annotated[int, WithJsonSchema({"type": "integer", "minimum": 0, "maximum": count - 1})]
    numbered = create_model("StatementVerdict", __base__=StatementVerdict, index=(place, ...))
    size = {"minItems": count, "maxItems": count}
    kind = Annotated[list[numbered], AfterValidator(check_complete), Field(json_schema_extra=size)]  # type: ignore[valid-type]
    return create_model("VerdictsReply", __base__=VerdictsReply, verdicts=(kind, ...))


@lru_cache(maxsize=64)
def questions_reply(count: int) -> type[QuestionsReply]:
    """The class of replies with exactly ``count`` questions."""
    kind = Annotated[list[Text], Field(min_length=count, max_length=count)]
    return create_model("QuestionsReply", __base__=QuestionsReply, questions=(kind, ...))


# --- how scores are told ----------------------------------------------------------------------------------------------

METRICS = ("faithfulness", "answer_relevance", "consistency")
"""The scores of answers that are averaged over a debate. An answer may lack some of them."""


def tell_scores(turn: Turn, known: Known) -> Iterator[Said]:
    """The scores of an answer, once all of them are known."""
    given = [metric for metric in METRICS if metric in (turn.get("scores") or {})]
    least = {metric: getattr(known.settings, f"{metric}_threshold", None) for metric in METRICS}
    awaited = sum(hasattr(known.settings, f"{metric}_threshold") for metric in METRICS)
    if not given or (len(given) < awaited and "consistency" not in given):
        return
    grounded = needs_evidence(turn, known.settings, known.task)
    scores = turn["scores"]
    text = "; ".join(_score_in_words(metric, scores[metric], least[metric], grounded) for metric in given)
    held = {"faithfulness": tuple(scores.get("supported") or ())}
    found = tuple(Score(metric, scores[metric], least[metric], held.get(metric, ())) for metric in given)
    yield Said("scores", f"scores r{turn['round']}", text, scores=found)


def _score_in_words(metric: str, value: float | None, least: float | None, grounded: bool) -> str:
    name = metric.replace("_", " ")
    if least is None:
        return f"{name} {'unknown' if value is None else f'{value:.2f}'}"
    if value is None and metric == "faithfulness" and not grounded:
        return f"{name} not applicable"
    return f"{name} {score_and_threshold(value, least)}"


def needs_evidence(answer: Turn, settings: Any, task: Task | None = None) -> bool:
    """Whether an answer must follow from evidence.

    It must if the debater searches sources or was shown evidence, with one exception. Prompts for tasks of reasoning
    (`is_reasoning_task`) also ask for the debater's knowledge. On these tasks, an answer need not follow from evidence
    if none of its statements is taken from evidence, according to the scorer.

    Args:
        answer: a turn of the step ``respond``.
        settings: the debate's settings: a `DebaterSettings`.
        task: the form of an answer; None counts as a task without reasoning.
    """
    # Here prompts also ask for the debater's knowledge, and the scorer found no statement that is taken from evidence.
    if task and is_reasoning_task(task) and answer.get("scores", {}).get("statements") == []:
        return False
    searching = {d.name for d in settings.debaters if d.retriever and settings.retrieval != "none"}
    return answer["agent"] in searching or bool(answer["evidence_ids"])


# --- steps ----------------------------------------------------------------------------------------------------------

STATEMENTS, VERDICTS, QUESTIONS = "scoring/statements", "scoring/verdicts", "scoring/questions"
"""The names of the prompts."""


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


@dataclass(frozen=True)
class AnswerRelevance:
    """An answer relevance score and the questions that it was computed from."""

    score: float | None
    questions: list[str]
    noncommittal: bool | None = None
    """Whether the answer is evasive (RAGAS); None if the model did not say. The score ignores it, because "not enough
    info" is an answer.
    """


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
        UserError, WorldError, ReplyError: a call failed, or no reply could be used.
    """
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

    Returns:
        ``score``, from -1 to 1; the ``questions``; and ``noncommittal``: whether the answer is evasive, None if the
        model did not say.

    Raises:
        UserError, WorldError, ReplyError: the call or the encoder failed, or no reply could be used.
    """
    speaker = as_speaker(model, "scorer")
    values = {"answer": as_data("answer", answer), "count": str(n)}
    reply = await speaker.ask(QUESTIONS, values, questions_reply(n))
    compared = claim_to_compare(claim, claim_form)
    near = await in_time(closeness(compared, reply.questions, encoder), "text encoder")
    return AnswerRelevance(near, reply.questions, reply.noncommittal)


async def closeness(
    text: str,
    others: Sequence[str],
    encoder: Encoder,
    formula: Callable[[Vector, Sequence[Vector]], float | None] = answer_relevance_score,
) -> float | None:
    """Embeds a text and other texts, and applies a formula to the text's vector and the other vectors."""
    vectors = await encoder.embed([text, *others])
    try:
        return formula(vectors[0], vectors[1:])
    except ValueError as error:
        problem = f"The encoder {encoder.name} returned vectors that cannot be compared ({error})."
        raise WorldError(problem, kind="bad_response") from error


# --- nodes ----------------------------------------------------------------------------------------------------------


class RelevanceSettings(Settings):
    """Settings of `answer_relevance_node`."""

    questions: int = Field(
        default=3, ge=1, le=10, description="Number of questions over which answer relevance is averaged (n)."
    )
    claim_form: ClaimForm = Field(
        default="question",
        description="The text to compare with. question: the claim as a question, if necessary in the form "
        '"Is it true that ...?"; as_given: the claim unchanged, exactly as in the paper.',
    )


def faithfulness_node() -> Node:
    """Scores the faithfulness of the only turn in the state, and writes it to the turn's ``scores``.

    Reads: claim, turns, evidence and, if present, task. The statements and the verdict on each are also written to
    ``scores``.

    The score is null if the turn has no answer, no evidence or no statement, or if scoring failed. A warning states the
    reason, except in two cases. Missing evidence causes no warning if the debater did not search. Missing statements
    cause no warning on tasks of reasoning. On these tasks, debaters may use their own knowledge, so only statements
    taken from the evidence are scored.

    The debate fails if an error affects all calls, such as a wrong key.
    """

    async def step(state: ScoreState, run: NodeContext) -> dict[str, Any]:
        turn, task = state["turns"][0], state.get("task")
        if turn.get("answer") is None or not state["evidence"]:
            return missing_score_update(turn, "faithfulness", run)
        try:
            speaker = await run.speaker("scorer")
            claim, rationale = state["claim"], turn["rationale"] or ""
            found = await faithfulness(rationale, state["evidence"], speaker, claim=claim, task=task)
        except MootError as error:
            return failed_score_update(turn, "faithfulness", error, run)
        if found.score is None and not (task and is_reasoning_task(task)):
            run.ledger.warn("score_missing", "faithfulness: the answer makes no statement")
        details = {"statements": found.statements, "supported": found.supported}
        return score_update(turn, {"faithfulness": found.score, **details})

    return Node(step, prompts=(STATEMENTS, VERDICTS))


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
            found = await answer_relevance(claim, answer, speaker, encoder, run.settings.questions, claim_form=form)
        except MootError as error:
            return failed_score_update(turn, "answer_relevance", error, run)
        details = {"questions": found.questions, "noncommittal": found.noncommittal}
        return score_update(turn, {"answer_relevance": found.score, **details})

    return Node(step, prompts=(QUESTIONS,))


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
        run.ledger.warn("cross_encoder_missing", f"{error.detail} The cosine of {run.settings.embedder} is used.")
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
                compared = closeness(answer, documents, await run.encoder(), mean_cosine)
                score = await in_time(compared, "text encoder")
            else:
                rated = (await open_cross_encoder(name)).compare(answer, documents)
                score = average(await in_time(rated, "cross-encoder"))
        except MootError as error:
            return failed_score_update(turn, "consistency", error, run)
        return score_update(turn, {"consistency": score})

    return Node(step)


def written_answer(task: Task, turn: Turn) -> str:
    """A turn's answer with its reasons, as used in comparisons with other texts."""
    return f"{full_answer(task, turn['answer'] or '')}. {turn['rationale']}"


def score_update(turn: Turn, scores: dict[str, Any]) -> dict[str, Any]:
    """The state update that adds scores to a turn."""
    key = {name: turn[name] for name in ("round", "phase", "agent", "step")}
    return {"turns": [{**key, "scores": scores}]}


def missing_score_update(turn: Turn, score: str, run: NodeContext) -> dict[str, Any]:
    """The state update for a turn without an answer or without evidence: the score is null, with a warning."""
    if turn.get("answer") is None:
        run.ledger.warn("score_missing", f"{score}: there is no answer")
    elif turn.get("query") is not None:
        # Without a query, the debater did not search: nothing is missing.
        run.ledger.warn("score_missing", f"{score}: there is no evidence")
    return score_update(turn, {score: None})


def failed_score_update(turn: Turn, score: str, error: MootError, run: NodeContext) -> dict[str, Any]:
    """The update for a score that could not be computed: null, with a warning, unless the error affects all calls."""
    if not affects_only_call(error):
        raise error
    run.ledger.warn("score_missing", f"{score}: {error.detail}")
    return score_update(turn, {score: None})
