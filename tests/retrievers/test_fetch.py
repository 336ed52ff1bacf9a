"""Fetching web pages that a user names, only from checked addresses. The pages are stored unchanged."""

from __future__ import annotations

import asyncio
import codecs
import gc
import hashlib
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.core.errors import MootError, UserError
from moot.nodes._claims.reading import read_article
from moot.nodes._texts.given import check_given
from moot.nodes._texts.given_files import read_given
from moot.retrievers._corpus import corpus_state, digest_of, index_passages
from moot.retrievers._documents import fetch as fetching
from moot.retrievers._documents.fetch import fetch, is_public, private_address_of
from moot.retrievers._encoders import DEFAULT_ENCODER
from moot.retrievers._evidence import Retriever
from moot.retrievers._files import read_page
from moot.retrievers._local import Bm25Retriever, open_chroma, open_rows
from moot.transcript.report.report import report

from tests.papers import docx, paragraph, pdf
from tests.retrievers.test_documents import ARTICLE
from tests.web.documents import a_debate, with_evidence
from tests.workbooks import workbook

POLISH = "Żółw waży 12 kg."
RESPONSES: dict[str, tuple[int, dict[str, str], bytes]] = {
    "/page": (200, {"content-type": "text/html; charset=utf-8"}, ARTICLE.encode()),
    "/download": (200, {"content-type": "application/octet-stream"}, pdf(["Opened in 1869."])),
    "/as-text": (200, {"content-type": "text/plain; charset=iso-8859-1"}, pdf(["Opened in 1869."])),
    "/letter": (200, {"content-type": "application/zip"}, docx(paragraph("Opened in 1869."))),
    "/report.pdf": (200, {"content-type": "application/pdf"}, pdf(["Opened in 1869.", "No locks."], title="Canals")),
    "/iso-8859-2": (200, {"content-type": "text/plain; charset=iso-8859-2"}, POLISH.encode("iso-8859-2")),
    "/wrong-encoding": (200, {"content-type": "text/plain; charset=iso-8859-1"}, POLISH.encode()),
    "/byte-order-mark": (
        200,
        {"content-type": "text/plain; charset=iso-8859-1"},
        codecs.BOM_UTF16_LE + POLISH.encode("utf-16le"),
    ),
    "/utf-16": (200, {"content-type": "text/plain; charset=utf-16le"}, POLISH.encode("utf-16le")),
    "/idna": (200, {"content-type": "text/plain; charset=idna"}, POLISH.encode()),
    "/moved": (302, {"location": "/page"}, b""),
    "/sent-on": (
        200,
        {"content-type": "text/html"},
        b"<meta http-equiv='Refresh' content='0; URL=&quot;page&quot;'>Wait.",
    ),
    "/sent-on-by-header": (200, {"refresh": "0;url=/page"}, b"Wait."),
    "/stays": (
        200,
        {"content-type": "text/html"},
        b"<!-- <meta http-equiv=refresh content='0;url=/loop'> --><meta http-equiv=refresh content='300;url=/loop'>"
        b"<noscript><meta http-equiv=refresh content='0;url=/loop'></noscript>"
        b"<meta http-equiv=refresh content='1'><p>It was opened in 1869.",
    ),
    "/sent-to-private-host": (200, {}, b"<meta content=0;http://inner.test/ http-equiv=refresh>"),
    "/to-private-address": (302, {"location": "http://169.254.169.254/latest/meta-data"}, b""),
    "/to-private-host": (302, {"location": "http://inner.test/"}, b""),
    "/to-file": (302, {"location": "file:///etc/passwd"}, b""),
    "/loop": (302, {"location": "/loop"}, b""),
    "/to-invalid-address": (302, {"location": "http://[bad"}, b""),
    "/workbook": (
        200,
        {"content-type": "application/octet-stream"},
        workbook({"A": [["Year", "Cost"], ["1869", "300"]]}),
    ),
    "/not-found": (200, {"content-type": "text/html"}, b"<title>Page not found</title><p>Try the search."),
    "/struck": (200, {"content-type": "text/html"}, b"<p>It cost <del>200</del> 300 francs.</p>"),
    "/picture": (200, {"content-type": "image/png"}, b"\x89PNG"),
    "/missing": (404, {"content-type": "text/html"}, b"no"),
    "/large": (200, {"content-type": "text/plain"}, b"x" * 5000),
}


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """The address of a local server that sends `RESPONSES`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, content = RESPONSES[self.path]
            self.send_response(status)
            for name, value in ({"content-length": str(len(content))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    monkeypatch.setenv("MOOT_FETCH_HOSTS", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("path", ["/iso-8859-2", "/wrong-encoding", "/byte-order-mark", "/utf-16", "/idna"])
def test_a_page_is_decoded_even_if_its_declared_encoding_is_wrong_or_not_accepted(
    path: str, site: str, tmp_path: Path
) -> None:
    assert [passage.text for passage in read_page(site + path)] == [POLISH]
    assert [piece["text"].removeprefix("\ufeff") for piece in read_given(site + path)] == [POLISH]
    fetched = fetch(site + path)
    assert fetched.file.read_bytes() == RESPONSES[path][2]


@pytest.mark.parametrize("path", ["/download", "/as-text", "/letter"])
def test_a_document_is_read_whatever_kind_the_server_says_it_is(path: str, site: str) -> None:
    assert [passage.text for passage in read_page(site + path)] == ["Opened in 1869."]


def test_a_page_that_sends_its_readers_on_is_a_redirect(site: str) -> None:
    for path in ("/sent-on", "/sent-on-by-header"):
        assert {passage.url for passage in read_page(site + path)} == {f"{site}/page"}
    [passage] = read_page(f"{site}/stays")
    assert (passage.url, passage.text) == (f"{site}/stays", "It was opened in 1869.")


def test_a_page_is_read_and_stored_unchanged(site: str, tmp_path: Path) -> None:
    passages = read_page(f"{site}/moved")
    assert {(p.source, p.url, p.published) for p in passages} == {("127.0.0.1", f"{site}/page", "2019-05-20")}
    [about] = (tmp_path / "fetched").glob("*.json")
    known = json.loads(about.read_text())
    content = (tmp_path / "fetched" / known["file"]).read_bytes()
    assert (content, known["sha256"]) == (ARTICLE.encode(), hashlib.sha256(ARTICLE.encode()).hexdigest())
    assert (known["url"], known["from_url"]) == (f"{site}/moved", f"{site}/page")
    assert known["retrieved"].endswith("+00:00")
    first, second = read_given(f"{site}/report.pdf")
    assert (first["page"], second["page"], second["url"], second["title"]) == ("1", "2", f"{site}/report.pdf", "Canals")


def test_a_refusal_and_a_note_name_the_address(site: str) -> None:
    """Not the file in which the page is stored. The note is with each text and passage."""
    for read in (read_page, read_given, read_article):
        with pytest.raises(UserError, match=f"^{site}/not-found cannot be read: it is a page in place of the content"):
            read(f"{site}/not-found")
    notes: list[str] = []
    note = "text that is struck out is left out (“200”)"
    [passage] = read_page(f"{site}/struck", notes.append)
    assert (notes, passage.note, passage.text) == ([f"{site}/struck: {note}."], note, "It cost 300 francs.")
    [given] = check_given(read_given(f"{site}/struck"))
    assert (given["note"], given["title"], given["source"]) == (note, "127.0.0.1", "127.0.0.1")
    article = read_article(f"{site}/struck")
    assert (article["note"], article["source"]) == (note, "127.0.0.1")
    assert read_page(f"{site}/workbook")[0].text == "Year: 1869; Cost: 300"


async def test_evidence_has_the_fetch_time_and_the_hash_of_its_page(site: str, tmp_path: Path) -> None:
    """Both evidence from a corpus and evidence from a given page have them. A report shows them."""
    passages = await asyncio.to_thread(read_page, f"{site}/report.pdf")
    await index_passages("canals", passages)
    known = json.loads(next((tmp_path / "fetched").glob("*.json")).read_text())
    expected = (known["retrieved"], hashlib.sha256(RESPONSES["/report.pdf"][2]).hexdigest())
    given = check_given(await asyncio.to_thread(read_given, f"{site}/report.pdf"))
    state = await asyncio.to_thread(corpus_state, "canals")
    sources: list[Retriever] = [
        Bm25Retriever("canals", await open_rows("canals", state)),
        await open_chroma("canals", DEFAULT_ENCODER),
    ]
    found = [piece for source in sources for piece in await source.search("When was it opened?", 2)]
    assert {(piece["fetched"][:10], piece["sha256"]) for piece in (*given, *found)} == {(expected[0][:10], expected[1])}
    assert {piece["fetched"] for piece in found} == {expected[0]}
    document = with_evidence(await a_debate(), 1)
    document["evidence"][0] |= {"fetched": "2026-11-23T07:50:10+00:00", "sha256": expected[1]}
    for kind in ("html", "md"):
        written = report(document, kind)
        assert "read 23 November 2026, 07:50 UTC" in written
        assert expected[1] in written


async def test_the_digest_of_passages_does_not_depend_on_their_fetch_time(site: str) -> None:
    page = await asyncio.to_thread(read_page, f"{site}/report.pdf")
    later = [passage.model_copy(update={"fetched": "2030-01-01T00:00:00+00:00"}) for passage in page]
    assert digest_of(page) == digest_of(later)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/to-private-address", "169.254.169.254 is in a private network"),
        ("/sent-to-private-host", "inner.test is in a private network (10.0.0.7)"),
        ("/to-private-host", "inner.test is in a private network (10.0.0.7)"),
        ("/to-file", "must begin with http:// or https://"),
        ("/loop", "redirects more than 5 times"),
        ("/to-invalid-address", "cannot be reached"),
        ("/picture", "is image/png, which is not supported"),
        ("/missing", "HTTP 404"),
        ("/large", "more than 0 MiB"),
    ],
)
def test_refused_and_failed_fetches_give_clear_errors(
    site: str, path: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_look_up = socket.getaddrinfo

    def look_up(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        return real_look_up("10.0.0.7" if host == "inner.test" else host, port, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(fetching, "LARGEST", 4000)
    with pytest.raises(MootError) as caught:
        fetch(site + path)
    assert message in caught.value.detail
    del caught
    # Collect garbage now, so that an unclosed connection fails this test and not a later one.
    gc.collect()


def test_a_page_that_cannot_be_stored_gives_an_error_about_the_folder(site: str, tmp_path: Path) -> None:
    (tmp_path / "fetched").write_text("a file where the folder should be")
    with pytest.raises(UserError, match=r"^Web pages cannot be stored in .*fetched"):
        fetch(f"{site}/page")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/",
        "http://localhost:9/",
        "http://[::1]:9/",
        "http://[::ffff:10.0.0.1]/",
        "http://2130706433:9/",
        "http://0.0.0.0:9/",
        "http://user:secret@example.org/",
        "ftp://example.org/",
    ],
)
def test_private_addresses_passwords_and_ftp_are_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOOT_FETCH_HOSTS", raising=False)
    with pytest.raises(
        MootError, match=r"private network|name or a password|must begin with http|not a canonical IPv4"
    ):
        fetch(url)


def test_only_public_addresses_pass_the_check() -> None:
    assert all(map(is_public, ("1.1.1.1", "2606:4700::1111", "64:ff9b::101:101", "2002:101:101::1", "::ffff:1.1.1.1")))
    not_public = ("10.1.2.3", "100.64.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "224.0.0.1", "0.0.0.0")
    more = ("255.255.255.255", "240.0.0.1", "198.18.0.1", "192.0.2.1", "ff02::1", "2001:db8::1", "100::1", "::1", "::")
    wrapped = ("::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "fe80::1%eth0", "fc00::1")
    # Ranges that are not public whatever IPv4 address they contain: compatible, translated, site-local, local NAT64.
    ranges = ("::101:101", "::ffff:0:101:101", "fec0::1", "64:ff9b:1::101:101", "2001:0:101:101::fefe:fefe", "4000::1")
    assert [address for address in (*not_public, *more, *wrapped, *ranges) if is_public(address)] == []


@given(st.ip_addresses(v=4))
def test_an_ipv6_address_is_as_public_as_the_ipv4_address_in_it(inner: IPv4Address) -> None:
    number = int(inner)
    for outer in (0xFFFF << 32 | number, 0x64FF9B << 96 | number, 0x2002 << 112 | number << 80):
        assert is_public(str(IPv6Address(outer))) == is_public(str(inner))


def test_a_host_that_changes_its_address_after_a_look_up_is_not_called(
    site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check applies to the address of the connection, not to an earlier look-up of the name."""
    monkeypatch.delenv("MOOT_FETCH_HOSTS")
    real_look_up, answers = socket.getaddrinfo, iter(("1.1.1.1",))

    def look_up(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        return real_look_up(next(answers, "127.0.0.1") if host == "rebinding.test" else host, port, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert private_address_of(f"http://rebinding.test:{site.rpartition(':')[2]}/page") == ""
    with pytest.raises(UserError, match=r"rebinding.test is in a private network \(127.0.0.1\)"):
        fetch(f"http://rebinding.test:{site.rpartition(':')[2]}/page")
