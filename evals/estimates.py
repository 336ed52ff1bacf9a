"""Measures of a system's items, and differences between systems, with their intervals: of several runs the mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moot.evals.comparison import System
from moot.evals.metrics import LabelScore, balanced_accuracy, macro_f1
from moot.evals.observations import Observation
from moot.evals.significance import Interval, Statistic, bootstrap, paired_bootstrap, wilson
from moot.nodes.score import average

POOLED: dict[str, LabelScore] = {"macro_f1": macro_f1, "balanced_accuracy": balanced_accuracy}
"""Measures that a single item does not have."""
Runs = tuple[Sequence[str], tuple[Any, ...]]
"""An item: its right answers, and what it came to in every run: an outcome or a score, None where that is missing."""


def estimate(system: System, measure: str) -> Interval:
    """A measure over all items with its bootstrap interval; of several runs the mean of theirs."""
    items = list(_by_item(system, measure).values())
    if measure in POOLED or (means := _means(items)) is None:
        return bootstrap(items, mean_over_runs(measure))
    return bootstrap(means)


def difference(first: System, second: System, measure: str, ids: Sequence[str]) -> Interval:
    """One system's measure less another's over the same items, with its paired bootstrap interval."""
    both = _by_item(first, measure), _by_item(second, measure)
    ours, theirs = ([items[id] for id in ids] for items in both)
    means = None if measure in POOLED else _means(ours)
    others = None if measure in POOLED else _means(theirs)
    if means is None or others is None:
        return paired_bootstrap(ours, theirs, mean_over_runs(measure))
    return paired_bootstrap(means, others)


def _means(items: Sequence[Runs | None]) -> list[float | None] | None:
    """The mean of each item's runs, where the mean of these is that of the runs: where no run lacks an item.

    It takes no statistic, which is some ten times slower.
    """
    if any(item is not None and None in item[1] for item in items):
        return None
    return [None if item is None else average(item[1]) for item in items]


def _by_item(system: System, measure: str) -> dict[str, Runs | None]:
    """Each item; None where it is missing in all runs."""
    given: dict[str, Runs | None] = {}
    for id, gold in system.gold.items():
        seen = [run.get(id) for run in system.items]
        values = tuple(s and (s.outcome if measure in POOLED else s.scores.get(measure)) for s in seen)
        given[id] = None if all(value is None for value in values) else (gold, values)
    return given


def mean_over_runs(measure: str) -> Statistic[Runs]:
    """The mean over runs of a measure of items."""

    def of_run(gold: Sequence[str], values: Sequence[Any]) -> float | None:
        return POOLED[measure](gold, values).value if measure in POOLED else average(values)

    def statistic(items: Sequence[Runs]) -> float | None:
        gold = [right[0] for right, _ in items]
        return average([of_run(gold, run) for run in zip(*(values for _, values in items), strict=True)])

    return statistic


def over_items(seen: Sequence[Observation], values: Sequence[float | None]) -> Interval:
    """The mean of values of observations with its interval, in which an item of several runs is one item.

    Wilson's interval where each item is there once and right or wrong, else that of the bootstrap.
    """
    by_item: dict[str, list[float | None]] = {}
    for one, value in zip(seen, values, strict=True):
        by_item.setdefault(one.id, []).append(value)
    if len(by_item) == len(seen) and all(value in (0, 1, None) for value in values):
        return wilson([None if value is None else bool(value) for value in values])
    return bootstrap([average(several) for several in by_item.values()])


def run_means(system: System, measure: str) -> list[float | None]:
    """A measure of single items in each run: the mean over the items of which it is known."""
    return [average([seen.scores.get(measure) for seen in run.values()]) for run in system.items]


def mean_of(system: System, measure: str) -> float | None:
    """The mean over runs of `run_means`."""
    return average(run_means(system, measure))
