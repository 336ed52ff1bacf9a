"""Sends a request to the model's client."""

from __future__ import annotations

import asyncio

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from moot.core.errors import MootError
from moot.core.refusal_words import meaning_of
from moot.core.refusals import ended_with_error, explain, unreadable
from moot.nodes._models.call.request import Asker, Request, Way
from moot.nodes._models.reply_limits import accepts_older_name, count_thoughts, limited, note_name
from moot.nodes._models.reply_parsing import (
    finish_reason,
    is_broken_off,
    without_environment_keys,
    without_invalid_metadata,
)
from moot.nodes._models.seeds import with_seed
from moot.nodes._runtime.trace import named_runs


def sending(speaker: Asker) -> Way:
    """The innermost layer: one request to the client, whose exceptions become `MootError`s."""
    model = speaker.model
    place = (model.endpoint.base_url, model.name)

    async def send(request: Request) -> AIMessage:
        older = model.older if accepts_older_name(*place) else None
        try:
            message = await exchange(request, older)
        except MootError as error:
            # The endpoint refused a name of the limit, so it did no work. It gets the request under the other name.
            if model.older is None or error.kind != "bad_request" or meaning_of(error.detail) != "reply_name":
                raise
            note_name(*place, older=older is None)
            message = await exchange(request, None if older else model.older)
        message = without_invalid_metadata(without_environment_keys(message, speaker.session.keys))
        usage, limit = message.usage_metadata, request.reply_tokens
        if usage and limit and older is None and usage["output_tokens"] > limit:
            note_name(*place, older=True)  # the endpoint ignored the newer name
        count_thoughts(model.name, message)
        return message

    async def exchange(request: Request, older: BaseChatModel | None) -> BaseMessage:
        seeds = request.seeds
        chat = limited(older or model.chat, request.reply_tokens)
        chat = with_seed(chat, seeds.seed_of(request.messages)) if seeds else chat
        try:
            with named_runs(speaker.role, model.name, speaker.record):
                async with asyncio.timeout(model.timeout):
                    message = await request.send(chat, request.messages)
        except MootError:
            raise
        except Exception as error:
            raise explain(error, model.endpoint, model.name) from error
        if is_broken_off(message):
            raise unreadable(model.endpoint, model.name, "it ended early")
        if finish_reason(message) == "error":
            raise ended_with_error(model.endpoint, model.name)
        return message

    return send
