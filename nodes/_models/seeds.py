"""Sampling seeds. Each call of a debate has its own seed, derived from the debate's seed and the call's content."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from moot.core.ledger.records import canonical
from moot.nodes._models.fake import FakeChatModel
from moot.nodes._models.ledger_messages import key_messages


def derived_seed(seed: int, *parts: Any) -> int:
    """A seed derived from another seed and ``parts``: the first 31 bits of the SHA-256 of their JSON list.

    The derived seed is in the range that endpoints accept, 0 to 2**31 - 1.

        derived_seed(1, "agent-1", 1, 1) == 111733665
        derived_seed(2, "agent-1", 1, 1) == 1778158472

    Seeds of different parts are equal only by chance. Among n such seeds, two are equal with a probability of about
    n**2 / 2**32.

    Args:
        seed: the other seed, such as the run's seed.
        parts: the values that identify the call, as plain JSON values.

    Raises:
        ValueError, TypeError: a part is not a JSON value.
    """
    return int.from_bytes(hashlib.sha256(canonical([seed, *parts])).digest()[:4]) >> 1


@dataclass(frozen=True)
class CallSeeds:
    """The seeds for one request of a speaker. The second try and tries with shortened messages have their own seeds.

    Args:
        seed: the speaker's seed.
        question: the values that identify the request in the debate: role, round, sample and so on.
        messages: the messages of the first try, not shortened.
        earlier: the number of places at which the same request was made before (`Session.count_earlier_places`).
    """

    seed: int
    question: tuple[Any, ...]
    messages: Sequence[BaseMessage]
    earlier: int = 0

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
    """A copy of a chat model, with a seed. If the model's class has no field for a seed, the model itself."""
    name = "call_seed" if isinstance(chat, FakeChatModel) else "seed"
    return chat.model_copy(update={name: seed}) if name in type(chat).model_fields else chat
