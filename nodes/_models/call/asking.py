"""Asks for a usable reply, and once again with the reason if the reply is unusable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from moot.core.errors import BudgetExhausted, Outcome, ReplyError
from moot.nodes._models.call.fitting import own_limit
from moot.nodes._models.call.request import Asker, Request, Way
from moot.nodes._models.reply_limits import limit_of, note_thinking
from moot.nodes._models.reply_parsing import text_of
from moot.nodes._models.step_record import tokens_of
from moot.nodes._records.entries import Call
from moot.nodes._texts.thoughts import OBJECT
from moot.prompts import as_data

LONGEST_ECHO = 2000
"""Maximum number of characters of an unusable reply that the second request shows to the model."""


def asking(below: Way, speaker: Asker) -> Way:
    """A layer: the first usable reply of at most two; the second request says why the first reply was unusable.

    If a model's thoughts took the room of the first reply, the second request is the first one with more room.
    """

    async def ask_until_usable(request: Request) -> AIMessage:
        entry = request.entry
        stored = entry.unusable if entry else None
        if stored:
            message, call = stored
            request.add_call(call)
            speaker.set_not_shown(call.get("left_out"))
        else:
            message = await below(request)
        problem = record_fault(speaker, request, message)
        if not problem:
            return message
        error = reply_error(speaker, request, problem)
        used = tokens_of(speaker.record.calls) + (tokens_of(request.calls) if request.record is None else 0)
        if speaker.tokens_left is not None and used >= speaker.tokens_left:
            raise error
        if entry and not stored:
            await entry.keep_unusable(message, request.calls[-1])
        second = replace(request, messages=[*request.messages, *second_request(message, problem)])
        if is_cut_in_thoughts(message, request.calls[-1]) and (speaker.model.is_capped or not text_of(message).strip()):
            if own_limit(speaker.model):
                raise error
            note_thinking(speaker.model.name, request.calls[-1]["completion_tokens"] or 0)
            second = replace(request, reply_tokens=limit_of(speaker.model.name, request.visible_tokens))
        try:
            message = await below(second)
        except BudgetExhausted as exhausted:
            raise error from exhausted
        if problem := record_fault(speaker, request, message):
            raise reply_error(speaker, request, problem)
        return message

    return ask_until_usable


def is_cut_in_thoughts(message: AIMessage, call: Call) -> bool:
    """Whether a reply was cut off before its object began, or so soon after that most of its tokens were thoughts."""
    said = text_of(message).strip()
    has_shown_thoughts = said != text_of(message, thoughts=True).strip()
    is_short = len(said) < (call["completion_tokens"] or 0)  # less than a character for each token
    return call["outcome"] == "cut" and (has_shown_thoughts or is_short or not OBJECT.search(said))


def conversing(below: Way, speaker: Asker) -> Way:
    """A layer: the next reply of a conversation, which the caller may use or not."""

    async def converse(request: Request) -> AIMessage:
        message = await below(request)
        record_fault(speaker, request, message)
        return message

    return converse


def record_fault(speaker: Asker, request: Request, message: AIMessage) -> str:
    """The fault of a message, in words; empty if it is usable; the last call records it, and a warning says it."""
    outcome, problem = request.fault(message)
    call = request.calls[-1]
    call["outcome"] = cast(Outcome, outcome)
    if problem:
        call["detail"] = problem
        request.warn(outcome, f"{speaker.role} ({speaker.model.name}): {problem}")
    return problem


def reply_error(speaker: Asker, request: Request, problem: str) -> ReplyError:
    """The error for an unusable reply, which is the reply of the request's last call."""
    kind = cast(Outcome, request.calls[-1]["outcome"])
    advice = " Raise `max_tokens`." if kind == "cut" else ""
    return ReplyError(f"{speaker.model.name} gave no usable reply as {speaker.role}: {problem}.{advice}", kind)


def second_request(message: AIMessage, problem: str) -> Sequence[BaseMessage]:
    """The messages that follow an unusable reply."""
    # The problem may quote the reply, so it is enclosed as data.
    again = (
        f"That reply could not be used.\n{as_data('problem', problem)}\nReply again, briefly, with one JSON object as "
        "asked for."
    )
    return AIMessage(text_of(message)[:LONGEST_ECHO] or "(nothing)"), HumanMessage(again)
