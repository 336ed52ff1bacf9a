"""An example for tests of comparisons: eight items, with figures worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from moot.evals._report.comparison import Study, studies_of
from moot.evals._report.pairs import pairs_of
from moot.evals._report.tables import Nested, Table
from moot.evals._runs.logs import read_runs
from moot.evals._stats.significance import Interval

from tests.evals.made_logs import Documents, debate, failed_document, write_log

S, R, N = "SUPPORTS", "REFUTES", "NOT ENOUGH INFO"
GOLD = dict(zip("12345678", (S, S, S, R, R, R, N, N), strict=True))
SPLIT = [S, R, S]
DEBATE = {
    "1": debate(S, SPLIT, stop_reason="consensus", rounds=1),
    "2": debate(S, [R, S, R], [S, S, S]),
    "3": debate(S, SPLIT),
    "4": debate(R, [R, R, R]),
    "5": debate(R, SPLIT, [R, R, S], [R, R, R]),
    "6": failed_document(),
    "7": debate(N, [N, N, N], stop_reason="consensus"),
    "8": debate(None, [N, N, S]),
}
"""Right on items 1 to 5 and 7. Item 6 failed, and item 8 is an abstention.

The majority of the first round is wrong on items 2 and 5.
"""
CONTROL = {id: debate(answer) for id, answer in zip("12345678", (S, R, S, R, S, R, R, N), strict=True)}
"""Right on items 1, 3, 4, 6 and 8."""
MODEL: dict[str, Any] = {"model": "openai:gpt-4o-mini"}
"""Metadata of a log: its model."""
OF_DEBATE: dict[str, Any] = {"control": "self_consistency", "of": "debate"}
"""Metadata of the log of a control of the system ``debate``."""

Systems = dict[str, tuple[Documents, dict[str, Any]]]
"""The documents of each log and the further arguments of `write_log`, by the log's name."""


def study(folder: Path, **systems: tuple[Documents, dict[str, Any]]) -> Study:
    """Write a log for each keyword argument; return the study of these logs, which must belong to one study.

    Args:
        folder: the folder of the logs.
        systems: the documents and the further arguments of `write_log`. The keyword is the log's name; its part before
            ``__`` is the system's label. By default, ``gold`` is `GOLD` and the model is that of `MODEL`.
    """
    for name, (documents, facts) in systems.items():
        more: dict[str, Any] = {"system": name.partition("__")[0], **MODEL, **facts}
        write_log(folder, name, documents, more.pop("gold", GOLD), **more)
    runs, _ = read_runs([folder], lambda calls: 0.001 * len(calls))
    [made] = studies_of(runs)
    return made


def records(made: Table | None) -> dict[str, dict[str, Any]]:
    """A table's rows by system, as dictionaries by column. Of several rows of a system, only the last is returned."""
    assert made is not None
    keys = [column.key for column in made.columns]
    rows: list[dict[str, Any]] = [dict(zip(keys, row, strict=True)) for row in made.rows]
    return {row["system"].text if isinstance(row["system"], Nested) else str(row["system"]): row for row in rows}


def value(cell: Any) -> float | None:
    """The figure in a cell that has an interval."""
    assert isinstance(cell, Interval)
    return cell.value


def compared_pairs(made: Study, against: str | None) -> list[tuple[str, str]]:
    """The labels of each pair of systems that is compared; for ``against``, see `pairs_of`."""
    return [(pair.first.label, pair.second.label) for pair in pairs_of(made, against)]
