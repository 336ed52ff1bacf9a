"""A rehearsal of debates: stand-ins for all models and sources, so that nothing is called and nothing is paid for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from langchain_core.language_models import BaseChatModel
from moot.retrievers import Retriever


class Rehearsal(Protocol):
    """What stands in for the models and the sources."""

    def model(self, name: str) -> BaseChatModel:
        """The stand-in for a model."""
        ...

    async def source(self, name: str, settings: Any, open_source: Callable[[], Awaitable[Retriever]]) -> Retriever:
        """The stand-in for a source, or the source itself if searching it costs nothing."""
        ...


_rehearsal: ContextVar[Rehearsal | None] = ContextVar("rehearsal", default=None)


def current_rehearsal() -> Rehearsal | None:
    """The rehearsal that the present debate belongs to; None if it is real."""
    return _rehearsal.get()


@contextmanager
def rehearse(rehearsal: Rehearsal) -> Iterator[None]:
    """Within this context, debates open no model and no source but those of a rehearsal."""
    token = _rehearsal.set(rehearsal)
    try:
        yield
    finally:
        _rehearsal.reset(token)
