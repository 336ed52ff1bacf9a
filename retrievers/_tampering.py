"""Simulated attacks on debates (``moot eval attack``): changed results of sources, and an agent that lies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from moot.retrievers._evidence import Evidence


@dataclass(frozen=True)
class Tampering:
    """An attack on a debate.

    Args:
        change: changes the results of a source, which are given best first.
        liar: the agent that is instructed to lie; empty for none.
        instructions: the text that is added to the end of that agent's instructions.
    """

    change: Callable[[list[Evidence]], list[Evidence]] = list
    liar: str = ""
    instructions: str = ""


NONE = Tampering()
_tampering: ContextVar[Tampering] = ContextVar("tampering", default=NONE)


def current_tampering() -> Tampering:
    """The attack on debates in this context; `NONE` by default."""
    return _tampering.get()


@contextmanager
def tamper_with(attack: Tampering) -> Iterator[None]:
    """Context manager: the debates that run in it are attacked."""
    token = _tampering.set(attack)
    try:
        yield
    finally:
        _tampering.reset(token)
