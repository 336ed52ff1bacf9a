"""Imports modules on first use. The functions here may be called from any thread."""

from __future__ import annotations

import shlex
import shutil
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

# numpy is imported here because of a race between two threads. One thread imports chromadb, which imports numpy.typing.
# Meanwhile, the other thread imports numpy, for example because orjson serialises a value. To avoid a deadlock, Python
# lets the threads use half-initialised modules. Then the imports may fail for the rest of the process.
import numpy  # noqa: F401
from moot.core.errors import UserError

_importing = threading.RLock()


def imported(name: str) -> Any:
    """A module, imported on first use; only one thread at a time imports here."""
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        return module  # without waiting for the lock
    # Two threads might import packages that depend on each other: Python avoids a deadlock by giving them
    # half-initialised modules, so that an import may fail.
    with _importing:
        return import_module(name)


def import_extra(name: str, extra: str, needed_by: str, otherwise: str = "") -> Any:
    """A module of an extra of moot, imported on first use; ``needed_by`` is the subject of the error's text."""
    try:
        return imported(name)
    except ModuleNotFoundError as error:
        raise missing_package(error, extra, needed_by, otherwise) from error


def missing_package(error: ModuleNotFoundError, extra: str, needed_by: str, otherwise: str = "") -> UserError:
    """The error for a package that is not installed; it names the extra of moot that installs the package."""
    text = f"{needed_by} needs the package {error.name}: {install_step(extra)}."
    return UserError(f"{text} {otherwise}".rstrip(), kind="missing_package")


def install_step(extra: str) -> str:
    """The command that installs an extra of moot: in a clone ``make setup``, unless that would change nothing."""
    clone = Path(__file__).resolve().parents[1]
    is_clone = (clone / "pyproject.toml").is_file()
    was_set_up = Path(sys.prefix) == clone / ".venv" and (clone / ".venv" / ".ready").exists()
    if is_clone and extra != "service" and not was_set_up and shutil.which("make"):
        change = "" if Path.cwd() == clone else f"cd {shlex.quote(str(clone))} && "
        return f"{change}make setup && . .venv/bin/activate"
    found = shutil.which("pip")
    is_ours = found is not None and Path(found).parent == Path(sys.executable).parent
    pip = "pip" if is_ours else f"{shlex.quote(sys.executable)} -m pip"
    return f'{pip} install --editable "{clone}[{extra}]"' if is_clone else f'{pip} install "moot[{extra}]"'
