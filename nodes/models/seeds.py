"""Sampling seeds: each call of a debate has its own, which follows from the debate's seed and from what is asked."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from moot.core.ledger.records import canonical
from moot.nodes.models.fake import FakeChatModel
from moot.nodes.models.kept import key_messages


def derived_seed(seed: int, *parts: Any) -> int:
    """A seed that follows from another one: the first 31 bits of the SHA-256 of both, as a JSON list. Endpoints
    take integers from 0 to 2**31 - 1.

        derived_seed(1, "agent-1", 1, 1) == 111733665
        derived_seed(2, "agent-1", 1, 1) == 1778158472

    Seeds of different parts differ but for chance: among n of them two are equal with a probability of n**2 / 2**32.

    Args:
        seed: of the run.
        parts: what tells the one that it is for from all others, as plain JSON values.

    Raises:
        ValueError, TypeError: a part is no JSON value.
    """
    return int.from_bytes(hashlib.sha256(canonical([seed, *parts])).digest()[:4]) >> 1


@dataclass(frozen=True)
class CallSeeds:
    """The seeds of what is sent for one question: a second try, and a prompt that was shortened, have their own.

    Args:
        seed: of the run.
        asks: who asks, and when: role, round, sample, and what else tells it from other questions of the debate.
        messages: that are sent as a rule.
        earlier: how many earlier places of the debate have asked exactly this.
    """

    seed: int
    asks: tuple[Any, ...]
    messages: Sequence[BaseMessage]
    earlier: int = 0

    @cached_property
    def first(self) -> int:
        """The seed of the messages that are sent as a rule."""
        return self._of(self.messages)

    def of(self, messages: Sequence[BaseMessage]) -> int:
        """The seed with which these messages are sent."""
        return self.first if messages is self.messages else self._of(messages)

    def _of(self, messages: Sequence[BaseMessage]) -> int:
        return derived_seed(self.seed, *self.asks, key_messages(messages), self.earlier)


def with_seed(chat: BaseChatModel, seed: int) -> BaseChatModel:
    """A copy of one of moot's chat models that is sent a seed; one whose client takes none is as it was."""
    name = "call_seed" if isinstance(chat, FakeChatModel) else "seed"
    return chat.model_copy(update={name: seed}) if name in type(chat).model_fields else chat
