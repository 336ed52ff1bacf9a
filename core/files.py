"""Files that are written whole or not at all, and the folder in which moot keeps what it keeps."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from pathlib import Path

from moot.core.errors import MootError, UserError, WorldError
from moot.core.home import moot_home

FAULTS_OF_THE_WORLD = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""Why a file cannot be written although it is named rightly and its rights are right."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""How a cell begins that a spreadsheet may take for a formula."""


def harmless(text: str) -> str:
    """A cell's text so that no spreadsheet runs it: an apostrophe goes before what begins like a formula."""
    return f"'{text}" if text.lstrip(" ").startswith(FORMULA) else text


def write_whole(path: Path, content: str | bytes, *, private: bool = False) -> None:
    """Writes a file so that its name leads to the old content or to the new one, whatever happens. Blocking.

    The content goes to a new file beside it, is forced to the disk and takes the old one's place. What is no regular
    file (``/dev/stdout``, a pipe) is written directly; of a link, the file that it leads to is written.

    Args:
        path: the file; its folder exists.
        content: all that it is to hold; text is written as UTF-8.
        private: whether a new file may be read by its owner alone. The rights of an old one stay.

    Raises:
        OSError: it cannot be written; the old file is as it was.
    """
    data = content.encode() if isinstance(content, str) else content
    path, old = Path(os.path.realpath(path)), _mode(path)
    if old is not None and not stat.S_ISREG(old):
        path.write_bytes(data)
        return
    fresh = _beside(path)
    # Rights that others have only once it is whole.
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
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


def check_writable(file: Path) -> None:
    """Sees before the work that its document can be written by `write_whole`. Blocking.

    Raises:
        UserError: it cannot.
        WorldError: the disk is full.
    """
    try:
        if not file.parent.is_dir():
            raise UserError(f"There is no folder {file.parent} to write {file.name} to.", kind="missing_file")
        path, old = Path(os.path.realpath(file)), _mode(file)
        if old is not None:
            file.open("ab").close()
        if old is None or stat.S_ISREG(old):
            _try_folder(path.parent, path)
    except OSError as error:
        raise not_written(file, error) from error


def not_written(file: Path | str, error: OSError) -> MootError:
    """The error for a file that could not be written: of the world if the disk is full or damaged."""
    if error.errno in FAULTS_OF_THE_WORLD:
        detail = f"{file} cannot be written ({error.strerror}). Make room, or name a file on another disk."
        return WorldError(detail, kind="not_written")
    # The file itself may be writable, but not its folder.
    where = f" in {Path(error.filename).parent}" if str(error.filename).endswith(".part") else ""
    return UserError(f"{file} cannot be written ({error.strerror}{where}).", kind="missing_file")


# --- the home ---------------------------------------------------------------------------------------------------------


def check_home(what: str, part: str = "") -> None:
    """Sees before the work that the home can be written; it is made if it is missing. Blocking.

    Args:
        what: what is to be kept there, as a sentence begins with it, e.g. ``"Debates"``.
        part: the folder of the home that it is kept in; none for the home itself.

    Raises:
        UserError: it cannot.
        WorldError: its disk is full.
    """
    folder = moot_home() / part
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _try_folder(folder, folder / "home")
    except OSError as error:
        raise not_kept(what, folder, error) from error


def not_kept(what: str, folder: Path, error: OSError) -> MootError:
    """The error for what cannot be kept in the home, or in a folder of it: of the world if the disk is full."""
    said = f"{what} cannot be kept in {folder} ({error.strerror})."
    if error.errno in FAULTS_OF_THE_WORLD:
        return WorldError(f"{said} Make room, or set MOOT_HOME to a folder on another disk.", kind="not_written")
    return UserError(f"{said} Set MOOT_HOME to a folder that can be written.", kind="invalid_environment")


def _mode(path: Path) -> int | None:
    """The mode of a file, or of that which a link leads to; None if there is none."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.part")


def _try_folder(folder: Path, path: Path) -> None:
    """Makes and removes a file in a folder."""
    tried = _beside(path)
    os.close(os.open(tried, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    tried.unlink()
