"""Cross-validated grid search for the weight of votes in PROClaim's confidence (PROClaim, 2.8, app. M.1, table 11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from moot.evals._stats.calibration import ece
from moot.evals._stats.measures import load_extra
from moot.evals._stats.significance import SEED
from moot.nodes._trial.confidence import QUALITY_WEIGHT, base_confidence, final_confidence

GRID = (0.5, 0.6, 0.7, 0.8, 0.9)
FOLDS = 5


class Panel(NamedTuple):
    """The parts of a trial's confidence (`moot.nodes._trial.confidence`), and whether its verdict was right."""

    sigma: float
    """The consensus strength."""
    quality: float
    """The mean of the judges' scores, scaled to [0, 1]."""
    role_switch: float
    """The adjustment for the consistency after the switch of roles."""
    reflection: float
    """The adjustment for the winning side's last reflection."""
    votes: int
    """The number of judges who gave a verdict."""
    right: bool
    """Whether the verdict was right."""


class WeightSearch(NamedTuple):
    """Results of a cross-validated search.

    ``errors``: the calibration error with each weight, over all trials. ``chosen``: for each fold, the best weight on
    the other folds; the lowest of several equally good weights. ``held_out``: the calibration error if the confidence
    of each trial is computed with the weight that was chosen for the trial's fold.
    """

    errors: dict[float, float]
    chosen: tuple[float, ...]
    held_out: float


def read_panel(document: Mapping[str, Any], right: bool) -> Panel | None:
    """The parts of a trial's confidence; None if the document has no verdict of a panel."""
    parts = document["confidence_parts"] or {}
    if "consensus_strength" not in parts:
        return None
    votes = sum(vote["group"] is not None for vote in document["votes"])
    scores = (parts["consensus_strength"], parts["quality"], parts["role_switch"], parts["reflection"])
    return Panel(*scores, votes, right)


def reweighted_confidence(panel: Panel, consensus_weight: float, quality_weight: float = QUALITY_WEIGHT) -> float:
    """The confidence of a trial, recomputed with the given weights, in [0, 1] (PROClaim, Eq. 4 and 5)."""
    base = base_confidence(panel.sigma, panel.quality, consensus_weight, quality_weight)
    winning = round(panel.sigma * panel.votes)
    return final_confidence(base, panel.role_switch, panel.reflection, winning, panel.votes)


def error_with_weight(panels: Sequence[Panel], weight: float, quality_weight: float) -> float:
    """The expected calibration error of trials with a given weight of votes."""
    return calibration_error(
        [reweighted_confidence(p, weight, quality_weight) for p in panels], [p.right for p in panels]
    )


def calibration_error(confidences: Sequence[float], right: Sequence[bool]) -> float:
    """The expected calibration error as a plain number (`moot.evals._stats.calibration.ece`)."""
    if (found := ece(confidences, right).value) is None:
        raise ValueError("the calibration error needs at least one item")
    return found


def search_weight(
    panels: Sequence[Panel],
    grid: Sequence[float] = GRID,
    *,
    quality_weight: float = QUALITY_WEIGHT,
    folds: int = FOLDS,
    seed: int = SEED,
) -> WeightSearch | None:
    """Cross-validate the weight of votes: for each fold, choose the weight with the least error on the other folds.
    None if there are fewer panels than folds.
    """
    if len(panels) < folds:
        return None
    chosen, confidences, right = [], [], []
    split = load_extra("sklearn.model_selection").KFold(folds, shuffle=True, random_state=seed)
    for train, test in split.split(list(panels)):
        known = [panels[i] for i in train]
        best = min(sorted(grid), key=lambda weight: error_with_weight(known, weight, quality_weight))
        chosen.append(best)
        confidences += [reweighted_confidence(panels[i], best, quality_weight) for i in test]
        right += [panels[i].right for i in test]
    errors = {weight: error_with_weight(panels, weight, quality_weight) for weight in grid}
    held_out = calibration_error(confidences, right)
    return WeightSearch(errors, tuple(chosen), held_out)
