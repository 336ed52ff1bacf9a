"""Errors of the ledger's file and folder, translated into MootErrors."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moot.core.errors import MootError, UserError, WorldError

__all__ = ["ledger_errors"]


@contextmanager
def ledger_errors(path: Path) -> Iterator[None]:
    """Context manager that translates OSErrors, JSONDecodeErrors and most errors of SQLite into MootErrors."""
    try:
        yield
    except MootError:
        raise
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from error
    except (sqlite3.Error, json.JSONDecodeError) as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
            raise _unwritable(path, str(error)) from error
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or isinstance(error, json.JSONDecodeError):
            raise UserError(
                f"The ledger {path} is damaged ({error}). Move it elsewhere or delete it, or use `--ledger off`.",
                kind="damaged_ledger",
            ) from error
        if code == sqlite3.SQLITE_CONSTRAINT:
            raise UserError(
                f"The ledger {path} no longer has a row for this debate: it was removed while the debate was running.",
                kind="unknown_debate",
            ) from error
        if isinstance(error, sqlite3.OperationalError):
            raise WorldError(
                f"The ledger {path} cannot be written ({error}). Free space on its disk, set MOOT_HOME to another "
                "folder, or use `--ledger off`.",
                kind="ledger",
                retryable=True,
            ) from error
        raise


def _unwritable(path: Path, why: str) -> UserError:
    return UserError(
        f"The ledger of calls cannot be stored in {path.parent} ({why}). Set MOOT_HOME to a folder that can be "
        "written, or use `--ledger off`: then nothing is stored, and a debate that is interrupted is lost.",
        kind="invalid_environment",
    )
