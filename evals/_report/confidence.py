"""Tables about the calibration of systems' confidences, and about thresholds for scores of answers.

A function returns None if its table would have no row.
"""

from __future__ import annotations

from collections import Counter

from moot.evals._report.comparison import Study, System
from moot.evals._report.scores import SYSTEM, is_right
from moot.evals._report.tables import Cell, Column, Nested, Table, columns, make_table
from moot.evals._stats.calibration import BINS, accuracy_at, brier_score, ece, reliability_bins, risk_coverage
from moot.evals._stats.observations import THRESHOLD_SCORES, Observation, is_right_answer

THRESHOLDS = (0.0, *(step / 20 for step in range(10, 20)))
"""Thresholds for scores of answers. All answers pass 0, except those with a negative answer relevance."""


CONFIDENCE = "confidence"
PARTS = {"vote_share": "last votes", "answer_share": "answers of all rounds", "stated": "as stated by the winners"}
"""Parts of a confidence that can also serve as a confidence by themselves, with their names in tables."""


def confidences_of(
    system: System, study: Study, part: str = CONFIDENCE
) -> tuple[list[float | None], list[bool | None]]:
    """A system's confidence in the answer of each observation, and whether the answer was right, as two lists."""
    observations = system.observations
    return [confidence_in(observation, part) if observation.outcome else None for observation in observations], [
        is_right(observation, study) for observation in observations
    ]


def confidence_in(observation: Observation, part: str) -> float | None:
    """The confidence in an item's verdict, or a part of the confidence; None if the document does not state it."""
    parts = (observation.document or {}).get("confidence_parts") or {}
    return observation.figure(part) if part == CONFIDENCE else parts.get(part)


def confidence_kind(system: System) -> str:
    """The most frequent kind of confidence in a system's documents."""
    documents = [observation.document for observation in system.answered if observation.document is not None]
    parts = Counter(next(iter(d["confidence_parts"] or {}), "") for d in documents if d["confidence"] is not None)
    if not parts:
        reasons = Counter(d["confidence_from"] for d in documents if d.get("confidence_from"))
        return f"none: {reasons.most_common(1)[0][0]}" if reasons else "none"
    part = parts.most_common(1)[0][0]
    return PARTS.get(part, "votes, scores and adjustments of a panel" if part == "consensus_strength" else "its own")


def calibration_table(study: Study) -> Table | None:
    """The calibration of each system's confidence and of the confidence's `PARTS`."""
    heads = [SYSTEM, Column("of", "confidence"), *columns("count", items="", without="without confidence", errors="")]
    heads += columns(
        "share", ece="ECE", ece_mass="ECE, equal mass", brier="Brier score", aurc="AURC", risk="share wrong"
    )
    rows: list[list[Cell]] = []
    for system in study.measured:
        kind = confidence_kind(system)
        for part, source in {CONFIDENCE: kind, **PARTS}.items():
            confidences, correct = confidences_of(system, study, part)
            brier, curve = brier_score(confidences, correct), risk_coverage(confidences, correct)
            if part != CONFIDENCE and (source == kind or not brier.n):
                continue
            errors = [ece(confidences, correct).value, ece(confidences, correct, mass=True).value, brier.value]
            counts: list[Cell] = [brier.n, brier.left_out, brier.missing]
            risk = curve.points[-1].risk if curve.points else None
            name = system.label if part == CONFIDENCE else Nested(system.label)
            rows.append([name, source, *counts, *errors, curve.area.value, risk])
    return make_table(
        "calibration",
        "Calibration",
        f"ECE is the expected calibration error over {BINS} bins, of equal width and of equal mass. AURC is the area "
        "under the risk-coverage curve; for a random order, it is the share of wrong answers. ECE, the Brier score and "
        "AURC are better the lower they are. An abstention has no confidence. Confidences are raw: nothing was "
        "fitted to right answers. A system's first row is for the confidence in its documents. The rows below it are "
        "for other figures that the documents state, such as the share of votes. All runs are pooled.",
        heads,
        rows,
    )


def selective_table(study: Study) -> Table | None:
    """The points of each system's risk-coverage curve."""
    heads = [SYSTEM, *columns("share", threshold="answers from a confidence of")]
    heads += [*columns("count", items="answered"), *columns("share", coverage="", risk="share wrong")]
    rows: list[list[Cell]] = []
    for system in study.measured:
        points, area = risk_coverage(*confidences_of(system, study))
        rows += [
            [system.label, threshold, round(coverage * area.n), coverage, risk] for threshold, coverage, risk in points
        ]
    return make_table(
        "selective",
        "Selective accuracy",
        "A system that answers only from a confidence on, and leaves the other items to a person: the share of items "
        "that it answers (coverage), and the share of these answers that is wrong (risk). The table of calibration has "
        "the area under this curve (AURC). Items without a confidence are left out. All runs are pooled.",
        heads,
        rows,
    )


def reliability_table(study: Study) -> Table | None:
    """The bins with items, from each system's reliability diagram."""
    heads = [SYSTEM, *columns("share", low="above", high="up to"), *columns("count", items="")]
    heads += columns("share", confidence="mean confidence", accuracy="share right")
    rows = [
        [system.label, b.low, b.high, b.n, b.confidence, b.accuracy]
        for system in study.measured
        for b in reliability_bins(*confidences_of(system, study))
        if b.n
    ]
    return make_table(
        "reliability", "Reliability", f"There are {BINS} bins of equal width; empty bins are left out.", heads, rows
    )


def thresholds_table(study: Study) -> Table | None:
    """The share of answers that reach each threshold of a score, and the share of right answers among them."""
    heads = [SYSTEM, Column("score", "score")]
    heads += columns("count", answers="answers with a known score", unknown="with an unknown score")
    heads += [*columns("ratio", threshold=""), *columns("count", passed="")]
    heads += columns("share", share="share that passes", right="right, of the answers that pass")
    rows: list[list[Cell]] = []
    for system in study.measured:
        given = [(observation, answer) for observation in system.answered for answer in observation.scored]
        for name in THRESHOLD_SCORES:
            values = [
                (answer.scores[name], is_right_answer(study.benchmark, answer.answer, observation.gold))
                for observation, answer in given
                if name in answer.scores
            ]
            known = [(value, correct) for value, correct in values if value is not None]
            for threshold in THRESHOLDS if known else ():
                passed = accuracy_at([value for value, _ in known], [correct for _, correct in known], threshold)
                counts: list[Cell] = [len(known), len(values) - len(known), threshold]
                rows.append([system.label, name.replace("_", " "), *counts, *passed])
    return make_table(
        "thresholds",
        "Thresholds of scores",
        "The answers are those of agents in all rounds, not the verdicts. "
        "An answer passes a threshold if its score is at least the threshold; "
        "the first measure decides whether an answer is right. Only a negative answer relevance is below threshold 0. "
        "Answers with an unknown score are left out. Two kinds of answers need not follow from evidence. In the first, "
        "the writer neither searched nor was given evidence. In the second, the task is multiple choice, a number or "
        "an expression, and the answer uses no evidence. Such an answer may have no faithfulness, and then counts only "
        "under answer relevance. A threshold of answer relevance is valid only for the encoder with which it was "
        "chosen. Answers of one debate are not independent, so small differences may be due to chance. "
        "All runs are pooled.",
        heads,
        rows,
    )
