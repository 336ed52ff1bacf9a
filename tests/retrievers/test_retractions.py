"""Retracted works: OpenAlex's and PubMed's own marks, Crossref's notices, and merged copies of one abstract."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from moot.retrievers import make_evidence, open_retriever
from moot.retrievers._evidence import merge_evidence
from moot.retrievers._normalise import Rules, normalise
from moot.retrievers._retractions import RetractionNotices, doi_of, with_notices, with_titles

from .conftest import Serve
from .vendors import CORRECTION, CROSSREF, NOTICE, OPENALEX, PUBMED, WORK, crossref_reply, efetch_reply, record, starter


async def test_openalex_marks_retracted_works(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    works = [WORK | {"is_retracted": True}, WORK | {"id": "https://openalex.org/W2", "is_retracted": False}]
    server = await starter(serve, monkeypatch)(OPENALEX, found={"/works": json.dumps({"results": works})})
    first, second = await (await open_retriever("openalex")).search("hydrocele", 2)
    assert (first.get("retracted"), second.get("retracted")) == ("https://openalex.org/W1", None)
    assert "is_retracted" in server.queries[0]["select"]


@pytest.mark.parametrize(
    ("more", "retracted"),
    [
        ("<PublicationTypeList><PublicationType>Retracted Publication</PublicationType></PublicationTypeList>", "11"),
        (
            '<CommentsCorrectionsList><CommentsCorrections RefType="RetractionIn"><RefSource>J. 2020</RefSource>'
            "<PMID>99</PMID></CommentsCorrections></CommentsCorrectionsList>",
            "99",
        ),
        ("<PublicationTypeList><PublicationType>Retraction of Publication</PublicationType></PublicationTypeList>", ""),
        (
            '<CommentsCorrectionsList><CommentsCorrections RefType="ErratumIn"><PMID>98</PMID></CommentsCorrections>'
            "</CommentsCorrectionsList>",
            "",
        ),
    ],
    ids=["type", "notice", "the notice itself", "erratum"],
)
async def test_pubmed_marks_retracted_papers(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, more: str, retracted: str
) -> None:
    marked = record("11").replace("</MedlineCitation>", f"{more}</MedlineCitation>")
    assert more in marked
    await starter(serve, monkeypatch)(PUBMED, found=PUBMED.found | {"/efetch.fcgi": efetch_reply(marked)})
    [piece] = await (await open_retriever("pubmed")).search("vitamin c", 1)
    assert (piece["source"], piece.get("retracted", "")) == (
        "PubMed 11",
        f"https://pubmed.ncbi.nlm.nih.gov/{retracted}/" if retracted else "",
    )


async def test_crossref_is_asked_once_for_all_works(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    found = crossref_reply(A=[CORRECTION, NOTICE], b=[CORRECTION], c=[])
    server = await starter(serve, monkeypatch)(CROSSREF, found={"/works": found})
    monkeypatch.setenv("CROSSREF_MAILTO", "us@example.org")
    pieces = await RetractionNotices().search("10.1000/a 10.1000/b 10.1000/c 10.1000/d", 4)
    assert [(piece["source"], piece["url"]) for piece in pieces] == [("10.1000/a", "https://doi.org/10.1000/notice")]
    [sent] = server.queries
    assert sent["filter"] == "doi:10.1000/a,doi:10.1000/b,doi:10.1000/c,doi:10.1000/d"
    assert (sent["select"], sent["rows"], sent["mailto"]) == ("DOI,updated-by", "4", "us@example.org")


@pytest.mark.parametrize(
    ("address", "doi"),
    [
        ("https://doi.org/10.1000/AB(c)-1", "10.1000/ab(c)-1"),
        ("http://dx.doi.org/10.1000%2Fab?x=1", "10.1000/ab"),
        ("doi:10.1000/ab", "10.1000/ab"),
        ("https://journal.example/doi/10.1000/ab/full", ""),
        ("https://doi.org/10.1000/a,doi:10.1000/b", ""),
    ],
)
def test_only_what_is_written_as_a_doi_is_one(address: str, doi: str) -> None:
    assert doi_of(make_evidence(text="Abstract.", source=address, url=address)) == doi


def test_a_marked_and_an_unmarked_copy_of_an_abstract_are_one_marked_piece() -> None:
    text = "Patients of the first group recovered in nine days, and those of the second group in twelve days."
    plain = make_evidence(text=text, source="https://doi.org/10.1000/a", retriever="openalex")
    marked = make_evidence(text=text, source="PubMed 1", retriever="pubmed", retracted="https://example.org/notice")
    for found in ([[plain], [marked]], [[marked], [plain]]):
        [merged] = normalise(found, Rules(3), datetime.now(UTC))
        assert merged["retracted"] == "https://example.org/notice"
    [known] = merge_evidence([plain], with_notices([plain], {"10.1000/a": "https://doi.org/10.1000/n"}))
    assert known["retracted"] == "https://doi.org/10.1000/n"


@pytest.mark.parametrize(
    ("title", "marked"),
    [
        ("RETRACTED: Masks and mirrors", True),
        ("[Withdrawn] Masks and mirrors", True),
        ("Retracted article: Masks", True),
        ("Retracted papers are still cited", False),
        ("Retraction: Masks and mirrors", False),
        ("Masks (retracted)", False),
    ],
)
def test_a_work_whose_title_says_that_it_was_retracted_is_marked(title: str, marked: bool) -> None:
    [piece] = with_titles([make_evidence(title=title, text="They help.", source="a journal")])
    assert piece.get("retracted") == ("its title" if marked else None)
