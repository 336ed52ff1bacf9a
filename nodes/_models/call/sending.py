"""Sends a request to the model's client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage
from moot.core.errors import MootError
from moot.core.refusals import explain
from moot.nodes._models.call.request import Ask, Request
from moot.nodes._models.reply_parsing import without_environment_keys
from moot.nodes._models.seeds import with_seed
from moot.nodes._runtime.trace import named_runs

if TYPE_CHECKING:
    from moot.nodes._models.speaker import Speaker


def sending(speaker: Speaker) -> Ask:
    """The innermost layer: one request to the client, whose exceptions become `MootError`s."""
    model = speaker.model

    async def send(request: Request) -> AIMessage:
        seeds = request.seeds
        chat = with_seed(model.chat, seeds.seed_of(request.messages)) if seeds else model.chat
        try:
            with named_runs(speaker.role, model.name, speaker.ledger):
                message = await request.send(chat, request.messages)
        except MootError:
            raise
        except Exception as error:
            raise explain(error, model.endpoint, model.name) from error
        return without_environment_keys(message, speaker.session.keys)

    return send
