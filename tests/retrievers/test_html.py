"""Web pages: text outside of blocks, superscripts, tables, and pages in place of the content."""

from __future__ import annotations

from pathlib import Path

import pytest
from moot.core.errors import UserError
from moot.retrievers import read_passages

LONG = "The canal has no locks, as the seas at its ends are level. "


def texts(folder: Path, body: str, notes: list[str] | None = None) -> list[str]:
    """The texts of the passages of a page with this body."""
    (folder / "a.html").write_text(f"<!doctype html><html><body>{body}</body></html>", encoding="utf-8")
    return [one.text for one in read_passages(folder / "a.html", noted=(notes if notes is not None else []).append)]


def test_loose_text_and_text_around_line_breaks_are_read_in_order(tmp_path: Path) -> None:
    body = f"First, loose.<br><br>Then this.<p>{LONG}</p>Loose again.<span> And more.</span><p>Last.</p>"
    found = " ".join(texts(tmp_path, f"<article>{body}</article>"))
    places = [
        found.find(one) for one in ("First, loose.", "Then this.", LONG.strip(), "Loose again.", "And more.", "Last.")
    ]
    assert places == sorted(places)
    assert -1 not in places


def test_superscripts_are_apart_from_numbers(tmp_path: Path) -> None:
    [found] = texts(tmp_path, "<article><p>In 1869<sup>2</sup>, 3 x 10<sup>-6</sup> of H<sub>2</sub>O.</p></article>")
    assert found == "In 1869², 3 x 10⁻⁶ of H₂O."


def test_cells_keep_the_name_of_their_column(tmp_path: Path) -> None:
    rows = "<tr><th>Name</th><th>Year</th></tr><tr><td>Old</td><td>1869</td></tr><tr><td>New</td><td>1901</td></tr>"
    found = texts(tmp_path, f"<article><p>{LONG * 3}</p><table>{rows}</table><p>{LONG}</p></article>")
    assert "Name: Old; Year: 1869. Name: New; Year: 1901." in found


def test_pages_in_place_of_the_content_are_refused(tmp_path: Path) -> None:
    for said in ("404 Not Found", "Just a moment...", "<noscript>Please enable JavaScript.</noscript>"):
        with pytest.raises(UserError, match="in place of the content"):
            texts(tmp_path, f"<h1>{said}</h1>")
    assert texts(tmp_path, f"<article><p>{LONG * 10} It said: 404 Not Found.</p></article>")
    assert texts(tmp_path, f"<script>'404 not found'</script><article><p>{LONG}</p></article>")


def test_a_page_behind_a_wall_gives_a_notice(tmp_path: Path) -> None:
    notes: list[str] = []
    texts(tmp_path, f"<article><p>{LONG}</p><p>Subscribe to continue reading.</p></article>", notes)
    assert notes == ["a.html: it says “Subscribe to continue”, so it may hold only a part of the page."]
