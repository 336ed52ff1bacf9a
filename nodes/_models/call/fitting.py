"""Shortens messages to a model's context and to the ceilings before they are sent."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from moot.core.errors import UserError
from moot.core.refusal_words import parse_refusal
from moot.nodes._models.call.request import Asker, Request, Way
from moot.nodes._models.chat_models import ChatModel
from moot.nodes._models.contexts import (
    CONTEXT_SHARE,
    bytes_of,
    bytes_per_token,
    context_of,
    count_prompt,
    learn_from_refusal,
    learnt_context,
    reply_room,
    restore_context,
    weight_of,
)
from moot.nodes._models.reply_limits import REPLY_TOKENS, limit_of
from moot.nodes._models.spend import PlannedCall
from moot.nodes._records.entries import LeftOut
from moot.nodes._texts.shorten import drop_elements, shorten

MOST_REFUSALS = 4
"""Maximum number of times that a prompt is shortened because the endpoint refused it as too long."""


def fitting(below: Way, speaker: Asker) -> Way:
    """A layer: shortens the messages to the model's context, and further if the endpoint refuses them as too long."""
    model, name = speaker.model, speaker.model.name

    async def fit(request: Request) -> AIMessage:
        before, refusal, place = 0, cast(UserError | None, None), (name, model.endpoint.base_url)
        learnt = learnt_context(*place)
        for refusals in range(MOST_REFUSALS + 1):
            # The prompt of a role that decides is also shortened to the budget that the ceilings leave.
            room = speaker.budget.prompt_bytes(speaker.role, request.prompt, name)
            if room is not None:
                room -= schema_bytes(request)
            limit = fitted_limit(speaker, request)
            try:
                fitted = fit_messages(
                    request.messages,
                    model,
                    speaker.role,
                    speaker.context_tokens,
                    request.ranks,
                    room,
                    limit,
                    request.visible_tokens,
                )
            except UserError as error:
                if refusal and parse_refusal(refusal.detail)[0] is None:
                    # The context was guessed, in vain: the endpoint's own words say more.
                    restore_context(*place, learnt)
                    raise refusal from error
                raise
            speaker.set_not_shown(fitted.left_out)
            try:
                message = await below(replace(request, messages=fitted.messages, reply_tokens=limit))
            except UserError as error:
                if error.kind != "too_long":
                    raise
                if refusals == MOST_REFUSALS or fitted.size == before:
                    if parse_refusal(error.detail)[0] is None:
                        restore_context(*place, learnt)
                    raise
                learn_from_refusal(*place, error.detail, fitted.size, limit)
                before, refusal = fitted.size, error
                continue
            call = request.calls[-1]
            count_prompt(name, fitted.size, call["prompt_tokens"])
            if fitted.left_out:
                call["left_out"] = fitted.left_out
            return message
        raise AssertionError("unreachable")

    return fit


def planned_call(speaker: Asker, request: Request) -> PlannedCall:
    """A request as a call for the budget."""
    size = weight_of_all(request.messages) + schema_bytes(request)
    reply = request.reply_tokens or reply_limit(speaker.model, request.visible_tokens)
    return PlannedCall(speaker.role, request.prompt, speaker.model.name, size, reply)


def fitted_limit(speaker: Asker, request: Request) -> int | None:
    """The most tokens of a request's reply; without `max_tokens`, at most half of the context, if it is known."""
    model = speaker.model
    limit = request.reply_tokens or reply_limit(model, request.visible_tokens)
    context = known_context(model, speaker.context_tokens)
    return min(limit, context // 2) if limit and context and limit != own_limit(model) else limit


def known_context(model: ChatModel, context_tokens: int | None) -> int | None:
    """The tokens of a model's context: the setting, the table or a refusal's, or less if its server said so."""
    found = context_of(model.name, model.endpoint.base_url, context_tokens)
    return min(filter(None, (found, model.context)), default=None)


def schema_bytes(request: Request) -> int:
    """The bytes of what a request sends besides its messages: the schema of the reply, or tools."""
    more = request.parts.get("schema") or request.parts.get("tools")
    return len(json.dumps(more)) if more else 0


class FittedMessages(NamedTuple):
    """Messages after `fit_messages`, their bytes (`weight_of`), and a record of the data that was left out."""

    messages: Sequence[BaseMessage]
    size: int
    left_out: LeftOut | None = None  # None: nothing was left out


def own_limit(model: ChatModel) -> int | None:
    """The user's limit of a model's replies, in tokens; None if not set."""
    names = ("max_tokens", "max_output_tokens", "num_predict")
    found = next((most for name in names if (most := getattr(model.chat, name, None))), None)
    return None if model.is_capped else found


def reply_limit(model: ChatModel, visible: int) -> int | None:
    """The most tokens of a model's reply: the user's limit, under a ceiling `limit_of`; None without both."""
    return limit_of(model.name, visible) if model.is_capped else own_limit(model)


def fit_messages(
    messages: Sequence[BaseMessage],
    model: ChatModel,
    role: str,
    context_tokens: int | None = None,
    ranks: Mapping[str, int] | None = None,
    room: int | None = None,
    limit: int | None = None,
    visible: int = REPLY_TOKENS,
) -> FittedMessages:
    """Shortens the data of messages, never the instructions, to a context and to ``room`` bytes (`weight_of`).

    The reply may have ``limit`` tokens; if nothing limits it (None), room for ``visible`` tokens is left.
    """
    weight = weight_of_all(messages)
    context = known_context(model, context_tokens)
    reply = reply_room(context, limit, visible) if context else limit or visible
    per = bytes_per_token(model.name)
    most = int(CONTEXT_SHARE * (context - reply) * per) if context else weight
    # If the ceilings (``room``) are the tighter limit, every element of the data except the claim may be left out. A
    # result that still exceeds them is no error here: the ceilings refuse its call.
    by_ceiling = room is not None and room < most
    if room is not None and by_ceiling:
        most, context = room, reply + max(0, math.ceil(room / per))
    if context is None or weight <= most:
        return FittedMessages(messages, weight)
    places = [at for at, message in enumerate(messages) if isinstance(message, HumanMessage | ToolMessage)]
    data = [str(messages[at].content) for at in places]
    size = sum(bytes_of(str(message.content)) for message in messages)
    fixed = size - sum(map(bytes_of, data))
    aim, cut_weight = int(most * size / weight), most + 1
    while cut_weight > most:
        shortened = shorten(data, aim - fixed, ranks)
        if by_ceiling and fixed + shortened.size > aim:
            shortened = drop_elements(shortened, aim - fixed)
        texts = dict(zip(places, shortened.texts, strict=True))
        cut = [m.model_copy(update={"content": texts[at]}) if at in texts else m for at, m in enumerate(messages)]
        cut_weight = weight_of_all(cut)
        if fixed + shortened.size > aim:
            break  # nothing more can be left out
        # A lower aim, because per byte the remaining text may have a larger weight (`weight_of`) than the whole text.
        aim = int(aim * most / cut_weight) - 1
    if cut_weight > most and not by_ceiling:
        raise UserError(
            f"The prompt for {model.name} as {role} does not fit: the model accepts {context:,} tokens, of which "
            f"{reply:,} are for the reply. Without any evidence, and with only the last round, the prompt still has "
            f"about {math.ceil(cut_weight / per):,} tokens. {'Lower `max_tokens`. ' * (2 * reply > context)}"
            "Use a larger context, fewer agents or a shorter claim; or, if the model accepts more than "
            f"{context:,} tokens, set `context_tokens`.",
            kind="too_long",
        )
    left: LeftOut = {
        "context": context,
        "evidence": shortened.evidence_left_out,
        "in_part": shortened.in_part,
        "of_evidence": shortened.of_evidence,
        "ids": shortened.ids,
        "rounds": shortened.rounds_left_out,
        "of_rounds": shortened.of_rounds,
        "said": shortened.reasons_cut,
    }
    return FittedMessages(cut, cut_weight, left)


def weight_of_all(messages: Sequence[BaseMessage]) -> int:
    """The bytes of all messages together, as `weight_of` counts them."""
    return sum(weight_of(str(message.content)) for message in messages)
