"""A `StateGraph` for debates: passes settings to nodes and routers, and ends a debate after an error."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from inspect import Parameter, iscoroutinefunction, isroutine, signature
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, cast, get_args, get_origin, get_type_hints

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.graph import END, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime, get_runtime
from moot.nodes._runtime.node import Node, NodeContext, resume_settings, settings_from
from moot.nodes._runtime.prompt_settings import with_prompts
from moot.nodes._runtime.settings import Settings
from moot.nodes._runtime.state import DebateState
from moot.nodes._runtime.tracing import traced

CLOSE = "close"
"""The last node of every debate."""


LANGGRAPH_PARAMETERS = {"config", "store", "writer", "previous"}
"""Names of a router's parameters that LangGraph fills."""


def as_router(path: Callable[..., Any]) -> Callable[[Any, Any], Any] | None:
    """Wraps a router as a function of the state and the settings.

    Args:
        path: a router, which takes the state alone, the state and the settings, or the state and LangGraph's
            ``runtime``.

    Returns:
        The wrapped router; None if only LangGraph can call the router, for example a coroutine function or a function
        that requires the parameter ``config``.
    """
    takes = signature(path).parameters
    open_ended = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    needed = [one for one in takes.values() if one.default is one.empty and one.kind not in open_ended]
    if iscoroutinefunction(path) or iscoroutinefunction(getattr(path, "__call__", None)):  # noqa: B004
        return None
    if "runtime" in takes:
        return lambda state, settings: path(state, runtime=_runtime().override(context=settings))
    if len(needed) == 1:
        return lambda state, settings: path(state)
    by_place = all(one.kind is not one.KEYWORD_ONLY for one in needed)
    return path if len(needed) == 2 and by_place and needed[1].name not in LANGGRAPH_PARAMETERS else None


def plain_router(path: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Does the same as `as_router`, but raises an error instead of returning None.

    Raises:
        ValueError: only LangGraph can call the router.
    """
    if (router := as_router(path)) is None:
        raise ValueError(
            "a router must be a plain function of the state, or of the state and either the settings or the runtime"
        )
    return router


def _runtime() -> Runtime[Any]:
    return get_runtime() or Runtime()  # there is no runtime if the state is updated without a run


RouterFunction = Callable[[Any, Any], Any]
"""A router as a function of the state and the settings."""


RUN_KEYS = ("run_name", "run_id")
"""Keys of a config that belong to one run, but not to the runs inside it."""


class RouterRunnable(Runnable[Any, Any]):
    """A router that runs in the event loop. LangGraph would run each call of a plain function in a thread.

    Args:
        name: the router's name, which its runs have in a trace.
        route: takes the state; returns the next node, or `Send` objects.
        traced: whether its runs appear in a trace.
    """

    def __init__(self, name: str, route: Callable[[Any], Any], *, traced: bool = True) -> None:
        self.name, self._route, self._traced = name, route, traced

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Returns the next node, or `Send` objects."""
        if self._traced and has_callbacks(config):
            return self._call_with_config(self._route, input, config)
        token = var_child_runnable_config.set(config)
        try:
            return self._route(input)
        finally:
            var_child_runnable_config.reset(token)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Returns the next node, or `Send` objects."""
        if self._traced and has_callbacks(config):
            return await self._acall_with_config(self._aroute, input, config)
        return self.invoke(input, config)

    async def _aroute(self, input: Any) -> Any:
        return self._route(input)


def has_callbacks(config: RunnableConfig | None) -> bool:
    """Whether runs with this config may have callbacks, such as a tracer.

    This is false only if the config has a callback manager without handlers.
    """
    callbacks = (config or {}).get("callbacks")
    return not isinstance(callbacks, BaseCallbackManager) or bool(callbacks.handlers)


class DirectNode(Runnable[Any, Any]):
    """A node with its outgoing edges. Without callbacks, `ainvoke` runs both faster than LangGraph's sequence does.

    Args:
        whole: LangGraph's sequence of the node and its edges. It is used with callbacks, and by the other methods.
    """

    def __init__(self, whole: Any) -> None:
        self._whole = whole
        self._node, *self._edges = whole.steps

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Runs LangGraph's sequence."""
        return self._whole.invoke(input, config, **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Runs the node, then its edges one after the other. If there may be callbacks, runs LangGraph's sequence."""
        if config is None or has_callbacks(config):
            return await self._whole.ainvoke(input, config, **kwargs)
        config = cast(RunnableConfig, {key: value for key, value in config.items() if key not in RUN_KEYS})
        context = copy_context()  # a copy, so that the node does not change its caller's context variables
        context.run(var_child_runnable_config.set, config)
        written = await asyncio.create_task(self._node.ainvoke(input, config, **kwargs), context=context)
        for edge in self._edges:
            written = await edge.ainvoke(written, config)
        return written

    def stream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Any]:
        """Streams LangGraph's sequence."""
        return self._whole.stream(input, config, **kwargs)  # type: ignore[no-any-return]

    def astream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Any]:
        """Streams LangGraph's sequence."""
        return self._whole.astream(input, config, **kwargs)  # type: ignore[no-any-return]


class Successor(NamedTuple):
    """How the successor of a node is found.

    Args:
        router: returns the successor.
        ends: the nodes that the router may return.
        is_fixed: whether the router returns the same node for every state.
    """

    router: RouterFunction
    ends: list[str]
    is_fixed: bool


class DebateGraph(StateGraph[Any, Any, Any, Any]):
    """A `StateGraph` of LangGraph whose nodes and routers receive the settings of their graph.

    If the compiled graph is called without a context, the nodes get the default settings; see also `settings_from`. The
    settings of the compiled graph have the prompts of all its nodes as fields; see `with_prompts`. If the state has an
    error, or if the run must end for another reason (`must_end`), a conditional edge that may lead to the end leads
    there, and its router is not called. Nodes that would do nothing (`Node.idle`) are drawn, but edges lead past them
    if their successor is known.
    """

    def __init__(self, settings: type[Settings], state: type = DebateState, **schemas: Any) -> None:
        super().__init__(state, context_schema=settings, **schemas)
        self._kind = settings
        self._prompts: dict[str, list[str]] = {}
        self._moments: set[str] = set()
        self.opened = ""
        self._idle: dict[str, RouterFunction] = {}
        self._routers: dict[str, list[tuple[RouterFunction, list[str]]]] = {}
        self._past: dict[str, dict[str, Successor]] = {}
        self._run_once: set[str] = set()
        self._next_if_idle: dict[str, str] = {}

    def add_node(  # type: ignore[override]
        self, name: str, action: Any, *, prompts: Mapping[str, Sequence[str]] = MappingProxyType({}), **options: Any
    ) -> DebateGraph:
        """Adds a node, a subgraph or any other callable.

        If a subgraph does not declare its prompts, ``prompts`` must name each prompt, with the subgraph's nodes that
        use it.
        """
        inner = getattr(action, "builder", None)
        if isinstance(inner, DebateGraph):
            prompts, self._moments = inner._prompts, self._moments | inner._moments
        for prompt, nodes in (dict.fromkeys(getattr(action, "prompts", ()), ()) | dict(prompts)).items():
            self._prompts.setdefault(prompt, []).extend([name, *(f"{name}:{node}" for node in nodes)])
        if isinstance(action, Node):
            self._moments |= {action.moment} if action.moment else set()
            self.opened = self.opened or action.opens
            if action.idle:
                self._idle[name] = action.idle
            own = action.defaults
            reads = self.settings_from if own is None else lambda context: own
            action = replace(action, name=name, keeps_errors=True, reads_context=reads)
        super().add_node(name, action, **options)
        return self

    def add_conditional_edges(  # type: ignore[override]
        self, source: str, path: Callable[..., Any], path_map: Sequence[str] | Mapping[Any, str] | None = None
    ) -> DebateGraph:
        """Adds an edge that depends on the state and the settings.

        Args:
            source: the node at which the edge starts.
            path: a router: takes the state and, optionally, the settings or LangGraph's ``runtime``; returns a node's
                name, or `Send` objects for speakers. It runs in the event loop, so it must not block. A router that
                only LangGraph can call (`as_router`) is also accepted, but its edge ignores errors in the state and is
                not checked.
            path_map: the nodes that the edge may lead to. If the state has an error, the edge leads to ``close`` or, if
                ``close`` is not among these nodes, to LangGraph's ``END``. If neither is, the router is called.

        Raises:
            ValueError: at run time, if the router returns a node that ``path_map`` does not name.
        """
        leave = next((end for end in (CLOSE, END) if path_map and end in path_map), None)
        router = as_router(path)
        if router is None:
            super().add_conditional_edges(source, path, path_map)  # type: ignore[arg-type]
            return self

        def checked_route(state: Any, settings: Any) -> Any:
            if leave and (state.get("error") or self.must_end(state, settings)):
                return leave
            to = router(state, settings)
            if isinstance(to, str) and path_map and to not in path_map:
                raise ValueError(f"{called} leads from {source} to {to}, which is not in the edge's path_map")
            return to

        def route(state: Any) -> Any:
            if leave and state.get("error"):
                return leave
            settings = self._settings(state)
            return self._past_idle_nodes(source, checked_route(state, settings), state, settings)

        called = getattr(path, "__name__", type(path).__name__)
        hint = get_type_hints(path).get("return") if isroutine(path) else None
        ends = path_map or (list(get_args(hint)) if get_origin(hint) is Literal else None)
        super().add_conditional_edges(source, RouterRunnable(called, route), ends)  # type: ignore[arg-type]
        to = [] if isinstance(path_map, Mapping) else list(path_map or ())
        self._routers.setdefault(source, []).append((checked_route, to))
        return self

    def must_end(self, state: Any, settings: Any) -> bool:
        """Whether the run must end although the state has no error."""
        return False

    def settings_from(self, context: Any, **others: Mapping[str, Any]) -> Settings:
        """The settings that a context of this graph gives, with ``weaker`` and ``stronger`` ones (see `settings_from`).

        Raises:
            UserError: the context cannot be used as settings; the message says what can.
        """
        return settings_from(context, self._kind, self.context_schema or self._kind, **others)

    def _settings(self, state: Any) -> Any:
        return resume_settings(self.settings_from(_runtime().context), state)

    def _past_idle_nodes(self, source: str, to: Any, state: Any, settings: Any) -> Any:
        past, seen = self._past.get(source, {}), set()
        while isinstance(to, str) and to in past and to not in seen and self._idle[to](state, settings):
            seen.add(to)
            to = past[to].router(state, settings)
        return to

    def _reroute_past_idle_nodes(self) -> None:
        """Makes edges to a node lead to the node's successor at run time if the node would do nothing (`Node.idle`).

        If a router chooses the successor, an edge is changed only if it is the only edge to the node and starts at a
        node that runs once. Otherwise several speakers or parallel nodes would each call the router.
        """
        plain_edges = sorted(self.edges)
        routers = [branch for branches in self.branches.values() for branch in branches.values()]
        anywhere = any(branch.ends is None for branch in routers)
        routed = {*self.nodes} if anywhere else {to for branch in routers for to in (branch.ends or {}).values()}
        incoming = Counter(to for _, to in plain_edges) + Counter(
            to for branch in routers for to in (self.nodes if branch.ends is None else set(branch.ends.values()))
        )
        follows = {
            node: follow
            for node in self._idle
            if (follow := self._successor(node)) and (follow.is_fixed or incoming[node] == 1)
        }
        for source in {source for source, _ in plain_edges} | set(self.branches):
            once = source in self._run_once or source not in routed
            known = {node: follow for node, follow in follows.items() if once or follow.is_fixed}
            self._past[source] = known
            for to in [to for start, to in plain_edges if start == source and to in known]:
                self.edges.remove((source, to))
                route = partial(self._route_past, source, to)
                super().add_conditional_edges(source, RouterRunnable(f"past_{to}", route, traced=False), [to])
            for name, branch in self.branches[source].items():
                ends = dict(branch.ends or {})
                for node in (reached := [*ends.values()]):
                    reached += [to for to in known[node].ends if to not in reached] if node in known else []
                self.branches[source][name] = branch._replace(ends=ends | {to: to for to in reached} if ends else None)

    def _successor(self, node: str) -> Successor | None:
        after, routers = [to for source, to in self.edges if source == node], self._routers.get(node, [])
        if node in self._next_if_idle:
            after, routers = [self._next_if_idle[node]], []
        if len(after) == 1 and not routers:
            return Successor(lambda state, settings: after[0], after, is_fixed=True)
        return Successor(*routers[0], is_fixed=False) if len(routers) == 1 and not after and routers[0][1] else None

    def _route_past(self, source: str, to: str, state: Any) -> Any:
        return self._past_idle_nodes(source, to, state, self._settings(state))

    def compile(self, *arguments: Any, **options: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
        """Compiles the graph. In a trace, all its runs have the system's name as a tag.

        Raises:
            ValueError: the graph is invalid, or two of its prompts would have the same field in the settings.
        """
        if not self._past:
            self._reroute_past_idle_nodes()
        self.context_schema = with_prompts(self._kind, self._prompts)
        graph = super().compile(*arguments, **options)
        for node in graph.nodes.values():
            if len(getattr(node.node, "steps", ())) > 1:
                vars(node)["node"] = DirectNode(node.node)
        return traced(graph, self.opened)


def graph_node(graph: Any) -> Node:
    """A graph of moot, such as a whole debate, as one node of your graph. The node writes the output of moot's graph.

    The node takes the settings of moot's graph: ``graph_node(graph).with_settings(ToolMadSettings(...))``. If a debate
    fails, the node raises the debate's error; in a `DebateGraph` the error becomes the state's ``error``. If your graph
    has a checkpointer, a debate that waited or was interrupted continues when your graph is resumed; a debate that
    failed starts again. Reads: the input keys of moot's graph. For a debate these are claim or messages and, if
    present, task, labels, options, given, claim_date, speaker.

    Args:
        graph: a compiled `DebateGraph`, such as ``moot.graphs.tool_mad.graph``.
    """

    async def step(state: Mapping[str, Any], run: NodeContext) -> dict[str, Any]:
        while True:
            document, is_new = await _run(graph, dict(state), run.settings)
            if is_new or not document.get("error"):
                return document
            # A debate of an earlier run failed. LangGraph stores the next one elsewhere, so that it starts from the
            # beginning or, if it was started before, continues.

    return Node(step)


async def _run(graph: Any, given: Any, settings: Any) -> tuple[dict[str, Any], bool]:
    """The output of a graph, and whether a node ran. None ran if a checkpoint in the parent's thread has the output."""
    output: dict[str, Any] = {}
    is_new = False
    modes, keys = ["updates", "values"], graph.output_channels
    async for mode, chunk in graph.astream(given, context=settings, stream_mode=modes, output_keys=keys):
        if mode == "values":
            output = chunk
        else:
            is_new = True
    return output, is_new
