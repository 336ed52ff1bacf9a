"""What Inspect finds by name where moot is installed: ``moot/debate``, ``moot/fever``, all other tasks and scorers."""

from moot.evals.runs.controls import control
from moot.evals.runs.hooks import Debates
from moot.evals.runs.scorers import (
    accuracy,
    citation_precision,
    exact_match,
    gold_recall,
    judged,
    numeric_match,
    token_f1,
)
from moot.evals.runs.solver import debate
from moot.evals.runs.tasks import TASKS

__all__ = [
    "TASKS",
    "Debates",
    "accuracy",
    "citation_precision",
    "control",
    "debate",
    "exact_match",
    "gold_recall",
    "judged",
    "numeric_match",
    "token_f1",
]
