"""What the scores of answers share: their names, how they are told, and how they are written into turns.

In these modules, "Tool-MAD" alone means its second version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from moot.core.errors import MootError, WorldError
from moot.core.lazy import imported
from moot.nodes._models.speaker import affects_only_call
from moot.nodes._records.entries import Task, Turn
from moot.nodes._runtime.node import NodeContext
from moot.nodes._runtime.turns import Known, Said, Score
from moot.nodes._texts.show import score_and_threshold
from moot.nodes._texts.task import full_answer, is_reasoning_task
from moot.retrievers._encoders import Encoder


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


def faithfulness_score(supported: Sequence[bool]) -> float | None:
    """The share of statements that the evidence supports (Tool-MAD III; RAGAS); None without statements."""
    return sum(supported) / len(supported) if supported else None


METRICS = ("faithfulness", "answer_relevance", "consistency")
"""The scores of answers that are averaged over a debate. An answer may lack some of them."""


def tell_scores(turn: Turn, known: Known) -> Iterator[Said]:
    """The scores of an answer, once all of them are known."""
    scores = turn.get("scores") or {}
    # Without a threshold, an assessment is told with its quotes (`tell_assessment`), and its failure by a warning.
    gated = hasattr(known.settings, "faithfulness_threshold")
    failed = scores.get("faithfulness") is None
    own = {"faithfulness"} if not gated and ("reasons" in scores or failed) else set()
    given = [metric for metric in METRICS if metric in scores and metric not in own]
    least = {metric: getattr(known.settings, f"{metric}_threshold", None) for metric in METRICS}
    awaited = sum(hasattr(known.settings, f"{metric}_threshold") for metric in METRICS)
    if not given or (len(given) < awaited and "consistency" not in given):
        return
    grounded = gated and needs_evidence(turn, known.settings, known.task)
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


async def closeness(text: str, others: Sequence[str], encoder: Encoder) -> float | None:
    """The mean cosine of a text's vector with the vectors of other texts."""
    vectors = await encoder.embed([text, *others])
    try:
        return mean_cosine(vectors[0], vectors[1:])
    except ValueError as error:
        problem = f"The encoder {encoder.name} returned vectors that cannot be compared ({error})."
        raise WorldError(problem, kind="bad_response") from error


def written_answer(task: Task, turn: Turn) -> str:
    """A turn's answer with its reasons, as used in comparisons with other texts."""
    return f"{full_answer(task, turn['answer'] or '')}. {turn['rationale']}"


def score_update(turn: Turn, scores: dict[str, Any]) -> dict[str, Any]:
    """The state update that adds scores to a turn."""
    key = {name: turn[name] for name in ("round", "phase", "agent", "step", "number") if name in turn}
    return {"turns": [{**key, "scores": scores}]}


def missing_score_update(turn: Turn, score: str, run: NodeContext) -> dict[str, Any]:
    """The state update for a turn without an answer or without evidence: the score is null, with a warning."""
    if turn.get("answer") is None:
        run.record.warn("score_missing", f"{score}: there is no answer")
    elif turn.get("query") is not None:
        # Without a query, the debater did not search: nothing is missing.
        run.record.warn("score_missing", f"{score}: there is no evidence")
    return score_update(turn, {score: None})


def failed_score_update(
    turn: Turn, score: str, error: MootError, run: NodeContext, *, decided: bool = False
) -> dict[str, Any]:
    """The update for a score that could not be computed: null, with a warning.

    An error that affects all calls is raised, unless the debate is ``decided``: its verdict must not be lost.
    """
    if not decided and not affects_only_call(error):
        raise error
    run.record.warn("score_missing", f"{score}: {error.detail}")
    return score_update(turn, {score: None})
