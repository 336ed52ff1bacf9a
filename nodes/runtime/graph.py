"""LangGraph's `StateGraph` for debates and their parts: nodes know their settings, routers take them, errors end it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextvars import copy_context
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
from moot.nodes.runtime.node import Node, Run, kept, settings_of
from moot.nodes.runtime.prompt_settings import with_prompts
from moot.nodes.runtime.settings import Settings
from moot.nodes.runtime.state import DebateState
from moot.nodes.runtime.tracing import traced

CLOSE = "close"
"""The last node of every debate."""


LANGGRAPHS = {"config", "store", "writer", "previous"}
"""Names of parameters that LangGraph fills."""


def as_router(path: Callable[..., Any]) -> Callable[[Any, Any], Any] | None:
    """A router as a function of the state and the settings, whichever of the two it takes.

    Args:
        path: takes the state, the state and the settings, or the state and LangGraph's ``runtime``. None for any other,
            such as a coroutine function: LangGraph calls it itself.
    """
    takes = signature(path).parameters
    open_ended = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    needed = [one for one in takes.values() if one.default is one.empty and one.kind not in open_ended]
    if iscoroutinefunction(path):
        return None
    if "runtime" in takes:
        return lambda state, settings: path(state, runtime=_runtime().override(context=settings))
    if len(needed) == 1:
        return lambda state, settings: path(state)
    by_place = all(one.kind is not one.KEYWORD_ONLY for one in needed)
    return path if len(needed) == 2 and by_place and needed[1].name not in LANGGRAPHS else None


def plain_router(path: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """As `as_router`, for edges to which something is added.

    Raises:
        ValueError: LangGraph has to call it itself.
    """
    if (router := as_router(path)) is None:
        raise ValueError("a router is a plain function of the state, and of the settings if it wants them")
    return router


def _runtime() -> Runtime[Any]:
    return get_runtime() or Runtime()  # none where the state is updated without a run


RouterFunction = Callable[[Any, Any], Any]
"""A router as a function of the state and the settings."""


OF_A_RUN = ("run_name", "run_id")
"""Parts of a config that are of one run, not of those within it."""


class RouterRunnable(Runnable[Any, Any]):
    """A router that is asked in the event loop: LangGraph asks a plain function in a thread, at every edge anew.

    Args:
        name: its name, also that of its run in a trace.
        route: from the state, where to go on.
        traced: whether it is a run in a trace.
    """

    def __init__(self, name: str, route: Callable[[Any], Any], *, traced: bool = True) -> None:
        self.name, self._route, self._traced = name, route, traced

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Where to go on."""
        if self._traced and is_followed(config):
            return self._call_with_config(self._route, input, config)
        token = var_child_runnable_config.set(config)
        try:
            return self._route(input)
        finally:
            var_child_runnable_config.reset(token)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Where to go on."""
        if self._traced and is_followed(config):
            return await self._acall_with_config(self._asked, input, config)
        return self.invoke(input, config)

    async def _asked(self, input: Any) -> Any:
        return self._route(input)


def is_followed(config: RunnableConfig | None) -> bool:
    """Whether anybody is told of runs, such as a tracer."""
    callbacks = (config or {}).get("callbacks")
    return not isinstance(callbacks, BaseCallbackManager) or bool(callbacks.handlers)


class QuietNode(Runnable[Any, Any]):
    """A node with the edges that leave it, as LangGraph runs them, without runs of its own that nobody follows.

    Args:
        whole: LangGraph's, which runs if somebody is told of runs.
    """

    def __init__(self, whole: Any) -> None:
        self._whole = whole
        self._node, *self._edges = whole.steps

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """As LangGraph's."""
        return self._whole.invoke(input, config, **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """As LangGraph's."""
        if config is None or is_followed(config):
            return await self._whole.ainvoke(input, config, **kwargs)
        config = cast(RunnableConfig, {key: value for key, value in config.items() if key not in OF_A_RUN})
        context = copy_context()  # what the node sets there is its own
        context.run(var_child_runnable_config.set, config)
        written = await asyncio.create_task(self._node.ainvoke(input, config, **kwargs), context=context)
        for edge in self._edges:
            written = await edge.ainvoke(written, config)
        return written

    def stream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Any]:
        """As LangGraph's."""
        return self._whole.stream(input, config, **kwargs)  # type: ignore[no-any-return]

    def astream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Any]:
        """As LangGraph's."""
        return self._whole.astream(input, config, **kwargs)  # type: ignore[no-any-return]


class Successor(NamedTuple):
    """The nodes after a node: the router, the nodes that it may name, and whether that is one node in any case."""

    ask: RouterFunction
    ends: list[str]
    plain: bool


class DebateGraph(StateGraph[Any, Any, Any, Any]):
    """LangGraph's `StateGraph`, whose nodes and routers know their graph's settings.

    Without it ``graph.ainvoke(claim)`` would leave nodes without settings, as LangGraph passes none then. The settings
    of the graph that it makes have the prompts of all its nodes as fields; see `with_prompts`. A graph whose state has
    an error goes to its end without asking its routers. Nodes that would do nothing (`Node.idle`) are drawn, but not
    entered.
    """

    def __init__(self, settings: type[Settings], state: type = DebateState, **schemas: Any) -> None:
        super().__init__(state, context_schema=settings, **schemas)
        self._defaults = settings()
        self._prompts: dict[str, list[str]] = {}
        self._moments: set[str] = set()
        self.opened = ""
        self._idle: dict[str, RouterFunction] = {}
        self._routers: dict[str, list[tuple[RouterFunction, list[str]]]] = {}
        self._past: dict[str, dict[str, Successor]] = {}
        self._run_once: set[str] = set()
        self._else_to: dict[str, str] = {}

    def add_node(  # type: ignore[override]
        self, name: str, action: Any, *, prompts: Mapping[str, Sequence[str]] = MappingProxyType({}), **options: Any
    ) -> DebateGraph:
        """Adds a node, a subgraph or any other callable.

        ``prompts`` are those of a subgraph that does not know its own, each with the nodes that use it.
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
            action = action.having(self._defaults, name, keeps_errors=True)
        super().add_node(name, action, **options)
        return self

    def add_conditional_edges(  # type: ignore[override]
        self, source: str, path: Callable[..., Any], path_map: Sequence[str] | Mapping[Any, str] | None = None
    ) -> DebateGraph:
        """Adds an edge that depends on the state and the settings.

        Args:
            source: the node that it leaves.
            path: a router: takes the state and, if it wants them, the settings; gives a node's name, or speakers that
                are sent to nodes. It is asked in the event loop, so it waits for nothing.
            path_map: the nodes that it may lead to. If ``close`` or LangGraph's ``END`` is one of them, the edge leads
                there as soon as the state has an error.

        Raises:
            ValueError: when it runs: it leads to a node that ``path_map`` does not name.
        """
        leave = next((end for end in (CLOSE, END) if path_map and end in path_map), None)
        ask = as_router(path)
        if ask is None:
            super().add_conditional_edges(source, path, path_map)  # type: ignore[arg-type]
            return self

        def asked(state: Any, settings: Any) -> Any:
            if leave and state.get("error"):
                return leave
            to = ask(state, settings)
            if isinstance(to, str) and path_map and to not in path_map:
                raise ValueError(f"{called} leads from {source} to {to}, which the edge does not name")
            return to

        def route(state: Any) -> Any:
            if leave and state.get("error"):
                return leave
            settings = self._settings(state)
            return self._led_past(source, asked(state, settings), state, settings)

        called = getattr(path, "__name__", type(path).__name__)
        hint = get_type_hints(path).get("return") if isroutine(path) else None
        ends = path_map or (list(get_args(hint)) if get_origin(hint) is Literal else None)
        super().add_conditional_edges(source, RouterRunnable(called, route), ends)  # type: ignore[arg-type]
        to = [] if isinstance(path_map, Mapping) else list(path_map or ())
        self._routers.setdefault(source, []).append((asked, to))
        return self

    def _settings(self, state: Any) -> Any:
        return kept(settings_of(_runtime(), type(self._defaults)), state)

    def _led_past(self, source: str, to: Any, state: Any, settings: Any) -> Any:
        past, seen = self._past.get(source, {}), set()
        while isinstance(to, str) and to in past and to not in seen and self._idle[to](state, settings):
            seen.add(to)
            to = past[to].ask(state, settings)
        return to

    def _lead_past_idle_nodes(self) -> None:
        """Lets edges to a node that would do nothing lead on to the node after it, or to where its router says.

        A router is asked only if one edge alone leads to its node, and leaves a node that runs once: several speakers
        or parallel nodes would each ask it.
        """
        plain = sorted(self.edges)
        routers = [branch for branches in self.branches.values() for branch in branches.values()]
        anywhere = any(branch.ends is None for branch in routers)
        routed = {*self.nodes} if anywhere else {to for branch in routers for to in (branch.ends or {}).values()}
        before = Counter(to for _, to in plain) + Counter(
            to for branch in routers for to in (self.nodes if branch.ends is None else set(branch.ends.values()))
        )
        follows = {
            node: follow
            for node in self._idle
            if (follow := self._follow(node)) and (follow.plain or before[node] == 1)
        }
        for source in {source for source, _ in plain} | set(self.branches):
            once = source in self._run_once or source not in routed
            known = {node: follow for node, follow in follows.items() if once or follow.plain}
            self._past[source] = known
            for to in [to for before, to in plain if before == source and to in known]:
                self.edges.remove((source, to))
                route = partial(self._route_past, source, to)
                super().add_conditional_edges(source, RouterRunnable(f"past_{to}", route, traced=False), [to])
            for name, branch in self.branches[source].items():
                ends = dict(branch.ends or {})
                for node in (reached := [*ends.values()]):
                    reached += [to for to in known[node].ends if to not in reached] if node in known else []
                self.branches[source][name] = branch._replace(ends=ends | {to: to for to in reached} if ends else None)

    def _follow(self, node: str) -> Successor | None:
        after, asked = [to for source, to in self.edges if source == node], self._routers.get(node, [])
        if node in self._else_to:
            after, asked = [self._else_to[node]], []
        if len(after) == 1 and not asked:
            return Successor(lambda state, settings: after[0], after, plain=True)
        return Successor(*asked[0], plain=False) if len(asked) == 1 and not after and asked[0][1] else None

    def _route_past(self, source: str, to: str, state: Any) -> Any:
        return self._led_past(source, to, state, self._settings(state))

    def compile(self, *arguments: Any, **options: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
        """The graph; the name of the system is a tag of all that runs in a trace."""
        if not self._past:
            self._lead_past_idle_nodes()
        self.context_schema = with_prompts(type(self._defaults), self._prompts)
        graph = super().compile(*arguments, **options)
        for node in graph.nodes.values():
            if len(getattr(node.node, "steps", ())) > 1:
                vars(node)["node"] = QuietNode(node.node)
        return traced(graph, self.opened)


def graph_node(graph: Any) -> Node:
    """A whole debate, or a part of one, as one node of your graph: it writes what the graph gives.

    Its settings are the graph's: ``graph_node(graph).having(ToolMadSettings(...))``. What ends the debate without a
    verdict is raised. Reads: what the graph's input names, for a debate claim and where they are there task, labels,
    options, given.

    Args:
        graph: a compiled `DebateGraph`, such as ``moot.graphs.tool_mad.graph``.
    """

    async def step(state: Mapping[str, Any], run: Run) -> dict[str, Any]:
        document: dict[str, Any] = await graph.ainvoke(dict(state), context=run.settings)
        return document

    return Node(step)
