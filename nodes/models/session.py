"""What one run of a debate shares among its nodes: which debate it is, and what it has spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from moot.core.ledger_records import Status
from moot.nodes.models.keeping import Keeping, LedgerUse, begin_keeping

SESSION = "__moot_session"
"""Its key in LangGraph's ``configurable``; keys that begin like this are in no trace and no checkpoint."""


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

    def __post_init__(self) -> None:
        self.id = self.id or self.before.get("id") or ""

    async def begin(self, graph: str, given: Mapping[str, Any], settings: Any) -> str:
        """Begins a debate, before any model is called; its id. A debate within a debate is part of it.

        Args:
            graph: the system.
            given: the input, as the debate was asked for.
            settings: the debate's.
        """
        if self.keeping is None:
            self.keeping = await begin_keeping(self.use, graph, given, settings.recorded(), self.id)
        written = self.keeping is not None and self.keeping.mode != "replay"
        self.id = self.keeping.id if self.keeping and written else self.id or uuid4().hex
        return self.id

    async def go_on(self) -> None:
        """The debate goes on from where its state was left."""
        if self.id and self.keeping is None:
            given = {"claim": self.before.get("opened"), "task": self.before.get("task")}
            graph, settings = self.before.get("graph") or "", self.before.get("settings")
            self.keeping = await begin_keeping(self.use, graph, given, settings, self.id)

    async def end(self, *, whole: bool = True) -> None:
        """The run is over: the debate is closed, or waits for a person, or was interrupted.

        Args:
            whole: whether the run came to its end: then a debate that is not closed waits for a person.
        """
        if self.keeping is None or self.keeping.mode == "replay":
            return
        if self.document is None:
            status: Status = "waiting" if whole else "interrupted"
        else:
            status = "done" if self.document["status"] == "done" else "failed"
        await self.keeping.ledger.end(self.id, status)


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
