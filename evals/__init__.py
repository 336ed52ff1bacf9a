"""Measuring debates: benchmarks and runs on Inspect, measures that count what is missing, intervals and paired tests.

Names are imported when they are first used: some need the extra ``evals``, and all take a while.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moot.evals.benchmarks.catalogue import BENCHMARKS, Benchmark, read_benchmark
    from moot.evals.benchmarks.records import Item, Reading
    from moot.evals.runs.plan import Plan, make_plan, read_plan
    from moot.evals.runs.ragas import ragas_answer_relevance, ragas_faithfulness
    from moot.evals.runs.run import Limits, run_plan
    from moot.evals.runs.scorers import judged, measured
    from moot.evals.runs.solver import DebateFailed, debate, document_in
    from moot.evals.runs.tasks import benchmark_task, scorers_of
    from moot.evals.stats.calibration import (
        Bin,
        RiskCoverage,
        RiskPoint,
        brier_score,
        ece,
        ks_stability,
        reliability_bins,
        risk_coverage,
    )
    from moot.evals.stats.debate_measures import (
        average_debates,
        co2,
        cons,
        consistent,
        context_tokens,
        correct_revisions,
        viewpoint_collisions,
    )
    from moot.evals.stats.metrics import (
        accuracy,
        balanced_accuracy,
        best_of,
        citation_precision,
        exact_match,
        fever_page,
        fever_score,
        feverous_score,
        gold_recall,
        macro_f1,
        numeric_match,
        token_f1,
        under_policies,
    )
    from moot.evals.stats.outcomes import ABSTAINED, Score, majority_of_runs, mean_score, oracle_of_runs, outcome_of
    from moot.evals.stats.panel_measures import (
        Disagreement,
        cohen_kappas,
        concession_rates,
        disagreement,
        fleiss_kappa_of,
        instability,
        mean_cohen_kappa,
        mean_reflection_change,
        novelty_by_round,
        panel_verdicts,
        reflection_trajectory,
        role_play_consistency,
    )
    from moot.evals.stats.power import Design, Separation, items_needed, minimum_detectable_effect, power, separation
    from moot.evals.stats.significance import (
        Interval,
        PairedTest,
        bootstrap,
        holm,
        mcnemar,
        sign_flips,
        stratified_bootstrap,
        wilson,
    )

__all__ = [
    "ABSTAINED",
    "BENCHMARKS",
    "Benchmark",
    "Bin",
    "DebateFailed",
    "Design",
    "Disagreement",
    "Interval",
    "Item",
    "Limits",
    "PairedTest",
    "Plan",
    "Reading",
    "RiskCoverage",
    "RiskPoint",
    "Score",
    "Separation",
    "accuracy",
    "average_debates",
    "balanced_accuracy",
    "benchmark_task",
    "best_of",
    "bootstrap",
    "brier_score",
    "citation_precision",
    "co2",
    "cohen_kappas",
    "concession_rates",
    "cons",
    "consistent",
    "context_tokens",
    "correct_revisions",
    "debate",
    "disagreement",
    "document_in",
    "ece",
    "exact_match",
    "fever_page",
    "fever_score",
    "feverous_score",
    "fleiss_kappa_of",
    "gold_recall",
    "holm",
    "instability",
    "items_needed",
    "judged",
    "ks_stability",
    "macro_f1",
    "majority_of_runs",
    "make_plan",
    "mcnemar",
    "mean_cohen_kappa",
    "mean_reflection_change",
    "mean_score",
    "measured",
    "minimum_detectable_effect",
    "novelty_by_round",
    "numeric_match",
    "oracle_of_runs",
    "outcome_of",
    "panel_verdicts",
    "power",
    "ragas_answer_relevance",
    "ragas_faithfulness",
    "read_benchmark",
    "read_plan",
    "reflection_trajectory",
    "reliability_bins",
    "risk_coverage",
    "role_play_consistency",
    "run_plan",
    "scorers_of",
    "separation",
    "sign_flips",
    "stratified_bootstrap",
    "token_f1",
    "under_policies",
    "viewpoint_collisions",
    "wilson",
]

_NAMES = {
    "benchmarks.catalogue": "BENCHMARKS Benchmark read_benchmark",
    "benchmarks.records": "Item Reading",
    "runs.plan": "Plan make_plan read_plan",
    "runs.ragas": "ragas_answer_relevance ragas_faithfulness",
    "runs.run": "Limits run_plan",
    "runs.scorers": "judged measured",
    "runs.solver": "DebateFailed debate document_in",
    "runs.tasks": "benchmark_task scorers_of",
    "stats.calibration": "Bin RiskCoverage RiskPoint brier_score ece ks_stability reliability_bins risk_coverage",
    "stats.debate_measures": (
        "average_debates co2 cons consistent context_tokens correct_revisions viewpoint_collisions"
    ),
    "stats.metrics": (
        "accuracy balanced_accuracy best_of citation_precision exact_match fever_page fever_score feverous_score "
        "gold_recall macro_f1 numeric_match token_f1 under_policies"
    ),
    "stats.outcomes": "ABSTAINED Score majority_of_runs mean_score oracle_of_runs outcome_of",
    "stats.panel_measures": (
        "Disagreement cohen_kappas concession_rates disagreement fleiss_kappa_of instability mean_cohen_kappa "
        "mean_reflection_change novelty_by_round panel_verdicts reflection_trajectory role_play_consistency"
    ),
    "stats.power": "Design Separation items_needed minimum_detectable_effect power separation",
    "stats.significance": "Interval PairedTest bootstrap holm mcnemar sign_flips stratified_bootstrap wilson",
}
_PLACES = {name: f"moot.evals.{module}" for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # where it is seen, type checkers take every name for one of these

    def __getattr__(name: str) -> object:
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_PLACES[name]), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
