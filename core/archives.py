"""Archives that other people make: a zip file with a list of its files, each with its length and its hash.

An archive is untrusted input: only files with the names and sizes that its list states are written, and nothing in it
is executed. Everything here blocks.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Generic, TypeVar

from moot.core.errors import UserError
from moot.core.files import why_unread, write_error
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

MOST_FILES = 2_000_000
LONGEST_LIST = 2**28
"""Maximum number of bytes of the list."""
CHUNK = 2**20
PART = r"(?!\.)[A-Za-z0-9._+=-]{1,200}(?<!\.)"
"""A part of the name of a file: not hidden, and not of another folder."""


class ListedFile(BaseModel):
    """A file in an archive."""

    model_config = ConfigDict(extra="forbid", strict=True)
    bytes: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class FileList(BaseModel):
    """The list of the files in an archive; kinds of archives add what they say of themselves."""

    model_config = ConfigDict(extra="forbid", strict=True)
    version: Annotated[str, StringConstraints(max_length=40)]
    files: Annotated[dict[str, ListedFile], Field(max_length=MOST_FILES)]


L = TypeVar("L", bound=FileList)


@dataclass(frozen=True)
class ArchiveKind(Generic[L]):
    """A kind of archive."""

    what: str  # what it is an archive of, such as ``a study``
    list_name: str  # of the list of its files
    model: type[L]  # of the list
    name: re.Pattern[str]  # the names that its files may have
    most_bytes: int  # of all its files, unpacked

    def add(self, archive: zipfile.ZipFile, name: str, source: Path | bytes) -> ListedFile:
        """Adds a file to an archive."""
        if not self.name.fullmatch(name):
            raise UserError(
                f"{name} cannot be archived: names in an archive have letters, digits and . _ + = - only. Rename it.",
                kind="invalid_file",
            )
        if isinstance(source, bytes):
            archive.writestr(name, source)
            return ListedFile(bytes=len(source), sha256=hashlib.sha256(source).hexdigest())
        with source.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        kind = zipfile.ZIP_STORED if name.endswith(".eval") else zipfile.ZIP_DEFLATED  # logs are compressed already
        archive.write(source, name, kind)
        return ListedFile(bytes=source.stat().st_size, sha256=digest)

    def unpack(self, file: Path, folder: Path) -> L:
        """Unpacks an archive into a new folder, and checks every file against the list; returns the list."""
        try:
            folder.mkdir(parents=True)
        except FileExistsError as error:
            raise UserError(
                f"{folder} exists already: name a new folder with --out.", kind="invalid_setting"
            ) from error
        except OSError as error:
            raise write_error(folder, error) from error
        try:
            with zipfile.ZipFile(file) as archive:
                about = self._read_list(archive)
                for name, listed in about.files.items():
                    self._unpack(archive, name, listed, folder / name)
            return about
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, FileNotFoundError | IsADirectoryError | PermissionError):
                raise UserError(why_unread(file, error), kind="missing_file") from error
            # zipfile says with a RuntimeError that a file is encrypted, or compressed in an unknown way.
            if isinstance(error, zipfile.BadZipFile | zlib.error | ValueError | RuntimeError | EOFError):
                reason = " ".join(str(error).split())[:300]
                raise UserError(f"{file} is not an archive of {self.what}: {reason}.", kind="invalid_file") from error
            if isinstance(error, OSError):
                raise write_error(folder, error) from error
            raise

    def _read_list(self, archive: zipfile.ZipFile) -> L:
        entries = archive.infolist()
        names = [entry.filename for entry in entries]
        if self.list_name not in names or len(set(names)) < len(names):
            raise ValueError(f"it has no {self.list_name}, or a name twice")
        with archive.open(self.list_name) as source:
            text = source.read(LONGEST_LIST + 1)
        if len(text) > LONGEST_LIST:
            raise ValueError(f"its {self.list_name} is too long")
        about = self.model.model_validate_json(text)
        if {*names} != {self.list_name, *about.files}:
            raise ValueError(f"its files are not those that its {self.list_name} names")
        if bad := next((name for name in about.files if not self.name.fullmatch(name)), None):
            raise ValueError(f"it has a file {bad[:100]!r}, a name that it may not have")
        if linked := next((entry for entry in entries if entry.external_attr >> 28 not in (0, 0o10)), None):
            raise ValueError(f"{linked.filename[:100]!r} is a link or a device, not a file")
        if sum(listed.bytes for listed in about.files.values()) > self.most_bytes:
            raise ValueError(f"its files have more than {self.most_bytes // 2**30} GiB")
        return about

    def _unpack(self, archive: zipfile.ZipFile, name: str, listed: ListedFile, path: Path) -> None:
        """Writes a file; no more than its stated bytes are ever unpacked."""
        path.parent.mkdir(parents=True, exist_ok=True)
        digest, left = hashlib.sha256(), listed.bytes
        with archive.open(name) as source, path.open("xb") as target:
            while chunk := source.read(min(CHUNK, left + 1)):
                left -= len(chunk)
                if left < 0:
                    raise ValueError(f"{name} is longer than its {self.list_name} says")
                digest.update(chunk)
                target.write(chunk)
        if left or digest.hexdigest() != listed.sha256:
            raise ValueError(f"{name} is not the file that was archived: its SHA-256 or its length differs")


@contextmanager
def new_archive(file: Path) -> Iterator[zipfile.ZipFile]:
    """Context manager: a new zip file, which gets its name only once it is complete."""
    try:
        handle, fresh = tempfile.mkstemp(dir=file.absolute().parent, suffix=".part")
        try:
            with os.fdopen(handle, "w+b") as out, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
                yield archive
            os.replace(fresh, file)
        except BaseException:  # also after Ctrl-C
            os.unlink(fresh)
            raise
    except OSError as error:
        raise write_error(file, error) from error
