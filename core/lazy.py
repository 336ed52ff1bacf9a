"""Imports that are made late, in threads."""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from typing import Any

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
