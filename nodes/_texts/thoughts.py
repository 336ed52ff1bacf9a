"""The thoughts that models write into their replies: which marks enclose them, and the reply without them."""

from __future__ import annotations

import json
import re
from typing import NamedTuple


class Marks(NamedTuple):
    """The marks at the begin and at the end of a thought, as regular expressions; letter case does not count.

    ``specific`` is False if the end mark also ends other things than thoughts. Then it means nothing by itself.
    """

    begin: str
    end: str
    specific: bool = True


def _tag(name: str) -> Marks:
    """The marks of an XML element. The name may have a prefix or a suffix, and the begin may have attributes."""
    name = rf"(?:\w+[:._-])?{name}(?:[._-]\w+)?"
    return Marks(rf"<\s*{name}(?:\s[^<>]*)?(?<!/)>", rf"<\s*/\s*{name}\s*>")


MARKS = (
    _tag("(?:ant)?think(?:ing)?"),  # DeepSeek, Qwen, GLM, Phi, Hunyuan, <seed:think>, <mm:think>; prompts for Claude
    _tag("thoughts?"),  # EXAONE Deep, Marco-o1, and Gemini through its OpenAI endpoint
    _tag("reason(?:ing)?"),  # fine-tuned models
    _tag("reflect(?:ion)?"),  # Reflection 70B
    _tag("scratch_?pad"),  # prompts for Claude
    _tag("analysis"),  # prompts for Claude
    _tag("(?:inner_?|internal_?)?monologue"),  # prompts for Claude
    _tag("(?:chain_of_thought|cot)"),  # fine-tuned models
    Marks(r"\[\s*(?:think(?:ing)?|reasoning)\s*\]", r"\[\s*/\s*(?:think(?:ing)?|reasoning)\s*\]"),  # Magistral
    Marks("◁think▷", "◁/think▷"),  # Kimi
    Marks(r"<\|start_thinking\|>", r"<\|end_thinking\|>"),  # Command A of Cohere
    Marks(r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),  # OpenThoughts, Sky-T1
    Marks(r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),  # Apertus
    Marks(r"<\|think(?:ing)?\|>", r"<\|/think(?:ing)?\|>|<\|content\|>"),  # Solar Open
    Marks(r"<\|channel>\s*thought", r"<channel\|>"),  # Gemma 4
    Marks("<unused94>", "<unused95>"),  # MedGemma
    Marks(  # gpt-oss (harmony): all channels but the final one; a channel ends where the next one begins
        r"<\|channel\|>(?!\s*final\b)",
        r"<\|channel\|>\s*final\b(?:[^<{]*(?:<\|constrain\|>[^<{]*)?<\|message\|>)?|(?=<\|channel\|>)",
    ),
    Marks(r"\A\s*(?-i:analysis(?=[\"{A-Z]))", "assistantfinal"),  # gpt-oss, if the server left out its marks
    Marks(r"^[ \t]*here(?: is|['’]s) my thought process:", r"here(?: is|['’]s) my response:"),  # Granite 3
    Marks(r"^[ \t]*thinking\.\.\.", r"\.\.\.done thinking\."),  # the command line of Ollama
    Marks(r"<details\s[^<>]*\btype\s*=\s*[\"']?reasoning\b[^<>]*>", r"</details\s*>", specific=False),  # Open WebUI
    Marks(r"```[ \t]*(?:think(?:ing)?|thoughts?|reasoning)\b", "```", specific=False),  # a code fence
)
"""The marks of thoughts, one form a line, with the models or programs that write it."""

OBJECT = re.compile(r"\{\s*\"")
"""The beginning of an object that is not empty."""
QUOTED = ('""', "''", "``", "“”", "‘’", "«»")
"""The signs around a mark that a text only mentions."""
MOST_TRIES = 1000
"""Maximum number of objects in a text that are read to find out whether a mark is inside of them."""

_DECODER = json.JSONDecoder(strict=False)
_FLAGS = re.IGNORECASE | re.MULTILINE
_FORMS = {
    re.compile(marks.begin, _FLAGS): re.compile(f"(?P<end>{marks.end})|(?P<begin>{marks.begin})", _FLAGS)
    for marks in MARKS
}
_BEGIN = "|".join(marks.begin for marks in MARKS)
_END = "|".join(marks.end for marks in MARKS if marks.specific)
_MARK = re.compile(f"(?P<begin>{_BEGIN})|(?P<end>{_END})", _FLAGS)
_MARK_OR_OBJECT = re.compile(f"{_MARK.pattern}|(?P<object>{OBJECT.pattern})", _FLAGS)


def without_thoughts(text: str) -> str:
    """The text of a reply without the model's thoughts (`MARKS`).

    If words follow the last thought, only these are returned. Otherwise everything outside of thoughts is returned. An
    end mark without a begin mark ends a thought that began with the text. A thought without an end mark may contain
    anything, so the result is empty. Marks inside of a complete JSON object, and marks in quotation marks, are part of
    the text: they do not count.
    """
    outside: list[str] = []
    start = place = tried = tries = 0
    while found := (_MARK_OR_OBJECT if tried < len(text) and tries < MOST_TRIES else _MARK).search(text, place):
        place = found.end()
        if found.lastgroup == "object":
            if found.start() >= tried:
                (place, tried), tries = _skip_object(text, found), tries + 1
        elif _is_quoted(found):
            continue
        elif found["begin"]:
            end = _end_of_thought(found)
            if end is None:
                return ""
            outside.append(text[start : found.start()])
            start = place = tried = end
        else:
            outside, start, tried = [], place, place
    if not start:
        return text
    rest = text[start:]
    return (rest if re.search(r"[\w{[]", rest) else "".join([*outside, rest])).strip()


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
    form = next(form for begin, form in _FORMS.items() if begin.match(text, mark.start()))
    for found in form.finditer(text, begun):
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
