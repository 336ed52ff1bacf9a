"""What one run of a debate shares among its nodes: which debate it is, and what it has spent."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from moot.core.errors import MootError
from moot.core.ledger.records import Status
from moot.core.redaction import Keys, held_keys
from moot.nodes.models.ceilings import Ceilings, open_ceilings
from moot.nodes.models.keeping import Keeping, LedgerUse, begin_keeping
from moot.nodes.records.entries import PERSON
from moot.nodes.telemetry.logs import tell_begun, tell_ended

if TYPE_CHECKING:
    from moot.nodes.telemetry.observed import DebateWatch

log = logging.getLogger(__name__)

SESSION = "__moot_session"
"""Its key in LangGraph's ``configurable``; keys that begin like this are in no trace and no checkpoint."""
CEILINGS = "__moot_ceilings"
"""The key of the ceilings of a debate within a debate."""


@dataclass
class Session:
    """One run of a debate, from its first node or from where it waited; graphs within it share it.

    Args:
        before: the state of the debate as an earlier run left it; empty for a new debate.
        use: how its calls use the ledger; by default not at all.
    """

    before: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""
    use: LedgerUse = field(default_factory=LedgerUse)
    keeping: Keeping | None = None
    """The ledger as this debate's calls use it, once it has begun."""
    document: dict[str, Any] | None = None
    """The result document, once the debate is closed."""
    finished: Status | None = None
    """How a run ended that leaves no document."""
    recorder: Recorder | None = None
    """Who is told of this debate beside the ledger, to its end."""
    run: RunnableConfig = field(default_factory=RunnableConfig)
    """The config that the run was started with."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """The debate's state after its last superstep, if there is a `Recorder`."""
    written: list[Mapping[str, Any]] = field(default_factory=list)
    """What nodes of the run wrote, those of graphs within it too, if there is a `Recorder`."""
    parts: dict[int, Ceilings] = field(default_factory=dict)
    """Of a text that is read in parts, what those may spend that are being read, by where they begin."""
    ceilings: Ceilings = field(default_factory=open_ceilings)
    """What the debate may spend; debates within it have ceilings of their own, see `current_ceilings`."""

    watch: DebateWatch | None = None
    """What telemetry sees of the run; None if it is off."""

    _seeded: dict[int, dict[Any, int]] = field(default_factory=dict)
    _graph: str = ""
    _started: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self.id = self.id or self.before.get("id") or ""
        if budget := self.before.get("budget"):
            self.ceilings.take_up(budget, self.before.get("calls") or [])

    async def begin(self, graph: str, given: Mapping[str, Any], settings: Any) -> str:
        """Begins a debate, before any model is called; its id. A debate within a debate is part of it.

        Args:
            graph: the system.
            given: the input, as the debate was asked for.
            settings: the debate's.
        """
        if self.keeping is None:
            self.keeping = await begin_keeping(self.use, graph, given, settings.recorded(), self.id)
        self.id = self.keeping.id if self.keeping and self.is_written else self.id or uuid4().hex
        self._told(graph, again=False)
        await self._begun()
        return self.id

    async def go_on(self, *, replied: bool) -> None:
        """The debate goes on from where its state was left.

        Args:
            replied: whether it goes on with a person's reply.
        """
        if self.id and self.keeping is None:
            given = {"claim": self.before.get("opened"), "task": self.before.get("task")}
            graph, settings = self.before.get("graph") or "", self.before.get("settings")
            replies = replied + sum(turn["agent"] == PERSON for turn in self.before.get("turns") or ())
            self.keeping = await begin_keeping(self.use, graph, given, settings, self.id, replies)
            self._told(graph, again=True)
            await self._begun()

    def _told(self, graph: str, *, again: bool) -> None:
        """Telemetry and the log hear which debate it is."""
        self._graph = graph
        tell_begun(self.id, graph, again=again)
        if self.watch:
            self.watch.begun(self.id)

    async def _begun(self) -> None:
        if self.is_written and self.recorder:
            await self.recorder.begun(self)

    @cached_property
    def keys(self) -> Keys:
        """The keys that the environment holds, which no reply may repeat."""
        return held_keys()

    @property
    def is_written(self) -> bool:
        """Whether the ledger has a row for this debate."""
        return self.keeping is not None and self.keeping.mode != "replay"

    async def end(self, error: BaseException | None = None) -> None:
        """The run is over: the debate is closed, or waits for a person, or was interrupted.

        Args:
            error: what ended the run before its end.
        """
        self.ceilings.end()
        status = self._status(error)
        if self.watch:
            self.watch.ended(status, self.document, error)
        if self.id:
            seconds = time.perf_counter() - self._started
            tell_ended(self.id, self._graph, status, seconds, self.document, error)
        ending = asyncio.create_task(self._end(error))
        _ending.add(ending)
        ending.add_done_callback(_ending.discard)
        await asyncio.shield(ending)  # who stops the run does not stop this

    async def _end(self, error: BaseException | None) -> None:
        path = note = None
        if self.id and self.recorder and self.finished is None:
            path, note = await self.recorder.ended(self, error)
        if self.keeping is None or not self.is_written:
            return
        if self.document is not None and not self.use.ends:
            return
        try:
            await self.keeping.ledger.end(self.id, self._status(error), path, note)
        except MootError as fault:  # the debate itself is not to be lost for it; its row says that it was interrupted
            log.error("%s", fault.detail)

    def _status(self, error: BaseException | None) -> Status:
        """How the run ends."""
        if self.document is not None:
            return "done" if self.document["status"] == "done" else "failed"
        if self.finished is not None:
            return self.finished
        if error is None:
            return "waiting" if self.id else "done"
        return "failed" if isinstance(error, Exception) else "interrupted"

    def earlier(self, seed: int, place: Any) -> int:
        """How many earlier places of the run have come to this seed; those who ask at one place may share it."""
        places = self._seeded.setdefault(seed, {})
        return places.setdefault(place, len(places))

    def wrote(self, update: Mapping[str, Any]) -> None:
        """Notes what a node wrote; until the superstep is over, it is in no state of the debate."""
        if self.recorder and update:
            self.written.append(update)


class Recorder(Protocol):
    """What a process does with every debate that runs in it, beside the ledger: the server; see `recorded_in`."""

    def use(self, run: RunnableConfig) -> LedgerUse:
        """How a run uses the ledger."""

    async def begun(self, session: Session) -> None:
        """A debate has a row in the ledger, and its first call comes."""

    async def ended(self, session: Session, error: BaseException | None) -> tuple[str | None, str | None]:
        """A run of a debate is over: the path of its document, and what else its row is to say."""


_recorder: list[Recorder] = []
_ending: set[asyncio.Task[None]] = set()


@contextmanager
def recorded_in(recorder: Recorder) -> Iterator[None]:
    """Within it every debate that runs in this process is handed to a recorder, too."""
    _recorder.append(recorder)
    try:
        yield
    finally:
        _recorder.remove(recorder)


def recording() -> Recorder | None:
    """The recorder of this process, if it has one."""
    return _recorder[-1] if _recorder else None


def current_session() -> Session:
    """The session of the debate whose node runs; a new one for a node in a graph that is no debate."""
    found = session_in(var_child_runnable_config.get())
    return Session() if found is None else found


def current_ceilings() -> Ceilings:
    """The ceilings of the debate whose node runs, be it within another one; new ones in a graph that is no debate."""
    return ceilings_in(var_child_runnable_config.get()) or open_ceilings()


def ceilings_in(config: RunnableConfig | None) -> Ceilings | None:
    """The ceilings of the debate that a config is of, if it is of one."""
    found: Ceilings | None = ((config or {}).get("configurable") or {}).get(CEILINGS)
    session = session_in(config)
    return found or (session.ceilings if session else None)


def within(config: RunnableConfig | None, ceilings: Ceilings) -> RunnableConfig:
    """The config of a debate within a debate."""
    config = config or {}
    return {**config, "configurable": {**(config.get("configurable") or {}), CEILINGS: ceilings}}


def session_in(config: RunnableConfig | None) -> Session | None:
    """The session that a config holds, if it holds one."""
    found: Session | None = ((config or {}).get("configurable") or {}).get(SESSION)
    return found


def with_session(config: RunnableConfig | None, session: Session) -> RunnableConfig:
    """The config with a session."""
    config = config or {}
    return {**config, "configurable": {**(config.get("configurable") or {}), SESSION: session}}
