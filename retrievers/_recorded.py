"""The record of `moot demo`: a model's replies to exact requests, and the vectors of texts, both as ``recorded:demo``.

`tests/demo.py` makes the record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

from moot.core.errors import UserError

NAME = "demo"
"""The only record."""
MISSING = (
    "recorded:demo has no {what}. It answers only the requests of `moot demo`, word for word. For a claim of your own, "
    "name a model, e.g. openai:gpt-4o-mini. If a prompt, a setting or a passage of the demo has changed, its record "
    "must be made anew: `python -m tests.demo`, see CONTRIBUTING.md."
)


def request_key(messages: Sequence[Mapping[str, Any]], response_format: Any) -> str:
    """The key of a request: its messages in OpenAI's form, and the format of its reply (None for any)."""
    shown = [[message["role"], message["content"]] for message in messages]
    return json.dumps([shown, response_format], sort_keys=True)


@lru_cache(maxsize=1)
def _read() -> tuple[dict[str, dict[str, Any]], dict[str, list[float]]]:
    """The recorded replies by the keys of their requests, and the recorded vectors by their texts."""
    file = resources.files("moot.retrievers") / "demo" / "record.jsonl"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    replies = {request_key(x["messages"], x["response_format"]): x for x in lines if "reply" in x}
    return replies, {x["text"]: x["vector"] for x in lines if "vector" in x}


def check_record(name: str) -> None:
    """Refuses the name of a record that does not exist."""
    if name != NAME:
        raise UserError(f"The only recorded model is recorded:{NAME}, not recorded:{name}.", kind="unknown_model")


def recorded_reply(messages: Sequence[Mapping[str, Any]], response_format: Any) -> dict[str, Any]:
    """The recorded reply to a request, with ``reply`` (its text), ``usage`` and ``role``; UserError without one."""
    try:
        return _read()[0][request_key(messages, response_format)]
    except KeyError:
        raise UserError(MISSING.format(what="reply to this request"), kind="replay_miss") from None


def recorded_vectors(texts: Sequence[str]) -> list[list[float]]:
    """The recorded vectors of texts, in order; UserError if one is not recorded."""
    vectors = _read()[1]
    if missing := [text for text in texts if text not in vectors]:
        raise UserError(MISSING.format(what=f"vector of the text {missing[0][:200]!r}"), kind="replay_miss")
    return [vectors[text] for text in texts]
