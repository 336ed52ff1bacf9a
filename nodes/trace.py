"""What the runs of a trace say of themselves: who speaks, in which round and phase, as LangSmith's tags and metadata.

Without a trace nothing happens here but the look for one; a call's tags and metadata are there for those who stream its
tokens, too (``stream_mode="messages"``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers import LangChainTracer
from langsmith import RunTree, get_current_run_tree


class Place(Protocol):
    """Where a debate is: a node's ledger."""

    node: str
    phase: str
    round: int
    agent: str | None
    number: int | None

    def place(self) -> str:
        """The same in words."""
        ...


def is_turn(state: Mapping[str, Any]) -> bool:
    """Whether a state is that of a single turn."""
    return "rounds" not in state and len(state.get("turns") or ()) == 1


def tags_of(place: Place) -> list[str]:
    """The round, whose turn it is, and the phase where there are several, as tags: ``round:2``, ``agent:rag``."""
    said = {"round": place.round, "agent": place.agent, "phase": "" if place.phase == "primary" else place.phase}
    return [f"{name}:{value}" for name, value in said.items() if value]


def facts_of(place: Place) -> dict[str, Any]:
    """The same as metadata, as calls record it."""
    said = {"agent": place.agent, "round": place.round, "phase": place.phase, "number": place.number}
    return {name: value for name, value in said.items() if value is not None}


@contextmanager
def speaking(role: str, model: str, place: Place) -> Iterator[None]:
    """Chat models that are called within are called so in a trace; others' tags and metadata stay."""
    config = {
        **(var_child_runnable_config.get() or {}),
        "run_name": place.place() or role,
        "tags": [*tags_of(place), f"role:{role}"],
        "metadata": facts_of(place) | {"node": place.node, "role": role, "model": model},
    }
    token = var_child_runnable_config.set(config)  # type: ignore[arg-type]
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


def mark(place: Place) -> None:
    """The run of the node that runs says where the debate is, and so do the graphs that take the same single turn."""
    current = get_current_run_tree()
    for run in enclosing(current):
        if run is not current and not is_turn(run.inputs):
            return
        run.add_tags([tag for tag in tags_of(place) if tag not in (run.tags or ())])
        note(run, facts_of(place))
        if not is_turn(run.inputs):
            return


def note(run: RunTree, facts: Mapping[str, Any]) -> None:
    """Adds metadata to a run alone; its own dict is shared with other runs."""
    run.extra = {**(run.extra or {}), "metadata": {**run.metadata, **facts}}


def graph_run() -> RunTree | None:
    """The run of the graph whose node runs; None without a trace."""
    return next((run for run in list(enclosing(get_current_run_tree()))[1:]), None)


def enclosing(run: RunTree | None) -> Iterator[RunTree]:
    """A run, that in which it runs, and so on."""
    manager = (var_child_runnable_config.get() or {}).get("callbacks")
    handlers = getattr(manager, "handlers", ())
    known = next((handler.run_map for handler in handlers if isinstance(handler, LangChainTracer)), {})
    while run is not None:
        yield run
        run = known.get(str(run.parent_run_id))
