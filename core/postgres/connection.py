"""Moot's tables in Postgres, and a connection that survives restarts of the server. All functions here block."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from moot.core.errors import UserError, WorldError
from moot.core.lazy import import_extra
from moot.core.redaction import redact
from moot.core.tables import definitions
from sqlalchemy.dialects import postgresql

T = TypeVar("T")
Job = Callable[[Any], T]

VERSION = 9
"""The version of moot's tables. Each change of the tables increases it, and tables of another version are refused."""
PATIENCE = 120.0
"""Seconds for which a job is retried by default, for example if the server is unreachable or its disk is full."""
PAUSE = 0.25
"""Seconds between the first two attempts; each further pause is twice as long, up to `LONGEST_PAUSE`."""
LONGEST_PAUSE = 2.0
PERMANENT = (
    "does not exist",
    "password",
    "authentication",
    "pg_hba.conf",
    "failed to resolve host",
    "invalid port",
    "for connection option",
)
"""If the text of a connection error contains one of these phrases, a retry does not help. Texts are searched, because
errors have no code before the server has authenticated the user.
"""
NAMED_BY = "--queue, --database, MOOT_QUEUE or MOOT_DATABASE"
"""The options and variables with the address of a database, for error messages."""
TABLES = """
CREATE SCHEMA moot;
CREATE TABLE moot.about (version integer NOT NULL, silence interval NOT NULL DEFAULT '30 seconds');
CREATE TABLE moot.workers (
    id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, host text NOT NULL, pid integer NOT NULL,
    seen timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE moot.servers (
    id text PRIMARY KEY, host text NOT NULL, pid integer NOT NULL, seen timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE moot.asked (
    id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, person text NOT NULL, at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX asked_by ON moot.asked (person, at);
CREATE TABLE moot.reserved (
    key text PRIMARY KEY, person text NOT NULL, process text NOT NULL, tokens float8 NOT NULL, usd float8 NOT NULL
);
CREATE INDEX reserved_by ON moot.reserved (person);
"""


def queue_module(name: str) -> Any:
    """Imports a module of the extra ``queue``."""
    return import_extra(name, "queue", "A queue")


class Postgres:
    """A connection to a database, opened on first use; several threads may use it, but only one job runs at a time."""

    def __init__(self, url: str, patience: float = PATIENCE) -> None:
        self.url = url
        self.patience = patience
        self.psycopg = queue_module("psycopg")
        if not self._is_address():
            raise UserError(
                f"{NAMED_BY} takes the address of a Postgres, such as postgresql://user:password@host:5432/database. "
                "In a password, characters other than letters and digits are written as %XX, such as %40 for @.",
                kind="invalid_setting",
            )
        self.until = math.inf
        """The moment (`time.monotonic`) after which no job is retried."""
        self._connection: Any = None
        self._lock = threading.Lock()

    def _is_address(self) -> bool:
        """Whether the URL is the address of a Postgres; parser errors are not shown: they may contain the password."""
        try:
            host = self.psycopg.conninfo.conninfo_to_dict(self.url).get("host") or ""
            return urlsplit(self.url).scheme in ("postgresql", "postgres") and "@" not in host
        except (ValueError, self.psycopg.ProgrammingError):
            return False

    def name(self) -> str:
        """The names of the database (by default the user's) and its server for display, without the password."""
        parts = self.psycopg.conninfo.conninfo_to_dict(self.url)
        server = ":".join(str(parts[key]) for key in ("host", "port") if parts.get(key))
        return f"{parts.get('dbname') or parts.get('user') or 'of this user'} at {server or 'this machine'}"

    def connect(self) -> Any:
        """A new connection."""
        return self.psycopg.connect(self.url, connect_timeout=10, application_name="moot")

    def close(self) -> None:
        """Closes the connection; the next job opens a new one."""
        with self._lock:
            self._drop()

    def do(self, job: Job[T], patience: float | None = None) -> T:
        """Runs a job in its own transaction, and again after temporary errors for ``patience`` seconds (0: never)."""
        return self.retried(lambda: self._run_once(job), patience)

    def retried(self, attempt: Callable[[], T], patience: float | None = None) -> T:
        """Makes an attempt, and again after temporary errors for ``patience`` seconds (0: never)."""
        until, pause = time.monotonic() + (self.patience if patience is None else patience), PAUSE
        while True:
            try:
                # The server's answer to the commit may be lost: the transaction was committed, but the job runs again.
                return attempt()
            except (self.psycopg.OperationalError, self.psycopg.InterfaceError) as error:
                if not self._is_temporary(error) or time.monotonic() + pause > min(until, self.until):
                    raise self._connection_error(error) from error
            except (self.psycopg.errors.InsufficientPrivilege, self.psycopg.errors.UndefinedTable) as error:
                raise UserError(
                    f"The database refuses access: {_short_text(error)}. The database user must own the schema `moot` "
                    "and procrastinate's tables; `moot batch FILE --queue` creates them.",
                    kind="invalid_environment",
                ) from error
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _run_once(self, job: Job[T]) -> T:
        """Runs a job once, in its own transaction; if the connection breaks, it is dropped."""
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self.connect()
                with self._connection.transaction(), self._connection.cursor() as cursor:
                    return job(cursor)
            except (self.psycopg.OperationalError, self.psycopg.InterfaceError):
                self._drop()
                raise

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _is_temporary(self, error: Any) -> bool:
        """Whether a retry may help; not if the address is wrong, or the server refuses the user or the database."""
        return not any(text in str(error) for text in PERMANENT)

    def _connection_error(self, error: Exception) -> WorldError | UserError:
        text = f"The database cannot be used ({_short_text(error)})."
        if not self._is_temporary(error):
            return UserError(f"{text} Check the address in {NAMED_BY}.", kind="invalid_environment")
        advice = "Check that it is running, and that its disk is not full."
        return WorldError(f"{text} {advice}", kind="queue", retryable=True)

    # --- moot's tables ------------------------------------------------------------------------------------------------

    def prepare(self, patience: float = 0) -> None:
        """Creates moot's and procrastinate's tables if they are missing; refuses those of another version."""
        schema = queue_module("procrastinate.schema").SchemaManager.get_schema()

        def make(cursor: Any) -> int:
            cursor.execute("SELECT pg_advisory_xact_lock(1836019572)")  # so that only one process makes the tables
            cursor.execute("SELECT to_regclass('moot.about'), to_regclass('procrastinate_jobs')")
            moot_table, procrastinate_table = cursor.fetchone()
            if procrastinate_table is None:
                cursor.execute(schema)
            if moot_table is None:
                cursor.execute(TABLES)
                cursor.execute("SET LOCAL search_path TO moot")
                for statement in definitions(postgresql.dialect()):  # type: ignore[no-untyped-call]
                    cursor.execute(statement)
                cursor.execute("INSERT INTO moot.about VALUES (%s)", (VERSION,))
            cursor.execute("SELECT version FROM moot.about")
            return int(cursor.fetchone()[0])

        _check_version(self.do(make, patience))

    def check(self) -> None:
        """Refuses a database whose tables are missing or from another version; changes nothing."""

        def read_version(cursor: Any) -> int | None:
            cursor.execute("SELECT to_regclass('moot.about')")
            if cursor.fetchone()[0] is None:
                return None
            return int(cursor.execute("SELECT version FROM moot.about").fetchone()[0])

        found = self.do(read_version)
        if found is None:
            raise UserError(
                f"The database {self.name()} has no tables of moot: `moot service`, `moot worker` and `moot batch FILE "
                "--queue` create them.",
                kind="invalid_environment",
            )
        _check_version(found)


def _check_version(found: int) -> None:
    if found != VERSION:
        raise UserError(
            f"The tables are from {'a later' if found > VERSION else 'an earlier'} version of moot (their version is "
            f"{found}, this moot uses {VERSION}). Name another database, use that version of moot on all machines or, "
            "to lose all that moot stored in this database, remove its tables: DROP SCHEMA moot CASCADE.",
            kind="invalid_environment",
        )


def _short_text(error: Exception) -> str:
    """An error's text without secrets and line breaks, at most 300 characters; for an empty text, the class's name."""
    return redact(" ".join(str(error).split()))[:300] or type(error).__name__
