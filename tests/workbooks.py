"""Makes small Excel workbooks for tests."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape, quoteattr

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
DAY = 1
"""The number of the style of cells with a day."""


def formula(formula: str, stored: str) -> str:
    """The XML of a cell with a formula and the value that was stored for it, which may be empty."""
    return f"<f>{escape(formula)}</f><v>{stored}</v>"


def workbook(
    sheets: Mapping[str, Sequence[Sequence[str | float | None]]],
    *,
    hidden: Sequence[str] = (),
    hidden_rows: Sequence[int] = (),
) -> bytes:
    """A workbook. Whole numbers are days, other numbers are numbers, and texts that begin with ``<f>`` are XML."""
    files = {
        "xl/styles.xml": f'<styleSheet xmlns="{MAIN}"><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs>'
        "</styleSheet>",
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{LINKS}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="xml" '
        'ContentType="application/xml"/></Types>',
    }
    listed = links = ""
    for number, (name, rows) in enumerate(sheets.items(), 1):
        state = ' state="hidden"' if name in hidden else ""
        listed += f'<sheet name={quoteattr(name)} sheetId="{number}"{state} r:id="r{number}"/>'
        links += f'<Relationship Id="r{number}" Type="{LINKS}/worksheet" Target="worksheets/sheet{number}.xml"/>'
        cells = "".join(
            f'<row r="{at}" hidden="{int(at in hidden_rows)}">'
            f"{''.join(_cell(f'{chr(65 + i)}{at}', value) for i, value in enumerate(row))}</row>"
            for at, row in enumerate(rows, 1)
        )
        files[f"xl/worksheets/sheet{number}.xml"] = (
            f'<worksheet xmlns="{MAIN}"><sheetData>{cells}</sheetData></worksheet>'
        )
    links += f'<Relationship Id="s" Type="{LINKS}/styles" Target="styles.xml"/>'
    files["xl/workbook.xml"] = f'<workbook xmlns="{MAIN}" xmlns:r="{LINKS}"><sheets>{listed}</sheets></workbook>'
    files["xl/_rels/workbook.xml.rels"] = f'<Relationships xmlns="{PACKAGE}/relationships">{links}</Relationships>'
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return packed.getvalue()


def _cell(place: str, value: str | float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, str) and value.startswith("<f>"):
        return f'<c r="{place}">{value}</c>'
    if isinstance(value, str):
        return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
    return f'<c r="{place}"{f" s={chr(34)}{DAY}{chr(34)}" if isinstance(value, int) else ""}><v>{value}</v></c>'
