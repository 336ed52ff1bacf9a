"""A `StateGraph` for debates: passes settings to nodes and routers, and ends a debate after an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import Parameter, iscoroutinefunction, isroutine, signature
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import get_runtime
from moot.core.errors import UserError
from moot.nodes._runtime.compiled import compiled
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.run_settings import resumed_settings, settings_from
from moot.nodes._runtime.settings import Settings
from moot.nodes._runtime.state import DebateState
from moot.prompts._files import check_edited, placeholders, shipped
from pydantic import AfterValidator, Field, create_model

CLOSE = "close"
"""The last node of every debate."""
FILLED_BY_LANGGRAPH = {"config", "previous", "runtime", "store", "writer"}
"""Names of parameters that LangGraph fills in its own routers. ``langgraph.config`` has functions for most of them."""


def plain_router(path: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """A router as a function of the state and the settings; ValueError if it needs anything else."""
    optional = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    takes = signature(path).parameters.values()
    needed = [one for one in takes if one.default is one.empty and one.kind not in optional]
    is_async = iscoroutinefunction(path) or iscoroutinefunction(getattr(path, "__call__", None))  # noqa: B004
    by_place = all(one.kind is not one.KEYWORD_ONLY and one.name not in FILLED_BY_LANGGRAPH for one in needed)
    if is_async or not by_place or len(needed) not in (1, 2):
        raise ValueError("a router must be a plain function of the state, or of the state and the settings")
    return path if len(needed) == 2 else lambda state, settings: path(state)


class DebateGraph(StateGraph[Any, Any, Any, Any]):
    """A `StateGraph` of LangGraph whose nodes and routers receive the settings of their graph.

    If the compiled graph is called without a context, the nodes get the settings of the graph around it, else the
    default settings. The settings of the compiled graph have the prompts of all its nodes as fields; see
    `with_prompts`. If the state has an error, or if the run must end for another reason (`must_end`), a conditional
    edge that may lead to the end leads there, and its router is not called.
    """

    def __init__(self, settings: type[Settings], state: type = DebateState, **schemas: Any) -> None:
        if not (isinstance(settings, type) and issubclass(settings, Settings)):
            raise TypeError(
                f"{type(self).__name__} takes the class of its settings, a subclass of moot.nodes.Settings such as "
                f"RoundsSettings, not {settings!r:.100}"
            )
        super().__init__(state, context_schema=settings, **schemas)
        self._kind = settings
        self._prompts: dict[str, list[str]] = {}
        self._moments: set[str] = set()
        self.opened = ""

    def add_node(self, name: str, action: Any, **options: Any) -> DebateGraph:  # type: ignore[override]
        """Adds a node, a subgraph or any other callable.

        The prompts of moot's nodes and graphs are found. Another action may have an attribute ``prompts``: the names of
        its prompts or, for a subgraph, a mapping from each name to the subgraph's nodes that use it.
        """
        prompts: Mapping[str, Sequence[str]] | Sequence[str] = getattr(action, "prompts", ())
        inner = getattr(action, "builder", None)
        if isinstance(inner, DebateGraph):
            prompts, self._moments = inner._prompts, self._moments | inner._moments
        by_name = prompts if isinstance(prompts, Mapping) else dict.fromkeys(prompts, ())
        for prompt, nodes in by_name.items():
            self._prompts.setdefault(prompt, []).extend([name, *(f"{name}:{node}" for node in nodes)])
        if isinstance(action, Node):
            self._moments |= {action.moment} if action.moment else set()
            self.opened = self.opened or action.opens
            action = replace(action, name=name, keeps_errors=True)
        super().add_node(name, action, **options)
        return self

    def add_conditional_edges(  # type: ignore[override]
        self, source: str, path: Callable[..., Any], path_map: Sequence[str] | Mapping[Any, str] | None = None
    ) -> DebateGraph:
        """Adds an edge that depends on the state and the settings.

        Args:
            source: the node at which the edge starts.
            path: a router: takes the state and, optionally, the settings; returns a node's name, or `Send` objects for
                speakers. It runs in the event loop, so it must not block.
            path_map: the nodes that the edge may lead to. If the state has an error, the edge leads to ``close`` or, if
                ``close`` is not among these nodes, to LangGraph's ``END``. If neither is, the router is called.

        Raises:
            ValueError: the router is no plain function; or, at run time, it returns a node that ``path_map`` does not
                name.
        """
        leave = next((end for end in (CLOSE, END) if path_map and end in path_map), None)
        router = plain_router(path)

        def route(state: Any) -> Any:
            if leave and state.get("error"):
                return leave
            settings = self._settings(state)
            if leave and self.must_end(state, settings):
                return leave
            to = router(state, settings)
            if isinstance(to, str) and path_map and to not in path_map:
                raise ValueError(f"{called} leads from {source} to {to}, which is not in the edge's path_map")
            return to

        async def route_in_loop(state: Any) -> Any:  # a plain function would run in a thread
            return route(state)

        called = getattr(path, "__name__", type(path).__name__)
        hint = get_type_hints(path).get("return") if isroutine(path) else None
        ends = path_map or (list(get_args(hint)) if get_origin(hint) is Literal else None)
        super().add_conditional_edges(source, RunnableLambda(route, route_in_loop, name=called), ends)  # type: ignore[arg-type]
        return self

    def must_end(self, state: Any, settings: Any) -> bool:
        """Whether the run must end although the state has no error."""
        return False

    def _settings(self, state: Any) -> Any:
        """The run's settings or, if the state is updated without a run, those with which the debate began."""
        runtime, kind = get_runtime(), self.context_schema or self._kind
        context = runtime.context if runtime else None
        return context if isinstance(context, self._kind) else resumed_settings(settings_from(None, kind), state, kind)

    def compile(self, *arguments: Any, **options: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
        """Compiles the graph. In a trace, all its runs have the system's name as a tag.

        Raises:
            ValueError: the graph is invalid, or two of its prompts would have the same field in the settings.
        """
        self.context_schema = with_prompts(self._kind, self._prompts)
        return compiled(super().compile(*arguments, **options), self.opened)


def graph_node(graph: Any) -> Node:
    """A graph of moot, such as a whole debate, as one node of your graph. The node writes the output of moot's graph.

    The node takes the settings of moot's graph: ``graph_node(graph).with_settings(ToolMadSettings(...))``. If a debate
    fails, the node raises the debate's error; in a `DebateGraph` the error becomes the state's ``error``. If your graph
    has a checkpointer, a debate that waited or was interrupted continues when your graph is resumed; a debate that
    failed starts again. Reads: the input keys of moot's graph. For a debate these are claim or messages and, if
    present, task, labels, options, given, claim_date, speaker.

    Args:
        graph: a compiled `DebateGraph`, such as ``moot.graphs.tool_mad.graph``.

    Raises:
        UserError: ``graph`` is anything else.
    """
    if not isinstance(getattr(graph, "builder", None), DebateGraph) or not hasattr(graph, "astream"):
        raise UserError(
            f"graph_node takes a compiled graph of moot, such as moot.graphs.tool_mad.graph, and was given "
            f"{type(graph).__name__}. LangGraph's own add_node takes other graphs as they are.",
            kind="unknown_graph",
        )

    async def step(state: Mapping[str, Any], run: NodeContext) -> dict[str, Any]:
        while True:
            document, is_new = await _run(graph, dict(state), run.settings)
            if is_new or not document.get("error"):
                return document
            # A debate of an earlier run failed. LangGraph stores the next one elsewhere, so that it starts from the
            # beginning or, if it was started before, continues.

    return Node(step)


async def _run(graph: Any, given: Any, settings: Any) -> tuple[dict[str, Any], bool]:
    """A graph's output, and whether a node ran; none did if a checkpoint in the parent's thread has the output."""
    output: dict[str, Any] = {}
    is_new = False
    modes, keys = ["updates", "values"], graph.output_channels
    async for mode, chunk in graph.astream(given, context=settings, stream_mode=modes, output_keys=keys):
        if mode == "values":
            output = chunk
        else:
            is_new = True
    return output, is_new


PROMPT_SUFFIX = "_prompt"
"""The suffix of the names of fields that hold prompts."""
LONGEST_PROMPT = 20_000
"""Maximum number of characters of an edited prompt."""


def with_prompts(kind: type[Settings], used: Mapping[str, Sequence[str]]) -> type[Settings]:
    """The class of a graph's settings with a field for each prompt, such as ``judge_prompt`` for ``tool_mad/judge``."""
    names = {field_of(name): name for name in used}
    if len(names) < len(used):
        raise ValueError(f"two of these prompts would have the same field: {', '.join(used)}")
    fields: dict[str, Any] = {field: _prompt_field(name, used[name]) for field, name in names.items()}
    # A graph with this class also accepts an instance of ``kind`` itself, and then uses the shipped prompts.
    made = create_model(kind.__name__, __base__=kind, __module__=kind.__module__, __doc__=kind.__doc__, **fields)
    made.prompts = names
    return made


def field_of(prompt: str) -> str:
    """The name of the field for a prompt in the settings, such as ``judge_prompt`` for ``tool_mad/judge``."""
    return prompt.rpartition("/")[2] + PROMPT_SUFFIX


def _prompt_field(name: str, nodes: Sequence[str]) -> Any:
    text = shipped(name)
    names = " ".join(f"{{{name}}}" for name in sorted(placeholders(text)))
    field = Field(
        default=text,
        max_length=LONGEST_PROMPT,
        description=f"The prompt {name}: instructions, a line ---, then data. All placeholders of the data are "
        f"needed. Placeholders: {names}.",
        json_schema_extra={"langgraph_type": "prompt", "langgraph_nodes": list(nodes)},
    )
    return (Annotated[str, AfterValidator(partial(check_edited, name))], field)
