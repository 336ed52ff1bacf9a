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
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any
from uuid import UUID

import langsmith
from langsmith import RunTree, run_trees
from langsmith.utils import LangSmithError, LangSmithWarning, get_env_var, is_env_var_truish, tracing_is_enabled
from moot.core.redaction import environment_keys, hide_secrets
from moot.nodes._models.prices import Price, costs_of, price_of, read_prices
from moot.nodes._models.stored_messages import FROM_STORE
from moot.nodes._runtime.trace import add_metadata, graph_run

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
    cached = (usage.get("input_token_details") or {}).get("cache_read") or 0
    read, written = costs_of(usage["input_tokens"], usage["output_tokens"], price, cached)
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
    if sends_to_langsmith() and (scores := list(scores_of(document))):
        # In a thread, because `send_scores` may wait for the server.
        sending = threading.Thread(target=send_scores, args=(run, scores), name=SENDING_THREAD, daemon=True)
        sending.start()


def sends_to_langsmith() -> bool:
    """Whether traces go to LangSmith, and not to OpenTelemetry alone, which has no scores."""
    mode = get_env_var("TRACING_MODE")
    return mode != "otel" if mode else not is_env_var_truish("OTEL_ONLY")


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
