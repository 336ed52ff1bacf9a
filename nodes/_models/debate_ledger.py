"""How a debate's calls use the ledger: lookups, writes, and replies that equal calls share."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Literal, TypeVar, get_args

from langchain_core.messages import BaseMessage
from moot.core.errors import MootError, UserError, copy_error, error_from_record
from moot.core.ledger import CallLedger, Key, StoredCall, key_of, open_ledger
from moot.core.ledger.records import FAILED, SENT, hashes_of
from moot.nodes._models.ledger_messages import key_messages
from moot.nodes._models.spend import NOTHING, Spend

T = TypeVar("T")

Mode = Literal["record", "reuse", "replay", "off"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True)
class LedgerUse:
    """How debates started within `ledger_use` use the ledger.

    Args:
        mode: ``record`` keeps replies, and uses them only to finish a debate that was interrupted or failed;
            ``reuse`` also uses the replies of other debates; ``replay`` makes no calls; ``off`` keeps nothing.
        adopt: whether to resume an unfinished debate with the same input and settings.
        id: the debate's id in the ledger, for a resumed or a new debate; in ``replay``, the debate whose
            entries are read first.
        idempotency_key: the request's key; equal requests with the same key are one debate.
        ends: whether a finished debate is marked as ended in the ledger. If not, the caller marks it (`CallLedger.end`)
            once the caller has the document; if the caller is killed before, the debate is resumed at no cost.
        person: the debate's owner, on a server with users.
        run: the id of the server's run that starts it.
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
    """Context manager: debates started inside it use the ledger as ``use`` says.

    Args:
        use: the mode and its options.
    """
    token = _use.set(use)
    try:
        yield
    finally:
        _use.reset(token)


def current_use(default: Mode = "off") -> LedgerUse:
    """How a new debate uses the ledger: as in `ledger_use`, else in the mode of ``MOOT_LEDGER``, else of ``default``.

    Raises:
        UserError: ``MOOT_LEDGER`` is not a mode.
    """
    if (use := _use.get()) is not None:
        return use
    mode = os.environ.get("MOOT_LEDGER") or default
    for known in MODES:
        if mode == known:
            return LedgerUse(known)
    raise UserError(f"MOOT_LEDGER is {mode!r}; it must be one of {', '.join(MODES)}.", kind="invalid_environment")


class PendingCall(Generic[T]):
    """A call for which several callers may wait: ``over`` is set when it has returned, failed or been cancelled."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.result: list[T] = []
        self.error: Exception | None = None


@dataclass
class DebateLedger:
    """The ledger for the calls of one debate.

    Args:
        mode: see `LedgerUse`.
        ledger: the ledger.
        id: the debate whose entries are written, or read first in ``replay``.
        replies: the number of a person's replies so far, including the reply that resumes the debate.
    """

    mode: Mode
    ledger: CallLedger
    id: str
    replies: int = 0
    fault: str = ""
    """Why an entry could not be written; empty if all were written."""
    _found: Spend = NOTHING
    """The cost of calls that `cost_of_lost_calls` must not count; see `without_found_call`."""
    _pending: dict[str, PendingCall[Any]] = field(default_factory=dict)
    _steps_by_call: dict[Any, dict[Any, int]] = field(default_factory=dict)
    _embedded: set[str] = field(default_factory=set)
    opened: dict[Any, Mapping[str, Any]] = field(default_factory=dict)
    """Properties of the sources that search a corpus, as in the ledger; see `open_ledger_corpus`."""

    def ordinal(self, call: Any, place: Any) -> int | list[int]:
        """The part of a ledger key that distinguishes repetitions of a call.

        Equal calls with the same ``place`` have the same ordinal, so that they share a reply.

        Args:
            call: the hashes of the other parts of the key.
            place: the step that makes the call, and its repetition in this step.

        Returns:
            The number of other places at which the same call was made before. After a person's replies, a list of the
            number of replies and this number.
        """
        places = self._steps_by_call.setdefault(call, {})
        earlier = places.setdefault(place, len(places))
        return [self.replies, earlier] if self.replies else earlier

    async def find(self, key: Key, description: str) -> StoredCall | None:
        """The ledger's entry for a key; None if the call must be made. Recorded failures are only used in replays.

        Args:
            key: the call's key.
            description: the call in words, for the error.

        Raises:
            UserError: a replay has no entry for the key.
        """
        if self.mode == "record":
            return self.stored(key)
        if self.mode == "replay":
            return await self.replayed(key, description)
        return await self.ledger.find(key, self.id, failed=False)

    @property
    def has_stored_results(self) -> bool:
        """Whether an earlier run of this debate has stored results."""
        return bool(self.ledger.stored_entries(self.id))

    def stored(self, key: Key) -> StoredCall | None:
        """The result that an earlier run of this debate stored for a key; None if there is none, or a failure."""
        found = self.ledger.stored_result(self.id, key)
        return None if found is None or found.about.get(FAILED) else found

    async def replayed(self, key: Key, description: str) -> StoredCall:
        """The ledger's entry for a key in a replay.

        Raises:
            UserError: there is no entry, or the entry has no result.
        """
        found = await self.ledger.find(key, self.id)
        if found is None or found.value is None:  # no value: the debate was killed before it stored the reply
            raise await self.ledger.replay_error(key, description, self.id or None)
        return found

    async def store_result(self, key: Key, value: Any, about: Mapping[str, Any]) -> None:
        """Writes a result to the ledger, unless in a replay. If this fails, the debate goes on without it.

        Args:
            key: the call's key.
            value: the result.
            about: facts about the call that are stored with the result: its role, node and model, or source and query.
        """
        await self.store_results([(key, value)], about)

    async def store_results(self, results: Sequence[tuple[Key, Any]], about: Mapping[str, Any]) -> None:
        """Writes several results, each with its key; see `store_result`."""
        if self.mode != "replay":
            try:
                await self.ledger.store_calls(self.id, results, about)
            except MootError as error:
                self.fault = error.detail

    async def store_failure(self, key: Key, value: Any, about: Mapping[str, Any]) -> None:
        """Writes the failure of a call. A replay then fails at this call, too; other modes make the call again."""
        await self.store_result(key, value, {**about, FAILED: 1})

    def cost_of_lost_calls(self, key: Key | None = None) -> Spend:
        """The cost of earlier runs' calls whose replies were lost: of the calls with a key or, by default, of all."""
        entries, total = self.ledger.stored_entries(self.id), NOTHING
        for entry in entries.values() if key is None else filter(None, [entries.get(key.hash)]):
            total = total.plus(Spend(*entry.about.get(SENT, NOTHING)))
        return total if key else total.minus(self._found)

    def without_found_call(self, lost: Spend, cost: Spend) -> Spend:
        """The cost of lost calls minus the ``cost`` of a call whose unusable reply is in the ledger; at least zero."""
        others = Spend(*(max(0, less) for less in lost.minus(cost)))
        self._found = self._found.plus(lost.minus(others))
        return others

    async def record_sent(self, key: Key, sent: Spend, about: Mapping[str, Any]) -> None:
        """Records that a call is sent, so that it counts even if the process is killed before its reply is written.

        Args:
            key: the call's key.
            sent: the maximum cost of the call, plus the cost of earlier attempts with this key.
            about: as in `store_result`.
        """
        await self.store_failure(key, None, {**about, SENT: [*sent]})

    async def once(self, hash: str, make: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """Makes a call once for all callers that request it; returns its result, and whether another caller made it.

        The first caller makes the call. If this caller is cancelled, one of the waiting callers makes the call.
        Later callers get the same result, until `forget`.

        Args:
            hash: the hash of the call's key.
            make: makes the call. If it raises an error, all waiting callers get this error; later callers try again.
        """
        while (pending := self._pending.get(hash)) is not None:
            for result in await self._wait_for_call(pending):
                return result, True
        return await self._make_shared_call([hash], make), False

    async def _wait_for_call(self, pending: PendingCall[T]) -> list[T]:
        """Waits for another caller's call and returns its result in a list; empty if the call was cancelled."""
        await pending.over.wait()
        if pending.error is not None:
            raise copy_error(pending.error)
        return pending.result

    async def _make_shared_call(self, hashes: Sequence[str], make: Callable[[], Awaitable[T]]) -> T:
        """Makes a call; callers that request one of its keys meanwhile wait for it."""
        pending: PendingCall[T] = PendingCall()
        self._pending |= dict.fromkeys(hashes, pending)
        try:
            result = await make()
            pending.result.append(result)
        except BaseException as error:
            pending.error = error if isinstance(error, Exception) else None
            for hash in hashes:
                self.forget(hash)
            raise
        finally:
            pending.over.set()
        return result

    async def embed(
        self, parts: Mapping[str, Any], texts: Sequence[str], make: Callable[[list[str]], Awaitable[list[list[float]]]]
    ) -> list[list[float]]:
        """The same as `Embeddings.embed`.

        Each text has its own entry in the ledger, because the texts of one request differ from run to run.
        """
        about, hashes = {"model": parts["model"]}, hashes_of(parts)
        keys = {text: key_of("embedding", {"text": text}, hashes) for text in texts}
        found: dict[str, list[float]] = {}

        async def find_or_embed(some: list[str]) -> dict[str, list[float]]:
            description = f"embeddings of {parts['model']}"
            if self.mode == "record":
                stored = [self.stored(keys[text]) for text in some]
            else:
                stored = await asyncio.gather(*(self.find(keys[text], description) for text in some))
            entries = {text: entry for text, entry in zip(some, stored, strict=True) if entry is not None}
            for entry in entries.values():
                if entry.about.get(FAILED):
                    raise error_from_record(entry.value)
            vectors: dict[str, list[float]] = {text: entry.value[0] for text, entry in entries.items()}
            if missing := [text for text in some if text not in vectors]:
                try:
                    vectors |= zip(missing, await make(missing), strict=True)
                except MootError as error:
                    record = error.record("")
                    await self.store_results([(keys[text], record) for text in missing], {**about, FAILED: 1})
                    raise
                fresh = [text for text in missing if keys[text].hash not in self._embedded]
                self._embedded.update(keys[text].hash for text in fresh)
                await self.store_results([(keys[text], [vectors[text]]) for text in fresh], about)
            return vectors

        while missing := [text for text in keys if text not in found]:
            pending_by_text = {text: pending for text in missing if (pending := self._pending.get(keys[text].hash))}
            if own := [text for text in missing if text not in pending_by_text]:
                found |= await self._make_shared_call([keys[text].hash for text in own], partial(find_or_embed, own))
                for text in own:
                    self.forget(keys[text].hash)  # later calls use the encoder's own cache
            for text, pending in pending_by_text.items():
                for vectors in await self._wait_for_call(pending):
                    found[text] = vectors[text]
        return [found[text] for text in texts]

    def forget(self, hash: str) -> None:
        """Allows a call to be made again."""
        self._pending.pop(hash, None)


async def open_debate_ledger(
    use: LedgerUse, graph: str, given: Mapping[str, Any], settings: Any, id: str, replies: int = 0
) -> DebateLedger | None:
    """Opens the ledger for a debate that starts or is resumed; returns None if the ledger is off.

    Args:
        use: how the debate uses the ledger.
        graph: the system.
        given: the debate's input; it is stored without None and empty lists.
        settings: the debate's settings, as in the document.
        id: the debate's id; if empty, the id in ``use``, else a new one.
        replies: the number of a person's replies in the debate so far.

    Raises:
        UserError: the ledger cannot be used, the debate belongs to another user, or the request was made before.
        WorldError: the disk is full or fails.
    """
    if use.mode == "off":
        return None
    ledger = open_ledger()
    if use.mode == "replay":
        return DebateLedger(use.mode, ledger, use.id or "", replies)
    begun = await ledger.begin(
        graph,
        stored_input(given),
        settings,
        adopt=use.adopt,
        id=id or use.id,
        idempotency_key=use.idempotency_key,
        person=use.person,
        run=use.run,
    )
    if not begun.owned:
        raise UserError(
            f"This request was made before: it is the debate {begun.id}. Use a new idempotency key to start another "
            "debate.",
            kind="debate_running",
        )
    return DebateLedger(use.mode, ledger, begun.id, replies)


def stored_input(given: Mapping[str, Any]) -> dict[str, Any]:
    """A debate's input as stored in the ledger: plain values, without None and empty lists."""
    return {name: _plain(value) for name, value in given.items() if value is not None and value != []}


def _plain(value: Any) -> Any:
    """An input value as JSON; a message becomes a list, as in `key_messages`."""
    if isinstance(value, BaseMessage):
        return key_messages([value])[0]
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
