"""The public names of a package, which its ``__init__.pyi`` lists. Old names still work, with a warning."""

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
"""A file with a line for each name that was public in the last release, but is now private or renamed."""


def public_names(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The functions and the list that give a package its public names. A name is imported when it is first used.

    Args:
        package: the package's name.
        file: the package's ``__file__``; the stub in the same folder lists the names.

    Returns:
        ``__getattr__``, ``__dir__`` and ``__all__``.
    """
    get_listed, list_names, listed = lazy_loader.attach_stub(package, file)

    def get(name: str) -> Any:
        return get_listed(name) if name in listed else old_name(package, name)

    return get, list_names, listed


def old_name(package: str, name: str) -> Any:
    """The object that had this name in the last release. A warning says how the name has changed.

    Raises:
        AttributeError: the name is not in the file `OLD`.
    """
    now = _old_names().get(f"{package}.{name}")
    if now is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    module, _, attribute = now.rpartition(".")
    is_private = "._" in now
    advice = "is no longer public, and the next release may change it" if is_private else f"is now {now}"
    # This import may change the filters of warnings. If it came after the warning, the warning could be shown twice.
    found = getattr(import_module(module), attribute)
    warnings.warn(f"{package}.{name} {advice}.", DeprecationWarning, stacklevel=3)
    return found


@cache
def _old_names() -> dict[str, str]:
    """The present name of each object in the file `OLD`, by its old name. Both names include the module."""
    lines = map(json.loads, OLD.read_text(encoding="utf-8").splitlines())
    return {line["name"]: line["now"] for line in lines}
