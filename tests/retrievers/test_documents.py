"""Reading documents: their pages and headings, their encodings, and unreadable and harmful files."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from moot.cli import index
from moot.core.errors import UserError
from moot.nodes._texts.given import LONGEST_GIVEN, check_given
from moot.nodes._texts.given_files import read_given
from moot.retrievers import index_passages, open_retriever, read_passages
from moot.retrievers._documents import children
from moot.retrievers._files import LONGEST_PARAGRAPH, Passage
from moot.transcript.report.report import report

from tests.commands import moot
from tests.papers import docx, paragraph, pdf, pdf_from_streams

ARTICLE = """<!doctype html><html><head><title>The kilogram</title>
<meta property="article:published_time" content="2019-05-20"><script>steal("every word of this")</script></head>
<body><nav><a href="/">Home</a> <a href="/news">All news</a></nav><article><h1>The kilogram</h1>
<p>Since 20 May 2019 the kilogram has been defined by a fixed value of the Planck constant, not by a cylinder.</p>
<h2>The cylinder</h2><p>Until then it was the mass of a cylinder of platinum that is kept near Paris, in a vault.</p>
<ul><li>It was cast in 1879.</li><li>It is small.</li></ul></article></body></html>"""


def test_the_directory_of_a_zip_file_is_read_in_the_child_process(tmp_path: Path) -> None:
    """It may list millions of files. Here, reading the list of 50,000 would take 20 MB."""
    packed = tmp_path / "many.docx"
    with zipfile.ZipFile(packed, "w") as file:
        for number in range(50_000):
            file.writestr(f"word/{number}.xml", b"")
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match=r"many.docx cannot be read: it is a ZIP file"):
            read_given(packed)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000


def write_files(folder: Path, files: Mapping[str, bytes | str]) -> Path:
    """Write files, given by name, into a folder; return the folder."""
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def error_of(folder: Path, name: str, content: bytes | str) -> str:
    """The reason in the error for a file that cannot be read."""
    with pytest.raises(UserError) as caught:
        list(read_passages(write_files(folder, {name: content}) / name))
    assert caught.value.kind == "invalid_file"
    assert caught.value.detail.startswith(f"{name} cannot be read: ")
    return caught.value.detail.partition(": ")[2]


def test_passages_have_the_page_and_heading_of_their_place(tmp_path: Path) -> None:
    """Passages of a web page also have its date. Each row of a table is a passage.

    There is a notice if a PDF has pages without text.
    """
    long = "The canal has no locks, as the seas at its ends are level. " * 40
    files: dict[str, bytes | str] = {
        "report.pdf": pdf(["It was opened in 1869.", "", long], ["Opening", "Empty", "Locks"], title="Canals"),
        "minutes.docx": docx(
            paragraph("Board", "Heading1") + paragraph("It met.") + paragraph("Money", "Heading2") + paragraph("None.")
        ),
        "page.html": ARTICLE,
        "saved.txt": ARTICLE,
        "towers.csv": "name;height\nEiffel;330 m\n\nBen;96 m\n",
    }
    notes: list[str] = []
    found = list(read_passages(write_files(tmp_path, files), noted=notes.append))
    by_file: dict[str, list[Passage]] = {}
    for passage in found:
        by_file.setdefault(passage.source, []).append(passage)
    first, *rest = by_file["report.pdf"]
    assert (first.id, first.title, first.text) == ("report.pdf#page=1", "Canals: Opening", "It was opened in 1869.")
    assert {(p.page, p.heading) for p in rest} == {("3", "Locks")}
    assert max(len(p.text) for p in rest) <= LONGEST_PARAGRAPH
    assert " ".join(p.text for p in rest).split() == long.split()
    assert notes == ["report.pdf: 1 of its 3 pages contain no text (they are empty or pictures)."]
    assert [(p.heading, p.text) for p in by_file["minutes.docx"]] == [("Board", "It met."), ("Money", "None.")]
    for name in ("page.html", "saved.txt"):
        assert {(p.published, p.heading) for p in by_file[name]} == {
            ("2019-05-20", "The kilogram"),
            ("2019-05-20", "The cylinder"),
        }
        text = " ".join(p.text for p in by_file[name])
        assert "Planck" in text
        assert "cast in 1879" in text
        assert not any(word in text for word in ("steal", "All news", "<"))
    assert [p.text for p in by_file["towers.csv"]] == ["name: Eiffel; height: 330 m", "name: Ben; height: 96 m"]
    assert len({p.id for p in found}) == len(found)


async def test_search_results_have_the_page_and_heading_of_their_passage(tmp_path: Path, empty_home: Path) -> None:
    file = write_files(tmp_path, {"report.pdf": pdf(["Opened in 1869.", "It has no locks."], ["Opening", "Locks"])})
    await index_passages("canals", read_passages(file))
    for kind in ("chroma", "bm25", "hybrid"):
        [piece] = await (await open_retriever(f"{kind}:canals")).search("locks", 1)
        assert (piece["page"], piece["heading"], piece["source"]) == ("2", "Locks", "report.pdf")


def test_documents_given_with_a_claim_keep_pages_and_headings(tmp_path: Path) -> None:
    write_files(tmp_path, {"report.pdf": pdf(["Opened in 1869.", "It has no locks."]), "page.html": ARTICLE})
    first, second = check_given(read_given(tmp_path / "report.pdf"))
    assert (first["page"], second["page"], second["text"], second["source"]) == (
        "1",
        "2",
        "It has no locks.",
        "report.pdf",
    )
    headings = [text["heading"] for text in read_given(str(tmp_path / "page.html"))]
    assert headings == ["The kilogram", "The cylinder"]


def test_what_was_left_out_of_a_document_is_a_warning_of_the_debate(tmp_path: Path, empty_home: Path) -> None:
    """Of a given document, and of one in a corpus."""
    page = "<p>It cost <del>200</del> 300 francs.</p>"
    file = write_files(tmp_path, {"cost.html": page}) / "cost.html"
    indexed = moot("index", file, "--corpus", "costs", "--embedder", "none")
    assert "cost.html: text that is struck out is left out (“200”)." in indexed.stderr
    words = ("verify", "It cost 300 francs.", "--model", "fake:1", "--json")
    corpus = ("--graph", "rag", "--corpus", "costs", "--set", 'sources=["bm25"]')
    for options in (("--graph", "standard_prompting", "--given", file), corpus):
        document = json.loads(moot(*words, *options).stdout)
        warned = [one["detail"] for one in document["warnings"] if one["kind"] == "document_noted"]
        assert warned == ["cost.html: text that is struck out is left out (“200”)."]
        assert "struck out" in report(document, "md")


def test_text_in_utf_16_without_a_mark_is_read(tmp_path: Path) -> None:
    for encoding in ("utf-16-le", "utf-16-be"):
        file = write_files(tmp_path, {"a.txt": "Мост был открыт\nв 1869 году.".encode(encoding)}) / "a.txt"
        assert [p.text for p in read_passages(file)] == ["Мост был открыт\nв 1869 году."]


def test_a_document_that_is_too_long_to_be_given_with_a_claim_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path, {"book.pdf": pdf([f"{n} {'word ' * 300}" for n in range(LONGEST_GIVEN // 1500 + 1)])})
    with pytest.raises(UserError, match=r"book.pdf is too long .* pages .* moot index"):
        read_given(tmp_path / "book.pdf")


def test_a_table_with_a_column_named_text_gives_a_notice(tmp_path: Path) -> None:
    """Each row is a passage with all columns, as in other tables."""
    tables = {"texts.csv": "id,text\na1,The Tarn is a river.\n", "counts.csv": "year,cars\n2019,11000\n"}
    notes: list[str] = []
    found = [p.text for p in read_passages(write_files(tmp_path, tables), noted=notes.append)]
    assert found == ["year: 2019; cars: 11000", "id: a1; text: The Tarn is a river."]
    [note] = notes
    assert note.startswith("texts.csv: each row is one passage with all of its columns, including one named")


def test_a_pdf_titled_untitled_has_its_file_name_as_title(tmp_path: Path) -> None:
    folder = write_files(tmp_path, {"report.pdf": pdf(["It was opened in 1869."], title="untitled")})
    assert [passage.title for passage in read_passages(folder)] == ["report"]


def test_all_pages_of_a_long_pdf_are_read(tmp_path: Path) -> None:
    file = write_files(tmp_path, {"long.pdf": pdf([f"This is page {n}." for n in range(1, 501)])}) / "long.pdf"
    assert [(p.page, p.text) for p in read_passages(file)] == [(str(n), f"This is page {n}.") for n in range(1, 501)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("locked.pdf", pdf(["Secret."], locked=True), "it is encrypted. Save a copy without a password"),
        ("blank.pdf", pdf(["", ""]), "it contains no text"),
        ("broken.pdf", b"%PDF-1.7 and nothing else", "it is damaged. Open it"),
        ("empty.pdf", b"", "it is empty"),
        ("empty.txt", " \n", "it is empty"),
        ("named.pdf", "Only text.", "it is not a PDF, although its name says so"),
        ("named.docx", "Only text.", "it is not a Word document"),
        ("old.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "Save it as .docx"),
        ("archive.docx", b"PK\x03\x04 and nothing else", "it is damaged"),
        ("picture.txt", b"\x89PNG\r\n\x1a\n", "it is a picture"),
        ("bytes.txt", b"a\0b", "it contains no text"),
        ("letters.txt", b"caf\xe9", "its encoding is not declared"),
        ("charset.txt", b"<meta charset=undefined>caf\xe9", "its encoding is not declared"),
        ("scripts.html", "<html><script>document.write('x')</script></html>", "it contains no text"),
        ("styles.html", "<title>A title</title><body><style>p {}</style><script>x()</script>", "it contains no text"),
        ("book.xlsx", b"PK\x03\x04junk", "it is damaged, or it is not a workbook"),
        ("data.json", b"{}", "its kind is not supported"),
    ],
)
def test_unreadable_files_give_clear_errors(name: str, content: bytes | str, message: str, tmp_path: Path) -> None:
    assert message in error_of(tmp_path, name, content)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-32", "cp1252"])
@pytest.mark.parametrize("name", ["a.txt", "a.html", "a.csv"])
def test_the_encoding_of_a_file_is_detected(encoding: str, name: str, tmp_path: Path) -> None:
    sentence = "Die Größe der Häuser überrascht viele, und für Bürger wäre es schön, wenn die Straße ruhiger würde."
    sentence += " Später könnten dort Bäume blühen, und die Möwen würden über die Dächer fliegen, fröhlich und müde."
    text = {"html": f"<html><body><p>{sentence}</p></body></html>", "csv": f'was\n"{sentence}"\n'}.get(
        name[2:], sentence
    )
    file = write_files(tmp_path, {name: text.encode(encoding)}) / name
    assert [p.text.removeprefix("was: ") for p in read_passages(file)] == [sentence]


ENTITIES = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
HARMFUL: dict[str, Callable[[], bytes]] = {
    "bomb.pdf": lambda: pdf_from_streams([], compressed=[zlib.compress(b"(bomb) Tj " * 30_000_000)]),
    "loop.pdf": lambda: pdf(["One page."]).replace(b"/Count 1", b"/Count 99999999"),
    "bomb.docx": lambda: docx(paragraph("Bomb.") * 3_000_000),
    "entities.docx": lambda: docx(paragraph("&e9;"), f'<!DOCTYPE d [<!ENTITY e0 "lol">{ENTITIES}]>'),
    "deep.docx": lambda: docx("<w:tbl><w:tr><w:tc>" * 2000 + paragraph("Deep.") + "</w:tc></w:tr></w:tbl>" * 2000),
    "deep.html": lambda: b"<html><body>" + b"<div>" * 5000 + b"<p>Deep.</p></body></html>",
    "cell.csv": lambda: b'a,b\n1,"' + b"x" * 3_000_000 + b'"\n',
    "wide.html": lambda: b"<html><body><p " + b" ".join(b'a%d="x"' % n for n in range(300_000)) + b">Wide.</p>",
}


@pytest.mark.parametrize("name", HARMFUL)
def test_a_later_file_is_read_after_a_harmful_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each harmful file is refused, except ``loop.pdf``: its false page count does no harm."""
    monkeypatch.setattr(children, "SECONDS", 3.0)
    monkeypatch.setattr(children, "AT_ONCE", 1)  # so that 2.pdf is read by the same child process, if that is alive
    files: dict[str, bytes | str] = {f"1-{name}": HARMFUL[name](), "2.pdf": pdf(["Read all the same."])}
    refused: list[UserError] = []
    found = [p for p in read_passages(write_files(tmp_path, files), refused.append) if p.source == "2.pdf"]
    assert [p.text for p in found] == ["Read all the same."]
    assert all(str(problem).startswith(f"1-{name} cannot be read: ") for problem in refused)
    assert bool(refused) != (name == "loop.pdf")


def test_text_within_a_thousand_nested_tags_is_read(tmp_path: Path) -> None:
    deep = "<html><body>" + "<div>" * 1000 + "<p>Deep text, which is read.</p>" + "</div>" * 1000
    assert [p.text for p in read_passages(write_files(tmp_path, {"deep.html": deep}))] == ["Deep text, which is read."]


def test_child_processes_get_no_api_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """This is checked only on systems with the folder ``/proc``."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-1234")
    child = children.Child()
    process = child._start()
    try:
        environment = Path(f"/proc/{process.pid}/environ")
        if environment.exists():
            assert b"sk-secret" not in environment.read_bytes()
    finally:
        child.close()


def test_child_processes_also_work_without_sigpipe() -> None:
    """Windows has no SIGPIPE."""
    program = f"import signal; del signal.SIGPIPE; from {children.__name__} import main; main()"
    subprocess.run([sys.executable, "-c", program], input=b"", check=True, timeout=60)


def test_moot_index_reports_unreadable_files_and_indexes_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hidden folders are skipped without a report. `moot verify` names the pages of evidence from the corpus."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    folder = tmp_path / "folder"
    (folder / ".git").mkdir(parents=True)
    files: dict[str, bytes | str] = {
        "report.pdf": pdf(["Opened in 1869.", "It has no locks."]),
        "page.html": ARTICLE,
        "minutes.docx": docx(paragraph("It met.")),
        "notes.md": "# Notes\n\nA note.\n",
        "locked.pdf": pdf(["Secret."], locked=True),
        ".git/config.txt": "hidden",
    }
    write_files(folder, files)
    os.symlink("/etc/hostname", folder / "link.txt")
    done = moot("index", str(folder), "--corpus", "mixed")
    assert done.returncode == 2
    output = " ".join(done.stderr.split())
    assert "locked.pdf cannot be read: it is encrypted." in output
    assert "link.txt cannot be read: it is a link out of the folder." in output
    assert "2 files were not read (named above); the others are indexed." in output
    assert "6 passages read, 6 encoded" in output
    out = tmp_path / "verdict.json"
    verify = ["verify", "It has no locks.", "--graph", "standard_mad", "--model", "fake:1", "--out", str(out)]
    done = moot(*verify, "--set", 'sources=["bm25:mixed"]', "--set", "max_rounds=1")
    assert "report, page 2 [" in done.stdout or "(report.pdf, page 2)" in done.stdout, done.stdout + done.stderr
    assert "2" in [piece.get("page") for piece in json.loads(out.read_text())["evidence"]]
    assert moot("index", str(folder / "locked.pdf"), "--corpus", "none").returncode == 2


def test_links_out_of_a_folder_and_special_files_are_refused(tmp_path: Path) -> None:
    """A link to a subfolder of the same folder is skipped without an error."""
    (folder := tmp_path / "folder").mkdir()
    (folder / "inside").mkdir()
    write_files(folder / "inside", {"notes.txt": "A note."})
    os.symlink(folder / "inside", folder / "again")
    os.symlink(tmp_path, folder / "out")
    os.mkfifo(folder / "pipe.txt")
    refused: list[UserError] = []
    assert [p.id for p in read_passages(folder, refused.append)] == ["inside/notes.txt#1"]
    assert [error.detail.partition(" cannot be read: ")[::2] for error in refused] == [
        ("out", "it is a link out of the folder."),
        ("pipe.txt", "it is not a file but a pipe, a socket or a device."),
    ]


def test_a_new_version_of_a_document_replaces_its_old_passages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    (tmp_path / "shelf").mkdir()
    shelf = write_files(
        tmp_path / "shelf", {"a.pdf": pdf(["It opened in 1869.", "It has no locks."]), "b.txt": "One.\n\nTwo."}
    )
    assert asyncio.run(index_passages("changing", read_passages(shelf))).passages == 4
    write_files(shelf, {"a.pdf": pdf(["It opened in 1869."])})
    assert asyncio.run(index_passages("changing", read_passages(shelf / "a.pdf"))).passages == 3
    write_files(shelf, {"b.txt": "One."})
    encoded: list[int] = []
    again = index_passages("changing", read_passages(shelf), progress=lambda seen, fresh: encoded.append(fresh))
    assert (asyncio.run(again).passages, encoded[-1]) == (2, 0)


def test_indexing_starts_before_all_passages_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    (tmp_path / "notes.txt").write_text("\n\n".join(f"Sentence {i}." for i in range(60)))
    taken: list[str] = []
    read_before_storing: list[int] = []
    read, store = read_passages, index_passages

    def record_and_read(*given: Any) -> Iterator[Passage]:
        for passage in read(*given):
            taken.append(passage.id)
            yield passage

    def record_and_store(*given: Any, **options: Any) -> Any:
        read_before_storing.append(len(taken))
        return store(*given, **options)

    monkeypatch.setattr(index, "read_passages", record_and_read)
    monkeypatch.setattr(index, "index_passages", record_and_store)
    index.index_path(str(tmp_path / "notes.txt"), "begun", None)
    assert (read_before_storing, len(taken)) == ([1], 60)
