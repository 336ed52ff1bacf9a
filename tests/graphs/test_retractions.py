"""Retracted works in a debate: what agents are told, the warnings, and the report."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web
from moot.graphs.rag import RagSettings, graph
from moot.retrievers._evidence import evidence_id
from moot.transcript.report.report import report

from tests.conftest import StartStub
from tests.retrievers.conftest import Serve, serve  # noqa: F401
from tests.retrievers.vendors import CROSSREF, NOTICE, OPENALEX, WORK, crossref_reply, starter

QUOTE = "Less is more."
ID = evidence_id(str(WORK["doi"]), "Less is more. Less surgery.")


@pytest.mark.parametrize(
    ("marked", "crossref", "kinds"),
    [
        (True, None, ["retracted_evidence", "rests_on_retracted"]),
        (False, crossref_reply(**{"1": [NOTICE]}), ["retracted_evidence", "rests_on_retracted"]),
        (False, crossref_reply(), []),
        (False, "<html>", ["retractions_unknown"]),
    ],
    ids=["openalex", "crossref", "not retracted", "crossref fails"],
)
async def test_a_retracted_work_is_marked_for_agents_and_readers(
    serve: Serve,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    start_stub: StartStub,
    marked: bool,
    crossref: str | None,
    kinds: list[str],
) -> None:
    start = starter(serve, monkeypatch)
    await start(OPENALEX, found={"/works": json.dumps({"results": [WORK | {"is_retracted": marked}]})})
    asked = await start(CROSSREF, lambda n: web.Response(text=crossref))
    stub = start_stub(
        [
            {
                "fields": {
                    "keywords": ["hydrocele"],
                    "answer": "SUPPORTS",
                    "citations": [{"evidence_id": ID, "quote": QUOTE}],
                }
            }
        ]
    )
    settings = RagSettings.model_validate(
        {"model": "openai:stub", "sources": ["openalex"], "check_retractions": True, "source_summaries": "none"}
    )
    document: dict[str, Any] = await graph.ainvoke({"claim": "Surgery helps."}, context=settings)
    assert document["status"] == "done", document["error"]
    of_interest = [w["kind"] for w in document["warnings"] if "retract" in w["kind"]]
    assert sorted(of_interest) == sorted(kinds)
    retracted = bool(kinds) and "retractions_unknown" not in kinds
    assert any('retracted="yes' in prompt for prompt in stub.prompts()) == retracted
    assert (report(document, "html").count("notice of retraction") > 0) == retracted
    assert ("notice of retraction" in report(document, "md")) == retracted
    assert len(asked.paths) == (0 if marked else 1)
