"""Traces of debates in LangSmith: a client that removes API keys, and the metadata and scores of debates.

LangSmith's own environment variables turn tracing on (``LANGSMITH_TRACING``, ``LANGSMITH_API_KEY``,
``LANGSMITH_ENDPOINT``, ``LANGSMITH_PROJECT``). A client that was set before (`langsmith.configure`) is not replaced.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import json
import logging
import os
import threading
import time
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from importlib.metadata import version
from types import MappingProxyType
from typing import Any
from uuid import UUID, uuid4

import langsmith
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.errors import GraphInterrupt
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, StateSnapshot
from langsmith import RunTree, run_trees
from langsmith.utils import LangSmithError, LangSmithWarning, get_env_var, tracing_is_enabled
from moot.core.redaction import environment_keys, hide_secrets
from moot.nodes._models.ceilings import Ceilings, open_ceilings
from moot.nodes._models.prices import Price, costs_of, price_of, read_prices
from moot.nodes._models.replies import current_use
from moot.nodes._models.session import Session, ceilings_in, current_recorder, session_in, with_session
from moot.nodes._models.spend import spent_by
from moot.nodes._models.stored_messages import FROM_STORE
from moot.nodes._runtime.document import document_of
from moot.nodes._runtime.nesting import ResumeListener, parent_config
from moot.nodes._runtime.run_settings import own_copy, resumed_settings, settings_of_run
from moot.nodes._runtime.settings import Settings
from moot.nodes._runtime.trace import add_metadata, graph_run
from moot.nodes._telemetry.start import watch

log = logging.getLogger(__name__)

NOT_ANONYMISED = ("name", "tags", "events", "extra", "serialized")
"""Parts of a run that LangSmith does not pass to the anonymiser, or not completely."""
SCALES = {"consistency": 10}
"""Parts of a confidence that become scores of the debate, each with its maximum."""

ENVIRONMENT = {"LANGSMITH_USE_DAEMON": "true", "LANGSMITH_DISABLE_RUN_COMPRESSION": "true"}
"""Without these variables, the process waits at its end for the threads of LangSmith's client, without a time limit.

``langgraph.json`` sets them for ``langgraph dev``, which creates its own clients before it loads a graph.
"""
LONGEST_WAIT = 1.0
"""Maximum number of seconds that a process waits at its end for the rest of the trace to be sent."""


def set_langsmith_environment() -> None:
    """Sets the variables in `ENVIRONMENT` that are not set yet, so that LangSmith does not delay the process's end."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    get_env_var.cache_clear()  # type: ignore[attr-defined]


FREE: Price = {"input": 0.0, "output": 0.0}
"""The price of a stored reply."""


class Client(langsmith.Client):
    """A LangSmith client that removes API keys from runs and adds the costs of calls, by its ``prices``."""

    def __init__(self) -> None:
        self.prices: Mapping[str, Price] = {}
        self._keys = environment_keys()
        set_langsmith_environment()
        super().__init__(anonymizer=self._clean)
        atexit.unregister(finish_at_exit)
        atexit.register(finish_at_exit, self)

    def _clean(self, value: Any) -> Any:
        return hide_secrets(value, self._keys)

    def create_run(self, name: str, inputs: dict[str, Any], run_type: Any, **more: Any) -> None:
        """Removes API keys from the run and adds the cost of a call, then calls LangSmith's method."""
        if more.get("parent_run_id") is None:
            self._keys = environment_keys()  # once per trace, because it is slow
        super().create_run(inputs=inputs, run_type=run_type, **self._prepared({"name": name, **more}))

    def update_run(self, run_id: Any, **more: Any) -> None:
        """Removes API keys from the run and adds the cost of a call, then calls LangSmith's method."""
        super().update_run(run_id, **self._prepared(more))

    def _prepared(self, run: dict[str, Any]) -> dict[str, Any]:
        clean: dict[str, Any] = run | self._clean({part: run[part] for part in NOT_ANONYMISED if run.get(part)})
        metadata = (clean.get("extra") or {}).get("metadata") or {}
        if usage := metadata.get("usage_metadata"):
            price = FREE if metadata.get(FROM_STORE) else price_of(metadata.get("model", ""), self.prices)
            metadata["usage_metadata"] = with_costs(usage, price)
        return clean


def with_costs(usage: dict[str, Any], price: Price | None) -> dict[str, Any]:
    """A call's token counts with their costs in USD, under the names that LangSmith sums; no costs without a price."""
    if price is None:
        return usage
    read, written = costs_of(usage["input_tokens"], usage["output_tokens"], price)
    return {**usage, "input_cost": read, "output_cost": written, "total_cost": read + written}


def guard_traces() -> None:
    """Installs a LangSmith client that removes API keys from traces, if tracing is on and this process has no client.

    moot's graphs call this themselves. If you use moot's nodes in your own graph, call it once before the graph's first
    run.
    """
    if tracing_is_enabled() and client_of_process().timeout_ms == NO_TIME:
        langsmith.configure(client=Client())


NO_TIME = (1, 1)
"""The time limits, in milliseconds, of the client that LangSmith creates if none was set. It is replaced at once."""


def client_of_process() -> langsmith.Client:
    """LangSmith's client of this process; if none was set, a client with the time limits `NO_TIME`."""
    return run_trees.get_cached_client(timeout_ms=NO_TIME, auto_batch_tracing=False)


class TracedGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph whose traces contain no API keys (`guard_traces`); asynchronous runs also have a `Session`."""

    def stream(self, *given: Any, **options: Any) -> Iterator[Any]:
        """Calls `guard_traces`, then LangGraph's method."""
        guard_traces()
        return super().stream(*given, **options)

    def astream(self, input: Any, config: Any = None, **options: Any) -> Any:
        """Calls LangGraph's method with the run's settings as context, in the outer debate's `Session` or a new one."""
        guard_traces()
        options["context"] = settings_of_run(self, config, options.get("context"))
        if ((config or {}).get("configurable") or {}).get("checkpoint_ns"):
            # Without output keys, ``astream_events`` would stream the whole state of an inner graph.
            options.setdefault("output_keys", self.output_channels)
        if session := session_in(config) or session_in(var_child_runnable_config.get()):
            if getattr(self.builder, "opened", ""):
                return self._in_outer_session(input, config, session, options)
            if session.before and (parent := parent_config(config)):
                count = partial(count_earlier_calls, session, ceilings_in(parent))
                config = ResumeListener(self, parent, count).added_to(config)
            return super().astream(input, config, **options)
        if parent := parent_config(config):
            return self._in_node(input, config, parent, options)
        return self._in_session(input, config, options)

    async def _in_outer_session(
        self, input: Any, config: RunnableConfig | None, session: Session, options: dict[str, Any]
    ) -> AsyncIterator[Any]:
        ceilings = Ceilings(parent=ceilings_in(config) or ceilings_in(var_child_runnable_config.get()))
        inner = with_session(config, session, ceilings)
        replace_settings = self._replaceable_settings(options)

        async def resume(found: StateSnapshot) -> None:
            replace_settings(found)
            if budget := found.values.get("budget"):
                ceilings.resume(budget, found.values.get("calls") or ())
                await count_earlier_calls(session, ceilings.parent, found)

        if parent := parent_config(inner):
            run: Any = super().astream(input, ResumeListener(self, parent, resume).added_to(inner), **options)
        else:
            run = super().astream(input, inner, **options)
        try:
            async with aclosing(run) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            ceilings.end()

    async def _in_node(
        self, input: Any, config: RunnableConfig | None, parent: RunnableConfig, options: dict[str, Any]
    ) -> AsyncIterator[Any]:
        """Runs the graph in a node of a graph that is not a debate; LangGraph decides whether to resume the graph."""
        replace_settings = self._replaceable_settings(options)
        async with new_session(parent, options["context"]) as session:

            async def resume(found: StateSnapshot) -> None:
                replace_settings(found)
                if not found.next and found.values.get("status") in ("done", "failed"):
                    session.skip(document_of(found.values), is_recorded=True)
                else:
                    session.continue_from(found.values)
                    await session.resume(replied=bool(found.interrupts))

            run_config = ResumeListener(self, parent, resume).added_to(config)
            async with aclosing(self._recorded(input, run_config, session, options)) as chunks:
                async for chunk in chunks:
                    yield chunk

    def _replaceable_settings(self, options: dict[str, Any]) -> Callable[[StateSnapshot], None]:
        """Makes a copy of the settings the context; the returned function replaces them by `resumed_settings`."""
        checked: Any = self.builder.context_schema
        # When LangGraph says that it resumes a graph in a node, it has passed the context on: hence the change in
        # place.
        settings = options["context"] = own_copy(options["context"], checked)
        return lambda found: settings.__setstate__(resumed_settings(settings, found.values, checked).__getstate__())

    async def _in_session(self, input: Any, config: Any, options: dict[str, Any]) -> AsyncIterator[Any]:
        is_resumed = input is None or isinstance(input, Command)
        run_config: RunnableConfig = config or RunnableConfig()
        found = await self.aget_state(config) if is_resumed else None
        before, is_restart = (found.values, is_written_by_run(found, run_config)) if found else ({}, False)
        checked: Any = self.builder.context_schema
        options["context"] = resumed_settings(options["context"], before, checked)
        async with new_session(run_config, options["context"], before) as session:
            if is_resumed:
                await session.resume(replied=input is not None and not is_restart)
                current = await self.aget_state(config)
                # Whether the worker was lost after this state was written.
                if is_restart := is_written_by_run(current, run_config):
                    input = None
                if not current.next and not (isinstance(input, Command) and (input.goto or input.update)):
                    session.skip(document_of(current.values), is_recorded=not is_restart)
            elif await self._is_restarted(run_config):
                # LangGraph would resume a run whose id is in the thread's state. Then the node that opens the debate
                # would not run, and nothing would store the debate's document.
                run_config = {**run_config, "metadata": {**(run_config.get("metadata") or {}), "run_id": uuid4().hex}}
            async with aclosing(self._recorded(input, run_config, session, options)) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def _is_restarted(self, config: RunnableConfig) -> bool:
        """Whether a server runs the graph again, because the worker of the run was lost."""
        if not self.checkpointer or "run_id" not in (config.get("configurable") or {}):
            return False
        return is_written_by_run(await self.aget_state(config), config)

    async def _recorded(
        self, input: Any, config: RunnableConfig, session: Session, options: dict[str, Any]
    ) -> AsyncGenerator[Any]:
        """Calls LangGraph's method in a session, and ends the session."""
        recorder = session.recorder
        added = add_values_mode(options) if recorder else False
        session.watch = await watch(getattr(self.builder, "opened", "") or self.name, session.id)
        run: Any = super().astream(input, with_session(config, session), **options)
        ended: BaseException | None = None
        try:
            async with aclosing(run) as chunks:
                async for chunk in chunks:
                    if recorder and (values := values_in(chunk)) is not None:
                        session.state = values
                        if added:
                            continue
                    yield chunk
        except GraphInterrupt:  # a debate in a node waits for a person
            raise
        except BaseException as error:
            ended = error
            raise
        finally:
            await session.end(ended)


async def count_earlier_calls(session: Session, ceilings: Ceilings | None, found: StateSnapshot) -> None:
    """Counts the calls of an inner graph before its resumption as spent: the outer debate's state lacks them."""
    calls = found.values.get("calls") or ()
    while ceilings:
        ceilings.spent = ceilings.spent.plus(spent_by(calls, ceilings.prices))
        ceilings = None if ceilings is session.ceilings else ceilings.parent


@asynccontextmanager
async def new_session(
    run: RunnableConfig, settings: Settings, before: Mapping[str, Any] = MappingProxyType({})
) -> AsyncIterator[Session]:
    """Context manager: the session of a run, within the ceilings that the recorder reserves for the run."""
    recorder = current_recorder()
    if recorder is None:
        yield Session(before, use=current_use(), run=run, state=before)
        return
    use = recorder.use(run)
    async with recorder.reservation(use, vars(settings)) as reserved:
        ceilings = Ceilings(parent=reserved) if reserved else open_ceilings()
        yield Session(before, use=use, recorder=recorder, run=run, state=before, ceilings=ceilings)


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


def traced(graph: CompiledStateGraph[Any, Any, Any, Any], tag: str) -> TracedGraph:
    """The graph as a `TracedGraph` whose runs all have the tag ``tag``; if ``tag`` is empty, they have no tag."""
    parts = {name: part for name, part in vars(graph).items() if name != "__orig_class__"}
    return TracedGraph(**parts).with_config(tags=[tag] if tag else [])


# --- the data of a debate in its trace --------------------------------------------------------------------------------


VERSIONS = {f"{name}_version": version(name) for name in ("moot", "langgraph")}
"""Versions of packages that a result may depend on."""


def debate_metadata(document: Mapping[str, Any]) -> dict[str, Any]:
    """A debate's metadata: its system, a hash of its settings, its corpus if one is set, versions of packages."""
    settings = document["settings"]
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
    corpus = {"corpus": settings["corpus"]} if settings.get("corpus") else {}
    return {"graph": document["graph"], "settings_hash": digest, **corpus, **VERSIONS}


async def add_debate_metadata(document: Mapping[str, Any]) -> None:
    """Adds a debate's metadata to the trace of its first run, if there is one, and sets the prices of calls."""
    if (run := graph_run()) is None:
        return
    add_metadata(run, debate_metadata(document))
    await set_prices(run)


async def set_prices(run: RunTree | None) -> None:
    """Sets the prices of a run's LangSmith `Client`; again when a debate is resumed, maybe by another process."""
    if run is not None and isinstance(run.client, Client):
        run.client.prices = await asyncio.to_thread(read_prices)


def add_outcome(document: Mapping[str, Any]) -> None:
    """Adds the outcome and all metadata to the trace of a debate's last run, if there is one; sends the scores."""
    if (run := graph_run()) is None or not tracing_is_enabled():
        return
    read = sorted({reading["retriever"] for reading in document["corpora"] if not reading.get("failed")})
    outcome = {"status": document["status"], "stop_reason": document["stop_reason"], "corpora": read}
    add_metadata(run, debate_metadata(document) | outcome)
    if scores := list(scores_of(document)):
        # In a thread, because `send_scores` may wait for the server.
        sending = threading.Thread(target=send_scores, args=(run, scores), name=SENDING_THREAD, daemon=True)
        sending.start()


SENDING_THREAD = "moot-scores"
"""The name of threads that send scores."""


def scores_of(document: Mapping[str, Any]) -> Iterator[tuple[str, float, str | None]]:
    """A debate's scores as feedback: key, value (0 to 1; a cosine from -1), and the agent or the unscaled value."""
    for agent, scores in document["scores"].items():
        yield from ((key, score, agent) for key, score in scores.items() if score is not None)
    for key, most in SCALES.items():
        if (score := (document["confidence_parts"] or {}).get(key)) is not None:
            yield key, score / most, f"{score:g} of {most}"
    if document["confidence"] is not None:
        yield "confidence", document["confidence"], None


def send_scores(run: RunTree, scores: list[tuple[str, float, str | None]]) -> None:
    """Sends scores as feedback on a run; if this fails, logs a warning; blocking."""
    try:
        run.client.flush()  # so that the project exists: LangSmith creates it when its first run arrives
        project = project_of(run)
        for key, score, comment in scores:
            run.client.create_feedback(
                run.id,
                key,
                score=score,
                comment=comment,
                trace_id=run.trace_id,
                session_id=project,
                extend_trace_retention=False,  # else the client would queue the score instead of sending it
            )
    except (LangSmithError, ValueError) as error:
        log.warning("The scores of %s could not be sent to LangSmith: %s", run.name, hide_secrets(str(error)))


def project_of(run: RunTree) -> UUID | None:
    """The id of a run's project; None, without LangSmith's warning, if the server does not tell it; blocking."""
    try:
        found: UUID = run.client.read_project(project_name=run.session_name).id
        return found
    except (LangSmithError, ValueError) as error:
        log.debug("The id of the project %s could not be read: %s", run.session_name, error)
        warnings.filterwarnings("ignore", "Creating feedback for a run without", LangSmithWarning)
        return None


def wait_until_sent(client: langsmith.Client, seconds: float) -> bool:
    """Waits until scores and a client's runs are sent, at most ``seconds``; returns whether all runs were sent."""
    deadline = time.monotonic() + seconds
    for thread in threading.enumerate():
        if thread.name == SENDING_THREAD:
            thread.join(max(0, deadline - time.monotonic()))
    if client.tracing_queue is None:
        return True
    client.flush(timeout=max(0, deadline - time.monotonic()))
    return not client.tracing_queue.unfinished_tasks


def finish_at_exit(client: langsmith.Client) -> None:
    """Sends the rest of the trace at the end of a process; logs an error if `LONGEST_WAIT` seconds were not enough."""
    if not wait_until_sent(client, LONGEST_WAIT):
        log.error("moot: parts of the trace have not reached LangSmith.")
