"""Takes away what models write around an answer: tags, a LaTeX box, a lead such as "The answer is:"."""

from __future__ import annotations

import re
from collections.abc import Callable

from moot.nodes._texts.labels import MARKS

_SO = r"^(?:(?:so|thus|therefore|hence|and),?\s+)?"
_THE = r"(?:(?:the|my|our|a|final|correct|right|best|good|overall|(?:most\s+)?likely)[^\S\n]+)*"
_TO = r"(?:\s+to\s+(?:this|the|your)\s+question)?"
_SAY = (
    r"i(?:(?:\s+would|\s+will|['’]d|['’]ll)?\s+(?:think|believe|conclude|say|choose|pick|select|go\s+with|opt\s+for)"
    r"|(?:\s+am|['’]m)\s+going\s+with)\s+(?:that\s+)?"
)
LEAD = re.compile(
    rf"{_SO}(?:(?:{_SAY})?(?:{_THE}(?:(?:answer{_TO}|label|verdict|conclusion|decision|option|choice|result|claim|statement)"
    r"(?:\s+(?:is|was|would\s+be|must\s+be)\b(?:\s+(?:that|therefore|option|choice)\b)?\s*[:=]*|\s*[:=]+)"
    rf"|(?:option|choice|letter|answer|label|verdict)\s)|it(?:\s+is|['’]s)\s+(?!not\b)(?:(?:option|choice)\s)?)|{_SAY})\s*",
    re.IGNORECASE,
)
"""Words before an answer, such as "The answer is:", "It is" and "I'd go with"."""
FINAL_LEAD = re.compile(rf"{_SO}{_THE}(?:answer{_TO}|label|verdict)(?:\s+is\b|\s*[:=])", re.IGNORECASE)
"""Words at the beginning of the line that gives the final answer."""
ANSWER_LEAD = re.compile(rf"{_SO}{_THE}(?:answer{_TO}(?:\s+is\b\s*[:=]*|\s*[:=]+))\s*", re.IGNORECASE)
_TAG = r"</?(?:answer|final_answer|label|verdict|b|i|strong|em|p|code|span)>"
TAGS = re.compile(rf"^(?:\s*{_TAG})+|(?:{_TAG}\s*)+$", re.IGNORECASE)
REJECTED = re.compile(
    r"\b(?:rejects?|disagree|mistaken|opponent|other debater|take that back|is (?:false|wrong|incorrect))\b"
    r"|\b(?:contraindicated\b|(?:do not|don't) think\b|not (?:the case|apply)\b)"
)
UNBOXED = re.compile(rf"{REJECTED.pattern}|\b(?:not|instead)\b|n't\b")
BOXED = re.compile(r"\\boxed\s*\{")


def denies_box(before: str, _: str) -> bool:
    return UNBOXED.search(before.casefold()) is not None


def unwrap_answer(text: str, denies: Callable[[str, str], bool] = denies_box) -> str:
    """A text without tags around it, or the content of the LaTeX box at its end, unless ``denies`` finds it denied."""
    boxes = list(BOXED.finditer(text))
    if len(boxes) == 1:
        inside = _inside_braces(text, boxes[0].end())
        if inside is not None:
            after = text[boxes[0].end() + len(inside) + 1 :]
            content = re.sub(r"^\\(?:text|textbf|mathrm)\{([^{}]*)\}$", r"\1", inside)
            if not after.strip(MARKS) and not denies(text[: boxes[0].start()], content):
                text = content
    return TAGS.sub("", text).strip()


def _inside_braces(text: str, begin: int) -> str | None:
    depth = 1
    for place in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[begin:place]
    return None


def without_lead(text: str, pattern: re.Pattern[str] = LEAD) -> str:
    """A text without a lead such as "The answer is:"; a text without a lead is returned as it is."""
    plain = _without_emphasis(text)
    lead = pattern.match(plain)
    return plain[lead.end() :] if lead else text


def final_lines(text: str) -> tuple[list[str], str] | None:
    """The lines before the final answer, and its line, if only the last of several lines begins with `FINAL_LEAD`."""
    lines = [line for line in text.splitlines() if line.strip()]
    final = [bool(FINAL_LEAD.match(_without_emphasis(line))) for line in lines]
    # "The other says:" may introduce the words of somebody else.
    if (
        len(lines) < 2
        or not final[-1]
        or any(final[:-1])
        or lines[-1].startswith(">")
        or lines[-2].rstrip().endswith(":")
    ):
        return None
    return lines[:-1], lines[-1]


def _without_emphasis(text: str) -> str:
    return text.lstrip("#>*_ \t\n").replace("**", "").replace("__", "")
