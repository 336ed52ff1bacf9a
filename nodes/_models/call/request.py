"""What the layers of a call pass on: a request, which collects the records of its calls.

A *request* is one question of a role. It takes one *call* or, if the first reply is unusable or the prompt is too long,
several. A call takes one *attempt* or, after failures, several. All layers have the form of `Way`. Some layers act
further down, through fields of the request: `reserving` watches each attempt, and `reusing` keeps a reply
between two calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from moot.core.endpoint import DEFAULT_LIMITS, Limits
from moot.core.errors import MootError
from moot.nodes._models.budget import Budget
from moot.nodes._models.chat_models import ChatModel
from moot.nodes._models.reply_limits import REPLY_TOKENS
from moot.nodes._models.seeds import CallSeeds
from moot.nodes._models.session import Session
from moot.nodes._models.spend import Spend
from moot.nodes._models.step_record import StepRecord
from moot.nodes._records.entries import Call, LeftOut

SendMessages = Callable[[BaseChatModel, Sequence[BaseMessage]], Awaitable[BaseMessage]]
"""Sends messages to a chat model."""
Attempt = Callable[[], Awaitable[AIMessage]]
"""Makes one attempt of a call."""


class Entry(Protocol):
    """What the store of replies keeps of a request until the request has a reply."""

    unusable: tuple[AIMessage, Call] | None
    """The unusable first reply of a run that was interrupted before the second."""

    async def keep_unusable(self, message: AIMessage, call: Call) -> None:
        """Stores an unusable first reply, before the second request."""

    async def record_sent(self, most: Spend) -> None:
        """Stores the largest cost of a request, before it is sent."""


@dataclass(frozen=True)
class Request:
    """What a role asks of its model; a layer passes it on, or a copy with changes (`dataclasses.replace`)."""

    messages: Sequence[BaseMessage]
    send: SendMessages
    fault: Callable[[AIMessage], tuple[str, str]]  # the outcome and the fault in words; ``("ok", "")`` if it is usable
    prompt: str = ""  # empty for a conversation
    # What the model also gets: the schema of the reply, or tools
    parts: Mapping[str, Any] = field(default_factory=dict)
    ranks: Mapping[str, int] = field(default_factory=dict)  # of evidence, by id: which pieces are left out last
    record: StepRecord | None = None  # the node's record, which gets calls and warnings at once; None below a store
    # Copies of a request share its calls and its warnings (kind and detail).
    calls: list[Call] = field(default_factory=list)
    warnings: list[tuple[str, str]] = field(default_factory=list)
    seeds: CallSeeds | None = None
    reply_tokens: int | None = None  # the most of the reply; None: the client's own limit, if it has one
    visible_tokens: int = REPLY_TOKENS  # the most of the reply without thoughts, if nothing else limits it
    entry: Entry | None = None  # in the store of replies; None: no store
    watches: tuple[Callable[[Attempt], Attempt], ...] = ()  # wrap each attempt
    # Called with an attempt's error before the next attempt; an error that it raises ends the call.
    before_repeat: Callable[[MootError], Awaitable[None]] | None = None

    def add_call(self, call: Call) -> None:
        """Records a call; it may still be changed."""
        self.calls.append(call)
        if self.record is not None:
            self.record.add_call(call)

    def warn(self, kind: str, detail: str) -> None:
        """Records a problem of a call that does not end the debate."""
        self.warnings.append((kind, detail))
        if self.record is not None:
            self.record.warn(kind, detail)


Way = Callable[[Request], Awaitable[AIMessage]]
"""The way of a request to a reply."""
Layer = Callable[[Way, "Asker"], Way]
"""Puts something before the rest of an asker's way."""


@dataclass
class Asker:
    """Who asks: a role with its model and the bounds of its calls. A `Speaker` is one; layers know no more of it."""

    role: str
    model: ChatModel
    record: StepRecord = field(default_factory=StepRecord)
    limits: Limits = DEFAULT_LIMITS
    tokens_left: int | None = None  # once the node's calls used this many, there is no second try
    context_tokens: int | None = None  # in a prompt and its reply; None to look it up
    not_shown: set[str] = field(default_factory=set)  # ids of evidence that the last prompt left out
    session: Session = field(default_factory=Session)
    # The agent's name (may be empty) and the number of its sample: different samples never share a call.
    sample: tuple[str, int] = ("", 1)
    # By default those of the session
    budget: Budget = None  # type: ignore[assignment]
    seed: int | None = None  # from which each call's seed is derived; None for no seeds
    around: tuple[Layer, ...] = ()  # layers before all others

    def __post_init__(self) -> None:
        if self.budget is None:
            self.budget = self.session.budget

    def set_not_shown(self, left: LeftOut | None) -> None:
        """Keeps which evidence the last prompt left out."""
        self.not_shown.clear()
        self.not_shown.update(left["ids"] if left else ())
