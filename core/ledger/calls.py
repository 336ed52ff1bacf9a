"""The ledger of calls: debates, and the results of their calls, in one file, so that no call is paid for twice.

The file is ``$MOOT_HOME/ledger.sqlite``; several processes may use it at once. A separate thread writes it, all queued
jobs in one transaction, so that the event loop never waits for the disk. A result is durable once `CallLedger.keep` has
returned, however the process ends. A power failure may lose the last seconds of writes (SQLite's
``synchronous=NORMAL``); the file stays consistent.
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
from moot.core.ledger.values import packed, packed_vectors, unpack
from moot.core.redaction import Keys, anonymised, held_keys, redact

__all__ = ["Debate", "DebateStart", "Key", "PruningResult", "key_of"]

log = logging.getLogger(__name__)

T = TypeVar("T")
Job = Callable[[LedgerFile], Any]

MOST_AT_ONCE = 1000
"""Most jobs in one transaction."""
PAUSE = 0.02
"""Least seconds between two transactions: each takes time, and the jobs of many debates are grouped meanwhile."""
LOOK = 0.1
"""Seconds between checks whether the file has been removed; it is always checked before a debate begins."""


@dataclass(frozen=True, slots=True)
class StoredCall:
    """The stored result of a call.

    Args:
        value: a JSON value; for an embedding, a list of vectors.
        about: the role and the model of the call.
        debate: the id of the debate that made it.
    """

    value: Any
    about: Mapping[str, Any]
    debate: str


@dataclass(frozen=True, slots=True)
class NearestEntry:
    """The entry most similar to a key: its description, and the parts that differ."""

    about: Mapping[str, Any]
    debate: str
    differs: tuple[str, ...]


class Embeddings(Protocol):
    """The cache of a debate's embeddings; found in `embeddings`."""

    async def embedded(
        self, parts: Mapping[str, Any], texts: Sequence[str], make: Callable[[list[str]], Awaitable[list[list[float]]]]
    ) -> list[list[float]]:
        """The vectors of texts, in order: cached ones if they exist, else new ones.

        Args:
            parts: the parts of the key, without the texts.
            texts: the texts to embed.
            make: embeds the texts that have none.
        """
        ...


embeddings: ContextVar[Embeddings | None] = ContextVar("embeddings", default=None)
"""The embedding cache of the debate whose node runs; None if it has none."""


def ledger_path() -> Path:
    """The path of the ledger."""
    return moot_home() / "ledger.sqlite"


def open_ledger() -> CallLedger:
    """The ledger of this process at `ledger_path`. It returns at once; the first operation reports errors."""
    path = (os.getpid(), ledger_path())
    with _opening:
        found = _opened.get(path)
        if found is None or found.is_closed:
            found = _opened[path] = CallLedger(path[1])
        return found


_opened: dict[tuple[int, Path], CallLedger] = {}
_opening = threading.Lock()


def use_ledger(opened: Callable[[], Any]) -> CallLedger:
    """Makes this process store its debates elsewhere than in the file at `ledger_path`.

    Args:
        opened: opens a store with the methods of `LedgerFile`, such as `moot.core.postgres.ledger.PostgresLedger`.
    """
    path = (os.getpid(), ledger_path())
    with _opening:
        found = _opened[path] = CallLedger(path[1], opened)
        return found


class CallLedger:
    """A ledger and its thread; see `open_ledger`. Its methods may be called from any event loop.

    Each method raises UserError if the folder cannot be written or the file is damaged or from a later version, and
    WorldError if the disk is full or fails.
    """

    def __init__(self, path: Path, opened: Callable[[], Any] | None = None) -> None:
        self.path = path
        self.is_closed = False
        self._open: Callable[[], Any] = opened or (lambda: LedgerFile(path))
        self._jobs: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._held: dict[str, dict[str, Entry]] = {}
        self._keys: Keys = ()
        self._thread = threading.Thread(target=self._write, name="moot-ledger", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def close(self) -> None:
        """Writes the queued jobs and closes the file. Blocking."""
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
        """Begins a debate, before its first call.

        Args:
            graph: the system's name.
            input: the graph's input, as a JSON value.
            settings: its settings, as a JSON value; values that look like keys are not stored.
            adopt: whether to resume the newest debate with the same graph, input, settings and version that was
                interrupted or failed.
            id: the debate's id: a known one is resumed (a finished one is run again), otherwise the new debate gets it.
            idempotency_key: a name that makes two equal requests one debate; `DebateStart.owned` tells which one
                runs it.
            person: the owner of the debate, on a server with users.
            run: the id of the server's run that begins it.

        Raises:
            UserError: the debate with this id runs elsewhere, or the idempotency key belongs to another request.
        """
        self._keys = held_keys()
        request = Request(
            id,
            fingerprint_of(graph, input, settings),
            graph,
            redact(as_json(input), self._keys),
            as_json(anonymised(settings, self._keys)),
            adopt,
            idempotency_key,
            person,
            run,
        )
        begun: DebateStart | None = None

        def job(file: LedgerFile) -> tuple[DebateStart, dict[str, Entry]]:
            nonlocal begun
            begun = file.begin(request)
            return begun, {entry.key.hash: entry for _, entry in file.entries(begun.id)} if begun.resumed else {}

        try:
            found, held = await self._do(job)
        except asyncio.CancelledError:  # else the debate would stay open
            self._put(lambda file: file.end(begun.id, "interrupted", None, None) if begun and begun.owned else None)
            raise
        if held:
            self._held[found.id] = held
        return found

    async def end(self, id: str, status: Status, document: str | None = None, note: str | None = None) -> None:
        """Records how a debate ended, or that it waits for a person.

        Args:
            id: the debate's id.
            status: its new status.
            document: the path of its result document, if it has one.
            note: a further remark.
        """
        self._held.pop(id, None)
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
        """Id, status and start time of all debates, newest first; only of one person's debates if a person is named."""
        return await self._do(lambda file: file.outline(person))

    async def taken(self, ids: Sequence[str]) -> dict[str, tuple[float, float, float]]:
        """What debates have taken; see `LedgerFile.taken`."""
        return await self._do(lambda file: file.taken(ids))

    async def debate(self, id: str) -> Debate | None:
        """A debate; None if the id is unknown."""
        found = await self._do(lambda file: file.debates(id=id))
        return next((debate for debate in found if debate.id == id), None)

    async def delete(self, id: str) -> None:
        """Deletes a debate with its entries."""
        await self._do(lambda file: file.delete(id))

    async def of_key(self, idempotency_key: str) -> Debate | None:
        """The debate with an idempotency key."""
        return await self._do(lambda file: file.of_key(idempotency_key))

    async def place(self, id: str, thread: str, run: str) -> None:
        """Records the server's thread and run of a debate."""
        await self._do(lambda file: file.place(id, thread, run))

    async def thread_and_run(self, id: str) -> tuple[str, str] | None:
        """The thread and the run of a debate on a server; None if it has not run on one."""
        return await self._do(lambda file: file.thread_and_run(id))

    async def places(self, thread: str | None = None) -> dict[str, tuple[str, str]]:
        """Thread and run on a server, by debate; see `LedgerFile.places`."""
        return await self._do(lambda file: file.places(thread))

    # --- entries ------------------------------------------------------------------------------------------------------

    def stored_entries(self, debate: str) -> Mapping[str, Entry]:
        """The entries of a resumed debate, by the hash of their keys; empty for a new debate."""
        return self._held.get(debate) or {}

    def stored_result(self, debate: str, key: Key) -> StoredCall | None:
        """The stored result of a resumed debate for a key, without waiting; None for a new debate."""
        entry = self.stored_entries(debate).get(key.hash)
        return None if entry is None else _kept(entry)

    async def keep(self, debate: str, key: Key, value: Any, about: Mapping[str, Any] | None = None) -> None:
        """Stores the result of a call; it is durable when this returns.

        Args:
            debate: the id of a debate that has begun.
            key: the key of the call.
            value: the result: a JSON value; for an embedding, vectors, stored as 32-bit floats.
            about: the role and the model of the call, for display.

        Raises:
            ValueError, TypeError: the value is not a JSON value.
        """
        raw = as_json(value) if _is_json(key, value) else packed_vectors(value)
        storing: Any = _Storing(debate, key, raw, about or {}, self._keys)
        await self._do(storing)

    async def find(self, key: Key, prefer: str | None = None, *, failed: bool = True) -> StoredCall | None:
        """The newest entry for a key in any debate; an entry of the debate ``prefer`` has priority.

        Args:
            key: the key of the call.
            prefer: a debate's id.
            failed: whether to include the entries of failed calls.
        """
        entry = await self._do(lambda file: file.find(key.hash, prefer, failed=failed))
        return None if entry is None else _kept(entry)

    async def nearest(self, key: Key, debate: str | None = None) -> NearestEntry | None:
        """The entry that shares the most parts with a key, in one debate or among the newest of all debates."""
        entry = await self._do(lambda file: file.alike(key, debate))
        if entry is None:
            return None
        names = {**entry.key.parts, **key.parts}
        differs = tuple(name for name in names if entry.key.parts.get(name) != key.parts.get(name))
        return NearestEntry(entry.about, entry.debate, differs)

    async def miss(self, key: Key, what: str, debate: str | None = None) -> UserError:
        """The error for a replay without an entry for a key: it names the parts that differ from the nearest entry.

        Args:
            key: the key of the call.
            what: the call, in words.
            debate: the debate that is replayed, if one is named.
        """
        near = await self.nearest(key, debate)
        of = f" of the debate {debate}" if debate else ""
        if near is None:
            why = f"no {key.kind} call{of} is kept"
        else:
            said = ", ".join(f"{name} {value}" for name, value in near.about.items() if isinstance(value, str))
            why = f"the nearest entry{of} ({said or near.debate}) differs in: {', '.join(near.differs) or 'nothing'}"
        return UserError(
            f"A replay calls nothing, and the ledger has no entry for {what}: {why}. Replay with the input, the "
            "settings and the version of moot that the debate was recorded with, or say `--ledger record`.",
            kind="replay_miss",
        )

    async def prune(self) -> PruningResult:
        """Removes entries that are too old or too large; the ledger does this itself when it is opened."""
        return await asyncio.to_thread(_pruned, self.path)

    # --- the thread ---------------------------------------------------------------------------------------------------

    async def _do(self, job: Callable[[LedgerFile], T]) -> T:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._put(job, future)
        return await future

    def _put(self, job: Job, future: asyncio.Future[Any] | None = None) -> None:
        if self.is_closed:
            raise RuntimeError("this ledger was closed")
        self._jobs.put(_Waiting(job, future))

    def _write(self) -> None:
        """Runs jobs until the ledger is closed, all queued ones in one transaction."""
        file: Any = None
        closing, begun, seen = False, 0.0, 0.0
        while not closing:
            time.sleep(max(0.0, begun + PAUSE - time.monotonic()))
            group, closing = _queued(self._jobs)
            begun = time.monotonic()
            try:
                if file is not None and (begun > seen + LOOK or len(_storing(group)) < len(group)):
                    seen = begun
                    if not file.is_there():  # it was removed
                        file.close()
                        file = None
                if file is None and group:
                    file = self._open()
                    if file.is_overfull():
                        threading.Thread(target=_prune, args=(self.path,), name="moot-prune", daemon=True).start()
                results = _carried_out(file, group) if file else []
            except Exception as error:  # noqa: BLE001
                results = [error] * len(group)
            _wake(group, results)
        if file is not None:
            file.close()


@dataclass(frozen=True, slots=True)
class _Storing:
    """The job that stores the result of a call; several become one statement."""

    debate: str
    key: Key
    raw: str | bytes
    about: Mapping[str, Any]
    keys: Keys

    def entry(self) -> Entry:
        """The entry to store."""
        value = self.raw if isinstance(self.raw, bytes) else packed(redact(self.raw, self.keys))
        return Entry(self.debate, self.key, self.about, time.time(), len(value), value)

    def __call__(self, file: LedgerFile) -> None:
        file.keep([self.entry()])


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A job, and the future that waits for its result."""

    job: Job
    future: asyncio.Future[Any] | None


def _queued(jobs: queue.SimpleQueue[_Waiting | None]) -> tuple[list[_Waiting], bool]:
    """The queued jobs, as soon as there is one, and whether they are the last."""
    group: list[_Waiting] = []
    try:
        found = jobs.get()
        while found is not None:
            group.append(found)
            if len(group) == MOST_AT_ONCE:
                return group, False
            found = jobs.get_nowait()
    except queue.Empty:
        return group, False
    return group, True


def _carried_out(file: LedgerFile, group: list[_Waiting]) -> list[Any]:
    """The results or errors of the jobs; a failed job does not affect the others."""
    results: list[Any] = []
    try:
        if len(stored := _storing(group)) == len(group) <= MOST_ROWS:
            file.keep([job.entry() for job in stored])  # one statement, which is its own transaction
            return [None] * len(group)
        with file.transaction():
            for _, some in groupby(group, lambda waiting: isinstance(waiting.job, _Storing)):
                waiting = [*some]
                if stored := _storing(waiting):
                    file.keep([job.entry() for job in stored])
                results += [None for _ in stored] or [one.job(file) for one in waiting]
        return results
    except Exception as error:  # noqa: BLE001
        if len(group) == 1:
            return [error]
    return [_carried_out(file, [waiting])[0] for waiting in group]


def _storing(group: list[_Waiting]) -> list[_Storing]:
    """The jobs of a group that store results of calls."""
    return [waiting.job for waiting in group if isinstance(waiting.job, _Storing)]


def _wake(group: list[_Waiting], results: list[Any]) -> None:
    """Delivers the results; each event loop is woken once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for waiting, result in zip(group, results, strict=True):
        if waiting.future is not None:
            by_loop.setdefault(waiting.future.get_loop(), []).append((waiting.future, result))
    for loop, given in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed, so no caller waits
            loop.call_soon_threadsafe(_give, given)


def _give(given: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, result in given:
        if future.done():  # cancelled
            continue
        if isinstance(result, Exception):
            future.set_exception(copy_error(result))
        else:
            future.set_result(result)


def _prune(path: Path) -> None:
    try:
        _pruned(path)
    except MootError as error:
        log.warning("%s", error.detail)


def _pruned(path: Path) -> PruningResult:
    file = LedgerFile(path)
    try:
        return file.prune()
    finally:
        file.close()


# --- values -----------------------------------------------------------------------------------------------------------


def _is_json(key: Key, value: Any) -> bool:
    """Whether a value is stored as JSON: everything but vectors. A failed embedding has no vectors."""
    return key.kind != "embedding" or isinstance(value, Mapping)


def _kept(entry: Entry) -> StoredCall:
    return StoredCall(unpack(entry.value), entry.about, entry.debate)
