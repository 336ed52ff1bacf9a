"""Reads one of a task's labels in a model's text, or the letter of an option.

A label must be the whole text or its beginning, or follow its meaning, or be said in other words. A text has no label
if it denies the label, only quotes it, or speaks for several labels.
"""

from __future__ import annotations

import json
import re
import unicodedata

from moot.nodes._records.entries import Task
from moot.nodes._texts.labels import (
    FILLER,
    LEAD_IN,
    QUOTES,
    LabelWords,
    fold_label,
    label_words,
    normal_option,
    only_label_said,
    without_own_words,
)
from moot.nodes._texts.wrapped import REJECTED, UNBOXED, denies_box, final_lines, unwrap_answer, without_lead

EMPHASIS = re.compile(r"(?<!\w)[*`]+|[*`]+(?!\w)")
CONCLUDED = re.compile(r"[.!?]\s|\n|, (?:so|thus|therefore|hence)\b")
"""The end of the reasons before a box."""
SEPARATOR = re.compile(r"\s*(?:[.:;,!)\]]+(?=\s|$)|[(\n–—]|-+\s|$)")
BEFORE_LABEL = r"[.:;,!)\](\[\n–—=>]\s*|\s-+\s+|\b(?:so|thus|therefore|hence|answer|label|verdict|is)\s+"
IS_RIGHT = re.compile(
    r"\s+(?:is|would\s+be)\s+(?:the\s+)?"
    r"(?:(?:correct|right|best|most\s+likely)(?:\s+(?:answer|option|choice|label|verdict))?"
    r"|(?:answer|option|choice|label|verdict))(?=\s*(?:[.,;:!)\n]|$|because\b|since\b|as\b))",
    re.IGNORECASE,
)
_LETTER = r"(?:option\s+|answer\s+|choice\s+)?[(\[]?(?<![\w'])([A-Z])(?![\w'])[)\]]?"
DENIED_LETTER = re.compile(
    rf"\b(?:unlike|rather\s+than|instead\s+of)\s+{_LETTER}"
    rf"|{_LETTER}\s+(?:isn['’]t|is(?:\s+\w+ly)?\s+(?:not|wrong|incorrect|false|impossible|excluded|ruled\s+out))\b"
)
NAMED_LETTER = re.compile(
    r"(?<![\w'])([B-HJ-Z])(?![\w'])|(?<![\w'])([AI])\s+is\b|[(\[]([A-Z])[)\]]"
    r"|(?:option|answer|choice)(?:\s+is:?)?\s+([A-Z0-9])\b|(?:[^\w\s']|\n)(?:\s|so)*([A-Za-z0-9])\W*$"
)
DENIED = re.compile(
    r"^\W*(?:(?:no|not|nope|never|wrong|false|incorrect|rather|or|nor|and/or|is(?! (?:right|correct|true)\b)|isn't|was"
    r"|if|unless|but|only|except|(?:none|nothing)(?! of the)|hardly|in no way|by no means|unclear|cannot"
    r"|insufficient|actually|perhaps|maybe|possibly|although|though)\b"
    r"|i\s+(?:do not|don't|am not|would not|think not|take)\b)"
)


def read_label(task: Task, text: str) -> str | None:
    """The label of a text; None if it is not clear, for example because the text denies it or names another one."""
    # A last line such as "Answer: B" decides, unless the lines before it give another label.
    if final := final_lines(text):
        label, others = read_label(task, final[1]), {read_label(task, line) for line in set(final[0])} - {None}
        if label is not None:
            return None if len(others) == 1 and label not in others else label  # several: a list of the labels
    words = label_words(json.dumps(task))

    def label_of(body: str) -> str | None:
        signed = re.search(r"[-+−]\s*[\d.]", body)  # folding would remove the sign
        known = words.options.get(normal_option(body)) or (None if signed else words.known.get(fold_label(body)))
        return known or only_label_said(words, body)

    def denied_box(before: str, inside: str) -> bool:
        if (label := label_of(inside)) is None:
            return denies_box(before, inside)
        # Words that deny one label may be what another label says.
        rest = without_own_words(words, label, fold_label(before))
        clause = without_own_words(words, label, fold_label(CONCLUDED.split(before)[-1]))
        return rest is None or clause is None or bool(REJECTED.search(rest) or UNBOXED.search(clause))

    body = unwrap_answer(text, denied_box)
    if (label := label_of(body)) is not None:
        return label
    if body.startswith(">") and "\n" in body:  # a quote of another agent's answer
        return None
    given = EMPHASIS.sub("", unicodedata.normalize("NFKC", body))
    body = EMPHASIS.sub("", without_lead(unicodedata.normalize("NFKC", body))).lstrip("#>([{ \t\n")
    if not body or body[0] in QUOTES or body.startswith("~~"):
        return None
    if (label := label_of(body)) is not None:
        return label
    for spelling in sorted(words.known, key=len, reverse=True):
        label = words.known[spelling]
        pattern = r"[\s_/‐-―-]+".join(map(re.escape, spelling.split()))
        begin = re.match(pattern, body, re.IGNORECASE)
        right = begin and IS_RIGHT.match(body, begin.end())
        if begin and (gap := right or SEPARATOR.match(body, begin.end())):
            rest = body[gap.end() :]
            if words.options.get(normal_option(rest), label) != label:
                return None  # the letter of one option with the text of another option
            return label if _keeps_label(task, words, rest, label) else None
        end = re.search(rf"(?:{BEFORE_LABEL})({pattern})[\s.!*`)\]]*$", given, re.IGNORECASE)
        if end and _only_means(words, given[: end.start(1)], label):
            return label
    return None


def _keeps_label(task: Task, words: LabelWords, rest: str, label: str) -> bool:
    """Whether the text after a label (``rest``) neither withdraws the label nor names another one."""
    denied = [letter for letters in DENIED_LETTER.findall(rest) for letter in letters if letter and words.letters]
    if label in (words.known.get(letter.casefold()) for letter in denied):
        return False
    rest = DENIED_LETTER.sub("", rest) if denied else rest
    folded = LEAD_IN.sub("", fold_label(rest))
    if folded in words.known:
        return words.known[folded] == label
    own = fold_label(task["meanings"].get(label, ""))
    if own and re.match(rf"{re.escape(own)}{'(?! ?' if own == 'no' else '(?!'}\w)", folded):
        folded = folded[len(own) :]
    left = without_own_words(words, label, folded)
    if left is None or DENIED.match(left) or REJECTED.search(left[:200]):
        return False
    if not words.letters:
        return True
    # "A" and "I" may also be words. They name an option only in brackets, at the end, or after words such as "option".
    named = (letter for letters in NAMED_LETTER.findall(rest) for letter in letters if letter)
    return all(words.known.get(letter.casefold(), label) == label for letter in named)


def _only_means(words: LabelWords, before: str, label: str) -> bool:
    """Whether the text before a label says nothing but what the label says."""
    folded = fold_label(before)
    left = without_own_words(words, label, folded)
    return left is not None and left != folded and FILLER.fullmatch(left) is not None
