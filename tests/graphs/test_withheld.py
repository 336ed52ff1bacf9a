"""Verdicts whose checked quotes are all from texts that do not decide are withheld."""

from __future__ import annotations

from typing import Any

import pytest
from moot.graphs.rag import RagSettings, graph
from moot.nodes._texts.verdict import outcome_in_words
from moot.retrievers._evidence import evidence_id
from moot.transcript.report.report import report

from tests.conftest import StartStub
from tests.retrievers.conftest import Serve, serve  # noqa: F401
from tests.retrievers.vendors import FACT_CHECKS, TAVILY, TAVILY_RESULT, starter, tavily_reply

CHECK = "Lake Facts rated the claim “Lake Baikal is 5,000 metres deep.” by A travel blog: False."
OTHER = "Soundings of the lake found 1,642 metres."


def cites(*texts: str) -> list[dict[str, str]]:
    sources = {CHECK: "Lake Facts", OTHER: str(TAVILY_RESULT["url"])}
    return [{"evidence_id": evidence_id(sources[text], text), "quote": text} for text in texts]


@pytest.mark.parametrize(
    ("quoted", "settings", "task", "answer"),
    [
        ([CHECK], {}, "fever", "NOT ENOUGH INFO"),
        ([CHECK], {}, "hover", None),
        ([CHECK, OTHER], {}, "fever", "REFUTES"),
        ([CHECK], {"fact_checks_decide": True}, "fever", "REFUTES"),
        ([], {}, "fever", "REFUTES"),
    ],
    ids=["open", "none", "another quote", "allowed", "no quote"],
)
async def test_a_verdict_that_only_repeats_others_is_withheld(
    serve: Serve,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    start_stub: StartStub,
    quoted: list[str],
    settings: dict[str, Any],
    task: str,
    answer: str | None,
) -> None:
    start = starter(serve, monkeypatch)
    await start(FACT_CHECKS)
    await start(TAVILY, found={"/search": tavily_reply(TAVILY_RESULT | {"content": OTHER})})
    said = "NOT_SUPPORTED" if task == "hover" else "REFUTES"
    stub = start_stub([{"fields": {"answer": said, "citations": cites(*quoted)}}])
    chosen = RagSettings.model_validate({"model": "openai:stub", "sources": ["fact_checks", "tavily"], **settings})
    document: dict[str, Any] = await graph.ainvoke(
        {"claim": "Lake Baikal is 5,000 metres deep.", "task": task}, context=chosen
    )
    assert (document["status"], document["answer"], document["raw_verdict"]) == ("done", answer, said)
    withheld = answer != said
    assert document["metrics"].get("withheld", False) == withheld
    warned = [w["kind"] for w in document["warnings"]]
    assert warned.count("verdict_withheld") == withheld
    assert any('fact_check="yes' in prompt for prompt in stub.prompts())
    assert ("withheld" in outcome_in_words(document)) == withheld
    for kind in ("html", "md"):
        assert ("which do not decide" in report(document, kind)) == withheld
        assert "a verdict of others" in report(document, kind)
