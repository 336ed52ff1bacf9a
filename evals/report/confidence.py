"""Tables of how far the confidences of systems can be trusted."""

from __future__ import annotations

from moot.evals.report.comparison import Study, System
from moot.evals.report.scores import SYSTEM, right
from moot.evals.report.tables import Cell, Table, columns, table
from moot.evals.stats.calibration import BINS, brier_score, ece, reliability_bins, risk_coverage


def confident(system: System, study: Study) -> tuple[list[float | None], list[bool | None]]:
    """How confident a system was of each answer, and whether that was right; an abstention has no confidence."""
    seen = system.observations
    sure = [one.figure("confidence") if one.outcome else None for one in seen]
    return sure, [right(one, study) for one in seen]


def calibration_table(study: Study) -> Table | None:
    """How far confidences can be trusted, for the systems that have some."""
    heads = [SYSTEM, *columns("count", items="", without="without confidence", errors="")]
    heads += columns(
        "share", ece="ECE", ece_mass="ECE, equal mass", brier="Brier score", aurc="AURC", risk="share wrong"
    )
    rows: list[list[Cell]] = []
    for system in study.measured:
        sure, judged = confident(system, study)
        brier, curve = brier_score(sure, judged), risk_coverage(sure, judged)
        if brier.n:
            errors = [ece(sure, judged).value, ece(sure, judged, mass=True).value, brier.value]
            counts: list[Cell] = [brier.n, brier.left_out, brier.missing]
            rows.append([system.label, *counts, *errors, curve.area.value, curve.points[-1].risk])
    return table(
        "calibration",
        "Calibration",
        f"Expected calibration error over {BINS} bins, of equal width and of equal mass; Brier score; area under the "
        "risk-coverage curve, to be read against the share that is wrong, which is what an order by chance has. Lower "
        "is better. Of all runs together; an abstention has no confidence.",
        heads,
        rows,
    )


def reliability_table(study: Study) -> Table | None:
    """The bins of each system's reliability diagram."""
    heads = [SYSTEM, *columns("share", low="above", high="up to"), *columns("count", items="")]
    heads += columns("share", confidence="mean confidence", accuracy="share right")
    rows = [
        [system.label, b.low, b.high, b.n, b.confidence, b.accuracy]
        for system in study.measured
        for b in reliability_bins(*confident(system, study))
        if b.n
    ]
    return table("reliability", "Reliability", f"{BINS} bins of equal width; empty ones are left out.", heads, rows)
