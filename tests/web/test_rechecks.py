"""What looking again finds where no page can be read, and for works that were retracted since."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from aiohttp import web
from moot.core.errors import WorldError
from moot.graphs.rag import RagSettings, graph
from moot.retrievers._evidence import evidence_id
from moot.retrievers._pages import is_gone
from moot.web.rechecks import _if_online, look

from tests.conftest import StartStub
from tests.retrievers.conftest import Serve, serve  # noqa: F401
from tests.retrievers.vendors import CROSSREF, NOTICE, OPENALEX, WORK, crossref_reply, starter

QUOTE = "Less is more."
ID = evidence_id(str(WORK["doi"]), "Less is more. Less surgery.")


@pytest.mark.parametrize(
    ("later", "found", "complete"),
    [
        (crossref_reply(**{"1": [NOTICE]}), "retracted", True),
        (crossref_reply(), "not_read", False),
        ("<html>", "not_read", False),
    ],
    ids=["retracted", "not retracted", "crossref fails"],
)
async def test_a_work_that_was_retracted_since_is_found(
    serve: Serve,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    start_stub: StartStub,
    later: str,
    found: str,
    complete: bool,
) -> None:
    start = starter(serve, monkeypatch)
    await start(OPENALEX, found={"/works": json.dumps({"results": [WORK]})})
    answers = [crossref_reply(), later]
    await start(CROSSREF, lambda n: web.Response(text=answers[min(n, 2) - 1]))
    cited = [{"evidence_id": ID, "quote": QUOTE}]
    start_stub([{"fields": {"keywords": ["hydrocele"], "answer": "SUPPORTS", "citations": cited}}])
    settings = RagSettings.model_validate(
        {"model": "openai:stub", "sources": ["openalex"], "check_retractions": True, "source_summaries": "none"}
    )
    document: dict[str, Any] = await graph.ainvoke({"claim": "Surgery helps."}, context=settings)
    [piece] = document["evidence"]
    piece["url"] = "http://127.0.0.1:9/paper"  # a private address, which is not read
    looked = await look(document)
    [finding] = looked.findings
    assert (finding.found, finding.decides, bool(looked.changed)) == (found, True, found == "retracted")
    assert looked.is_complete == complete
    assert ("is in a private network" in finding.detail) == (found == "not_read")
    assert bool(looked.fault) == (later == "<html>")


def test_only_a_host_without_an_address_is_gone_not_one_that_cannot_be_looked_up_now() -> None:
    def failed(number: int) -> WorldError:
        error = WorldError("http://x.example cannot be reached.", kind="unreachable")
        error.__cause__ = OSError("no connection")
        error.__cause__.__cause__ = socket.gaierror(number, "")
        return error

    assert is_gone(failed(socket.EAI_NONAME))
    assert not is_gone(failed(socket.EAI_AGAIN))
    assert not is_gone(WorldError("HTTP 500", kind="page_not_read"))


def test_without_any_answer_no_host_counts_as_gone() -> None:
    nowhere = WorldError("http://x.example cannot be reached.", kind="unreachable")
    nowhere.__cause__ = socket.gaierror(socket.EAI_NONAME, "")
    broken = WorldError("HTTP 500", kind="page_not_read")
    alone, beside = _if_online({"x": nowhere}), _if_online({"x": nowhere, "y": broken})
    assert [is_gone(pages["x"]) for pages in (alone, beside)] == [False, True]  # type: ignore[arg-type]
