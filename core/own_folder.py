"""Temporary folders of a process, which also removes the folders of earlier processes that were killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no fcntl: there, the folders of killed processes are not removed
    fcntl = None  # type: ignore[assignment]

LOCK = "process"
"""The file in a folder that its process locks. The operating system releases the lock however the process ends."""


@contextlib.contextmanager
def own_folder(prefix: str) -> Iterator[Path]:
    """Context manager with a new temporary folder that only this user can read; it is removed at the end. Blocking.

    Args:
        prefix: the beginning of its name. Folders with the same prefix that this user's dead processes left are removed
            first.
    """
    remove_abandoned(prefix)
    with tempfile.TemporaryDirectory(prefix=prefix) as name:
        folder = Path(name)
        with (folder / f"{LOCK}.new").open("w") as lock:
            if fcntl:
                fcntl.flock(lock, fcntl.LOCK_EX)
            # It is renamed only after it is locked, so that no other process regards this process as dead.
            (folder / f"{LOCK}.new").rename(folder / LOCK)
            yield folder


def remove_abandoned(prefix: str) -> None:
    """Removes folders of this user's dead processes. Links are not followed; folders without a lock stay."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*") if fcntl else ():
        with contextlib.suppress(OSError):  # another process removes it, too, or moot has not created it
            if is_own(folder.lstat()) and is_abandoned(folder):
                shutil.rmtree(folder)


def is_own(found: os.stat_result) -> bool:
    """Whether a path is a folder that belongs to this user alone."""
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def is_abandoned(folder: Path) -> bool:
    """Whether the process of a folder is dead.

    Raises:
        OSError: the folder has no lock.
    """
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True
