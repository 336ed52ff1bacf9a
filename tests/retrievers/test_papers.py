"""Reading PDF and Word files: turned pages, columns, superscripts, forms, scans, equations and text boxes."""

from __future__ import annotations

import re
import shutil
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.core.errors import UserError
from moot.core.lazy import imported
from moot.nodes._texts.given_files import read_given
from moot.retrievers import read_passages
from moot.retrievers._documents import children
from moot.retrievers._documents.layout import Glyph, join_lines, page_text
from moot.retrievers._files import Passage

from tests.papers import WORD, docx, page_stream, paragraph, pdf, pdf_from_streams

LINES = ["The bridge was opened in 1869", "by the mayor, who paid 300 francs", "for four arches of iron."]
SLANT = b"0.9994 0.0349 -0.0349 0.9994 50 700"  # two degrees, as in scans
TURNS = {0: b"1 0 0 1 50 700", 2: SLANT, 90: b"0 -1 1 0 300 700", 180: b"-1 0 0 -1 500 100", 270: b"0 1 -1 0 300 50"}
needs_tesseract = pytest.mark.skipif(shutil.which("tesseract") is None, reason="tesseract is not installed")


def drawn(*texts: tuple[str, float, float, float]) -> bytes:
    """Drawing commands of texts, each with its place and its size."""
    return b"".join(b"BT /F1 %g Tf %g %g Td (%s) Tj ET\n" % (size, x, y, text.encode()) for text, x, y, size in texts)


def passages(folder: Path, name: str, content: bytes, notes: list[str] | None = None) -> list[Passage]:
    """The passages of one file."""
    (folder / name).write_bytes(content)
    return list(read_passages(folder / name, noted=(notes if notes is not None else []).append))


def text_of(folder: Path, name: str, content: bytes) -> str:
    """The text of all passages of one file, a line each."""
    return "\n".join(passage.text for passage in passages(folder, name, content))


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("turn", TURNS)
def test_lines_of_turned_text_keep_their_order_and_their_spaces(rotation: int, turn: int, tmp_path: Path) -> None:
    stream = b"BT /F1 10 Tf 12 TL %s Tm " % TURNS[turn] + b"".join(b"(%s) Tj T* " % line.encode() for line in LINES)
    paper = pdf_from_streams([stream + b"ET"], page=b"/Rotate %d" % rotation)
    assert text_of(tmp_path, "turned.pdf", paper) == " ".join(LINES)


def test_columns_are_read_one_after_the_other_and_tables_by_rows(tmp_path: Path) -> None:
    """Here, the file has the columns line by line."""
    left = [*LINES, "It was built by hand."]
    right = ["The second bridge was opened", "in 1901, and was built of", "steel, with two arches, for", "900 francs."]
    rows = [
        ("Year", "Cost of the bridge", "By"),
        ("1869", "300 francs in gold", "mayor"),
        ("1901", "900 francs", "town"),
    ]
    texts = [("Bridges of the valley", 50.0, 750.0, 14.0)]
    for i, (one, other) in enumerate(zip(left, right, strict=True)):
        texts += [(one, 50, 700 - 12 * i, 10), (other, 320, 700 - 12 * i, 10)]
    texts += [(cell, 50 + 200 * j, 600 - 14 * i, 10) for i, row in enumerate(rows) for j, cell in enumerate(row)]
    found = text_of(tmp_path, "columns.pdf", pdf_from_streams([drawn(*texts)]))
    assert found == " ".join(["Bridges of the valley", *left, *right, *(cell for row in rows for cell in row)])


def test_superscripts_in_a_pdf_stay_apart_from_numbers(tmp_path: Path) -> None:
    texts = [("In 1869", 50, 700, 12), ("2", 91.4, 705, 7), (" it cost 10", 96, 700, 12), ("6", 148, 705, 7)]
    notes = [("1", 50, 305, 6), ("It is CO", 54, 300, 10), ("2", 87.8, 297, 6), (".", 91.5, 300, 10)]
    found = text_of(tmp_path, "powers.pdf", pdf_from_streams([drawn(*texts, *notes)]))
    assert found == "In 1869² it cost 10⁶ ¹ It is CO2."


@pytest.mark.parametrize(
    ("lines", "joined"),
    [
        ("divi-\nded", "divided"),
        ("(divi-\nded", "(divided"),
        ("прези-\nдент", "президент"),
        ("CPP-NPA-\nNDF", "CPP-NPA-NDF"),
        ("1869-\n1871", "1869-1871"),
        ("https://a.org/green-\nnew", "https://a.org/green-new"),
        ("a -\nb", "a - b"),
        ("soft\x02\nly", "softly"),
        ("Vor-\nund Nachteile", "Vor- und Nachteile"),
    ],
)
def test_words_that_a_hyphen_divides_are_joined(lines: str, joined: str) -> None:
    assert join_lines(lines) == joined


@given(st.lists(st.text("abcXYZ019.,", min_size=1), min_size=1))
def test_lines_without_hyphens_stay_apart(words: list[str]) -> None:
    assert join_lines("\n".join(words)).split() == words


def test_values_of_form_fields_are_read(tmp_path: Path) -> None:
    field = b"<</Type/Annot/Subtype/Widget/FT/Tx/T(y)/TU(Year of opening)/V(1869)/Rect[50 600 200 620]>>"
    tick = (
        b"<</Type/Annot/Subtype/Widget/FT/Btn/T(iron)/V/%s/AS/%s/AP<</N<</Yes 3 0 R/Off 3 0 R>>>>/Rect[50 500 60 510]>>"
    )
    stream = drawn(("The bridge", 50, 700, 10))
    for state, answer in ((b"Yes", " iron: Yes"), (b"Off", "")):
        form = {"more": [field, tick % (state, state)], "page": b"/Annots[4 0 R 5 0 R]"}
        paper = pdf_from_streams([stream], catalog=b"/AcroForm<</Fields[4 0 R 5 0 R]>>", **form)  # type: ignore[arg-type]
        assert text_of(tmp_path, "form.pdf", paper) == f"The bridge Year of opening: 1869{answer}"


def test_a_form_without_pages_is_refused(tmp_path: Path) -> None:
    xfa = b"<</Length 5>>\nstream\n<xdp>\nendstream"
    stream = drawn(("Please wait...", 50, 700, 10))
    for needed in (b"", b"/NeedsRendering true"):
        catalog = b"/AcroForm<</Fields[]/XFA 4 0 R>>%s" % needed
        with pytest.raises(UserError, match=r"an XFA form, which has no pages. Open it in Adobe Reader, and print it"):
            passages(tmp_path, "xfa.pdf", pdf_from_streams([stream], catalog=catalog, more=[xfa]))


def unnamed() -> bytes:
    """A PDF whose font maps all letters to private characters."""
    codes = b"1 begincodespacerange <00> <FF> endcodespacerange 1 beginbfrange <20> <7E> <E020> endbfrange"
    cmap = b"begincmap %s endcmap" % codes
    stream = b"<</Length %d>>\nstream\n%s\nendstream" % (len(cmap), cmap)
    return pdf_from_streams([page_stream(" ".join(LINES))], font=b"/ToUnicode 4 0 R", more=[stream])


def scan(text: str, *, rotation: int = 0) -> bytes:
    """A PDF whose only page is a picture of a text."""
    bitmap = imported("pypdfium2").PdfDocument(pdf([text]))[0].render(scale=3, grayscale=True)
    rows = b"".join(
        bytes(bitmap.buffer)[row * bitmap.stride : row * bitmap.stride + bitmap.width] for row in range(bitmap.height)
    )
    about = b"/W %d/H %d/CS/G/BPC 8/F/Fl" % (bitmap.width, bitmap.height)
    picture = b"q 600 0 0 800 0 0 cm BI%s ID %s EI Q" % (about, zlib.compress(rows))
    return pdf_from_streams([picture, page_stream("Typed.")], ["Scan", "Type"], page=b"/Rotate %d" % rotation)


def test_without_tesseract_pages_without_characters_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    why = r"its pages have fonts that do not say which characters they show. Install tesseract, whose languages"
    with pytest.raises(UserError, match=why):
        passages(tmp_path, "page.pdf", unnamed())
    notes: list[str] = []
    assert [p.text for p in passages(tmp_path, "scan.pdf", scan("A scan."), notes)] == ["Typed."]
    [note] = notes
    assert note.startswith("scan.pdf: 1 of its 2 pages are pictures without text, such as scans. Install tesseract")


@needs_tesseract
@pytest.mark.parametrize("rotation", [0, 90])
def test_scanned_pages_are_read_by_ocr_and_say_so(rotation: int, tmp_path: Path) -> None:
    """The title, which prompts, quotes and reports show, says so; typed pages do not."""
    notes: list[str] = []
    first, second = passages(tmp_path, "scan.pdf", scan(" ".join(LINES), rotation=rotation), notes)
    assert (first.text, first.title, first.page) == (" ".join(LINES), "scan: Scan (read by OCR)", "1")
    assert (second.text, second.title) == ("Typed.", "scan: Type")
    assert notes == ["scan.pdf: 1 of its 2 pages were read by OCR, as eng (MOOT_OCR_LANGUAGES): check them."]
    assert [text["title"] for text in read_given(tmp_path / "scan.pdf")] == [first.title, second.title]


@needs_tesseract
def test_the_languages_of_scans_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_OCR_LANGUAGES", "tlh")
    with pytest.raises(UserError, match=r"it is a scan, and tesseract has no language 'tlh' \(it has .*eng.*\)"):
        passages(tmp_path, "scan.pdf", scan(" ".join(LINES)))


def test_the_time_of_a_document_with_pages_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "LONGEST", 0.0)
    with pytest.raises(UserError, match=r"reading it takes more than 60 seconds for a page, or 0 for all. Give a part"):
        passages(tmp_path, "long.pdf", pdf(["word " * 500] * 50))


def run(text: str, properties: str = "") -> str:
    """The XML of a run in a Word file."""
    return f"<w:r><w:rPr>{properties}</w:rPr><w:t>{text}</w:t></w:r>"


def math(text: str) -> str:
    """The XML of a run in an equation."""
    return f"<m:r><m:t>{text}</m:t></m:r>"


FRACTION = f"<m:f><m:num>{math('a+b')}</m:num><m:den>{math('2')}</m:den></m:f>"
POWER = f"<m:sSup><m:e>{math('c')}</m:e><m:sup>{math('2')}</m:sup></m:sSup>"
BOX = f"<w:txbxContent>{paragraph('In one box.')}{paragraph('And more.')}</w:txbxContent>"
DRAWING = f"<w:drawing><wp:anchor><wps:wsp><wps:txbx>{BOX}</wps:txbx></wps:wsp></wp:anchor></w:drawing>"
VML = f"<w:pict><v:shape><v:textbox>{BOX}</v:textbox></v:shape></w:pict>"
FORMS = f"<mc:Choice Requires='wps'>{DRAWING}</mc:Choice><mc:Fallback>{VML}</mc:Fallback>"
TWICE = f"<mc:AlternateContent>{FORMS}</mc:AlternateContent>"
SECRET = '<w:rStyle w:val="Secret"/>'
EXPONENT = '<w:rStyle w:val="Exponent"/>'
UP = '<w:position w:val="6"/>'
MARKS = [f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate", "end")]
RAISED = '<w:vertAlign w:val="superscript"/>'
STYLES = '<w:style w:type="character" w:styleId="Secret"><w:name w:val="s"/><w:rPr><w:vanish/></w:rPr></w:style>'
STYLES += f'<w:style w:type="character" w:styleId="Exponent"><w:name w:val="e"/><w:rPr>{RAISED}</w:rPr></w:style>'


def cell(text: str, properties: str = "") -> str:
    """The XML of a cell in a Word file."""
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{paragraph(text)}</w:tc>"


def table(*rows: str, marked: bool = False) -> str:
    """The XML of a table in a Word file, whose first row may be marked as the names of columns."""
    mark = "<w:trPr><w:tblHeader/></w:trPr>" if marked else ""
    return f"<w:tbl>{''.join(f'<w:tr>{mark if i == 0 else str()}{row}</w:tr>' for i, row in enumerate(rows))}</w:tbl>"


TOWNS = (
    cell("Town") + cell("Year"),
    cell("Lyon", '<w:vMerge w:val="restart"/>') + cell("1869"),
    cell("", "<w:vMerge/>") + cell("1901"),
)
RUBY = f"<w:r><w:ruby><w:rt>{run('きょう')}</w:rt><w:rubyBase>{run('京')}</w:rubyBase></w:ruby></w:r>"
WORDS = {
    f"<w:p>{RUBY}{run('橋')}</w:p>": "京橋",
    table(cell("Town"), "<w:trPr><w:hidden/></w:trPr>" + cell("Secret"), cell("Lyon")): "Town\nLyon",
    f"<w:p>{run('Opened in ')}<w:fldSimple w:instr='REF y'>{run('1869')}</w:fldSimple>.</w:p>": "Opened in 1869",
    f"<w:p>{run('It is ')}<m:oMath>{math('x=')}{FRACTION}</m:oMath>{run('.')}</w:p>": "It is x=(a+b)/2 .",
    f"<m:oMathPara><m:oMath>{math('E=m')}{POWER}</m:oMath></m:oMathPara>": "E=mc²",
    **{
        f"<w:p>{run('Here.')}<w:r>{shape}</w:r></w:p>{paragraph('Then.')}": "Here.\nIn one box.\nAnd more.\nThen."
        for shape in (DRAWING, VML, TWICE)
    },
    f"<w:p>{run('Seen')}{run('not', '<w:vanish/>')}{run('nor', SECRET)}</w:p>": "Seen",
    f"<w:p>{run('B', '<w:b/>')}{run('ridge of 1869')}{run('2', RAISED)}</w:p>": ("Bridge of 1869²"),
    f"<w:p>{run('10')}{run('6', EXPONENT)}{run(' 10')}{run('7', UP)}{run('a')}<w:r><w:cr/></w:r>{run('b')}</w:p>": (
        "10⁶ 10⁷a b"
    ),
    f"<w:p>{run('To ')}{MARKS[0]}{MARKS[0]}{MARKS[1]}{run('f')}{MARKS[2]}{MARKS[1]}{run('Mrs B')}{MARKS[2]}</w:p>": (
        "To Mrs B"
    ),
    "".join(paragraph(text, f"Heading{n}") for n, text in ((1, "A"), (2, "B"), (1, "C"))): "B\nC",
    table(
        cell("In") + cell("Men") + cell("Women"), cell("East") + cell("") + cell("a")
    ): "In | Men | Women\nEast | – | a",
    table(cell("") + cell("1869") + cell("1901"), cell("East") + cell("") + cell("5")): "East; 1901: 5",
    f"<w:p><w:del>{run('No.')}</w:del><w:ins>{run('Yes.')}</w:ins></w:p>": "Yes.",
    table(cell("Year") + cell("Cost"), cell("1869") + cell("300")): "Year: 1869; Cost: 300",
    table(
        cell("District", '<w:vMerge w:val="restart"/>') + cell("People", '<w:gridSpan w:val="2"/>'),
        "<w:trPr><w:tblHeader/></w:trPr>" + cell("", "<w:vMerge/>") + cell("Men") + cell("Women"),
        cell("North") + cell("1") + cell("2"),
        marked=True,
    ): "District: North; People Men: 1; People Women: 2",
    f"<w:p>{run('It cost ')}{run('200', '<w:strike/>')}{run('5', '<w:dstrike/>')}{run('300.')}</w:p>": "It cost 300.",
    table(*TOWNS): "Town | Year\nLyon | 1869\nLyon | 1901",
    table(*TOWNS, marked=True): "Town: Lyon; Year: 1869\nTown: Lyon; Year: 1901",
}


@pytest.mark.parametrize("body", WORDS)
@pytest.mark.parametrize("strict", [False, True])
def test_word_files_are_read_as_a_reader_sees_them(body: str, strict: bool, tmp_path: Path) -> None:
    """The part with the text has another name than usual, in the usual and in the strict format."""
    packed = docx(body, main="word/document2.xml", styles=STYLES)
    if strict:
        packed = strictly(packed)
    assert text_of(tmp_path, "letter.docx", packed) == WORDS[body]


def strictly(packed: bytes) -> bytes:
    """A Word file in the strict format."""
    out = BytesIO()
    with ZipFile(BytesIO(packed)) as usual, ZipFile(out, "w") as strict:
        for name in usual.namelist():
            text = usual.read(name).replace(WORD.encode(), b"http://purl.oclc.org/ooxml/wordprocessingml/main")
            kinds = b"http://schemas.openxmlformats.org/officeDocument/2006/"
            strict.writestr(name, text.replace(kinds, b"http://purl.oclc.org/ooxml/officeDocument/"))
    return out.getvalue()


def test_what_is_left_out_of_a_word_file_is_said(tmp_path: Path) -> None:
    chart = (
        '<w:r><w:drawing><c:chart xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" /></w:drawing></w:r>'
    )
    notes: list[str] = []
    passages(tmp_path, "report.docx", docx(paragraph("It grew.") + f"<w:p>{chart}</w:p>"), notes)
    assert notes == ["report.docx: 1 charts, diagrams or WordArt are left out. Save it as PDF to read their text."]
    notes.clear()
    passages(tmp_path, "report.docx", docx(f"<w:p>{run('Old', '<w:strike/>')}{run('New')}</w:p>"), notes)
    assert notes == ["report.docx: text that is struck out is left out (“Old”)."]


def as_pdfium_gives(text: str, *, mirrored: bool) -> Iterator[Glyph]:
    """The characters of a line of Hebrew or Arabic as PDFium gives them, drawn from the right, or from the left."""
    for word in [*reversed(text.split())] if mirrored else text.split():
        for letter in reversed(word) if mirrored and not word.isdecimal() else word:
            yield Glyph(letter, 0.0, 0.0, (0.0, 0.0, 1.0, 10.0))
        yield Glyph(" ")


@pytest.mark.parametrize(
    "text", ["הגשר נפתח בשנת 1869 על ידי", "הוא אחד מהגשרים", "افتتح الجسر عام 1869 في المدينة القديمة"]
)
@pytest.mark.parametrize("mirrored", [False, True])
def test_text_from_right_to_left_is_read_whichever_way_it_was_drawn(text: str, mirrored: bool) -> None:
    assert page_text(as_pdfium_gives(text, mirrored=mirrored)).strip() == text


@pytest.mark.parametrize("text", ["افتتح الجسر في عام 1869 من قبل رئيس البلدية", "הוא אמר Open it now ב 1869"])
@pytest.mark.parametrize("every", [1, 2, 3])
def test_words_whose_letters_a_pdf_has_from_left_to_right_are_read(text: str, every: int) -> None:
    """Browsers write Arabic so that PDFium gives some words, or all, by their places from the left."""
    words = re.findall(r"[A-Za-z ]+\b|\S+", text)
    words, glyphs, right = [word for word in map(str.strip, words) if word], [], 500.0
    for number, word in enumerate(words):
        is_leftward = not word.isascii()
        letters = word if is_leftward else word[::-1]
        placed = [Glyph(one, 0, 0, (right - 6 * (at + 1), 0.0, right - 6 * at, 10.0)) for at, one in enumerate(letters)]
        right -= 6 * len(word) + 4
        glyphs += placed[::-1] if not is_leftward or number % every == 0 else placed
        glyphs.append(Glyph(" "))
    found = [one for one in glyphs if one.box or one.text == " "]
    assert page_text(found).strip() == text


def test_lock_files_of_word_are_ignored_in_folders(tmp_path: Path) -> None:
    (tmp_path / "~$letter.docx").write_bytes(b"\x05Someone" + b"\0" * 100)
    (tmp_path / "letter.docx").write_bytes(docx(paragraph("It met.")))
    assert [passage.text for passage in read_passages(tmp_path)] == ["It met."]
