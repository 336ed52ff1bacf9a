"""The replies of one debate: finds them in the store, keeps new ones, and lets equal calls share one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from langchain_core.messages import BaseMessage
from moot.core.errors import MootError, UserError, copy_error, error_from_record
from moot.core.fingerprints import Kind, key_of
from moot.nodes._models.prices import Price
from moot.nodes._models.spend import NOTHING, Spend, spent_by
from moot.nodes._models.stored_messages import key_messages
from moot.nodes._records.entries import Call

if TYPE_CHECKING:
    from moot.core.store import Reply, Store

T = TypeVar("T")

Mode = Literal["record", "reuse", "replay", "off"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True)
class StoreUse:
    """How a debate uses the store of replies.

    Args:
        mode: ``record`` keeps replies, and uses them only to finish a debate that was interrupted or failed;
            ``reuse`` also uses the replies of other debates; ``replay`` makes no calls; ``off`` keeps nothing.
        adopt: whether to resume an unfinished debate with the same input and settings.
        id: the debate's id in the store, for a resumed or a new debate; in ``replay``, the debate whose
            replies are read first.
        idempotency_key: the request's key; equal requests with the same key are one debate.
        ends: whether a finished debate is marked as ended in the store. If not, the caller marks it (`Store.end`)
            once the caller has the document. If the caller is killed before that, the debate is resumed at no cost.
        person: the debate's owner, on a server with users.
        run: the id of the server's run that starts the debate.
        thread: the id of that run's thread.
        replaces: the id of the document whose check is debated anew: no page is taken from another debate.
    """

    mode: Mode = "off"
    adopt: bool = True
    id: str | None = None
    idempotency_key: str | None = None
    ends: bool = True
    person: str | None = None
    run: str | None = None
    thread: str | None = None
    replaces: str | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UserError(f"The mode is {self.mode!r}; it must be one of {', '.join(MODES)}.", kind="invalid_setting")


_use: ContextVar[StoreUse | None] = ContextVar("store use", default=None)


@contextmanager
def store_use(use: StoreUse) -> Iterator[None]:
    """Context manager: debates started inside it use the store of replies as ``use`` says.

    Args:
        use: the mode and its options.
    """
    if not isinstance(use, StoreUse):
        raise UserError(
            f"store_use takes StoreUse(...), such as StoreUse('reuse'), not {use!r}.", kind="invalid_setting"
        )
    token = _use.set(use)
    try:
        yield
    finally:
        _use.reset(token)


def current_use(default: Mode = "off") -> StoreUse:
    """How a new debate uses the store: as the innermost `store_use` or ``MOOT_REPLIES`` says, else ``default``."""
    if (use := _use.get()) is not None:
        return use
    mode = os.environ.get("MOOT_REPLIES") or default
    for known in MODES:
        if mode == known:
            return StoreUse(known)
    raise UserError(f"MOOT_REPLIES is {mode!r}; it must be one of {', '.join(MODES)}.", kind="invalid_environment")


@dataclass
class Pending:
    """A call for which several callers may wait."""

    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the call has returned, failed or been cancelled."""
    result: list[Any] = field(default_factory=list)
    """The result in a list; empty if the call failed or was cancelled."""
    error: Exception | None = None

    async def wait(self) -> list[Any]:
        """Waits for ``result``; raises a copy of the call's error."""
        await self.over.wait()
        if self.error is not None:
            raise copy_error(self.error)
        return self.result


@dataclass
class DebateReplies:
    """The replies of one debate, except for those of a person (`moot.cli.resuming`)."""

    mode: Mode
    store: Store
    id: str  # in ``replay``, the debate whose replies are read first; empty for no debate
    answered: int = 0  # how often a person has replied, including the reply that resumes the debate
    claim: int = 0
    """The number of the run's beginning, with which `Store.end` ends it."""
    reads_anew: bool = False
    """Whether no page is taken from another debate."""
    earlier: Mapping[str, Reply] = field(default_factory=dict)
    """The replies and failures that earlier runs of this debate have stored, by key."""
    fault: str = ""
    """Why the last reply could not be stored; empty if all were stored."""
    opened: dict[Any, Mapping[str, Any]] = field(default_factory=dict)
    """Properties of the opened sources that search a corpus, by the sources' arguments; see `open_stored_corpus`."""
    _pending: dict[str, Pending] = field(default_factory=dict)
    _kept: set[str] = field(default_factory=set)
    """The keys of texts whose vectors this run has stored."""
    _numbers: dict[str, dict[Any, int]] = field(default_factory=dict)

    def number(self, call: str, moment: Any) -> int:
        """How many moments came before at which the same call was made; calls of one moment share a reply."""
        moments = self._numbers.setdefault(call, {})
        return moments.setdefault(moment, len(moments))

    async def find(self, keys: Sequence[str], what: str) -> dict[str, Reply]:
        """The stored replies for keys, in a replay also failures; in a replay, each key without one is an error."""
        if self.mode == "record":
            found = {key: reply for key in keys if (reply := self.earlier.get(key)) and not reply.failed}
        else:
            is_replay = self.mode == "replay"
            found = await self.store.soon(self.store.find, keys, self.id, failed=is_replay)
            if is_replay and any(key not in found or found[key].packed is None for key in keys):
                raise replay_miss(what)
        return found

    async def keep(
        self,
        kind: Kind,
        values: Mapping[str, Any],  # by key; None for a reply that is not known yet
        about: Mapping[str, Any],
        *,
        failed: bool = False,  # whether only a replay may read it
        paid: Spend = NOTHING,
        sent: Spend = NOTHING,
    ) -> None:
        """Stores replies, except in a replay; if this fails, ``fault`` tells why."""
        if self.mode == "replay" or not values:
            return
        from moot.core.store import Reply

        replies = [Reply(self.id, key, kind, about, None, failed, paid, sent) for key in values]
        try:
            # A cancellation must not lose a reply that has arrived and waits for its turn in the store.
            await asyncio.shield(self.store.soon(self.store.keep, list(zip(replies, values.values(), strict=True))))
        except MootError as error:
            self.fault = error.detail

    def lost_spend(self, counted: Sequence[Call], prices: Mapping[str, Price]) -> Spend:
        """The cost of earlier runs' requests whose replies were lost or not usable, without the ``counted`` calls."""
        total = NOTHING
        for reply in self.earlier.values():
            calls = (reply.value or {}).get("calls", ()) if reply.failed and any(reply.sent) else ()
            known = spent_by([call for call in calls if call in counted], prices)
            total = total.plus(Spend(*(max(0, sent - own) for sent, own in zip(reply.sent, known, strict=True))))
        return total

    async def once(self, key: str, make: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """Makes a call once for all callers until `forget`; returns its result, and whether another caller made it."""
        # If the caller that makes the call is cancelled, one of the waiting callers makes it.
        while (pending := self._pending.get(key)) is not None:
            for result in await pending.wait():
                return result, True
        return await self._share([key], make), False

    async def _share(self, keys: Sequence[str], make: Callable[[], Awaitable[T]]) -> T:
        """Makes a call; callers that request one of its keys in the meantime wait for the result."""
        pending = Pending()
        self._pending |= dict.fromkeys(keys, pending)
        try:
            result = await make()
            pending.result.append(result)
        except BaseException as error:
            pending.error = error if isinstance(error, Exception) else None
            self.forget(*keys)
            raise
        finally:
            pending.over.set()
        return result

    def forget(self, *keys: str) -> None:
        """Forgets the shared results of calls, so that the next caller makes the call again."""
        for key in keys:
            self._pending.pop(key, None)

    async def embed(
        self, parts: Mapping[str, Any], texts: Sequence[str], make: Callable[[list[str]], Awaitable[list[list[float]]]]
    ) -> list[list[float]]:
        """The vectors of texts, from the store or from ``make``; see `moot.retrievers._encoders.Embeddings`."""
        # Each text has its own reply, because another run may embed the texts in other batches.
        keys = {text: key_of("embedding", {**parts, "text": text}) for text in texts}
        about, vectors = {"model": parts["model"]}, dict[str, list[float]]()

        async def find_or_embed(batch: list[str]) -> dict[str, list[float]]:
            found = await self.find([keys[text] for text in batch], f"embeddings of {parts['model']}")
            for reply in found.values():
                if reply.failed:
                    raise error_from_record(reply.value)
            stored = {text: found[keys[text]].value for text in batch if keys[text] in found}
            if not (missing := [text for text in batch if text not in stored]):
                return stored
            try:
                fresh = dict(zip(missing, await make(missing), strict=True))
            except MootError as error:
                await self.keep("embedding", {keys[text]: error.record("") for text in missing}, about, failed=True)
                raise
            await self.keep(
                "embedding",
                {key: vector for text, vector in fresh.items() if (key := keys[text]) not in self._kept},
                about,
            )
            self._kept.update(keys[text] for text in fresh)
            return stored | fresh

        while missing := [text for text in keys if text not in vectors]:
            shared = {text: pending for text in missing if (pending := self._pending.get(keys[text]))}
            if own := [text for text in missing if text not in shared]:
                vectors |= await self._share([keys[text] for text in own], partial(find_or_embed, own))
                self.forget(*(keys[text] for text in own))  # because later calls use the encoder's own cache
            for text, pending in shared.items():
                for found in await pending.wait():
                    vectors[text] = found[text]
        return [vectors[text] for text in texts]


def replay_miss(what: str) -> UserError:
    """The error of a replay that needs a reply that is not stored; ``what`` says of which call."""
    return UserError(
        f"A replay makes no calls, and there is no stored reply for {what}. Replay with the input, the settings and "
        "the version of moot that the debate was recorded with, or use `--replies record`.",
        kind="replay_miss",
    )


async def open_replies(
    use: StoreUse, graph: str, given: Mapping[str, Any], settings: Any, id: str, answered: int = 0
) -> DebateReplies | None:
    """Opens the replies of a debate that starts or is resumed; None if nothing is stored."""
    if use.mode == "off":
        return None
    from moot.core.store import open_store

    store = open_store()
    if use.mode == "replay":
        return DebateReplies(use.mode, store, use.id or "", answered)
    # Without an id, the store resumes an unfinished debate (``adopt``) or makes a new id.
    begun = await store.begun(
        graph,
        stored_input(given),
        settings,
        adopt=use.adopt,
        id=id or use.id,
        idempotency_key=use.idempotency_key,
        person=use.person,
        server_run=use.run,
        thread=use.thread,
        replaces=use.replaces,
    )
    if not begun.owned:
        raise UserError(
            f"This request was made before: it is the debate {begun.id}. Use a new idempotency key to start another "
            "debate.",
            kind="debate_running",
        )
    earlier = await store.soon(store.replies, begun.id) if begun.resumed else {}
    return DebateReplies(use.mode, store, begun.id, answered, begun.claim, bool(use.replaces), earlier)


def stored_input(given: Mapping[str, Any]) -> dict[str, Any]:
    """A debate's input as it is stored: plain values, without None and empty lists."""
    return {name: _plain(value) for name, value in given.items() if value is not None and value != []}


def _plain(value: Any) -> Any:
    """An input value as a JSON value; a message becomes a list, as in `key_messages`."""
    if isinstance(value, BaseMessage):
        return key_messages([value])[0]
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
