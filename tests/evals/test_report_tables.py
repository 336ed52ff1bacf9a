"""Parts of a report: confusion tables, families of tests, and the chart of costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from moot.evals._report.scores import confusion_table, labels_table
from moot.evals._report.tests import comparisons_of
from moot.evals._report.write import compare

from tests.evals.made_logs import debate, write_log
from tests.evals.made_study import CONTROL, DEBATE, GOLD, N, R, S, study


def test_confusion_and_label_tables_by_hand(tmp_path: Path) -> None:
    made = study(tmp_path, a=(DEBATE, {}), b=(CONTROL | {"1": debate("who knows")}, {}))
    table = confusion_table(made)
    assert table is not None
    heads = [column.title for column in table.columns[2:]]
    assert heads == ["items", *(f"answered {label}" for label in (S, R, N)), "another answer", "no answer", "missing"]
    assert [row[1:] for row in table.rows if row[0] == "a"] == [
        (S, 3, 3, 0, 0, None, 0, 0),
        (R, 3, 0, 2, 0, None, 0, 1),
        (N, 2, 0, 0, 1, None, 1, 0),
    ]
    assert next(row for row in table.rows if row[0] == "b")[1:] == (S, 3, 1, 1, 0, 1, 0, 0)
    labels = labels_table(made)
    assert labels is not None
    assert [row[1:] for row in labels.rows if row[0] == "a"] == [
        (S, 3, 3, 1.0, 1.0, 1.0, 0),
        (R, 2, 2, 1.0, 1.0, 1.0, 1),
        (N, 2, 1, 1.0, 0.5, pytest.approx(2 / 3), 0),
    ]


def test_p_values_are_corrected_within_their_family(tmp_path: Path) -> None:
    right = {id: debate(answer) for id, answer in GOLD.items()}
    wrong = {id: debate(None) for id in GOLD}
    made = [study(tmp_path / name, a=(wrong, {}), b=(right, {}), c=(DEBATE, {})) for name in "xy"]
    raw = [comparison.test.p for comparison in comparisons_of(made[:1])[0]]
    for family, size in (("report", 2 * len(raw)), ("benchmark", len(raw))):
        [first, second] = comparisons_of(made, None, family)  # type: ignore[arg-type]
        corrected = [comparison.p_holm for comparison in first]
        assert corrected == [comparison.p_holm for comparison in second]
        assert {comparison.family for comparison in first} == {size}
        assert min(p for p in corrected if p is not None) == pytest.approx(size * 2 / 2**8)


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        (("benchmark", "benchmark"), "2 tests: those of this benchmark and model, the family that the plan states"),
        (("report", "report"), "4 tests: all tests of this report, the family that the plan states (or its default)"),
        (("report", "benchmark"), "4 tests: all tests of this report, the default, because the plans state no common"),
        (("", ""), "4 tests: all tests of this report, the default, because the plans state no common family"),
    ],
)
def test_reports_name_the_family_of_their_tests(tmp_path: Path, stated: tuple[str, str], expected: str) -> None:
    for benchmark, family in zip(("fever", "feverous"), stated, strict=True):
        for name, documents in (("a", DEBATE), ("b", CONTROL)):
            facts: dict[str, Any] = {"benchmark": benchmark, "family": family, "model": "m"}
            write_log(tmp_path, f"{name}-{benchmark}", documents, GOLD, system=name, **facts)
    made = compare([tmp_path])
    for section in made.sections:
        [differences] = [table for table in section.tables if table.key == "differences"]
        assert f"Holm's correction is for {expected}" in differences.caption
    assert len([note for note in made.notes if "do not all state the same family" in note]) == (len(set(stated)) > 1)
