"""The head of a report: the reasons of dissents, votes that do not count, and quotes in other typography."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from moot.nodes._texts.dissent import dissent_of
from moot.nodes._texts.task import make_task
from moot.transcript.end import debate_in_words
from moot.transcript.report.head import backing, dissent, in_reader_words
from moot.transcript.report.names import Names
from moot.transcript.report.report import report

from tests.web.documents import a_debate, with_evidence


def test_each_dissenting_sample_has_its_own_reason() -> None:
    """The samples have the same agent and different numbers."""
    answers = ["SUPPORTS", "REFUTES", "SUPPORTS"]
    shared = {"agent": "agent-1", "round": 1, "phase": "primary", "step": "respond", "outcome": "ok", "citations": []}
    document: dict[str, Any] = {
        "task": make_task("fever", claim="Eggs."),
        "metrics": {},
        "status": "done",
        "answer": "SUPPORTS",
        "votes": [
            {"agent": "agent-1", "number": number, "answer": one, "group": one} for number, one in enumerate(answers, 1)
        ],
        "turns": [
            {**shared, "number": number, "answer": one, "rationale": f"Reason {number}."}
            for number, one in enumerate(answers, 1)
        ],
        "evidence": [],
        "settings": {},
        "corpora": [],
        "calls": [],
        "raw_verdict": "SUPPORTS",
        "round_log": [],
        "warnings": [],
    }
    document["dissent"] = dissent_of(document)
    _, found = dissent(document, Names(document))
    assert [(chip.word, reason) for chip, _, reason in found] == [("Refuted", "Reason 2.")]


def test_votes_with_an_answer_but_no_group_do_not_count() -> None:
    """The graph `isolate` has such votes, for origins that leave the claim open."""
    votes = [("SUPPORTS", 0), ("SUPPORTS", 0), ("NOT ENOUGH INFO", None)]
    document: dict[str, Any] = {
        "task": make_task("fever", claim="Eggs."),
        "metrics": {},
        "votes": [{"agent": str(number), "answer": one, "group": group} for number, (one, group) in enumerate(votes)],
        "turns": [],
        "stop_reason": "single_pass",
        "rounds": 1,
        "round_log": [],
        "warnings": [],
    }
    names: Any = str
    assert backing(document, names) == "Of 3 answers: 2 “Supported” and 1 not counted."


@pytest.mark.parametrize(
    ("towards", "asked", "words"),
    [
        ([], 0, ""),
        ([], 1, "The debate changed 0 of 1 later answer."),
        ([True], 4, "The debate changed 1 of 4 later answers, to the verdict."),
        ([False], 4, "The debate changed 1 of 4 later answers, not to the verdict."),
        ([True, True], 2, "The debate changed 2 of 2 later answers, all of them to the verdict."),
        ([True, False, True], 4, "The debate changed 3 of 4 later answers, 2 of them to the verdict."),
        ([False, False], 4, "The debate changed 2 of 4 later answers, none of them to the verdict."),
        ([None], 3, "The debate changed 1 of 3 later answers."),
    ],
)
def test_what_a_debate_did_in_a_sentence(towards: list[bool | None], asked: int, words: str) -> None:
    changes = [{"towards_verdict": one} for one in towards]
    assert debate_in_words({"dissent": {"changes": changes, "asked_again": asked}, "turns": []}) == words


def test_who_gave_no_answer_does_not_dissent() -> None:
    """A ceiling kept both debaters from answering, and a judge decided."""
    shared = {"round": 1, "phase": "primary", "step": "respond", "outcome": "budget_exhausted", "answer": None}
    document: dict[str, Any] = {
        "task": make_task("fever", claim="Eggs."),
        "metrics": {},
        "status": "done",
        "answer": "SUPPORTS",
        "raw_verdict": "SUPPORTS",
        "votes": [{"agent": one, "answer": None, "group": None} for one in ("rag", "search")],
        "turns": [{**shared, "agent": one} for one in ("rag", "search")],
        **{name: [] for name in ("evidence", "corpora", "calls", "round_log", "warnings")},
        "settings": {},
    }
    document["dissent"] = dissent_of(document)
    assert dissent(document, Names(document)) == ("", [])


def test_readers_whose_text_leaves_the_claim_open_do_not_dissent() -> None:
    """The graphs `isolate` and `madam_rag` have such votes."""
    votes = [("SUPPORTS", 0), ("SUPPORTS", 0), ("NOT ENOUGH INFO", None)]
    document: dict[str, Any] = {
        "task": make_task("fever", claim="Eggs."),
        "metrics": {},
        "status": "done",
        "answer": "SUPPORTS",
        "votes": [{"agent": str(number), "answer": one, "group": group} for number, (one, group) in enumerate(votes)],
        "turns": [],
        "evidence": [],
        "settings": {},
        "corpora": [],
        "dissent": {"votes": [], "minority": [], "changes": [], "asked_again": 0},
    }
    assert dissent(document, Names(document)) == ("None: what the others read leaves it open.", [])


async def test_each_quote_in_other_typography_is_counted() -> None:
    """Two agents quote the same words in other typography."""
    document = with_evidence(await a_debate(), 1)
    first = next(turn for turn in document["turns"] if turn["step"] == "respond")
    other = next(turn for turn in document["turns"] if turn["step"] == "respond" and turn["agent"] != first["agent"])
    citation = first["citations"][0] | {"quote": "lay  eggs 🥚, as echidnas"}
    for turn in document["turns"]:
        turn["citations"] = [copy.deepcopy(citation)] if turn is first or turn is other else []
    page = report(document, "md").replace("\\", "")
    assert "2 quotes were checked, and 2 found in their source. 2 differ in typography alone" in page


async def test_names_and_answers_in_addresses_stay() -> None:
    document, address = await a_debate(), "(https://x.test/search?q=SUPPORTS+rag)"
    told, _ = in_reader_words(document, f"search, rag: SUPPORTS {address}", Names(document))
    assert told == f"Debater B, Debater A: “Supported” {address}"
