"""Layers that are wrapped around a speaker from outside. A call does not depend on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from moot.nodes._models.call.request import Asker, Layer, Request, Way
from moot.nodes._texts.datamarking import datamarked, unmarked_message


def marking(below: Way, speaker: Asker) -> Way:
    """A layer: marks the evidence in prompts, and removes the marks from replies (`moot.nodes._texts.datamarking`)."""

    async def mark(request: Request) -> AIMessage:
        marked = replace(
            request,
            messages=datamarked(request.messages),
            fault=lambda message: request.fault(unmarked_message(message)),
        )
        return unmarked_message(await below(marked))

    return mark


def instructing(instructions: str) -> Layer:
    """A layer that adds instructions to the end of each system message, such as those of a simulated attack."""

    def instructed(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        return [
            one.model_copy(update={"content": f"{one.content}\n\n{instructions}"})
            if isinstance(one, SystemMessage)
            else one
            for one in messages
        ]

    def layer(below: Way, speaker: Asker) -> Way:
        async def instruct(request: Request) -> AIMessage:
            return await below(replace(request, messages=instructed(request.messages)))

        return instruct

    return layer
