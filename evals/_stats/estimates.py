"""Measures of a system's items, and differences between systems, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import numpy as np
from moot.evals._report.comparison import Cluster, System
from moot.evals._stats.clusters import NO_SPREAD, by_group, cluster_bootstrap, clustered_wilson, interval_of_equal
from moot.evals._stats.metrics import mean_f1, mean_known, mean_recall, ratio
from moot.evals._stats.observations import Observation
from moot.evals._stats.rationales import POOLED_MEASURES, pooled_f1
from moot.evals._stats.significance import Array, Interval, Statistic
from moot.nodes._steps.score import average

LABEL_MEASURES: dict[str, Callable[[Array, Array, Array], Array]] = {
    "macro_f1": mean_f1,
    "balanced_accuracy": mean_recall,
}
"""Measures that are not means of the items' scores, each with the function that computes it from counts of labels."""
NO_MEANS = (*LABEL_MEASURES, *POOLED_MEASURES)
"""Measures that are not means of the items' scores."""
ItemRuns = tuple[tuple[str, ...], tuple[Any, ...]]
"""An item's right answers, and its value in each run: its outcome (for `LABEL_MEASURES`), its counts (for
`POOLED_MEASURES`) or its score; None for a missing value."""


def estimate(system: System, measure: str, ids: Collection[str] | None = None) -> Interval:
    """A measure of a system with its interval over groups of items; every table and picture of scores has this one.

    If each item has one score, which is 0 or 1, the interval is Wilson's (`clustered_wilson`); also if the scores of
    several runs are all 0, or all 1. Otherwise it is the bootstrap's (`cluster_bootstrap`). If the system has several
    runs, the measure is the mean over runs, and the bootstrap draws runs, too.
    """
    items = _values_by_item(system, measure)
    chosen = list(items) if ids is None else [id for id in items if id in ids]
    groups, known = [system.clusters[id] for id in chosen], [items[id] for id in chosen]
    by_groups, runs = by_group(groups, known), len(system.items)
    scores = {score for item in known if item is not None for score in item[1]} - {None}
    if measure not in NO_MEANS and scores <= {0, 1} and (runs == 1 or len(scores) == 1):
        right = [[1 in values for _, values in group] for group in by_groups]
        return clustered_wilson(right, known.count(None))
    figure = partial(mean_over_runs, measure=measure)
    return cluster_bootstrap(by_groups, figure, known.count(None), [runs])


def difference(first: System, second: System, measure: str, ids: Sequence[str]) -> Interval:
    """A measure of the first system minus that of the second, on the same items, with its paired bootstrap interval.

    The bootstrap draws groups of items and, of a system with several runs, runs. If it has no spread, the interval is
    that of `interval_of_equal`. An item counts if each system has a value for it in at least one run. The other items
    are counted in ``missing``. Each of ``ids`` must be an item of both systems.
    """
    ours, theirs = (_values_by_item(system, measure) for system in (first, second))
    pairs = [(a, b) if (a := ours[id]) and (b := theirs[id]) else None for id in ids]

    def difference_of(kinds: Sequence[tuple[ItemRuns, ItemRuns]]) -> Statistic:
        first_mean, second_mean = (mean_over_runs(runs, measure) for runs in zip(*kinds, strict=True))
        return lambda counts, *runs: first_mean(counts, *runs[:1]) - second_mean(counts, *runs[1:])

    groups = by_group(clusters_of(first, second, ids), pairs)
    found = cluster_bootstrap(groups, difference_of, pairs.count(None), [len(first.items), len(second.items)])
    is_equal = found.reason == NO_SPREAD and measure not in NO_MEANS
    return interval_of_equal(found, len(groups)) if is_equal else found


def clusters_of(first: System, second: System, ids: Sequence[str]) -> list[Cluster]:
    """The group of each item, from the first system or, if the item has no group there, from the second."""
    both = ((first.clusters[id], second.clusters[id]) for id in ids)
    return [ours if ours[0] else theirs for ours, theirs in both]


def item_means(system: System, measure: str, ids: Sequence[str]) -> list[float | None]:
    """Each item's mean score by an item-level measure, over the runs with a score; None if no run has a score."""
    given = _values_by_item(system, measure)
    return [None if (item := given[id]) is None else average(item[1]) for id in ids]


def _values_by_item(system: System, measure: str) -> dict[str, ItemRuns | None]:
    """Each item's values in all runs, by the item's id; None if no run has a value."""
    by_item: dict[str, ItemRuns | None] = {}
    for id, gold in system.gold.items():
        observations = [run.get(id) for run in system.items]
        values = tuple(s and _value(s, measure) for s in observations)
        by_item[id] = None if all(value is None for value in values) else (gold, values)
    return by_item


def _value(observation: Observation, measure: str) -> Any:
    if measure in LABEL_MEASURES:
        return observation.outcome
    return (observation.counts if measure in POOLED_MEASURES else observation.scores).get(measure)


def mean_over_runs(kinds: Sequence[ItemRuns], measure: str) -> Statistic:
    """Make a function that computes a measure's mean over runs from the counts of each kind of item.

    The function takes an array of shape (resamples, kinds) and, if runs are drawn, one of shape (resamples, runs) with
    the weights of runs; it returns an array of shape (resamples,). The measure of a run is over the items with a value
    in this run. A run without such items does not count. If no run counts, the result is NaN.
    """
    gold = [right[0] for right, _ in kinds]
    runs = list(zip(*(values for _, values in kinds), strict=True))

    def of_run(run: Sequence[Any]) -> Statistic:
        if measure in LABEL_MEASURES:
            return _label_statistic(gold, run, LABEL_MEASURES[measure])
        return _pooled_statistic(run) if measure in POOLED_MEASURES else _mean_statistic(run)

    of_runs = [of_run(run) for run in runs]
    return lambda counts, *drawn: mean_known(np.stack([one(counts) for one in of_runs], axis=-1), *drawn)


def _mean_statistic(values: Sequence[float | None]) -> Statistic:
    known = np.array([value is not None for value in values], dtype=float)
    numbers = np.array([value or 0.0 for value in values])
    return lambda counts: ratio(counts @ numbers, counts @ known)


def _pooled_statistic(values: Sequence[Sequence[int] | None]) -> Statistic:
    parts = np.array([value or (0, 0, 0) for value in values], dtype=float)
    return lambda counts: pooled_f1(counts @ parts)


def _label_statistic(gold: Sequence[str], given: Sequence[str | None], score: Callable[..., Array]) -> Statistic:
    labels = np.array(list(dict.fromkeys(gold)))
    known = np.array([[outcome is not None] for outcome in given])
    is_gold, is_given = (np.array([str(label) for label in side])[:, None] == labels for side in (gold, given))
    parts = [(mask & known).astype(float) for mask in (is_gold & is_given, is_gold, is_given)]
    return lambda counts: score(*(counts @ part for part in parts))


def mean_over_items(observations: Sequence[Observation], values: Sequence[float | None]) -> Interval:
    """The mean over items with its interval; if an item has several observations, their values are averaged first.

    The interval is Wilson's (`clustered_wilson`) if each item occurs once and all known values are 0 or 1, or if all
    are 0, or all are 1. Otherwise it is the bootstrap's (`cluster_bootstrap`). Both take groups of items into account.
    """
    by_item: dict[str, list[float | None]] = {}
    for observation, value in zip(observations, values, strict=True):
        by_item.setdefault(observation.id, []).append(value)
    clusters = {observation.id: observation.cluster for observation in observations}
    means = [average(item_values) for item_values in by_item.values()]
    groups, missing = by_group((clusters[id] for id in by_item), means), means.count(None)
    scores = {value for value in values if value is not None}
    if scores <= {0, 1} and (len(by_item) == len(observations) or len(scores) == 1):
        return clustered_wilson([[value == 1 for value in group] for group in groups], missing)
    return cluster_bootstrap(groups, _mean_statistic, missing)


def run_means(system: System, measure: str) -> list[float | None]:
    """Each run's mean score by an item-level measure, over the items with a score; None if no item has a score."""
    return [average([observation.scores.get(measure) for observation in run.values()]) for run in system.items]
