"""The folder in which moot stores corpora, debates and the store of replies. Only its owner may read what is in it."""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

log = logging.getLogger(__name__)

PRIVATE = 0o077
"""The umask for private files and folders; also the permissions that they do not have."""
PARTS = ("calibrations", "corpora", "fetched", "keys")
"""The names of moot's folders in its home folder."""
_lock = threading.Lock()
_inside = 0
_outer_umask = 0


def moot_home() -> Path:
    """The folder ``$MOOT_HOME`` or, by default, moot's folder among the user's data; it need not exist."""
    home = os.environ.get("MOOT_HOME")
    if home:
        return Path(home)
    from platformdirs import user_data_path

    return user_data_path("moot")


def private_folder(folder: Path) -> Path:
    """Creates a folder and its missing parents, which only their owner may read; returns the folder; blocking."""
    for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(exist_ok=True)  # raises an error if the path is a file
    return folder


@contextmanager
def private_files() -> Iterator[None]:
    """Context manager in which files that this process creates, in any thread and by libraries, are private."""
    global _inside, _outer_umask
    with _lock:
        if not _inside:
            _outer_umask = os.umask(PRIVATE)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                os.umask(_outer_umask)


def tighten_home() -> None:
    """Makes moot's files in its home folder private, and warns if others may read the folder itself; blocking."""
    home = moot_home()
    if not home.exists():
        return
    for part in (*(home / name for name in PARTS), *home.glob("*.sqlite*")):
        for path in (part, *part.rglob("*")):
            with suppress(FileNotFoundError):  # another process has removed the file
                make_private(path)
    if home.stat().st_mode & PRIVATE:
        log.warning("Other users may read %s: chmod 700 %s", home, home)


def make_private(path: Path) -> None:
    """Takes away the permissions of others for a file or a folder of this user; other kinds of files are kept."""
    found = path.lstat()
    is_own = found.st_uid == os.getuid() if hasattr(os, "getuid") else False
    if is_own and found.st_mode & PRIVATE and (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        path.chmod(stat.S_IMODE(found.st_mode) & ~PRIVATE)
