"""A running debate: reports the writes of its nodes, and returns a document even if it is interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph
from moot.core.endpoint import close_clients
from moot.nodes._records.reducers import OPENING, turn_key, written_values
from moot.nodes._runtime.document import document_of, unfinished
from moot.nodes._runtime.graph import CLOSE
from moot.nodes._runtime.settings import Settings

INTERRUPT = "__interrupt__"
OPEN_AND_CLOSE = (OPENING, CLOSE)
"""The first and last node of a debate; in an inner debate, their writes concern only that debate."""
Update = Callable[[dict[str, Any]], None]
"""Called with a node's writes."""


class DebateRun:
    """A running debate, until it ends or waits for a person.

    Args:
        graph: the debate's system.
        settings: its settings.
        update: called with each node's writes.
    """

    def __init__(self, graph: CompiledStateGraph[Any, Any, Any, Any], settings: Settings, update: Update) -> None:
        saver = InMemorySaver() if getattr(settings, "ask_person", ()) else None
        self.graph = graph.builder.compile(checkpointer=saver, name=graph.name) if saver else graph
        self.settings = settings
        self.update = update
        self.waits: dict[str, Any] = {}
        self.state: dict[str, Any] = {}
        self.inner: list[tuple[tuple[str, ...], dict[str, Any]]] = []

    async def run(self, given: Any) -> dict[str, Any]:
        """Runs the debate until it ends or waits; returns its document.

        A debate that is interrupted after its opening has a document, too, with its results so far, including those of
        inner graphs.
        """
        self.waits = {}
        try:
            await self._stream(given)
        except asyncio.CancelledError:
            if "started_at" not in self.state:
                raise
            self.waits = {}
            return self._unfinished()
        finally:
            with suppress(asyncio.CancelledError):  # the results are already there, so a cancellation comes too late
                await close_clients()
        return self._unfinished() if self.waits else document_of(self.state)

    async def _stream(self, given: Any) -> None:
        config: Any = {"configurable": {"thread_id": "moot"}}
        modes: Any = ["updates", "values"]
        stream: Any = self.graph.astream(given, config, context=self.settings, stream_mode=modes, subgraphs=True)
        async for place, mode, chunk in stream:
            if mode == "values" and not place:
                self._take_state(chunk)
            elif mode == "updates" and INTERRUPT not in chunk:
                for node, update in chunk.items():
                    if place and node in OPEN_AND_CLOSE:
                        continue
                    written = written_values(update or {})
                    self.inner = [*without_steps(self.inner, (*place, node), written), (place, written)]
                    self.update(written)
            elif mode == "updates" and not place:
                self.waits |= {wait.id: wait.value for wait in chunk[INTERRUPT]}

    def _take_state(self, values: dict[str, Any]) -> None:
        """Stores the debate's state after a superstep.

        The state contains the collected writes, so these are dropped. If the debate waits for a person, the writes of
        inner graphs are not in the state yet, and stay.
        """
        if INTERRUPT not in values and values != self.state:
            self.state = values
            self.inner = [(place, written) for place, written in self.inner if place and self.waits]

    def _unfinished(self) -> dict[str, Any]:
        return unfinished(self.state, [written for _, written in self.inner])


Written = tuple[tuple[str, ...], dict[str, Any]]
"""A write, with the path of the inner graphs that contain its node; each part of the path is ``name:run``."""


def without_steps(written: list[Written], graph: tuple[str, ...], written_at_end: Mapping[str, Any]) -> list[Written]:
    """Removes the writes of the steps of an inner graph that has ended, because the graph's own write contains them.

    The graph may run several times in parallel. The writes of a run stay if the graph's own write lacks any of them,
    because that run has not ended.

    Args:
        written: the writes of the debate's steps.
        graph: the path of a node that has ended, and that may be an inner graph; the last part has no run.
        written_at_end: the writes of that node when it ended.
    """
    depth = len(graph)
    turns = {turn_key(turn) for turn in written_at_end.get("turns") or ()}
    calls = written_at_end.get("calls") or ()

    def run_of(place: tuple[str, ...]) -> tuple[str, ...] | None:
        within = len(place) >= depth and (*place[: depth - 1], place[depth - 1].partition(":")[0]) == graph
        return place[:depth] if within else None

    under_way = {
        run_of(place)
        for place, update in written
        if any(turn_key(turn) not in turns for turn in update.get("turns") or ())
        or any(call not in calls for call in update.get("calls") or ())
    }
    return [(place, update) for place, update in written if run_of(place) is None or run_of(place) in under_way]
