"""What labels mean, and whether the words around a label agree with it.

A label may have a sense: that the claim is true, that it is false, that it is open, or that the evidence is mixed.
Words next to a label may state a sense, too. They agree with the label if they say what it says, whatever its sense is:
"the claim is false" agrees with REFUTES just as "the claim is true" agrees with SUPPORTS.
"""

from __future__ import annotations

import json
import re
import string
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from moot.nodes._records.entries import Task

QUOTES = "\"'“”‘’«»„‚‹›「」"
MARKS = string.whitespace + QUOTES + "`*#>.,;:!()[]{}$|\\"
DASHES = str.maketrans(dict.fromkeys("‐‑‒–—―−_-/", " ") | {"’": "'"})

SUPPORTED = ("support", "supports", "supported")
REFUTED = ("refute", "refutes", "refuted", "contradict", "contradicts", "contradicted")
UNSETTLED = (
    *("not enough info", "not enough information", "notenoughinfo", "NEI", "no info", "noinfo"),
    *("not enough evidence", "insufficient information", "insufficient evidence", "neutral"),
)
MIXED = (
    "conflicting evidence",
    "cherrypicking",
    "cherry picking",
    "conflicting evidence/cherry picking",
    "conflicting evidence/cherrypicking",
)
"""Other spellings of labels. Each tuple has the spellings for one meaning."""

TRUE = "the evidence shows that the claim is true"
FALSE = "the evidence shows that the claim is false"
OPEN = "the evidence settles the claim neither way"
NOT_TRUE = "the evidence shows that the claim is false, or does not show that it is true"
COMPROMISED = (
    "the evidence shows that the claim is false, or that its words are true and mislead by leaving out context"
)
CONFLICTING = (
    "some evidence supports the claim and some refutes it, or the claim misleads by leaving out context although its "
    "words are true"
)
YES = "the evidence answers the question with yes"
NO = "the evidence answers the question with no"
MAYBE = "the evidence leaves the answer undecided"
"""Meanings of labels, in the words of prompts."""
WITHOUT_EVIDENCE = {
    TRUE: "the claim is true",
    FALSE: "the claim is false",
    OPEN: "what is known settles the claim neither way",
    NOT_TRUE: "the claim is false, or cannot be shown to be true",
    COMPROMISED: "the claim is false, or its words are true and mislead by leaving out context",
    CONFLICTING: "some of what is known supports the claim and some refutes it, or the claim misleads by leaving out "
    "context although its words are true",
    YES: "the answer to the question is yes",
    NO: "the answer to the question is no",
    MAYBE: "what is known leaves the answer undecided",
}
"""Meanings of labels, each with the wording that replaces it in prompts without evidence."""

_CLAIM = r"(?:the|this) (?:claim|statement|assertion)"
_IS = rf"(?:{_CLAIM}|it)(?: is|'s| was| must be| to be)(?: \w+ly| indeed| in fact)?"
_THIS_IS = r"(?:that|this)(?: is|'s)"
_ISNT = rf"(?:{_CLAIM}|it) (?:isn't|wasn't)"
_RIGHT, _WRONG = r"(?:true|correct|accurate|right(?! \w))(?! that)", r"(?:false|untrue|wrong|incorrect|inaccurate)"
_TEXTS = r"(?:evidence|info\w*|data|proof|sources?|texts?|passages?|documents?|stud(?:y|ies)|mention)"
_UNDECIDED = r"(?:unclear|undecided|undetermined|unsettled|unproven|unverified|unverifiable|unknown|inconclusive|open)"
_ANY = rf"(?:anything|any|(?:\w+ )?{_TEXTS})\b"
_NOTHING = r"(?= (?:nothing|none)\b)"
_SETTLE = r"(?:support|refute|contradict|confirm|prove|disprove|verify|decide|determine|judge|tell|say)(?:s|d|ed)?"
_LITTLE = rf"(?:not enough|too little|insufficient) (?:\w+ )?{_TEXTS}"
_FOR, _AGAINST = r"(?:support|confirm|prove)\w*", r"(?:refute|contradict|disprove)\w*"
_FOUND = r"(?:decide|determine|settle|verify|verifie|check|know|tell|told|say|said|state|show|prove|establish)\w*"


@dataclass(frozen=True)
class Sense:
    """A sense of labels: the names of labels that have it, and its usual words, anywhere and at the beginning."""

    names: tuple[str, ...]
    words: str
    first: str = "(?!)"


SENSES = {
    "true": Sense(
        (*SUPPORTED, "true", "yes", "correct", "right", "accurate", "real", "verified", "agree", "entailment"),
        rf"(?:yes,? )?{_IS} (?:{_RIGHT}|not {_WRONG})|{_ISNT} {_WRONG}"
        rf"|{_THIS_IS} (?:true|not false)|{_IS} supported\b"
        rf"|(?:supports?|confirms?|proves?|agrees? with)(?: (?:{_CLAIM}|it)\b|{_NOTHING})|supported by {_ANY}",
        "true",
    ),
    "false": Sense(
        (
            *(*REFUTED, "not supported", "false", "no", "incorrect", "wrong", "inaccurate", "untrue", "fake"),
            *("debunked", "disagree", "contradiction"),
        ),
        rf"(?:no,? )?{_IS} (?:{_WRONG}|not {_RIGHT})|{_ISNT} {_RIGHT}"
        rf"|{_THIS_IS} (?:false|untrue|not true)|{_IS} (?:refuted|contradicted)\b"
        rf"|(?:refutes?|contradicts?|rejects?|disproves?|disagrees? with)(?: (?:{_CLAIM}|it)\b|{_NOTHING})"
        rf"|(?:refuted|contradicted) by {_ANY}",
        "(?:false|untrue)",
    ),
    "open": Sense(
        (
            *(*UNSETTLED, "unclear", "undecided", "undetermined", "unproven", "unverified", "unverifiable"),
            *("unknown", "uncertain", "inconclusive", "maybe"),
        ),
        rf"(?:nothing|no \w+)(?: \w+){{0,4}} settles?(?: (?:{_CLAIM}|it|the \w+))?"
        rf"|settles? (?:{_CLAIM}|it|the \w+) neither way|(?:is )?neither (?:\w+ )?true nor (?:\w+ )?false"
        rf"|(?:neither|not|n't) (?:be )?{_FOR}(?: \w+){{0,4}},? n?or (?:does it )?{_AGAINST}"
        rf"|(?:neither|not|n't) (?:be )?{_AGAINST}(?: \w+){{0,4}},? n?or (?:does it )?{_FOR}"
        rf"|{_LITTLE} to {_SETTLE}(?: or (?:to )?{_SETTLE})?|no (?:\w+ )?{_TEXTS} to {_SETTLE} or (?:to )?{_SETTLE}"
        rf"|{_TEXTS} (?:is|are) (?:insufficient|inconclusive|not (?:enough|sufficient))"
        rf"|(?:{_CLAIM}|it) (?:cannot|can't|can not|could not) be {_FOUND}"
        rf"|{_CLAIM} (?:is|was|remains|stays) {_UNDECIDED}|leaves? the \w+ {_UNDECIDED}",
        rf"(?:(?:nothing(?= \w)|no (?:\w+ )?{_TEXTS})(?!(?: \w+){{0,4}} (?:{_FOR}|{_AGAINST}))"
        rf"|(?:cannot|can't)(?: be {_FOUND})?|{_UNDECIDED}|uncertain|{_LITTLE}|insufficient|ne[ie]\Z"
        rf"|not (?:clear|certain|given|mentioned|{_FOUND}))",
    ),
    "mixed": Sense(
        (*MIXED, "conflicting", "mixed", "mixture"),
        r"some (?:\w+ ){0,4}supports? (?:\w+,? ){0,3}(?:and|but|while) (?:some|other) (?:\w+ )?(?:refute|contradict)\w*"
        r"|some (?:\w+ ){0,4}(?:refute|contradict)s? (?:\w+,? ){0,3}(?:and|but|while) (?:some|other) (?:\w+ )?supports?"
        r"|both supports? and (?:refute|contradict)s?|both (?:refute|contradict)s? and supports?"
        rf"|{_TEXTS} (?:is|are) (?:conflicting|mixed|contradictory)",
        r"(?:conflicting|mixed|contradictory)(?: evidence)?\Z",
    ),
}
"""The senses of labels. The patterns match texts that `fold_label` has folded."""
_NOT = (
    r"(?:\b(?:not(?! (?:only|just|merely)\b)|never|no(?! doubt)|nor|neither|nothing|none|nobody|cannot|hardly"
    r"|fail(?:s|ed)? to|lacks?|lack of|unable to)\b|n't\b)"
)
_SHOW_THAT = r"(?:show|say|said|state|prove|establish|confirm|suggest|indicate|mean|find)\w* that"
NEGATED = re.compile(_NOT)
NEGATED_NEXT = re.compile(rf"{_NOT}(?: (?:{_SHOW_THAT}|(?!(?:that|which|who|but|only|because)\b)\w+)){{0,5}} \Z")
NEGATED_AFTER = re.compile(r" (?:nothing|none)\b")
DOUBTED = re.compile(r"\b(?:whether|if|i doubt|doubtful)\b")
LONGEST_CLAUSE = 200
CLAUSE_END = re.compile(r"[.,;:!?()]")
_SURELY = r"(?:clear|plain|definite|certain|sure|obvious|actual|real|ful|entire|complete)ly"
HEDGE = re.compile(rf"\b(?!{_SURELY}\b)\w+ly\b")
NOT_SAID = re.compile(r"(?:is|are|was|were|does|do|did|can|could|whether|if|it(?: is|'s) not|it isn't)\b")
"""The beginning of a question or of a denial."""
BREAK = re.compile(r"\s[-‐-―]+\s|[\n–—]")
FILLER = re.compile(
    r"(?:[^\w?~]|(?:so|thus|therefore|hence|and|since|because|as|the|this|my|our|final|answer|label|verdict|conclusion"
    r"|result|is|are|it|there|what|known|evidence|claim|statement|question|shows?|says?|means|that|to|decide|on|about"
    r"|either|way|by|from|does|do|can|whether|according|based|given|provided|available|retrieved|all|of|these|sources?"
    rf"|passages?|texts?|documents?|information|facts|{_SURELY}"
    r")\b)*"
)
"""Words that say nothing about the claim, in a folded text."""
LEAD_IN = re.compile(
    r"\A(?:because|since|as|so|meaning|that is(?=,)|i\.?e\.?|reason(?:s|ing)?:|rationale:|explanation:)[,:]? "
)


def fold_label(text: str) -> str:
    """A text for comparing labels: in lower case, with single spaces for dashes, ``_`` and ``/``, stripped of
    `MARKS`.
    """
    normal = unicodedata.normalize("NFKC", text).translate(DASHES).casefold()
    return re.sub(r"\s+", " ", normal.strip(MARKS)).strip(MARKS)


def normal_option(text: str) -> str:
    """A text for comparing options: in NFKC and lower case, with hyphens for minus signs, stripped of ``*`` and
    ``$``.
    """
    normal = unicodedata.normalize("NFKC", text).replace("−", "-").strip(string.whitespace + "*`$")
    return re.sub(r"\s+", " ", normal).casefold()


def spellings(task: Task) -> dict[str, str]:
    """The task's labels by their folded spellings (`fold_label`), without other spellings that two labels share."""
    labels = {fold_label(label): label for label in task["labels"]}
    others: dict[str, str | None] = {}
    for spelling, label in task["spellings"].items():
        key = fold_label(spelling)
        # Folding could change the meaning of others, such as ``-0.5``; they are left out.
        if re.fullmatch(r"[^\W\d]([^\W\d]|[\s_.,'/-])*", spelling):
            others[key] = label if others.get(key, label) == label else None
    return {k: v for k, v in others.items() if v is not None and k} | labels


_OPEN = rf"(?P<open>{SENSES['open'].words})"
_SAID = "|".join(
    [
        *(rf"(?P<{name}>{sense.words})" for name, sense in SENSES.items() if name != "open"),
        *(rf"\A(?P<{name}_first>{sense.first})(?!\w)" for name, sense in SENSES.items()),
    ]
)
_SENSE = re.compile(rf"(?<!\w)(?:{_OPEN}|{_SAID})")


@dataclass(frozen=True)
class LabelWords:
    """The labels of a task, and the words that speak for each."""

    known: dict[str, str]  # the labels by their folded spellings (`spellings`)
    options: dict[str, str]  # the labels by their spellings, as `normal_option` normalises them
    letters: bool  # whether all labels are single letters, as for multiple choice
    written: dict[str, str]  # the label by its folded spellings and meanings
    having: dict[str, list[str]]
    """The labels for which each sense speaks: those that have it, or else the only label of unknown sense."""
    named: dict[str, str]  # the only label whose whole name or meaning has a sense, by the sense
    pattern: re.Pattern[str]
    """Matches a key of ``written``, or the words of a sense; but "is true" may be about anything if no option of a
    multiple-choice question is "yes", "false" or the like.
    """


@lru_cache(maxsize=256)
def label_words(task_json: str) -> LabelWords:
    """The labels and words of a task, which is given as JSON."""
    task: Task = json.loads(task_json)
    known = spellings(task)
    letters = all(len(label) == 1 for label in task["labels"])
    options = {normal_option(text): label for text, label in task["spellings"].items()}
    meanings = {meaning: label for label, meaning in task["meanings"].items()}
    meanings |= {WITHOUT_EVIDENCE[text]: label for text, label in meanings.items() if text in WITHOUT_EVIDENCE}
    written = spellings({**task, "spellings": task["spellings"] | meanings})
    written = {text: label for text, label in written.items() if len(text) > 1 or not letters}
    senses = {label: _senses_of(task, label) for label in task["labels"]}
    unknown = [label for label in senses if not senses[label]]
    longest_first = sorted(written, key=len, reverse=True)
    decided = any({"true", "false"} & found for found in senses.values())
    first, said = (f"{_OPEN}|", f"|{_SAID}") if task["name"] == "labels" or decided else ("", "")
    exact = {label: _senses_of(task, label, partly=False) for label in senses}
    named = {sense: [label for label in exact if sense in exact[label]] for sense in SENSES}
    # "no" and meanings may begin other words: "no doubt".
    ends = {text: r"(?! ?\w)" if text == "no" or text not in known else r"(?!\w)" for text in longest_first}
    phrases = "|".join(re.escape(text) + end for text, end in ends.items())
    return LabelWords(
        known,
        options | {normal_option(label): label for label in task["labels"]},
        letters,
        written,
        {sense: [x for x in senses if sense in senses[x]] or unknown * (len(unknown) == 1) for sense in SENSES},
        {sense: found[0] for sense, found in named.items() if len(found) == 1 and said},
        re.compile(rf"(?<!\w)(?:{first}(?P<written>{phrases or '(?!)'}){said})"),
    )


def _senses_of(task: Task, label: str, *, partly: bool = True) -> set[str]:
    """The senses of a label by name and meaning; ``partly``: a word of the name may give its sense ("mostly true")."""
    choice = task["name"] != "labels" and len(label) == 1
    name, meaning = fold_label(label), fold_label(task["meanings"].get(label, ""))
    name, meaning = (meaning, "") if choice else (name, meaning)  # an option's text is its name
    found = {key for key, sense in SENSES.items() if name in map(fold_label, sense.names)}
    if partly and not found and not choice and not NEGATED.search(name):
        found = {key for key, sense in SENSES.items() if set(sense.names) & set(name.split())}
    said = _SENSE.finditer(meaning)
    return found | {"open" if _is_denied(match) or _is_doubted(match) else _sense_of(match) for match in said}


def _sense_of(match: re.Match[str]) -> str:
    return str(match.lastgroup).removesuffix("_first")


def _clause_before(match: re.Match[str]) -> str:
    return CLAUSE_END.split(match.string[max(0, match.start() - LONGEST_CLAUSE) : match.start()])[-1]


def _is_denied(match: re.Match[str]) -> bool:
    """Whether the clause denies what it says at the match; words that leave the claim open are no denial."""
    denied = NEGATED.search(_clause_before(match)) or NEGATED_AFTER.match(match.string, match.end())
    return denied is not None and _sense_of(match) not in ("open", "mixed")


def _is_doubted(match: re.Match[str]) -> bool:
    return _sense_of(match) not in ("open", "mixed") and DOUBTED.search(_clause_before(match)) is not None


def without_own_words(words: LabelWords, label: str, text: str) -> str | None:
    """A folded text with ``·`` for words that say this label or deny others; None if it denies this or says another."""
    rest, end = "", 0
    for match in words.pattern.finditer(text):
        written, before, after = match["written"], text[end : match.start()], None
        owners = [words.written[written]] if written else words.having[_sense_of(match)]
        denied, option = _is_denied(match), words.letters and written in words.known
        # "Whether the claim is true" speaks for the label that leaves the claim open.
        if not option and _is_doubted(match):
            owners, denied = words.having["open"], False
        if label not in owners:
            after, near = NEGATED_AFTER.match(text, match.end()), NEGATED_NEXT.search(before)
            bare = CLAUSE_END.split(before)[-1].strip() in ("no", "not")  # "SUPPORTS, not REFUTES" names two labels
            near = near if len(NEGATED.findall(before)) == 1 and not bare else None
            if option or not denied or not (near or after):
                return None
            before = before[: near.start()] if near else before
        elif denied and not option:
            return None
        rest, end = f"{rest}{before}·", after.end() if after else match.end()
    return rest + text[end:]


def only_label_said(words: LabelWords, text: str) -> str | None:
    """The label that a text says in other words, such as "the claim is true"; None if it says more than that."""
    folded = fold_label(BREAK.sub("; ", text[: LONGEST_CLAUSE + 1]))
    if len(text) > LONGEST_CLAUSE or HEDGE.search(folded) or NOT_SAID.match(folded):
        return None
    said = set()
    for match in words.pattern.finditer(folded):
        if match["written"]:
            found: str | None = words.written[match["written"]]
            if not match.start() and re.match(r" (?!by\b)", folded[match.end() :]):  # "no doubt", "yes men"
                return None
        else:  # "not true" denies a label, too
            found = words.named.get(sense := _sense_of(match))
            found = None if sense in ("true", "false") and NEGATED.search(match[0]) else found
        if not _is_denied(match) and not _is_doubted(match):
            said.add(found)
    label = said.pop() if len(said) == 1 and words.named else None
    left = None if label is None else without_own_words(words, label, folded)
    return label if left is not None and FILLER.fullmatch(left) else None
