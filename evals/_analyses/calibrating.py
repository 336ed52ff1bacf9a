"""Fit a calibration on logs of labelled debates, for `moot calibrate`.

`moot.nodes._texts.calibrated` explains calibrations.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from moot.core.errors import UserError
from moot.core.fingerprints import moot_version
from moot.evals._runs.identity import version_of
from moot.evals._runs.log_files import UNREADABLE, Header, find_logs, read_headers, without_superseded
from moot.evals._runs.logs import REPORT_FIELDS, checked_document, damaged_error, samples_in
from moot.evals._stats.calibration import confidence_threshold, score_counts
from moot.evals._stats.measures import load_extra
from moot.evals._stats.observations import question_digest
from moot.graphs import load_graph
from moot.nodes._records.entries import RoundRecord
from moot.nodes._runtime.settings import checked_settings
from moot.nodes._texts.answers import read_answer
from moot.nodes._texts.calibrated import (
    Bound,
    Calibration,
    Feature,
    bound_to,
    confidence_by,
    differences,
    features_of,
    label_shares,
)

NO_DEBATE = "These logs contain no finished debate with a known right answer."


@dataclass(frozen=True)
class CalibrationCase:
    """A labelled debate: its nonconformity score, its verdict's confidence, and whether the verdict is right.

    The score is 1 - the share of the right label (`label_shares`). If several labels are right, it is the lowest of
    their scores. The confidence is None if there is no verdict, or if the verdict has no confidence. ``opinion`` is the
    verdict's probability by a second opinion, None without one.
    """

    score: float
    confidence: float | None
    right: bool
    opinion: float | None = None


@dataclass(frozen=True)
class LabelledVerdict:
    """What is kept of a finished debate with known right answers, until its confidence is computed."""

    labels: Sequence[str]
    answer: str | None
    rounds: Sequence[RoundRecord]
    right: frozenset[str]
    features: Mapping[Feature, float | None]
    opinion: float | None

    @property
    def is_right(self) -> bool:
        """Whether the verdict is right."""
        return self.answer in self.right

    def case(self, confidence: float | None) -> CalibrationCase:
        """The case with a confidence in the verdict."""
        shares = label_shares(self.labels, self.answer, confidence, self.rounds)
        return CalibrationCase(1 - max(shares[label] for label in self.right), confidence, self.is_right, self.opinion)


@dataclass(frozen=True)
class Weights:
    """A logistic regression of whether a verdict is right: a weight for each feature."""

    of_features: tuple[float, ...]
    intercept: float
    n: int
    """The number of verdicts that it was fitted on."""


@dataclass(frozen=True)
class FittedCalibration:
    """A calibration, and counts of the debates in the logs.

    The calibration is fitted without the unfinished, repeated and attacked debates.
    """

    calibration: Calibration
    """The contents of the calibration file."""
    unfinished: int
    """The number of debates that did not finish."""
    repeated: int
    """The number of finished debates on an item that already has a finished debate."""
    attacked: int
    """The number of debates that `moot eval attack` attacked."""
    acted: int
    """The number of cases whose confidence reaches the calibration's ``least_confidence``."""
    wrong: int
    """The number of wrong verdicts among the cases in ``acted``."""
    notes: tuple[str, ...] = ()
    """A sentence about each file that cannot be used, about each superseded log, and about missing confidences."""


def labelled_verdict(document: Mapping[str, Any], gold: Sequence[str], names: Sequence[Feature]) -> LabelledVerdict:
    """What a calibration needs of a finished debate and its right answers."""
    task = document["task"]
    right = {label for answer in gold if (label := read_answer(task, answer)) is not None}
    if task["kind"] != "labels" or not right:
        raise UserError(
            "Only tasks with labels can be calibrated, and their right answers must be labels. Here the task is "
            f"{task['name']}, and the right answers are {[*gold]}.",
            kind="invalid_task",
        )
    rounds: list[Any] = [{"votes": record.get("votes", [])} for record in document["round_log"]]
    opinion = (document["metrics"].get("second_opinion") or {}).get("probability")
    features = features_of(document, names)
    return LabelledVerdict(task["labels"], document["answer"], rounds, frozenset(right), features, opinion)


FEWEST_OF_EACH = 10
"""With fewer right or fewer wrong verdicts for each feature, a note says that the weights are unsteady."""


def halves(ids: Iterable[str]) -> tuple[list[str], list[str]]:
    """Ids in two halves, the same ones whatever their order: every second one by the digests of the ids.

    Weights are fitted on the first half. Scores and thresholds come from the second, so that a new debate is like its
    debates: neither had a part in the weights.
    """
    ordered = sorted(ids, key=lambda id: hashlib.sha256(id.encode()).hexdigest())
    return ordered[::2], ordered[1::2]


def fit_weights(verdicts: Sequence[LabelledVerdict], names: Sequence[Feature]) -> tuple[Weights, list[str]]:
    """The weights of features by scikit-learn's logistic regression with its defaults, and notes on its data."""
    rows = [([*v.features.values()], v.is_right) for v in verdicts if None not in v.features.values()]
    right = sum(is_right for _, is_right in rows)
    wrong = len(rows) - right
    if not right or not wrong:
        missing = {name: sum(v.features[name] is None for v in verdicts) for name in names}
        lacking = ", ".join(f"{count} lack {name}" for name, count in missing.items() if count)
        raise UserError(
            f"The features cannot be weighed: of {len(verdicts)} debates in the half for this, {right} verdicts with "
            f"all features are right and {wrong} wrong{f' ({lacking})' if lacking else ''}. Both kinds are needed: "
            "give more labelled debates or other features, or leave --feature out.",
            kind="invalid_setting",
        )
    notes = []
    if min(right, wrong) < FEWEST_OF_EACH * len(names):
        notes.append(
            f"The weights are from {right} right and {wrong} wrong verdicts; with fewer than {FEWEST_OF_EACH} of each "
            "for every feature they are unsteady. The guarantee holds, but more verdicts may be escalated than needed."
        )
    model = load_extra("sklearn.linear_model").LogisticRegression()
    model.fit([values for values, _ in rows], [is_right for _, is_right in rows])
    return Weights(tuple(map(float, model.coef_[0])), float(model.intercept_[0]), len(rows)), notes


FEWEST_OPINIONS = 100
"""Minimum number of labelled verdicts with a second opinion from which ``doubt_below`` is fitted."""


def fit_doubt(cases: Sequence[CalibrationCase], alpha: float) -> float | None:
    """The value of ``doubt_below``: at most a share alpha of the verdicts is wrong and not doubted.

    It is the threshold of conformal risk control for the second opinion's probability of the verdict, in place of the
    confidence (`confidence_threshold`). None with fewer than `FEWEST_OPINIONS`, or if no threshold fulfils it.
    """
    given = [case for case in cases if case.opinion is not None]
    if len(given) < FEWEST_OPINIONS:
        return None
    return confidence_threshold([case.opinion for case in given], [case.right for case in given], alpha)


def fit_cases(
    cases: Sequence[CalibrationCase],
    alpha: float,
    bound: Bound,
    corpora: Mapping[str, str],
    features: Sequence[Feature] = ("confidence",),
    weights: Weights | None = None,
    *,
    unfinished: int = 0,
    repeated: int = 0,
    attacked: int = 0,
) -> FittedCalibration:
    """Fit a calibration on labelled debates."""
    if not cases:
        raise UserError(NO_DEBATE, kind="missing_file")
    confidences, right = [case.confidence for case in cases], [case.right for case in cases]
    least = confidence_threshold(confidences, right, alpha)
    calibration = Calibration(
        alpha=alpha,
        n=len(cases),
        features=list(features),
        weights=None if weights is None else list(weights.of_features),
        intercept=None if weights is None else weights.intercept,
        weighted_on=0 if weights is None else weights.n,
        scores=score_counts([case.score for case in cases]),
        least_confidence=least,
        doubt_below=fit_doubt(cases, alpha),
        bound=bound,
        corpora=dict(corpora),
        moot=moot_version(),
        hash=bound.digest(),
    )
    acted = [c for c in cases if least is not None and c.confidence is not None and c.confidence >= least]
    return FittedCalibration(
        calibration, unfinished, repeated, attacked, len(acted), sum(not case.right for case in acted)
    )


def fit_logs(paths: Sequence[Path], alpha: float, features: Sequence[Feature] = ("confidence",)) -> FittedCalibration:
    """Fit a calibration on the debates in logs; only the first finished debate of each item is used. Blocking.

    With other features than the confidence alone, one half of the debates is used for their weights (`halves`).
    """
    headers, notes = read_headers(find_logs(paths))
    headers, superseded = without_superseded(headers)
    notes += superseded
    verdicts: dict[str, LabelledVerdict] = {}
    bound: Bound | None = None
    corpora: Mapping[str, str] = {}
    unfinished = repeated = attacked = 0
    for header in headers:
        if header.metadata.get("attack"):
            attacked += sum(1 for _ in _samples_of(header, ()))
            continue
        for id, document, gold in _labelled_debates(header):
            if document is None or document["status"] != "done":
                unfinished += 1
                continue
            parts = header.metadata["parts"]
            own_bound = bound_to(
                document["graph"], document["task"], document["settings"], parts["prompts"], parts["sources"]
            )
            bound, corpora = (own_bound, parts["corpora"]) if bound is None else (bound, corpora)
            changed = sorted(name for name, content in corpora.items() if parts["corpora"].get(name) != content)
            if differing := [
                *differences(bound, own_bound),
                *(f"the content of the corpus {name}" for name in changed),
            ]:
                raise UserError(
                    f"These logs cannot be fitted together: {header.path.name} differs in "
                    f"{'; '.join(differing[:5])}. Give only logs of one system with the same settings.",
                    kind="invalid_setting",
                )
            repeated += id in verdicts
            if id not in verdicts:
                verdicts[id] = labelled_verdict(document, gold, features)
    if bound is None:
        raise UserError(" ".join([NO_DEBATE, *notes]), kind="missing_file")
    weights, used = None, list(verdicts.values())
    if tuple(features) != ("confidence",):
        first, second = halves(verdicts)
        weights, found = fit_weights([verdicts[id] for id in first], features)
        notes += found
        used = [verdicts[id] for id in second]
    own = (weights.of_features, weights.intercept) if weights else (None, None)
    cases = [verdict.case(confidence_by(verdict.features, *own)) for verdict in used]
    counts = {"unfinished": unfinished, "repeated": repeated, "attacked": attacked}
    fitted = fit_cases(cases, alpha, bound, corpora, features, weights, **counts)
    opinions = sum(case.opinion is not None for case in cases)
    if 0 < opinions < FEWEST_OPINIONS:
        notes.append(f"doubt_below needs {FEWEST_OPINIONS} verdicts with a second opinion; there are {opinions}.")
    if all(case.confidence is None for case in cases):
        notes.append(f"No verdict of {bound.graph} has a confidence, so none can be acted on: all are escalated.")
    return replace(fitted, notes=tuple(notes))


def _labelled_debates(header: Header) -> Iterator[tuple[str, Mapping[str, Any] | None, list[str]]]:
    """Yield for each sample of a log a name of its item, the result document (None if it has none) and the right
    answers. The name has a digest, because files without ids number their items.
    """
    parts, graph = header.metadata.get("parts") or {}, str(header.metadata.get("graph"))
    settings = checked_settings(load_graph(graph).settings, header.metadata.get("settings") or {})
    if not {"prompts", "sources", "corpora"} <= parts.keys() or parts.get("behaviour") != version_of(graph, settings):
        raise UserError(
            f"{header.path.name} was written by another version of moot, whose {graph} may answer differently. "
            "Run this evaluation again.",
            kind="invalid_setting",
        )
    for sample, document in _samples_of(header):
        name = f"{sample.id} {question_digest(sample)}"
        yield name, document, [sample.target] if isinstance(sample.target, str) else list(sample.target)


def _samples_of(header: Header, names: Sequence[str] = REPORT_FIELDS) -> Iterator[tuple[Any, Mapping[str, Any] | None]]:
    """Yield each sample of a log with the fields ``names`` of its result document (None if it has no document)."""
    try:
        for sample, found in samples_in(header):
            yield sample, None if found is None else checked_document(found, names)
    except (*UNREADABLE, TypeError, AttributeError) as error:
        raise damaged_error(str(header.path), error) from error
