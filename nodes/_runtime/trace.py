"""Tags and metadata of calls and searches in traces, callbacks and events: the speaker, the round and the phase.

Calls to models also have them without a trace, for clients that stream tokens (``stream_mode="messages"``).
`TracedRetriever` makes searches runs of LangChain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import (
    ensure_config,
    get_async_callback_manager_for_config,
    patch_config,
    var_child_runnable_config,
)
from langchain_core.tracers import LangChainTracer
from langsmith import RunTree, get_current_run_tree
from moot.retrievers import Evidence, Retriever


class Place(Protocol):
    """The position of a node in a debate; a node's `StepRecord` has these fields."""

    node: str
    phase: str
    round: int
    agent: str | None
    number: int | None

    def place(self) -> str:
        """The position in words."""
        ...


def tags_of(place: Place) -> list[str]:
    """The round (except 0), the agent, and the phase (except ``primary``), as tags: ``round:2``, ``agent:rag``."""
    tags = {"round": place.round, "agent": place.agent, "phase": "" if place.phase == "primary" else place.phase}
    return [f"{name}:{value}" for name, value in tags.items() if value]


def metadata_of(place: Place) -> dict[str, Any]:
    """Agent, round, phase and number as metadata, named as in the records of calls; without missing values."""
    facts = {"agent": place.agent, "round": place.round, "phase": place.phase, "number": place.number}
    return {name: value for name, value in facts.items() if value is not None}


@contextmanager
def named_runs(role: str, model: str, place: Place) -> Iterator[None]:
    """Context manager that names the runs of chat models in the trace and gives them tags and metadata."""
    config = {
        **(var_child_runnable_config.get() or {}),
        "run_name": place.place() or role,
        "tags": [*tags_of(place), f"role:{role}"],
        "metadata": metadata_of(place) | {"node": place.node, "role": role, "model": model},
    }
    token = var_child_runnable_config.set(config)  # type: ignore[arg-type]
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


def with_speakers_name(config: RunnableConfig | None, input: Any) -> RunnableConfig:
    """The config of a graph within a debate; if one speaker speaks there, its run has the speaker's name and round."""
    # The node around it has a run, too, with the node's name: else the same name would be there twice.
    turns = input.get("turns") if isinstance(input, Mapping) and "rounds" not in input else None
    if not turns or len(turns) > 1:
        return config or RunnableConfig()
    [turn] = turns
    return {**(config or {}), "run_name": f"{turn['agent']}, round {turn['round']}"}


def add_metadata(run: RunTree, facts: Mapping[str, Any]) -> None:
    """Adds metadata to one run, in copies of the dicts that other runs may share."""
    run.extra = {**(run.extra or {}), "metadata": {**run.metadata, **facts}}


def graph_run() -> RunTree | None:
    """The run of the running node's graph; None without a trace."""
    node = get_current_run_tree()
    callbacks = (var_child_runnable_config.get() or {}).get("callbacks")
    tracers = [one for one in getattr(callbacks, "handlers", ()) if isinstance(one, LangChainTracer)]
    return tracers[0].run_map.get(str(node.parent_run_id)) if node and tracers else None


# --- searches ---------------------------------------------------------------------------------------------------------


class TracedRetriever:
    """A source whose searches are retriever runs of LangChain, in callbacks, events and traces, under their node."""

    def __init__(self, source: Retriever, place: Place | None = None) -> None:
        self.name = source.name
        self._source = source
        self._place = place

    async def search(self, query: str, k: int) -> list[Evidence]:
        """Searches the source, in a run; runs within the source, such as a LangChain retriever's, are its children."""
        config = ensure_config()
        callbacks = get_async_callback_manager_for_config(config)
        callbacks.add_tags(tags_of(self._place) if self._place else [], inherit=False)
        callbacks.add_metadata({"k": k} | (metadata_of(self._place) if self._place else {}), inherit=False)
        run = await callbacks.on_retriever_start(None, query, name=self.name)
        token = var_child_runnable_config.set(patch_config(config, callbacks=run.get_child()))
        try:
            found = await self._source.search(query, k)
        except BaseException as error:
            await run.on_retriever_error(error)
            raise
        finally:
            var_child_runnable_config.reset(token)
        await run.on_retriever_end([as_document(piece) for piece in found])
        return found


def as_document(piece: Evidence) -> Document:
    """A piece of evidence as a document of LangChain."""
    rest = {key: value for key, value in piece.items() if key != "text"}
    return Document(piece["text"], id=piece["id"], metadata=rest)
