"""Imports of modules on first use, safe in threads."""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from typing import Any

# numpy is imported here because of a race: one thread imports chromadb, which imports numpy.typing first, while another
# thread imports numpy, for example because orjson serialises a value. Python does not make them wait for each other:
# both threads see half-initialised modules, and their imports fail for the rest of the process.
import numpy  # noqa: F401
from moot.core.errors import UserError

_importing = threading.RLock()


def imported(name: str) -> Any:
    """A module, imported on first use.

    Only one thread imports at a time. Otherwise, if two threads import packages that depend on each other, Python
    avoids a deadlock by giving them half-initialised modules, and an import may fail.
    """
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        return module  # without waiting for the imports of other threads
    with _importing:
        return import_module(name)


def import_extra(name: str, extra: str, needed_by: str, otherwise: str = "") -> Any:
    """A module of an optional dependency, imported on first use.

    Args:
        name: the module.
        extra: the extra of moot that installs it.
        needed_by: the part of moot that needs it, as the subject of a sentence, e.g. ``A queue``.
        otherwise: a sentence for the error that names an alternative; empty for none.

    Raises:
        UserError: the module, or a package that it needs, is not installed.
    """
    try:
        return imported(name)
    except ModuleNotFoundError as error:
        raise missing_package(error, extra, needed_by, otherwise) from error


def missing_package(error: ModuleNotFoundError, extra: str, needed_by: str, otherwise: str = "") -> UserError:
    """The error for a package of an extra that is not installed; the other arguments are those of `import_extra`."""
    text = f'{needed_by} needs the package {error.name}: pip install "moot[{extra}]".'
    return UserError(f"{text} {otherwise}".rstrip(), kind="missing_package")
