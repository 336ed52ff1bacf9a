"""Temporary folders of a process. Folders that killed processes left behind are removed."""

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
"""The name of a file in each folder. The process locks this file. When the process ends, even by a kill, the operating
system releases the lock.
"""


@contextlib.contextmanager
def own_folder(prefix: str) -> Iterator[Path]:
    """Context manager with a new temporary folder that only this user can read; it is removed at the end; blocking."""
    remove_abandoned(prefix)
    with tempfile.TemporaryDirectory(prefix=prefix) as name:
        folder = Path(name)
        with (folder / f"{LOCK}.new").open("w") as lock:
            if fcntl:
                fcntl.flock(lock, fcntl.LOCK_EX)
            # The file gets its name only after it is locked, because without the lock this process would count as dead.
            (folder / f"{LOCK}.new").rename(folder / LOCK)
            yield folder


def remove_abandoned(prefix: str) -> None:
    """Removes this user's temporary folders with this prefix whose processes are dead; without effect on Windows."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*") if fcntl else ():
        with contextlib.suppress(OSError):  # the folder was removed by another process, or has no lock file
            if is_own(folder.lstat()) and is_abandoned(folder):
                shutil.rmtree(folder)


def is_own(found: os.stat_result) -> bool:
    """Whether a file's status (``os.lstat``) shows a folder that this user owns and that no other user may access."""
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def is_abandoned(folder: Path) -> bool:
    """Whether the process of a folder is dead; an OSError if the folder has no lock file that can be opened."""
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True
