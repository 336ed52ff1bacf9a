"""Builds PDF and Word files from their parts, so that tests can also make harmful files."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Sequence
from textwrap import wrap

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
SPACES = (
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" xmlns:v="urn:schemas-microsoft-com:vml" '
    'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"'
)
"""Names of drawings and equations in a Word file."""


def pdf(pages: Sequence[str], chapters: Sequence[str] = (), *, title: str = "", locked: bool = False) -> bytes:
    """A PDF file with one text per page.

    ``chapters`` are titles of bookmarks: the first leads to the first page, the second to the second, and so on. If
    ``locked``, the file says that it is encrypted, but its contents are not.
    """
    streams = [page_stream(text) for text in pages]
    return pdf_from_streams(streams, chapters, title=title, locked=locked)


def page_stream(text: str) -> bytes:
    """The drawing commands of a page with this text, which must fit into Latin-1."""
    lines = "".join(f"({line}) Tj T* " for line in wrap(text, 90))
    return f"BT /F1 10 Tf 12 TL 50 780 Td {lines} ET".encode("latin-1")


def pdf_from_streams(
    streams: Sequence[bytes],
    chapters: Sequence[str] = (),
    *,
    title: str = "",
    locked: bool = False,
    compressed: Sequence[bytes] = (),
    page: bytes = b"",
    catalog: bytes = b"",
    font: bytes = b"",
    more: Sequence[bytes] = (),
) -> bytes:
    """A PDF file as from `pdf`, but with the drawing commands of each page instead of its text.

    ``compressed`` has the drawing commands of further pages, already compressed. ``page``, ``catalog`` and ``font`` are
    added to each page, the catalog and the font; they can name the objects ``more``, whose numbers begin with 4.
    """
    objects: list[bytes] = [b"", b"", b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica%s>>" % font, *more]

    def add(content: bytes) -> int:
        objects.append(content)
        return len(objects)

    numbers = []
    for stream in [*map(zlib.compress, streams), *compressed]:
        drawn = add(b"<</Filter/FlateDecode/Length %d>>\nstream\n%s\nendstream" % (len(stream), stream))
        about = b"/MediaBox[0 0 600 800]/Resources<</Font<</F1 3 0 R>>>>%s" % page
        numbers.append(add(b"<</Type/Page/Parent 2 0 R%s/Contents %d 0 R>>" % (about, drawn)))
    first = len(objects) + 2
    outline = add(b"<</Type/Outlines/First %d 0 R/Last %d 0 R>>" % (first, first + len(chapters) - 1))
    for i, chapter in enumerate(chapters):
        following = b"/Next %d 0 R" % (first + i + 1) if i + 1 < len(chapters) else b""
        add(b"<</Title(%s)/Parent %d 0 R/Dest[%d 0 R/Fit]%s>>" % (chapter.encode(), outline, numbers[i], following))
    outlines = b"/Outlines %d 0 R" % outline if chapters else b""
    objects[0] = b"<</Type/Catalog/Pages 2 0 R%s%s>>" % (outlines, catalog)
    objects[1] = b"<</Type/Pages/Count %d/Kids[%s]>>" % (len(numbers), b" ".join(b"%d 0 R" % n for n in numbers))
    trailer = b"/Info %d 0 R" % add(b"<</Title(%s)>>" % title.encode())
    if locked:
        secret = b"<%s>" % (b"ab" * 32)
        trailer += b"/Encrypt %d 0 R/ID[<ab><ab>]" % add(
            b"<</Filter/Standard/V 1/R 2/O%s/U%s/P -4>>" % (secret, secret)
        )
    out, places = io.BytesIO(b"%PDF-1.4\n"), []
    out.seek(0, io.SEEK_END)
    for number, content in enumerate(objects, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, content))
    end = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    out.writelines(b"%010d 00000 n \n" % place for place in places)
    out.write(b"trailer<</Size %d/Root 1 0 R%s>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, trailer, end))
    return out.getvalue()


def paragraph(text: str, style: str = "") -> str:
    """The XML of a paragraph in a Word file."""
    styled = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{styled}<w:r><w:t>{text}</w:t></w:r></w:p>"


def docx(body: str, before: str = "", *, main: str = "word/document.xml", styles: str = "") -> bytes:
    """A Word file with the title "Minutes" and the XML ``body``. The XML ``before`` precedes the document element.

    ``main`` is the name of the part with the text; ``styles`` is the XML of further styles.
    """
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    types = (
        f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/{main}" ContentType="{kind}"/></Types>'
    )
    styles += "".join(
        f'<w:style w:type="paragraph" w:styleId="Heading{n}"><w:name w:val="heading {n}"/></w:style>' for n in (1, 2)
    )
    parts = {
        "[Content_Types].xml": types,
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{OFFICE}/officeDocument" Target="{main}"/></Relationships>',
        f"word/_rels/{main.removeprefix('word/')}.rels": f'<Relationships xmlns="{PACKAGE}/relationships">'
        f'<Relationship Id="r1" Type="{OFFICE}/styles" Target="styles.xml"/></Relationships>',
        "word/styles.xml": f'<w:styles xmlns:w="{WORD}">{styles}</w:styles>',
        main: f'{before}<w:document xmlns:w="{WORD}" {SPACES}><w:body>{body}</w:body></w:document>',
        "docProps/core.xml": '<p xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Minutes</dc:title></p>',
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in parts.items():
            packed.writestr(name, text)
    return out.getvalue()
