"""Sends a request to the model's client."""

from __future__ import annotations

import asyncio
import warnings

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from moot.core.errors import MootError, UserError
from moot.core.refusal_words import meaning_of
from moot.core.refusals import ended_with_error, explain, unreadable
from moot.nodes._models.call.request import Asker, Request, Way
from moot.nodes._models.chat_models import ChatModel
from moot.nodes._models.contexts import MAX_BYTES_PER_TOKEN, bytes_of, bytes_per_token, weight_of
from moot.nodes._models.reply_limits import (
    count_thoughts,
    counted_if_streamed,
    limited,
    note_names,
    note_no_system,
    note_no_usage,
    taken_messages,
    takes_older_names,
)
from moot.nodes._models.reply_parsing import (
    finish_reason,
    found_no_room,
    is_broken_off,
    without_environment_keys,
    without_invalid_metadata,
)
from moot.nodes._models.seeds import with_seed
from moot.nodes._runtime.trace import named_runs

# moot's own error names the remedy.
warnings.filterwarnings("ignore", "Invalid schema for OpenAI's structured output|This model does not support OpenAI's")
MOST_KEPT = 8
"""How many tokens of the beginning Ollama may keep if it cuts a prompt to half of the context."""


def sending(speaker: Asker) -> Way:
    """The innermost layer: one request to the client, whose exceptions become `MootError`s."""
    model = speaker.model
    place = (model.endpoint.base_url, model.name)

    async def send(request: Request) -> AIMessage:
        learnt = set[str]()
        while True:
            older = model.older if takes_older_names(*place) else None
            try:
                message = await exchange(request, older)
                break
            except MootError as error:
                # The endpoint refused a part of the request, so it did no work. It gets the request without that part.
                refused = meaning_of(error.detail) if error.kind == "bad_request" else None
                if refused is None or refused in learnt:
                    raise
                if refused == "newer_names" and model.older is not None:
                    note_names(*place, older=older is None)
                elif refused == "stream_options":
                    note_no_usage(*place)
                elif refused == "no_system":
                    note_no_system(*place)
                else:
                    raise
                learnt.add(refused)
        message = without_invalid_metadata(without_environment_keys(message, speaker.session.keys))
        if found_no_room(message):
            full = UserError(
                f"{model.endpoint.display_url} had no room for a reply of {model.name}: the prompt fills its context. "
                "Use a model with a longer context, a smaller `k`, or shorter passages.",
                kind="too_long",
            )
            full.may_cost = True
            raise full
        usage, limit = message.usage_metadata, request.reply_tokens
        if usage and limit and older is None and usage["output_tokens"] > limit:
            note_names(*place, older=True)  # the endpoint ignored the newer name
        count_thoughts(model.name, message)
        return message

    async def exchange(request: Request, older: BaseChatModel | None) -> BaseMessage:
        seeds = request.seeds
        chat = limited(counted_if_streamed(older or model.chat, *place), request.reply_tokens)
        chat = with_seed(chat, seeds.seed_of(request.messages)) if seeds else chat
        try:
            with named_runs(speaker.role, model.name, speaker.record):
                async with asyncio.timeout(model.timeout):
                    message = await request.send(chat, taken_messages(request.messages, *place))
        except MootError:
            raise
        except Exception as error:
            raise explain(error, model.endpoint, model.name) from error
        if is_broken_off(message, is_ollama=model.endpoint.is_ollama):
            raise unreadable(model.endpoint, model.name, "it ended early")
        if finish_reason(message) == "error":
            raise ended_with_error(model.endpoint, model.name)
        if model.endpoint.is_ollama:
            check_whole_prompt(model, request, message)
        return message

    return send


def check_whole_prompt(model: ChatModel, request: Request, message: BaseMessage) -> None:
    """Refuses a reply of Ollama to a prompt that it has cut, as its count of the prompt's tokens shows."""
    usage = getattr(message, "usage_metadata", None)
    read = usage["input_tokens"] if usage else 0
    size, context = sum(bytes_of(str(sent.content)) for sent in request.messages), model.context or 0
    estimate = sum(weight_of(str(sent.content)) for sent in request.messages) / bytes_per_token(model.name)
    # Ollama keeps as many tokens as the context has or, in other releases, half as many and a few from the beginning.
    is_full = context and read >= context - 1
    is_half = context and context // 2 <= read <= context // 2 + MOST_KEPT and estimate > 5 / 4 * read
    if read and (is_full or is_half or size > MAX_BYTES_PER_TOKEN * read):
        raise UserError(
            f"{model.endpoint.display_url} has cut the prompt for {model.name}: it read only {read:,} tokens of it"
            f"{f', as it has loaded the model with {context:,} tokens of context' * bool(context)}. Raise the setting "
            "`context_tokens`, which is sent as `num_ctx`, or the server's OLLAMA_CONTEXT_LENGTH.",
            kind="too_long",
        )
