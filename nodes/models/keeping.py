"""How the calls of one debate use the ledger: which are looked up, kept, and sent once for several who ask the same."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar, get_args

from langchain_core.messages import BaseMessage
from moot.core.errors import MootError, UserError, copied, error_of
from moot.core.ledger import CallLedger, Kept, Key, key_of, open_ledger
from moot.core.ledger.records import FAILED
from moot.nodes.models.kept import key_messages

T = TypeVar("T")

Mode = Literal["record", "reuse", "replay", "off"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True)
class LedgerUse:
    """How the debates that are begun within `ledger_use` use the ledger.

    Args:
        mode: ``record`` keeps what calls give, and uses it only to finish a debate that was interrupted or failed;
            ``reuse`` uses what any debate has kept, too; ``replay`` makes no call; ``off`` keeps nothing.
        adopt: whether a debate of the same input and settings that did not end is gone on with.
        id: the debate's id in the ledger: one that goes on, or that of a new one; in ``replay``, the debate whose
            entries are taken first.
        idempotency_key: what makes two equal requests one debate.
        ends: whether a debate that came to its end is over in the ledger, too. Else that is for whoever began it to say
            (`CallLedger.end`) once they have its document; if they are killed before, it is gone on with at no cost.
        person: whose the debate is, on a server with users.
        run: as which run of a server it is begun.
    """

    mode: Mode = "off"
    adopt: bool = True
    id: str | None = None
    idempotency_key: str | None = None
    ends: bool = True
    person: str | None = None
    run: str | None = None


_use: ContextVar[LedgerUse | None] = ContextVar("ledger use", default=None)


@contextmanager
def ledger_use(use: LedgerUse) -> Iterator[None]:
    """Debates that begin within use the ledger so.

    Args:
        use: how.
    """
    token = _use.set(use)
    try:
        yield
    finally:
        _use.reset(token)


def current_use(default: Mode = "off") -> LedgerUse:
    """How a debate that begins now uses the ledger: as `ledger_use` says, else by ``MOOT_LEDGER``, else as ``default``.

    Raises:
        UserError: ``MOOT_LEDGER`` is no mode.
    """
    if (use := _use.get()) is not None:
        return use
    mode = os.environ.get("MOOT_LEDGER") or default
    for known in MODES:
        if mode == known:
            return LedgerUse(known)
    raise UserError(f"MOOT_LEDGER is {mode!r}; it may be {', '.join(MODES)}.", kind="invalid_environment")


class Flight(Generic[T]):
    """A call that several may wait for: ``over`` once it gave something, failed or was given up."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.result: list[T] = []
        self.error: Exception | None = None


@dataclass
class Keeping:
    """The ledger as the calls of one debate use it.

    Args:
        mode: see `LedgerUse`.
        ledger: the ledger.
        id: the debate whose entries are written, or in ``replay`` read first.
        replies: how often a person had replied before this run of the debate.
    """

    mode: Mode
    ledger: CallLedger
    id: str
    replies: int = 0
    fault: str = ""
    """Why something could not be kept; nothing if all was."""
    _flights: dict[str, Flight[Any]] = field(default_factory=dict)
    _asked: dict[Any, dict[Any, int]] = field(default_factory=dict)
    _embedded: set[str] = field(default_factory=set)
    opened: dict[Any, Mapping[str, Any]] = field(default_factory=dict)
    """What is kept of sources that search a corpus; see `open_kept_corpus`."""

    def ordinal(self, asked: Any, place: Any) -> int | list[int]:
        """How many earlier places of the debate have asked the same; after replies of a person, with their number.

        A place is a step of the debate; those who ask the same at one place share a reply, whoever of them is first.
        """
        places = self._asked.setdefault(asked, {})
        earlier = places.setdefault(place, len(places))
        return [self.replies, earlier] if self.replies else earlier

    async def find(self, key: Key, what: str) -> Kept | None:
        """What the ledger has for a key; None if it is to be asked. That a call failed is for replays alone.

        Raises:
            UserError: nothing is kept, and nothing may be asked.
        """
        if self.mode == "record":
            found = self.ledger.kept(self.id, key)
            return None if found is None or found.about.get(FAILED) else found
        if self.mode == "replay":
            return await self.replayed(key, what)
        return await self.ledger.find(key, self.id, failed=False)

    async def replayed(self, key: Key, what: str) -> Kept:
        """What the ledger has for a key in a replay.

        Raises:
            UserError: nothing.
        """
        found = await self.ledger.find(key, self.id)
        if found is None:
            raise await self.ledger.miss(key, what, self.id or None)
        return found

    async def keep(self, key: Key, value: Any, about: Mapping[str, Any]) -> None:
        """Keeps what a call gave, unless nothing is written. A debate goes on if that fails: it has paid."""
        if self.mode != "replay":
            try:
                await self.ledger.keep(self.id, key, value, about)
            except MootError as error:
                self.fault = error.detail

    async def keep_failure(self, key: Key, value: Any, about: Mapping[str, Any]) -> None:
        """Keeps that a call failed, so that a replay fails there, too; nothing else uses it."""
        await self.keep(key, value, {**about, FAILED: 1})

    async def once(self, hash: str, make: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """What a call gives that is made once for all who ask for it, and whether somebody else made it.

        The first who asks makes it. If that one is cancelled, another of those who wait does.

        Args:
            hash: the call's key.
            make: makes the call; what it raises, all get who wait for it, and nobody later.
        """
        while (flight := self._flights.get(hash)) is not None:
            await flight.over.wait()
            if flight.error is not None:
                raise copied(flight.error)
            if flight.result:
                return flight.result[0], True
        flight = self._flights[hash] = Flight()
        try:
            result = await make()
            flight.result.append(result)
        except BaseException as error:
            flight.error = error if isinstance(error, Exception) else None
            del self._flights[hash]
            raise
        finally:
            flight.over.set()
        return result, False

    async def embedded(
        self, parts: Mapping[str, Any], texts: Sequence[str], make: Callable[[], Awaitable[list[list[float]]]]
    ) -> list[list[float]]:
        """As `Embeddings.embedded`."""
        key, about = key_of("embedding", {**parts, "texts": list(texts)}), {"model": parts["model"]}

        async def embed() -> list[list[float]]:
            if (kept := await self.find(key, f"embeddings of {parts['model']}")) is not None:
                if kept.about.get(FAILED):
                    raise error_of(kept.value)
                found: list[list[float]] = kept.value
                return found
            try:
                found = await make()
            except MootError as error:
                await self.keep_failure(key, error.record(""), about)
                raise
            if key.hash not in self._embedded:
                self._embedded.add(key.hash)
                await self.keep(key, found, about)
            return found

        found, _ = await self.once(key.hash, embed)
        self.forget(key.hash)  # those who ask later have what the encoder remembers
        return found

    def forget(self, hash: str) -> None:
        """A call that failed may be made again."""
        self._flights.pop(hash, None)


async def begin_keeping(
    use: LedgerUse, graph: str, given: Mapping[str, Any], settings: Any, id: str, replies: int = 0
) -> Keeping | None:
    """The ledger for a debate that begins, or goes on; None if it is not used.

    Args:
        use: how it is used.
        graph: the system.
        given: the debate's input; what is None is left out.
        settings: the debate's, as a document records them.
        id: the debate's id, if it has one; else it gets one.
        replies: how often a person has replied in it.

    Raises:
        UserError: the ledger cannot be used, or the debate is somebody else's.
        WorldError: the disk is full or fails.
    """
    if use.mode == "off":
        return None
    ledger = open_ledger()
    if use.mode == "replay":
        return Keeping(use.mode, ledger, use.id or "", replies)
    begun = await ledger.begin(
        graph,
        asked_with(given),
        settings,
        adopt=use.adopt,
        id=id or use.id,
        idempotency_key=use.idempotency_key,
        person=use.person,
        run=use.run,
    )
    if not begun.owned:
        raise UserError(
            f"This request was made before: it is the debate {begun.id}. Use a new idempotency key for another one.",
            kind="debate_running",
        )
    return Keeping(use.mode, ledger, begun.id, replies)


def asked_with(given: Mapping[str, Any]) -> dict[str, Any]:
    """A debate's input as the ledger has it: plain values, without what was not given."""
    return {name: _plain(value) for name, value in given.items() if value is not None and value != []}


def _plain(value: Any) -> Any:
    """A value of the input as JSON: of messages, what they say."""
    if isinstance(value, BaseMessage):
        return key_messages([value])[0]
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
