"""Sites and the claim's own page in a debate: what agents read, warnings, settings and options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from moot.cli.options import read_site_labels, read_sites
from moot.core.errors import UserError
from moot.graphs.rag import RagSettings, graph
from moot.retrievers._evidence import evidence_id
from moot.transcript.report.report import report
from pydantic import ValidationError

from tests.conftest import StartStub
from tests.retrievers.conftest import Serve, serve  # noqa: F401
from tests.retrievers.vendors import TAVILY, TAVILY_RESULT, starter, tavily_reply

OWN = TAVILY_RESULT | {"url": "https://paper.example.org/story", "content": "The lake is 5,000 metres deep."}
OTHER = TAVILY_RESULT | {"url": "https://lakes.example.com/", "content": "The lake is 1,642 metres deep."}
PAGE = "https://www.paper.example.org/other"


async def debate(page: str | None = None, **settings: Any) -> dict[str, Any]:
    chosen = RagSettings.model_validate({"model": "openai:stub", "sources": ["tavily"], **settings})
    asked: Any = {"claim": "The lake is 5,000 metres deep.", "appeared_at": page}
    document: dict[str, Any] = await graph.ainvoke(asked, context=chosen)
    assert document["status"] == "done", document["error"]
    return document


@pytest.fixture(autouse=True)
async def web(serve: Serve, monkeypatch: pytest.MonkeyPatch, start_stub: StartStub) -> Any:  # noqa: F811
    await starter(serve, monkeypatch)(TAVILY, found={"/search": tavily_reply(OWN, OTHER)})
    return start_stub([{"fields": {"answer": "REFUTES", "citations": []}}])


@pytest.mark.parametrize("use", ["left_out", "marked", "evidence"])
async def test_no_verdict_rests_on_the_claims_own_page(use: str, web: Any) -> None:
    document = await debate(PAGE, claim_page=use)
    hosts = [piece["url"] for piece in document["evidence"]]
    assert (OWN["url"] in hosts) == (use != "left_out")
    assert OTHER["url"] in hosts
    assert ("claim_page_left_out" in [w["kind"] for w in document["warnings"]]) == (use == "left_out")
    assert any("claim_page=" in prompt for prompt in web.prompts()) == (use == "marked")
    assert f'It appeared here: <a class="url" href="{PAGE}"' in report(document, "html")


async def test_the_claims_own_address_needs_no_scheme_and_has_no_password() -> None:
    assert (await debate(PAGE.removeprefix("https://")))["task"]["appeared_at"] == PAGE
    for address, why in (("ftp://example.org/", "must be the address"), ("https://me:pw@example.org/", "password")):
        with pytest.raises(AssertionError, match=why):
            await debate(address)


async def test_sites_and_their_labels_reach_agents_and_readers(web: Any) -> None:
    document = await debate(sites_never=["paper.example.org"], site_labels={"example.com": "a club of divers"})
    [piece] = document["evidence"]
    assert (piece["url"], piece["site_label"]) == (OTHER["url"], "a club of divers")
    assert any('site="a club of divers"' in prompt for prompt in web.prompts())
    assert "your label: a club of divers" in report(document, "html")
    assert [w["kind"] for w in document["warnings"]].count("sites_left_out") == 1
    only = await debate(sites_only=["other.example"])
    assert only["evidence"] == []


async def test_what_somebody_said_may_be_shown_by_the_claims_own_page(start_stub: StartStub) -> None:
    quote = {"evidence_id": evidence_id(OWN["url"], OWN["content"]), "quote": OWN["content"]}
    start_stub([{"fields": {"answer": "SUPPORTS", "citations": [quote]}}])
    document = await debate(PAGE, claim_page="marked")
    assert document["answer"] == "SUPPORTS"
    assert "rests_on_claim_page" in [w["kind"] for w in document["warnings"]]


@pytest.mark.parametrize(
    "settings", [{"sites_only": ["a b"]}, {"site_labels": {"a.org": 'x" y="z'}}, {"site_labels": {"a.org": "<b>"}}]
)
def test_settings_that_could_forge_a_tag_or_name_no_site_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RagSettings.model_validate(settings)


def test_options_read_sites_and_labels_from_files(tmp_path: Path) -> None:
    (tmp_path / "sites.txt").write_text("# mine\nwho.int\n\ngov.uk # all\n")
    assert read_sites(str(tmp_path / "sites.txt")) == ["who.int", "gov.uk"]
    assert read_sites("who.int, gov.uk") == ["who.int", "gov.uk"]
    (tmp_path / "labels.csv").write_text('domain,label,weight\nexample.org,"a party, its site",0.2\n')
    assert read_site_labels(tmp_path / "labels.csv") == {"example.org": "a party, its site, 0.2"}
    (tmp_path / "labels.csv").write_text("example.org\n")
    with pytest.raises(UserError, match="row 1"):
        read_site_labels(tmp_path / "labels.csv")
