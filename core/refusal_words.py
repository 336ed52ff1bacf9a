"""What an endpoint's refusal of a request means, by its words.

The table is ``refusals.jsonl``, with the words of one provider per line: ``means`` (a `Meaning`), ``who``, ``words`` (a
regular expression; letter case does not count) and ``source``. Lines for prompts that are too long may also have
``context``, ``sent`` and ``over``: how the provider names the tokens of its context, of the prompt, and those in
excess. In these, ``N`` stands for a number. The first line whose words are found counts. A refusal whose words are not
in the table has no known meaning, so nothing is learnt from it.
"""

from __future__ import annotations

import json
import re
from importlib import resources
from typing import Any, Literal

Meaning = Literal[
    "too_long",  # the prompt
    "reply_limit",  # `max_tokens` is too high
    "no_room",  # `max_tokens` left no room for a reply
    "refused",  # the content
    "quota",  # the account's money or quota is used up
    "unsupported",  # no endpoint of the model takes the request
    "unknown_model",
    "no_chat",  # the model is of another kind, such as an encoder
    "no_memory",  # the server cannot load the model
    "sampled",  # the model wrote invalid JSON, or an invalid call of a tool
    "key",  # it is wrong
    "schema",  # that of the reply is not accepted
    "newer_names",  # the endpoint does not know ``max_completion_tokens`` or the role ``developer``
    "stream_options",  # it does not know this option
    "no_system",  # the model's template has no role ``system``
]

_NUMBER = r"(\d[\d,_]*)"
_NUMBERS = ("context", "sent", "over")
_LINES = (resources.files("moot.core") / "refusals.jsonl").read_text(encoding="utf-8").splitlines()
TABLE: tuple[dict[str, Any], ...] = tuple(map(json.loads, _LINES))
"""The table, read at import, because the event loop must not wait for a disk."""


def _compiled(words: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\bN\b", lambda _: _NUMBER, words), re.IGNORECASE)


_PATTERNS = [
    (line["means"], _compiled(line["words"]), [_compiled(line[name]) if name in line else None for name in _NUMBERS])
    for line in TABLE
]


def meaning_of(words: str) -> Meaning | None:
    """What a refusal with these words means; None if it is not known."""
    return next((meaning for meaning, pattern, _ in _PATTERNS if pattern.search(words)), None)


def parse_refusal(text: str) -> tuple[int | None, int | None, int | None]:
    """The context, the prompt's tokens and the excess tokens in a refusal of a long prompt; None for what it lacks."""
    lines = [numbers for meaning, words, numbers in _PATTERNS if meaning == "too_long" and words.search(text)]
    context, sent, over = (
        next(filter(None, (_number_in(numbers[place], text) for numbers in lines)), None) for place in range(3)
    )
    return context, sent, over


def _number_in(pattern: re.Pattern[str] | None, text: str) -> int | None:
    found = pattern.search(text) if pattern else None
    digits = next(filter(None, found.groups()), "") if found else ""
    return int(digits.replace(",", "").replace("_", "")[:12]) or None if digits else None


def error_text(body: Any) -> str:
    """The words of an error (fields or text) of any provider, without a limit of length; empty if there are none."""
    if isinstance(body, list):
        return "; ".join(filter(None, map(error_text, body)))
    if not isinstance(body, dict):
        return "" if body is None else str(body)
    said = next((text for name in _TEXTS if (text := error_text(body.get(name)))), "")
    place = body.get("loc")
    said = f"{'.'.join(map(str, place))}: {said}" if isinstance(place, list) and said else said
    metadata = body.get("metadata")
    raw = error_text(metadata.get("raw")) if isinstance(metadata, dict) else ""
    numbers = [f"{key} {body[key]}" for key in LLAMA_CPP_FIELDS if type(body.get(key)) is int]
    return "; ".join(filter(None, [said, raw, *numbers]))


_TEXTS = ("message", "msg", "detail", "error", "Message", "error_msg", "errors", "status_msg")
"""The fields in which providers put the words of an error, or fields with these words."""
LLAMA_CPP_FIELDS = ("n_prompt_tokens", "n_ctx")
"""Numbers in llama.cpp's error for a prompt that is too long; they are appended to the error's message."""


def error_code(body: Any) -> str:
    """The code of an error, as the provider spells it; empty if it has none."""
    if isinstance(body, list):
        return error_code(body[0]) if body else ""
    if not isinstance(body, dict):
        return ""
    return str(body.get("code") or "") or error_code(body.get("error"))


def error_words(body: Any) -> str:
    """The code, the type and the words of an error, for `meaning_of`."""
    kind = body.get("type") if isinstance(body, dict) else ""
    return f"{error_code(body)} {kind or ''} {error_text(body)}"
