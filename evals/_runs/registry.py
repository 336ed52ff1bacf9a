"""Everything that moot registers with Inspect: solvers (``moot/debate``), tasks, scorers, hooks and models."""

from inspect_ai.scorer._scorer import scorer_register
from moot.evals._attacks.solver import attacked
from moot.evals._runs.controls import control
from moot.evals._runs.hooks import DebateHooks
from moot.evals._runs.inspect_side import moot_models
from moot.evals._runs.scorers import (
    accuracy,
    citation_precision,
    exact_match,
    fever_score,
    feverous_score,
    gold_recall,
    hover_score,
    joint_em,
    joint_f1,
    judged,
    numeric_match,
    support_em,
    support_f1,
    token_f1,
)
from moot.evals._runs.solver import debate
from moot.evals._runs.tasks import TASKS

OFFICIAL_SCORERS = (fever_score, feverous_score, hover_score, joint_em, joint_f1, support_em, support_f1)
SCORERS = (accuracy, citation_precision, exact_match, gold_recall, judged, numeric_match, token_f1, *OFFICIAL_SCORERS)

# logs contain the names without the package, and `inspect score LOG` searches for them; Inspect's decorator always adds
# the package
for scorer in SCORERS:
    scorer_register(scorer, scorer.__name__)

__all__ = [
    "TASKS",
    "DebateHooks",
    "accuracy",
    "attacked",
    "citation_precision",
    "control",
    "debate",
    "exact_match",
    "fever_score",
    "feverous_score",
    "gold_recall",
    "hover_score",
    "joint_em",
    "joint_f1",
    "judged",
    "moot_models",
    "numeric_match",
    "support_em",
    "support_f1",
    "token_f1",
]
