"""A connection to Postgres that outlives its restarts, and our tables in it. Everything here blocks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from moot.core.errors import UserError, WorldError
from moot.core.lazy import imported
from moot.core.redaction import redact

T = TypeVar("T")
Job = Callable[[Any], T]

VERSION = 2
"""Of our tables; goes up with each change of them, which `UPGRADES` then has, too."""
PATIENCE = 120.0
"""Seconds for which a server that is away, or whose disk is full, is asked again."""
PAUSE = 0.25
"""Seconds between two attempts at first; it doubles up to `LONGEST_PAUSE`."""
LONGEST_PAUSE = 2.0
UNKNOWN = ("does not exist", "password", "authentication", "pg_hba.conf", "failed to resolve host", "invalid port")
"""What is said of a connection that no patience helps; it has no code before the server knows who asks."""
TABLES = """
CREATE SCHEMA moot;
CREATE TABLE moot.about (version integer NOT NULL, silence interval NOT NULL DEFAULT '30 seconds');
CREATE TABLE moot.workers (
    id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, host text NOT NULL, pid integer NOT NULL,
    seen timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE moot.batches (
    id text PRIMARY KEY, file text NOT NULL, mode text NOT NULL, made timestamptz NOT NULL DEFAULT now(),
    tokens float8 NOT NULL, usd float8 NOT NULL, calls float8 NOT NULL, until float8 NOT NULL,
    taken_tokens float8 NOT NULL DEFAULT 0, taken_usd float8 NOT NULL DEFAULT 0, taken_calls float8 NOT NULL DEFAULT 0,
    stopped text NOT NULL DEFAULT ''
);
CREATE TABLE moot.rows (
    key text PRIMARY KEY, batch text NOT NULL REFERENCES moot.batches ON DELETE CASCADE, number bigint NOT NULL,
    job text NOT NULL, status text NOT NULL DEFAULT 'waiting', outcome text, document bytea,
    tokens float8 NOT NULL DEFAULT 0, usd float8 NOT NULL DEFAULT 0, calls float8 NOT NULL DEFAULT 0,
    worker bigint, losses integer NOT NULL DEFAULT 0, queued bigint, touched timestamptz NOT NULL DEFAULT now(),
    collected boolean NOT NULL DEFAULT false
);
CREATE INDEX rows_of_batch ON moot.rows (batch, status);
CREATE INDEX rows_running ON moot.rows (worker) WHERE status = 'running';
CREATE INDEX rows_waiting ON moot.rows (touched) WHERE status = 'waiting';
CREATE INDEX rows_to_collect ON moot.rows (batch) WHERE status IN ('done', 'failed') AND NOT collected;
CREATE TABLE moot.endpoints (address text PRIMARY KEY, closed_until timestamptz NOT NULL DEFAULT 'epoch');
CREATE TABLE moot.shares (
    address text NOT NULL REFERENCES moot.endpoints ON DELETE CASCADE, holder text NOT NULL, most integer NOT NULL,
    wanted integer NOT NULL, granted integer NOT NULL, seen timestamptz NOT NULL, PRIMARY KEY (address, holder)
);
CREATE TABLE moot.debates (
    number bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, id text NOT NULL UNIQUE, fingerprint text NOT NULL,
    version text NOT NULL, graph text NOT NULL, input text NOT NULL, settings text NOT NULL, status text NOT NULL,
    started float8 NOT NULL, updated float8 NOT NULL, document text, note text
);
CREATE TABLE moot.entries (
    seq bigint GENERATED ALWAYS AS IDENTITY, debate bigint NOT NULL REFERENCES moot.debates ON DELETE CASCADE,
    key bytea NOT NULL, kind text NOT NULL, parts text NOT NULL, about text NOT NULL, created float8 NOT NULL,
    size bigint NOT NULL, value bytea NOT NULL, PRIMARY KEY (debate, key)
);
CREATE INDEX entries_key ON moot.entries (key);
"""
SERVED = """
ALTER TABLE moot.debates ADD COLUMN person text, ADD COLUMN owner text, ADD COLUMN pid integer,
    ADD COLUMN idempotency_key text UNIQUE, ADD COLUMN thread text, ADD COLUMN run text;
CREATE INDEX debates_of_person ON moot.debates (person, started DESC);
CREATE INDEX debates_of_thread ON moot.debates (thread) WHERE thread IS NOT NULL;
CREATE TABLE moot.servers (
    id text PRIMARY KEY, host text NOT NULL, pid integer NOT NULL, seen timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE moot.documents (
    id text PRIMARY KEY, debate text NOT NULL, person text, run text, status text NOT NULL, entry text NOT NULL,
    tokens float8 NOT NULL, usd float8, document bytea NOT NULL, written timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX documents_of_debate ON moot.documents (debate);
CREATE INDEX documents_of_person ON moot.documents (person, id DESC);
CREATE TABLE moot.asked (
    id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, person text NOT NULL, at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX asked_by ON moot.asked (person, at);
"""
UPGRADES = {1: SERVED}
"""By version, what makes the tables those of the next."""


def needed(name: str) -> Any:
    """A module of the extra ``queue``.

    Raises:
        UserError: it is not installed.
    """
    try:
        return imported(name)
    except ModuleNotFoundError as error:
        raise UserError(
            f"A queue needs a package that is not installed ({error.name}): pip install 'moot[queue]'",
            kind="missing_package",
        ) from error


class Postgres:
    """A connection that several threads may use, each in its turn. It is opened when it is first used.

    Args:
        url: the server and the database, as ``postgresql://user:password@host:port/database``.

    Raises:
        UserError: the address is none, or the extra ``queue`` is not installed.
    """

    def __init__(self, url: str) -> None:
        if urlsplit(url).scheme not in ("postgresql", "postgres"):
            raise UserError(
                "--queue takes an address that begins with postgresql://, such as "
                "postgresql://user:password@host:5432/database.",
                kind="invalid_setting",
            )
        self.url = url
        self.psycopg = needed("psycopg")
        self._connection: Any = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Closes the connection; it may be used again."""
        with self._lock:
            self._drop()

    def do(self, job: Job[T], patience: float = PATIENCE) -> T:
        """What a job gives, in a transaction of its own. It is begun again if the server goes away under it.

        Args:
            job: is given a cursor. It may be carried out twice, as nobody knows whether the last commit was heard.
            patience: seconds for which it is begun again.

        Raises:
            WorldError: the server cannot be reached, or its disk is full.
            UserError: it knows no such user or database, or the user may not do this.
        """
        until, pause = time.monotonic() + patience, PAUSE
        while True:
            try:
                return self._once(job)
            except (self.psycopg.OperationalError, self.psycopg.InterfaceError) as error:
                if not self._may_pass(error) or time.monotonic() + pause > until:
                    raise self._away(error) from error
            except (self.psycopg.errors.InsufficientPrivilege, self.psycopg.errors.UndefinedTable) as error:
                raise UserError(
                    f"The queue's database refuses: {_short(error)}. Its user needs to own the schema `moot` and "
                    "procrastinate's tables; `moot batch FILE --queue` makes them.",
                    kind="invalid_environment",
                ) from error
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _once(self, job: Job[T]) -> T:
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self.psycopg.connect(self.url, connect_timeout=10, application_name="moot")
                with self._connection.transaction(), self._connection.cursor() as cursor:
                    return job(cursor)
            except (self.psycopg.OperationalError, self.psycopg.InterfaceError):
                self._drop()
                raise

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _may_pass(self, error: Any) -> bool:
        """Whether trying again may help: not if the server answered that it does not know us."""
        return not any(said in str(error) for said in UNKNOWN)

    def _away(self, error: Exception) -> WorldError | UserError:
        text = f"The queue's database fails ({_short(error)})."
        if not self._may_pass(error):
            return UserError(f"{text} Check the address that --queue names.", kind="invalid_environment")
        return WorldError(f"{text} See that it runs and has room on its disk.", kind="queue", retryable=True)

    # --- our tables ---------------------------------------------------------------------------------------------------

    def prepare(self, patience: float = 0) -> None:
        """Makes the tables if they are not there, ours and those of procrastinate; earlier ones are upgraded.

        Raises:
            UserError: they are those of a later version.
        """
        schema = needed("procrastinate.schema").SchemaManager.get_schema()

        def make(cursor: Any) -> int:
            cursor.execute("SELECT pg_advisory_xact_lock(1836019572)")  # others may begin at once, too
            cursor.execute("SELECT to_regclass('moot.about'), to_regclass('procrastinate_jobs')")
            ours, theirs = cursor.fetchone()
            if theirs is None:
                cursor.execute(schema)
            if ours is None:
                cursor.execute(TABLES)
                cursor.execute("INSERT INTO moot.about VALUES (1)")
            cursor.execute("SELECT version FROM moot.about")
            found = int(cursor.fetchone()[0])
            while found in UPGRADES:
                cursor.execute(UPGRADES[found])
                found += 1
                cursor.execute("UPDATE moot.about SET version = %s", (found,))
            return found

        found = self.do(make, patience)
        if found != VERSION:
            raise UserError(
                f"The tables are those of a later version of moot (theirs is {found}, this version knows "
                f"{VERSION}). Use that version on all machines, or another database.",
                kind="invalid_environment",
            )


def _short(error: Exception) -> str:
    return redact(" ".join(str(error).split()))[:300] or type(error).__name__
