"""Lists of claims as newsrooms have them: from spreadsheets, with names, dates and encodings of their own."""

from __future__ import annotations

import csv
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.core.errors import UserError
from moot.evals._benchmarks.claim_files import BadRow, ClaimRow, ClaimsFile, ListOptions, ListQuestion
from moot.evals._benchmarks.list_dates import order_of, read_date
from moot.nodes._texts.task import is_iso_date
from moot.retrievers._documents.charsets import western

from tests.commands import moot
from tests.workbooks import workbook


def read(folder: Path, content: bytes | str, options: ListOptions | None = None, name: str = "a.csv") -> ClaimsFile:
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return ClaimsFile(folder / name, options)


def claims_and_dates(file: ClaimsFile) -> list[tuple[str, str | None]]:
    rows = list(file)
    assert [row for row in rows if isinstance(row, BadRow)] == []
    return [(row.claim, row.claim_date) for row in rows if isinstance(row, ClaimRow)]


@pytest.mark.parametrize(
    "content",
    [
        "sep=;\r\nclaim;date\r\nIt cost 1,5 million.;1869\r\n",
        "claim;date\nIt cost 1,5 million.;1869\n".encode("utf-16"),
        '"Claim";"DATE"\nIt cost 1,5 million.;1869\n',
        "Our list\n\nclaim|date\nIt cost 1,5 million.|1869\n",
        "Our list;;\n;;\nno;claim;date\n1;It cost 1,5 million.;1869\n",
    ],
)
def test_a_list_is_read_whatever_its_layout(tmp_path: Path, content: bytes | str) -> None:
    assert claims_and_dates(read(tmp_path, content)) == [("It cost 1,5 million.", "1869")]


def test_a_list_of_one_column_may_contain_commas(tmp_path: Path) -> None:
    file = read(tmp_path, "claim\nIt cost 1,5 million, or more; or less.\n")
    assert claims_and_dates(file) == [("It cost 1,5 million, or more; or less.", None)]


def test_a_sheet_of_a_workbook_is_a_list(tmp_path: Path) -> None:
    """The first visible sheet is read, or the named one. Lines are the rows of the sheet."""
    sheets: dict[str, Any] = {
        "Old": [["claim"], ["Old."]],
        "New": [["Title"], ["claim", "date"], ["It is old.", 45719], ["New.", None]],
    }
    content = workbook(sheets, hidden=["Old"])
    file = read(tmp_path, content, name="a.xlsx")
    assert claims_and_dates(file) == [("It is old.", "2025-03-03"), ("New.", None)]
    assert [row.line for row in file] == [3, 4]
    assert file.notes[0] == "the sheet New is read, and not: Old"
    named = read(tmp_path, content, ListOptions(sheet="Old"), name="a.xlsx")
    assert claims_and_dates(named) == [("Old.", None)]
    with pytest.raises(UserError, match="no sheet 'Nowhere' with text. Its sheets with text: Old, New"):
        read(tmp_path, content, ListOptions(sheet="Nowhere"), name="a.xlsx")


def test_a_list_with_names_of_its_own_asks_for_the_column_of_claims(tmp_path: Path) -> None:
    text = "Nr;Behauptung;Datum\n1;Die Miete stieg um 3,5 Prozent;03.03.2025\n"
    with pytest.raises(ListQuestion, match=r"no column `claim`. Its columns: Nr, Behauptung, Datum.") as asked:
        read(tmp_path, text)
    assert list(asked.value.choices) == ["Nr", "Behauptung", "Datum"]
    answered = asked.value.answer("Behauptung", ListOptions({"date": "Datum"}))
    assert claims_and_dates(read(tmp_path, text, answered)) == [("Die Miete stieg um 3,5 Prozent", "2025-03-03")]
    file = read(tmp_path, text, ListOptions({"claim": "behauptung", "date": "Datum"}))
    assert claims_and_dates(file) == [("Die Miete stieg um 3,5 Prozent", "2025-03-03")]
    assert file.notes == ["these columns are not read: Nr"]
    with pytest.raises(UserError, match="no column 'Wann' for `date`"):
        read(tmp_path, text, ListOptions({"claim": "Behauptung", "date": "Wann"}))


def test_a_list_without_a_known_encoding_asks_for_it(tmp_path: Path) -> None:
    """Each choice shows a line of the file. The named encoding is used."""
    content = "claim\nL’école a coûté 300 €.\n".encode("windows-1252")
    file = read(tmp_path, content, ListOptions(charset="windows-1252"))
    assert claims_and_dates(file) == [("L’école a coûté 300 €.", None)]
    with pytest.raises(UserError, match="it is not text in utf-8"):
        read(tmp_path, content, ListOptions(charset="utf-8"))
    for label in ("iso-8859-1", "latin-1"):  # as browsers read it
        assert claims_and_dates(read(tmp_path, content, ListOptions(charset=label))) == [
            ("L’école a coûté 300 €.", None)
        ]
    with pytest.raises(UserError, match="there is no encoding 'klingon'. Known are windows-1252,"):
        read(tmp_path, content, ListOptions(charset="klingon"))
    short = "claim\nŻÓŁĆ\n".encode("windows-1250")
    with pytest.raises(ListQuestion, match=r"moot batch --charset windows-125") as asked:
        read(tmp_path, short)
    assert asked.value.choices["windows-1250"] == "ŻÓŁĆ"
    assert not any(name.startswith("utf-16") for name in asked.value.choices)
    with pytest.raises(UserError, match="line 2: it contains a null character"):
        read(tmp_path, "claim\nOne\0.\n")


def test_a_western_list_or_one_in_utf_16_without_a_mark_is_read(tmp_path: Path) -> None:
    """A note says what was guessed. Text of other code pages is asked about."""
    file = read(tmp_path, "claim\nL’école a coûté 300 €.\n".encode("windows-1252"))
    assert claims_and_dates(file) == [("L’école a coûté 300 €.", None)]
    assert "read as windows-1252" in file.notes[0]
    assert claims_and_dates(read(tmp_path, "claim\nOne is.\n".encode("utf-16-le"))) == [("One is.", None)]
    for text, charset in (
        ("Będzie się działo.", "cp1250"),
        ("Az árak nőttek.", "cp1250"),
        ("Die Fähre fährt.", "cp850"),
    ):
        with pytest.raises(ListQuestion):
            read(tmp_path, f"claim\n{text}\n".encode(charset))


LANGUAGES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "retrievers" / "languages.jsonl").read_text("utf-8").splitlines()
]


@given(st.sampled_from(LANGUAGES), st.integers(0, 2), st.sampled_from((15, 30, 60, 1000)), st.data())
def test_no_list_is_taken_for_a_western_one(language: Any, at: int, length: int, data: st.DataObject) -> None:
    charset = data.draw(st.sampled_from(language["charsets"]))
    content = f"claim\n{language['sentences'][at % len(language['sentences'])][:length]}".encode(charset, "ignore")
    assert western(content) in (None, content.decode(charset))


def test_a_batch_names_its_question_and_keeps_bad_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the option. The table has the text of the row that cannot be used."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    path = tmp_path / "liste.csv"
    path.write_text("Behauptung;Datum\nEs stieg.;3/4/2025\nEs fiel.;im Mai\n")
    words = ["batch", path, "--out", tmp_path / "out", "--model", "fake:1", "--graph", "standard_prompting"]
    refused = moot(*words)
    assert (refused.returncode, "moot batch --column claim=NAME" in refused.stderr) == (2, True)
    done = moot(*words, "--column", "claim=Behauptung", "--column", "date=Datum", "--dates", "dmy")
    assert done.returncode == 3, done.stderr
    assert "Dates in the column 'Datum' are read as day/month/year." in done.stderr
    with (tmp_path / "out" / "table.csv").open(encoding="utf-8-sig") as table:
        assert [(row["Behauptung"], row["status"]) for row in csv.DictReader(table)] == [
            ("Es stieg.", "done"),
            ("Es fiel.", "bad"),
        ]


@pytest.mark.parametrize(
    ("dates", "iso", "note"),
    [
        (["3/3/2025"], ["2025-03-03"], []),
        (
            ["3/4/2025", "3/25/2025"],
            ["2025-03-04", "2025-03-25"],
            ["dates in the column 'When' are read as month/day/year"],
        ),
        (
            ["3/4/2025 0:00", "25/3/2025"],
            ["2025-04-03", "2025-03-25"],
            ["dates in the column 'When' are read as day/month/year"],
        ),
        (["03.04.2025", "2025/4/3", "2025-04", "1869"], ["2025-04-03", "2025-04-03", "2025-04", "1869"], []),
        (
            ["3 Jan 2024", "Mai 2023", "le 1er août 2022", "3. März 2021"],
            ["2024-01-03", "2023-05", "2022-08-01", "2021-03-03"],
            [],
        ),
        (["3 de enero de 2024", "5 января 2024 г.", "2024年1月3日"], ["2024-01-03", "2024-01-05", "2024-01-03"], []),
        (
            ["3-Jan-24", "Oct-20"],
            ["2024-01-03", "2020-10"],
            ["years of two digits in the column 'When' are from 1950 to 2029: 3-Jan-24 is 2024-01-03"],
        ),
        (
            ["1/3/24", "1/25/99"],
            ["2024-01-03", "1999-01-25"],
            [
                "dates in the column 'When' are read as month/day/year",
                "years of two digits in the column 'When' are from 1950 to 2029: 1/3/24 is 2024-01-03",
            ],
        ),
        (
            ["45719"],
            ["2025-03-03"],
            ["numbers in the column 'When' are read as a spreadsheet's days: 45719 is 2025-03-03"],
        ),
    ],
)
def test_dates_that_a_spreadsheet_rewrote_are_read(
    tmp_path: Path, dates: list[str], iso: list[str], note: list[str]
) -> None:
    text = "claim,When\n" + "".join(f"Claim {date}.,{date}\n" for date in dates)
    file = read(tmp_path, text, ListOptions({"date": "When"}))
    assert [date for _, date in claims_and_dates(file)] == iso
    assert file.notes == note


@pytest.mark.parametrize("dates", [["3/4/2025"], ["3/4/2025", "25/3/2025", "3/25/2025"]])
def test_ambiguous_dates_are_one_question_that_names_the_column(tmp_path: Path, dates: list[str]) -> None:
    text = "claim,Date \n" + "".join(f"Claim {date}.,{date}\n" for date in dates)
    with pytest.raises(ListQuestion, match="column 'Date' can be read in two ways: 3/4/2025 is 2025-04-03") as asked:
        read(tmp_path, text)
    assert [*asked.value.choices] == ["dmy", "mdy"]
    found = [claims_and_dates(read(tmp_path, text, ListOptions(dates=order)))[0][1] for order in ("dmy", "mdy")]
    assert found == ["2025-04-03", "2025-03-04"]
    with pytest.raises(ListQuestion, match="is 2003-01-24 .day/month/year. or 2024-01-03 .year/month/day.") as asked:
        read(tmp_path, "claim,date\nOne.,24-01-03\n")
    assert [*asked.value.choices] == ["dmy", "ymd"]


@pytest.mark.parametrize(
    "text", ["20-Oct", "Jan 24", "im Mai", "3-5 Jan 2024", "31 Feb 2024", "3.1.35", "May 5", "Jan or Feb 2024"]
)
def test_what_is_no_sure_date_is_left_as_it_is(text: str) -> None:
    assert read_date(text, "dmy") == text


def test_the_only_sheet_with_claims_is_read(tmp_path: Path) -> None:
    notes, claims = [["About"], ["Text."]], [["claim"], ["It is old."]]
    file = read(tmp_path, workbook({"About": notes, "Claims": claims}), name="a.xlsx")
    assert claims_and_dates(file) == [("It is old.", None)]
    assert file.notes == ["the sheet Claims is read, and not: About"]
    with pytest.raises(ListQuestion, match="moot batch --sheet NAME") as asked:
        read(tmp_path, workbook({"About": notes, "One": claims, "Two": claims}), name="a.xlsx")
    answer = asked.value.answer("Two", ListOptions())
    assert (list(asked.value.choices), answer.sheet) == (["One", "Two"], "Two")


def test_a_row_that_cannot_be_used_keeps_its_text(tmp_path: Path) -> None:
    text = 'claim,date,speaker\nA,B,C,D\nLate.,20-Oct,Ann\n"Old" one,2020,\n'
    rows = [row for row in read(tmp_path, text) if isinstance(row, BadRow)]
    assert [dict(row.cells) for row in rows] == [
        {"claim": "A,B,C,D"},
        {"claim": "Late.", "date": "20-Oct", "speaker": "Ann"},
        {"claim": '"Old" one,2020,'},
    ]


FORMS = ["{d}.{m}.{y}", "{d}/{m}/{y}", "{m}/{d}/{y}", "{y}/{m}/{d}", "{d} {name} {y}", "{name} {d}, {y}"]


@given(st.dates(), st.lists(st.sampled_from(FORMS), min_size=1))
def test_a_date_is_read_right_or_not_at_all(day: date, forms: list[str]) -> None:
    """With the order that the file shows, a date is never another day than the one that was written in that order."""
    year, month, number = str(day).split("-")
    texts = [form.format(d=int(number), m=int(month), y=year, name=f"{day:%B}") for form in forms]
    order, ambiguous = order_of(texts)
    for text in texts:
        found = read_date(text, order)
        is_mixed = "{d}/{m}/{y}" in forms and "{m}/{d}/{y}" in forms
        assert found in (str(day), text) or is_mixed
        assert is_iso_date(found) or ambiguous
