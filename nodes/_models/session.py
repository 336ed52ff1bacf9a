"""The session of a debate's run: the id, the replies, the ceilings and the recorder that all its nodes share."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from moot.core.errors import MootError
from moot.core.fingerprints import Status
from moot.core.redaction import Keys, environment_keys
from moot.core.telemetry import log_begin, log_end
from moot.nodes._models.budget import Budget, new_budget
from moot.nodes._models.replies import DebateReplies, StoreUse, open_replies
from moot.nodes._models.spend import NOTHING, Spend
from moot.nodes._models.stored_pages import DebatePages
from moot.nodes._records.entries import PERSON

if TYPE_CHECKING:
    from moot.core.store import Document

log = logging.getLogger(__name__)

SESSION = "__moot_session"
"""The session's key in LangGraph's ``configurable``. Keys that begin with ``__`` are not in traces or checkpoints."""
BUDGET = "__moot_budget"
"""The key in ``configurable`` for the ceilings of a debate within a debate."""


@dataclass
class Session:
    """One run of a debate, from its first node or its resumption; a graph in one of its nodes uses the same session."""

    before: Mapping[str, Any] = field(default_factory=dict)  # the state after an earlier run; empty for a new debate
    id: str = ""  # by default that in ``before``; empty until a new debate begins
    use: StoreUse = field(default_factory=StoreUse)
    replies: DebateReplies | None = None
    """The stored replies; None before the debate begins, and if nothing is stored."""
    document: dict[str, Any] | None = None
    """The result document, once the debate is closed."""
    finished: Status | None = None
    """The final status of a run of `find_claims`, or of a run with nothing to do, because an earlier run has recorded
    the debate's document. None for any other run."""
    recorder: Recorder | None = None
    """The recorder that is called when the debate begins and ends."""
    run: RunnableConfig = field(default_factory=RunnableConfig)
    """The config that the run was started with."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """The debate's state after its last superstep, if there is a `Recorder`."""
    written: list[Mapping[str, Any]] = field(default_factory=list)
    """The writes of the run's nodes, including nodes of inner graphs, if they are kept."""
    keeps_writes: bool = False
    """Whether ``written`` is kept although there is no `Recorder`."""
    parts: dict[int, Budget] = field(default_factory=dict)
    """The ceilings of those parts of a text that are now being read, by the index of the part's first character."""
    pages: DebatePages = field(default_factory=DebatePages)
    """The web pages that the debate has read."""
    budget: Budget = field(default_factory=new_budget)
    """The debate's ceilings; each debate within it has its own (`current_budget`)."""

    _places: dict[int, dict[Any, int]] = field(default_factory=dict)
    """For each seed, the results of `count_earlier_places` by place."""
    _graph: str = ""
    _started: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self.continue_from(self.before)

    def continue_from(self, before: Mapping[str, Any]) -> None:
        """Takes the id, the bounds and the spending from the state of the debate after an earlier run."""
        self.before = before
        self.id = self.id or before.get("id") or ""
        if budget := before.get("budget"):
            self.budget.resume(budget, before.get("calls") or [])

    async def begin(self, graph: str, given: Mapping[str, Any], settings: Any) -> str:
        """Records that a debate starts, before its first call; returns its id, or the outer debate's id."""
        if self.replies is None:
            self.replies = await open_replies(self.use, graph, given, settings.recorded(), self.id)
        self.id = self.replies.id if self.replies and self.has_row else self.id or uuid4().hex
        if not self._graph:  # in an inner debate, this is the outer debate's graph
            self._announce(graph, resumed=False)
            await self._notify_recorder()
        return self.id

    async def resume(self, *, replied: bool) -> None:
        """Records that the debate is resumed (``replied``: by a person's reply), unless the saved state has no id."""
        if self.id and self.replies is None:
            given = {"claim": self.before.get("opened"), "task": self.before.get("task")}
            graph, settings = self.before.get("graph") or "", self.before.get("settings")
            answered = replied + sum(turn["agent"] == PERSON for turn in self.before.get("turns") or ())
            self.replies = await open_replies(self.use, graph, given, settings, self.id, answered)
            self.budget.count_lost_calls(self.lost_spend(self.budget))
            self._announce(graph, resumed=True)
            await self._notify_recorder()

    def lost_spend(self, budget: Budget) -> Spend:
        """The cost of earlier runs' calls whose replies were lost; zero for the ceilings of an inner debate."""
        if not self.replies or budget is not self.budget:  # the outer ceilings count these calls
            return NOTHING
        # On a server's thread, the state of the earlier run has its calls without a usable reply already.
        return self.replies.lost_spend(self.before.get("calls") or (), budget.prices)

    def skip(self, document: dict[str, Any], *, is_recorded: bool) -> None:
        """Ends a run with nothing to do: an earlier run finished the debate and perhaps recorded its document."""
        if is_recorded:
            self.finished = "done" if document.get("status") == "done" else "failed"
            self.recorder = None
        else:
            self.document = document

    def _announce(self, graph: str, *, resumed: bool) -> None:
        """Logs that the debate begins or goes on."""
        self._graph = graph
        log_begin(self.id, graph, resumed=resumed)

    async def _notify_recorder(self) -> None:
        """Tells the recorder that the debate begins or is resumed, if the store has a row for the debate."""
        if self.has_row and self.recorder:
            await self.recorder.begun(self)

    @cached_property
    def keys(self) -> Keys:
        """The API keys in the environment; replies must not contain them."""
        return environment_keys()

    @property
    def has_row(self) -> bool:
        """Whether the store has a row for this debate."""
        return self.replies is not None and self.replies.mode != "replay"

    async def end(self, error: BaseException | None = None) -> None:
        """Ends the run, and records whether the debate is finished, has failed, waits or was interrupted."""
        self.budget.release_held()
        status = self._status(error)
        if self.id:
            seconds = time.perf_counter() - self._started
            log_end(self.id, self._graph, status, seconds, self.document, error)
        ending = asyncio.create_task(self._end(error))
        _ending.add(ending)
        ending.add_done_callback(_ending.discard)
        await asyncio.shield(ending)  # so that a cancellation of the run does not cancel the task

    async def _end(self, error: BaseException | None) -> None:
        """Calls the recorder, and writes its document and the status to the store in one transaction."""
        document = note = None
        if self.id and self.recorder:
            document, note = await self.recorder.ended(self, error)
        try:
            if self.replies is not None and self.has_row:
                # The code that started the run writes the status of a debate with a document.
                if self.document is None or self.use.ends:
                    store, status, claim = self.replies.store, self._status(error), self.replies.claim
                    if not await store.soon(store.end, self.id, status, document, note, claim=claim):
                        log.warning("The debate %s goes on elsewhere, or has ended there.", self.id)
            elif document is not None:
                from moot.core.store import open_store

                store = open_store()
                await store.soon(store.put, document)
        except MootError as fault:  # the debate must not fail; its row counts as interrupted later
            log.error("%s", fault.detail)

    def _status(self, error: BaseException | None) -> Status:
        """The status of the run at its end."""
        if self.document is not None:
            return "done" if self.document["status"] == "done" else "failed"
        if self.finished is not None:
            return self.finished
        if error is None:
            return "waiting" if self.id else "done"
        return "failed" if isinstance(error, Exception) else "interrupted"

    def count_earlier_places(self, seed: int, place: Any) -> int:
        """How many other places of the run made a request with this seed before the given place did."""
        # A place is the request, the step that makes it, and the repetition in this step. A place's number does not
        # change, so that equal calls at one place get the same seed.
        places = self._places.setdefault(seed, {})
        return places.setdefault(place, len(places))

    def note_writes(self, update: Mapping[str, Any]) -> None:
        """Keeps a node's writes, because the debate's state has them only after the superstep."""
        if (self.recorder or self.keeps_writes) and update:
            self.written.append(update)


class Recorder(Protocol):
    """The interface of a recorder, which is called when a run of a debate begins and ends; see `report_to`."""

    def use(self, run: RunnableConfig) -> StoreUse:
        """How a run uses the store of replies."""

    def reservation(self, use: StoreUse, settings: Mapping[str, Any]) -> AbstractAsyncContextManager[Budget | None]:
        """A context manager for a whole run: it may yield ceilings that the run must stay within."""

    async def begun(self, session: Session) -> None:
        """Called when a debate with a row in the store begins or is resumed, before the run's first call."""

    async def ended(self, session: Session, error: BaseException | None) -> tuple[Document | None, str | None]:
        """Called at the end of a run whose debate has an id; returns what the store takes: a document, and a note."""


_recorders: list[Recorder] = []
_ending: set[asyncio.Task[None]] = set()
"""Tasks that end a run, kept here so that they are not garbage-collected."""


@contextmanager
def report_to(recorder: Recorder) -> Iterator[None]:
    """Context manager: inside it, this recorder and no outer one is called for each debate that starts or resumes."""
    _recorders.append(recorder)
    try:
        yield
    finally:
        _recorders.remove(recorder)


def current_recorder() -> Recorder | None:
    """The recorder of the innermost `report_to`; None outside of `report_to`."""
    return _recorders[-1] if _recorders else None


def current_session() -> Session:
    """The session of the running node's debate; a new session in a graph that is not a debate."""
    found = session_in(var_child_runnable_config.get())
    return Session() if found is None else found


def current_budget() -> Budget:
    """The ceilings of the running node's debate or inner debate; new ceilings in a graph that is not a debate."""
    return budget_in(var_child_runnable_config.get()) or new_budget()


def budget_in(config: RunnableConfig | None) -> Budget | None:
    """The ceilings in a config; None if the config does not belong to a debate."""
    found = ((config or {}).get("configurable") or {}).get(BUDGET)
    session = session_in(config)
    return found if isinstance(found, Budget) else session.budget if session else None


def session_in(config: RunnableConfig | None) -> Session | None:
    """The session in a config; None without a session, or if a server's client has put another value under the key."""
    found = ((config or {}).get("configurable") or {}).get(SESSION)
    return found if isinstance(found, Session) else None


def with_session(config: RunnableConfig | None, session: Session, budget: Budget | None = None) -> RunnableConfig:
    """A copy of the config, with a session and, for a debate within a debate, with the inner debate's ceilings."""
    config, inner = config or {}, {BUDGET: budget} if budget else {}
    return {**config, "configurable": {**(config.get("configurable") or {}), SESSION: session, **inner}}
