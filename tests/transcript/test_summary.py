"""Summaries of debates for readers. A sentence is kept only if checked quotes support it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from moot.core.errors import UserError
from moot.core.store import open_store
from moot.graphs.summarise_for_readers import ReaderSettings, graph
from moot.nodes._steps.reader import ReaderReply, answers_against_verdict, checked_quotes, figures, supported_summary
from moot.nodes._texts.answers import ABSTENTION
from moot.nodes._texts.task import make_task
from moot.transcript.report.report import report
from moot.transcript.report.summary import summarised, summary_settings, with_summary
from moot.web.kept import parse_document

from tests.conftest import StartStub
from tests.web.documents import a_debate, with_evidence

QUOTED_SENTENCE = {"text": "They lay eggs.", "quotes": [1]}
SUMMARY: dict[str, Any] = {
    "sentences": [QUOTED_SENTENCE, {"text": "It is so.", "quotes": []}, {"text": "Of 900, all do.", "quotes": [1]}],
    "stances": [{"quote": 1, "stance": "for"}, {"quote": 9, "stance": "against"}],
    "not_found": ["how many <b>"],
    "would_change": ["A count."],
}


async def quoted_document() -> dict[str, Any]:
    """The document of a debate with the verdict SUPPORTS and one checked quote."""
    document = with_evidence(await a_debate(), 1)
    document |= {"answer": "SUPPORTS", "raw_verdict": "SUPPORTS"}
    return document


async def test_unsupported_sentences_of_a_summary_are_dropped_and_counted() -> None:
    """A sentence must name at least one quote, and no unknown quote.

    Its numbers must be in the quoted evidence or in the claim.
    """
    document = await quoted_document()
    quotes = checked_quotes(document)
    assert len(quotes) == 1
    summary = supported_summary(document, quotes, ReaderReply.model_validate(SUMMARY))
    assert [one["text"] for one in summary["sentences"]] == ["They lay eggs."]
    assert summary["dropped"] == 2
    assert [one["stance"] for one in summary["stances"]] == ["for"]
    named = {**SUMMARY, "sentences": [{"text": "They lay eggs.", "quotes": [1, 2]}]}  # there is no quote 2
    assert supported_summary(document, quotes, ReaderReply.model_validate(named))["sentences"] == []


def test_numbers_are_compared_without_separators_of_thousands() -> None:
    assert figures("176 190 of 1,200,000, in 2020; 2.5%") == {"176190", "1200000", "2020", "2.5"}
    assert figures("176,190") <= figures("an estimated 176\u00a0190 children")
    assert not figures("17") <= figures("170")


async def test_a_part_of_a_longer_quote_is_not_a_separate_quote() -> None:
    document = await quoted_document()
    [longest] = checked_quotes(document)
    turn = next(turn for turn in document["turns"] if turn["citations"])
    first = turn["citations"][0]
    turn["citations"].append({**first, "end": first["end"] - 3})
    assert checked_quotes(document) == [longest]


async def test_answers_in_the_vote_group_of_the_verdict_do_not_contradict_it() -> None:
    document = await quoted_document()
    first, second = (turn for turn in document["turns"] if turn["step"] == "respond")
    first["answer"], second["answer"] = "Baudot code", "the Baudot code"
    document |= {"answer": "Baudot code", "task": make_task("hotpotqa", claim="What?")}
    document["votes"] = [{"agent": one["agent"], "answer": one["answer"], "group": 0} for one in (first, second)]
    assert answers_against_verdict(document) == []
    document["votes"][1]["group"] = 1
    assert answers_against_verdict(document) == [second]


@pytest.mark.parametrize("dataset", ["hotpotqa", "fever"])
async def test_answers_that_abstain_like_the_verdict_do_not_contradict_it(dataset: str) -> None:
    document = await quoted_document()
    first, second = (turn for turn in document["turns"] if turn["step"] == "respond")
    first["answer"], second["answer"] = ABSTENTION, "SUPPORTS"
    document |= {"answer": None, "raw_verdict": ABSTENTION, "task": make_task(dataset, claim="What?")}
    document["votes"] = [
        {"agent": one["agent"], "answer": one["answer"], "group": n} for n, one in enumerate((first, second))
    ]
    assert answers_against_verdict(document) == [second]


async def test_reports_show_the_summary_of_a_debate(start_stub: StartStub) -> None:
    start_stub([{"fields": SUMMARY}])
    document = await quoted_document()
    earlier_calls = len(document["calls"])
    found = await with_summary(document, {"model": "openai:stub"})
    assert len(found["calls"]) == found["usage"]["calls"] == earlier_calls + 1
    assert found["models"]["reporter"]["model"] == "openai:stub"
    assert parse_document(json.dumps(found).encode())["reader_summary"] == found["reader_summary"]
    page = report(found, "html")
    assert "They lay eggs.<a" in page
    assert "It is so." not in page
    assert "What speaks for it" in page
    assert "This would change the verdict:" in page
    assert "how many &lt;b&gt;" in page
    for one in (page, report(found, "md")):
        assert "2 more sentences were left out, as each must rest on a checked quote" in one
    assert "the debate has no summary for readers" not in page
    assert "the debate has no summary for readers" in report(document, "html")


async def test_a_document_with_a_forged_summary_is_refused(start_stub: StartStub) -> None:
    start_stub([{"fields": SUMMARY}])
    forged = await with_summary(await quoted_document(), {"model": "openai:stub"})
    forged["reader_summary"]["sentences"][0]["citations"][0]["end"] += 1
    with pytest.raises(UserError, match="was not checked"):
        parse_document(json.dumps(forged).encode())


async def test_the_call_of_a_summary_is_stored_with_its_debate(
    start_stub: StartStub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    stub = start_stub([{"fields": SUMMARY}])
    document, settings = await quoted_document(), {"model": "openai:stub"}
    document["id"] = open_store().begin("tool_mad", {"claim": "A claim."}, {}).id
    found = await with_summary(document, settings, "record")
    [row] = open_store().runs()
    assert (row.id, row.calls) == (document["id"], 1)
    open_store().end(document["id"], "interrupted")  # as if killed before its document was written
    open_store().begin("tool_mad", {"claim": "A claim."}, {}, id=document["id"])
    again = await with_summary(document, settings, "record")
    replayed = await with_summary(document, settings, "replay")
    assert found["reader_summary"] == again["reader_summary"] == replayed["reader_summary"]
    assert again["calls"][-1]["from_store"]
    assert len(stub.calls()) == 1
    await with_summary(document, settings)
    assert len(stub.calls()) == 2


async def test_a_debate_without_a_checked_quote_gets_an_empty_summary_without_a_call(start_stub: StartStub) -> None:
    start_stub([{"status": 500}])
    document = await a_debate()
    for turn in document["turns"]:
        turn["citations"] = []
    state = await graph.ainvoke({"document": document}, context=ReaderSettings(model="openai:stub"))
    assert state["reader_summary"]["sentences"] == []
    assert not state.get("calls")


@pytest.mark.parametrize("bound", [{"max_calls": 1}, {"budget": 1}, {"max_seconds": 0.0001}])
async def test_a_debate_that_used_up_a_ceiling_gets_a_warning_and_no_summary(bound: dict[str, Any]) -> None:
    document = await quoted_document()
    document["calls"][0] |= {"prompt_tokens": 5, "completion_tokens": 5}
    document["settings"] |= {"reader_summary": True, "models": {"reporter": "openai:stub"}, **bound}
    document["seconds"] = max(document["seconds"], 0.01)
    found = await summarised(document)
    assert "reader_summary" not in found
    assert [one["kind"] for one in found["warnings"]][-1:] == ["no_reader_summary"]
    assert found["answer"] == document["answer"]


async def test_a_summary_gets_the_remaining_calls_of_its_debate() -> None:
    document = await quoted_document()
    document["settings"] |= {"max_calls": len(document["calls"]) + 2}
    assert summary_settings(document)["max_calls"] == 2


async def test_a_debate_without_the_setting_or_on_a_demonstration_model_is_not_summarised() -> None:
    document = await quoted_document()
    assert await summarised(document) is document
    document["settings"] |= {"reader_summary": True}
    assert document["settings"]["model"] == "fake:3"
    assert await summarised(document) is document


async def test_a_summary_that_failed_is_not_asked_for_again(start_stub: StartStub) -> None:
    stub = start_stub([{"status": 401}])
    document = await quoted_document()
    document["settings"] |= {"reader_summary": True, "models": {"reporter": "openai:stub"}}
    failed = await summarised(document)
    sent = len(stub.requests())
    assert [one["kind"] for one in failed["warnings"]][-1:] == ["no_reader_summary"]
    assert await summarised(failed) is failed
    assert len(stub.requests()) == sent == 1
