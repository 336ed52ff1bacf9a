"""Figures printed in the papers, and the same figures recomputed by our functions.

S1 is the second version of the paper on Tool-MAD (tables III and IV, GPT-4o-mini, 200 items for each dataset).

S2 is the paper on PROClaim (tables 3 and 5). The confusion matrices are from the public development repository of its
authors, mnc13/PRAG-ArgumentMining-MultiAgentDebate-RoleSwitching. The files are framework/results_metrics_v2.txt at
commit 59fe4121 and framework/master_ablation_report.txt at commit 8218fb87.
"""

from __future__ import annotations

from typing import NamedTuple

from moot.evals._stats.metrics import accuracy, macro_f1
from moot.evals._stats.outcomes import ABSTAINED
from moot.evals._stats.significance import bootstrap

# --- S1 ---------------------------------------------------------------------------------------------------------------

S1_ITEMS = 200
S1_ACCURACY = {
    "FEVER": {"MADKE": 0.72, "Tool-MAD": 0.73},
    "FEVEROUS": {"MADKE": 0.66, "Tool-MAD": 0.715},
    "FaVIQ": {"MADKE": 0.755, "Tool-MAD": 0.775},
    "AVeriTeC": {"MADKE": 0.585, "Tool-MAD": 0.62},
}
"""Exact match of Tool-MAD and of the strongest other system (S1, table III)."""
S1_INTERVALS = {"FEVER": (0.67, 0.79), "FEVEROUS": (0.66, 0.78), "FaVIQ": (0.72, 0.83), "AVeriTeC": (0.56, 0.69)}
"""95% bootstrap intervals of Tool-MAD's accuracy (S1, table IV)."""
S1_TOLERANCE = 0.005 + 1 / S1_ITEMS
"""Half a unit of the last printed digit, plus the share of one item.

Accuracies of resamples are multiples of this share. With the usual 1,000 resamples, another seed may move a quantile by
one item.
"""

# --- S2 ---------------------------------------------------------------------------------------------------------------

REFUTE, SUPPORT = LABELS = ("REFUTE", "SUPPORT")
S2_TOLERANCE = 0.00005
"""Half a unit of the last printed digit."""


class Confusion(NamedTuple):
    """A row of S2's tables.

    ``matrix`` has a row for each right label and a column for each answered label, REFUTE first. INCONCLUSIVE is
    counted as SUPPORT. ``inconclusive`` has the number of INCONCLUSIVE answers for each right label; None if it is
    unknown.
    """

    accuracy: float
    macro_f1: float
    matrix: tuple[tuple[int, int], tuple[int, int]]
    inconclusive: tuple[int, int] | None = None


S2_TABLE_3 = {
    "run 0": Confusion(0.9500, 0.9499, ((60, 4), (2, 54))),
    "run 1": Confusion(0.8167, 0.8165, ((47, 17), (5, 51))),
    "run 2": Confusion(0.6068, 0.6033, ((30, 32), (14, 41))),  # of 117 claims: three have no result
    "weighted total": Confusion(0.7927, 0.7926, ((137, 53), (21, 146))),
    "majority": Confusion(0.8167, 0.8165, ((47, 17), (5, 51))),
    "oracle best of 3": Confusion(0.9583, 0.9583, ((60, 4), (1, 55))),
}
S2_TABLE_5 = {
    "standard MAD": Confusion(0.7167, 0.7068, ((32, 32), (2, 54)), (30, 28)),
    "A1 no role switch": Confusion(0.7750, 0.7750, ((46, 18), (9, 47)), (17, 22)),
    "A2 single judge": Confusion(0.7833, 0.7818, ((42, 22), (4, 52)), (20, 22)),
    "A3 no progressive retrieval": Confusion(0.7417, 0.7408, ((41, 23), (8, 48)), (21, 23)),
    "A4 no self-reflection": Confusion(0.8083, 0.8080, ((51, 13), (10, 46)), (9, 21)),
}


def labels_and_outcomes(row: Confusion) -> tuple[list[str], list[str]]:
    """The right label and the outcome of each claim in a confusion matrix.

    If the number of INCONCLUSIVE answers is known, their outcome is `ABSTAINED`. Otherwise it is SUPPORT.
    """
    gold: list[str] = []
    outcomes: list[str] = []
    for right, (refuted, supported), silent in zip(LABELS, row.matrix, row.inconclusive or (0, 0), strict=True):
        gold += [right] * (refuted + supported)
        outcomes += [REFUTE] * refuted + [SUPPORT] * (supported - silent) + [ABSTAINED] * silent
    return gold, outcomes


# --- checks -----------------------------------------------------------------------------------------------------------


class Check(NamedTuple):
    """A printed figure, and the same figure computed by moot."""

    source: str
    what: str
    printed: float
    computed: float
    tolerance: float

    @property
    def agrees(self) -> bool:
        """Whether the figures differ by at most the tolerance."""
        return abs(self.printed - self.computed) <= self.tolerance + 1e-9


def checks() -> list[Check]:
    """The figures of S1's table IV and S2's tables 3 and 5, each with the figure that moot computes."""
    made: list[Check] = []
    for dataset, printed in S1_INTERVALS.items():
        right = round(S1_ITEMS * S1_ACCURACY[dataset]["Tool-MAD"])
        interval = bootstrap([1.0] * right + [0.0] * (S1_ITEMS - right))
        for end, theirs, ours in zip(("low", "high"), printed, (interval.low, interval.high), strict=True):
            if ours is not None:
                made.append(Check("S1, table IV", f"{dataset}, {end}", theirs, ours, S1_TOLERANCE))
    for table, rows in (("S2, table 3", S2_TABLE_3), ("S2, table 5", S2_TABLE_5)):
        for name, row in rows.items():
            gold, outcomes = labels_and_outcomes(row)
            given = [SUPPORT if outcome == ABSTAINED else outcome for outcome in outcomes]  # as S2 counts INCONCLUSIVE
            for what, theirs, score in (
                ("accuracy", row.accuracy, accuracy(gold, given)),
                ("macro-F1", row.macro_f1, macro_f1(gold, given)),
            ):
                if score.value is not None:
                    made.append(Check(table, f"{name}, {what}", theirs, score.value, S2_TOLERANCE))
    return made
