"""``moot eval warrants``: cases from labelled passages and from documents, and the figures over them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from moot.cli.warrants import lines, measure_warrants
from moot.core.endpoint import close_clients
from moot.core.errors import UserError
from moot.evals._analyses.warrants import figures, opposite_label, precision_recall, read_cases
from moot.nodes._texts.task import make_task

from tests.conftest import StartStub
from tests.graphs.test_warrants import ASSESSES, CLOSED, answers, check, finds

ROWS: list[dict[str, Any]] = [
    {"claim": "The quay is old.", "passage": "The quay was built in 1650. It is long.", "label": "SUPPORTS"},
    {"claim": "The quay is new.", "evidence": "The quay was built in 1650.", "label": "REFUTES"},
    {"claim": "The quay is long.", "evidence": {"7": [{"sentences": [1], "label": "SUPPORT"}]}},
    {"claim": "The quay is dry.", "evidence": {}},
]
CORPUS = [{"doc_id": 7, "abstract": ["We measured the quay.", "It is long."]}]


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


async def checked() -> dict[str, Any]:
    """A debate outside of the test's event loop."""
    try:
        return await check()
    finally:
        await close_clients()


def test_cases_of_labelled_passages(tmp_path: Path) -> None:
    files = [jsonl(tmp_path / "rows.jsonl", ROWS)], jsonl(tmp_path / "corpus.jsonl", CORPUS)
    cases = read_cases(*files, limit=10, seed=4)
    assert {case.claim for case in cases} == {row["claim"] for row in ROWS[:3]}
    for case in cases:
        holds = case.answer == "SUPPORTS"
        assert case.gold == ("entails" if holds == (case.claim != "The quay is new.") else "contradicts")
        assert all(one["verified"] for one in case.quotes)
    long = next(case for case in cases if case.claim == "The quay is long.")
    assert (long.quotes[0]["quote"], long.evidence[0]["text"]) == ("It is long.", "We measured the quay. It is long.")
    assert read_cases(*files, limit=10, seed=4) == cases
    with pytest.raises(UserError, match="give their texts with --corpus"):
        read_cases(files[0], None, limit=10, seed=4)
    with pytest.raises(UserError, match="a row needs texts for claim and passage"):
        read_cases([jsonl(tmp_path / "wrong.jsonl", [{"claim": "A", "passage": "B", "label": "perhaps"}])], None, 5, 1)


def test_figures_by_hand() -> None:
    pairs = [("entails", "entails")] * 3 + [("neither", "entails")] + [("entails", "neither")] * 3
    assert precision_recall(pairs, "entails") == {"gold": 6, "precision": 0.75, "recall": 0.5}
    assert precision_recall(pairs, "contradicts") == {"gold": 0, "precision": None, "recall": None}
    task = make_task("averitec")
    assert opposite_label(task, "Supported") == "Refuted"
    assert opposite_label(make_task("hover"), "NOT_SUPPORTED") == "SUPPORTED"
    assert opposite_label(task, "Conflicting Evidence/Cherrypicking") is None
    assert figures([], [])["swaps"]["swapped"] == {"n": 0, "flagged": 0}


async def test_swaps_of_a_document(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub([answers("SUPPORTS", CLOSED), finds("entails")])
    document = tmp_path / "document.json"
    document.write_text(json.dumps(await check()))
    as_given, swapped = sorted(read_cases([document], None, 5, 1), key=lambda case: case.swapped)
    assert (as_given.answer, swapped.answer) == ("SUPPORTS", "REFUTES")
    assert as_given.rationale == swapped.rationale


def test_the_command_flags_the_swapped_answer(
    start_stub: StartStub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start_stub([answers("SUPPORTS", CLOSED), finds("entails")])
    document = tmp_path / "document.json"
    document.write_text(json.dumps(asyncio.run(checked())))
    refuted = {**finds("contradicts"), "match": f"{ASSESSES}.*REFUTES - "}
    start_stub([refuted, finds("entails")])
    out = tmp_path / "cases.json"
    measure_warrants([document], None, 5, 1, "openai:stub", 4, as_json=False, out=out)
    shown = capsys.readouterr().out
    assert "Labels exchanged: 1 of 1 answers flagged" in shown
    assert "Labels as given: 0 of 1 answers flagged." in shown
    found = json.loads(out.read_text())
    assert {case["swapped"]: case["bears"] for case in found["cases"]} == {True: ["contradicts"], False: ["entails"]}
    assert not any("passages" in line for line in lines(found))
