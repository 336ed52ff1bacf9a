"""Stores the result documents of past debates as files under ``$MOOT_HOME/debates``.

A server with ``MOOT_DATABASE`` stores the documents in a database, not in files (`use_database`). Then functions that
read or write documents raise WorldError if the database cannot be reached.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moot.core.errors import MootError, UserError
from moot.core.files import storage_error, write_atomically
from moot.core.home import private_folder
from moot.retrievers._stores import corpora_folder
from moot.web.kept import ID, Document, document_text, entry_of, id_time, no_debate_error, parse_stored

if TYPE_CHECKING:
    from moot.web.documents import Documents

PAGE_SIZE = 20
"""Number of debates on one page of the list."""


def debates_folder() -> Path:
    """The folder of debates, next to the corpora."""
    return corpora_folder().parent / "debates"


_databases: list[Documents] = []


@contextmanager
def use_database(documents: Documents) -> Iterator[None]:
    """Context manager: inside it, this process reads and writes documents in a database, not in the folder."""
    _databases.append(documents)
    try:
        yield
    finally:
        _databases.remove(documents)


def database() -> Documents | None:
    """The database that stores the documents; None if they are in files."""
    return _databases[-1] if _databases else None


# --- storage, blocking ------------------------------------------------------------------------------------------------


def save(document: Document) -> str:
    """Stores a document from outside and returns its id. If an equal one is stored already, returns that one's id.

    Raises:
        UserError: the document cannot be written.
        WorldError: the disk is full or fails, or the database cannot be reached.
    """
    if _databases:
        return _databases[-1].save(document)
    with writable_folder() as folder:
        text = document_text(document)
        for known in folder.glob(f"{id_time(document)}-*.json"):
            if known.read_text(encoding="utf-8") == text:
                return known.stem
        return _write_file(folder, f"{id_time(document)}-{secrets.token_hex(16)}", text)


def write(document: Document, run: str | None = None) -> str:
    """Stores the document of a debate that ran here, and replaces earlier unfinished documents of the debate.

    Args:
        document: the document.
        run: the id of the server's run that wrote the document. In a database, a run replaces its own finished
            document. In the folder, the id is ignored.

    Returns:
        The path of the document's file; in a database, the document's id.

    Raises:
        UserError: the document cannot be written.
        WorldError: the disk is full or fails, or the database cannot be reached.
    """
    if _databases:
        return _databases[-1].write(document, run)
    with writable_folder() as folder:
        before = files_of(document["id"])
        finished = [path for path in before if _status(path) == "done"]
        # If the debate has a finished document, the new document is of another branch.
        name = secrets.token_hex(16) if finished else document["id"]
        path = folder / f"{_write_file(folder, f'{id_time(document)}-{name}', document_text(document))}.json"
        for earlier in before:
            if earlier not in (path, *finished):
                earlier.unlink(missing_ok=True)
    return str(path)


def record_spending(id: str, calls: list[Any]) -> None:
    """Records the cost of calls that are in no document, such as those of a search for claims.

    Without a database, this does nothing.

    Args:
        id: the id under which the cost is recorded.
        calls: the calls, as in a document.
    """
    if _databases:
        _databases[-1].record_spending(id, calls)


def replace(id: str, document: Document) -> None:
    """Replaces a document with an extended version of it.

    Raises:
        UserError: there is no such document, or the new one cannot be written.
        WorldError: the disk is full or fails, or the database cannot be reached.
    """
    if _databases:
        return _databases[-1].replace(id, document)
    path_of(id)
    with writable_folder() as folder:
        _write_file(folder, id, document_text(document))
    return None


def files_of(debate: str) -> list[Path]:
    """The files of a debate's documents, except imports and further branches; see `ID`."""
    return [path for path in debates_folder().glob(f"*-{debate}.json") if ID.fullmatch(path.stem)]


def document_ids(debate: str) -> list[str]:
    """The ids of a debate's documents, except imports and further branches; see `ID`."""
    return _databases[-1].document_ids(debate) if _databases else [path.stem for path in files_of(debate)]


@contextmanager
def writable_folder() -> Iterator[Path]:
    """Context manager: yields the folder of debates; a missing folder is created.

    It turns an OSError of the folder's creation, or of the code inside the context, into a UserError or a WorldError.

    Raises:
        UserError: the folder cannot be written.
        WorldError: the disk is full or fails.
    """
    folder = debates_folder()
    try:
        private_folder(folder)
        yield folder
    except OSError as error:
        raise storage_error("Debates", folder, error) from error


def _write_file(folder: Path, id: str, text: str) -> str:
    write_atomically(folder / f"{id}.json", text, private=True)
    return id


def store_locally(document: Document) -> str:
    """Stores a debate in this machine's history, unless ``MOOT_HISTORY`` is ``off`` or the document has no id.

    Returns:
        The text of the error if the debate cannot be stored; otherwise an empty text.

    Raises:
        UserError: ``MOOT_HISTORY`` is neither ``on`` nor ``off``.
    """
    if not history_is_on() or not document["id"]:
        return ""
    try:
        write(document)
    except MootError as error:
        return error.detail
    return ""


def history_is_on() -> bool:
    """Whether this machine's history stores debates. It does, unless ``MOOT_HISTORY`` is ``off``.

    Raises:
        UserError: ``MOOT_HISTORY`` is neither ``on`` nor ``off``.
    """
    value = os.environ.get("MOOT_HISTORY", "").strip().lower() or "on"
    if value not in ("on", "off"):
        raise UserError(f"MOOT_HISTORY must be on or off, not {value[:20]!r}.", kind="invalid_environment")
    return value == "on"


def _status(path: Path) -> Any:
    """The status in a document's file; None if the file is damaged."""
    try:
        return json.loads(path.read_bytes()).get("status")
    except (ValueError, AttributeError, RecursionError):
        return None


def path_of(id: str) -> Path:
    """The file of a document.

    Raises:
        UserError: there is no such document.
    """
    path = debates_folder() / f"{id}.json"
    if not ID.fullmatch(id) or not path.is_file():
        raise no_debate_error()
    return path


def content_of(id: str) -> bytes:
    """The JSON of a document.

    Raises:
        UserError: there is no such document.
    """
    return _databases[-1].content_of(id) if _databases else path_of(id).read_bytes()


def has_document(id: str) -> bool:
    """Whether there is a document with this id."""
    try:
        content_of(id) if _databases else path_of(id)
    except UserError:
        return False
    return True


def load(id: str) -> Document:
    """A document.

    Raises:
        UserError: there is no such document, it is damaged or too large, or its schema is not the present one.
    """
    return parse_stored(content_of(id))


def delete(id: str) -> None:
    """Deletes a document for good.

    Raises:
        UserError: there is no such document.
        OSError: the document's file cannot be deleted.
    """
    if _databases:
        return _databases[-1].delete(id)
    path_of(id).unlink()
    return None


def all_document_ids() -> list[str]:
    """The ids of all documents, newest first."""
    if _databases:
        return _databases[-1].all_document_ids()
    return sorted((path.stem for path in debates_folder().glob("*.json") if ID.fullmatch(path.stem)), reverse=True)


def entry(id: str) -> dict[str, Any]:
    """A document's entry in the list: its id, the fields `LIST_FIELDS`, ``evidence``, and the answer as a chip.

    ``evidence`` says if the debate found nothing (`nothing_found`).

    The entry of a damaged document has only its id and ``fault``.

    Raises:
        UserError: there is no such document.
    """
    if _databases:
        return _databases[-1].entry(id)
    path = path_of(id)
    return dict(_entry(id, path, path.stat().st_mtime_ns))


@lru_cache(maxsize=4096)
def _entry(id: str, path: Path, changed: int) -> dict[str, Any]:
    """The entry of a file. The file's modification time (``changed``) is part of the cache's key."""
    try:
        document = json.loads(path.read_bytes())
        return entry_of(id, document)
    except (ValueError, KeyError, TypeError, RecursionError):
        return {"id": id, "fault": "Its file is damaged."}
