"""The ledger of calls: what debates were asked and what their calls gave, in one file, so that nothing is paid twice.

The file is ``$MOOT_HOME/ledger.sqlite``; several processes may use it at once. A thread of its own writes it, all that
is queued in one transaction, so that the event loop never waits for the disk. What `CallLedger.keep` has returned from
outlives the process, however that ends. A power cut may lose what was written in the seconds before it (SQLite's
``synchronous=NORMAL``); the file stays whole.
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

from moot.core.errors import MootError, UserError, copied
from moot.core.home import moot_home
from moot.core.ledger.file import MOST_ROWS, LedgerFile
from moot.core.ledger.records import Begun, Debate, Entry, Key, Pruned, Request, Status, as_json, fingerprint_of, key_of
from moot.core.ledger.values import packed, packed_vectors, unpacked
from moot.core.redaction import Keys, anonymised, held_keys, redact

__all__ = [
    "Begun",
    "CallLedger",
    "Debate",
    "Kept",
    "Key",
    "Pruned",
    "embeddings",
    "key_of",
    "ledger_path",
    "open_ledger",
    "use_ledger",
]

log = logging.getLogger(__name__)

T = TypeVar("T")
Job = Callable[[LedgerFile], Any]

MOST_AT_ONCE = 1000
"""Jobs of one transaction at most."""
PAUSE = 0.02
"""Seconds between two transactions at least: each takes a while, and what many debates keep is gathered meanwhile."""
LOOK = 0.1
"""Seconds after which it is looked whether somebody has removed the file; before a debate begins it always is."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a call gave, found again.

    Args:
        value: a JSON value; of an embedding, a list of vectors.
        about: what the call was: its role and model.
        debate: the id of the debate that made it.
    """

    value: Any
    about: Mapping[str, Any]
    debate: str


@dataclass(frozen=True, slots=True)
class Near:
    """The entry that is most like a key: what it was, and which parts differ."""

    about: Mapping[str, Any]
    debate: str
    differs: tuple[str, ...]


class Embeddings(Protocol):
    """What keeps the embeddings of a debate; it is found in `embeddings`."""

    async def embedded(
        self, parts: Mapping[str, Any], texts: Sequence[str], make: Callable[[], Awaitable[list[list[float]]]]
    ) -> list[list[float]]:
        """The vectors of texts, in order: those that are kept, else new ones.

        Args:
            parts: the parts of the key, but for the texts.
            texts: what is embedded.
            make: embeds them.
        """
        ...


embeddings: ContextVar[Embeddings | None] = ContextVar("embeddings", default=None)
"""What keeps the embeddings of the debate whose node runs; None if nothing does."""


def ledger_path() -> Path:
    """Where the ledger is."""
    return moot_home() / "ledger.sqlite"


def open_ledger() -> CallLedger:
    """The ledger of this process at `ledger_path`. It returns at once; what is asked of it first says what is wrong."""
    path = (os.getpid(), ledger_path())
    with _opening:
        found = _opened.get(path)
        if found is None or found.is_closed:
            found = _opened[path] = CallLedger(path[1])
        return found


_opened: dict[tuple[int, Path], CallLedger] = {}
_opening = threading.Lock()


def use_ledger(opened: Callable[[], Any]) -> CallLedger:
    """Has this process keep its debates elsewhere than in the file at `ledger_path`.

    Args:
        opened: opens what does as `LedgerFile` there, such as `moot.core.postgres.ledger.PostgresLedger`.
    """
    path = (os.getpid(), ledger_path())
    with _opening:
        found = _opened[path] = CallLedger(path[1], opened)
        return found


class CallLedger:
    """A ledger and its thread; see `open_ledger`. Its methods may be called from any event loop.

    Each raises UserError if the folder cannot be written or the file is damaged or a later version's, and WorldError
    if the disk is full or fails.
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
        """Writes what is queued and closes the file. Blocking."""
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
    ) -> Begun:
        """Begins a debate, before its first call.

        Args:
            graph: the system's name.
            input: what it is given, as a JSON value.
            settings: its settings, as a JSON value; what looks like a key is not stored.
            adopt: whether to go on with the newest debate of the same graph, input, settings and version that was
                interrupted or failed.
            id: the debate's id: one that is known goes on (a finished one is run again), else the new debate has it.
            idempotency_key: a name that makes two equal requests one debate; `Begun.owned` says whether it is ours.
            person: whose it is, on a server with users.
            run: as which run of a server it is begun.

        Raises:
            UserError: the debate of this id runs elsewhere, or the idempotency key belongs to another request.
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
        begun: Begun | None = None

        def job(file: LedgerFile) -> tuple[Begun, dict[str, Entry]]:
            nonlocal begun
            begun = file.begin(request)
            return begun, {entry.key.hash: entry for _, entry in file.entries(begun.id)} if begun.resumed else {}

        try:
            found, held = await self._do(job)
        except asyncio.CancelledError:  # nobody is left to end it
            self._put(lambda file: file.end(begun.id, "interrupted", None, None) if begun and begun.owned else None)
            raise
        if held:
            self._held[found.id] = held
        return found

    async def end(self, id: str, status: Status, document: str | None = None, note: str | None = None) -> None:
        """Says how a debate ended, or that it waits for a person.

        Args:
            id: the debate's.
            status: how it stands now.
            document: the path of its result document, if it has one.
            note: what else is to be said of it.
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
        """Of all debates id, status and when they were begun; newest first; of one person's if one is named."""
        return await self._do(lambda file: file.outline(person))

    async def debate(self, id: str) -> Debate | None:
        """A debate; None if there is none of this id."""
        found = await self._do(lambda file: file.debates(id=id))
        return next((debate for debate in found if debate.id == id), None)

    async def delete(self, id: str) -> None:
        """Removes a debate with its entries."""
        await self._do(lambda file: file.delete(id))

    async def of_key(self, idempotency_key: str) -> Debate | None:
        """The debate of an idempotency key."""
        return await self._do(lambda file: file.of_key(idempotency_key))

    async def place(self, id: str, thread: str, run: str) -> None:
        """Notes on which thread of a server a debate runs, and as which run."""
        await self._do(lambda file: file.place(id, thread, run))

    async def place_of(self, id: str) -> tuple[str, str] | None:
        """The thread and the run of a debate on a server, if it has run on one."""
        return await self._do(lambda file: file.place_of(id))

    async def places(self, thread: str | None = None) -> dict[str, tuple[str, str]]:
        """By debate, its thread and run on a server; see `LedgerFile.places`."""
        return await self._do(lambda file: file.places(thread))

    # --- entries ------------------------------------------------------------------------------------------------------

    def kept(self, debate: str, key: Key) -> Kept | None:
        """What a debate that goes on has for a key, without waiting; None for a debate that was not begun before."""
        held = self._held.get(debate)
        entry = held.get(key.hash) if held else None
        return None if entry is None else _kept(entry)

    async def keep(self, debate: str, key: Key, value: Any, about: Mapping[str, Any] | None = None) -> None:
        """Stores what a call gave; it is stored when this returns.

        Args:
            debate: the id of a debate that has begun.
            key: what was asked.
            value: what it gave: a JSON value; for an embedding, vectors, of which 32-bit floats are stored.
            about: what the call was, to be shown: its role and model.

        Raises:
            ValueError, TypeError: the value is no JSON value.
        """
        raw = as_json(value) if _is_json(key, value) else packed_vectors(value)
        storing: Any = _Storing(debate, key, raw, about or {}, self._keys)
        await self._do(storing)

    async def find(self, key: Key, prefer: str | None = None, *, failed: bool = True) -> Kept | None:
        """The newest entry of a key in any debate; that of the debate ``prefer``, if it has one.

        Args:
            key: what is asked.
            prefer: a debate's id.
            failed: whether entries of calls that failed are found, too.
        """
        entry = await self._do(lambda file: file.find(key.hash, prefer, failed=failed))
        return None if entry is None else _kept(entry)

    async def nearest(self, key: Key, debate: str | None = None) -> Near | None:
        """The entry that shares most parts with a key, among those of one debate or the newest of all."""
        entry = await self._do(lambda file: file.alike(key, debate))
        if entry is None:
            return None
        names = {**entry.key.parts, **key.parts}
        differs = tuple(name for name in names if entry.key.parts.get(name) != key.parts.get(name))
        return Near(entry.about, entry.debate, differs)

    async def miss(self, key: Key, what: str, debate: str | None = None) -> UserError:
        """The error for a replay that has no entry for a key: it names the parts that differ from the nearest entry.

        Args:
            key: what is asked.
            what: the call, in words.
            debate: the debate that is replayed, if one is named.
        """
        near = await self.nearest(key, debate)
        of = f" of the debate {debate}" if debate else ""
        if near is None:
            why = f"no {key.kind} call{of} is kept"
        else:
            said = ", ".join(f"{name} {value}" for name, value in near.about.items() if value is not None)
            why = f"the nearest entry{of} ({said or near.debate}) differs in: {', '.join(near.differs) or 'nothing'}"
        return UserError(
            f"A replay calls nothing, and the ledger has no entry for {what}: {why}. Replay with the input, the "
            "settings and the version of moot that the debate was recorded with, or say `--ledger record`.",
            kind="replay_miss",
        )

    async def prune(self) -> Pruned:
        """Removes what is too old or too much; the ledger does so by itself when it is opened."""
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
        """Carries out jobs, all that are queued in one transaction, until the ledger is closed."""
        file: Any = None
        closing, begun, seen = False, 0.0, 0.0
        while not closing:
            time.sleep(max(0.0, begun + PAUSE - time.monotonic()))
            group, closing = _queued(self._jobs)
            begun = time.monotonic()
            try:
                if file is not None and (begun > seen + LOOK or len(_storing(group)) < len(group)):
                    seen = begun
                    if not file.is_there():  # somebody has removed it
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
    """The job that stores what a call gave; several at once are one statement."""

    debate: str
    key: Key
    raw: str | bytes
    about: Mapping[str, Any]
    keys: Keys

    def entry(self) -> Entry:
        """What is stored."""
        value = self.raw if isinstance(self.raw, bytes) else packed(redact(self.raw, self.keys))
        return Entry(self.debate, self.key, self.about, time.time(), len(value), value)

    def __call__(self, file: LedgerFile) -> None:
        file.keep([self.entry()])


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A job, and who waits for what it gives."""

    job: Job
    future: asyncio.Future[Any] | None


def _queued(jobs: queue.SimpleQueue[_Waiting | None]) -> tuple[list[_Waiting], bool]:
    """The jobs that are queued, once there is one, and whether they are the last."""
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
    """What the jobs give, or why they fail; one that fails takes no other with it."""
    results: list[Any] = []
    try:
        if len(stored := _storing(group)) == len(group) <= MOST_ROWS:
            file.keep([job.entry() for job in stored])  # one statement, which is a transaction of its own
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
    """Those jobs of a group that store what calls gave."""
    return [waiting.job for waiting in group if isinstance(waiting.job, _Storing)]


def _wake(group: list[_Waiting], results: list[Any]) -> None:
    """Hands out results: each event loop is woken once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for waiting, result in zip(group, results, strict=True):
        if waiting.future is not None:
            by_loop.setdefault(waiting.future.get_loop(), []).append((waiting.future, result))
    for loop, given in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed, so nobody waits
            loop.call_soon_threadsafe(_give, given)


def _give(given: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, result in given:
        if future.done():  # cancelled
            continue
        if isinstance(result, Exception):
            future.set_exception(copied(result))
        else:
            future.set_result(result)


def _prune(path: Path) -> None:
    try:
        _pruned(path)
    except MootError as error:
        log.warning("%s", error.detail)


def _pruned(path: Path) -> Pruned:
    file = LedgerFile(path)
    try:
        return file.prune()
    finally:
        file.close()


# --- values -----------------------------------------------------------------------------------------------------------


def _is_json(key: Key, value: Any) -> bool:
    """Whether a value is stored as JSON: all but vectors; an embedding that failed has none."""
    return key.kind != "embedding" or isinstance(value, Mapping)


def _kept(entry: Entry) -> Kept:
    return Kept(unpacked(entry.value), entry.about, entry.debate)
