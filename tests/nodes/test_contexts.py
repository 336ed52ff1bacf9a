"""Context lengths of models: the tables, the errors of endpoints that refuse a long prompt, and token estimates."""

from __future__ import annotations

import pytest
from moot.core.refusal_words import parse_refusal
from moot.embedded.server import CONTEXT
from moot.nodes._models.chat_models import EMBEDDED
from moot.nodes._models.contexts import (
    bytes_per_token,
    context_of,
    count_prompt,
    learn_from_refusal,
    reply_room,
    weight_of,
)

MODEL, HERE = "openai:some-model", "http://127.0.0.1:1/v1"


# For each error text: the context length, the prompt's tokens and the excess tokens. A missing number is None.
REFUSALS = {
    # OpenAI
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9123 tokens. Please reduce "
    "the length of the messages.": (8192, 9123, None),
    "This model's maximum context length is 4097 tokens. However, you requested 4203 tokens (3703 in the messages, 500 "
    "in the completion).": (4097, 3703, None),
    "This model's maximum context length is 8192 tokens, however you requested 25701 tokens (25701 in your prompt; 0 "
    "for the completion).": (8192, 25701, None),
    "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300123 tokens.": (
        272000,
        300123,
        None,
    ),
    # vLLM
    "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens in the messages, Please "
    "reduce the length of the messages.": (8192, 9000, None),
    "'max_tokens' or 'max_completion_tokens' is too large: 512. This model's maximum context length is 8192 tokens and "
    "your request has 8000 input tokens (512 > 8192 - 8000).": (8192, 8000, None),
    "You passed 9001 input tokens and requested 512 output tokens. However, the model's context length is only 8192 "
    "tokens, resulting in a maximum input length of 7680 tokens.": (8192, 9001, None),
    "The decoder prompt (length 9000) is longer than the maximum model length of 8192. Make sure that `max_model_len` "
    "is no smaller than the number of text tokens.": (8192, 9000, None),
    "The prompt (total length 25938) is too long to fit into the model (context length 4096).": (4096, 25938, None),
    # llama.cpp. The numbers after a semicolon come from other fields of the error.
    "request (9123 tokens) exceeds the available context size (8192 tokens), try increasing it": (8192, 9123, None),
    "the request exceeds the available context size. try increasing the context size or enable context shift; "
    "n_prompt_tokens 14429; n_ctx 8192": (8192, 14429, None),
    "the request exceeds the available context size. try increasing the context size": (None, None, None),
    "Requested tokens (2285) exceed context window of 2048": (2048, None, None),
    # Ollama, LM Studio, others
    "prompt too long; exceeded max context length by 123 tokens": (None, None, 123),
    "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length "
    "of only 4096 tokens": (4096, 9000, None),
    "prompt is too long: 202609 tokens > 200000 maximum": (200000, 202609, None),
    "Request too large": (None, None, None),
}


@pytest.mark.parametrize("message", REFUSALS)
def test_numbers_in_refusals_of_long_prompts_are_parsed(message: str) -> None:
    """The number in the model's name is ignored."""
    error = (
        f"http://x/v1 refused the prompt for openai:gpt-4-32768 as too long (HTTP 400: {message}). Use another model."
    )
    assert parse_refusal(error) == REFUSALS[message]


def test_a_context_length_comes_from_the_setting_or_a_table() -> None:
    """Without a setting, the context length of a model that is not in the tables is unknown."""
    assert context_of("openai:gpt-4o-mini") == context_of("openai:gpt-4o-mini-2024-07-18") == 128_000
    assert context_of("vllm:meta-llama/Llama-2-7b-chat-hf") == context_of("ollama:llama2") == 4096
    assert context_of(EMBEDDED) == CONTEXT
    assert context_of(MODEL) is context_of("fake:1") is context_of("openai:gpt-4o-audio") is None
    assert context_of(MODEL, setting=9000) == 9000
    assert context_of("openai:gpt-4o", setting=200_000) == 200_000  # the setting overrides the table


def test_a_context_length_in_a_refusal_is_learnt_for_that_endpoint() -> None:
    learn_from_refusal(MODEL, HERE, next(iter(REFUSALS)), 40_000)
    assert context_of(MODEL, HERE) == context_of(MODEL, HERE, 32_000) == 8192
    assert context_of(MODEL, "http://elsewhere/v1") is None
    assert bytes_per_token(MODEL) == 3.0 + 0.1 * (40_000 / 9123 - 3.0)  # a tenth of the way to the counted ratio


def test_a_refusal_without_numbers_halves_the_room_for_the_prompt() -> None:
    for expected in (7_000, 3_500, 1_700):
        before = context_of(MODEL, HERE)
        sent = 45_000 if before is None else (before - reply_room(before)) * 3
        learn_from_refusal(MODEL, HERE, "the request exceeds the available context size", sent)
        context = context_of(MODEL, HERE)
        assert context is not None
        assert expected - 600 < context - reply_room(context) <= sent / 3 / 2


def test_the_token_estimate_rises_if_a_prompt_that_should_fit_is_refused() -> None:
    learn_from_refusal(MODEL, HERE, "maximum context length is 8192 tokens", 18_000)
    assert 18_000 / bytes_per_token(MODEL) > 8192


COUNTS = {
    "\n".join(f"{1900 + i},{i * 37 % 100},{i * 7919 % 10007}" for i in range(100)): 1277,
    "千克不再由保存在法国的金属圆柱体定义。" * 20: 640,
    "Килограмм больше не определяется металлическим цилиндром, хранящимся во Франции." * 20: 1260,
    "กิโลกรัมไม่ได้ถูกกำหนดโดยกระบอกโลหะที่เก็บไว้ในฝรั่งเศสอีกต่อไป" * 20: 2460,
    "The kilogram is no longer defined by a metal cylinder kept in France. " * 20: 281,
}
"""Texts and their numbers of tokens. The tokenizer of the embedded model (SmolLM2) counted the tokens."""


def test_token_estimates_are_not_too_low_for_digits_and_non_latin_scripts() -> None:
    """The estimates are at most 2.2 times the token counts."""
    for text, tokens in COUNTS.items():
        assert tokens <= weight_of(text) / bytes_per_token(MODEL) <= 2.2 * tokens


def test_the_token_estimate_is_corrected_by_an_endpoints_counts() -> None:
    count_prompt(MODEL, 100, 100)  # this prompt is too short to learn from
    count_prompt(MODEL, 4000, None)
    assert bytes_per_token(MODEL) == 3.0
    count_prompt(MODEL, 4000, 1000)
    assert bytes_per_token(MODEL) == pytest.approx(3.1)  # a lower count lowers the token estimate slowly
    count_prompt(MODEL, 4000, 2000)
    assert bytes_per_token(MODEL) == 2.0  # a higher count raises the token estimate at once
    count_prompt(MODEL, 4000, 10**9)
    assert bytes_per_token(MODEL) == 0.5  # the minimum


def test_the_tokens_reserved_for_a_reply_are_max_tokens_or_512() -> None:
    """Without ``max_tokens``, at most a quarter of the context is reserved."""
    assert [reply_room(8192), reply_room(1000), reply_room(8192, 2000)] == [512, 250, 2000]
