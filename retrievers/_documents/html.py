"""Parses HTML pages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

from moot.core.lazy import imported
from moot.retrievers._documents.blocks import blocks
from moot.retrievers._documents.charsets import charset_in_name, decode
from moot.retrievers._documents.equations import of_mathml
from moot.retrievers._documents.grid import INLINE, flatten_tables
from moot.retrievers._documents.parsed import (
    ParsedDocument,
    Part,
    UnreadableDocument,
    beginning,
    new_document,
    struck_note,
)
from moot.retrievers._documents.placeholders import FEWEST_WORDS, LEAST_WORDS, Shown, is_wall, judge, words_in
from moot.retrievers._normalise import iso_date

RAISED = {
    "sup": str.maketrans("0123456789+-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻"),
    "sub": str.maketrans("0123456789+-−", "₀₁₂₃₄₅₆₇₈₉₊₋₋"),
}
HIDDEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)\b", re.IGNORECASE)
SHIFTED = re.compile(r"\bvertical-align\s*:\s*(super|sub|text-top)\b", re.IGNORECASE)
STRUCK = re.compile(r"\btext-decoration(?:-line)?\s*:[^;]*\bline-through\b", re.IGNORECASE)
CONTENT = frozenset(("html", "body", "main", "article", "h1"))
"""Elements that are read even if they are hidden: a page that a script shows, or one behind an open dialogue."""
MENUS = ("nav", "footer", "aside", "select", "button", "menu", "dialog", "noscript", "script", "style", "template")
"""Elements without a page's own text."""
UNREAD = ("head", "title", "script", "style")
"""Elements whose text a browser does not show in a page."""
MENU = re.compile(r"(?:^|[\s_-])(?:nav(?:bar|igation)?|menu|footer|sidebar|breadcrumbs?)(?:$|[\s_-])", re.IGNORECASE)
"""A word in the class or the id of such an element."""
UNSEEN = ("rt", "rp", "iframe", "video", "audio", "canvas")
"""Elements whose text a browser does not show, or which only say how other text is read (the small letters of ruby)."""
LOOSE = ("body", "main", "article", "section", "div", "center", "form", "fieldset")
"""Elements in which text may stand outside of paragraphs."""
WITHIN = INLINE | {"img", "picture", "svg", "button"}
"""Elements within lines."""
BLOCKS = ("p", "li", "td", "th", "dl", "blockquote", "pre", "figcaption", "table")
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")


class Told(NamedTuple):
    """The article that a page describes for search engines (JSON-LD of schema.org)."""

    text: str = ""
    title: str = ""
    published: str = ""
    is_paid: bool = False


def parse_html(file: Path) -> ParsedDocument:
    """Parses an HTML page; if its main content is not found, all text outside of its menus is read."""
    trafilatura, html = imported("trafilatura"), imported("lxml.html")
    parser = html.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        page = html.document_fromstring(
            decode(file.read_bytes(), charset_in_name(file)).text.encode(errors="replace"), parser=parser
        )
    except html.etree.ParserError as error:
        raise UnreadableDocument("it is not readable HTML") from error
    if any("depth" in fault.message for fault in parser.error_log):
        raise UnreadableDocument("it is nested too deeply. Save it as PDF")
    told, modified, publisher = _told(page), _last_change(page), ""
    _write_equations(page)
    notes = _remove_unseen(page)
    _raise_digits(page)
    for term in page.iter("dt"):
        if "".join(term.itertext()).strip()[-1:].isalnum():
            term.append(term.makeelement("span"))
            term[-1].text = ":"
    flatten_tables(page, page=True)
    shown = _shown(page, is_paid=told.is_paid)
    own = sum(words_in(part["text"]) for part in shown.parts)
    parts: list[Part] | None = None
    if own < FEWEST_WORDS and words_in(told.text) > max(2 * own, LEAST_WORDS):
        parts = [{"text": text, "heading": told.title, "page": 0} for text in told.text.split("\n")]
        notes.append("its text is the one that it gives to search engines, as it shows no other")
        shown = Shown([], parts, "", told.is_paid)
    elif own < LEAST_WORDS and words_in(shown.noscript) >= 2 * max(own, LEAST_WORDS):
        for element in page.iter("noscript"):
            element.tag = "div"
        shown = _shown(page, is_paid=told.is_paid)
    absent, excerpt = judge(shown)
    if absent:
        raise UnreadableDocument(
            f"it is a page in place of the content (“{beginning(absent)}”). Open its address in a browser, and save "
            "the page, or its text as .txt, if it is there"
        )
    _wrap_loose(page)
    for menu in list(page.iter("nav")):  # trafilatura takes the menus of a page with a short text for its text
        _drop(menu)
    found = trafilatura.bare_extraction(
        page,
        include_comments=False,
        include_tables=True,
        favor_recall=True,
        with_metadata=True,
        date_extraction_params={"extensive_search": False, "original_date": True},  # a stated date, not a guess
    )
    title, published = told.title or next(iter(shown.titles), ""), told.published
    if found is not None and found.body is not None:
        title = (parts and told.title) or found.title or title
        published, publisher = found.date or published, found.sitename or ""
        # Of a page with little text, trafilatura may join all blocks, also of menus.
        if own >= FEWEST_WORDS:
            parts = parts or list(blocks(found.body, ("head",), ("p", "list", "table", "quote", "code")))
    url = (found and found.url) or ""
    for element in list(page.iter(*UNREAD)):
        _drop(element)
    parts = parts or [part for part in shown.parts if not is_wall(part["text"])] or _parts(page)
    parsed = new_document(parts, title, published, url)
    parsed |= {"modified": modified, "publisher": publisher, "note": "; ".join(notes), "excerpt": excerpt}
    return parsed


CHANGED = (
    "//meta[@property='article:modified_time' or @property='og:updated_time' or @itemprop='dateModified']/@content",
    "//meta[re:test(@name, '^(last-?modified|revised|dc(terms)?[.](date[.])?modified)$', 'i')]/@content",
    "//meta[re:test(@http-equiv, '^last-modified$', 'i')]/@content",
    "//time[@itemprop='dateModified' or contains(concat(' ', @class, ' '), ' updated ')]/@datetime",
)
"""Where pages state the date of their last change, besides JSON-LD."""
CHANGED_JSON = re.compile(r'"dateModified"\s*:\s*"([^"]{4,40})"')


def _last_change(page: Any) -> str:
    """The latest of the dates that a page states for its last change; empty if it states none."""
    scripts = " ".join(page.xpath("//script[@type='application/ld+json']/text()"))
    names = {"re": "http://exslt.org/regular-expressions"}
    stated = [
        *(text for path in CHANGED for text in page.xpath(path, namespaces=names)),
        *CHANGED_JSON.findall(scripts),
    ]
    return max(filter(None, (iso_date(text.strip()[:40]) for text in stated)), default="")


def _raise_digits(page: Any) -> None:
    """Writes digits in superscripts and subscripts as such, so that they are apart from the number before them."""
    for element in page.iter("span", "font", "a", "small"):
        if found := SHIFTED.search(element.get("style") or ""):
            element.tag = "sup" if found[1].lower() in ("super", "text-top") else "sub"
    for element in list(page.iter("sup", "sub")):
        text = "".join(element.itertext()).strip()
        if re.fullmatch(r"[\d+−,;*†–-]+", text):
            text = text.translate(RAISED[element.tag])
        elif re.fullmatch(r"[\w.+−/*-]*[\d+−/-][\w.+−/*-]*", text):  # an exponent such as n+1
            text = f"{'^' if element.tag == 'sup' else '_'}({text})"
        else:
            continue
        element[:] = []
        element.text = text
        element.drop_tag()


def _write_equations(page: Any) -> None:
    """Puts each equation as text in the place of its MathML, which pages hide beside a picture of it."""
    for element in list(page.iter("math")):
        hidden = [element, *(one for one in element.iterancestors("span") if _is_hidden(one))][-1]
        text = element.makeelement("span")
        text.text = f" {of_mathml(element)} "
        hidden.addprevious(text)
        hidden.drop_tree()


def _is_hidden(element: Any) -> bool:
    return (
        element.get("hidden", "until-found").lower() != "until-found"
        or (element.get("aria-hidden") or "").lower() == "true"
        or HIDDEN.search(element.get("style") or "") is not None
    )


def _remove_unseen(page: Any) -> list[str]:
    """Removes text that readers do not see, and text that is struck out; returns notes."""
    hidden, struck = [], []
    for element in list(page.iter()):
        is_closed = element.tag in UNSEEN or (element.tag in ("template", "dialog") and element.get("open") is None)
        if _is_hidden(element) and not any(True for _ in element.iter(*CONTENT)):
            hidden += [" ".join("".join(one.itertext()).split()) for one in element.iter("p")]
            _drop(element)
        elif is_closed or "mw-editsection" in (element.get("class") or ""):  # MediaWiki's links in headings
            _drop(element)
        elif element.tag in ("del", "s", "strike") or STRUCK.search(element.get("style") or ""):
            struck.append(" ".join("".join(element.itertext()).split()))
            _drop(element)
    notes = [struck_note(" ".join(filter(None, struck)))] if any(struck) else []
    if words_in(" ".join(hidden)) >= LEAST_WORDS:
        notes.append(f"text that it hides is left out (“{beginning(max(hidden, key=len))}”)")
    return notes


def _wrap_loose(page: Any) -> None:
    """Makes paragraphs of text outside of them, because trafilatura leaves some of it out, such as a first line."""
    for element in list(page.iter("font", "span")):
        if next(element.iter("br", "p", "div"), None) is not None:
            element.tag = "div"
    for around in [one for one in page.iter(*LOOSE) if any(child.tag not in WITHIN for child in one)]:
        text, around.text = around.text, None
        run: list[Any] = []
        for child in [*around, None]:
            if child is not None and child.tag in WITHIN:
                run.append(child)
                continue
            links = sum(len("".join(one.itertext())) for top in run for one in top.iter("a"))
            whole = (text or "") + "".join("".join(one.itertext()) + (one.tail or "") for one in run)
            if 2 * links < len(whole.strip()):
                paragraph = around.makeelement("p")
                paragraph.text = text
                (around.append if child is None else child.addprevious)(paragraph)
                paragraph.extend(run)
            elif run:
                before = run[0].getprevious()
                if text and before is not None:
                    before.tail = text
                elif text:
                    around.text = text
            text, run = None, []
            if child is not None:
                text, child.tail = child.tail, None


def _drop(element: Any) -> None:
    if element.getparent() is not None:
        element.drop_tree()


def _shown(page: Any, *, is_paid: bool) -> Shown:
    """What a page shows, without its menus, and without blocks that are mostly links."""
    noscript = " ".join(" ".join(" ".join(one.itertext()).split()) for one in page.iter("noscript"))
    titles = [" ".join("".join(one.itertext()).split()) for one in page.iter("title", "h1")]
    rest = deepcopy(page)
    for element in list(rest.iter()):
        named = f"{element.get('class') or ''} {element.get('id') or ''}"
        role = element.get("role") in ("navigation", "banner", "contentinfo", "search", "menu", "dialog")
        if element.tag in (*MENUS, "title") or role or (element.tag not in CONTENT and MENU.search(named)):
            _drop(element)
    for link in list(rest.iter("a")):
        around = next(link.iterancestors("p", "li", "td", "ul", "ol", "div", "section", "body"), rest)
        of_links = sum(len("".join(one.itertext())) for one in around.iter("a"))
        if 2 * of_links > len("".join(around.itertext()).strip()):
            _drop(link)
    return Shown(list(filter(None, titles)), _parts(rest), noscript.strip(), is_paid)


def _parts(page: Any) -> list[Part]:
    body = page.find("body")
    return list(blocks(body if body is not None else page, HEADINGS, BLOCKS))


def _told(page: Any) -> Told:
    """The article in a page's JSON-LD; empty if there is none, or if it is not valid."""
    found = Told()
    for script in page.xpath("//script[contains(@type, 'ld+json')]"):
        try:
            data = json.loads(script.text or "", strict=False)
        except (ValueError, RecursionError):  # only another form of what the page shows
            continue
        for one in _objects(data):
            text = _told_text(one.get("articleBody"))
            is_free = str(one.get("isAccessibleForFree", True)).lower() != "false"
            if len(text) > len(found.text):
                published = str(one.get("datePublished") or "")[:10]
                published = published if re.fullmatch(r"\d{4}-\d\d-\d\d", published) else ""
                found = found._replace(text=text, title=_told_text(one.get("headline")), published=published)
            if "articlebody" in map(str.lower, one) or "headline" in one:
                found = found._replace(is_paid=found.is_paid or not is_free)
    return found


def _objects(data: Any) -> Iterator[dict[str, Any]]:
    """The objects in a JSON value, also within others."""
    pending = [data]
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            yield one
            pending += one.values()
        elif isinstance(one, list):
            pending += one


def _told_text(value: Any) -> str:
    """A text of JSON-LD, which may contain HTML, with a line for each paragraph."""
    if not isinstance(value, str) or not value.strip():
        return ""
    paragraphs = "".join(f"<p>{line}</p>" for line in value.splitlines())
    tree = imported("lxml.html").fragment_fromstring(paragraphs, create_parent="div")
    return "\n".join(part["text"] for part in blocks(tree, (), ("p", "li", "div", *HEADINGS)))
