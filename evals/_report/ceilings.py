"""What a part of a plan's items can show, before it runs and after it stopped at a ceiling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from moot.core.errors import UserError
from moot.evals._report.comparison import studies_of
from moot.evals._report.tests import comparisons_of, mcnemar_detectable_difference
from moot.evals._report.write import family_of
from moot.evals._runs.logs import read_runs
from moot.evals._stats.significance import PairedTest

ASSUMED_DISCORDANT = 0.2
"""The share of items that only one of two systems gets right, before anything is known: two systems with an accuracy of
about 0.75 whose errors are related have such a share."""


def detectable_with(items: int, alpha: float, discordant: float = ASSUMED_DISCORDANT) -> float | None:
    """The smallest difference that McNemar's test of this many items finds with the usual power; None if none is.

    >>> round(detectable_with(200, 0.05), 3)
    0.093
    """
    better = round(discordant * items)
    found = mcnemar_detectable_difference(PairedTest(better, 0, None, items, 0, "assumed"), alpha)
    return found if isinstance(found, float) else None


@dataclass(frozen=True)
class Shown:
    """What the finished items of two systems can show: the smallest difference that their test can find.

    ``of``: the number of planned items. ``detectable``: None if no difference can be found.
    """

    study: str
    system: str
    against: str
    items: int
    of: int
    detectable: float | None


def unknown_cost(calls: object) -> None:
    """No cost, which is not needed here; a function of its own, because processes that read logs get it."""


def what_logs_show(logs: Path) -> Iterator[Shown]:
    """What the finished items of a folder of logs can show, pair by pair as in `compare`. Blocking.

    The share of items that only one system gets right is the observed one, and p is corrected for all pairs (Holm).
    Nothing is yielded if no system has a finished item.
    """
    try:
        runs, _ = read_runs([logs], unknown_cost)
    except UserError as error:
        if error.kind != "missing_file":
            raise
        return  # because no log has a sample
    studies = studies_of(runs)
    for study, tests in zip(studies, comparisons_of(studies, family=family_of(runs)[0]), strict=True):
        for one in tests:
            planned: Sequence[int] = [run.planned_count for run in one.first.runs or one.second.runs]
            found = one.detectable if isinstance(one.detectable, float) else None
            yield Shown(study.title, one.first.label, one.second.label, one.test.n, max(planned, default=0), found)
