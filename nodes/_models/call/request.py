"""What the layers of a call pass on: a request, which collects the records of its calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from moot.core.errors import MootError
from moot.nodes._models.seeds import CallSeeds
from moot.nodes._models.spend import Spend
from moot.nodes._records.entries import Call

if TYPE_CHECKING:
    from moot.nodes._models.speaker import Speaker

Send = Callable[[BaseChatModel, Sequence[BaseMessage]], Awaitable[BaseMessage]]
"""Sends messages to a chat model."""
Attempt = Callable[[], Awaitable[AIMessage]]
"""Sends one request of a call. A call has several if requests fail and are repeated."""


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
    send: Send
    fault: Callable[[AIMessage], tuple[str, str]]  # the outcome and the fault in words; ``("ok", "")`` if it is usable
    prompt: str = ""  # empty for a conversation
    # What the model also gets: the schema of the reply, or tools
    parts: Mapping[str, Any] = field(default_factory=dict)
    ranks: Mapping[str, int] = field(default_factory=dict)  # of evidence, by id: which pieces are left out last
    # Copies of a request share its calls and its warnings (kind and detail).
    calls: list[Call] = field(default_factory=list)
    warnings: list[tuple[str, str]] = field(default_factory=list)
    seeds: CallSeeds | None = None
    entry: Entry | None = None  # in the store of replies; None: no store
    watches: tuple[Callable[[Attempt], Attempt], ...] = ()  # wrap each attempt
    # Called with an attempt's error before the next attempt; an error that it raises ends the call.
    before_repeat: Callable[[MootError], Awaitable[None]] | None = None


Ask = Callable[[Request], Awaitable[AIMessage]]
"""Requests a reply. All layers have this form."""
Layer = Callable[[Ask, "Speaker"], Ask]
"""Wraps the layers below, for a speaker."""
