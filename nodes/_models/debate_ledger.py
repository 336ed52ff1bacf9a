"""The ledger of one debate: finds and stores the results of its calls, and lets equal calls share one reply."""

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
    """How a debate uses the ledger.

    Args:
        mode: ``record`` keeps replies, and uses them only to finish a debate that was interrupted or failed;
            ``reuse`` also uses the replies of other debates; ``replay`` makes no calls; ``off`` keeps nothing.
        adopt: whether to resume an unfinished debate with the same input and settings.
        id: the debate's id in the ledger, for a resumed or a new debate; in ``replay``, the debate whose
            entries are read first.
        idempotency_key: the request's key; equal requests with the same key are one debate.
        ends: whether a finished debate is marked as ended in the ledger. If not, the caller marks it (`CallLedger.end`)
            once the caller has the document. If the caller is killed before that, the debate is resumed at no cost.
        person: the debate's owner, on a server with users.
        run: the id of the server's run that starts the debate.
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
    """How a new debate uses the ledger: as the innermost `ledger_use` or ``MOOT_LEDGER`` says, else ``default``."""
    if (use := _use.get()) is not None:
        return use
    mode = os.environ.get("MOOT_LEDGER") or default
    for known in MODES:
        if mode == known:
            return LedgerUse(known)
    raise UserError(f"MOOT_LEDGER is {mode!r}; it must be one of {', '.join(MODES)}.", kind="invalid_environment")


class PendingCall(Generic[T]):
    """A call for which several callers may wait."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        """Set when the call has returned, failed or been cancelled."""
        self.result: list[T] = []
        """The result in a list; empty if the call failed or was cancelled."""
        self.error: Exception | None = None


@dataclass
class DebateLedger:
    """The ledger for the calls of one debate."""

    mode: Mode
    ledger: CallLedger
    id: str  # in ``replay``, the debate whose entries are read first; empty for no debate
    replies: int = 0  # of a person so far, including the reply that resumes the debate
    fault: str = ""
    """Why the last failed write of an entry failed; empty if no write failed."""
    _found: Spend = NOTHING
    """The cost that `cost_of_lost_calls` does not count if it gets no key; see `subtract_found_call`."""
    _pending: dict[str, PendingCall[Any]] = field(default_factory=dict)
    _ordinals: dict[Any, dict[Any, int]] = field(default_factory=dict)
    """The ordinal of each place, by call."""
    _embedded: set[str] = field(default_factory=set)
    """The hashes of the texts whose vectors this run has stored."""
    opened: dict[Any, Mapping[str, Any]] = field(default_factory=dict)
    """Properties of the opened sources that search a corpus, by the sources' arguments; see `open_ledger_corpus`."""

    def ordinal(self, call: Any, place: Any) -> int | list[int]:
        """The part of a ledger key that tells equal calls apart; at the same ``place``, they share a reply."""
        # A place is the step that makes the call, and its repetition in this step.
        places = self._ordinals.setdefault(call, {})
        earlier = places.setdefault(place, len(places))
        return [self.replies, earlier] if self.replies else earlier

    async def find(self, key: Key, description: str) -> StoredCall | None:
        """The ledger's entry for a key, in a replay also a failure; None if the call must be made."""
        if self.mode == "record":
            return self.find_own(key)
        if self.mode == "replay":
            return await self.find_in_replay(key, description)
        return await self.ledger.find(key, self.id, failed=False)

    @property
    def has_stored_entries(self) -> bool:
        """Whether earlier runs of this debate stored results or failures."""
        return bool(self.ledger.stored_entries(self.id))

    def find_own(self, key: Key) -> StoredCall | None:
        """The result that an earlier run of this debate stored for a key; None if it stored a failure or nothing."""
        found = self.ledger.stored_result(self.id, key)
        return None if found is None or found.about.get(FAILED) else found

    async def find_in_replay(self, key: Key, description: str) -> StoredCall:
        """The result or failure that a replay uses for a key; UserError if there is none."""
        found = await self.ledger.find(key, self.id)
        if found is None or found.value is None:  # no value: the debate was killed before it stored the reply
            raise await self.ledger.replay_error(key, description, self.id or None)
        return found

    async def store_result(self, key: Key, value: Any, about: Mapping[str, Any]) -> None:
        """Writes a result, with facts ``about`` its call, except in a replay; if this fails, ``fault`` tells why."""
        await self.store_results([(key, value)], about)

    async def store_results(self, results: Sequence[tuple[Key, Any]], about: Mapping[str, Any]) -> None:
        """Writes several results, each with its key; see `store_result`."""
        if self.mode != "replay":
            try:
                await self.ledger.store_calls(self.id, results, about)
            except MootError as error:
                self.fault = error.detail

    async def store_failure(self, key: Key, value: Any, about: Mapping[str, Any]) -> None:
        """Writes the failure of a call, which only a replay reads; the other modes make the call again."""
        await self.store_result(key, value, {**about, FAILED: 1})

    def cost_of_lost_calls(self, key: Key | None = None) -> Spend:
        """The cost of earlier runs' calls whose replies were lost; if ``key`` is given, of calls with this key."""
        entries, total = self.ledger.stored_entries(self.id), NOTHING
        for entry in entries.values() if key is None else filter(None, [entries.get(key.hash)]):
            total = total.plus(Spend(*entry.about.get(SENT, NOTHING)))
        return total if key else total.minus(self._found)

    def subtract_found_call(self, lost: Spend, cost: Spend) -> Spend:
        """Subtracts a call whose unusable reply is in the ledger from the cost of lost calls, and returns the rest."""
        others = Spend(*(max(0, less) for less in lost.minus(cost)))
        self._found = self._found.plus(lost.minus(others))
        return others

    async def record_sent(self, key: Key, sent: Spend, about: Mapping[str, Any]) -> None:
        """Records the maximum cost of a call, and of earlier attempts, before it is sent: the process may be killed."""
        await self.store_failure(key, None, {**about, SENT: [*sent]})

    async def once(self, hash: str, make: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """Makes a call once for all callers until `forget`; returns its result, and whether another caller made it."""
        # If the caller that makes the call is cancelled, one of the waiting callers makes it.
        while (pending := self._pending.get(hash)) is not None:
            for result in await self._wait_for_call(pending):
                return result, True
        return await self._make_shared_call([hash], make), False

    async def _wait_for_call(self, pending: PendingCall[T]) -> list[T]:
        """Another caller's result in a list, which is empty after a cancellation; raises a copy of the call's error."""
        await pending.over.wait()
        if pending.error is not None:
            raise copy_error(pending.error)
        return pending.result

    async def _make_shared_call(self, hashes: Sequence[str], make: Callable[[], Awaitable[T]]) -> T:
        """Makes a call; callers that request one of its keys in the meantime wait for the result."""
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
        """The vectors of texts, from the ledger or from ``make``; see `Embeddings.embed`."""
        # Each text has its own entry, because another run may embed the texts in other batches.
        about, hashes = {"model": parts["model"]}, hashes_of(parts)
        keys = {text: key_of("embedding", {"text": text}, hashes) for text in texts}
        found: dict[str, list[float]] = {}

        async def find_or_embed(batch: list[str]) -> dict[str, list[float]]:
            description = f"embeddings of {parts['model']}"
            if self.mode == "record":
                stored = [self.find_own(keys[text]) for text in batch]
            else:
                stored = await asyncio.gather(*(self.find(keys[text], description) for text in batch))
            entries = {text: entry for text, entry in zip(batch, stored, strict=True) if entry is not None}
            for entry in entries.values():
                if entry.about.get(FAILED):
                    raise error_from_record(entry.value)
            vectors: dict[str, list[float]] = {text: entry.value[0] for text, entry in entries.items()}
            if missing := [text for text in batch if text not in vectors]:
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
                    self.forget(keys[text].hash)  # because later calls use the encoder's own cache
            for text, pending in pending_by_text.items():
                for vectors in await self._wait_for_call(pending):
                    found[text] = vectors[text]
        return [found[text] for text in texts]

    def forget(self, hash: str) -> None:
        """Forgets the shared result of a call, so that the next caller makes the call again."""
        self._pending.pop(hash, None)


async def open_debate_ledger(
    use: LedgerUse, graph: str, given: Mapping[str, Any], settings: Any, id: str, replies: int = 0
) -> DebateLedger | None:
    """Opens the ledger for a debate that starts or is resumed; None if the ledger is off."""
    if use.mode == "off":
        return None
    ledger = open_ledger()
    if use.mode == "replay":
        return DebateLedger(use.mode, ledger, use.id or "", replies)
    # Without an id, the ledger resumes an unfinished debate (``adopt``) or makes a new id.
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
    """An input value as a JSON value; a message becomes a list, as in `key_messages`."""
    if isinstance(value, BaseMessage):
        return key_messages([value])[0]
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
