"""Reads the text of Word documents as a reader sees it: with changes accepted, and without hidden text."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from moot.core.lazy import imported
from moot.retrievers._documents.equations import linear
from moot.retrievers._documents.grid import flatten_tables, text_of
from moot.retrievers._documents.parsed import (
    DAMAGED,
    LARGEST_UNPACKED,
    ParsedDocument,
    Part,
    UnreadableDocument,
    check_unpacked_size,
    new_document,
    struck_note,
)

STRICT = {
    b"http://purl.oclc.org/ooxml/wordprocessingml/main": (
        b"http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    ),
    b"http://purl.oclc.org/ooxml/officeDocument/relationships": (
        b"http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    ),
    b"http://purl.oclc.org/ooxml/officeDocument/math": b"http://schemas.openxmlformats.org/officeDocument/2006/math",
}
"""Names of the strict format, and those of the usual format with the same meaning."""
W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
CORE = "docProps/core.xml"
"""The file with the title."""
CONTAINERS = tuple(W + name for name in ("fldSimple", "customXml", "dir", "bdo"))
"""Elements without a meaning of their own here, around runs and paragraphs."""
GRAPHICS = re.compile(rb"<(?:\w+:)?(?:chart|relIds|textpath) ")
"""A chart, a diagram (SmartArt), or WordArt."""
BREAKS = {W + "cr": W + "br", W + "ptab": W + "tab"}
"""Breaks and tabs, with their usual forms."""
HIDDEN = "vanish"
STRUCK = ("strike", "dstrike")
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
LONGEST_HEADING = 200
"""The maximum length of a heading, in characters; longer ones are paragraphs with its style."""


def parse_docx(file: Path) -> ParsedDocument:
    """Parses a Word document, without its pictures; each heading, paragraph, list item and table becomes a part."""
    mammoth, html = imported("mammoth"), imported("lxml.html")
    try:
        with zipfile.ZipFile(file) as packed:
            main = _main_part(packed)
            check_unpacked_size(packed)
            texts = [part for part in packed.infolist() if part.filename.endswith((".xml", ".rels"))]
            contents = {part.filename: _usual(packed.read(part)) for part in texts}
        notes = _plain(contents, main)
        with io.BytesIO(_packed(contents)) as opened:
            converted = mammoth.convert_to_html(opened, convert_image=mammoth.images.img_element(lambda image: {}))
    except (zipfile.BadZipFile, KeyError, ValueError, RecursionError, SyntaxError) as error:
        raise UnreadableDocument(DAMAGED) from error
    about = contents.get(CORE, b"").decode(errors="replace")
    title = re.search(r"<dc:title>([^<]{1,500})</dc:title>", about)
    if not converted.value.strip():
        raise UnreadableDocument("it contains no text")
    tree = html.fragment_fromstring(converted.value, create_parent="div")
    found = new_document(list(_parts(tree)), html.fromstring(f"<p>{title[1]}</p>").text_content() if title else "")
    if symbols := sum("w:sym element" in message.message for message in converted.messages):
        notes.append(f"{symbols:,} symbols are left out. Save it as PDF to read them")
    found["note"] = "; ".join(notes)
    return found


def _main_part(packed: zipfile.ZipFile) -> str:
    """The name of the part with the text, which programs choose as they like."""
    etree = imported("lxml.etree")
    if "_rels/.rels" in packed.namelist() and packed.getinfo("_rels/.rels").file_size <= LARGEST_UNPACKED:
        for link in etree.fromstring(packed.read("_rels/.rels"), _parser()):
            if link.get("Type", "").endswith("/officeDocument"):
                name: str = posixpath.normpath(link.get("Target", "").replace("\\", "/")).lstrip("/")
                if name in packed.namelist() and _root(packed, name) == "document":
                    return name
    raise UnreadableDocument("it is a ZIP file. Unpack it, or save it as PDF, .docx or .csv")


def _root(packed: zipfile.ZipFile, name: str) -> str:
    """The name of the outermost element of a part, such as ``workbook`` in an Excel file."""
    etree = imported("lxml.etree")
    with packed.open(name) as opened:
        _, first = next(etree.iterparse(opened, events=("start",), resolve_entities=False, no_network=True))
        return str(etree.QName(first).localname)


def _parser() -> Any:
    """Parses XML without its entities, which may be bombs or files."""
    return imported("lxml.etree").XMLParser(
        resolve_entities=False, no_network=True, remove_comments=True, huge_tree=True
    )


def _usual(content: bytes) -> bytes:
    """An XML file of the strict format with the names of the usual format."""
    for strict, usual in STRICT.items():
        content = content.replace(strict, usual)
    return content


def _packed(contents: dict[str, bytes]) -> bytes:
    """A Word file without its pictures."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        for name, content in contents.items():
            packed.writestr(name, content)
    return out.getvalue()


def _plain(contents: dict[str, bytes], main: str) -> list[str]:
    """Replaces what mammoth does not read, in the main part and in notes, by usual text; returns what is left out."""
    etree = imported("lxml.etree")
    folder = posixpath.dirname(main)
    links = etree.fromstring(contents["_rels/.rels"], _parser())
    for link in links:
        if link.get("Type", "").endswith("/officeDocument"):
            link.set("Target", f"/{main}")
    contents["_rels/.rels"] = etree.tostring(links)
    sheet = contents.get(posixpath.join(folder, "styles.xml"), b"")
    styles = {switch: _styles_with(switch, sheet) for switch in (HIDDEN, *STRUCK)}
    raised = _raising_styles(sheet)
    struck = ""
    for name in (main, *(posixpath.join(folder, f"{kind}.xml") for kind in ("footnotes", "endnotes"))):
        if name not in contents:
            continue
        tree = etree.fromstring(contents[name], _parser())
        _choose(tree)
        for base in list(tree.iter(W + "rubyBase")):  # without the small letters above it, which say how it is read
            if (run := next(base.iterancestors(W + "r"), None)) is not None:
                _replace(run, list(base))
        for element in tree.iter(*BREAKS):
            element.tag = BREAKS[element.tag]
        _remove_instructions(tree)
        _raise(tree, raised)
        struck = " ".join(filter(None, (struck, _remove_hidden(tree, styles))))
        for element in list(tree.iter(M + "oMath")):
            run = etree.Element(W + "r")
            etree.SubElement(run, W + "t").text = f" {linear(element)} "
            _replace(element, [run])
        for element in list(tree.iter(M + "oMathPara")):
            # An equation of its own may stand between paragraphs or within one.
            block = element.getparent().tag != W + "p"
            within = list(element.iter(W + "r"))
            if block:
                paragraph = etree.Element(W + "p")
                paragraph.extend(within)
                within = [paragraph]
            _replace(element, within)
        for element in list(tree.iter(*CONTAINERS)):
            _replace(element, list(element))
        _free_boxes(tree)
        contents[name] = etree.tostring(tree)
    notes = [struck_note(struck)] if struck.strip() else []
    if graphics := len(GRAPHICS.findall(contents[main])):
        notes.append(f"{graphics:,} charts, diagrams or WordArt are left out. Save it as PDF to read their text")
    if b":altChunk " in contents[main]:
        notes.append("a part that it takes from another file is left out. Save it as PDF to read it")
    return notes


def _choose(tree: Any) -> None:
    """Leaves one of several forms of a drawing: the first with text, or the one for all programs."""
    for element in list(tree.iter(MC + "AlternateContent")):
        forms = list(element)
        fallback = [form for form in forms if form.tag == MC + "Fallback"] or forms[:1]
        chosen = next((form for form in forms if next(form.iter(W + "t", M + "t"), None) is not None), *fallback[:1])
        if element.getparent() is not None:
            _replace(element, list(chosen) if chosen is not None else [])


def _styles_with(switch: str, styles: bytes) -> set[str]:
    """The ids of the styles that switch a property of text on, such as ``vanish``, with those based on them."""
    if not styles:
        return set()
    known = list(imported("lxml.etree").fromstring(styles, _parser()).iter(W + "style"))
    found = {style.get(W + "styleId") for style in known if _is_on(style.find(f"{W}rPr/{W}{switch}"))}
    while True:
        based = {
            style.get(W + "styleId")
            for style in known
            if (base := style.find(W + "basedOn")) is not None
            and base.get(W + "val") in found
            and style.find(f"{W}rPr/{W}{switch}") is None
        }
        if based <= found:
            return found
        found |= based


def _raising_styles(styles: bytes) -> dict[str, str]:
    """The styles of superscripts and subscripts by their ids, each with its value of ``vertAlign``."""
    if not styles:
        return {}
    tree = imported("lxml.etree").fromstring(styles, _parser())
    known = {one.get(W + "styleId"): one for one in tree.iter(W + "style")}
    found: dict[str, str] = {}
    for name in known:
        at, passed = name, set[str]()
        while at in known and at not in passed:
            passed.add(at)
            if (own := known[at].find(f"{W}rPr/{W}vertAlign")) is not None:
                found[name] = own.get(W + "val", "baseline")
                break
            base = known[at].find(W + "basedOn")
            at = "" if base is None else base.get(W + "val", "")
    return found


def _raise(tree: Any, styles: dict[str, str]) -> None:
    """Marks text as superscript or subscript that is so by its style or its position, which mammoth does not read."""
    for run in tree.iter(W + "r"):
        properties = run.find(W + "rPr")
        if properties is None or run.find(W + "t") is None or properties.find(W + "vertAlign") is not None:
            continue
        style, position = properties.find(W + "rStyle"), properties.find(W + "position")
        shift = position.get(W + "val", "") if position is not None else ""
        how = styles.get(style.get(W + "val", ""), "") if style is not None else ""
        if re.fullmatch(r"-?[1-9]\d*", shift):
            how = "subscript" if shift.startswith("-") else "superscript"
        if how:
            properties.append(properties.makeelement(W + "vertAlign", {W + "val": how}))


def _remove_instructions(tree: Any) -> None:
    """Removes what fields within the instructions of other fields show, such as the condition of an IF."""
    pending: list[str] = []
    for element in list(tree.iter(W + "fldChar", W + "t")):
        kind = element.get(W + "fldCharType")
        if kind == "begin":
            pending.append(kind)
        elif kind and pending:
            pending.pop()
            pending += [kind] if kind == "separate" else []
        elif not kind and "begin" in pending:
            _replace(element, [])


def _is_on(switch: Any) -> bool:
    """Whether a property such as ``vanish`` is there and not switched off."""
    return switch is not None and switch.get(W + "val") not in ("0", "false", "off")


def _remove_hidden(tree: Any, styles: dict[str, set[str]]) -> str:
    """Removes hidden text and rows, rows whose deletion is recorded, and struck text, which it returns."""
    struck: list[str] = []
    for run in list(tree.iter(W + "r", M + "r")):
        if run.find(W + "fldChar") is not None:
            continue
        switched = next((switch for switch, on in styles.items() if _has(run, switch, on)), None)
        if switched in STRUCK:
            struck += [text.text or "" for text in run.iter(W + "t")]
        if switched:
            _replace(run, [])
    for row in list(tree.iter(W + "tr")):
        own = row.find(f"{W}trPr/{W}hidden")
        if row.find(f"{W}trPr/{W}del") is not None or (own is not None and _is_on(own)):
            _replace(row, [])
    for mark in list(tree.iter(W + "cellDel")):
        _replace(mark.getparent().getparent(), [])
    return " ".join(" ".join(struck).split())


def _has(run: Any, switch: str, styles: set[str]) -> bool:
    """Whether a run has a property, by itself or by a style."""
    own = run.find(f"{W}rPr/{W}{switch}")
    of_run = run.find(f"{W}rPr/{W}rStyle")
    paragraph = next(run.iterancestors(W + "p"), None)
    of_paragraph = paragraph.find(f"{W}pPr/{W}pStyle") if paragraph is not None else None
    styled = any(style is not None and style.get(W + "val") in styles for style in (of_run, of_paragraph))
    return _is_on(own) if own is not None else styled


def _free_boxes(tree: Any) -> None:
    """Moves the paragraphs of each text box behind the paragraph to which it is anchored."""
    last: dict[Any, Any] = {}
    for box in list(tree.iter(W + "txbxContent")):
        anchor = next(box.iterancestors(W + "p"), None)
        if anchor is None:
            continue
        for block in list(box):
            last.get(anchor, anchor).addnext(block)
            last[anchor] = block


def _replace(element: Any, others: list[Any]) -> None:
    """Puts other elements in the place of an element, without the text after it, which XML of Word does not have."""
    parent = element.getparent()
    at = parent.index(element)
    parent[at : at + 1] = others


def _parts(tree: Any) -> Iterator[Part]:
    """The outermost blocks of mammoth's HTML in order, each with the last heading before it.

    A heading is a block itself, if nothing is below it.
    """
    heading, level, bare = "", "", False  # bare: nothing is below it so far
    for mark in tree.iter("input"):  # a check box
        mark.text = "☒" if mark.get("checked") else "☐"
    flatten_tables(tree, page=False)
    for element in tree:
        whole = " ".join(text_of(element).split()) if element.tag in HEADINGS else ""
        if element.tag in HEADINGS and len(whole) <= LONGEST_HEADING:
            if bare and element.tag <= level:
                yield {"text": heading, "heading": "", "page": 0}
            heading, level, bare = whole, element.tag, bool(whole)
            continue
        blocks = list(element) if element.tag in ("ul", "ol") else [element]
        for block in blocks:
            lines = block.iter("tr") if block.tag == "table" else [block]
            text = "\n".join(" ".join(text_of(line).split()) for line in lines)
            bare = bare and not text
            yield {"text": text, "heading": heading, "page": 0}
    if bare:
        yield {"text": heading, "heading": "", "page": 0}
