"""Tables as documents: rows of CSV files and of Excel workbooks become passages, and nothing of them is lost."""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.core.errors import UserError
from moot.retrievers._documents.parsed import LARGEST_UNPACKED
from moot.retrievers._documents.tables import csv_delimiter, csv_rows, header_of
from moot.retrievers._files import read_passages

from tests.workbooks import formula, workbook


def passages(folder: Path, name: str, content: bytes | str) -> tuple[list[str], list[str]]:
    """The texts of a file's passages, and the notes."""
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    notes: list[str] = []
    return [one.text for one in read_passages(folder / name, noted=notes.append)], notes


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("sep=;\r\nid;cost\r\n1;1,5 million\r\n", ["id: 1; cost: 1,5 million"]),
        (
            "Name, full;Cost, in francs;Year\nOld bridge;300;1869\n",
            ["Name, full: Old bridge; Cost, in francs: 300; Year: 1869"],
        ),
        ("sep=|\nname|notes;a;b\nOld|1;2;3\n", ["name: Old; notes;a;b: 1;2;3"]),
        ("name|year\nOld|1869\n", ["name: Old; year: 1869"]),
        ('"Name\nof bridge","Cost\nin francs"\nOld,300\n', ["Name of bridge: Old; Cost in francs: 300"]),
        ("year,year\n1869,1901\n", ["year: 1869; year: 1901"]),
        ("name,year\rOld,1869\rNew,1901\r", ["name: Old; year: 1869", "name: New; year: 1901"]),
        ("name,year,\nOld,1869,\n", ["name: Old; year: 1869"]),
        ("Bridges of the town\n\nname,year\nOld,1869\n", ["Bridges of the town", "name: Old; year: 1869"]),
        ("Bridges,\n,\nname,year\nOld,1869\n", ["Bridges", "name: Old; year: 1869"]),
        (
            "text\nIt is old, and wide.\nIt is new, and red.\n",
            ["text: It is old, and wide.", "text: It is new, and red."],
        ),
    ],
)
def test_the_layout_of_a_table_is_found(tmp_path: Path, text: str, texts: list[str]) -> None:
    assert passages(tmp_path, "a.csv", text)[0] == texts


def test_rows_that_do_not_fit_the_header_keep_their_text(tmp_path: Path) -> None:
    """The note names their lines."""
    found, notes = passages(tmp_path, "a.csv", 'name,note\nOld,wide\nTotal\nNew,a,b\nHigh,"5" wide"\n')
    assert found == ["name: Old; note: wide", "Total", "New,a,b", 'High,"5" wide"']
    assert notes == [
        "a.csv: 3 of its rows do not fit the header, so they are indexed as they are, without the names of the columns "
        "(line 3, 4, 5)."
    ]


def test_the_sheets_of_a_workbook_become_passages(tmp_path: Path) -> None:
    """Days are in ISO form, formulas have their stored values, and several sheets have their names as headings."""
    sheets: dict[str, Any] = {
        "Bridges": [["Bridges of the town"], [], ["name", "opened", "cost"], ["Old", 45719, formula("1+1", "2.5")]],
        "Tolls": [["toll"], ["3 francs"], [0.1 + 0.2]],
        "Notes": [["All as of 2025."]],
    }
    texts, notes = passages(tmp_path, "a.xlsx", workbook(sheets))
    assert texts == [
        "Bridges of the town\n\nname: Old; opened: 2025-03-03; cost: 2.5",
        "toll: 3 francs\n\ntoll: 0.3",
        "All as of 2025.",
    ]
    assert notes == []


def test_a_workbook_without_stored_values_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a.xlsx cannot be read: it has formulas without stored values. Open it in"):
        passages(tmp_path, "a.xlsx", workbook({"A": [["cost"], [formula("1+1", "")]]}))


def test_a_workbook_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    """A sheet with a single cell in its last corner takes too much memory."""
    packed = io.BytesIO(workbook({"A": [["name"], ["Old"]]}))
    with zipfile.ZipFile(packed, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/more.xml", " " * (LARGEST_UNPACKED + 1))
    with pytest.raises(UserError, match="it unpacks to more than 100 MiB"):
        passages(tmp_path, "a.xlsx", packed.getvalue())
    far = workbook({"A": [["name"], ["Old"]]})
    with zipfile.ZipFile(io.BytesIO(far)) as archive, zipfile.ZipFile(tmp_path / "far.xlsx", "w") as changed:
        for name in archive.namelist():
            changed.writestr(
                name, archive.read(name).replace(b'r="A2"', b'r="XFD1048576"').replace(b'r="2"', b'r="1048576"')
            )
    with pytest.raises(UserError, match="memory"):
        list(read_passages(tmp_path / "far.xlsx"))


CELLS = st.text("ab ,;\t|\"'\n", min_size=1, max_size=8).filter(lambda text: text.strip() and text == text.strip())


@given(
    st.integers(2, 4).flatmap(
        lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), min_size=3, max_size=6)
    )
)
def test_a_table_with_quotation_marks_is_read_as_it_was_written(rows: list[list[str]]) -> None:
    """The header has plain names; the separator is a semicolon, of which the texts may have any number."""
    written = io.StringIO(newline="")
    names = [f"n{i}" for i in range(len(rows[0]))]
    csv.writer(written, delimiter=";", quoting=csv.QUOTE_ALL).writerows([names, *rows])
    delimiter = csv_delimiter(io.StringIO(written.getvalue(), newline=""))
    found = list(csv_rows(io.StringIO(written.getvalue(), newline=""), delimiter))
    header = header_of(found)
    assert (delimiter, header and header.names) == (";", names)
    assert [row.cells for row in found[1:]] == rows


def test_hidden_sheets_of_a_workbook_are_left_out_with_a_note(tmp_path: Path) -> None:
    sheets = {"Shown": [["bridge", "cost"], ["Old", "300"]], "Draft": [["bridge", "cost"], ["New", "7"]]}
    texts, notes = passages(tmp_path, "bridges.xlsx", workbook(sheets, hidden=["Draft"], hidden_rows=[2]))
    assert texts == ["bridge: Old; cost: 300"]
    assert "rows that are hidden, as by a filter, are read, too (2); its hidden sheets are left out (Draft)" in notes[0]
