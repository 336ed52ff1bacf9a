"""Labels that systems agree against are listed for a person; her decisions are kept, and reports count by them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from moot.core.errors import UserError
from moot.evals._analyses.audit import OWN, agreed_answer, read_audited, read_decisions
from moot.evals._report.write import as_document, compare
from moot.retrievers import make_evidence

from tests.commands import moot
from tests.evals.made_logs import debate, write_log

S, R, N = "SUPPORTS", "REFUTES", "NOT ENOUGH INFO"
GOLD = {"1": S, "2": S, "3": R, "=4": S}
PIECE = make_evidence(text="The quay is built of oak. It was sold in May.", title="Harbour news", source="news")


def quoting(answer: str) -> dict[str, Any]:
    """The result document of a debate whose only answer quotes a text."""
    quote = {"evidence_id": PIECE["id"], "quote": "built of oak", "verified": True, "fabricated": False}
    document = debate(answer, [answer], evidence=[PIECE])
    document["turns"][0] |= {"citations": [quote | {"warrant": "entails"}], "evidence_ids": [PIECE["id"]]}
    return document | {"votes": [{"agent": "agent-1", "answer": answer, "group": 0}]}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A folder with logs of a system with two seeds, of another system, and of a control, which counts nowhere."""
    folder = tmp_path / "logs"
    folder.mkdir()
    answers = {"a": (R, S, R, R), "b": (R, S, S, R), "c": (R, R, R, R)}
    for name, given in answers.items():
        documents = {id: quoting(answer) for id, answer in zip(GOLD, given, strict=True)}
        facts = {"system": "other"} if name == "c" else {"system": "debate", "seed": 1 + (name == "b")}
        write_log(folder, name, documents, GOLD, model="openai:m", conflicting={S: ["1"]}, **facts)
    control = {id: debate(S) for id in GOLD}
    write_log(folder, "d", control, GOLD, system="alone", control="single_call", of="debate", model="openai:m")
    return folder


def rows_of(file: Path) -> list[dict[str, str]]:
    text = file.read_text(encoding="utf-8-sig")
    return list(csv.DictReader(io.StringIO(text), delimiter=";" if text.startswith("benchmark;") else ","))


def decide(file: Path, decisions: dict[str, tuple[str, str, str, str]], delimiter: str = ",") -> None:
    """Write decisions into a file, as a spreadsheet program does, which may save it with another delimiter."""
    rows = [row | dict(zip(OWN, decisions.get(row["id"], ("",) * 4), strict=True)) for row in rows_of(file)]
    with file.open("w", encoding="utf-8-sig", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)


def test_the_rule_of_agreement_by_hand() -> None:
    assert agreed_answer([R, R, S], 2, "majority") == R
    assert agreed_answer([R, R, S], 2, "all") is None
    assert agreed_answer([R, R], 3, "all") is None
    assert agreed_answer([R, R, S, ""], 2, "majority") is None  # half is no majority
    assert agreed_answer(["", ""], 2, "all") is None  # nor do abstentions agree on anything
    assert agreed_answer([], 1, "majority") is None


def test_items_on_which_all_runs_are_against_the_label_are_listed_with_their_quotes(logs: Path, tmp_path: Path) -> None:
    done = moot("eval", "audit", logs, "--out", tmp_path / "audit.csv")
    assert done.returncode == 0, done.stderr
    assert "2 of 4 items listed: all runs gave the same answer, at least 2 of them" in done.stdout
    assert "d.eval: a control or an attack; left out." in done.stderr
    first, second = rows_of(tmp_path / "audit.csv")
    assert (first["id"], first["gold"], first["answer"], first["agree"]) == ("1", S, R, "3 of 3")
    assert first["answers"].splitlines() == [
        f"debate (openai:m, seed 1): {R}",
        f"debate (openai:m, seed 2): {R}",
        f"other (openai:m): {R}",
    ]
    assert first["quotes"] == '"built of oak" (Harbour news, bears it out)'  # each quote once
    assert first["labels"] == f"{S}|{R}|{N}"
    assert (first["note"], second["note"]) == ("the same question also occurs in this benchmark with another label", "")
    assert second["id"] == "'=4"  # no spreadsheet program reads it as a formula
    more = moot("eval", "audit", logs, "--out", tmp_path / "more.csv", "--agree", "majority", "--at-least", 1, "--json")
    assert json.loads(more.stdout)["listed"] == 2  # on items 2 and 3, most runs agree with the label
    assert moot("eval", "audit", logs, "--agree", "some").returncode == 2


def test_a_row_has_the_texts_that_its_label_rests_on(tmp_path: Path) -> None:
    given = [{"title": "Harbour news", "text": "=The quay is old."}, {"title": "", "text": "x" * 20_000}]
    write_log(tmp_path, "a", {"1": quoting(R)}, {"1": S}, system="debate", inputs={"given": given})
    done = moot("eval", "audit", tmp_path, "--out", tmp_path / "audit.csv", "--at-least", 1)
    assert done.returncode == 0, done.stderr
    (row,) = rows_of(tmp_path / "audit.csv")
    assert row["texts"].startswith("Harbour news\n=The quay is old.\n\nxxx")
    assert (len(row["texts"]), row["texts"][-4:]) == (10_004, " ...")
    decide(tmp_path / "audit.csv", {"1": ("keep", "", "Ada", "so")})
    assert "audited" in as_document(compare([tmp_path], audit=tmp_path / "audit.csv"))["studies"][0]["tables"]


def test_a_second_run_keeps_what_a_person_wrote_word_for_word(logs: Path, tmp_path: Path) -> None:
    file = tmp_path / "audit.csv"
    moot("eval", "audit", logs, "--out", file)
    decide(file, {"1": ("change", "refutes", "Ada", 'The report says so; see page 3, "Ropes"')}, ";")
    kept = rows_of(file)[0]
    (logs / "c.eval").unlink()
    write_log(logs, "e", {id: quoting(S) for id in GOLD}, GOLD, system="other", model="openai:m")
    done = moot("eval", "audit", logs, "--out", file)
    assert "1 row with words of a person kept as they were." in done.stdout
    assert rows_of(file) == [kept]  # no item is listed any more, and the row without a decision is gone
    assert read_decisions(file)["fever", "1"] is not None


def test_reports_count_by_the_original_and_by_the_audited_labels(logs: Path, tmp_path: Path) -> None:
    file = tmp_path / "audit.csv"
    moot("eval", "audit", logs, "--out", file)
    decide(file, {"1": ("change", R, "Ada", "oak"), "'=4": ("unclear", "", "Ada", "two quays of this name")})
    (section,) = as_document(compare([logs], audit=file))["studies"]
    table = section["tables"]["audited"]
    row = next(row for row in table["rows"] if row["system"] == "debate")
    # Two runs of four items. By the original labels, 2 and 1 answers are right (items 2 and 3); by the audited labels
    # of three items, item 1 is right in both runs, too.
    assert (row["answers"], row["right"], row["original"]["value"]) == (8, 3, 3 / 8)
    assert (row["clear"], row["audited_right"], row["audited"]["value"]) == (6, 5, pytest.approx(5 / 6))
    assert (
        "2 items on which systems agreed against the label: 0 keep, 1 change, 1 unclear, 0 without" in table["caption"]
    )
    printed = moot("eval", "compare", logs, "--audit", file)
    assert "Audited labels (0 keep, 1 change, 1 unclear, 0 without a decision)" in printed.stdout
    assert "audited" not in as_document(compare([logs]))["studies"][0]["tables"]
    other = tmp_path / "other"
    other.mkdir()
    text = {"given": [{"title": "", "text": "The claim is about this text."}]}
    for label, inputs in ((N, None), (S, text)):
        write_log(other, "a", {"1": quoting(R)}, {"1": label}, system="debate", model="openai:m", inputs=inputs)
        with pytest.raises(UserError, match="the item '1' of FEVER is about another question or label"):
            compare([other], audit=file)
        with pytest.raises(UserError, match="the item '1' of fever is another one than in an earlier log"):
            read_audited([logs, other])


@pytest.mark.parametrize(
    ("decision", "problem"),
    [
        (("maybe", "", "Ada", "x"), "line 2: `decision` must be one of keep, change, unclear, not 'maybe'"),
        (("keep", "", "", "x"), "a decision needs `who` decided, and `why`"),
        (("change", "", "Ada", "x"), "so `label` must have the right label"),
        (("change", S, "Ada", "x"), "another one than `gold`"),
        (("change", "TRUE", "Ada", "x"), "`label` must be one of SUPPORTS, REFUTES, NOT ENOUGH INFO, not 'TRUE'"),
        (("keep", R, "Ada", "x"), "the decision is keep, but `label` has another label"),
        (("", R, "Ada", "x"), "`decision` must be one of"),
    ],
)
def test_a_decision_that_cannot_be_used_is_an_error_that_says_what_to_write(
    logs: Path, tmp_path: Path, decision: tuple[str, str, str, str], problem: str
) -> None:
    file = tmp_path / "audit.csv"
    moot("eval", "audit", logs, "--out", file)
    decide(file, {"1": decision})
    with pytest.raises(UserError, match=problem):
        read_decisions(file)
    file.write_text("id,decision\n1,keep\n")
    with pytest.raises(UserError, match="is not a file of `moot eval audit`: each of these columns must occur once"):
        read_decisions(file)
