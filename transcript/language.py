"""The languages of reports and of the page, and their texts.

The code has every text in English. A file in ``transcript/languages`` maps these texts to those of its language; a text
with a number has a form for each plural category of the language (Unicode CLDR). The page reads the same files.
`tests/transcript/test_languages.py` names missing and unused texts.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, date, datetime
from functools import cache, reduce
from importlib.resources import files
from typing import Any

from babel import Locale
from babel.dates import format_date, format_skeleton, format_time
from babel.lists import format_list
from babel.numbers import format_decimal
from moot.core.errors import UserError
from moot.retrievers._languages import certain_language

LANGUAGES = {"en": "English", "de": "Deutsch", "es": "Español", "fr": "Français", "ar": "العربية"}
"""The name of each language in that language."""
LOCALES = {"en": "en_GB"}
"""The locale of a language whose dates and lists are not those of the language alone."""
FOLDER = files("moot.transcript").joinpath("languages")
DAY = re.compile(r"(\d{4})-(\d\d)(?:-(\d\d))?")
_current: ContextVar[str] = ContextVar("language", default="en")


def t(text: str, /, **values: Any) -> str:
    """A text in the current language, with values in its placeholders. ``count`` decides on the plural.

    A value in a script of the other direction is isolated (Unicode's bidirectional algorithm).
    """
    found = texts_of(_current.get()).get(text, text)
    form: str = found if isinstance(found, str) else found.get(_locale().plural_form(values["count"]), found["other"])
    return form.format(**{name: _shown(value) for name, value in values.items()}) if values else form


def _shown(value: Any) -> Any:
    return in_figures(value) if isinstance(value, int) else isolated(value) if isinstance(value, str) else value


@cache
def texts_of(language: str) -> Mapping[str, Any]:
    """The texts of a language: English texts with their translations, which depend on a number if they are objects."""
    found: Mapping[str, Any] = json.loads(FOLDER.joinpath(f"{language}.json").read_text(encoding="utf-8"))
    return found


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Texts are in this language, a key of `LANGUAGES`, inside the context."""
    token = _current.set(check_language(language))
    try:
        yield
    finally:
        _current.reset(token)


def check_language(language: str) -> str:
    """The code of a language; UserError if moot has no texts in it."""
    if language not in LANGUAGES:
        known = ", ".join(f"{code} ({name})" for code, name in LANGUAGES.items())
        raise UserError(f"There are no texts in the language {language[:20]!r}. Known: {known}.", kind="bad_request")
    return language


def current_language() -> str:
    """The code of the current language."""
    return _current.get()


def direction() -> str:
    """The direction of the current language's writing: ``ltr`` or ``rtl``."""
    return _locale().text_direction


def language_of_claim(claim: str | None) -> str:
    """The language of a claim; the current one if there are no texts in it, or it is not certain. Blocking."""
    guessed = certain_language(claim) if claim else None
    return guessed if guessed in LANGUAGES else current_language()


def _locale() -> Locale:
    return _locale_of(_current.get())


@cache
def _locale_of(language: str) -> Locale:
    return Locale.parse(LOCALES.get(language, language))


# --- numbers, lists and dates -----------------------------------------------------------------------------------------


def in_figures(number: float, decimals: int | None = None) -> str:
    """A number with the language's separators, and with so many decimals if that is given."""
    pattern = None if decimals is None else "#,##0" + "." * bool(decimals) + "0" * decimals
    return format_decimal(number, format=pattern, locale=_locale())


def listed(words: Iterable[str]) -> str:
    """Words as a list in a sentence: ``a, b and c``; empty without words."""
    return format_list([*words], locale=_locale())


def isolated(text: str) -> str:
    """A text of others for a sentence, isolated if its letters have the other direction."""
    found = {unicodedata.bidirectional(letter) for letter in text}
    is_rtl = not found.isdisjoint(("R", "AL"))
    is_foreign = is_rtl if direction() == "ltr" else "L" in found and not is_rtl
    return f"\u2068{text}\u2069" if is_foreign else text


def in_clauses(parts: Iterable[str]) -> str:
    """Parts of a sentence with semicolons between them; empty without parts."""
    found = [*parts]
    return reduce(lambda one, other: t("{one}; {other}", one=one, other=other), found) if found else ""


def day_in_words(text: str) -> str:
    """A day or a month in ISO form in words; any other text as it is."""
    if (found := DAY.fullmatch(text)) is None:
        return text
    year, month, day = found.groups()
    try:
        at = date(int(year), int(month), int(day or 1))
    except ValueError:
        return text
    return format_date(at, "long", _locale()) if day else format_skeleton("yMMMM", at, locale=_locale())


def time_in_words(at: datetime) -> tuple[str, str]:
    """A day, and a time of day in UTC, in words."""
    universal = at.astimezone(UTC)
    return format_date(universal, "long", _locale()), f"{format_time(universal, 'HH:mm', locale=_locale())} UTC"
