"""A graph that runs in a node of another graph: the place of its checkpoints, and the state from which it resumes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain_core.callbacks import AsyncCallbackManager, BaseCallbackManager
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.callbacks import GraphCallbackHandler, GraphResumeEvent
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot

PLACE_KEYS = ("thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map")
"""Keys in ``configurable`` that name a place for checkpoints."""


def parent_config(config: RunnableConfig | None) -> RunnableConfig | None:
    """The config of a graph that runs in a node of another graph; None if the graph runs by itself."""
    running, own = var_child_runnable_config.get() or {}, (config or {}).get("configurable") or {}
    place = running.get("configurable") or {}
    if not place.get("checkpoint_ns"):
        return None
    # A config that names a thread without the node's namespace: the graph runs by itself on that thread.
    if any(own.get(key) for key in PLACE_KEYS) and not own.get("checkpoint_ns"):
        return None
    return {**running, **(config or {}), "configurable": {**place, **own}}


def is_nested() -> bool:
    """Whether the graph of the running node runs in a node of another graph."""
    place = (var_child_runnable_config.get() or {}).get("configurable") or {}
    return "|" in place.get("checkpoint_ns", "")


class ResumeListener(GraphCallbackHandler):
    """Calls ``resume`` with a graph's saved state if LangGraph resumes the graph in a node of another graph."""

    # Only LangGraph knows whether it resumes the graph, and the graph's namespace: a node may run several graphs.
    raise_error = True

    def __init__(
        self,
        graph: CompiledStateGraph[Any, Any, Any, Any],
        config: RunnableConfig,
        resume: Callable[[StateSnapshot], Awaitable[None]],
    ) -> None:
        self._graph, self._resume = graph, resume
        # LangGraph leaves out the writes of an unfinished superstep if ``checkpoint_id`` is there, even if it is None.
        self._place = {key: value for key, value in config["configurable"].items() if key != "checkpoint_id"}

    async def on_resume(self, event: GraphResumeEvent) -> None:
        """Reads the saved state and calls the function."""
        config: Any = {"configurable": {**self._place, "checkpoint_ns": "|".join(event.checkpoint_ns)}}
        await self._resume(await self._graph.aget_state(config))

    def added_to(self, config: RunnableConfig | None) -> RunnableConfig:
        """A copy of the config whose run has this listener; the runs of inner graphs do not have it."""
        given = (config or {}).get("callbacks")
        if isinstance(given, BaseCallbackManager):
            manager = given.copy()
        else:
            manager = AsyncCallbackManager([*(given or ())], [*(given or ())])
        manager.add_handler(self, inherit=False)
        return {**(config or {}), "callbacks": manager}
