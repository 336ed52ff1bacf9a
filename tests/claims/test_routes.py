"""Routes of the page that finds claims. They read documents, write edited claims as a table, and read tables."""

from __future__ import annotations

from typing import Any

import pytest
from moot.nodes._claims.reading import article_from
from moot.retrievers._documents.parsed import new_document
from moot.web import pages
from starlette.applications import Starlette
from starlette.testclient import TestClient


@pytest.fixture
def client() -> TestClient:
    """A client of the routes."""
    return TestClient(Starlette(routes=pages.ROUTES))


def test_an_uploaded_file_becomes_the_graphs_input(client: TestClient) -> None:
    """The source is the file's name without its folders."""
    page = "<html><head><title>A line</title></head><body><p>It opened in May.</p></body></html>"
    found = client.post("/moot/api/claims/text?name=line.html", content=page).json()
    assert found["source"] == "line.html"
    assert "It opened in May." in found["text"]
    plain = client.post("/moot/api/claims/text?name=../a.txt", content="It opened.").json()
    assert (plain["text"], plain["source"], plain["sections"]) == ("It opened.", "a.txt", [])


@pytest.mark.parametrize("asked", ["name=a.png", "name=", "url=file:///etc/passwd", "url=http://127.0.0.1:1/x"])
def test_unsupported_files_and_addresses_are_refused(client: TestClient, asked: str) -> None:
    answer = client.post(f"/moot/api/claims/text?{asked}", content=b"\x89PNG\r\n")
    assert answer.status_code == 422
    assert answer.json()["detail"]


def test_a_section_starts_at_a_new_page_or_heading() -> None:
    parts = [("One.", "", 1), ("Two.", "", 1), ("Three.", "Cost", 1), ("Four.", "Cost", 2)]
    read = [{"text": text, "heading": heading, "page": page} for text, heading, page in parts]
    parsed: Any = new_document([], "T", "2024")
    parsed["parts"] = read
    found = article_from(parsed, "a.pdf")
    assert found["text"] == "One.\n\nTwo.\n\nThree.\n\nFour."
    assert found["sections"] == [
        {"start": 0, "page": 1, "heading": ""},
        {"start": 12, "page": 1, "heading": "Cost"},
        {"start": 20, "page": 2, "heading": "Cost"},
    ]
    assert found["date"] == "2024"


def test_edited_claims_become_a_table_that_can_be_read_back(client: TestClient) -> None:
    claims = [{"id": "c1", "claim": "It opened, in May.", "date": "2024", "speaker": "Ann"}, {"claim": "My own."}]
    table = client.post("/moot/api/claims/csv", json={"claims": claims, "source": "line.html"})
    assert "attachment" in table.headers["content-disposition"]
    found = client.post("/moot/api/claims/rows?name=claims.csv", content=table.content).json()
    read = [(row["id"], row["claim"], row["claim_date"], row["speaker"], row["group"]) for row in found["rows"]]
    assert read == [
        ("c1", "It opened, in May.", "2024", "Ann", "line.html"),
        ("c2", "My own.", None, None, "line.html"),
    ]
    assert found["notes"] == []  # unread columns of moot's own tables are not reported


def test_unread_columns_of_a_foreign_table_are_reported_as_ignored(client: TestClient) -> None:
    other = client.post("/moot/api/claims/rows?name=a.csv", content="claim,quote,colour\nA.,B.,red\n").json()
    assert other["notes"] == ["These columns are not read: quote, colour."]


def test_a_row_with_an_invalid_date_has_a_problem(client: TestClient) -> None:
    bad = client.post("/moot/api/claims/rows?name=a.csv", content="claim,date\nA.,May\n").json()["rows"]
    assert "problem" in bad[0]


def test_the_name_of_an_upload_says_its_encoding_and_is_in_errors(client: TestClient) -> None:
    for route in ("texts", "claims/text"):
        read = client.post(f"/moot/api/{route}?name=a.windows-1251.txt", content="Мост".encode("cp1251"))
        assert "Мост" in read.text
    empty = client.post("/moot/api/claims/rows?name=empty.csv", content="\n")
    assert empty.json()["detail"] == "empty.csv: it is empty."


INVALID = ["no", "[]", '{"claims": [1]}', '{"claims": [{"claim": " "}]}', '{"claims": [{"claim": "A.", "start": 1}]}']


@pytest.mark.parametrize("body", INVALID)
def test_a_body_without_valid_claims_is_refused(client: TestClient, body: str) -> None:
    assert client.post("/moot/api/claims/csv", content=body).status_code == 422
