"""Files of claims: accepted formats, and the errors of invalid files."""

from __future__ import annotations

import csv
import json
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moot.core.errors import UserError
from moot.evals._benchmarks.catalogue import own_records
from moot.evals._benchmarks.claim_files import LONGEST_LINE, BadRow, ClaimRow, ClaimsFile, read_all_rows
from moot.retrievers._evidence import clean
from moot.transcript.claims import claims_csv


def write_file(folder: Path, text: str, name: str = "my.csv", encoding: str = "utf-8") -> Path:
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


def problems_of(path: Path) -> list[tuple[int, str]]:
    """The line number and the problem of each bad row."""
    return [(row.line, row.problem) for row in ClaimsFile(path) if isinstance(row, BadRow)]


FULL = {
    "claim": "The kilogram is defined by a constant, since 2019.",
    "label": "true",
    "labels": ["true", "false"],
    "date": "2020-10",
    "speaker": "A minister",
    "given": [{"title": "A page", "text": "Since 2019 it is."}, "More."],
    "group": "units",
    "id": "k1",
    "graph": "vote",
    "settings": {"rounds": 2},
}
ROW = ClaimRow(
    number=1,
    line=1,
    id="k1",
    claim="The kilogram is defined by a constant, since 2019.",
    label="true",
    labels=("true", "false"),
    claim_date="2020-10",
    speaker="A minister",
    given=(("A page", "Since 2019 it is."), ("", "More.")),
    group="units",
    graph="vote",
    settings={"rounds": 2},
)


def test_all_columns_of_json_lines_are_read(tmp_path: Path) -> None:
    path = write_file(
        tmp_path, json.dumps(FULL) + "\n\n" + json.dumps({"claim": "Two.", "given": "A text."}), "my.jsonl"
    )
    assert [*ClaimsFile(path)] == [ROW, ClaimRow(2, 3, "2", "Two.", given=(("", "A text."),))]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_all_columns_of_csv_are_read(tmp_path: Path, delimiter: str, encoding: str) -> None:
    path = tmp_path / "my.csv"
    cells = {**FULL, "labels": "true|false", "given": json.dumps(FULL["given"]), "settings": '{"rounds": 2}'}
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.DictWriter(file, [name.title() for name in cells], delimiter=delimiter)
        writer.writeheader()
        writer.writerow({name.title(): cell for name, cell in cells.items()})
    assert [*ClaimsFile(path)] == [ClaimRow(**{**vars(ROW), "line": 2})]


def test_claims_that_look_like_formulas_are_read_unchanged_from_moots_own_tables(tmp_path: Path) -> None:
    claims = ["-40 C equals -40 F.", "=1+1 is 2.", "'Tis true.", " +5 is odd."]
    path = write_file(tmp_path, claims_csv([{"claim": claim} for claim in claims], "units"))
    assert [row.claim for row in read_all_rows(ClaimsFile(path))] == [claim.strip() for claim in claims]


def test_a_row_over_several_lines_does_not_shift_later_line_numbers(tmp_path: Path) -> None:
    path = write_file(tmp_path, 'claim,speaker\n"One\nover\nthree.",A\n\nTwo.,B\n')
    assert [(row.number, row.line, row.id) for row in ClaimsFile(path)] == [(1, 2, "1"), (2, 6, "2")]


def test_reading_continues_after_bad_csv_rows(tmp_path: Path) -> None:
    text = (
        "claim,id,date,settings,labels,label\n"
        "Good.,a,,,,\n"
        ",b,,,,\n"
        "Late.,c,May,,,\n"
        "Set.,d,,rounds=2,,\n"
        "Again.,a,,,,\n"
        "Short.,e\n"
        "Label.,f,,,yes|no,maybe\n"
        'Broken.,"g"x,,,,\n'
        "Last.,h,,,,\n"
    )
    path = write_file(tmp_path, text)
    found = problems_of(path)
    assert [line for line, _ in found] == [3, 4, 5, 6, 7, 8, 9]
    for (_, problem), message in zip(
        found, ("no claim", "2020-10-25", "settings", "row 1", "2 columns", "maybe", "CSV"), strict=True
    ):
        assert message in problem
    assert [row.id for row in ClaimsFile(path) if isinstance(row, ClaimRow)] == ["a", "h"]


def test_reading_continues_after_bad_json_lines(tmp_path: Path) -> None:
    lines = [
        '{"claim": "One."}',
        "{",
        "[1]",
        '{"claim": 3, "lable": "x"}',
        '{"claim": "x", "given": 5}',
        '{"claim": "Two."}',
    ]
    path = write_file(tmp_path, "\n".join(lines), "my.jsonl")
    found = problems_of(path)
    assert [line for line, _ in found] == [2, 3, 4, 5]
    assert "Did you mean `label`" in found[2][1]
    assert [row.claim for row in ClaimsFile(path) if isinstance(row, ClaimRow)] == ["One.", "Two."]


@pytest.mark.parametrize(
    ("text", "name", "encoding", "message"),
    [
        ("text,label\nOne.,true\n", "my.csv", "utf-8", "no column `claim`"),
        ("claim,lable\nOne.,true\n", "my.csv", "utf-8", "Did you mean `label`"),
        ("claim,claim\nOne.,Two.\n", "my.csv", "utf-8", "occurs twice"),
        ("", "my.csv", "utf-8", "empty"),
        ("One.", "my.txt", "utf-8", ".csv"),
    ],
)
def test_the_error_of_an_unreadable_file_names_the_problem(
    tmp_path: Path, text: str, name: str, encoding: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        list(ClaimsFile(write_file(tmp_path, text, name, encoding)))


def test_unknown_columns_are_ignored_and_listed(tmp_path: Path) -> None:
    file = ClaimsFile(write_file(tmp_path, "claim,checked by\nOne.,Ann\n"))
    assert (file.notes, [row.id for row in file]) == (["these columns are not read: checked by"], ["1"])


def test_read_all_rows_names_the_first_bad_row_and_counts_the_others(tmp_path: Path) -> None:
    path = write_file(tmp_path, "claim,label\nOne.,\n,true\nThree.,\n")
    with pytest.raises(UserError, match=r"my.csv, line 2: no label. There are 2 other bad rows."):
        read_all_rows(ClaimsFile(path), lambda row: "" if row.label else "no label")


TEXTS = st.text("aé中=+-@,;|\"'\\[]{}#\n\t ", min_size=1, max_size=20).filter(lambda text: text.strip(" \n\t"))
PIECES = st.lists(st.fixed_dictionaries({"text": TEXTS, "title": TEXTS}), min_size=1, max_size=3)
ROWS = st.fixed_dictionaries(
    {"claim": TEXTS},
    optional={
        **dict.fromkeys(("label", "group", "speaker", "graph"), TEXTS),
        "given": PIECES,
        "settings": st.dictionaries(TEXTS, st.integers() | TEXTS, max_size=2),
    },
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROWS, min_size=1, max_size=4), st.sampled_from(",;\t"))
def test_csv_and_json_lines_give_back_the_written_rows(
    tmp_path: Path, rows: list[dict[str, Any]], delimiter: str
) -> None:
    """Line breaks, quotation marks, delimiters and spreadsheet formulas are plain text.

    Claims are cleaned. In labels, groups, speakers and names of graphs, superfluous white space is removed.
    """
    with (tmp_path / "a.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*FULL], delimiter=delimiter)
        writer.writeheader()
        for row in rows:
            writer.writerow({k: v if isinstance(v, str) else json.dumps(v) for k, v in row.items()})
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in ("a.csv", "a.jsonl"):
        found = [*ClaimsFile(tmp_path / name)]
        assert [row.problem for row in found if isinstance(row, BadRow)] == []
        for row, written_row in zip(found, rows, strict=True):
            assert isinstance(row, ClaimRow)
            assert row.claim == clean(written_row["claim"])
            fields = {name: getattr(row, name) for name in ("label", "group", "graph")}
            assert (row.speaker or "") == " ".join(written_row.get("speaker", "").split())
            assert fields == {name: written_row.get(name, "").strip() or None for name in fields}
            assert row.given == tuple((piece["title"], piece["text"]) for piece in written_row.get("given", ()))
            assert row.settings == written_row.get("settings", {})


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200), st.sampled_from((".csv", ".jsonl")), st.booleans())
def test_random_bytes_give_rows_or_a_user_error(tmp_path: Path, content: bytes, kind: str, headed: bool) -> None:
    path = tmp_path / f"any{kind}"
    path.write_bytes(b"claim,id\n" * headed + content)
    with suppress(UserError):
        rows = [*ClaimsFile(path)]
        assert [row.number for row in rows] == list(range(1, len(rows) + 1))
        assert all(row.claim if isinstance(row, ClaimRow) else row.problem for row in rows)


def test_the_problem_of_a_json_line_does_not_repeat_its_number(tmp_path: Path) -> None:
    lines = '{"claim": "One.", "id": "a\\ud800"}\n{"claim"\n{"claim": "\\ud83d\\ude00"}\n'
    path = write_file(tmp_path, lines, "my.jsonl")
    (first, half), (second, broken) = problems_of(path)
    assert (first, second) == (1, 2)
    assert half.startswith("it contains half a character")
    assert broken.startswith("not JSON")


def test_too_long_cells_too_long_lines_and_unclosed_quotes_are_reported(tmp_path: Path) -> None:
    path = write_file(tmp_path, f'claim,given\nOne.,{"x" * 140_000}\nTwo.,\n"Three.,\nFour.,\n')
    found = problems_of(path)
    assert [line for line, _ in found] == [2, 4]
    assert "JSON Lines may have longer texts" in found[0][1]
    assert "a quotation mark is not closed" in found[1][1]
    endless = write_file(tmp_path, "claim\n" + "x" * (LONGEST_LINE + 1))
    with pytest.raises(UserError, match="line 2: the line has 16,777,216 or more characters"):
        list(ClaimsFile(endless))


def test_a_row_whose_id_is_neither_a_text_nor_a_whole_number_is_bad(tmp_path: Path) -> None:
    path = write_file(tmp_path, '{"claim": "One.", "id": [1]}\n{"claim": "Two.", "id": 7}', "my.jsonl")
    bad, good = ClaimsFile(path)
    assert (bad.id, good.id) == ("1", "7")
    assert problems_of(path) == [(1, "`id` is neither a text nor a whole number")]


def test_a_long_file_is_read_with_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    with path.open("w") as file:
        file.write("claim,given\n")
        file.writelines(f"Claim {number}.,{'word ' * 1000}\n" for number in range(4000))
    tracemalloc.start()
    assert sum(isinstance(row, ClaimRow) for row in ClaimsFile(path)) == 4000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < path.stat().st_size / 5


@pytest.mark.parametrize(
    ("header", "taken"), [("URL", True), ("link", True), ("url,link", False), ("url,appeared_at", False)]
)
def test_a_column_of_addresses_says_where_claims_appeared(tmp_path: Path, header: str, taken: bool) -> None:
    cells = "news.example.org/story" + ",https://news.example.org/other" * header.count(",")
    file = ClaimsFile(write_file(tmp_path, f"claim,{header}\nOne is.,{cells}\n"))
    [row] = file
    assert isinstance(row, ClaimRow)
    assert (row.appeared_at == "https://news.example.org/story") == taken
    assert [name for name, _ in file.columns] == ["claim", *header.split(",")]


@pytest.mark.parametrize("word", ["n/a", "none", "see page 3", "https://a page"])
def test_a_word_in_the_column_of_addresses_is_not_taken_for_an_address(tmp_path: Path, word: str) -> None:
    [row] = ClaimsFile(write_file(tmp_path, f"claim,url\nOne is.,{word}\n"))
    assert isinstance(row, BadRow)
    assert "must be the address of the page" in row.problem


def test_a_list_with_tags_is_read(tmp_path: Path) -> None:
    """Its column was taken for a slip in the name of the column `task`."""
    [row] = ClaimsFile(write_file(tmp_path, "claim,tags\nOne is.,a\n"))
    assert row.written == ("One is.", "a")


@pytest.mark.parametrize("column", ["task", "options"])
def test_an_evaluation_refuses_tasks_of_rows(tmp_path: Path, column: str) -> None:
    cells = {"task": "number", "options": "a|b"}
    path = write_file(tmp_path, f"claim,label,{column}\nOne is.,SUPPORTS,{cells[column]}\n")
    with pytest.raises(UserError, match="only for `moot batch`"):
        own_records(path)
