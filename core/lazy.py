"""Imports that are made late, in threads."""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from typing import Any

# At start: chromadb first asks for numpy.typing, for which Python does not wait until a thread that is importing numpy,
# such as one in which orjson serialises, has done so. They meet half-made modules, and both fail for good.
import numpy  # noqa: F401

_importing = threading.RLock()


def imported(name: str) -> Any:
    """A module, imported when first asked for.

    One thread imports at a time: two that import packages which need each other's half-made modules would be handed
    those (Python prefers that to a deadlock) and fail now and then.
    """
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        return module  # nobody waits for others' imports
    with _importing:
        return import_module(name)
