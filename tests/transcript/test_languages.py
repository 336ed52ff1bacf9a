"""Each language has every text of reports and of the page, and no more, with the same placeholders and all plurals."""

from __future__ import annotations

import ast
import html
import json
import re
import string
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from babel import Locale
from moot.core.errors import UserError
from moot.core.reviews import DEFAULT_SCALE
from moot.graphs._registry import SYSTEMS
from moot.nodes._texts.verdict import NOTHING_FOUND, WARRANT_WORDS
from moot.transcript import trial
from moot.transcript.end import CONTRADICTED, NO_MAJORITY, WITHHELD
from moot.transcript.language import LANGUAGES, LOCALES, language_of_claim, speaking, t, texts_of
from moot.transcript.report import codes, head, names
from moot.transcript.report.report import report
from moot.transcript.report.sentences import BEARING, all_sentences
from moot.web.expected import in_dollars
from moot.web.live_view import STEPS
from moot.web.pages import NO_KEY, NO_WEB

from tests.web.documents import SETTINGS, a_debate

ROOT = Path(__file__).parents[2]
RARE = {"es": {"many"}, "fr": {"many"}}
"""Plurals of numbers above a million, which are written as the others."""
TEMPLATES = ("transcript/look/*.html", "transcript/look/*.md", "web/static/*.html", "web/static/*.js")
CALL = re.compile(r'(?<![\w.])t\(\s*"([^"\\]+)"')
"""A text in a template or in the page's code."""


def used() -> set[str]:
    """The English texts of the code: those in calls of ``t``, and those of tables that it gets from variables."""
    return {*_in_calls(), *_in_tables()}


def _in_calls() -> Iterator[str]:
    for path in (*ROOT.glob("transcript/**/*.py"), *ROOT.glob("web/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "t":
                yield from (str(one.value) for one in node.args if isinstance(one, ast.Constant))
    for pattern in TEMPLATES:
        for path in ROOT.glob(pattern):
            yield from CALL.findall(path.read_text(encoding="utf-8"))


def _in_tables() -> Iterator[str]:
    for group, words in codes.CODES.items():
        if group != "setting":  # they stand in English sentences alone
            yield from words.values()
    for answer in codes.ANSWERS.values():
        yield from answer
    for _, lead, sentence in codes.STAND_IN_WARNINGS:
        yield from (lead, sentence)
    yield from (word for _, word in codes.FINDINGS.values())
    yield from (*head.STANCES.values(), *names.ROLES.values(), *names.ABOUT.values())
    yield from (head.NOT_MEASURED, head.NO_EDITOR, head.ONE_SIDED, *head.DECISIONS.values(), *head.DECIDED_BY.values())
    yield from (*WARRANT_WORDS.values(), *all_sentences(), *BEARING.values(), *_methods())
    yield from (step.rating for step in DEFAULT_SCALE.steps)
    yield from (NO_KEY, NO_WEB, NOTHING_FOUND, CONTRADICTED, NO_MAJORITY, WITHHELD)
    yield from (doing for _, doing in STEPS.values())
    yield from (heading.replace("{round}", "{number}") for heading in trial.HEADINGS.values())


def _methods() -> Iterator[str]:
    """The methods that ordinary reports name: those of the page's choices, and moot's own. Others are in English."""
    for entry in (SYSTEMS[graph] for graph in ("tool_mad", "proclaim", "rag", "gated", "isolate")):
        other = (one for values in entry.get("with", {}).values() for one in values.values())
        for one in (entry, *other):
            if about := one.get("description", "").partition(": ")[2]:
                yield about[:1].upper() + about[1:]
    yield from (SYSTEMS[graph]["title"] for graph in ("rag", "gated", "isolate"))


def fields(text: str) -> set[str]:
    """The placeholders of a text."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_has_exactly_the_texts_that_are_used(language: str) -> None:
    needed = {text for text in used() if text}
    if language == "en":  # of English, only the plurals are in a file
        needed = {text for text in needed if "{count}" in text}
    assert sorted(needed - {*texts_of(language)}) == [], "missing"
    assert sorted({*texts_of(language)} - needed) == [], "unused"


@pytest.mark.parametrize("language", LANGUAGES)
def test_translations_have_the_placeholders_and_plurals_of_their_language(language: str) -> None:
    rule = Locale.parse(LOCALES.get(language, language)).plural_form
    plurals = {*rule.tags, "other"}
    for text, found in texts_of(language).items():
        assert isinstance(found, dict) == ("{count}" in text), text
        forms = found if isinstance(found, dict) else {"": found}
        # A text without the word for the things counted is the same for each number: {"other": ...}
        assert {*forms} in ((plurals - RARE.get(language, set()), {"other"}) if "{count}" in text else ({""},)), text
        for form in forms.values():
            assert form.strip(), text
            assert fields(form) | {"count"} == fields(text) | {"count"}, text
            assert len(form) - len(form.lstrip()) == len(text) - len(text.lstrip()), text


# --- reports ----------------------------------------------------------------------------------------------------------


class Marked(dict[str, str]):
    """A language in which each text is the English one with a mark before it."""

    def get(self, text: str, default: object = None) -> Any:
        return f"¤{text}"


class Spoken(HTMLParser):
    """The texts of a report in its language, without styles, code, others' words and what agents did (``.words``)."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.within: list[bool] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "use", "br", "path", "circle", "rect"):
            foreign = tag in ("style", "pre", "code", "bdi") or (tag != "html" and dict(attrs).get("lang") == "en")
            foreign |= dict(attrs).get("class") == "words"
            self.within.append(foreign or (bool(self.within) and self.within[-1]))

    def handle_endtag(self, tag: str) -> None:
        if self.within and tag not in ("meta", "use", "br", "path", "circle", "rect"):
            self.within.pop()

    def handle_data(self, data: str) -> None:
        if not (self.within and self.within[-1]) and data.strip():
            self.texts.append(" ".join(data.split()))


@pytest.mark.parametrize("graph", SETTINGS)
async def test_all_words_of_a_report_are_of_its_language_or_of_the_debate(
    graph: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = await a_debate(graph)
    monkeypatch.setattr("moot.transcript.language.texts_of", lambda language: Marked())
    page = report(document, "html", "de")
    own = json.dumps(document, ensure_ascii=False)
    strange = [text for text in Spoken(page).texts if "¤" not in text and re.search(r"[^\W\d_]{2}", text)]
    assert [text for text in strange if html.escape(text) not in own and text.strip("“”.,:[] ") not in own] == []


@pytest.mark.parametrize(
    ("claim", "language", "way", "day"),
    [
        ("Das Schnabeltier ist ein Säugetier, das Eier legt.", "de", "ltr", "21. Oktober 2020"),
        ("L'ornithorynque est un mammifère qui pond des œufs.", "fr", "ltr", "21 octobre 2020"),
        ("خلد الماء حيوان ثديي يضع البيض.", "ar", "rtl", "21 أكتوبر 2020"),
        ("O ornitorrinco é um mamífero que põe ovos.", "en", "ltr", "21 October 2020"),
    ],
)
async def test_a_report_speaks_the_claims_language(claim: str, language: str, way: str, day: str) -> None:
    document = await a_debate()
    document["claim"] = claim
    document["task"] |= {"speaker": "Ada", "claim_date": "2020-10-21"}
    page = report(document, "html")
    assert f'<html lang="{language}" dir="{way}">' in page
    assert day in page
    assert texts_of(language).get("What was searched", "What was searched") in page
    assert '<html lang="es" dir="ltr">' in report(document, "html", "es")
    with pytest.raises(UserError, match="no texts in the language 'xx'"):
        report(document, "md", "xx")


SHORT = {
    "de": ("Die Erde ist flach.", "Niemand wurde verletzt.", "Bananen sind Beeren.", "Strom wird teurer."),
    "es": ("Los impuestos se han duplicado.", "Las bananas son bayas.", "Franco murió en 1975.", "El pan es más caro."),
    "fr": ("La Terre est plate.", "Les bananes sont des baies.", "Macron a démissionné.", "La Loire traverse Tours."),
    "ar": ("الأرض مسطحة.", "الموز من التوت."),
}
OTHER = (
    "Bananas are berries.",
    "Trump won Arizona.",
    "La Terra è piatta.",
    "De aarde is plat.",
    "A Terra é plana.",
    "ok",
)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_short_claim_is_in_its_language_or_in_that_of_the_page(language: str) -> None:
    with speaking(language):
        for own, claims in SHORT.items():
            assert [language_of_claim(claim) for claim in claims] == [own] * len(claims)
        assert {language_of_claim(claim) for claim in OTHER} == {language}
        assert {language_of_claim(claim) for claim in ("The Earth is flat.", "Berlin is the capital of Germany.")} == {
            "en"
        }


def test_a_number_has_the_plural_of_its_language() -> None:
    with speaking("ar"):
        assert [t("{count} rounds", count=n) for n in (1, 2, 3, 11)] == ["جولة واحدة", "جولتان", "3 جولات", "11 جولة"]
    with speaking("de"):
        assert t("{count} passages", count=1200) == "1.200 Textstellen"
        assert [in_dollars(usd) for usd in (0.00234, 12)] == ["0,0023\u00a0$", "12,00\u00a0$"]
    assert t("{count} passages", count=1) == "1 passage"


def test_the_page_has_no_english_text_outside_of_t() -> None:
    texts = [path.read_text(encoding="utf-8") for path in ROOT.glob("web/static/*.js")]
    loose = re.compile(r'(?<!t\()"([A-Z][a-z]+(?:[ ,.][^"]*)?)"')
    found = {text for source in texts for text in loose.findall(source)}
    assert found <= {"Another branch.", "Empty"}  # in a document, and in the descriptions of settings
