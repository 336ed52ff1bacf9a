"""A model's context (maximum number of tokens in a prompt and its reply), and estimates of a prompt's tokens.

A model's context comes from the setting ``context_tokens``. If this setting is not set, the context comes from
``context`` in the tables of prices (``prices.jsonl``) and of open models (``model_sizes.jsonl``), or from the server of
the embedded model. If none of these states a context, it is unknown. If an endpoint refuses a prompt as too long, moot
learns a context from the refusal (`learn_from_refusal`). For the rest of the process, the learnt context replaces a
larger or unknown one.

Tokens are estimated without a tokenizer: bytes of UTF-8, as `weight_of` counts them, divided by `bytes_per_token`. The
divisor is `BYTES_PER_TOKEN` until the endpoint has counted prompts for this model.
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from importlib import resources

from moot.core.refusal_words import parse_refusal
from moot.nodes._models.prices import DATED
from moot.nodes._models.sizes import entry_of

BYTES_PER_TOKEN = 3.0
"""The estimate until a model's endpoint has counted a prompt. English text has about 4 bytes per token, so most
prompts have fewer tokens than estimated."""
MIN_BYTES_PER_TOKEN, MAX_BYTES_PER_TOKEN = 0.5, 8.0
"""Bounds of the estimated bytes per token, in case an endpoint returns absurd counts."""
FEWEST_COUNTED_BYTES = 500
"""The counts of prompts with fewer bytes are ignored, because the tokens that an endpoint adds would distort them."""
DIGIT_WEIGHT, OTHER_WEIGHT = 4, 2
"""Weights in `weight_of`: a digit counts as 4 bytes, and a byte outside ASCII as 2 bytes.

In many models each digit is a token, and a token of a script other than Latin has only about two bytes. A token of
SmolLM2 has on average 1.0 byte in a table of numbers, 1.5 in Thai, 1.7 in Chinese, 2.4 in Russian, and 3.8 in English.
"""
_DIGITS, _ASCII = b"0123456789", bytes(range(128))
RISE_SHARE = 0.1
"""If an endpoint's count gives more bytes per token than estimated, the estimate rises by this share of the difference.
If it gives fewer, the new value replaces the estimate at once, because a low estimate is safer."""
REPLY_RESERVE = 512
"""Tokens reserved for a reply if ``max_tokens`` is not set, but at most a quarter of the context."""
CONTEXT_SHARE = 0.97
"""A prompt may fill this share of the tokens that remain after the reply's tokens are subtracted from the context. The
rest is a margin, because tokens are only estimated, and endpoints add some tokens to each message."""

_PRICED = (resources.files("moot.nodes._models") / "prices.jsonl").read_text(encoding="utf-8").splitlines()
_HOSTED: dict[str, int] = {e["model"]: e["context"] for e in map(json.loads, filter(None, _PRICED)) if "context" in e}
"""The contexts in the table of prices, by model; read at import, because the event loop must not wait for a disk."""

_bytes_per_token: dict[str, float] = {}
_learnt: dict[tuple[str, str], int] = {}
"""Contexts learnt from refusals, by address and model."""


def forget_contexts() -> None:
    """Forgets contexts and token counts learnt from endpoints; for tests."""
    _bytes_per_token.clear()
    _learnt.clear()


# --- tokens of prompts ------------------------------------------------------------------------------------------------


def bytes_of(text: str) -> int:
    """The bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def weight_of(text: str) -> int:
    """The bytes of a text in UTF-8, weighted for estimates: a digit and a byte outside ASCII count several times."""
    encoded = text.encode(errors="replace")
    digits = len(encoded) - len(encoded.translate(None, _DIGITS))
    others = 0 if text.isascii() else len(encoded.translate(None, _ASCII))
    return len(encoded) + (DIGIT_WEIGHT - 1) * digits + (OTHER_WEIGHT - 1) * others


def bytes_per_token(model: str) -> float:
    """Estimated bytes per token of a model (provider:name), as `weight_of` counts bytes."""
    return _bytes_per_token.get(model, BYTES_PER_TOKEN)


def count_prompt(model: str, sent: int, tokens: int | None) -> None:
    """Corrects a model's bytes per token with an endpoint's count of ``tokens`` for ``sent`` bytes (`weight_of`)."""
    if not tokens or sent < FEWEST_COUNTED_BYTES:
        return
    found, before = min(MAX_BYTES_PER_TOKEN, max(MIN_BYTES_PER_TOKEN, sent / tokens)), bytes_per_token(model)
    _bytes_per_token[model] = found if found < before else before + RISE_SHARE * (found - before)


# --- contexts ---------------------------------------------------------------------------------------------------------


def context_of(model: str, address: str = "", setting: int | None = None) -> int | None:
    """The most tokens of a prompt and its reply together, by the user's ``setting`` or the tables; None if unknown."""
    known = setting or listed_context(model)
    # What the endpoint's refusals have taught replaces a larger or unknown context.
    learnt = _learnt.get((address, model)) if _learnt else None
    return min(known, learnt) if known and learnt else known or learnt


@lru_cache(maxsize=256)
def listed_context(model: str) -> int | None:
    """A model's context in the tables, or that of the embedded model; None if the context is not listed."""
    provider, _, _ = model.partition(":")
    if provider == "fake":
        return None
    if provider == "embedded":
        from moot.embedded.server import CONTEXT

        return CONTEXT
    # A dated snapshot that is not listed has the context of the undated model.
    hosted = _HOSTED.get(model) or _HOSTED.get(DATED.sub("", model))
    if hosted:
        return hosted
    entry = entry_of(model)
    return entry.get("context") if entry else None


def reply_room(context: int, max_tokens: int | None = None, usual: int = REPLY_RESERVE) -> int:
    """The tokens of a context that are reserved for a reply; ``usual``: at most, if ``max_tokens`` is not set."""
    return max_tokens or min(usual, context // 4)


def learnt_context(model: str, address: str) -> int | None:
    """The context that refusals have taught; None if none did."""
    return _learnt.get((address, model))


def restore_context(model: str, address: str, learnt: int | None) -> None:
    """Forgets what was learnt since `learnt_context` returned ``learnt``."""
    _learnt.pop((address, model), None)
    _learnt.update({(address, model): learnt} if learnt else {})


# --- refusals of endpoints --------------------------------------------------------------------------------------------


def learn_from_refusal(model: str, address: str, text: str, sent: int, max_tokens: int | None = None) -> None:
    """Learns a model's context from the refusal of a prompt of ``sent`` bytes, so that the next is shorter."""
    context, tokens, over = parse_refusal(text)
    known = context_of(model, address)
    if context and max_tokens and context <= max_tokens:
        context += max_tokens  # because some releases of vLLM subtract max_tokens from the context that they name
    tokens = tokens or (context + over if context and over else None)
    estimate = math.ceil(sent / bytes_per_token(model))
    if context is None:
        # Less by one and a half times the excess; by about a half if the excess is unknown, or half of the prompt or
        # more.
        less = 3 * over // 2 if over else estimate // 2  # 3/2, because a token may have more bytes than estimated
        room = estimate - less if 4 * less < 3 * estimate else estimate // 2
        context = room + (max_tokens or min(REPLY_RESERVE, room // 3))
    context = max(1, min(context, known) if known else context)
    _learnt[address, model] = context
    if tokens is None and estimate <= context - reply_room(context, max_tokens):
        tokens = context + context // 8  # the refused prompt fits by the estimate, so the estimate is too low
    count_prompt(model, max(sent, FEWEST_COUNTED_BYTES), tokens)
