"""A second opinion on a verdict: blind to the debate, recorded and shown, and never in place of the verdict."""

from __future__ import annotations

import json
from typing import Any

import pytest
from moot.graphs import load_graph
from moot.nodes._steps.second_opinion import normalised, opinion_on, opinion_reply
from moot.nodes._texts.task import make_task
from moot.nodes._texts.verdict import outcome_in_words
from moot.transcript import round_sections
from moot.transcript.report.report import report

from tests.conftest import StartStub
from tests.graphs.test_warrants import CLAIM, CLOSED, GIVEN, OPENED, answers, check, warned

READS = "Others have answered"


def thinks(**shares: float) -> dict[str, Any]:
    """A rule for the reviewer, with probabilities by the first letters of labels."""
    labels = make_task("fever")["labels"]
    given = {label: shares.get(label[0].lower(), 0.0) for label in labels}
    return {"match": READS, "reply": json.dumps({"reason": "So it says.", "probabilities": given})}


@pytest.mark.parametrize(("below", "doubted"), [(None, False), (0.2, False), (0.3, True)])
async def test_a_second_opinion_is_blind_and_flags_doubt(
    start_stub: StartStub, below: float | None, doubted: bool
) -> None:
    said = answers("SUPPORTS", CLOSED)
    said["fields"]["rationale"] = "Said by the debater."
    stub = start_stub([thinks(s=0.2, r=0.5, n=0.1), said])
    settings: dict[str, Any] = {"second_opinion": True, "doubt_below": below, "assess": False}
    document = await check(models={"reviewer": "openai:stub-reviewer"}, **settings)
    found = document["metrics"]["second_opinion"]
    assert found == {
        "answer": "REFUTES", "certainty": 0.625, "probability": 0.25, "agrees": False, "doubted": doubted,
    }  # fmt: skip
    assert document["answer"] == "SUPPORTS"
    (prompt,) = stub.prompts("reviewer")
    assert CLOSED in prompt
    assert OPENED in prompt
    assert "Said by the debater" not in prompt
    assert "If the evidence covers only part of the claim, decide by that part" in prompt
    told = [line.text for section in round_sections(document) for line in section.lines]
    assert any("REFUTES 0.62, SUPPORTS 0.25" in text for text in told)
    assert ("doubted" in warned(document)) == doubted
    for text in (outcome_in_words(document), report(document, "html"), report(document, "md")):
        assert ("a probability of 0.25" in text.replace("\\", "")) == doubted


async def test_without_a_usable_opinion_the_verdict_stays(start_stub: StartStub) -> None:
    start_stub([{"match": READS, "reply": "no"}, answers("SUPPORTS", CLOSED)])
    document = await check(second_opinion=True, doubt_below=0.9, assess=False)
    assert (document["answer"], document["stop_reason"]) == ("SUPPORTS", "single_pass")
    assert "second_opinion" not in document["metrics"]
    assert "opinion_missing" in warned(document)
    assert "doubted" not in warned(document)


async def test_a_task_without_labels_has_no_second_opinion(start_stub: StartStub) -> None:
    start_stub([])
    system = load_graph("rag")
    settings = system.settings.model_validate({"model": "openai:stub", "retrieval": "none", "second_opinion": True})
    document = await system.graph.ainvoke({"claim": CLAIM, "given": GIVEN, "task": "short_answer"}, context=settings)
    assert document["error"]["kind"] == "invalid_setting"
    assert document["calls"] == []


def test_probabilities_by_hand() -> None:
    assert normalised({"a": 0.6, "b": 0.2}) == {"a": 0.75, "b": 0.25}
    with pytest.raises(ValueError, match="above 0"):
        normalised({"a": 0.0, "b": 0.0})
    assert opinion_on("b", {"a": 0.5, "b": 0.5}, 0.5) == {
        "answer": "a", "certainty": 0.5, "probability": 0.5, "agrees": False, "doubted": False,
    }  # fmt: skip
    kind = opinion_reply(make_task("averitec"))
    given = {"supported": 0.5, "refuted": 0.5, "not enough evidence": 0, "conflicting evidence/cherrypicking": 0}
    assert kind.model_validate({"reason": "r", "probabilities": given}).probabilities["Supported"] == 0.5
    with pytest.raises(ValueError, match="Refuted"):
        kind.model_validate({"reason": "r", "probabilities": {"Supported": 1}})
