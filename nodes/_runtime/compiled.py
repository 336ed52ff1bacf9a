"""A compiled `DebateGraph`: its runs have checked settings and a `Session`, and their traces contain no API keys.

LangGraph's own methods run the graph. Before and after them, a run takes one of three ways: a debate that runs by
itself (`_by_itself`), a debate in a node of another graph (`_in_node`), or a graph within a debate (`_within`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from types import MappingProxyType
from typing import Any, cast
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.errors import GraphInterrupt, InvalidUpdateError
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Overwrite, StateSnapshot
from moot.core.errors import MootError, UserError, did_you_mean
from moot.nodes._models.budget import Budget, new_budget
from moot.nodes._models.replies import current_use
from moot.nodes._models.session import Session, budget_in, current_recorder, session_in, with_session
from moot.nodes._models.spend import spent_by
from moot.nodes._records.reducers import written_values
from moot.nodes._runtime.document import document_of, failed
from moot.nodes._runtime.nesting import ResumeListener, parent_config
from moot.nodes._runtime.run_settings import check_config, check_resumed, resumed_settings, settings_of_run
from moot.nodes._runtime.settings import Settings
from moot.nodes._runtime.sync import stream_in_loop
from moot.nodes._runtime.trace import with_speakers_name
from moot.nodes._runtime.tracing import guard_traces
from moot.retrievers._evidence import check_pieces

Start = tuple[Any, RunnableConfig]
"""What LangGraph's method gets: the input and the config."""


def compiled(graph: CompiledStateGraph[Any, Any, Any, Any], tag: str) -> CompiledDebateGraph:
    """The graph as a `CompiledDebateGraph` whose runs have the tag ``tag`` in a trace; none if it is empty."""
    graph.__class__ = CompiledDebateGraph  # `StateGraph.compile` always makes LangGraph's own class
    return cast(CompiledDebateGraph, graph.with_config(tags=[tag] if tag else []))


class CompiledDebateGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph of moot."""

    def stream(self, input: Any, config: Any = None, **options: Any) -> Iterator[Any]:
        """The chunks of `astream`; see `stream_in_loop`."""
        check_config(config)
        return stream_in_loop(self, input, config, options)

    async def astream(self, input: Any, config: Any = None, **options: Any) -> AsyncIterator[Any]:
        """Calls LangGraph's method with the run's settings as context, in the outer debate's `Session` or a new one."""
        guard_traces()
        check_config(config)
        self._check_input(input, is_node=bool(parent_config(config)))
        options["context"] = settings_of_run(self, config, options.get("context"))
        if ((config or {}).get("configurable") or {}).get("checkpoint_ns"):
            # Without output keys, ``astream_events`` would stream the whole state of an inner graph.
            options.setdefault("output_keys", self.output_channels)
        if session := session_in(config) or session_in(var_child_runnable_config.get()):
            way = self._within(session, input, with_speakers_name(config, input), options["context"])
        elif parent := parent_config(config):
            way = self._in_node(parent, input, config, options["context"])
        else:
            way = self._by_itself(input, config, options)
        async with way as (given, run_config):
            own = None if session else session_in(run_config)
            recorded = own if own and own.recorder else None
            added = add_values_mode(options) if recorded else False
            async with aclosing(cast(Any, super().astream(given, run_config, **options))) as chunks:
                async for chunk in chunks:
                    if recorded and (values := values_in(chunk)) is not None:
                        recorded.state = values
                        if added:
                            continue
                    yield chunk

    def _check_input(self, input: Any, *, is_node: bool) -> None:
        """Refuses an input that is no dict, and one with other keys in place of the claim."""
        if not getattr(self.builder, "opened", "") or input is None or isinstance(input, Command):
            return
        if not isinstance(input, Mapping):
            raise UserError(
                f"The input of {self.name} is of the type {type(input).__name__}; pass a dict, such as "
                '{"claim": "Saffron is made from roots."}.',
                kind="invalid_claim",
            )
        known = self.builder.input_schema.__annotations__
        stray = [str(key) for key in input if key not in known]
        if stray and input.get("claim") is None and input.get("messages") is None:
            advice = (
                'Map the keys of the graph around it: graph_node(graph).with_keys(lambda state: {"claim": ...}, ...).'
                if is_node
                else f"Known are {', '.join(known)}."
            )
            raise UserError(
                f"The input of {self.name} has no `claim`, but {', '.join(stray)}. {did_you_mean(stray[0], known)}"
                f"{advice}",
                kind="invalid_claim",
            )

    def bulk_update_state(self, config: RunnableConfig, supersteps: Any) -> RunnableConfig:
        """Checks the values, and calls LangGraph's method; by default, they belong to the node that ran last."""
        with refused_updates():
            if self._lacks_node(config, supersteps):
                states = [self.get_state(config)]
                while place := place_before(states, config):
                    states.append(self.get_state(place))
                supersteps = [[supersteps[0][0]._replace(as_node=last_node(states))], *supersteps[1:]]
            return super().bulk_update_state(config, supersteps)

    async def abulk_update_state(self, config: RunnableConfig, supersteps: Any) -> RunnableConfig:
        """Does what `bulk_update_state` does."""
        with refused_updates():
            if self._lacks_node(config, supersteps):
                states = [await self.aget_state(config)]
                while place := place_before(states, config):
                    states.append(await self.aget_state(place))
                supersteps = [[supersteps[0][0]._replace(as_node=last_node(states))], *supersteps[1:]]
            return await super().abulk_update_state(config, supersteps)

    def _lacks_node(self, config: RunnableConfig, supersteps: Any) -> bool:
        """Checks updates by hand; returns whether the first is one whose node is not named."""
        if not isinstance(self.checkpointer, BaseCheckpointSaver) or not config["configurable"].get("checkpoint_ns"):
            for update in (update for step in supersteps for update in step):
                self._check_values(update.values)
        first: Any = supersteps[0] if supersteps else ()
        return len(first) == 1 and first[0].as_node is None and first[0].values is not None

    def _check_values(self, values: Any) -> None:
        """Refuses keys that the state lacks, which LangGraph would drop, and evidence that is none."""
        if not isinstance(values, Mapping):
            return
        known = [key for key in self.builder.channels if not key.startswith("__")]
        if stray := [key for key in values if key not in known]:
            raise UserError(
                f"The state of {self.name} has no key {stray[0]!r}. {did_you_mean(stray[0], known)}"
                f"Known are {', '.join(known)}.",
                kind="missing_state",
            )
        evidence = written_values(values).get("evidence") or []
        pieces = evidence.value if isinstance(evidence, Overwrite) else evidence
        check_pieces(pieces if isinstance(pieces, list) else [pieces])

    @property
    def _settings_class(self) -> type[Settings]:
        return cast(type[Settings], self.builder.context_schema)

    @asynccontextmanager
    async def _within(
        self, session: Session, input: Any, config: RunnableConfig | None, settings: Settings
    ) -> AsyncIterator[Start]:
        """Context manager: runs the graph in the session of the debate around it; an inner debate has own ceilings."""
        around = budget_in(config) or budget_in(var_child_runnable_config.get())
        is_debate = bool(getattr(self.builder, "opened", ""))
        budget = Budget(parent=around) if is_debate else None
        run_config = with_session(config, session, budget) if is_debate else config or RunnableConfig()

        async def resume(found: StateSnapshot) -> None:
            if budget:
                check_resumed(settings, found.values, self._settings_class)
                if opened := found.values.get("budget"):
                    budget.resume(opened, found.values.get("calls") or ())
            count_earlier_calls(session, around, found)

        # In the first run of a debate, only an inner debate may be resumed, after an error of its node.
        if (is_debate or session.before) and (parent := parent_config(run_config)):
            run_config = ResumeListener(self, parent, resume).added_to(run_config)
        try:
            yield input, run_config
        finally:
            if budget:
                budget.release_held()

    @asynccontextmanager
    async def _in_node(
        self, parent: RunnableConfig, input: Any, config: RunnableConfig | None, settings: Settings
    ) -> AsyncIterator[Start]:
        """Context manager: runs the graph in a node of a graph that is not a debate; LangGraph may resume it there."""
        async with new_session(parent, settings) as session:

            async def resume(found: StateSnapshot) -> None:
                check_resumed(settings, found.values, self._settings_class)
                if not found.next and found.values.get("status") in ("done", "failed"):
                    session.skip(document_of(found.values), is_recorded=True)
                else:
                    session.continue_from(found.values)
                    await session.resume(replied=bool(found.interrupts))

            async with ending(session):
                yield input, with_session(ResumeListener(self, parent, resume).added_to(config), session)

    @asynccontextmanager
    async def _by_itself(
        self, input: Any, config: RunnableConfig | None, options: dict[str, Any]
    ) -> AsyncIterator[Start]:
        """Context manager: runs the graph by itself; a run without an input resumes the debate of the thread."""
        is_resumed = input is None or isinstance(input, Command)
        run_config = config or RunnableConfig()
        if self.checkpointer and not (run_config.get("configurable") or {}).get("thread_id"):
            raise UserError(
                f"{self.name} has a checkpointer, so a run needs the name of its thread: "
                '{"configurable": {"thread_id": "1"}}.',
                kind="invalid_setting",
            )
        found = await self.aget_state(run_config) if is_resumed else None
        if found and not found.values and not found.next and not (isinstance(input, Command) and input.update):
            raise UserError(
                f"No debate of {self.name} waits or was interrupted on this thread. Begin one with an input: "
                '{"claim": "Saffron is made from roots."}.',
                kind="invalid_reply",
            )
        before, is_restart = (found.values, is_written_by_run(found, run_config)) if found else ({}, False)
        if found and await self._is_another_attempt(run_config, found):
            before = {**before, "id": uuid4().hex}
        options["context"] = resumed_settings(options["context"], before, self._settings_class)
        async with new_session(run_config, options["context"], before) as session:
            if is_resumed:
                await session.resume(replied=input is not None and not is_restart)
                current = await self.aget_state(run_config)
                # Whether the worker was lost after this state was written.
                if is_restart := is_written_by_run(current, run_config):
                    input = None
                if not current.next and not (isinstance(input, Command) and (input.goto or input.update)):
                    session.skip(document_of(current.values), is_recorded=not is_restart)
            elif await self._is_restarted(run_config):
                # LangGraph would resume a run whose id is in the thread's state. Then the node that opens the debate
                # would not run, and nothing would store the debate's document.
                run_config = {**run_config, "metadata": {**(run_config.get("metadata") or {}), "run_id": uuid4().hex}}
            async with ending(session):
                yield input, with_session(run_config, session)

    async def _is_another_attempt(self, config: RunnableConfig, found: StateSnapshot) -> bool:
        """Whether a debate that has ended runs again from an earlier state, so that it needs an id of its own."""
        given = config.get("configurable") or {}
        if not found.next or "checkpoint_id" not in given:
            return False
        thread: RunnableConfig = {"configurable": {key: one for key, one in given.items() if key != "checkpoint_id"}}
        async for state in self.aget_state_history(thread):
            if state.values.get("id") == found.values.get("id") and state.values.get("status") in ("done", "failed"):
                return True
        return False

    async def _is_restarted(self, config: RunnableConfig) -> bool:
        """Whether a server runs the graph again, because the worker of the run was lost."""
        if not self.checkpointer or "run_id" not in (config.get("configurable") or {}):
            return False
        return is_written_by_run(await self.aget_state(config), config)


def count_earlier_calls(session: Session, budget: Budget | None, found: StateSnapshot) -> None:
    """Counts the calls of an inner graph before its resumption as spent: the outer debate's state lacks them."""
    calls = found.values.get("calls") or ()
    while budget:
        budget.spent = budget.spent.plus(spent_by(calls, budget.prices))
        budget = None if budget is session.budget else budget.parent


@asynccontextmanager
async def new_session(
    run: RunnableConfig, settings: Settings, before: Mapping[str, Any] = MappingProxyType({})
) -> AsyncIterator[Session]:
    """Context manager: the session of a run, within the ceilings that the recorder reserves for the run."""
    recorder = current_recorder()
    if recorder is None:
        keeps = settings.on_failure == "raise"
        yield Session(before, use=current_use(), run=run, state=before, keeps_writes=keeps)
        return
    use = recorder.use(run)
    async with recorder.reservation(use, vars(settings)) as reserved:
        budget = Budget(parent=reserved) if reserved else new_budget()
        yield Session(before, use=use, recorder=recorder, run=run, state=before, budget=budget)


@asynccontextmanager
async def ending(session: Session) -> AsyncIterator[None]:
    """Context manager: ends the session after the block, with its error."""
    ended: BaseException | None = None
    try:
        yield
    except GraphInterrupt:  # a debate in a node waits for a person
        raise
    except BaseException as error:
        ended = error
        if isinstance(error, MootError) and session.written:
            error.document = session.document = session.document or failed(session.before, session.written)
        raise
    finally:
        await session.end(ended)


class UpdateError(UserError, InvalidUpdateError):
    """A `UserError` about an update by hand. As LangGraph's own error, it is no internal error of its server."""


@contextmanager
def refused_updates() -> Iterator[None]:
    """Context manager: raises the `UserError`s of an update by hand as `UpdateError`."""
    try:
        yield
    except UserError as error:
        raise UpdateError(error.detail, kind=error.kind) from error


def place_before(states: Sequence[StateSnapshot], config: RunnableConfig) -> RunnableConfig | None:
    """The place of the state before the last one, for a config of the graph; None if `last_node` does not need it."""
    sources = [(state.metadata or {}).get("source") for state in states]
    place = states[-1].parent_config
    if not place or sources[-1] not in ("loop", "update") or sources[-2:-1] == ["loop"]:
        return None
    return {**config, "configurable": {**config["configurable"], **place["configurable"]}}


def last_node(states: Sequence[StateSnapshot]) -> str | None:
    """The node whose result the first of some states, newest first, is; None if LangGraph must find it."""
    # LangGraph overlooks nodes that `Send` has started. Updates by hand that lead to the same nodes are passed over.
    if len(states) < 2 or len({state.next for state in states[:-1]}) > 1:
        return None
    nodes = set(states[-1].next)
    return nodes.pop() if len(nodes) == 1 and (states[-2].metadata or {}).get("source") == "loop" else None


def is_written_by_run(found: StateSnapshot, run: RunnableConfig) -> bool:
    """Whether a run wrote a state before a server restarted it: the state then has the run's input or reply already."""
    id = (run.get("configurable") or {}).get("run_id")
    return id is not None and str((found.metadata or {}).get("run_id")) == str(id)


def add_values_mode(options: dict[str, Any]) -> bool:
    """Adds ``values`` to ``stream_mode`` if this option is a list without it; returns whether it was added."""
    modes = options.get("stream_mode")
    if not isinstance(modes, list) or "values" in modes:
        return False
    options["stream_mode"] = [*modes, "values"]
    return True


def values_in(chunk: Any) -> dict[str, Any] | None:
    """The debate's state in a chunk of a stream with several modes; None if the chunk is anything else."""
    *place, mode, values = chunk if isinstance(chunk, tuple) and len(chunk) in (2, 3) else ((), None, None)
    return values if mode == "values" and not any(place) and isinstance(values, dict) else None
