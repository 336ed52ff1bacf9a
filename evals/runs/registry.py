"""What Inspect finds by name if moot is installed: ``moot/debate``, tasks, scorers, models (``moot/openai:NAME``)."""

from inspect_ai.scorer._scorer import scorer_register
from moot.evals.attacks.solver import attacked
from moot.evals.runs.controls import control
from moot.evals.runs.hooks import Debates
from moot.evals.runs.inspect_side import moot_models
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

SCORERS = (accuracy, citation_precision, exact_match, gold_recall, judged, numeric_match, token_f1)

for scorer in SCORERS:  # logs name scorers without their package, and `inspect score LOG` looks for these names
    scorer_register(scorer, scorer.__name__)

__all__ = [
    "TASKS",
    "Debates",
    "accuracy",
    "attacked",
    "citation_precision",
    "control",
    "debate",
    "exact_match",
    "gold_recall",
    "judged",
    "moot_models",
    "numeric_match",
    "token_f1",
]
