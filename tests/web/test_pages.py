"""Tests of the page's routes without a browser: responses, their content security policy, and refusals."""

from __future__ import annotations

import json
import re
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from moot.graphs import DESCRIPTIONS, load_graph
from moot.transcript.language import texts_of
from moot.transcript.words import SEE_VERDICT
from moot.web import debates, pages
from moot.web.live_view import STEPS, debate_view
from starlette.applications import Starlette
from starlette.testclient import TestClient

from tests.web.documents import a_debate

THREAD = "01a200c3-1f9c-7796-acfd-edbddb149c86"


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """A client of the routes; ``MOOT_HOME`` is a new folder."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    return TestClient(Starlette(routes=pages.ROUTES))


def test_every_response_has_the_content_security_policy(client: TestClient) -> None:
    paths = ["/moot", "/moot/debates", "/moot/debates/x", "/moot/static/page.js", "/moot/static/none.js"]
    paths += ["/moot/api/debates", "/moot/api/debates/x", "/moot/api/debates/x/html", "/moot/api/debates?page=x"]
    for path in paths:
        answer = client.get(path)
        assert answer.status_code in (200, 404, 422), path
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_pages_files_name_no_other_origin_and_set_no_inner_html(client: TestClient) -> None:
    for name, (content, _) in pages.STATIC.items():
        text = content.decode()
        assert "innerHTML" not in text
        assert "://" not in text.replace("http://www.w3.org/2000/svg", ""), name
    page = client.get("/moot").text
    assert "<style" not in page
    assert page.count("<script") == page.count('<script type="module" src="/moot/static/page.js"></script>') == 1


@pytest.mark.parametrize(
    ("asked", "cookie", "language", "way"),
    [
        ("de-AT,de;q=0.9,en;q=0.8", None, "de", "ltr"),
        ("pt-BR, fr;q=0.5", None, "fr", "ltr"),
        ("pt", None, "en", "ltr"),
        ("de", "ar", "ar", "rtl"),
        ("de", "xx", "de", "ltr"),
        ("", None, "en", "ltr"),
    ],
)
def test_the_page_speaks_the_chosen_or_the_browsers_language(
    client: TestClient, asked: str, cookie: str | None, language: str, way: str
) -> None:
    headers = {"accept-language": asked} | ({"cookie": f"moot-language={cookie}"} if cookie else {})
    assert f'<html lang="{language}" dir="{way}">' in client.get("/moot", headers=headers).text
    script = client.get("/moot/static/texts.js", headers=headers).text
    assert json.loads(script.removeprefix("export default ").removesuffix(";")) == texts_of(language)


async def test_a_report_on_the_page_speaks_the_claims_language_or_the_asked_one(client: TestClient) -> None:
    document = await a_debate() | {"claim": "Das Schnabeltier ist ein Säugetier, das Eier legt."}
    id = debates.save(document)
    page = client.get(f"/moot/debates/{id}", headers={"accept-language": "fr"}).text
    assert '<html lang="fr" dir="ltr">' in page
    assert 'id="top" lang="de" dir="ltr">' in page
    assert 'id="top" lang="ar" dir="rtl">' in client.get(f"/moot/debates/{id}?language=ar").text
    assert "## ملحق: كيف جرى التدقيق" in client.get(f"/moot/api/debates/{id}/md?language=ar").text
    assert client.get(f"/moot/api/debates/{id}/html?language=xx").status_code == 422


@pytest.mark.parametrize("name", ["index.html", "..%2Fpages.py", "%2e%2e/pages.py", "page.js%00", "x/../page.js"])
def test_paths_of_static_files_reach_no_other_file(client: TestClient, name: str) -> None:
    answer = client.get(f"/moot/static/{name}")
    assert answer.status_code == 404 or answer.content == pages.STATIC["page.js"][0]


def test_the_form_offers_every_graph_and_known_models_and_sources(client: TestClient) -> None:
    found = client.get("/moot/api/choices").json()
    assert {graph["name"]: graph["about"] for graph in found["graphs"]} == DESCRIPTIONS
    assert found["graphs"][0]["settings"]["properties"]["max_rounds"]["maximum"] == 20
    assert {"embedded", "openai:gpt-5-mini"} <= set(found["models"])
    assert {"web", "wikipedia", "hybrid:demo-news"} <= set(found["sources"])


def test_a_second_request_for_the_choices_loads_no_graph(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    first = client.get("/moot/api/choices").json()
    monkeypatch.delattr(pages, "load_graph")
    assert client.get("/moot/api/choices").json()["graphs"] == first["graphs"]


async def test_a_running_debate_is_described_like_a_finished_debate(client: TestClient) -> None:
    """Only two parts differ: a running debate has no end, and its last line has the reasons of the verdict."""
    document = await a_debate()
    id = debates.save(document)
    finished = client.get(f"/moot/api/debates/{id}").json()["said"]
    document["evidence"] = [{**piece, "text": ""} for piece in document["evidence"]]
    document |= {"status": "interrupted", "messages": [None], "calls": []}
    running = client.post("/moot/api/said", json=document).json()
    decided, later = (said["sections"][-1]["lines"] for said in (running, finished))
    reasons = document["turns"][decided[-1]["turn"]]["rationale"]
    answer = document["answer"]
    assert (decided[-1]["text"], later[-1]["text"]) == (f"{answer} - {reasons}", f"{answer} - {SEE_VERDICT}")
    assert [line["text"] for line in finished["end"]["lines"]].count(reasons) == 1
    decided[-1]["text"] = later[-1]["text"]
    assert running == finished | {"end": None}
    early = {**document, "turns": [], "evidence": [], "votes": [], "rounds": 0, "stop_reason": None}
    assert [section["lines"] for section in client.post("/moot/api/said", json=early).json()["sections"]][1:] == []


async def test_the_live_view_has_the_cards_of_the_last_part_and_of_open_parts(client: TestClient) -> None:
    document = await a_debate()
    running = {"graph": document["graph"], "settings": document["settings"], "claim": document["claim"]}
    view = client.post("/moot/api/told", json=running).json()
    assert (view["parts"], view["timeline"], view["count"]) == ([], None, 0)
    assert [name for name, _ in view["names"].values()] == ["Debater A", "Debater B"]
    view = client.post("/moot/api/told", json=document).json()
    assert [bool(part["cards"]) for part in view["parts"]] == [False] * (len(view["parts"]) - 1) + [True]
    opened = client.post("/moot/api/told?open=" + view["parts"][0]["heading"], json=document).json()
    assert opened["parts"][0]["cards"]
    assert opened["timeline"]["columns"][-1] == "Decision"
    assert len(opened["timeline"]["columns"]) == len(opened["timeline"]["rounds"]) + 1  # and the decision


async def test_scores_are_accepted_without_the_answers_that_they_rate(client: TestClient) -> None:
    document = await a_debate()
    answers = [turn for turn in document["turns"] if turn["step"] == "respond"]
    scores = [{**turn, "step": "score", "scores": {"faithfulness": 0.5}} for turn in answers]
    response = client.post("/moot/api/said", json={**document, "turns": scores, "status": "interrupted"})
    assert (bool(scores), response.status_code) == (True, 200)


def test_the_live_view_names_every_node() -> None:
    nodes = {
        name.split(":")[-1] for system in DESCRIPTIONS for name in load_graph(system).graph.get_graph(xray=3).nodes
    }
    assert nodes - {"__start__", "__end__"} <= {*STEPS}


INVALID_SETTINGS = '{"graph": "tool_mad", "settings": 1}'


@pytest.mark.parametrize("body", ["", "[" * 4000, "[]", "1", "{}", '{"graph": [], "settings": {}}', INVALID_SETTINGS])
def test_invalid_bodies_are_refused(client: TestClient, body: str) -> None:
    assert client.post("/moot/api/said", content=body).status_code == 422
    assert client.post("/moot/api/told", content=body).status_code == 422
    assert client.post("/moot/api/added", content=body).status_code == 422


def test_a_text_added_by_a_person_is_evidence_unless_it_is_empty(client: TestClient) -> None:
    [piece] = client.post("/moot/api/added", json=[{"text": "Eggs.", "title": "A note"}]).json()
    assert (piece["title"], piece["retrievals"][0]["agent"]) == ("A note", "person")
    refused = client.post("/moot/api/added", json=[{"text": "\u200b"}])
    assert (refused.status_code, refused.json()["kind"]) == (422, "invalid_given")


async def test_a_document_is_uploaded_shown_downloaded_and_deleted(client: TestClient) -> None:
    document = await a_debate()
    sent = json.dumps(document).encode()
    id = client.post("/moot/api/debates/import", content=sent).json()["id"]
    assert client.get("/moot/api/debates").json()["debates"][0]["id"] == id
    shown = client.get(f"/moot/api/debates/{id}").json()
    assert shown["document"] == document
    assert shown["said"]["end"]["lines"][0]["text"].startswith("Verdict: ")
    for kind in ("json", "md", "html"):
        answer = client.get(f"/moot/api/debates/{id}/{kind}")
        assert answer.headers["content-disposition"] == f'attachment; filename="moot-{id}.{kind}"'
        assert document["claim"] in answer.text
    assert client.get(f"/moot/api/debates/{id}/exe").status_code == 404
    assert client.delete(f"/moot/api/debates/{id}").json() == {}
    assert client.get(f"/moot/api/debates/{id}").status_code == 404


async def test_a_debate_with_an_unknown_setting_has_no_report(client: TestClient) -> None:
    """Another version may have written its document, which can still be read."""
    document = await a_debate()
    document["settings"]["colour"] = "red"
    id = debates.save(document)
    found = client.get(f"/moot/api/debates/{id}").json()
    assert found["document"] == document
    assert "no setting 'colour'" in found["said"]["fault"]
    refused = client.get(f"/moot/api/debates/{id}/html")
    assert (refused.status_code, refused.json()["kind"]) == (422, "invalid_setting")


@pytest.mark.parametrize("body", ["", "[]", "{}", "1" * 5000, "[" * 4000])
def test_only_documents_can_be_uploaded(client: TestClient, body: str) -> None:
    assert client.post("/moot/api/debates/import", content=body).status_code == 422


@pytest.mark.parametrize("id", ["x", THREAD, "0" * 32, f"20260101T000000-{'0' * 32}"])
def test_requests_for_a_missing_debate_are_refused(client: TestClient, id: str) -> None:
    for method, path in (("GET", id), ("DELETE", id), ("POST", f"{id}/resume")):
        assert client.request(method, f"/moot/api/debates/{path}").status_code in (404, 422)


def test_every_setting_except_prompts_has_a_label_on_the_page() -> None:
    named = set(re.findall(r'^  (\w+): t\("', pages.STATIC["fields.js"][0].decode(), re.MULTILINE))
    settings = {name for graph in DESCRIPTIONS for name in load_graph(graph).settings.model_fields}
    assert {name for name in settings - named if not name.endswith("_prompt")} == set()


async def test_the_page_reads_every_field_of_a_part_and_no_other() -> None:
    script = (Path(debates.__file__).parent / "static/view.js").read_text(encoding="utf-8")
    parts = debate_view(await a_debate(), ())["parts"]
    assert set(re.findall(r"\bpart\.(\w+)", script)) == set(parts[0])
    assert all(part["summary_line"] for part in parts[:-1])  # a folded round shows its answers


def test_ticked_evidence_becomes_settings_and_words(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARXNG_BASE_URL", "http://search.example:8888/own")
    assert client.get("/moot/api/choices").json()["web"] == "By SearXNG at search.example"
    body = {"graph": "rag", "words": ["web", "documents"], "corpus": "demo-news", "given": True}
    found = client.post("/moot/api/evidence", json=body).json()
    assert found["settings"] == {"sources": ["hybrid:demo-news", "web"]}
    assert found["used"].startswith("The texts added here, the collection “demo-news” (by meaning and by keyword)")
    assert found["used"].endswith("the web (SearXNG).")
    german = client.post("/moot/api/evidence", json=body, headers={"Accept-Language": "de"}).json()
    assert german["used"].startswith("Die hier hinzugefügten Texte, die Sammlung")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ([], "The body is"),
        ({"graph": "rag", "words": "web"}, "The body is"),
        ({"graph": "rag", "words": ["web"], "corpus": 3}, "The body is"),
        ({"graph": "none", "words": ["web"]}, "no graph"),
        ({"graph": "rag", "words": ["web"]}, "no web search is set up"),
        ({"graph": "rag", "words": ["langchain:os:environ", "x"]}, "'x' is unknown"),
        ({"graph": "rag", "words": ["documents"], "corpus": "../x"}, "corpus"),
        ({"graph": "react", "words": ["documents"], "corpus": "theirs"}, "that you may read"),
    ],
)
def test_evidence_that_cannot_be_used_is_refused(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, body: Any, words: str
) -> None:
    monkeypatch.setattr(pages, "readable_corpora", ContextVar("corpora", default=("mine", "../x")))
    answer = client.post("/moot/api/evidence", json=body)
    assert answer.status_code in (400, 404, 422)
    assert words in answer.json()["detail"]
