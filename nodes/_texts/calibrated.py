"""A verdict's prediction set and decision, from a calibration fitted on labelled debates of the same system.

The set is split-conformal (Vovk et al. 2005; Angelopoulos and Bates 2023, arXiv:2107.07511). It contains each label
whose nonconformity score is not unusually high, compared with the scores of the right labels in the labelled debates.
The decision uses conformal risk control (Angelopoulos et al. 2024, arXiv:2208.02814). It is "act" if the verdict's
confidence reaches a threshold at which acting was rarely wrong, else "escalate". The confidence is that of the document
or, if the calibration has weights, a logistic regression on `FEATURES`, which was fitted on labelled debates that the
scores and the threshold do not use. The set and the decision are valid only for debates with the same system, settings,
models, sources, task and prompts.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from moot.core.callers import check_calibration, serves_callers
from moot.core.errors import UserError
from moot.core.files import read_bounded, why_unread
from moot.core.fingerprints import moot_version
from moot.core.home import moot_home
from moot.nodes._records.entries import RoundRecord, Task
from moot.nodes._runtime.settings import Settings
from moot.nodes._texts.default_confidence import CONFIDENCE_DECIMALS
from moot.nodes._texts.verdict import share_borne_out, token_probability, votes_behind
from moot.prompts._files import shipped
from pydantic import BaseModel, ConfigDict, Field, model_validator

LARGEST = 16 * 2**20
"""Maximum size of a calibration's file, in bytes."""
FEW_CASES = 200
"""Below this number of labelled debates, documents state the limits of the guarantee."""
WITHOUT_EFFECT = {
    "calibration",
    "seed",
    "reader_summary",
    "timeout",
    "attempts",
    "max_concurrency",
    "requests_per_minute",
}
WITHOUT_EFFECT |= {"max_wait", "robustness", "robustness_calls", "second_opinion", "doubt_below"}
"""Settings that do not affect how often a system is right."""
LONGEST_VALUE = 80
"""Maximum number of characters of a setting's fitted value and present value together, for a message to show them."""
SCORE_DECIMALS = 9
"""Decimal places to which scores are rounded before they are compared."""


Feature = Literal["confidence", "votes", "warrants", "token_probability"]


def _vote_share(document: Mapping[str, Any]) -> float | None:
    counts = votes_behind(document)
    return None if counts is None or not counts[1] else counts[0] / counts[1]


FEATURES: dict[Feature, Callable[[Mapping[str, Any]], float | None]] = {
    "confidence": lambda document: document["confidence"],
    "votes": _vote_share,
    "warrants": share_borne_out,
    "token_probability": token_probability,
}
"""What a verdict's confidence can be computed from, each in [0, 1]; None if it is not known of a document."""


class Bound(BaseModel):
    """The configuration for which a calibration is valid."""

    model_config = ConfigDict(extra="forbid")

    graph: str
    task: dict[str, Any]
    settings: dict[str, Any]
    sources: dict[str, str]
    prompts: dict[str, str]

    def digest(self) -> str:
        """The digest of this configuration: sixteen hexadecimal digits."""
        return digest(self.model_dump())


class Calibration(BaseModel):
    """The content of a calibration's file."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["moot calibration"] = "moot calibration"
    version: Literal[2] = 2
    alpha: float = Field(gt=0, lt=1)  # the tolerated error rate
    n: int = Field(ge=1)  # the number of labelled debates, without those that the weights were fitted on
    features: list[Feature] = Field(min_length=1)  # what the confidence is computed from
    weights: list[float] | None  # of a logistic regression, for each feature; None: the document's confidence is used
    intercept: float | None  # of the regression; None without weights
    weighted_on: int = Field(ge=0)  # the number of labelled debates that the weights were fitted on
    scores: list[tuple[float, int]]  # the nonconformity scores of the right labels, each with its frequency
    least_confidence: float | None  # the confidence needed to act on a verdict; None if no confidence is enough
    doubt_below: float | None = None  # the value for the setting; None if it could not be fitted
    bound: Bound
    corpora: dict[str, str]  # a digest of each corpus as it was when the calibration was fitted
    moot: str  # the version of moot that fitted the calibration
    hash: str  # the digest of ``bound``

    @model_validator(mode="after")
    def _check_weights(self) -> Self:
        """One finite weight for each feature and an intercept, or neither, and then exactly one feature."""
        known = [*(self.weights or ()), *([] if self.intercept is None else [self.intercept])]
        paired = (self.weights is None) == (self.intercept is None)
        count = 1 if self.weights is None else len(self.weights)
        if not paired or count != len(self.features) or not all(map(math.isfinite, known)):
            raise ValueError("there must be a weight for each feature, and an intercept")
        return self


def digest(values: Any) -> str:
    """A digest of plain values: sixteen hexadecimal digits."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:16]


def prompt_digests(settings: Settings) -> dict[str, str]:
    """The digests of the (edited) prompts of a system and of its inner debate, by name: eight hexadecimal digits."""
    edited, inner = settings.edited(), settings.inner_settings()
    own = {name: digest(edited.get(name) or shipped(name))[:8] for name in settings.prompts.values()}
    return dict(sorted(((prompt_digests(inner) if inner else {}) | own).items()))


# --- the configuration ------------------------------------------------------------------------------------------------


def bound_to(
    graph: str, task: Task, settings: Mapping[str, Any], prompts: Mapping[str, str], sources: Mapping[str, str]
) -> Bound:
    """The configuration of a debate, for comparison with the configuration of a calibration."""
    # Edited prompts count by their digests in ``prompts`` (`prompt_digests`).
    bound = {key: value for key, value in settings.items() if key not in WITHOUT_EFFECT and not key.endswith("_prompt")}
    asked = {"name": task["name"], "kind": task["kind"], "labels": list(task["labels"])}
    plain = json.loads(json.dumps(bound))
    if "published_before" in plain:
        # The date itself does not count, because in some benchmarks each claim has a date of its own.
        plain["published_before"] = plain["published_before"] is not None
    return Bound(graph=graph, task=asked, settings=plain, sources=dict(sources), prompts=dict(prompts))


def differences(fitted: Bound, here: Bound) -> Iterator[str]:
    """Describes each difference between the configurations of a calibration (``fitted``) and a debate (``here``)."""
    if fitted.graph != here.graph:
        yield f"the graph (fitted on {fitted.graph}, here {here.graph})"
    if fitted.task != here.task:
        same = fitted.task["name"] == here.task["name"]
        yield "the labels" if same else f"the task (fitted on {fitted.task['name']}, here {here.task['name']})"
    for key in sorted(fitted.settings.keys() | here.settings.keys()):
        was, now = fitted.settings.get(key), here.settings.get(key)
        if was != now:
            old, new = _in_short(was), _in_short(now)
            difference = (
                f"fitted with {old}, here {new}"
                if old != new and len(old + new) <= LONGEST_VALUE
                else "differs from the fitted value"
            )
            yield f"{key} ({difference})"
    for name in sorted(fitted.sources.keys() | here.sources.keys()):
        was, now = fitted.sources.get(name, name), here.sources.get(name, name)
        if was != now:
            yield f"the source {name} (fitted on {was}, here {now})"
    for name in sorted(fitted.prompts.keys() | here.prompts.keys()):
        if fitted.prompts.get(name) != here.prompts.get(name):
            yield f"the prompt {name}"


def _in_short(value: Any) -> str:
    several = isinstance(value, list) and len(value) > 1 and isinstance(value[0], dict)
    return f"{len(value)}" if several else json.dumps(value)


def read_calibration(path: str) -> Calibration:
    """Reads a calibration from its file or, on a server, from the file of its id (`check_calibration`); blocking."""
    try:
        content = read_bounded(_file_of_id(path) if serves_callers() else Path(path), LARGEST)
        found = Calibration.model_validate_json(content)
    except OSError as error:
        raise UserError(f"calibration: {why_unread(path, error)}", kind="missing_file") from error
    except ValueError as error:
        raise UserError(
            f"calibration: {path} is not a file of `moot calibrate`, or of another version. Fit it again.",
            kind="invalid_file",
        ) from error
    if found.hash != found.bound.digest():
        raise UserError(f"calibration: {path} was changed after it was written.", kind="invalid_file")
    return found


def _file_of_id(id: str) -> Path:
    """The file of a calibration in the operator's folder ``calibrations``, but never outside of it; blocking."""
    check_calibration(id)
    folder = (moot_home() / "calibrations").resolve()
    file = (folder / f"{id.removesuffix('.json')}.json").resolve()
    if not (file.is_file() and file.is_relative_to(folder)):
        raise UserError(
            f"calibration: this server has no calibration {id!r}. Its operator can put its file "
            "into the folder calibrations of MOOT_HOME.",
            kind="missing_file",
        )
    return file


def check_bound(calibration: Calibration, here: Bound) -> None:
    """Refuses a calibration that was fitted on debates with a configuration other than ``here``."""
    if found := list(differences(calibration.bound, here)):
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        raise UserError(
            "This calibration was fitted on debates with another configuration, so it is not valid for this debate. "
            f"It differs in: {'; '.join(found[:5])}{more}. Fit a calibration on labelled runs with this debate's "
            "configuration (moot calibrate), or leave `calibration` out.",
            kind="invalid_setting",
        )


def changes_since(calibration: Calibration, corpora: Mapping[str, str]) -> Iterator[str]:
    """Describes what changed since a calibration was fitted: moot, or a corpus by its digest in ``corpora``."""
    for name in sorted(calibration.corpora.keys() & corpora.keys()):
        if calibration.corpora[name] != corpora[name]:
            yield (
                f"The corpus {name} has changed since the calibration was fitted. The calibration does not cover the "
                "new content."
            )
    if calibration.moot != moot_version():
        yield f"The calibration was fitted with moot {calibration.moot}; this is moot {moot_version()}."


# --- prediction set and decision --------------------------------------------------------------------------------------


def label_shares(
    labels: Sequence[str], answer: str | None, confidence: float | None, rounds: Sequence[RoundRecord]
) -> dict[str, float]:
    """A distribution over the labels: the verdict has its confidence, the others the rest, by 1 plus their answers."""
    if answer not in labels or confidence is None:
        return dict.fromkeys(labels, 1 / len(labels))
    given = Counter(vote["answer"] for record in rounds for vote in record.get("votes", []))
    others = {label: 1 + given[label] for label in labels if label != answer}
    rest = (1 - confidence) / sum(others.values())
    return {label: confidence if label == answer else others[label] * rest for label in labels}


def features_of(document: Mapping[str, Any], names: Sequence[Feature]) -> dict[Feature, float | None]:
    """The features of a document; all None if it has no verdict, or if its verdict was withheld."""
    lacks = document["answer"] is None or document["metrics"].get("withheld")
    return {name: None if lacks else FEATURES[name](document) for name in names}


def confidence_by(
    features: Mapping[Feature, float | None], weights: Sequence[float] | None, intercept: float | None
) -> float | None:
    """The confidence from features: without weights, the only feature itself; else 1 / (1 + e^-(intercept + weights x
    features)). None if a feature is not known.

    >>> confidence_by({"votes": 0.5, "warrants": 1.0}, [2.0, 1.0], -2.0)
    0.5
    """
    values = [value for value in features.values() if value is not None]
    if len(values) < len(features):
        return None
    if weights is None or intercept is None:
        return values[0]
    total = intercept + math.fsum(weight * value for weight, value in zip(weights, values, strict=True))
    return 1 / (1 + math.exp(-total))


def p_value(scores: Sequence[tuple[float, int]], score: float, tie: float = 1.0) -> float:
    """Of the labelled debates and this one, the share with a nonconformity score of at least ``score``; in [0, 1]."""
    known = [(round(one, SCORE_DECIMALS), count) for one, count in scores]
    here = round(score, SCORE_DECIMALS)
    more = sum(count for one, count in known if one > here)
    same = sum(count for one, count in known if one == here) + 1
    # With a random ``tie`` from [0, 1], instead of 1, the coverage is exact.
    return (more + tie * same) / (sum(count for _, count in known) + 1)


def prediction_set(
    shares: Mapping[str, float], scores: Sequence[tuple[float, int]], alpha: float, tie: float = 1.0
) -> list[str]:
    """The labels whose p-value is above alpha; the set may be empty."""
    return [label for label, share in shares.items() if p_value(scores, 1 - share, tie) > alpha]


def guarantee(n: int, alpha: float) -> str:
    """The guarantee of a calibration in words, with the guarantee's limits if there are few cases."""
    guaranteed = (
        f"On average over claims like the {n:,} calibration cases, at least {1 - alpha:.0%} of the prediction sets "
        f"contain the right answer. On at most {alpha:.0%} of all claims, a wrong verdict is acted on."
    )
    return f"{guaranteed} {guarantee_limits(n, alpha)}".rstrip()


def guarantee_limits(n: int, alpha: float) -> str:
    """The limits of the guarantee if there are few cases; empty if there are enough."""
    if n >= FEW_CASES:
        return ""
    # The coverage of one fitted file varies around the guaranteed average: 1.96 of its standard deviations (Vovk 2012).
    off = 1.96 * (alpha * (1 - alpha) / (n + 2)) ** 0.5
    none = " With so few, every prediction set contains all labels." if n + 1 < 1 / alpha else ""
    return (
        f"With fewer than {FEW_CASES} cases, the share of prediction sets that contain the right answer may be off by "
        f"{off:.0%} either way.{none}"
    )


def calibrated(
    calibration: Mapping[str, Any] | None, document: Mapping[str, Any], *, done: bool = True
) -> dict[str, Any]:
    """The results of a calibration, as keys of a debate's document; {} if there is no calibration."""
    if calibration is None:
        return {}
    alpha, n, least = calibration["alpha"], calibration["n"], calibration["least_confidence"]
    summary = {"n": n, "alpha": alpha, "least_confidence": least, "guarantee": guarantee(n, alpha)}
    summary |= {"features": calibration["features"], "confidence": None}
    if not done:
        return {"calibration": summary}
    found = features_of(document, calibration["features"])
    labels, sure = document["task"]["labels"], confidence_by(found, calibration["weights"], calibration["intercept"])
    summary["confidence"] = None if sure is None else round(sure, CONFIDENCE_DECIMALS)
    shares = label_shares(labels, document["answer"], sure, document["round_log"])
    acts = document["answer"] is not None and sure is not None and least is not None and sure >= least
    return {
        "prediction_set": prediction_set(shares, calibration["scores"], alpha),
        "decision": "act" if acts else "escalate",
        "calibration": summary,
    }


def calibration_basis(document: Mapping[str, Any]) -> str:
    """Whether a confidence is calibrated, in words: ``calibrated on 240 cases``, or ``not calibrated``."""
    found = document.get("calibration")
    return f"calibrated on {found['n']:,} cases" if found else "not calibrated"


def shown_confidence(document: Mapping[str, Any]) -> float | None:
    """The confidence that people are shown: only that of a calibrated debate, since others are shares of votes."""
    sure: float | None = (document.get("calibration") or {}).get("confidence")
    return sure
