"""Scores of a single outcome, by those measures of its benchmark that need no model."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from moot.evals._stats.metrics import (
    YES_NO,
    Metric,
    accuracy,
    best_score,
    exact_match,
    normalise_squad,
    normalise_triviaqa,
    numeric_match,
    token_f1,
)
from moot.nodes._texts.answers import normal_expression
from moot.nodes._texts.task import TASKS

COMPUTED = ("accuracy", "exact_match", "token_f1", "numeric_match")
"""Measures of `moot.evals._benchmarks.catalogue.Benchmark.metrics` that are computed here."""
WHOLE_YES_NO = ("hotpotqa", "2wikimultihopqa")
"""Tasks whose official scripts compare the answers yes and no as a whole, not word by word."""


def item_score(measure: str, task: str, outcome: str | None, gold: Collection[str]) -> float | None:
    """The score of an outcome, in [0, 1]; with several right answers, the highest score. Returns the score; None if the
    outcome is missing.
    """
    return best_score(_metrics_for(task)[measure], outcome, gold)


def _metrics_for(task: str) -> dict[str, Metric]:
    normalise = {"expression": normal_expression}.get(TASKS[task].kind, normalise_squad)
    normalise = normalise_triviaqa if task == "triviaqa" else normalise
    return {
        "accuracy": lambda given, gold: accuracy([gold], [given]).value,
        "exact_match": partial(exact_match, normalise=normalise),
        "token_f1": partial(token_f1, normalise=normalise, whole=YES_NO if task in WHOLE_YES_NO else ()),
        "numeric_match": numeric_match,
    }
