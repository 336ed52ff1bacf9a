"""Fit a calibration on logs of labelled debates, for `moot calibrate`.

`moot.nodes._texts.calibrated` explains calibrations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from moot.core.errors import UserError
from moot.core.fingerprints import moot_version
from moot.evals._runs.identity import version_of
from moot.evals._runs.log_files import UNREADABLE, Header, find_logs, read_headers, without_superseded
from moot.evals._runs.logs import REPORT_FIELDS, checked_document, damaged_error, samples_in
from moot.evals._stats.calibration import confidence_threshold, score_counts
from moot.graphs import load_graph
from moot.nodes._runtime.settings import checked_settings
from moot.nodes._texts.answers import read_answer
from moot.nodes._texts.calibrated import Bound, Calibration, bound_to, differences, label_shares

NO_DEBATE = "These logs contain no finished debate with a known right answer."


@dataclass(frozen=True)
class CalibrationCase:
    """A labelled debate: its nonconformity score, its verdict's confidence, and whether the verdict is right.

    The score is 1 - the share of the right label (`label_shares`). If several labels are right, it is the lowest of
    their scores. The confidence is None if there is no verdict, or if the verdict has no confidence.
    """

    score: float
    confidence: float | None
    right: bool


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


def make_case(document: Mapping[str, Any], gold: Sequence[str]) -> CalibrationCase:
    """Make a case from a finished debate and its right answers."""
    task = document["task"]
    right = {label for answer in gold if (label := read_answer(task, answer)) is not None}
    if task["kind"] != "labels" or not right:
        raise UserError(
            "Only tasks with labels can be calibrated, and their right answers must be labels. Here the task is "
            f"{task['name']}, and the right answers are {[*gold]}.",
            kind="invalid_task",
        )
    answer, confidence = document["answer"], document["confidence"]
    shares = label_shares(task["labels"], answer, confidence, document["round_log"])
    return CalibrationCase(
        1 - max(shares[label] for label in right), None if answer is None else confidence, answer in right
    )


def fit_cases(
    cases: Sequence[CalibrationCase],
    alpha: float,
    bound: Bound,
    corpora: Mapping[str, str],
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
        scores=score_counts([case.score for case in cases]),
        least_confidence=least,
        bound=bound,
        corpora=dict(corpora),
        moot=moot_version(),
        hash=bound.digest(),
    )
    acted = [c for c in cases if least is not None and c.confidence is not None and c.confidence >= least]
    return FittedCalibration(
        calibration, unfinished, repeated, attacked, len(acted), sum(not case.right for case in acted)
    )


def fit_logs(paths: Sequence[Path], alpha: float) -> FittedCalibration:
    """Fit a calibration on the debates in logs; only the first finished debate of each item is used. Blocking."""
    headers, notes = read_headers(find_logs(paths))
    headers, superseded = without_superseded(headers)
    notes += superseded
    cases: dict[str, CalibrationCase] = {}
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
            repeated += id in cases
            if id not in cases:
                cases[id] = make_case(document, gold)
    if bound is None:
        raise UserError(" ".join([NO_DEBATE, *notes]), kind="missing_file")
    fitted = fit_cases(
        list(cases.values()), alpha, bound, corpora, unfinished=unfinished, repeated=repeated, attacked=attacked
    )
    if all(case.confidence is None for case in cases.values()):
        notes.append(f"No verdict of {bound.graph} has a confidence, so none can be acted on: all are escalated.")
    return replace(fitted, notes=tuple(notes))


def _labelled_debates(header: Header) -> Iterator[tuple[str, Mapping[str, Any] | None, list[str]]]:
    """Yield for each sample of a log the item's id, the result document (None if it has none) and the right answers."""
    parts, graph = header.metadata.get("parts") or {}, str(header.metadata.get("graph"))
    settings = checked_settings(load_graph(graph).settings, header.metadata.get("settings") or {})
    if not {"prompts", "sources", "corpora"} <= parts.keys() or parts.get("behaviour") != version_of(graph, settings):
        raise UserError(
            f"{header.path.name} was written by another version of moot, whose {graph} may answer differently. "
            "Run this evaluation again.",
            kind="invalid_setting",
        )
    for sample, document in _samples_of(header):
        yield str(sample.id), document, [sample.target] if isinstance(sample.target, str) else list(sample.target)


def _samples_of(header: Header, names: Sequence[str] = REPORT_FIELDS) -> Iterator[tuple[Any, Mapping[str, Any] | None]]:
    """Yield each sample of a log with the fields ``names`` of its result document (None if it has no document)."""
    try:
        for sample, found in samples_in(header):
            yield sample, None if found is None else checked_document(found, names)
    except (*UNREADABLE, TypeError, AttributeError) as error:
        raise damaged_error(str(header.path), error) from error
