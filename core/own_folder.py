"""Temporary folders of this process; those that killed processes left behind go when the next one begins."""

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
except ImportError:  # not on Windows, where a killed process's folders stay
    fcntl = None  # type: ignore[assignment]

LOCK = "process"
"""The file of a folder that its process holds a lock on. The system drops the lock when the process ends, however."""


@contextlib.contextmanager
def own_folder(prefix: str) -> Iterator[Path]:
    """A new temporary folder, for its user alone, which is removed at the end. Blocking.

    Args:
        prefix: how its name begins. Folders of this name that this user's killed processes left behind are removed.
    """
    remove_left(prefix)
    with tempfile.TemporaryDirectory(prefix=prefix) as name:
        folder = Path(name)
        with (folder / f"{LOCK}.new").open("w") as held:
            if fcntl:
                fcntl.flock(held, fcntl.LOCK_EX)
            # It has its name only now that it is locked, so that no other process takes a folder for a dead one's.
            (folder / f"{LOCK}.new").rename(folder / LOCK)
            yield folder


def remove_left(prefix: str) -> None:
    """Removes the folders of this user's processes that are dead. Links are not followed; what has no lock stays."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*") if fcntl else ():
        with contextlib.suppress(OSError):  # another process removes it too, or it is nothing of ours
            if is_own(folder.lstat()) and is_left(folder):
                shutil.rmtree(folder)


def is_own(found: os.stat_result) -> bool:
    """Whether a file is a folder of this user, and of nobody else."""
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def is_left(folder: Path) -> bool:
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
