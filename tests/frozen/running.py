"""Runs a frozen debate, and brings its traffic and its document into a form that can be compared."""

from __future__ import annotations

import importlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from tests.frozen.endpoint import Endpoint
from tests.frozen.runs import Run

FORMATTED = ("model", "messages", "response_format", "tools")
TIMES = {"seconds", "started_at", "retrieved", "moot_version", "fetched", "waited"}
"""Keys of documents whose values depend on the clock or on the version."""
UNORDERED = {"calls"}
"""Lists of documents whose order depends on the order of concurrent replies."""
RANDOM_ID = re.compile(r"\b[0-9a-f]{32}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\d+")
RUN = re.compile(r"@\d{6}\b")

LEFT = re.compile(r"\b[\d,]+ tokens(?=, and | leaves|\.\")|(?<=leaves )[\d,]+ tokens")
"""Tokens in warnings about ceilings: how many are left depends on the order of concurrent calls."""


async def frozen_runs(runs: Iterable[Run]) -> dict[str, Any]:
    """Run debates; the result has their traffic and documents by the names of the runs."""
    async with Endpoint() as endpoint:
        return {run.name: await frozen_run(run, endpoint) for run in runs}


async def frozen_run(run: Run, endpoint: Endpoint) -> dict[str, Any]:
    """Run a debate through its public graph; return its requests, embedded texts, document, questions and events."""
    number = endpoint.start_run(failing_sources=run.failing_sources)
    # What a process learns of a model, such as its context, must not reach other runs.
    run = replace(run, settings=_with_suffix(run.settings, f"@{number:06}"))
    names = ("OPENAI_BASE_URL", "VLLM_BASE_URL")
    environment = {**dict.fromkeys(names, f"{endpoint.url}/v1"), "WIKIPEDIA_BASE_URL": endpoint.url}
    with patch.dict(os.environ, environment):
        document, asked, events = await _result(run)
    return {
        "requests": sorted(map(_request, normal(endpoint.requests)), key=canonical),
        "embedded": sorted(set(endpoint.embedded)),
        "asked": normal(asked),
        "events": events,
        "document": normal(document),
    }


def _with_suffix(value: Any, suffix: str) -> Any:
    """Settings in which the name of every model has a suffix."""
    if isinstance(value, Mapping):
        return {key: _with_suffix(part, suffix) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_with_suffix(part, suffix) for part in value]
    return f"{value}{suffix}" if isinstance(value, str) and value.startswith(("openai:", "vllm:")) else value


async def _result(run: Run) -> tuple[Any, list[Any], dict[str, int]]:
    graph = importlib.import_module(f"moot.graphs.{run.system}").graph
    context = dict(run.settings)
    try:
        if run.streamed:
            return await _streamed(graph, run, context)
        if run.replies is None:
            return await graph.ainvoke(dict(run.given), context=context), [], {}
        return await _with_person(graph, run, context)
    except Exception as error:  # noqa: BLE001 (an error of a debate is its result)
        return {"raised": type(error).__name__, "text": str(error)}, [], {}


async def _with_person(graph: Any, run: Run, context: dict[str, Any]) -> tuple[Any, list[Any], dict[str, int]]:
    """Run a debate with a person, who changes the first proposal of each kind, and accepts the others."""
    with_checkpoints = graph.builder.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    left, given = dict(run.replies or {}), dict(run.given)
    asked: list[Any] = []
    for _ in range(60):
        document = await with_checkpoints.ainvoke(given, config, context=context)
        waits = sorted(document.pop("__interrupt__", []), key=lambda wait: canonical(normal(wait.value)))
        if not waits:
            return document, asked, {}
        asked += [wait.value for wait in waits]
        change = {wait.id: left.pop(wait.value["kind"], lambda _: True) for wait in waits}
        given = Command(resume={wait.id: change[wait.id](wait.value["proposed"]) for wait in waits})  # type: ignore[assignment]
    raise AssertionError(asked)


async def _streamed(graph: Any, run: Run, context: dict[str, Any]) -> tuple[Any, list[Any], dict[str, int]]:
    """Run a debate as a stream; count its updates by node, its own events by kind, and its text by node."""
    events: Counter[str] = Counter()
    document: Any = None
    texts: Counter[str] = Counter()
    modes = ["values", "updates", "custom", "messages"]
    async for path, mode, value in graph.astream(dict(run.given), context=context, stream_mode=modes, subgraphs=True):
        inside = "/".join(part.partition(":")[0] for part in path)
        if mode == "values":
            document = document if path else value
        elif mode == "updates":
            events.update(f"updates {inside} {node}" for node in value)
        elif mode == "custom":
            events[f"custom {inside} {json.dumps(shape(value))}"] += 1
        else:
            texts[f"messages {inside} {value[1].get('langgraph_node')}"] += len(str(value[0].content))
    return document, [], {**events, **texts}


def shape(value: Any) -> Any:
    """The kind of an event: its keys, and the values of those that name something."""
    if not isinstance(value, Mapping):
        return type(value).__name__
    return {key: value[key] if key in ("kind", "type", "node", "step", "role") else "" for key in sorted(value)}


def _request(body: Mapping[str, Any]) -> dict[str, Any]:
    """A request's body, with all parameters besides the prompt and the form of the reply in one field."""
    parts = {name: body[name] for name in FORMATTED if name in body}
    # Which of two parallel requests is the first to get the older name, depends on their order.
    names = {"max_completion_tokens": "max_tokens"}
    return {**parts, "parameters": {names.get(key, key): value for key, value in body.items() if key not in FORMATTED}}


def canonical(value: Any) -> str:
    """A JSON value as text; equal values have equal texts."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def normal(value: Any) -> Any:
    """A document without times and addresses, with rounded numbers, and with numbers in place of random ids."""
    text = canonical(_without_times(json.loads(json.dumps(value, default=_plain))))
    known: dict[str, str] = {}
    text = RANDOM_ID.sub(lambda found: known.setdefault(found[0], f"id-{len(known)}"), text)
    return json.loads(LEFT.sub("N tokens", RUN.sub("", ADDRESS.sub("http://endpoint", text))))


def _plain(value: Any) -> Any:
    """A message or a Pydantic model as JSON."""
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _without_times(part) for key, part in value.items() if key not in TIMES}
        for key in UNORDERED:
            if isinstance(kept.get(key), list):
                kept[key] = sorted(kept[key], key=canonical)
        if "retrievals" in kept:  # those of one second were one entry, if they differ in nothing else
            kept["retrievals"] = [one for i, one in enumerate(kept["retrievals"]) if one not in kept["retrievals"][:i]]
        return kept
    if isinstance(value, float):
        return round(value, 6)
    return [_without_times(part) for part in value] if isinstance(value, list) else value
