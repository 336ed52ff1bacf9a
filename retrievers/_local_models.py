"""Loading and running of models in this process. Text encoders share the loading, but run in their own module.

If a model is not on this machine, loading it may fail only after a long time. So a failure is remembered: the error is
raised again at once for `RETRY_SECONDS`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from moot.core.errors import UserError, WorldError
from moot.core.lazy import imported
from moot.retrievers._listed import check_model

A = TypeVar("A")
T = TypeVar("T")

loading = threading.Lock()
"""A lock: only one model is loaded at a time."""
RETRY_SECONDS = 300
"""Seconds after which a model that could not be loaded is tried again."""
_failures: dict[Any, tuple[float, UserError]] = {}


class LocalModel:
    """A model in this process, run by one thread. ``kind`` names the kind of model in errors."""

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
    """Loads a model in a thread, by its name or its folder; ``setting`` is its setting's name, for errors.

    Raises:
        UserError: the model cannot be loaded, or the server does not list it.
    """
    check_model(name, setting)
    return await asyncio.to_thread(load_alone, load, name)


def load_alone(load: Callable[[str], T], name: str) -> T:
    """Loads a model; a process loads one at a time. Blocking.

    A failure is remembered, except for folders of this machine and missing packages.

    Raises:
        UserError: the model cannot be loaded, or a failure less than `RETRY_SECONDS` ago is remembered.
    """
    with loading:
        failed, error = _failures.get((load, name), (0.0, None))
        if error is not None and time.monotonic() < failed + RETRY_SECONDS and not Path(name).exists():
            again = f"moot tries it again {RETRY_SECONDS // 60} minutes after this failure, or after a restart."
            raise UserError(f"{error.detail} {again}", kind=error.kind)
        try:
            return load(name)
        except UserError as error:
            if error.kind != "missing_package":  # such an error is not remembered: the package may be installed later
                _failures[load, name] = time.monotonic(), error
            raise


def check_hub(name: str) -> None:
    """If a model is not on this machine, asks the Hugging Face hub once whether it exists, and raises the hub's error.

    Without this check, loading the model would retry for minutes if there is no network. The check comes before the
    import of the libraries that load models, because this import takes seconds. If huggingface_hub is not installed,
    the check does nothing; the import then fails, because these libraries need it.
    """
    if Path(name).exists() or find_spec("huggingface_hub") is None:
        return
    hub = imported("huggingface_hub")
    if not isinstance(hub.try_to_load_from_cache(name, "config.json"), str):
        hub.HfApi().model_info(name, timeout=30)
