"""The thoughts that models write into their replies: which marks enclose them, and the reply without them."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Literal, NamedTuple


class Marks(NamedTuple):
    """The marks at the begin and at the end of a thought, as regular expressions; letter case does not count."""

    begin: str
    end: str
    kind: Literal["sign", "phrase", "shared", "heading"] = "sign"
    """A ``sign`` is unmistakable, also in a field of a reply, but a ``phrase`` only counts outside of fields. A
    ``shared`` end mark also ends other things, so it means nothing by itself. A ``heading`` may also stand above a
    reply, so it only counts if its end mark follows.
    """


PREFIX = r"(?:(?!non|no[_-]|end)\w{1,30}[:._-])?"
NAMES = (
    rf"{PREFIX}(?:ant)?think(?:ing)?",
    rf"{PREFIX}(?:thoughts?|thought[ ._▁-]?process|chain[ ._▁-]?of[ ._▁-]?thoughts?|cot)",
    rf"{PREFIX}reason(?:ing)?",
    rf"{PREFIX}reflect(?:ion)?",
    rf"{PREFIX}scratch[ ._▁-]?pad",
    r"analysis",  # no prefix: a meta-analysis is no thought
    r"(?:inner|internal)[ ._▁-]?(?:monologue|dialogue|thoughts?)|monologue|internal",
    r"planning|deliberation|draft",
)
"""What models call a thought. A mark with one of these names ends with a name of the same line."""
LESS, MORE, BAR, SLASH = r"(?:\\?<|&lt;|＜)", r"(?:\\?>|&gt;|＞)", "[|｜]", r"\\?[/／]"
"""The signs of a mark, also as escaped in Markdown and HTML, and of full width."""


def _named(name: str) -> list[Marks]:
    """The marks with a name: ``<name>``, ``<|name|>``, ``[name]`` and ``{name}``."""
    name = rf"(?:{name})(?:[ ._▁-]?(?:process|steps?|trace|content|block|text|aloud))?"
    start, stop = "(?:(?:begin|start)[_▁](?:of[_▁])?)", "(?:end[_▁](?:of[_▁])?)"
    return [
        Marks(
            rf"{LESS}\s*{name}(?:\s[^<>=]{{1,40}}=[^<>]{{0,200}}?)?\s*(?<!/){MORE}",
            rf"{LESS}\s*{SLASH}\s*{name}\s*{MORE}",
        ),
        Marks(
            rf"{LESS}{BAR}\s*{start}?{name}(?:[_▁](?:start|begin))?\s*{BAR}{MORE}",
            rf"{LESS}{BAR}\s*(?:(?:{SLASH}|{stop}){name}|{name}[_▁]end)\s*{BAR}{MORE}",
        ),
        # not a word of a sentence, or the text of a link
        Marks(rf"(?<!\w )\[\s*{name}\s*\](?![(\[:])", rf"\[\s*{SLASH}\s*{name}\s*\]"),
        Marks(rf"(?<![\w}}])\{{\s*{name}\s*\}}", rf"\{{\s*{SLASH}\s*{name}\s*\}}"),  # not a word in LaTeX
    ]


_ANY = "(?:" + "|".join(NAMES) + ")"
_TITLE = (
    r"(?:my[ ])?(?:thinking(?:[ ]process)?|thoughts?(?:[ ]process)?|chain[ ]of[ ]thought|inner[ ]monologue|scratchpad)"
)
_REPLY = r"(?:(?:my|the)[ ])?(?:final[ ](?:answer|response|reply|output)|answer|response|reply)"


def _heading(title: str) -> str:
    return rf"^[ \t]*(?:#+[ \t]*{title}[ \t]*:?[ \t]*$|\*\*{title}[ ]?:?\*\*:?|{title}:)"


_OTHERS = (
    Marks(r"<\|think\|>", r"<\|/think\|>|<\|(?:end_think|think_end)\|>|<\|content\|>"),  # Solar Open
    Marks("◁think▷", "◁/think▷"),  # Kimi
    Marks(r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),  # Apertus
    Marks(r"<\|channel>\s*thought", r"<channel\|>"),  # Gemma 4
    Marks("<unused94>", "<unused95>"),  # MedGemma
    Marks(r"\[unused16\]", r"\[unused17\]"),  # openPangu
    Marks(r"<\|im_start\|>think", r"<\|im_start\|>answer"),  # s1
    Marks(  # gpt-oss (harmony): all channels but the final one; a channel ends where the next one begins
        r"<\|channel\|>(?!\s*final\b)",
        r"<\|channel\|>\s*final\b(?:[^<{]*(?:<\|constrain\|>[^<{]*)?<\|message\|>)?|(?=<\|channel\|>)",
    ),
    Marks(  # gpt-oss, if the server left out its marks
        r"\A\s*(?-i:analysis(?=[\"{]|[^\W_]|[ \t]*\n|[ \t]+[A-Z]))", r"assistant\s?final|^(?-i:final)[ \t]*$", "phrase"
    ),
    Marks(r"^[ \t]*here(?: is|['’]s) my thought process:", r"here(?: is|['’]s) my response:", "phrase"),  # Granite 3
    Marks(r"^[ \t]*here are my reasoning steps:", r"\[begin final response\]", "phrase"),  # Apriel
    Marks(r"^[ \t]*thinking\.\.\.", r"\.\.\.done thinking\.", "phrase"),  # the command line of Ollama
    Marks(  # Open WebUI, and pages in Markdown
        rf"<details\s[^<>]*\btype\s*=\s*[\"']?reasoning\b[^<>]*>"
        rf"|<details\b[^<>]*>\s*<summary\b[^<>]*>[^<]{{0,40}}\b{_ANY}\b[^<]{{0,40}}</summary\s*>",
        r"</details\s*>",
        "shared",
    ),
    Marks(rf"<!--\s*{_ANY}\b", "-->", "shared"),
    Marks(rf"```[ \t]*{_ANY}(?![\w-])", "```", "shared"),  # a code fence
    Marks(rf"~~~[ \t]*{_ANY}(?![\w-])", "~~~", "shared"),
    Marks(_heading(_TITLE), _heading(_REPLY), "heading"),  # HuatuoGPT-o1, and prompts in the form of ReAct
)
MARKS = (*_OTHERS, *(marks for name in NAMES for marks in _named(name)))
"""The marks of thoughts, with the models or programs that write them."""

OBJECT = re.compile(r"\{\s*\"")
"""The beginning of an object that is not empty."""
QUOTED = ('""', "''", "``", "“”", "‘’", "«»")
"""The signs around a mark that a text only mentions."""
MOST_TRIES = 1000
"""Maximum number of objects in a text that are read to find out whether a mark is inside of them."""

_DECODER = json.JSONDecoder(strict=False)
_FLAGS = re.IGNORECASE | re.MULTILINE
_SEARCHED = (*_named("|".join(NAMES)), *_OTHERS)  # one pattern for all names is faster
_BEGIN = "|".join(marks.begin for marks in _SEARCHED)
_END = "|".join(marks.end for marks in _SEARCHED if marks.kind in ("sign", "phrase"))
_MARK = f"(?P<begin>{_BEGIN})|(?P<end>{_END})"
_MARK_OR_OBJECT = f"{_MARK}|(?P<object>{OBJECT.pattern})"
_SIGN = "|".join(f"{marks.begin}|{marks.end}" for marks in _SEARCHED if marks.kind == "sign")
_SIGNS = [marks for marks in MARKS if marks.kind == "sign"]
_HEADING = next(marks.begin for marks in MARKS if marks.kind == "heading")
_MENTION = re.compile(r"\s*(?:and|or|to|,|\.\.\.|…)\s*", re.IGNORECASE)


@cache  # compiled on first use: all of them together would take a tenth of a second at every start
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, _FLAGS)


def without_thoughts(text: str) -> str:
    """The text of a reply without the model's thoughts (`MARKS`); empty if a thought has no end mark."""
    outside: list[str] = []
    start = place = tried = tries = 0
    headings = True
    while True:
        sought = _MARK_OR_OBJECT if tried < len(text) and tries < MOST_TRIES else _MARK
        if not (found := _compiled(sought).search(text, place)):
            break
        place = found.end()
        if found.lastgroup == "object":
            if found.start() >= tried:
                (place, tried), tries = _skip_object(text, found), tries + 1
        elif _is_quoted(found):
            continue
        elif found["begin"]:
            if not headings and _compiled(_HEADING).match(text, found.start()):
                continue
            end = _end_of_thought(found)
            if end is None and _compiled(_HEADING).match(text, found.start()):
                headings = False
                continue
            if end is None:
                # It may contain anything.
                return ""
            outside.append(text[start : found.start()])
            start = place = tried = end
        else:
            # An end mark without a begin mark ends a thought that began with the text.
            outside, start, tried = [], place, place
    if not start:
        return text
    rest, before = text[start:], "".join(outside)
    # Words after the last thought stand alone, unless the only object stands before them.
    alone = re.search(r"[\w{[]", rest) and (OBJECT.search(rest) or not OBJECT.search(before))
    return (rest if alone else before + rest).strip()


def field_without_thoughts(text: str) -> str:
    """The text of a reply's field without unmistakable thoughts; empty if it begins with one that does not end."""
    begun: dict[int, list[int]] = {}
    spans: list[tuple[int, int]] = []
    for found in _compiled(_SIGN).finditer(text):
        if _is_quoted(found):
            continue
        for n, marks in enumerate(_SIGNS):
            if _compiled(marks.begin).match(text, found.start()):
                begun.setdefault(n, []).append(found.start())
                break
            if begun.get(n) and (ended := _compiled(marks.end).match(text, found.start())):
                spans.append((begun[n].pop(), ended.end()))
                break
    first = len(text) - len(text.lstrip())
    if text[first : first + 1] not in ("[", "{") and any(first in starts for starts in begun.values()):
        return ""
    kept, place = [], 0
    for start, stop in sorted(spans):
        # "<think> and </think>" only names the marks.
        if start >= place and not _MENTION.fullmatch(_compiled(_SIGN).sub("", text[start:stop])):
            kept.append(text[place:start])
            place = stop
    return "".join([*kept, text[place:]]).strip() if place else text


def _skip_object(text: str, found: re.Match[str]) -> tuple[int, int]:
    """Where the search goes on after the begin of an object, and from where on objects are tried again."""
    try:
        _, end = _DECODER.raw_decode(text, found.start())
    except json.JSONDecodeError as error:
        return found.end(), len(text) if error.msg.startswith("Unterminated") else error.pos
    except (RecursionError, ValueError):
        return found.end(), len(text)  # too deep, or a number is too long; each further attempt would take as long
    return end, end


def _end_of_thought(mark: re.Match[str]) -> int | None:
    """The end of the thought that begins with a mark; None if the thought, or a thought inside, has no end mark."""
    text, begun, depth = mark.string, mark.end(), 1
    marks = next(marks for marks in MARKS if _compiled(marks.begin).match(text, mark.start()))
    for found in _compiled(f"(?P<end>{marks.end})|(?P<begin>{marks.begin})").finditer(text, begun):
        if _is_quoted(found):
            continue
        if found["begin"]:
            depth += bool(text[begun : found.start()].strip())  # a repeated begin mark is one mark
            begun = found.end()
        else:
            depth -= 1
            if not depth:
                return found.end()
    return None


def _is_quoted(found: re.Match[str]) -> bool:
    text, begin, end = found.string, found.start(), found.end()
    return text[max(begin - 1, 0) : begin] + text[end : end + 1] in QUOTED
