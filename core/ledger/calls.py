"""The ledger of calls: it stores debates and the results of their calls, so that no stored result is paid for again.

By default it is the file ``$MOOT_HOME/ledger.sqlite``, which several processes may use at once. A separate thread reads
and writes the file, so that the event loop never waits for the disk. This thread runs up to `MOST_AT_ONCE` jobs in one
transaction. A stored result survives the death of the process once `CallLedger.store_call` has returned. A power
failure may lose the writes of the last seconds (SQLite's ``synchronous=NORMAL``), but the file stays consistent.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import queue
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, TypeVar

from moot.core.errors import MootError, UserError, copy_error
from moot.core.home import moot_home
from moot.core.ledger.faults import ledger_errors
from moot.core.ledger.file import MOST_ROWS, LedgerFile
from moot.core.ledger.records import (
    Debate,
    DebateStart,
    Entry,
    Key,
    PruningResult,
    Request,
    Status,
    as_json,
    fingerprint_of,
    key_of,
)
from moot.core.ledger.stored import StoredCall, is_stored_as_json, stored_call
from moot.core.ledger.values import pack, pack_vectors
from moot.core.redaction import Keys, environment_keys, hide_secrets, redact

__all__ = ["Debate", "DebateStart", "Key", "PruningResult", "key_of"]

log = logging.getLogger(__name__)

T = TypeVar("T")
Job = Callable[[LedgerFile], Any]

MOST_AT_ONCE = 1000
"""Maximum number of jobs in one transaction. A job is a function that is called with the open file."""
LEAST_INTERVAL = 0.02
"""Minimum number of seconds between the starts of two transactions, so that jobs of many debates share one."""
CHECK_INTERVAL = 0.1
"""Minimum seconds between checks whether the file was removed. Jobs other than `_StoreJob` cause a check at once."""


@dataclass(frozen=True, slots=True)
class NearestEntry:
    """The entry most similar to a key; ``differs`` has the names of the parts that differ between entry and key."""

    about: Mapping[str, Any]
    debate: str
    differs: tuple[str, ...]


class Embeddings(Protocol):
    """The cache of a debate's embeddings; the context variable `embeddings` holds it."""

    async def embed(
        self, parts: Mapping[str, Any], texts: Sequence[str], make: Callable[[list[str]], Awaitable[list[list[float]]]]
    ) -> list[list[float]]:
        """The vectors of texts, in order; ``parts`` are what all keys share, and only uncached texts are embedded."""
        ...


embeddings: ContextVar[Embeddings | None] = ContextVar("embeddings", default=None)
"""The cache of embeddings of the running node's debate; None if the debate has no cache."""


def ledger_path() -> Path:
    return moot_home() / "ledger.sqlite"


def open_ledger() -> CallLedger:
    """This process's ledger; its first operation opens the store of `use_ledger`, or by default `ledger_path`."""
    key = (os.getpid(), ledger_path())
    with _ledgers_lock:
        ledger = _ledgers.get(key)
        if ledger is None or ledger.is_closed:
            ledger = _ledgers[key] = CallLedger(key[1])
        return ledger


_ledgers: dict[tuple[int, Path], CallLedger] = {}
_ledgers_lock = threading.Lock()


def use_ledger(open_store: Callable[[], Any]) -> CallLedger:
    """Makes this process store its debates in another store than the file at `ledger_path`."""
    # The store needs the methods of `LedgerFile` that are called, as `PostgresLedger` has them.
    key = (os.getpid(), ledger_path())
    with _ledgers_lock:
        ledger = _ledgers[key] = CallLedger(key[1], open_store)
        return ledger


class CallLedger:
    """A ledger and its thread (see `open_ledger`); its methods may be called from any event loop."""

    def __init__(self, path: Path, open_store: Callable[[], Any] | None = None) -> None:
        self.path = path
        self.is_closed = False
        self._open: Callable[[], Any] = open_store or (lambda: LedgerFile(path))
        self._jobs: queue.SimpleQueue[_QueuedJob | None] = queue.SimpleQueue()
        self._resumed: dict[str, dict[str, Entry]] = {}
        self._keys: Keys = ()
        self._thread = threading.Thread(target=self._run_jobs, name="moot-ledger", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def close(self) -> None:
        """Lets the thread run the queued jobs and close the file; waits at most 10 seconds for the thread; blocking."""
        self.is_closed = True
        self._jobs.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join(10)
        atexit.unregister(self.close)

    # --- debates ------------------------------------------------------------------------------------------------------

    async def begin(
        self,
        graph: str,
        input: Any,
        settings: Any,
        *,
        adopt: bool = True,
        id: str | None = None,
        idempotency_key: str | None = None,
        person: str | None = None,
        run: str | None = None,
    ) -> DebateStart:
        """Records a debate before its first call, or resumes it: by id or, with ``adopt``, the newest like it."""
        self._keys, fingerprint = environment_keys(), fingerprint_of(graph, input, settings)
        texts = redact(as_json(input), self._keys), as_json(hide_secrets(settings, self._keys))
        # With an id or an idempotency key, ``adopt`` has no effect; equal requests with the same key share one debate.
        request = Request(id, fingerprint, graph, *texts, adopt, idempotency_key, person, run)
        begun: DebateStart | None = None

        def job(file: LedgerFile) -> tuple[DebateStart, dict[str, Entry]]:
            nonlocal begun
            begun = file.begin(request)
            return begun, {entry.key.hash: entry for _, entry in file.entries(begun.id)} if begun.resumed else {}

        try:
            start, entries = await self._do(job)
        except asyncio.CancelledError:  # the queued job still begins the debate, so another job must end the debate
            self._enqueue(lambda file: file.end(begun.id, "interrupted", None, None) if begun and begun.owned else None)
            raise
        if entries:
            self._resumed[start.id] = entries
        return start

    async def end(self, id: str, status: Status, document: str | None = None, note: str | None = None) -> None:
        """Records how a debate ended, or that it waits; None keeps the earlier document (a path) or note."""
        self._resumed.pop(id, None)
        await self._do(lambda file: file.end(id, status, document, note))

    async def debates(
        self,
        status: Status | None = None,
        graph: str | None = None,
        text: str | None = None,
        limit: int | None = None,
    ) -> list[Debate]:
        """Debates, newest first; see `LedgerFile.debates`."""
        return await self._do(lambda file: file.debates(status, graph, text, limit))

    async def outline(self, person: str | None = None) -> list[tuple[str, Status, float]]:
        """The id, status and start time of debates, newest first; see `LedgerFile.outline`, `ServedLedger.outline`."""
        return await self._do(lambda file: file.outline(person))

    async def spending_of(self, ids: Sequence[str]) -> dict[str, tuple[float, float, float]]:
        """The spending of debates; see `LedgerFile.spending_of`."""
        return await self._do(lambda file: file.spending_of(ids))

    async def debate(self, id: str) -> Debate | None:
        found = await self._do(lambda file: file.debates(id=id))
        return next((debate for debate in found if debate.id == id), None)

    async def delete(self, id: str) -> None:
        """Deletes a debate with its entries."""
        await self._do(lambda file: file.delete(id))

    async def find_by_idempotency_key(self, idempotency_key: str) -> Debate | None:
        return await self._do(lambda file: file.find_by_idempotency_key(idempotency_key))

    async def record_run(self, id: str, thread: str, run: str) -> None:
        """Records the thread and the run in which the server runs a debate."""
        await self._do(lambda file: file.record_run(id, thread, run))

    async def find_run(self, id: str) -> tuple[str, str] | None:
        """The thread and the run of a debate on a server; None if it has not run on a server."""
        return await self._do(lambda file: file.find_run(id))

    async def runs(self, thread: str | None = None) -> dict[str, tuple[str, str]]:
        """The thread and the run of each debate that ran on a server; see `LedgerFile.runs`."""
        return await self._do(lambda file: file.runs(thread))

    # --- entries ------------------------------------------------------------------------------------------------------

    def stored_entries(self, debate: str) -> Mapping[str, Entry]:
        """The entries that a resumed debate had when it was resumed, by the hash of their keys; empty after `end`."""
        return self._resumed.get(debate) or {}

    def stored_result(self, debate: str, key: Key) -> StoredCall | None:
        """The result for a key in `stored_entries`; None without an entry, and UserError if it is damaged."""
        entry = self.stored_entries(debate).get(key.hash)
        return None if entry is None else stored_call(entry)

    async def store_call(self, debate: str, key: Key, value: Any, about: Mapping[str, Any] | None = None) -> None:
        """Stores the result of a call; once this returns, the result survives the death of the process."""
        await self.store_calls(debate, [(key, value)], about)

    async def store_calls(
        self, debate: str, results: Sequence[tuple[Key, Any]], about: Mapping[str, Any] | None = None
    ) -> None:
        """Stores the results of several calls as `store_call` does; if storing one fails, the others are stored."""
        waiting: list[asyncio.Future[None]] = []
        for key, value in results:
            raw = as_json(value) if is_stored_as_json(key, value) else pack_vectors(value)
            waiting.append(self._submit(_StoreJob(debate, key, raw, about or {}, self._keys)))
        errors = [error for future in waiting if (error := await _error_of(future))]
        if errors:
            raise errors[0]

    async def find(self, key: Key, prefer: str | None = None, *, failed: bool = True) -> StoredCall | None:
        """The newest result for a key: of the debate ``prefer`` if it has one, else of any; None if there is none."""
        entry = await self._do(lambda file: file.find(key.hash, prefer, failed=failed))
        return None if entry is None else stored_call(entry)

    async def nearest(self, key: Key, debate: str | None = None) -> NearestEntry | None:
        """The entry most similar to a key and how it differs, or None; see `LedgerFile.most_similar`."""
        entry = await self._do(lambda file: file.most_similar(key, debate))
        if entry is None:
            return None
        names = {**entry.key.parts, **key.parts}
        differs = tuple(name for name in names if entry.key.parts.get(name) != key.parts.get(name))
        return NearestEntry(entry.about, entry.debate, differs)

    async def replay_error(self, key: Key, what: str, debate: str | None = None) -> UserError:
        """The error for a replay without an entry for a key; it names the parts in which the nearest entry differs."""
        near = await self.nearest(key, debate)
        of = f" of the debate {debate}" if debate else ""
        if near is None:
            why = f"no {key.kind} call{of} is stored"
        else:
            call = ", ".join(f"{name} {value}" for name, value in near.about.items() if isinstance(value, str))
            why = f"the nearest entry{of} ({call or near.debate}) differs in: {', '.join(near.differs) or 'nothing'}"
        return UserError(
            f"A replay makes no calls, and the ledger has no entry for {what}: {why}. Replay with the input, the "
            "settings and the version of moot that the debate was recorded with, or use `--ledger record`.",
            kind="replay_miss",
        )

    # --- the thread ---------------------------------------------------------------------------------------------------

    async def _do(self, job: Callable[[LedgerFile], T]) -> T:
        """Runs a job in the ledger's thread and returns its result."""
        return await self._submit(job)

    def _submit(self, job: Callable[[LedgerFile], T]) -> asyncio.Future[T]:
        """Queues a job for the ledger's thread; the returned future gets the job's result or error."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._enqueue(job, future)
        return future

    def _enqueue(self, job: Job, future: asyncio.Future[Any] | None = None) -> None:
        if self.is_closed:
            raise RuntimeError("this ledger was closed")
        self._jobs.put(_QueuedJob(job, future))

    def _run_jobs(self) -> None:
        """Runs jobs until the ledger is closed; jobs that are queued together share a transaction."""
        file: Any = None
        closing, begun, checked = False, 0.0, 0.0
        while not closing:
            time.sleep(max(0.0, begun + LEAST_INTERVAL - time.monotonic()))
            group, closing = _next_jobs(self._jobs)
            begun = time.monotonic()
            try:
                with ledger_errors(self.path):
                    if file is not None and (begun > checked + CHECK_INTERVAL or len(_store_jobs(group)) < len(group)):
                        checked = begun
                        if not file.is_current():  # the file was removed or replaced
                            file.close()
                            file = None
                    if file is None and group:
                        file = self._open()
                        if file.needs_pruning():
                            threading.Thread(
                                target=_prune_and_log, args=(self.path,), name="moot-prune", daemon=True
                            ).start()
                results = _results_of(file, group) if file and group else []
            except Exception as error:  # noqa: BLE001
                results = [error] * len(group)
            _deliver(group, results)
        if file is not None:
            file.close()


@dataclass(frozen=True, slots=True)
class _StoreJob:
    """A job that stores the result of a call; one SQL statement can run several such jobs."""

    debate: str
    key: Key
    raw: str | bytes  # packed vectors or a JSON text
    about: Mapping[str, Any]
    keys: Keys  # secrets (not keys of calls) that `entry` hides in the text

    def entry(self) -> Entry:
        value = self.raw if isinstance(self.raw, bytes) else pack(redact(self.raw, self.keys))
        return Entry(self.debate, self.key, self.about, time.time(), len(value), value)

    def __call__(self, file: LedgerFile) -> None:
        file.store_entries([self.entry()])


@dataclass(frozen=True, slots=True)
class _QueuedJob:
    """A job, and the future that gets the job's result or error; the future is None if no caller waits."""

    job: Job
    future: asyncio.Future[Any] | None


def _next_jobs(jobs: queue.SimpleQueue[_QueuedJob | None]) -> tuple[list[_QueuedJob], bool]:
    """Waits for a job; returns at most `MOST_AT_ONCE` queued jobs, and whether the ledger closes after them."""
    group: list[_QueuedJob] = []
    try:
        job = jobs.get()
        while job is not None:
            group.append(job)
            if len(group) == MOST_AT_ONCE:
                return group, False
            job = jobs.get_nowait()
    except queue.Empty:
        return group, False
    return group, True


def _results_of(file: LedgerFile, group: list[_QueuedJob]) -> list[Any]:
    """Runs jobs in one transaction or, if one of them fails, each in its own; returns each job's result or error."""
    results: list[Any] = []
    try:
        if len(stored := _store_jobs(group)) == len(group) <= MOST_ROWS:
            file.store_entries([job.entry() for job in stored])  # one statement, which is its own transaction
            return [None] * len(group)
        with file.transaction():
            for _, sequence in groupby(group, lambda queued: isinstance(queued.job, _StoreJob)):
                neighbours = [*sequence]
                if stored := _store_jobs(neighbours):
                    file.store_entries([job.entry() for job in stored])
                results += [None for _ in stored] or [queued.job(file) for queued in neighbours]
        return results
    except Exception as error:  # noqa: BLE001
        if len(group) == 1:
            return [error]
    return [_results_of(file, [queued])[0] for queued in group]


def _store_jobs(group: list[_QueuedJob]) -> list[_StoreJob]:
    """The jobs of a group that store results of calls."""
    return [queued.job for queued in group if isinstance(queued.job, _StoreJob)]


def _deliver(group: list[_QueuedJob], results: list[Any]) -> None:
    """Passes each job's result or error to its future; each event loop is woken only once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for queued, result in zip(group, results, strict=True):
        if queued.future is not None:
            by_loop.setdefault(queued.future.get_loop(), []).append((queued.future, result))
    for loop, pairs in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed, so no caller waits
            loop.call_soon_threadsafe(_set_results, pairs)


async def _error_of(future: asyncio.Future[None]) -> Exception | None:
    """Waits for a job and returns the job's error; None if the job succeeded."""
    try:
        await future
    except Exception as error:  # noqa: BLE001
        return error
    return None


def _set_results(pairs: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, result in pairs:
        if future.done():  # cancelled
            continue
        if isinstance(result, Exception):
            future.set_exception(copy_error(result))
        else:
            future.set_result(result)


def _prune_and_log(path: Path) -> None:
    try:
        _prune(path)
    except MootError as error:
        log.warning("%s", error.detail)


def _prune(path: Path) -> PruningResult:
    file = LedgerFile(path)
    try:
        return file.prune()
    finally:
        file.close()
