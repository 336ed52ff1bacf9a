"""The store of runs, of the replies that they paid for, so that no reply is paid for twice, and of debates' documents.

A run is a debate, or a search for claims. Its replies are those of models, searches, encoders of endpoints and persons.
A debate's document and the status of its run are written in one transaction (`Store.end`), so they never disagree.
By default the store is the file ``$MOOT_HOME/store.sqlite`` (`FileStore`), which several processes may use at once; in
a service or a queue it is a Postgres (`moot.core.postgres.store`). All methods block. Asynchronous code calls them with
`Store.soon`, so that the event loop never waits for the disk. A reply survives the death of the process once
`Store.keep` has returned. A power failure may lose the last seconds (SQLite's ``synchronous=NORMAL``), but the file
stays consistent.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import sqlite3
import struct
import subprocess
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial, wraps
from itertools import islice
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import sqlalchemy as sa
from filelock import FileLock
from moot.core.errors import MootError, UserError, WorldError
from moot.core.fingerprints import Kind, Status, as_json, fingerprint_of, moot_version, new_id
from moot.core.home import make_private, moot_home, private_folder
from moot.core.redaction import Keys, environment_keys, hide_secrets, redact
from moot.core.tables import batches, definitions, documents, keys, replies, runs, spent
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, IntegrityError

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound="Store")

VERSION = 6
"""The version of the tables in the file; files of other versions are refused."""
APPLICATION = 0x6D6F6F74
"""The application id in SQLite's header: "moot"."""
BUSY = 30.0
"""Maximum number of seconds to wait for the end of another process's transaction."""
DAYS = 30.0
"""The replies of runs that have not changed for this number of days are removed when the next run begins."""
SPENT = ("tokens", "usd", "calls")
"""The figures in a `Spent`; USD are 0 if the price is unknown, or if no ceiling limits them."""
AT_ONCE = 500
"""Maximum number of values in a condition of a query."""

ENDED = ("done", "failed", "waiting")
"""Statuses of a run that has ended or waits for a person. ``interrupted`` is not one of them."""


Spent = tuple[float, float, float]
"""Tokens, USD and number of calls; see `SPENT`."""
NOTHING: Spent = (0, 0, 0)


@dataclass(frozen=True)
class Run:
    """A run's row in the store."""

    id: str  # 32 hexadecimal digits
    fingerprint: str  # see `fingerprint_of`
    version: str  # of moot, when the run began
    graph: str
    input: Any
    settings: Any  # without secrets
    status: Status  # ``interrupted`` if the run's process ended without recording a status
    started: float  # when the run first began, in seconds since 1970
    updated: float  # when the status was last written, in seconds since 1970
    claim: int  # how often it was begun; see `RunStart`
    pid: int | None  # the process that runs it, or ran it last; None if it is unknown
    document: str | None  # the id of its last result document
    note: str | None  # a remark, such as the file that the run was imported from
    idempotency_key: str | None
    person: str | None  # the user who owns the run, on a server with users
    thread: str | None  # on a server
    server_run: str | None  # the id of the server's run
    replies: int = 0  # their number
    calls: int = 0  # the number of usable replies of models
    replaces: str | None = None  # the id of the document whose check it debates anew

    @property
    def served(self) -> tuple[str, str] | None:
        """The thread and the run in which a server runs it; None if it has not run on a server."""
        return (self.thread, self.server_run or "") if self.thread else None


@dataclass(frozen=True, slots=True)
class Reply:
    """A stored reply, or the failure of a call, which only replays read."""

    run: str
    key: str  # see `key_of`
    kind: Kind
    about: Mapping[str, Any]  # a description of the call, such as its role and its model
    packed: bytes | None  # the packed value; None if the reply was lost
    failed: bool = False  # whether the value is no usable reply
    paid: Spent = NOTHING  # what led to the value
    sent: Spent = NOTHING  # what requests without a usable reply may have cost; resumed runs count it
    created: float = 0  # seconds since 1970

    @property
    def value(self) -> Any:
        """Plain JSON; for an embedding, a vector or, if it failed, the record of its error; None if it was lost."""
        try:
            return None if self.packed is None else unpack(self.packed)
        except ValueError as error:
            raise UserError(
                f"A stored reply of the debate {self.run} is damaged ({error}). Remove the debate's replies with `moot "
                f"replies delete {self.run}`, or use `--replies off`.",
                kind="damaged_store",
            ) from error


@dataclass(frozen=True)
class Document:
    """A debate's result document, as the store has it."""

    moment: str  # the debate's start, as the first part of the document's id
    debate: str  # the debate's id, as the second part
    status: str
    entry: str  # the document's entry in lists, as JSON
    content: bytes  # the document as JSON, as `zlib` compresses it
    person: str | None = None  # the debate's owner, on a server with users
    run: str | None = None  # the id of the server's run that wrote it
    thread: str | None = None  # on a server
    cost: tuple[float, float | None] | None = None  # tokens and USD that count against the person's quotas
    check: str | None = None  # the check of which it is a new version; None for a first version

    def row(self, id: str) -> dict[str, Any]:
        """Its row, without the columns that a new version of a document keeps."""
        return {"id": id, "status": self.status, "entry": self.entry, "content": self.content, "written": time.time()}


@dataclass(frozen=True)
class RunStart:
    """The answer to a request to begin a run."""

    id: str
    resumed: bool  # whether the run began earlier, and this request continues it with the stored replies
    owned: bool = True
    """Whether this request must run the debate: not if an earlier one with its idempotency key began it, and it is
    running, waiting or done.
    """
    claim: int = 1
    """How often the run was begun. Who began it last may end it (`Store.end`)."""


# --- values -----------------------------------------------------------------------------------------------------------


def pack(kind: Kind, value: Any, keys: Keys = ()) -> bytes:
    """A value as bytes: a vector as 32-bit floats, any other JSON value compressed, and without API keys."""
    if kind == "embedding" and isinstance(value, list):
        return b"f" + struct.pack(f"<{len(value)}f", *value)
    return b"z" + zlib.compress(redact(as_json(value), keys).encode(), 1)


def unpack(packed: bytes) -> Any:
    """The value that was packed; ValueError if the bytes are damaged."""
    try:
        if packed[:1] == b"f":
            return np.frombuffer(packed, "<f4", offset=1).tolist()
        return json.loads(zlib.decompress(packed[1:]))
    except zlib.error as error:
        raise ValueError(str(error)) from error


# --- the store --------------------------------------------------------------------------------------------------------


def transaction(method: Callable[Concatenate[S, sa.Connection, P], T]) -> Callable[Concatenate[S, P], T]:
    """Makes a method run in a transaction, whose connection is the method's first argument."""

    @wraps(method)
    def run(self: S, /, *args: P.args, **named: P.kwargs) -> T:
        return self.do(lambda connection: method(self, connection, *args, **named))

    return run


def lookup(method: Callable[Concatenate[S, sa.Connection, P], T]) -> Callable[Concatenate[S, P], T]:
    """The same as `transaction`, for a method that only reads, and for whose answer somebody may wait."""

    @wraps(method)
    def run(self: S, /, *args: P.args, **named: P.kwargs) -> T:
        return self.do(lambda connection: method(self, connection, *args, **named), is_lookup=True)

    return run


class Store:
    """The store, as one process uses it; see `FileStore` and `PostgresStore` for where it is."""

    owner: str | None = None
    """This process as the owner of the runs that it begins."""
    assigns = True
    """Whether the store decides who may run a debate. If not, a queue does."""
    days: float | None = None
    """The number of days after which `begin` removes replies; None: whoever runs the database removes them."""
    listed: sa.ColumnElement[bool] = sa.true()
    """The runs that lists of debates have."""
    store_reply: Any
    """The statement that stores a reply; see `upsert`."""

    def __init__(self) -> None:
        self.is_closed = False
        self._thread = ThreadPoolExecutor(1, "moot-store")
        self._keys: Keys = ()

    def do(self, job: Callable[[sa.Connection], T], *, is_lookup: bool = False) -> T:
        """Runs a job in a transaction."""
        raise NotImplementedError

    def living(self, connection: sa.Connection) -> Callable[[Any], bool]:
        """Returns a function that tells whether somebody runs a debate whose row says ``running``."""
        raise NotImplementedError

    async def soon(self, method: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Runs a method of the store in its thread, one after the other."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(method, *args, **named))

    def close(self) -> None:
        """Waits for the methods that run, and closes the store."""
        self.is_closed = True
        self._thread.shutdown()

    # --- runs ---------------------------------------------------------------------------------------------------------

    async def begun(self, graph: str, input: Any, settings: Any, **how: Any) -> RunStart:
        """The same as `begin`; if it is cancelled, the run counts as interrupted."""
        beginning = self._thread.submit(self.begin, graph, input, settings, **how)
        try:
            return await asyncio.wrap_future(beginning)
        except asyncio.CancelledError:  # the thread may have begun the run already, or does so now
            if not beginning.cancelled():
                self._thread.submit(self._interrupt, beginning.result)
            raise

    def _interrupt(self, result: Callable[[], RunStart]) -> None:
        with suppress(MootError):
            if (start := result()).owned:
                self.end(start.id, "interrupted", claim=start.claim)

    @transaction
    def begin(
        self,
        connection: sa.Connection,
        graph: str,
        input: Any,
        settings: Any,
        *,
        adopt: bool = True,  # whether to resume the newest unfinished run like it, if there is no id and no key
        id: str | None = None,
        idempotency_key: str | None = None,  # equal requests with the same key share one run
        person: str | None = None,  # the user who owns the run; other users' runs are not found
        server_run: str | None = None,  # the same one may begin again, if its worker was lost
        thread: str | None = None,  # of the server's run, so that a debate is listed even if its worker is lost now
        replaces: str | None = None,  # the id of the document of which the check is debated anew
    ) -> RunStart:
        """Records a run before its first call, or resumes one: that with the id or the key, or the newest like it."""
        self._keys, fingerprint, now = environment_keys(), fingerprint_of(graph, input, settings), time.time()
        self.lock(connection, idempotency_key or id or fingerprint)
        row = self._existing(connection, id, idempotency_key, fingerprint if adopt else None, replaces)
        stored: dict[str, Any] = {"settings": as_json(hide_secrets(settings, self._keys)), "server_run": server_run}
        stored |= {"status": "running", "owner": self.owner, "pid": os.getpid(), "updated": now}
        if thread is not None:
            stored["thread"] = thread
        if self.days is not None:
            self._prune(connection, self.days)
        if row is None:
            stored |= {"id": id or new_id(), "fingerprint": fingerprint, "version": moot_version(), "graph": graph}
            stored |= {"input": redact(as_json(input), self._keys), "started": now, "person": person}
            stored["replaces"] = replaces
            connection.execute(sa.insert(runs).values(**stored, claim=1, idempotency_key=idempotency_key))
            return RunStart(stored["id"], resumed=False)
        if row.person != person:
            raise UserError("There is no such debate.", kind="missing_file")
        by_key = idempotency_key is not None and row.id != id
        if by_key and row.fingerprint != fingerprint:
            raise UserError(
                "This idempotency key was used for another debate: its system, input, settings or moot version differ. "
                "Use a new key for each debate.",
                kind="bad_request",
            )
        status, again = (
            self._status(row, self.living(connection)),
            server_run is not None and row.server_run == server_run,
        )
        if by_key and not again and status in ("running", "waiting", "done"):
            return RunStart(row.id, resumed=False, owned=False)
        if status == "running" and not again and self.assigns:
            raise UserError(
                f"The debate {row.id} is running in process {row.pid}. Wait until it has ended.", kind="debate_running"
            )
        if again and status in ENDED:  # the worker was lost before the server knew this status
            return RunStart(row.id, resumed=True, claim=row.claim)
        connection.execute(sa.update(runs).where(runs.c.id == row.id).values(**stored, claim=row.claim + 1))
        return RunStart(row.id, resumed=again or status != "done", claim=row.claim + 1)

    def lock(self, connection: sa.Connection, name: str) -> None:
        """Lets other transactions with this name wait; SQLite's let all others wait."""

    def _existing(
        self,
        connection: sa.Connection,
        id: str | None,
        idempotency_key: str | None,
        fingerprint: str | None,
        replaces: str | None,
    ) -> Any | None:
        """The run with an id or an idempotency key; without both, the newest unfinished one with the fingerprint."""
        for column, value in ((runs.c.id, id), (runs.c.idempotency_key, idempotency_key)):
            if value is not None and (row := connection.execute(sa.select(runs).where(column == value)).first()):
                return row
        if id is not None or idempotency_key is not None or fingerprint is None:
            return None
        is_alive = self.living(connection)
        found = connection.execute(
            sa.select(runs)
            .where(runs.c.fingerprint == fingerprint, runs.c.status.in_(("interrupted", "failed", "running")))
            .where(runs.c.replaces.is_not_distinct_from(replaces))
            .order_by(runs.c.started.desc())
        )
        return next((row for row in found.all() if self._status(row, is_alive) != "running"), None)

    def _status(self, row: Any, is_alive: Callable[[Any], bool]) -> Status:
        status: Status = row.status
        return "interrupted" if status == "running" and not is_alive(row) else status

    @transaction
    def end(
        self,
        connection: sa.Connection,
        id: str,
        status: Status,
        document: Document | None = None,
        note: str | None = None,
        *,
        claim: int | None = None,
    ) -> bool:
        """Records how a run ended, or that it waits, with its document; None keeps the earlier document or note.

        Nothing is changed, and False is returned, if others have begun the run since: if ``claim`` (see `RunStart`) is
        no longer the last one or, without ``claim``, if the run is not this process's. ``done`` is final.
        """
        is_mine = runs.c.owner == self.owner if claim is None else runs.c.claim == claim
        more: dict[str, Any] = {} if note is None else {"note": note}
        ended = sa.update(runs).where(runs.c.id == id, is_mine, (runs.c.status != "done") | (status == "done"))
        changed = connection.execute(ended.values(status=status, owner=None, updated=time.time(), **more))
        if changed.rowcount and document:
            stored = self._put(connection, document)
            connection.execute(sa.update(runs).where(runs.c.id == id).values(document=stored))
        return bool(changed.rowcount)

    @transaction
    def put(self, connection: sa.Connection, document: Document) -> str:
        """Stores a debate's document, in place of earlier unfinished ones and that of the same run; returns its id.

        If the debate has a finished document of another run, the new one is that of a further branch, with a random id.
        """
        return self._put(connection, document)

    def _put(self, connection: sa.Connection, document: Document) -> str:
        self.lock(connection, document.debate)
        if document.check and document.person is not None:
            of_check = sa.select(documents.c.id).where(documents.c.of_check == document.check)
            if connection.execute(of_check.where(documents.c.person == document.person).limit(1)).first() is None:
                raise UserError("There is no such debate.", kind="missing_file")
        query = sa.select(*documents.c["id", "status", "run", "person"])
        of_debate = query.where(documents.c.debate == document.debate, documents.c.id.endswith(document.debate))
        before = connection.execute(of_debate).all()
        if document.person is not None and any(row.person != document.person for row in before):
            raise UserError("There is no such debate.", kind="missing_file")
        done = {row.id: row.run == document.run for row in before if row.status == "done"}
        if document.status != "done" and (own := [id for id, is_own in done.items() if is_own]):
            return str(own[0])  # another worker, which took over this run, has already stored the finished document
        others = [id for id, is_own in done.items() if not is_own]
        id = f"{document.moment}-{new_id() if others else document.debate}"
        replaced = [row.id for row in before if row.id not in others]
        connection.execute(sa.delete(documents).where(documents.c.id.in_([*replaced, id])))
        # Its cost includes that of the documents that it replaces, which began earlier if a worker was lost.
        connection.execute(sa.delete(spent).where(spent.c.id.in_(replaced)))
        whose = {name: getattr(document, name) for name in ("debate", "person", "run", "thread")}
        whose["of_check"] = document.check or document.debate
        connection.execute(sa.insert(documents).values(**document.row(id), **whose))
        if document.cost is not None:
            self.spend(connection, id, document.person, document.cost)
        return id

    def spend(self, connection: sa.Connection, id: str, person: str | None, cost: tuple[float, float | None]) -> None:
        """Records the tokens and USD that a person has spent, if any, in place of an earlier record with this id."""
        if person is not None:
            tokens, usd = cost
            connection.execute(sa.delete(spent).where(spent.c.id == id))
            connection.execute(sa.insert(spent).values(id=id, person=person, tokens=tokens, usd=usd))

    def run(self, id: str) -> Run | None:
        """The run with this id."""
        return next(iter(self.runs(id=id)), None)

    @lookup
    def runs(
        self,
        connection: sa.Connection,
        *,
        id: str | None = None,
        idempotency_key: str | None = None,
        thread: str | None = None,
        status: Status | None = None,
        graph: str | None = None,
        text: str | None = None,
        limit: int | None = None,
    ) -> list[Run]:
        """Runs, newest first, by the beginning of their id and a text in their input (any ASCII case)."""
        query = sa.select(runs).order_by(runs.c.started.desc(), runs.c.id)
        if id is not None:
            query = query.where(runs.c.id >= id, runs.c.id < f"{id}g")  # "g" sorts after all hexadecimal digits
        if status is not None:
            query = query.where(runs.c.status.in_({status, "running"} if status == "interrupted" else {status}))
        for name, value in (("idempotency_key", idempotency_key), ("thread", thread), ("graph", graph)):
            if value is not None:
                query = query.where(runs.c[name] == value)
        if text:
            query = query.where(runs.c.input.icontains(as_json(text)[1:-1], autoescape=True))
        is_alive = self.living(connection)
        statuses = (
            (row, self._status(row, is_alive)) for row in connection.execute(query.limit(None if status else limit))
        )
        found = list(islice((pair for pair in statuses if status in (None, pair[1])), limit))
        counted = self._count(connection, [row.id for row, _ in found])
        return [_run(row, actual, *counted.get(row.id, (0, 0))) for row, actual in found]

    def _count(self, connection: sa.Connection, ids: Sequence[str]) -> dict[str, tuple[int, int]]:
        """The number of replies and of calls of runs."""
        is_call = (replies.c.kind == "chat") & ~replies.c.failed
        counts = sa.select(replies.c.run, sa.func.count(), sa.func.count().filter(is_call)).group_by(replies.c.run)
        found = (connection.execute(counts.where(replies.c.run.in_(some))) for some in in_parts(ids))
        return {run: (count, calls) for rows in found for run, count, calls in rows}

    @lookup
    def statuses(self, connection: sa.Connection, ids: Sequence[str]) -> dict[str, Status]:
        """The statuses of runs, by id."""
        query, is_alive = sa.select(*runs.c["id", "status", "owner"]), self.living(connection)
        found = (connection.execute(query.where(runs.c.id.in_(some))) for some in in_parts(ids))
        return {row.id: self._status(row, is_alive) for rows in found for row in rows}

    @transaction
    def record_thread(self, connection: sa.Connection, id: str, thread: str, server_run: str) -> None:
        """Records the thread and the run in which the server runs a debate."""
        connection.execute(sa.update(runs).where(runs.c.id == id).values(thread=thread, server_run=server_run))

    @lookup
    def spending_of(self, connection: sa.Connection, ids: Sequence[str]) -> dict[str, Spent]:
        """What each run with replies has spent, by id, including requests without a reply."""
        sums = (sa.func.sum(replies.c[f"paid_{name}"] + replies.c[f"sent_{name}"]) for name in SPENT)
        query = sa.select(replies.c.run, *sums).group_by(replies.c.run)
        found = (connection.execute(query.where(replies.c.run.in_(some))) for some in in_parts(ids))
        return {run: (tokens, usd, calls) for rows in found for run, tokens, usd, calls in rows}

    @transaction
    def delete(self, connection: sa.Connection, id: str, *, only_replies: bool = False) -> None:
        """Removes a run's replies and, unless ``only_replies``, the run."""
        self._delete(connection, id, only_replies=only_replies)

    def _delete(self, connection: sa.Connection, id: str, *, only_replies: bool) -> None:
        connection.execute(sa.delete(replies).where(replies.c.run == id))
        if not only_replies:
            self._delete_runs(connection, runs.c.id == id)

    def _delete_runs(self, connection: sa.Connection, which: sa.ColumnElement[bool]) -> None:
        """Removes runs, whose idempotency keys can then be used again."""
        used = sa.select(runs.c.idempotency_key).where(which)
        connection.execute(sa.delete(keys).where(keys.c.key.in_(used)))
        connection.execute(sa.delete(runs).where(which))

    @transaction
    def prune(self, connection: sa.Connection, days: float = DAYS) -> int:
        """Removes the replies of runs that have not changed for some days, and runs without a document; returns how
        many runs lost something.
        """
        return self._prune(connection, days)

    def _prune(self, connection: sa.Connection, days: float) -> int:
        loses = runs.c.document.is_(None) | sa.select(replies.c.run).where(replies.c.run == runs.c.id).exists()
        query = sa.select(runs).where(runs.c.updated <= time.time() - days * 86400, loses)
        if self.days is not None:
            # A batch goes on without its rows, because its folder has all its documents. The page's batches have none.
            until = datetime.now(UTC) - timedelta(days=days)
            connection.execute(sa.delete(batches).where(batches.c.made <= until, batches.c.page.is_(None)))
        is_alive = self.living(connection)
        old = [row for row in connection.execute(query) if self._status(row, is_alive) != "running"]
        for some in in_parts([row.id for row in old]):
            connection.execute(sa.delete(replies).where(replies.c.run.in_(some)))
            self._delete_runs(connection, runs.c.id.in_(some) & runs.c.document.is_(None))
        return len(old)

    # --- replies ------------------------------------------------------------------------------------------------------

    @transaction
    def replies(self, connection: sa.Connection, run: str) -> dict[str, Reply]:
        """The replies and failures of a run, by key, in the order in which they were stored."""
        found = connection.execute(
            sa.select(replies).where(replies.c.run == run).order_by(replies.c.created, replies.c.key)
        )
        return {row.key: _reply(row) for row in found}

    @transaction
    def find(
        self, connection: sa.Connection, keys: Sequence[str], prefer: str, *, failed: bool = True
    ) -> dict[str, Reply]:
        """The newest replies for keys, of the run ``prefer`` or else of any; with ``failed``, also failures."""
        found: dict[str, Reply] = {}
        for some in in_parts(keys):
            query = sa.select(replies).where(replies.c.key.in_(some))
            if not failed:
                query = query.where(~replies.c.failed)
            best = (replies.c.run == prefer).desc(), replies.c.created.desc()
            for row in connection.execute(query.order_by(*best)):
                found.setdefault(row.key, _reply(row))
        return found

    @lookup
    def recent(self, connection: sa.Connection, key: str, seconds: float, run: str) -> Any:
        """The value of the newest reply for a key that is not older, of any run of the same person as ``run``."""
        own = sa.select(runs.c.person).where(runs.c.id == run).scalar_subquery()
        found = sa.select(replies).join(runs, runs.c.id == replies.c.run).order_by(replies.c.created.desc()).limit(1)
        is_same = (replies.c.key == key, ~replies.c.failed, runs.c.person.is_not_distinct_from(own))
        row = connection.execute(found.where(*is_same, replies.c.created >= time.time() - seconds)).first()
        return None if row is None else _reply(row).value

    @transaction
    def keep(self, connection: sa.Connection, kept: Sequence[tuple[Reply, Any]]) -> None:
        """Stores replies, each with its value (None if it is lost); a reply replaces an earlier one for its key."""
        rows = [row_of(reply, None if value is None else pack(reply.kind, value, self._keys)) for reply, value in kept]
        self._write(connection, rows)

    def _write(self, connection: sa.Connection, rows: list[dict[str, Any]]) -> None:
        """Stores the rows of replies."""
        try:
            connection.execute(self.store_reply, rows)
        except IntegrityError as error:
            raise UserError(
                "The store no longer has a row for this debate: it was removed while the debate was running.",
                kind="unknown_debate",
            ) from error

    @transaction
    def add(self, connection: sa.Connection, run: Mapping[str, Any], added: Iterable[dict[str, Any]]) -> int:
        """Adds a run with its replies (rows), completely or not at all; returns the number of replies."""
        connection.execute(sa.insert(runs).values(**run))
        count = 0
        for row in added:
            self._write(connection, [row])
            count += 1
        return count


def row_of(reply: Reply, packed: bytes | None) -> dict[str, Any]:
    """The row of a reply."""
    row = {name: getattr(reply, name) for name in ("run", "key", "kind", "failed")}
    for what, amounts in (("paid", reply.paid), ("sent", reply.sent)):
        row |= {f"{what}_{name}": amount for name, amount in zip(SPENT, amounts, strict=True)}
    return row | {"about": as_json(reply.about), "value": packed, "created": reply.created or time.time()}


def upsert(insert: Any) -> Any:
    """The statement that stores a reply in place of an earlier one, from the INSERT of a dialect."""
    stored = insert(replies)
    changed = {name: stored.excluded[name] for name in replies.c.keys() if name not in ("run", "key")}  # noqa: SIM118
    return stored.on_conflict_do_update(index_elements=["run", "key"], set_=changed)


def _run(row: Any, status: Status, count: int, calls: int) -> Run:
    named = {name: row._mapping[name] for name in Run.__dataclass_fields__ if name in row._mapping}
    named |= {"status": status, "input": json.loads(row.input), "settings": json.loads(row.settings)}
    return Run(**named, replies=count, calls=calls)


def _reply(row: Any) -> Reply:
    paid, sent = (row.paid_tokens, row.paid_usd, row.paid_calls), (row.sent_tokens, row.sent_usd, row.sent_calls)
    return Reply(row.run, row.key, row.kind, json.loads(row.about), row.value, row.failed, paid, sent, row.created)


def in_parts(values: Iterable[str]) -> Iterator[list[str]]:
    """Values in lists of at most `AT_ONCE`."""
    listed = list(values)
    return (listed[at : at + AT_ONCE] for at in range(0, len(listed), AT_ONCE))


# --- a file -----------------------------------------------------------------------------------------------------------


class FileStore(Store):
    """The store in a SQLite file, whose file and folder are created if they are missing.

    A file that this process may only read can be read: whoever writes gets an error that says so.
    """

    days = DAYS
    store_reply = upsert(sqlite.insert)

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.owner = owner_of(os.getpid())
        self._lock = threading.Lock()
        self._opened: tuple[sa.Engine, int] | None = None

    def do(self, job: Callable[[sa.Connection], T], *, is_lookup: bool = False) -> T:
        """Runs a job in a transaction; errors say what to do."""
        with file_errors(self.path), self._lock, self._engine().begin() as connection:
            return job(connection)
        raise AssertionError("unreachable")

    def living(self, connection: sa.Connection) -> Callable[[Any], bool]:
        """Returns a function that tells whether the process that began a run is alive."""
        alive = {self.owner: True, None: False}
        return lambda row: alive[row.owner] if row.owner in alive else alive.setdefault(row.owner, is_alive(row.owner))

    def close(self) -> None:
        """Waits for the methods that run, and closes the file."""
        super().close()
        with self._lock:
            if self._opened:
                self._opened[0].dispose()
                self._opened = None

    def _engine(self) -> sa.Engine:
        """The open file; it is opened again if it was removed or replaced."""
        if self._opened:
            with suppress(FileNotFoundError):
                if os.stat(self.path).st_ino == self._opened[1]:
                    return self._opened[0]
            self._opened[0].dispose()
        only_read = self.path.exists() and not all(os.access(one, os.W_OK) for one in (self.path, self.path.parent))
        if not only_read:
            _create(self.path)
        url = _read_only(self.path) if only_read else URL.create("sqlite", database=str(self.path))
        own = {"timeout": BUSY, "check_same_thread": False, "isolation_level": None}
        engine = sa.create_engine(url, poolclass=sa.StaticPool, connect_args=own)
        sa.event.listen(engine, "connect", partial(_prepare, self.path))
        # Else two transactions that read before they write would fail instead of waiting for each other.
        begin = "BEGIN" if only_read else "BEGIN IMMEDIATE"
        sa.event.listen(engine, "begin", lambda begun: begun.connection.driver_connection.execute(begin))
        self._opened = engine, self.path.stat().st_ino
        return engine


def _read_only(path: Path) -> URL:
    """The address with which SQLite only reads a file."""
    journal = path.with_name(f"{path.name}-wal")
    # Without a journal nobody writes, and nothing is missing; SQLite would otherwise try to create one.
    is_whole = not journal.exists() or not journal.stat().st_size
    how = {"mode": "ro", "uri": "true"} | ({"immutable": "1"} if is_whole else {})
    return URL.create("sqlite", database=path.absolute().as_uri(), query=how)


def _prepare(path: Path, connection: sqlite3.Connection, _: Any) -> None:
    """Configures a connection, creates the tables if they are missing, and checks their version."""

    def read(name: str) -> int:
        return int(connection.execute(f"PRAGMA {name}").fetchone()[0])

    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = NORMAL")
    if not read("user_version"):
        with FileLock(path.with_name(f"{path.name}.lock"), mode=0o600):  # one process at a time
            if not read("user_version") and not read("schema_version"):
                connection.execute("PRAGMA journal_mode = WAL")
                about = f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION};"
                made = ";".join(definitions(sqlite.dialect()))
                connection.executescript(f"BEGIN IMMEDIATE; {made}; {about} COMMIT;")
    if read("application_id") != APPLICATION:
        raise sqlite3.DatabaseError("it is not a store of moot")
    if (found := read("user_version")) != VERSION:
        raise UserError(
            f"The store {path} was written by {'a later' if found > VERSION else 'an earlier'} version of moot (its "
            f"tables have the version {found}, this moot uses {VERSION}). Use that version, set MOOT_HOME to another "
            "folder, or use `--replies off`.",
            kind="damaged_store",
        )


def _create(path: Path) -> None:
    """Creates the file if it is missing, for this user only; SQLite gives its journals the same mode."""
    private_folder(path.parent)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:  # not opened, because closing a file releases the locks of this process's connections
        make_private(path.resolve())


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Context manager that translates OSErrors, JSONDecodeErrors and errors of SQLite into MootErrors."""
    try:
        yield
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from error
    except (DBAPIError, sqlite3.Error, json.JSONDecodeError) as raised:
        cause = raised.orig if isinstance(raised, DBAPIError) else raised
        code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
            raise _unwritable(path, str(cause)) from raised
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise UserError(
                f"The store {path} is damaged ({cause}). Move it elsewhere or delete it, or use `--replies off`.",
                kind="damaged_store",
            ) from raised
        raise WorldError(
            f"The store {path} cannot be used ({cause}). Free space on its disk, set MOOT_HOME to another folder, or "
            "use `--replies off`.",
            kind="store",
            retryable=True,
        ) from raised


def _unwritable(path: Path, why: str) -> UserError:
    return UserError(
        f"Replies cannot be stored in {path.parent} ({why}). Set MOOT_HOME to a folder that can be written, or use "
        "`--replies off`: then nothing is stored, and a debate that is interrupted is lost.",
        kind="invalid_environment",
    )


# --- processes --------------------------------------------------------------------------------------------------------


def owner_of(pid: int) -> str | None:
    """A process as an owner of runs: its id and when it started, because ids are used again; None if it has ended."""
    try:
        state, *facts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if state in "ZX" else f"{pid} {facts[18]}"
    except OSError:
        if Path("/proc/self/stat").exists():
            return None
    done = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return f"{pid} {done.stdout.strip()}" if done.stdout.strip() else None


def is_alive(owner: str) -> bool:
    """Whether the process that is this owner is alive."""
    pid = owner.partition(" ")[0]
    return pid.isdecimal() and owner_of(int(pid)) == owner


def store_path() -> Path:
    return moot_home() / "store.sqlite"


def existing_store() -> Store | None:
    """This process's store; None if it would be a file that does not exist yet."""
    with _lock:
        found = _stores.get((os.getpid(), store_path()))
    return open_store() if (found and not isinstance(found, FileStore)) or store_path().exists() else None


def open_store() -> Store:
    """This process's store: that of `use_store`, by default the file at `store_path`, which its first method opens."""
    key = (os.getpid(), store_path())
    with _lock:
        store = _stores.get(key)
        if store is None or store.is_closed:
            store = _stores[key] = FileStore(key[1])
            atexit.register(store.close)
        return store


def use_store(store: Store) -> Store:
    """Makes this process store its runs in another store than the file at `store_path`."""
    with _lock:
        _stores[os.getpid(), store_path()] = store
        return store


_stores: dict[tuple[int, Path], Store] = {}
_lock = threading.Lock()
