"""The public names of a package, which stand in its ``__init__.pyi``; old ones still work, with a warning."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import lazy_loader

OLD = Path(__file__).parent / "old_names.jsonl"
"""A line for each name that is no longer public, or has another name now."""


def public_names(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """A package's ``__getattr__``, ``__dir__`` and ``__all__``; a name is imported when it is first used.

    Args:
        package: its name.
        file: its ``__file__``; the stub beside it lists the names.

    Returns:
        the three functions and lists, in this order.
    """
    public, names, listed = lazy_loader.attach_stub(package, file)

    def get(name: str) -> Any:
        return public(name) if name in listed else old_name(package, name)

    return get, names, listed


def old_name(package: str, name: str) -> Any:
    """The object that had this name in the last release, with a warning that says where it is now.

    Raises:
        AttributeError: there was no such name.
    """
    now = _old_names().get(f"{package}.{name}")
    if now is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    module, _, attribute = now.rpartition(".")
    is_private = "._" in now
    advice = "is no longer public, and the next release may change it" if is_private else f"is now {now}"
    found = getattr(import_module(module), attribute)  # first, because imports may reset what has been warned of
    warnings.warn(f"{package}.{name} {advice}.", DeprecationWarning, stacklevel=3)
    return found


@cache
def _old_names() -> dict[str, str]:
    lines = map(json.loads, OLD.read_text(encoding="utf-8").splitlines())
    return {line["name"]: line["now"] for line in lines}
