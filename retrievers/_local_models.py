"""Models that run in this process, beside the text encoders: cross-encoders and summarisers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, TypeVar

from moot.core.errors import WorldError
from moot.core.lazy import imported
from moot.retrievers._listed import check_model

A = TypeVar("A")
T = TypeVar("T")

loading = threading.Lock()
"""Held while a model is loaded."""


class LocalModel:
    """A model in this process, which one thread runs. ``kind`` is what errors call it."""

    kind: ClassVar[str]

    def __init__(self, name: str) -> None:
        self.name = name
        self._worker = ThreadPoolExecutor(1, self.kind)

    async def run(self, work: Callable[[A], T], given: A) -> T:
        """The result of ``work(given)``.

        Raises:
            WorldError: the model failed.
        """
        try:
            return await asyncio.get_running_loop().run_in_executor(self._worker, work, given)
        except (RuntimeError, ValueError, IndexError) as error:
            problem = f"The {self.kind} {self.name} failed ({type(error).__name__}: {error})."
            raise WorldError(problem, kind="bad_response") from error


async def load_in_thread(load: Callable[[str], T], name: str, setting: str) -> T:
    """A model by its name (or its folder). ``setting`` names it in errors.

    Raises:
        UserError: it cannot be loaded, or a server does not list it.
    """
    check_model(name, setting)

    def alone() -> T:
        with loading:
            return load(name)

    return await asyncio.to_thread(alone)


def check_hub(name: str) -> None:
    """Asks once for a model that is not on this machine; to load it at once would try for minutes without a network."""
    hub = imported("huggingface_hub")
    if not isinstance(hub.try_to_load_from_cache(name, "config.json"), str):
        hub.HfApi().model_info(name, timeout=30)
