"""Simulated attacks on debates (``moot eval attack``): they change the results of sources, or make an agent lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from moot.retrievers._evidence import Evidence


@dataclass(frozen=True)
class Tampering:
    """An attack on a debate."""

    change: Callable[[list[Evidence]], list[Evidence]] = list  # takes a source's results, best first
    sources: tuple[str, ...] = ()  # the sources whose results are changed; empty for all
    liar: str = ""  # the agent that is instructed to lie; empty for none
    instructions: str = ""  # at the end of that agent's instructions


NONE = Tampering()
_tampering: ContextVar[Tampering] = ContextVar("tampering", default=NONE)


def current_tampering() -> Tampering:
    """The attack on debates in this context; `NONE` by default."""
    return _tampering.get()


@contextmanager
def tamper_with(attack: Tampering) -> Iterator[None]:
    """Context manager in which all debates are attacked."""
    token = _tampering.set(attack)
    try:
        yield
    finally:
        _tampering.reset(token)
