"""Tags and metadata of calls and searches in a trace in LangSmith: the speaker, the round and the phase.

Calls to models also have them without a trace, for clients that stream tokens (``stream_mode="messages"``).
`traced_retriever` adds searches to the trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Protocol

from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers import LangChainTracer
from langsmith import RunTree, get_current_run_tree, trace
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


def add_metadata(run: RunTree, facts: Mapping[str, Any]) -> None:
    """Adds metadata to one run, in copies of the dicts that other runs may share."""
    run.extra = {**(run.extra or {}), "metadata": {**run.metadata, **facts}}


def graph_run() -> RunTree | None:
    """The run of the running node's graph; None without a trace."""
    node = get_current_run_tree()
    tracers = [handler for handler in inherited_config("handlers") if isinstance(handler, LangChainTracer)]
    return tracers[0].run_map.get(str(node.parent_run_id)) if node and tracers else None


def inherited_config(part: Literal["handlers", "inheritable_tags"]) -> Sequence[Any]:
    """The callbacks' ``handlers`` or ``inheritable_tags`` from the enclosing graph; empty outside of a graph."""
    return getattr((var_child_runnable_config.get() or {}).get("callbacks"), part, ())


# --- searches ---------------------------------------------------------------------------------------------------------


def traced_retriever(source: Retriever, place: Place | None = None) -> Retriever:
    """A source whose searches are recorded in the trace, if there is one."""
    node = get_current_run_tree()
    return source if node is None else TracedRetriever(source, node, place)


class TracedRetriever:
    """A source whose searches are runs of a trace."""

    def __init__(self, source: Retriever, node: RunTree, place: Place | None) -> None:
        self.name = source.name
        self._source = source
        self._node = node
        self._tags = [*inherited_config("inheritable_tags"), *(tags_of(place) if place else [])]
        self._facts = metadata_of(place) if place else {}

    async def search(self, query: str, k: int) -> list[Evidence]:
        """Searches the source, and records the search as a run."""
        run = trace(
            self.name,
            "retriever",
            inputs={"query": query, "k": k},
            parent=self._node,
            tags=self._tags,
            metadata=self._facts,
        )
        async with run as search:
            found = await self._source.search(query, k)
            search.end(outputs={"documents": [langsmith_document(piece) for piece in found]})
            return found


def langsmith_document(piece: Evidence) -> dict[str, Any]:
    """A piece of evidence as a document for LangSmith."""
    rest = {key: value for key, value in piece.items() if key != "text"}
    return {"page_content": piece["text"], "type": "Document", "metadata": rest}
