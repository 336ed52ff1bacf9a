"""Tables as CSV and as .xlsx have the same texts, numbers stay numbers, and no cell is a formula."""

from __future__ import annotations

import csv
import io
import zipfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.core import sheets
from moot.core.errors import UserError
from moot.core.sheets import CUT, LONGEST_CELL, Cell, write_tables
from python_calamine import CalamineWorkbook

FORMULAS = ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "＝1", "＋1", "－a", "＠x", "\t=1", " =1", "\u3000＝1"]


def written(header: list[str], rows: list[list[Cell]]) -> tuple[list[list[str]], list[list[Any]], bytes]:
    """The rows of the CSV table and of the sheet, as they are read again, and the workbook."""
    text, file = io.StringIO(newline=""), io.BytesIO()
    write_tables(header, rows, text, file)
    assert text.getvalue().startswith("\ufeff")
    book = CalamineWorkbook.from_object(io.BytesIO(file.getvalue()))
    lines = [*csv.reader(io.StringIO(text.getvalue().removeprefix("\ufeff"), newline=""))]
    return lines, book.get_sheet_by_index(0).to_python(skip_empty_area=False), file.getvalue()


def test_formulas_are_defused_in_both_tables() -> None:
    lines, cells, content = written(["=name"], [[text] for text in FORMULAS])
    assert [line[0] for line in lines] == [f"'{text}" for text in ("=name", *FORMULAS)]
    assert [row[0] for row in cells] == [f"'{text}" for text in ("=name", *FORMULAS)]
    with zipfile.ZipFile(io.BytesIO(content)) as parts:
        assert b"<f>" not in parts.read("xl/worksheets/sheet1.xml")


def test_numbers_stay_numbers_and_texts_stay_texts() -> None:
    lines, cells, _ = written(["a", "b", "c", "d"], [["0012", 3, 0.25, None], ["-5", "é\n", "x", ""]])
    assert lines[1:] == [["0012", "3", "0.25", ""], ["-5", "é\n", "x", ""]]
    assert cells[1:] == [["0012", 3, 0.25, ""], ["-5", "é\n", "x", ""]]


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40))
def test_every_text_comes_back_from_both_tables(text: str) -> None:
    lines, cells, _ = written(["a", "b"], [["x", text]])
    assert lines[1][1] == cells[1][1]
    assert lines[1][1] in (text, f"'{text}")


def test_a_text_too_long_for_a_cell_says_that_it_was_cut() -> None:
    lines, cells, _ = written(["a"], [["x" * 40_000]])
    assert (len(lines[1][0]), len(cells[1][0]), cells[1][0][-len(CUT) :]) == (40_000, LONGEST_CELL, CUT)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheets, "PACKAGE", "no_such_package_of_sheets")
    assert not sheets.can_write_sheets()
    with pytest.raises(UserError, match=r"An Excel table needs the package no_such_package_of_sheets: .*CSV"):
        write_tables(["a"], [], None, io.BytesIO())
