"""What one run of a debate shares among its nodes: which debate it is, and what it has spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config

SESSION = "__moot_session"
"""Its key in LangGraph's ``configurable``; keys that begin like this are in no trace and no checkpoint."""


@dataclass
class Session:
    """One run of a debate, from its first node or from where it waited; graphs within it share it.

    Args:
        before: the state of the debate as an earlier run left it; empty for a new debate.
    """

    before: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""
    document: dict[str, Any] | None = None
    """The result document, once the debate is closed."""
    run: RunnableConfig = field(default_factory=RunnableConfig)
    """The config that the run was started with."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """The debate's state after its last superstep, if there is a `Recorder`."""
    written: list[Mapping[str, Any]] = field(default_factory=list)
    """What nodes of the run wrote, those of graphs within it too, if there is a `Recorder`."""

    def __post_init__(self) -> None:
        self.id = self.id or self.before.get("id") or ""

    async def begin(self, graph: str, given: Mapping[str, Any], settings: Any) -> str:
        """Begins a debate, before any model is called; its id. A debate within a debate is part of it.

        Args:
            graph: the system.
            given: the input, as the debate was asked for.
            settings: the debate's.
        """
        if not self.id and (recorder := recording()):
            self.id = await recorder.begin(self, graph, given, settings)
        self.id = self.id or uuid4().hex
        return self.id

    async def resume(self) -> None:
        """Goes on with the debate of an earlier run, before any of its nodes run."""
        if self.id and (recorder := recording()):
            await recorder.resume(self)

    async def end(self, error: BaseException | None = None) -> None:
        """The run is over: the debate is closed, or waits for a person, or was interrupted.

        Args:
            error: what ended the run before its time.
        """
        if self.id and (recorder := recording()):
            await recorder.end(self, error)

    def wrote(self, update: Mapping[str, Any]) -> None:
        """Notes what a node wrote; until the superstep is over, it is in no state of the debate."""
        if recording() and update:
            self.written.append(update)


class Recorder(Protocol):
    """What a process notes of every debate that runs in it, such as the server's table; see `record_in`."""

    async def begin(self, session: Session, graph: str, given: Mapping[str, Any], settings: Any) -> str:
        """A debate begins, before its first call; its id."""

    async def resume(self, session: Session) -> None:
        """A debate goes on that an earlier run began."""

    async def end(self, session: Session, error: BaseException | None) -> None:
        """A run of a debate is over."""


_recorder: list[Recorder] = []


def record_in(recorder: Recorder) -> None:
    """Has every debate that runs in this process from now on noted."""
    _recorder[:] = [recorder]


def recording() -> Recorder | None:
    """What debates of this process are noted in, if they are."""
    return _recorder[0] if _recorder else None


def current_session() -> Session:
    """The session of the debate whose node runs; a new one for a node in a graph that is no debate."""
    found = session_in(var_child_runnable_config.get())
    return Session() if found is None else found


def session_in(config: RunnableConfig | None) -> Session | None:
    """The session that a config holds, if it holds one."""
    found: Session | None = ((config or {}).get("configurable") or {}).get(SESSION)
    return found


def with_session(config: RunnableConfig | None, session: Session) -> RunnableConfig:
    """The config with a session."""
    config = config or {}
    return {**config, "configurable": {**(config.get("configurable") or {}), SESSION: session}}
