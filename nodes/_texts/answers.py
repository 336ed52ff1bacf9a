"""Parses models' texts as answers of the task, and compares answers.

Nothing is guessed. `moot.nodes._texts.label_reading` reads labels. A number must be the only one in the text, or the
result of a calculation. A short answer or an expression must be the whole text. A text has no answer if it denies a
label or number, names several labels or numbers, or only quotes a label. Then the caller may ask the model again.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from moot.nodes._records.entries import Task
from moot.nodes._texts.label_reading import read_label
from moot.nodes._texts.labels import MARKS, fold_label, spellings
from moot.nodes._texts.wrapped import ANSWER_LEAD, unwrap_answer, without_lead

LONGEST_READ = 20_000
"""Maximum number of characters of a text that is parsed as an answer."""
LONGEST_ANSWER = 500
"""Maximum number of characters of a short answer or an expression."""

REFUSALS = frozenset(
    ("i don't know", "i do not know", "unknown", "n/a", "null", "cannot be determined", "not known", "no answer")
)
"""Texts that do not count as short answers or expressions, as normalised by `_normalised`.

If the prompt offers an abstention, each of these texts except "null" counts as an abstention.
"""
ABSTENTION = "(the evidence does not tell)"
"""The words in which prompts offer an abstention, for evidence that does not settle the question."""
_LACK = r"(?:not enough|insufficient|no) (?:evidence|info|information)"
_SOURCE = r"(?:the|this|my|what) (?:\w+ )?(?:evidence|texts?|passages?|documents?|context)"
_NOT_STATED = r"(?:it is )?not (?:stated|specified|given|mentioned|told|known)|(?:it )?can(?:not|'t| not) be determined"
OTHER_ABSTENTIONS = re.compile(
    rf"(?:{_LACK}|{_NOT_STATED})(?: (?:in|by|from) {_SOURCE})?"
    rf"|(?:{_SOURCE} )?(?:does|do)(?: not|n't) (?:tell|say|state it|mention it)|{_SOURCE} is silent"
)
"""Other wordings of an abstention, as normalised by `_normalised`."""


def read_answer(task: Task, text: str, *, may_abstain: bool = False) -> str | None:
    """The task's answer in a text, as the task spells it; None if the text has no clear answer, or is too long."""
    if len(text) > LONGEST_READ:
        return None
    if task["kind"] in ("labels", "number"):
        if may_abstain and _reads_as_abstention(task, text):
            return ABSTENTION
        return read_label(task, text) if task["kind"] == "labels" else read_quantity(text)
    given = unwrap_answer(text)
    given = without_lead(given, ANSWER_LEAD).strip() or given
    if task["kind"] == "short_answer":
        given = given.strip(string.whitespace + "*`")
        if "\n" in given:  # more than a phrase
            return None
    plain = _normalised(given)
    # A short answer may always abstain in the words of `ABSTENTION`; other words only count if the prompt offered that.
    if (task["kind"] == "short_answer" and plain == ABSTENTION[1:-1]) or (may_abstain and _is_abstention(plain)):
        return ABSTENTION
    refused = plain in REFUSALS or given.startswith(("{", "~~"))
    return given if not refused and len(given) <= LONGEST_ANSWER and re.search(r"\w", given) else None


def same_answer(task: Task, one: str, other: str) -> bool:
    """Whether two answers from `read_answer` are the same: equal labels, values with units, or normal forms."""
    if task["kind"] == "short_answer":
        return normal_text(one) == normal_text(other)
    if task["kind"] == "expression":
        return normal_expression(one) == normal_expression(other)
    if task["kind"] == "number":
        value = read_number(one)
        known = value is not None and value == read_number(other)
        return one == other or (known and same_unit(unit_of(one), unit_of(other)))
    return one == other


def _normalised(text: str) -> str:
    return " ".join(text.strip(MARKS).casefold().replace("’", "'").split())


def _is_abstention(plain: str) -> bool:
    return plain in REFUSALS - {"null"} or plain == ABSTENTION[1:-1] or OTHER_ABSTENTIONS.fullmatch(plain) is not None


def _reads_as_abstention(task: Task, text: str) -> bool:
    given = without_lead(unwrap_answer(text), ANSWER_LEAD)
    return _is_abstention(_normalised(given)) and fold_label(given) not in spellings(task)


def abstains(task: Task | None, answer: str | None) -> bool:
    """Whether an answer is `ABSTENTION`; False without a task, or if `ABSTENTION` is one of the task's labels."""
    return task is not None and answer == ABSTENTION and ABSTENTION not in task["labels"]


# --- numbers ----------------------------------------------------------------------------------------------------------

SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
NUMBER = re.compile(
    r"(?<![\w.,/^_√])(?P<sign>[-+])? ?[$€£¥₹]? ?(?P<sign2>[-+])?"
    r"(?:(?P<whole>\d{1,40}) (?=\d{1,20}/))?"
    r"(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d{1,40})?|\d{1,40}(?:\.\d{1,40})?|\.\d{1,40})"
    r"(?:[eE](?P<power>[-+]?\d{1,2})(?!\d))?(?: ?/ ?(?P<below>\d{1,40}))?"
    rf"(?:\s+(?P<scale>{'|'.join(SCALES)})s?\b)?",
)
FRACTION = re.compile(r"\\[dt]?frac\s*\{\s*(\d{1,40})\s*\}\s*\{\s*(\d{1,40})\s*\}|\\[dt]?frac\s*(\d)\s*(\d)")
NEGATED = re.compile(
    r"\b(?:not|never|cannot|neither|nor|no|than|between|or|minus|negative|some|wrong|incorrect|nope|maybe|probably"
    r"|perhaps|dozens?|half|quarters?|twice|squared|lakh|mil|tn|bn)\b|n't\b|[?±~≈<>≤≥]"
    r"|\b(?:about|approximately|approx|roughly|around|nearly|almost|over|under|up to|at (?:least|most))\b"
    r"|\d\s?(?:\+(?!\d)|(?:k|m|bn)\b)"
)


def read_number(text: str) -> Fraction | None:
    """The value of the only number in a text, or of a calculation's result; None if it is unclear, vague or denied."""
    found = _find_number(text)
    return None if found is None else _value_of(found)


@lru_cache(maxsize=1024)
def _find_number(text: str) -> re.Match[str] | None:
    """The match of the only number in a text, by the rules of `read_number`."""
    body = unwrap_answer(text)
    if "####" in body:
        body = body.rpartition("####")[2]
    body = re.sub(r"(?<=\d)(?=[¼½¾⅐-⅞])", " ", body)
    body = unicodedata.normalize("NFKC", body).replace("\u2044", "/").replace("−", "-")
    body = FRACTION.sub(lambda m: f" {m[1] or m[3]}/{m[2] or m[4]}", body)
    body = re.sub(r"\\([$%])", r"\1", re.sub(r"\\[,;! ]", "", body)).replace("*", " ").strip(" \n\t$`")
    body = without_lead(body)
    if re.search(r"\\[a-zA-Z]+|[!<>≠/]=|=/", body):  # a formula or a comparison
        return None
    if "=" in body:
        before, _, body = body.rpartition("=")
        if re.search(r"\bor\b|=.*[,;]|[,;].*=", before + "="):  # "x = 3 or x = 4", "x = 3, y = 4"
            return None
    found = list(NUMBER.finditer(body))
    digits = len(re.findall(r"[\d,./]*\d", body))
    if len(found) != 1 or NEGATED.search(body.casefold()):
        return None
    match = found[0]
    after = body[match.end() :]
    if digits != len(re.findall(r"[\d,./]*\d", match[0])) or re.match(r"[\d.,/:^]*\d|\.\.|\s?[!^π√²³]", after):
        return None
    root = re.search(r"(?:sqrt\(|√)\s?$", body[: match.start()])
    variable = re.match(r"[a-zA-Z](?![a-zA-Z])", after) and after[0] not in "mgslhWVACFKNJ"
    return None if root or variable else match


def _value_of(match: re.Match[str]) -> Fraction | None:
    if match["sign"] and match["sign2"]:
        return None
    value = Fraction(match["digits"].replace(",", ""))
    if match["power"]:
        value *= Fraction(10) ** int(match["power"])
    if match["below"]:
        if not int(match["below"]):
            return None
        value /= int(match["below"])
    value += int(match["whole"] or 0)
    if match["scale"]:
        value *= 10 ** SCALES[match["scale"]]
    return -value if "-" in (match["sign"], match["sign2"]) else value


def show_number(value: Fraction) -> str:
    """The canonical spelling of a value: a decimal number if it is exact, else a fraction."""
    rest, places = value.denominator, 0
    while rest % 10 == 0 or rest % 5 == 0 or rest % 2 == 0:
        rest = rest // 10 if rest % 10 == 0 else rest // 5 if rest % 5 == 0 else rest // 2
        places += 1
    if rest > 1:
        return f"{value.numerator}/{value.denominator}"
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    shown = f"{digits[:-places]}.{digits[-places:]}".rstrip("0").rstrip(".") if places else digits
    return f"-{shown}" if value < 0 else shown


def read_quantity(text: str) -> str | None:
    """The number that `read_number` finds, in its canonical spelling, with its unit if `UNITS` has the unit."""
    found = _find_number(text)
    value = None if found is None else _value_of(found)
    if found is None or value is None:
        return None
    unit = _unit_of(found)
    per = f" per {SINGULARS.get(unit[1], unit[1].removesuffix('s'))}" if len(unit) > 1 else ""
    return f"{show_number(value)} {unit[0]}{per}" if unit else show_number(value)


def unit_of(text: str) -> tuple[str, ...]:
    """The unit of the only number in a text, with a second unit after "per", "/" or "an"; empty without one of
    `UNITS`.
    """
    found = _find_number(text)
    return () if found is None else _unit_of(found)


def same_unit(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two units from `unit_of` may be the same; a missing unit, first or second, may be any unit."""
    return all(a == b for a, b in zip(one, other, strict=False))


UNITS = {
    written: names.split()[0]
    for names in (
        "km kms kilometre kilometres kilometer kilometers",
        "miles mile mi",
        "metres metre meter meters",
        "cm centimetre centimetres centimeter centimeters",
        "mm millimetre millimetres millimeter millimeters",
        "feet foot ft",
        "inches inch",
        "yards yard yd",
        "kg kgs kilogram kilograms kilo kilos",
        "g gram grams",
        "mg milligram milligrams",
        "tonnes tonne",
        "tons ton",
        "pounds pound lb lbs £ gbp",
        "ounces ounce oz",
        "litres litre liter liters l",
        "ml millilitre millilitres milliliter milliliters",
        "gallons gallon",
        "seconds second sec secs",
        "minutes minute min mins",
        "hours hour hr hrs h",
        "days day",
        "weeks week",
        "months month",
        "years year yr yrs",
        "°C celsius",
        "°F fahrenheit",
        "kelvin",
        "dollars dollar usd",
        "cents cent ¢",
        "euros euro € eur",
        "yen ¥ jpy",
        "rupees rupee ₹ inr",
    )
    for written in names.casefold().split()
}
"""The canonical name of each unit, by its spellings. Other words next to a number are ignored in comparisons.

The dollar sign is left out, because LaTeX has it around all formulae.
"""
SINGULARS = {"inches": "inch", "feet": "foot"}
_UNIT = rf"(?:{'|'.join(sorted(map(re.escape, UNITS), key=len, reverse=True))})(?!\w)"
UNIT_AFTER = re.compile(rf"[\s-]{{0,2}}(?:degrees?\s)?({_UNIT})", re.IGNORECASE)
UNIT_BEFORE = re.compile(rf"(?<!\w)({_UNIT})\s?$", re.IGNORECASE)
PER = re.compile(rf"\s?(?:/|per\b|an?\b|each\b)\s?({_UNIT})", re.IGNORECASE)
SPEED = re.compile(r"(?<!\w)(?:(k)(?:mp?|p)h|mph)(?!\w)", re.IGNORECASE)


def _unit_of(found: re.Match[str]) -> tuple[str, ...]:
    rest = SPEED.sub(lambda speed: "km/h" if speed[1] else "mi/h", found.string[found.end() :])
    sign, after = re.search("[€£¥₹]", found[0]), UNIT_AFTER.match(rest)
    before = UNIT_BEFORE.search(found.string[: found.start()])
    if not (head := sign[0] if sign else after[1] if after else before[1] if before else ""):
        return ()
    per = PER.match(rest, after.end() if after else 0)
    return tuple(UNITS[part.casefold()] for part in ([head, per[1]] if per else [head]))


def surely_differ(one: str, other: str) -> bool:
    """Whether two answers certainly differ: only one abstains, or they are equal numbers with different units."""
    if one == other or ABSTENTION in (one, other):
        return one != other
    value = read_number(one)
    return value is not None and value == read_number(other) and not same_unit(unit_of(one), unit_of(other))


# --- short answers and expressions ------------------------------------------------------------------------------------


def normal_text(text: str) -> str:
    """A short answer for comparisons, in lower case and without accents, a leading article and most punctuation."""
    plain = unicodedata.normalize("NFKD", text).casefold()
    plain = unicodedata.normalize("NFC", re.sub(r"(?<=[a-zα-ωа-я])[\u0300-\u036f]+", "", plain))
    # Punctuation that may change the meaning becomes its character code; the rest is removed.
    plain = re.sub(r"(?<=\d)[.,/](?=\d)|[-+](?=\d)|[+#%$<>]|(?<=\w)[-/](?=\w)", lambda m: f"\x00{ord(m[0])}\x01", plain)
    words = re.sub(r"[^\w\x00\x01]+", " ", plain.replace("'", "").replace("’", "")).split()
    if len(words) > 1 and words[0] in ("a", "an", "the"):
        words = words[1:]
    return " ".join(words) or text.strip()


def normal_expression(text: str) -> str:
    """A LaTeX expression for comparisons, without layout and "x =", by rules like those of the MATH benchmark."""
    shown = unwrap_answer(text).strip().strip("$").strip().rstrip(".")
    shown = re.sub(r"\\(?:left|right|displaystyle|!|,|;|:|quad|qquad)(?![a-zA-Z])|\\ |~", " ", shown)
    shown = re.sub(r"\\[dt]frac", r"\\frac", shown)
    shown = re.sub(r"\\(?:text|mbox|mathrm|textbf|mathbf)\s*\{([^{}]*)\}", r"\1", shown)
    shown = re.sub(r"\^\s*\{?\s*\\circ\s*\}?|\\degree|\\?%|\\\$", "", shown)
    shown = re.sub(r"(?<=\d)\s+(?=\d)", "_", shown.strip())
    shown = re.sub(r"\s+", "", shown)
    shown = re.sub(r"\\frac(\d)(\d)", r"\\frac{\1}{\2}", shown)
    shown = re.sub(r"\\sqrt(\w)", r"\\sqrt{\1}", shown)
    shown = re.sub(r"(?<![\d.])\.(?=\d)", "0.", re.sub(r"^[a-zA-Z]=", "", shown))
    value = read_number(shown) if re.fullmatch(r"-?(?:[\d.,]+(?:/\d+)?|\\frac\{\d+\}\{\d+\})", shown) else None
    return shown if value is None else show_number(value)
