"""Sends a request to the model's client."""

from __future__ import annotations

import asyncio

from langchain_core.messages import AIMessage
from moot.core.errors import MootError
from moot.core.refusals import explain, unreadable
from moot.nodes._models.call.request import Asker, Request, Way
from moot.nodes._models.reply_parsing import is_broken_off, without_environment_keys, without_invalid_metadata
from moot.nodes._models.seeds import with_seed
from moot.nodes._runtime.trace import named_runs


def sending(speaker: Asker) -> Way:
    """The innermost layer: one request to the client, whose exceptions become `MootError`s."""
    model = speaker.model

    async def send(request: Request) -> AIMessage:
        seeds = request.seeds
        chat = with_seed(model.chat, seeds.seed_of(request.messages)) if seeds else model.chat
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
        return without_invalid_metadata(without_environment_keys(message, speaker.session.keys))

    return send
