"""Runs a debate: reports the writes of its nodes, and returns a document even if the debate is interrupted."""

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
"""The first and the last node of a debate. In an inner debate, their writes concern only the inner debate."""
Update = Callable[[dict[str, Any]], None]
"""Called with a node's writes."""


class DebateRun:
    """A running debate, until it ends or waits for a person; ``update`` is called with each node's writes."""

    def __init__(self, graph: CompiledStateGraph[Any, Any, Any, Any], settings: Settings, update: Update) -> None:
        saver = InMemorySaver() if getattr(settings, "ask_person", ()) else None
        self.graph = graph.builder.compile(checkpointer=saver, name=graph.name) if saver else graph
        self.settings = settings.with_document()
        self.update = update
        self.waits: dict[str, Any] = {}
        self.state: dict[str, Any] = {}
        self.inner: list[tuple[tuple[str, ...], dict[str, Any]]] = []

    async def run(self, given: Any) -> dict[str, Any]:
        """Runs the debate until it ends, waits for a person or is cancelled after its opening; returns its document."""
        self.waits = {}
        try:
            await self._stream(given)
        except asyncio.CancelledError:
            if "started_at" not in self.state:
                raise
            self.waits = {}
            return self._unfinished()
        finally:
            with suppress(asyncio.CancelledError):  # a cancellation at this point must not discard the document
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
                    self.inner = [*without_ended_runs(self.inner, (*place, node), written), (place, written)]
                    self.update(written)
            elif mode == "updates" and not place:
                self.waits |= {wait.id: wait.value for wait in chunk[INTERRUPT]}

    def _take_state(self, values: dict[str, Any]) -> None:
        """Stores the debate's state after a superstep."""
        if INTERRUPT not in values and values != self.state:
            self.state = values
            # The state contains the writes now, except those of inner graphs while the debate waits for a person.
            self.inner = [(place, written) for place, written in self.inner if place and self.waits]

    def _unfinished(self) -> dict[str, Any]:
        return unfinished(self.state, [written for _, written in self.inner])


Written = tuple[tuple[str, ...], dict[str, Any]]
"""The path of the inner graphs that contain a node, and the node's writes. Each part of the path is ``name:run``."""


def without_ended_runs(
    written: list[Written], graph: tuple[str, ...], written_at_end: Mapping[str, Any]
) -> list[Written]:
    """Removes the writes of the steps of an inner graph that has ended: ``written_at_end`` contains them."""
    depth = len(graph)
    turns = {turn_key(turn) for turn in written_at_end.get("turns") or ()}
    calls = written_at_end.get("calls") or ()

    def run_of(place: tuple[str, ...]) -> tuple[str, ...] | None:
        within = len(place) >= depth and (*place[: depth - 1], place[depth - 1].partition(":")[0]) == graph
        return place[:depth] if within else None

    # The graph may run several times in parallel. A run with a turn or a call that is not in ``written_at_end`` goes
    # on.
    under_way = {
        run_of(place)
        for place, update in written
        if any(turn_key(turn) not in turns for turn in update.get("turns") or ())
        or any(call not in calls for call in update.get("calls") or ())
    }
    return [(place, update) for place, update in written if run_of(place) is None or run_of(place) in under_way]
