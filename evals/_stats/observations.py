"""The result of one item in one run. To save memory, it has only the fields that reports and comparisons read."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, NamedTuple

from moot.evals._analyses.debate_figures import DebateFigures, compute_debate_figures
from moot.evals._benchmarks.catalogue import Benchmark
from moot.evals._stats.metrics import COMPUTED, item_score
from moot.evals._stats.outcomes import (
    ABSTAINED,
    INPUTS,
    UNUSABLE,
    Document,
    EvidenceCount,
    count_evidence,
    has_outcome,
    majority_of_runs,
    outcome_of,
)
from moot.evals._stats.panel_measures import count_concessions
from moot.evals._stats.rationales import POOLED_MEASURES, Counts
from moot.nodes._models.prices import is_counted
from moot.nodes._models.step_record import tokens_of
from moot.nodes._records.entries import Call
from moot.nodes._texts.answers import abstains, same_answer
from moot.nodes._texts.quotes import count_citations
from moot.nodes._texts.task import is_reasoning_task
from moot.retrievers._evidence import clean

ScoreMap = Mapping[str, float | None]
CostOf = Callable[[Sequence[Call]], float | None]

DOCUMENT_FIELDS = (
    *("status", "graph", "confidence", "confidence_parts", "confidence_from"),
    *("stop_reason", "rounds", "depth", "seconds", "debates"),
)
TURN_STEPS = ("judge", "agree", "analyse")
CONSISTENCY_FIELDS = ("plaintiff_counsel", "defense_counsel", "overall")
TURN_FIELDS = ("round", "phase", "agent", "step", "verdict", "agree", "agreed", *CONSISTENCY_FIELDS)
THRESHOLD_SCORES = ("faithfulness", "answer_relevance")
"""The names of the scores for which Tool-MAD's settings have a threshold."""
LONGEST_DETAIL = 200
"""Maximum number of characters of an error's details."""


class RoundAnswer(NamedTuple):
    """The majority answer of a round; `ABSTAINED` if no speaker answered or the majority answer is an abstention.

    ``speakers``: the number of speakers' turns in the round, with or without an answer.
    """

    round: int
    speakers: int
    answer: str


class ScoredAnswer(NamedTuple):
    """An answer within a debate, and its scores by name.

    A score is None if it is unknown, and absent if it is undefined for the answer. Faithfulness is in [0, 1], answer
    relevance (a mean of cosines) in [-1, 1].
    """

    answer: str
    scores: ScoreMap


@dataclass(frozen=True)
class Observation:
    """One item in one run.

    Without a result document, the fields that are read from it keep their defaults.
    """

    id: str
    """The item's id."""
    gold: tuple[str, ...]
    """The item's right answers."""
    stratum: str = ""
    """The item's class, if its benchmark reports scores by class; else empty."""
    outcome: str | None = None
    """The system's answer, as `outcome_of` returns it; None if the item is missing."""
    unmapped: str | None = None
    """As ``outcome``, but `ABSTAINED` for a trial's INCONCLUSIVE, and `UNUSABLE` if replies could not be used."""
    scores: ScoreMap = field(default_factory=dict)
    """The scores of the outcome by measure; None if a score is unknown or undefined."""
    evidence_count: EvidenceCount | None = None
    """The amount of evidence in the debate; None if there is no result document."""
    document: Document | None = None
    """The fields of the result document that `measured_fields` returns; None if there is no document."""
    answers: tuple[RoundAnswer, ...] = ()
    """The answer of each round, in order."""
    scored: tuple[ScoredAnswer, ...] = ()
    """The answers with scores, in order (`scored_answers`)."""
    tokens: int | None = None
    """The tokens of all calls; None if an endpoint did not count the tokens of a call."""
    cost: float | None = None
    """The cost of all calls, also of those that an earlier run paid for; None if a price or a count is unknown."""
    warnings: Mapping[str, int] = field(default_factory=dict)
    """The number of warnings of each kind."""
    models: frozenset[tuple[str, str]] = frozenset()
    """Each model that was called, with the name that its endpoint reported."""
    debate_figures: DebateFigures | None = None
    """Figures of the debate besides its verdict; None if there is no document."""
    error: str | None = None
    """The kind of error if the item is missing; else None."""
    detail: str = ""
    """Details of the error, or of replies that could not be used; else empty."""
    digest: str = ""
    """A digest of the question (`question_digest`), which tells apart items of the same id in different data."""
    group: str = ""
    """A name shared by items that are not independent, such as items on one page; empty if the item is independent of
    all others."""
    counts: Mapping[str, Counts] = field(default_factory=dict)
    """What the item adds to each measure that is one F1 over all items."""
    uncitable_measures: frozenset[str] = frozenset()
    """Official measures that need a kind of evidence that the verdict could not cite (`moot.evals._stats.official`)."""

    @property
    def cluster(self) -> tuple[str, str]:
        """The key of the item's group; an item without a group is its own group."""
        return (self.group, "") if self.group else ("", self.id)

    @property
    def unusable(self) -> bool:
        """Whether the system's own replies could not be used."""
        return self.unmapped == UNUSABLE

    def figure(self, name: str) -> float | None:
        """A number of the result document: calls, depth, rounds, seconds or confidence; None if it is missing."""
        return None if self.document is None else self.document[name]


def computed_scores(benchmark: Benchmark, outcome: str | None, gold: Sequence[str]) -> dict[str, float | None]:
    """The scores of an outcome by the measures of its benchmark that need no model."""
    names = [name for name in benchmark.metrics if name in COMPUTED]
    return {name: item_score(name, benchmark.task, outcome, gold) for name in names}


def observe(sample: Any, benchmark: Benchmark, cost_of: CostOf, document: Document | None) -> Observation:
    """Make an observation from a log's sample."""
    gold = tuple([sample.target] if isinstance(sample.target, str) else sample.target)
    if not all(gold) or not gold:
        raise ValueError("the sample has no right answer, or an empty one")
    stratum, group = (clean(str((sample.metadata or {}).get(name) or "")) for name in ("stratum", "group"))
    without_document = Observation(str(sample.id), gold, stratum, digest=question_digest(sample), group=group)
    error, detail = _find_error(sample, document)
    outcome = None if error else outcome_of(document, gold)
    if document is None:
        return replace(without_document, error=error, detail=detail, scores=computed_scores(benchmark, None, gold))
    if not 0 <= (document["confidence"] or 0) <= 1:
        raise ValueError(f"the confidence {document['confidence']} is not between 0 and 1")
    logged = _numeric_scores(sample.scores or {}) if outcome is not None else {}
    calls = document["calls"]
    return replace(
        without_document,
        outcome=outcome,
        unmapped=None if error else outcome_of(document, gold, mapped=False),
        scores={**logged, **computed_scores(benchmark, outcome, gold)},
        evidence_count=count_evidence(document),
        document=measured_fields(document),
        answers=round_answers(document),
        scored=scored_answers(document),
        tokens=tokens_of(calls) if all(map(is_counted, calls)) else None,
        cost=cost_of([call for call in calls if not call.get("shared")]),
        warnings=Counter(clean(warning["kind"]) for warning in document["warnings"]),
        models=frozenset((clean(call["model"]), clean(call["reported_model"] or "")) for call in calls),
        debate_figures=compute_debate_figures(document, lambda answer: is_right_answer(benchmark, answer, gold)),
        error=error,
        detail=detail,
        counts={
            name: Counts(*score.metadata["counts"])
            for name, score in (sample.scores or {}).items()
            if name in POOLED_MEASURES and outcome is not None and "counts" in (score.metadata or {})
        },
        uncitable_measures=frozenset(
            n for n, s in (sample.scores or {}).items() if (s.metadata or {}).get("named") is False
        ),
    )


def question_digest(sample: Any) -> str:
    """A digest of a sample's claim and options, and of all that comes with it: labels, texts, dates and speaker."""
    inputs = {key: value for key, value in ((sample.metadata or {}).get(INPUTS) or {}).items() if key != "task"}
    asked = json.dumps([sample.input, sample.choices, *([inputs] if inputs else [])], default=str, sort_keys=True)
    # the letter at the beginning, because spreadsheet programs read some digests as numbers
    return f"q{hashlib.blake2b(asked.encode(), digest_size=8).hexdigest()}"


def is_right_answer(benchmark: Benchmark, answer: str, gold: Sequence[str]) -> bool:
    """Whether an answer scores 1 by the first measure of its benchmark that needs no model."""
    name = next(name for name in benchmark.metrics if name in COMPUTED)
    return item_score(name, benchmark.task, answer, gold) == 1


def _find_error(sample: Any, document: Document | None) -> tuple[str | None, str]:
    """The kind of the error that makes an item missing, and details of the error.

    The kind is None if the item has an outcome; then the details are empty or about unusable replies. If the debate
    ended without an error but the sample failed, the item is missing.
    """
    error = (document or {}).get("error")
    if document is not None and has_outcome(document) and (error or sample.error is None):
        return None, clean(error["detail"])[:LONGEST_DETAIL] if error else ""
    if error is not None:
        return clean(error["kind"]), clean(error["detail"])[:LONGEST_DETAIL]
    if sample.error is not None:
        return "sample_error", clean(sample.error.message)[:LONGEST_DETAIL]
    if sample.limit is not None:
        return f"limit_{sample.limit.type}", f"The limit of {sample.limit.limit:g} was reached."
    status = "no_document" if document is None else clean(document["status"])
    return status, "The sample ended without a result."


def _numeric_scores(scores: Mapping[str, Any]) -> dict[str, float | None]:
    """The numeric scores of a sample. NaN, which Inspect logs for an unscored sample, and infinity become None."""
    numbers = {name: s.value for name, s in scores.items() if isinstance(s.value, int | float)}
    return {name: float(value) if isfinite(value) else None for name, value in numbers.items()}


def measured_fields(document: Document) -> dict[str, Any]:
    """The parts of a result document that are used in reports; call records, settings and most texts are left out."""
    turns = [turn for turn in document["turns"] if turn["step"] in TURN_STEPS]
    from_store = (document["usage"].get("from_store") or {}).get("calls", 0)
    return {
        **{key: document[key] for key in DOCUMENT_FIELDS},
        "calls": document["usage"]["calls"],
        "from_store": from_store,
        "seconds": None if from_store else document["seconds"],  # a stored reply shortens the debate
        "votes": [{key: vote[key] for key in ("agent", "answer", "group")} for vote in document["votes"]],
        "metrics": {
            "citations": document["metrics"].get("citations") or count_citations(document["turns"]),
            "concessions": count_concessions(document["turns"]),
        },
        "turns": [{key: turn[key] for key in TURN_FIELDS if key in turn} for turn in turns],
    }


def scored_answers(document: Document) -> tuple[ScoredAnswer, ...]:
    """The answers of a debate, each with those of its scores that have a threshold (`THRESHOLD_SCORES`).

    Two kinds of answers need not follow from evidence. In the first, the writer never searched in the debate, and was
    shown no evidence for this answer. In the second, the task needs reasoning, and the answer uses no evidence. If the
    faithfulness of such an answer is None, the score is undefined and left out. Any other score of None is unknown. An
    answer that has none of these scores, or only undefined ones, is left out.
    """
    responses = [turn for turn in document["turns"] if turn["step"] == "respond"]
    searching = {turn["agent"] for turn in responses if turn.get("query") is not None}
    answers = []
    for turn in responses:
        if not turn.get("answer"):
            continue
        scores = {name: value for name, value in (turn.get("scores") or {}).items() if name in THRESHOLD_SCORES}
        searched = turn["agent"] in searching or turn.get("evidence_ids")
        by_reason = is_reasoning_task(document["task"]) and (turn.get("scores") or {}).get("statements") == []
        if scores.get("faithfulness") is None and (not searched or by_reason):
            scores.pop("faithfulness", None)
        answers.append(ScoredAnswer(turn["answer"], scores))
    return tuple(answer for answer in answers if answer.scores)


def round_answers(document: Document) -> tuple[RoundAnswer, ...]:
    """The majority answer of each round; in a tie, the answer of the earliest speaker.

    Two answers are the same by `same_answer`, or if the debate itself compared them in that round and found them the
    same.
    """
    by_round: dict[int, list[str]] = {}
    for turn in document["turns"]:
        if turn["step"] == "respond":
            by_round.setdefault(turn["round"], []).append(turn.get("answer") or ABSTAINED)
    return tuple(_round_answer(document, number, answers) for number, answers in sorted(by_round.items()))


def _round_answer(document: Document, number: int, answers: Sequence[str]) -> RoundAnswer:
    turns = [turn for turn in document["turns"] if turn["round"] == number]
    answers_by_turn = {(t["agent"], t.get("number")): t.get("answer") for t in turns if t["step"] == "respond"}
    compared = [turn for turn in turns if turn["step"] == "compare"]
    checked = {
        (check["with"], answers_by_turn.get((turn["agent"], turn.get("number"))))
        for turn in compared
        for check in turn["comparisons"]
        if check["same"]
    }

    def same(first: str, other: str) -> bool:
        return same_answer(document["task"], first, other) or (first, other) in checked

    [answer] = majority_of_runs([[answer] for answer in answers], same)
    no_answer = not answer or abstains(document["task"], answer)
    return RoundAnswer(number, len(answers), ABSTAINED if no_answer else str(answer))
