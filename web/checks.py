"""Checks requests for runs and assistants before the server accepts them.

Without these checks, the server drops unknown settings, and answers 200 if a value is out of its range.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIError
from moot.core.callers import MAXIMA, check_calibration, check_embedder, check_listed_object, check_model, maxima
from moot.core.errors import UserError, did_you_mean
from moot.graphs import load_graph
from moot.graphs._registry import descriptions, graph_names
from moot.nodes._runtime.nesting import PLACE_KEYS
from moot.nodes._runtime.settings import checked_settings
from moot.nodes._vendors.catalogue import check_callers_model
from moot.retrievers._documents.fetch import private_address_of
from moot.retrievers._mcp_source import listed_tool
from moot.web.caller import caller_client, webhook_policy
from moot.web.guard import is_own
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

WITHOUT_THREAD = ("/runs", "/runs/wait", "/runs/stream", "/runs/batch")
"""Routes that start a run without a thread."""


MOST_RUNS = 100
"""Maximum number of runs in a request to ``/runs/batch``."""
EMPTY: dict[str, Any] = {"values": {}, "next": [], "tasks": []}
"""The state of a thread without a run."""
ON_THREAD = re.compile(r"^/threads/([^/]+)/(?:runs|commands)\b")
"""Routes that run graphs on a thread; the group is the thread's id."""
RUN_ROUTES = re.compile(r"^/(assistants|a2a)\b|^(/threads/[^/]+)?/(runs|commands)\b")
"""Routes that run graphs, or that create or change assistants. The pattern also matches some routes that only read."""
MODEL_SETTINGS = ("embedder", "reranker", "cross_encoder", "source_summaries")
"""Settings that may name a model of this machine."""
NO_MODEL = (("source_summaries", "model"), ("source_summaries", "none"))
"""Values of `MODEL_SETTINGS` that name no model of this machine."""
CHAT_SETTINGS = ("model", "models", "agents", "debaters", "judges")
"""Settings that may name chat models: one, a list, or one for each role."""
SOURCE_SETTINGS = ("sources", "fallback", "retriever")
"""Settings that may name a Python object, as ``langchain:MODULE:ATTRIBUTE``, or a tool, as ``mcp:SERVER/TOOL``."""


def check_maxima_names() -> None:
    """Checks that the operator's maxima (``MOOT_MAXIMA``) name settings of the served graphs."""
    served = descriptions(others=True)  # without systems of packages that cannot be imported
    known = {name for graph in served for name in load_graph(graph, others=True).settings.model_fields}
    if unknown := sorted(maxima().keys() - known):
        raise UserError(
            f"{MAXIMA}: there is no setting {unknown[0]!r}. {did_you_mean(unknown[0], known)}See: moot settings GRAPH",
            kind="invalid_environment",
        )


async def check(body: Any, path: str, client: LangGraphClient) -> None:
    """Checks a request's body: a run or a list of runs, a schedule, an assistant, or a tool call.

    A body that has another form passes the check.

    """
    if isinstance(body, list) and len(body) > MOST_RUNS:
        raise UserError(f"One request may start at most {MOST_RUNS} runs, not {len(body):,}.", kind="bad_request")
    for one in body if isinstance(body, list) else [body]:
        # Calls of tools have a run in `params`; LangGraph ignores this key in a run itself.
        for params in (one, one.get("params")) if isinstance(one, dict) else ():
            if not isinstance(params, dict):
                continue
            check_input(params, path)
            for values, _ in settings_in(params):
                await asyncio.to_thread(check_loading, values)
            await check_webhook(params)
            await check_settings(params, path, client)
            await check_thread(params, path, client)


def check_input(params: Mapping[str, Any], path: str) -> None:
    """Refuses a run whose input is not an object. A run without a thread must have an input or a command.

    A run on a thread needs neither, because it continues from the thread's state.

    """
    given = params.get("input")
    starts = path in WITHOUT_THREAD and not params.get("command")
    if "assistant_id" in params and not isinstance(given, dict) and (starts or given is not None):
        raise UserError('The input is an object: {"claim": "The claim to check."}', kind="invalid_claim")


async def check_webhook(params: Mapping[str, Any]) -> None:
    """Refuses a webhook whose host has an address that is not public, unless the operator's own policy applies.

    LangGraph's server checks webhooks as well, also when it calls them, but with a shorter list of networks. A path on
    this server is left to it.

    """
    webhook = params.get("webhook")
    if not isinstance(webhook, str) or webhook.startswith("/") or webhook_policy():
        return
    if private := await asyncio.to_thread(private_address_of, webhook):
        raise UserError(
            f"Webhook host blocked: its address {private} is in a private network. LANGGRAPH_WEBHOOKS sets the hosts "
            "that this server may call.",
            kind="invalid_setting",
        )


async def check_thread(params: Mapping[str, Any], path: str, client: LangGraphClient) -> None:
    """Refuses a run without input if the thread has nothing to continue. Also checks the run's reply, if it has one.

    Runs with an input and runs from a checkpoint are not checked.

    """
    command, match = params.get("command"), ON_THREAD.match(path)
    reply = command.get("resume") if isinstance(command, dict) else None
    continues = "assistant_id" in params and params.get("input") is None and (reply is not None or not command)
    past = params.get("checkpoint") or params.get("checkpoint_id")
    if not continues or past or not (match or path in WITHOUT_THREAD):
        return
    state = await state_of(match[1], params, client) if match else EMPTY
    if state is None:
        return
    interrupts = [interrupt["id"] for task in state["tasks"] for interrupt in task["interrupts"]]
    if reply is not None and not state["next"]:
        raise UserError("No debate waits for a reply on this thread.", kind="invalid_reply")
    if not state["next"] and not state["values"]:
        raise UserError('The thread is empty: a run begins with an input, {"claim": "..."}.', kind="invalid_claim")
    names_interrupts = isinstance(reply, dict) and reply and set(reply) <= set(interrupts)
    if reply is not None and len(interrupts) > 1 and not names_interrupts:
        shape = ", ".join(f'"{id}": REPLY' for id in interrupts)
        detail = f'Several interrupts wait: send {{"resume": {{{shape}}}}}. You may leave out some of these replies.'
        raise UserError(detail, kind="invalid_reply")


async def state_of(thread: str, params: Mapping[str, Any], client: LangGraphClient) -> Mapping[str, Any] | None:
    """The state from which a run continues; `EMPTY` if the run will create the thread.

    None if another run will still change the state, or if the server itself will refuse the run.
    """
    try:
        busy = (await client.threads.get(thread))["status"] == "busy"
        return None if busy else dict(await client.threads.get_state(thread))
    except APIError:
        return EMPTY if params.get("if_not_exists") == "create" else None


async def check_settings(params: Mapping[str, Any], path: str, client: LangGraphClient) -> None:
    """Checks the settings in a request for a run, a schedule or an assistant.

    If the request names an assistant, the request's settings are first merged into the assistant's settings. If there
    is no such graph or assistant, nothing is checked, because the server refuses the request itself.

    """
    id_in_path = path.removeprefix("/assistants/") if path.startswith("/assistants/") else None
    named = params.get("graph_id" if path.startswith("/assistants") else "assistant_id") or id_in_path
    given, config = list(settings_in(params)), params.get("config")
    stray = sorted(config.keys() - RunnableConfig.__annotations__.keys()) if isinstance(config, dict) else []
    if not (given or stray) or not isinstance(named, str):
        return
    graph, own = await graph_and_settings(named, client)
    if graph not in graph_names(others=True):
        return  # the server refuses the request itself
    kind = load_graph(graph, others=True).settings
    is_assistant = path.startswith("/assistants")
    if is_assistant and stray:
        raise UserError(
            f"`config` has no key {stray[0]!r}. Settings belong into the context: context={{{stray[0]!r}: ...}}.",
            kind="invalid_setting",
        )
    for values, settings_only in given:
        if is_assistant:  # a run's `configurable` also has values of its thread and of programs
            values, settings_only = {key: one for key, one in values.items() if key not in PLACE_KEYS}, True
        known = values if settings_only else {key: value for key, value in values.items() if key in kind.model_fields}
        checked_settings(kind, {**own, **known}, graph)


def check_loading(values: Any) -> None:
    """Refuses settings, also nested ones, that name a model, a module, a tool or a file that the administrator did not
    list; blocking.

    The debate checks them again where it uses them. This check refuses a request before it creates anything.

    """
    if isinstance(values, list):
        for value in values:
            check_loading(value)
    elif isinstance(values, Mapping):
        for key, value in values.items():
            if key == "embedder" and isinstance(value, str):
                check_embedder(value)
            elif key in MODEL_SETTINGS and isinstance(value, str) and (key, value) not in NO_MODEL:
                check_model(value, key)
            elif key == "calibration" and isinstance(value, str):
                check_calibration(value)
            for name in strings_in(value) if key in CHAT_SETTINGS else ():
                check_callers_model(name)
            for name in (value if isinstance(value, list) else [value]) if key in SOURCE_SETTINGS else ():
                if isinstance(name, str) and name.startswith("langchain:"):
                    check_listed_object(name.removeprefix("langchain:"), "retriever")
                elif isinstance(name, str) and name.startswith("mcp:"):
                    listed_tool(name.removeprefix("mcp:"))
            check_loading(value)


def strings_in(value: Any) -> list[str]:
    """The texts that are a value, or are in a list or are values of a mapping."""
    found = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else [value]
    return [one for one in found if isinstance(one, str)]


def settings_in(params: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """Yields the mappings with settings in a request, each with a flag: whether the mapping contains only settings.

    ``context`` contains only settings. ``config.configurable``, where LangGraph formerly expected settings, also has
    values of the server.
    """
    config = params.get("config")
    older = config.get("configurable") if isinstance(config, dict) else None
    for values, settings_only in ((params.get("context"), True), (older, False)):
        if isinstance(values, dict) and values:
            yield values, settings_only


async def graph_and_settings(id: str, client: LangGraphClient) -> tuple[str, dict[str, Any]]:
    """The name of an assistant's graph, and the assistant's settings.

    If ``id`` is the name of a graph, returns ``id`` without settings. If there is no such assistant, the name is empty.

    """
    if id in graph_names(others=True):
        return id, {}
    try:
        found: dict[str, Any] = dict(await client.assistants.get(id))
    except APIError:
        return "", {}
    return found["graph_id"], found.get("context") or {}


class Checks:
    """Middleware that answers requests with status 422 and a sentence if `check` refuses them."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on or refuses it."""
        if scope["type"] != "http" or scope["method"] not in ("POST", "PATCH") or is_own(scope):
            return await self.app(scope, receive, send)
        if not RUN_ROUTES.search(scope["path"]):
            return await self.app(scope, receive, send)
        content = await Request(scope, receive).body()
        try:
            await check(json.loads(content or "null"), scope["path"], caller_client(scope))
        except UserError as error:
            return await JSONResponse({"detail": error.detail, "kind": error.kind}, 422)(scope, receive, send)
        return await self.app(scope, replay(content, receive), send)


def replay(content: bytes, receive: Receive) -> Receive:
    """A `receive` that first returns a body that was already read, and then calls ``receive``."""
    left = [content]

    async def receive_again() -> Message:
        return {"type": "http.request", "body": left.pop()} if left else await receive()

    return receive_again
