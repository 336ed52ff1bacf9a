"""Lists of claims: their columns come back, repeated claims are paid for once, odd rows are not run in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from python_calamine import CalamineWorkbook

from tests.cli.test_batch import read_table
from tests.cli.test_models import Terminal
from tests.commands import moot
from tests.conftest import StartStub

MODEL = ("--model", "openai:stub", "--graph", "chain_of_thought")
LIST = """Case;Behauptung;Link;Note;status
A;Otters sleep by day.;https://news.example.org/1;=SUM(1);new
B;Otters sleep by day;https://news.example.org/1;＝x;old
C;Otters sleep by day.;https://news.example.org/2;-5;
D;ok;;;
E;Badgers sleep by day;;"a
b";
"""


@pytest.fixture(autouse=True)
def _temporary_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))


def answers(about: str, answer: str, **fields: str) -> dict[str, Any]:
    """A rule of the endpoint: its answer to prompts with these words."""
    return {"match": about, "fields": {"answer": answer, "citations": [], **fields}}


def test_the_columns_of_a_list_come_back_and_a_repeated_claim_is_checked_once(
    start_stub: StartStub, tmp_path: Path
) -> None:
    stub = start_stub([answers("", "SUPPORTS", rationale="They rest in dens. Nobody doubts it.")])
    path, out = tmp_path / "list.csv", tmp_path / "out"
    path.write_text(LIST)
    words = ["batch", path, "--out", out, *MODEL, "--column", "claim=Behauptung"]
    done = moot(*words)
    assert done.returncode == 3, done.stderr
    assert "1 debate repeats the claim and the options of an earlier row" in done.stderr
    assert "row 4 (line 5), 'ok': it is no sentence" in done.stderr
    rows = read_table(out)
    assert [*rows[0]][:7] == ["Case", "Behauptung", "Link", "Note", "status", "row", "id"]
    assert [row["Case"] for row in rows] == [*"ABCDE"]
    assert [row["Note"] for row in rows] == ["'=SUM(1)", "'＝x", "-5", "", "a\nb"]
    assert [row["status"] for row in rows] == ["new", "old", "", "", ""]
    assert [row["moot_status"] for row in rows] == ["done", "done", "done", "bad", "done"]
    assert [row["same_as_row"] for row in rows] == ["", "1", "", "", ""]
    assert (rows[1]["report"], rows[1]["why"], rows[1]["verdict"]) == ("1.html", "They rest in dens.", "Supported")
    assert "--as-is" in rows[3]["error"]
    assert json.loads((out / "3.json").read_text())["task"]["appeared_at"] == "https://news.example.org/2"
    assert len(stub.prompts()) == 3
    sheet = CalamineWorkbook.from_path(out / "table.xlsx").get_sheet_by_index(0).to_python()
    written: list[list[Any]] = [[*row.values()][:5] for row in rows]
    written[2][3] = -5.0  # a number stays a number
    assert [row[:5] for row in sheet[1:]] == written
    again = moot(*words, "--as-is")  # only the odd row is left
    assert (again.returncode, len(stub.prompts())) == (0, 4), again.stderr
    assert moot(*words).returncode == 0  # the folder remembers it
    assert len(stub.prompts()) == 4


def test_a_list_may_mix_tasks(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub([answers("7\\*6", "42")])
    rows: list[dict[str, Any]] = [
        {"claim": "Otters sleep by day.", "task": "averitec"},
        {"claim": "Which animal digs?", "options": ["a badger", "an otter"]},
        {"claim": "7*6", "task": "number", "case": "x"},
        {"claim": "Otters sleep by night.", "task": "choice"},
        {"claim": "Herons fly by day.", "task": "nosuch"},
    ]
    path, out = tmp_path / "list.jsonl", tmp_path / "out"
    path.write_text("\n".join(map(json.dumps, rows)))
    done = moot("batch", path, "--out", out, *MODEL, "--labels", "yes,no")
    assert done.returncode == 3, done.stderr
    table = read_table(out)
    assert [row["status"] for row in table] == ["done", "done", "done", "bad", "bad"], done.stdout
    tasks = [json.loads((out / f"{n}.json").read_text())["task"] for n in (1, 2, 3)]
    assert [(task["name"], len(task["labels"])) for task in tasks] == [("averitec", 4), ("choice", 2), ("number", 0)]
    assert [row["case"] for row in table] == ["", "", "x", "", ""]
    assert "nosuch" in table[4]["error"]
    assert table[1]["verdict"] in ("A (a badger)", "B (an otter)")


def test_the_table_says_which_rows_a_ceiling_left_out(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub()
    path, out = tmp_path / "list.csv", tmp_path / "out"
    path.write_text("id,claim\n" + "".join(f"c{n},Otter number {n} sleeps.\n" for n in range(5)))
    done = moot("batch", path, "--out", out, *MODEL, "--max-calls", 2, "--at-once", 1)
    assert done.returncode == 3
    assert "Not begun: rows c3, c4." in done.stdout
    rows = read_table(out)
    assert [row["status"] for row in rows] == ["done", "done", "failed", "not begun", "not begun"]
    assert "ceiling" in rows[2]["error"]
    assert rows[2]["stop_reason"] == "budget_exhausted"
    assert ["a ceiling for all rows" in row["stop_reason"] for row in rows] == [False] * 3 + [True] * 2


def test_a_list_that_was_checked_before_says_so(start_stub: StartStub, tmp_path: Path) -> None:
    stub = start_stub()
    path = tmp_path / "list.csv"
    path.write_text("claim\nOtters sleep by day.\nBadgers sleep by day.\n")
    words = ["batch", path, *MODEL, "--out"]
    assert moot(*words, tmp_path / "one").returncode == 0
    again = moot(*words, tmp_path / "two", "--replies", "reuse")
    assert "All of the 2 claims were checked before." in again.stderr
    assert "--replies reuse" not in again.stderr
    path.write_text("claim\nOtters sleep by day.\nOtters sleep by day\n")
    told = moot(*words, tmp_path / "three", "--max-cost", "0.01").stderr
    assert told.count("your check of") == 2
    assert "--replies reuse" in told
    assert (again.returncode, len(stub.prompts())) == (0, 2)


def test_a_person_is_asked_about_odd_and_known_rows_and_may_take_stored_replies(
    start_stub: StartStub, tmp_path: Path
) -> None:
    stub = start_stub()
    path = tmp_path / "list.csv"
    path.write_text("claim\nOtters sleep by day.\nok\n")
    words = ["batch", str(path), *MODEL, "--out"]
    terminal = Terminal(*words, str(tmp_path / "one"))
    assert "row 2 (line 3), 'ok': it is no sentence" in terminal.answer("Enter: no, they are left out", "\n")
    assert terminal.end() == 3
    assert len(stub.prompts()) == 1
    terminal = Terminal(*words, str(tmp_path / "two"))
    terminal.answer("Enter: no, they are left out", "y\n")
    terminal.answer("p: go on and pay again", "\n")
    assert terminal.end() == 0
    assert len(stub.prompts()) == 2  # of the odd row alone
    terminal = Terminal(*words, str(tmp_path / "three"))
    terminal.answer("Enter: no, they are left out", "y\n")
    terminal.answer("p: go on and pay again", "p\n")
    assert terminal.end() == 0
    assert len(stub.prompts()) == 4


def test_rows_that_are_nearly_the_same_may_be_left_out(start_stub: StartStub, tmp_path: Path) -> None:
    stub = start_stub()
    path = tmp_path / "list.csv"
    rows = ["Alte Otter schlafen meist bei Tag.", "Alte Otter schlafen meist am Tag.", "Windräder töten Vögel."]
    path.write_text("\n".join(["claim", *rows, "Alte Otter schlafen am Tag meist."]) + "\n")
    words = ["batch", str(path), *MODEL, "--out"]
    told = moot(*words, tmp_path / "one", "--leave-out", "2-3")
    assert told.returncode == 0, told.stderr
    assert "row 4 (line 5), 'Alte Otter schlafen am Tag meist.': as row 1" in told.stderr
    assert "--leave-out" in told.stderr
    assert [row["status"] for row in read_table(tmp_path / "one")] == ["done", "left out", "left out", "done"]
    assert "2 of 4 rows are done; 2 rows left out" in told.stdout
    assert moot(*words, tmp_path / "one").returncode == 0  # the folder remembers it
    assert len(stub.prompts()) == 2
    assert moot(*words, tmp_path / "one", "--leave-out", "9").returncode == 2
    assert "names no rows" in moot(*words, tmp_path / "two", "--leave-out", "3-1").stderr
    terminal = Terminal(*words, str(tmp_path / "two"))
    terminal.answer("Rows to leave out, such as 2, 4", "x\n")
    assert "'x' names no rows" in terminal.answer("Rows to leave out, such as 2, 4", "a\n")
    terminal.answer("p: go on and pay again", "\n")
    assert terminal.end() == 0
    assert [row["status"] for row in read_table(tmp_path / "two")] == ["done", "left out", "done", "left out"]
    assert moot(*words, tmp_path / "three", "--language", "xx").returncode == 2
    assert moot(*words, tmp_path / "three", "--language", "es", "--leave-out", "2").returncode == 0
    assert '<html lang="es"' in (tmp_path / "three" / "3.html").read_text(encoding="utf-8")
    # too short to be told for certain: the language of the list
    assert '<html lang="de"' in (tmp_path / "two" / "3.html").read_text(encoding="utf-8")
