"""Sampling seeds. Each call of a debate has its own seed, derived from the debate's seed and the call's content."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from moot.core.fingerprints import canonical
from moot.nodes._models.fake import FakeChatModel
from moot.nodes._models.stored_messages import key_messages


def derived_seed(seed: int, *parts: Any) -> int:
    """A seed (0 to 2**31 - 1, as endpoints accept) from another: 31 bits of the SHA-256 of the JSON list of both."""
    # Among n such seeds, two are equal with a probability of about n**2 / 2**32.
    return int.from_bytes(hashlib.sha256(canonical([seed, *parts])).digest()[:4]) >> 1


@dataclass(frozen=True)
class CallSeeds:
    """The seeds for one request of a speaker; the second try and tries with shortened messages have their own seeds."""

    seed: int
    question: tuple[Any, ...]  # what identifies the request in the debate: role, round, sample and so on
    messages: Sequence[BaseMessage]  # of the first try, not shortened
    earlier: int = 0  # places at which the same request was made before (`Session.count_earlier_places`)

    @cached_property
    def first_seed(self) -> int:
        """The seed of the first try, if its messages are not shortened."""
        return self._derive(self.messages)

    def seed_of(self, messages: Sequence[BaseMessage]) -> int:
        """The seed of a try with these messages."""
        return self.first_seed if messages is self.messages else self._derive(messages)

    def _derive(self, messages: Sequence[BaseMessage]) -> int:
        return derived_seed(self.seed, *self.question, key_messages(messages), self.earlier)


def with_seed(chat: BaseChatModel, seed: int) -> BaseChatModel:
    """A copy of a chat model, with a seed; if the model's class has no field for a seed, the model itself."""
    name = "call_seed" if isinstance(chat, FakeChatModel) else "seed"
    return chat.model_copy(update={name: seed}) if name in type(chat).model_fields else chat
