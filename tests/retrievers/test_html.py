"""Web pages: text outside of blocks, superscripts, tables, and pages in place of the content."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.core.errors import UserError
from moot.core.lazy import imported
from moot.retrievers import read_passages
from moot.retrievers._documents.grid import flatten_tables
from moot.retrievers._documents.html import parse_html
from moot.retrievers._documents.parsed import Part
from moot.retrievers._documents.placeholders import Shown, judge

html = imported("lxml.html")
LONG = "The canal has no locks, as the seas at its ends are level. "


def texts(folder: Path, body: str, notes: list[str] | None = None) -> list[str]:
    """The texts of the passages of a page with this body."""
    (folder / "a.html").write_text(f"<!doctype html><html><body>{body}</body></html>", encoding="utf-8")
    return [one.text for one in read_passages(folder / "a.html", noted=(notes if notes is not None else []).append)]


@pytest.mark.parametrize("around", ["<article>{}</article>", "{}", "<section>{}</section>", "<font size=2>{}</font>"])
@pytest.mark.parametrize("length", [1, 9])
def test_loose_text_and_text_around_line_breaks_are_read_in_order(tmp_path: Path, around: str, length: int) -> None:
    body = f"First, loose.<br><br>Then this.<p>{LONG * length}</p>Loose again.<span> And more.</span><p>Last.</p>"
    found = " ".join(texts(tmp_path, around.format(body)))
    places = [
        found.find(one) for one in ("First, loose.", "Then this.", LONG.strip(), "Loose again.", "And more.", "Last.")
    ]
    assert places == sorted(places)
    assert -1 not in places


@pytest.mark.parametrize(
    "stated",
    [
        "<meta name='Last-Modified' content='12 May 2021'><meta property='og:updated_time' content='2015-03-02'>",
        "<meta http-equiv='last-modified' content='Wed, 12 May 2021 10:00:00 GMT'>",
        "<meta name='DCTERMS.modified' content='2021-05-12'>",
        "<time class='entry-date updated' datetime='2021-05-12T10:00:00+02:00'>lately</time>",
        '<script type="application/ld+json">{"dateModified": "2021-05-12T10:00:00Z"}</script>',
    ],
)
def test_the_latest_change_that_a_page_states(stated: str, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(f"{stated}<article><p>{LONG * 9}</p></article>")
    assert parse_html(tmp_path / "a.html")["modified"] == "2021-05-12"


def test_superscripts_are_apart_from_numbers(tmp_path: Path) -> None:
    [found] = texts(tmp_path, "<article><p>In 1869<sup>2</sup>, 3 x 10<sup>-6</sup> of H<sub>2</sub>O.</p></article>")
    assert found == "In 1869², 3 x 10⁻⁶ of H₂O."
    notes = "In 1869<sup>1,2</sup> 10<span style='vertical-align: super'>6</span> 10<sup>n+1</sup> 5<sup>th</sup>"
    assert texts(tmp_path, f"<p>{notes} <ruby>京<rt>きょう</rt></ruby>橋</p>") == ["In 1869¹,² 10⁶ 10^(n+1) 5th 京橋"]


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
    assert notes == ["a.html: it says “Subscribe to continue reading.”, so it may hold only a part of the page."]


TOWNS = """<table><caption>People</caption>
<tr><th rowspan=2>Town</th><th colspan=2>Traffic</th></tr><tr><th>Cars</th><th>Trains</th></tr>
<tr><th colspan=3>East</th></tr>
<tr><th scope=row rowspan=2>Lyon</th><td>10<sup>6</sup></td><td>none</td></tr><tr><td colspan=2>n/a</td></tr>
<tr><td>Total</td><td>5</td><td>6</td></tr></table>"""
TABLES = {
    TOWNS: "People. East; Town: Lyon; Traffic Cars: 10⁶; Traffic Trains: none. "
    "East; Town: Lyon; Traffic Cars, Traffic Trains: n/a. Town: Total; Traffic Cars: 5; Traffic Trains: 6.",
    "<table><tr><td></td><th>2019</th><th>2020</th></tr><tr><th>Rate</th><td>4</td><td>5</td></tr></table>": (
        "Rate; 2019: 4; 2020: 5."
    ),
    "<table><tr><th colspan=2>Bridge</th></tr><tr><th>Opened</th><td>1869</td></tr></table>": "Bridge; Opened: 1869.",
    "<table><tr><th>Key</th><th>Value</th></tr><tr><td>Parts</td><td><table><tr><th>Part</th><th>Sum</th></tr>"
    "<tr><td>iron</td><td>200</td></tr></table></td></tr></table>": "Key: Parts; Value: Part: iron; Sum: 200.",
    "<table><tr><td><b>Year</b></td><td><b>What</b></td></tr><tr><td>1869</td><td>Opening</td></tr></table>": (
        "Year: 1869; What: Opening."
    ),
    "<table><tr><td>Year</td><td>What</td></tr><tr><td>1869</td><td>Opening</td></tr></table>": (
        "Year: 1869; What: Opening."
    ),
    "<table><tr><td>Name</td><td>Old</td></tr><tr><td>Opened</td><td>1869</td></tr></table>": (
        "Name | Old. Opened | 1869."
    ),
    "<table><tr><th>Only</th><th>heads</th></tr></table>": "Only; heads.",
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("words", [1, 5])
def test_cells_keep_the_headings_of_their_rows_and_columns(tmp_path: Path, table: str, words: int) -> None:
    found = texts(tmp_path, f"<article><p>{LONG * words}</p>{table}<p>{LONG * words}</p></article>")
    assert TABLES[table] in found


@given(st.integers(2, 4), st.integers(2, 4), st.data())
def test_each_cell_of_a_table_stands_between_its_own_headings(columns: int, rows: int, data: st.DataObject) -> None:
    """Cells may reach over several rows; each stands behind the name of its column in all of them."""
    table = html.Element("table")
    head = html.fromstring(f"<table><tr>{''.join(f'<th>c{at}</th>' for at in range(columns))}</tr></table>")[0]
    table.append(head)
    taken: dict[int, tuple[int, str]] = {}
    wanted = []
    for row in range(rows):
        line, element = [], html.Element("tr")
        for column in range(columns):
            left, text = taken.pop(column, (0, ""))
            if not left:
                left = data.draw(st.integers(1, rows - row))
                text = f"r{row}x{column}"
                cell = html.Element("td", rowspan=str(left))
                cell.text = text
                element.append(cell)
            if left > 1:
                taken[column] = (left - 1, text)
            line.append(f"c{column}: {text}")
        table.append(element)
        wanted.append("; ".join(line))
    flatten_tables(table, page=False)
    assert [row.text_content() for row in table.iter("tr")] == wanted


def test_text_that_readers_do_not_see_and_withdrawn_text_are_left_out(tmp_path: Path) -> None:
    """There is a note on withdrawn text, and on hidden paragraphs. What a script shows at once is read."""
    body = (
        '<p>Seen<span style="color: red; display : none">no</span> in 1869.</p><p hidden>No.</p>'
        "<i aria-hidden=true>no</i>"
        f'<p hidden="until-found">Folded.</p><div style="display:none"><p>{LONG * 3}</p></div>'
        '<p>It cost <del>200</del> <s>250</s> 300<span style="text-decoration: line-through"> francs</span> gulden.</p>'
    )
    notes: list[str] = []
    found = texts(tmp_path, f'<main aria-hidden="true"><article>{body}</article></main>', notes)
    assert found == ["Seen in 1869.", "Folded.", "It cost 300 gulden."]
    assert notes == [
        "a.html: text that is struck out is left out (“200 250 francs”); text that it hides is left out (“The canal "
        "has no locks, as the seas at its ends are level. The canal has no lock ...”)."
    ]


def test_equations_are_read_from_the_hidden_mathml_beside_their_picture(tmp_path: Path) -> None:
    power = "<msup><mn>10</mn><mn>6</mn></msup>"
    math = f"<math><semantics><mrow>{power}<mo>=</mo><mfrac><mi>a</mi><mi>b</mi></mfrac></mrow>"
    math += '<annotation encoding="application/x-tex">10^6</annotation></semantics></math>'
    [found] = texts(tmp_path, f'<p>It is <span style="display: none;">{math}</span><img aria-hidden=true> high.</p>')
    assert found == "It is 10⁶=a/b high."


MENUS = "<ul>" + "".join(f"<li><a href=/{n}>A long entry of a menu, number {n}</a></li>" for n in range(60)) + "</ul>"
FOOTER = (
    "<div id='footer'><p>© 2024 The Sentinel Ltd, 1 Main Street, Northbridge. All rights reserved. Imprint.</p></div>"
)
ABSENT = [
    ("Seite nicht gefunden – Zeitung", "<p>Die von Ihnen aufgerufene Seite existiert leider nicht.</p>"),
    ("Fehler 404", "<p>Die angeforderte Seite konnte nicht gefunden werden. Vielleicht wurde sie verschoben.</p>"),
    ("Page introuvable", "<p>La page que vous recherchez n’existe plus.</p>"),
    ("404 | Diario", "<p>Lo sentimos, la página que busca no existe.</p>"),
    ("Pagina non trovata", "<p>La pagina che stai cercando è stata rimossa.</p>"),
    ("Страница не найдена", "<p>Запрашиваемая вами страница была удалена.</p>"),
    ("404 页面不存在", "<p>抱歉，您访问的页面不存在。</p>"),
    ("ページが見つかりません", "<p>お探しのページは削除された可能性があります。</p>"),
    ("الصفحة غير موجودة", "<p>الصفحة التي تبحث عنها غير موجودة.</p>"),
    ("Oops", "<h1>Oops! That page can’t be found.</h1><p>It looks like nothing was found at this location.</p>"),
    ("Sidan hittades inte", "<p>Sidan du letar efter finns inte längre.</p>"),
    ("Stránka nenalezena", "<p>Omlouváme se, ale požadovaná stránka neexistuje.</p>"),
    ("Lỗi 404", "<p>Trang bạn tìm kiếm không tồn tại.</p>"),
    ("Town", "<p>The site is currently undergoing scheduled maintenance.</p>"),
    ("Log in", "<form><label>E-mail</label><input></form>"),
    ("App", "<p>Loading…</p>"),
    ("App", "<noscript>Bitte aktivieren Sie JavaScript.</noscript>"),
    ("App", "<noscript>Необходимо включить JavaScript.</noscript>"),
    ("App", "<noscript>请启用 JavaScript。</noscript>"),
    ("App", "<noscript>يرجى تفعيل جافا سكريبت.</noscript>"),
    ("App", "<noscript>Az oldal használatához engedélyezze a szkripteket a böngészőben.</noscript><p>...</p>"),
    ("Einen Moment bitte", "<p>www.example.org prüft die Sicherheit Ihrer Verbindung.</p>"),
    ("Access Denied", "<p>You don't have permission to access this page on this server.</p>"),
    ("News", "<p>Nous et nos partenaires utilisons des cookies. Accepter ou refuser les cookies.</p>"),
]
READ = [
    ("What “404 Not Found” means", "When a server finds no file, it says 404 Not Found. The code dates from 1992."),
    ("404 Not Found - Encyclopaedia", f"The code 404 is sent by servers. {LONG * 3}"),
    ("A history of JavaScript", f"Browsers could disable JavaScript from 1996. {LONG * 3}"),
    ("Verschollene Seite gefunden", "Die Seite der Handschrift, die lange nicht gefunden wurde, ist in Lyon. " + LONG),
    ("Plan", "El alcalde dijo que no existe un plan. Costará 300 euros."),
    ("План", "Статья была удалена, сообщил мэр. Плана не существует."),
    ("Bridge", "The bridge is closed for scheduled maintenance until 3 May."),
    ("Cookies in court", "The court ruled that sites need consent before they store cookies. " + LONG),
    ("Lost", "A page of the book that was not found for 300 years was found in 1998."),
    ("500 years of printing", "Printing with movable type began in Mainz about 1450, and reached Venice in 1469."),
]


@pytest.mark.parametrize("menus", ["", MENUS])
def test_placeholders_of_many_languages_are_refused_and_articles_about_them_read(tmp_path: Path, menus: str) -> None:
    footer = FOOTER if menus else ""
    articles = [(title, f"<article><h1>{title}</h1><p>{said}</p></article>") for title, said in READ]
    for number, (title, said) in enumerate([*ABSENT, *articles]):
        page = f"<title>{title}</title><body>{menus}{said}{footer}"
        (tmp_path / f"{number:02}.html").write_text(page, encoding="utf-8")
    refused: list[UserError] = []
    found = [one.text for one in read_passages(tmp_path, refused.append)]
    assert found == [said.strip() for _, said in READ]
    assert all("in place of the content" in str(error) for error in refused)
    assert len(refused) == len(ABSENT)


@given(st.integers(0, 60), st.sampled_from(ABSENT), st.integers(0, 3))
def test_more_text_never_turns_content_into_a_placeholder(words: int, absent: tuple[str, str], more: int) -> None:
    """A page that is read stays so with more sentences of its own."""
    title, said = absent
    block = " ".join(html.fromstring(f"<div>{said}</div>").itertext())
    own = " ".join(f"word{at}" for at in range(words))

    def refused(text: str) -> str:
        parts: list[Part] = [{"text": one, "heading": "", "page": 0} for one in (block, text)]
        return judge(Shown([title], parts, "", is_paid=False))[0]

    if not refused(f"{own}."):
        assert not refused(f"{own}. {LONG * more}")


def test_text_for_search_engines_and_for_browsers_without_scripts_is_read_where_there_is_no_other(
    tmp_path: Path,
) -> None:
    notes: list[str] = []
    article = {
        "@type": "NewsArticle",
        "headline": "The canal",
        "articleBody": f"{LONG * 3}\n\nIt is long.",
        "datePublished": "2024-03-05T10:00Z",
    }
    told = f'<script type="application/ld+json">{json.dumps({"@graph": [{"@type": "WebSite"}, article]})}</script>'
    shell = "<noscript>You need to enable JavaScript to run this app.</noscript><div id=root></div>"
    (tmp_path / "a.html").write_text(f"<title>App</title><body>{told}{shell}")
    first, *_ = found = list(read_passages(tmp_path / "a.html", noted=notes.append))
    assert (first.title, first.published, found[-1].text.endswith("It is long.")) == ("The canal", "2024-03-05", True)
    assert "search engines" in notes[0]
    assert LONG.strip() in texts(tmp_path, f"<div>Loading</div><noscript><p>{LONG * 6}</p></noscript>")[-1]
    assert texts(tmp_path, f"{told}<article><p>{LONG * 9}</p></article>") == [(LONG * 9).strip()]


def test_a_page_that_says_that_it_is_paid_for_gives_a_notice(tmp_path: Path) -> None:
    """In words of many languages, or only to search engines."""
    told = '<script type="application/ld+json">{"headline": "Canal", "isAccessibleForFree": "False"}</script>'
    walls: tuple[str, ...] = (
        "Jetzt weiterlesen mit S+.",
        "Cet article est réservé aux abonnés.",
        "この記事は有料会員限定です。",
        "Bli prenumerant för att läsa hela artikeln.",
    )
    walls += ("Материал доступен только подписчикам", "Exclusivo para suscriptores", "订阅后继续阅读全文")
    for wall in (*walls, "هذا المحتوى للمشتركين فقط", told):
        notes: list[str] = []
        assert texts(tmp_path, f"<article><p>{LONG * 3}</p><div>{wall}</div></article>", notes)[0] == (LONG * 3).strip()
        assert "it may hold only a part" in notes[0]
