"""Debates under attack: what an attacker puts into what sources find, and whom it makes lie (``moot eval attack``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from moot.retrievers.evidence import Evidence


@dataclass(frozen=True)
class Tampering:
    """What an attacker does to a debate.

    Args:
        found: what a source finds, from what it would find; best first.
        liar: the agent who is told to lie; empty for nobody.
        told: what the instructions of that agent end with.
    """

    found: Callable[[list[Evidence]], list[Evidence]] = list
    liar: str = ""
    told: str = ""


NONE = Tampering()
_tampering: ContextVar[Tampering] = ContextVar("tampering", default=NONE)


def current_tampering() -> Tampering:
    """What is done to the debate that is held in this context; by default nothing."""
    return _tampering.get()


@contextmanager
def tampered(by: Tampering) -> Iterator[None]:
    """Debates that are held meanwhile in this context are attacked."""
    token = _tampering.set(by)
    try:
        yield
    finally:
        _tampering.reset(token)
