"""``/mcp``: offers each debate system, `find_claims` and each assistant of a user as a tool under its own name.

LangGraph's own endpoint names tools after assistants' titles, takes no settings, and returns Python's `repr` of the
whole document. It still handles all messages except ``tools/list`` and ``tools/call``. Aegra has no such endpoint, so
this module handles all messages on Aegra.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import httpx
from langgraph_sdk.client import LangGraphClient
from moot.core.config import usual_settings
from moot.core.errors import MootError, UserError, did_you_mean
from moot.core.ledger.records import moot_version
from moot.graphs import load_graph
from moot.graphs._registry import DESCRIPTIONS, OTHER_GRAPHS, descriptions, graph_names
from moot.nodes._models.prices import cost_of, read_prices
from moot.nodes._texts.calibrated import confidence_basis
from moot.nodes._texts.verdict import caveat_in_words, caveats, turns_by_reason, verdict_citations
from moot.transcript.claims import filled_words
from moot.transcript.end import other_warnings
from moot.web.caller import caller_client
from moot.web.checks import replay
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

SETTINGS = (
    *("model", "corpus", "sources", "debaters", "k", "max_rounds", "rounds", "agents", "published_before"),
    *("verified_quotes", "temperature", "seed", "budget", "max_cost", "max_calls", "max_seconds"),
)
"""Settings that are separate arguments if a system has them. Other settings go into the argument ``settings``."""
DEFAULT_TOOL = " Use this tool to check a claim, unless the user names another; it makes 20 to 30 calls to the model."
MORE_SETTINGS = "Further settings of this system, by name; `moot settings {name}` lists them."
INVALID_PARAMS = -32602
"""JSON-RPC's code for parameters that are not valid."""
NO_METHOD = -32601
"""JSON-RPC's code for an unknown method."""
VERSIONS = ("2025-06-18", "2025-03-26")
"""Supported versions of the protocol, the latest first."""
NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_\-.]")
"""Characters that the name of a tool may not have."""
LONGEST = 128
"""Maximum length of a tool's name, in characters."""
MOST, PAGE_SIZE = 1000, 100
"""Maximum number of assistants that are read: in total, and per request."""
QUOTE = {
    "type": "object",
    "properties": {
        "quote": {"type": "string"},
        "verified": {"type": "boolean", "description": "Whether the evidence contains the quote word for word."},
        "title": {"type": ["string", "null"]},
        "url": {"type": ["string", "null"]},
        "page": {"type": ["integer", "null"]},
        "evidence_id": {"type": "string"},
    },
}
COST = {
    "type": "object",
    "properties": {
        "calls": {"type": "integer"},
        "prompt_tokens": {"type": "integer"},
        "completion_tokens": {"type": "integer"},
        "usd": {
            "type": ["number", "null"],
            "description": "By list prices; null if a model's price is not known.",
        },
        "seconds": {"type": "number"},
    },
}
RESULT: dict[str, Any] = {
    "type": "object",
    "required": ["id", "status", "verdict", "reasons", "quotes", "cost"],
    "properties": {
        "id": {"type": "string", "description": "The debate's id; the whole document is at `document`."},
        "document": {"type": "string", "description": "The path on this server of the whole result document."},
        "status": {"type": "string", "description": "done, failed or interrupted."},
        "claim": {"type": ["string", "null"]},
        "verdict": {"type": ["string", "null"], "description": "Null if there is none."},
        "confidence": {
            "type": ["number", "null"],
            "description": "From 0 to 1; its basis is in `confidence_rests_on`.",
        },
        "confidence_rests_on": {
            "type": ["string", "null"],
            "description": "The votes or answers behind it, and its calibration: `2 of 3 votes; not calibrated`.",
        },
        "decision": {
            "type": ["string", "null"],
            "description": "act or escalate, if the debate was given a calibration; `guarantee` says what it promises.",
        },
        "prediction_set": {"type": ["array", "null"], "items": {"type": "string"}},
        "guarantee": {"type": ["string", "null"]},
        "reasons": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"by": {"type": "array", "items": {"type": "string"}}, "reason": {"type": "string"}},
            },
        },
        "quotes": {"type": "array", "items": QUOTE},
        "cost": COST,
        "warnings": {"type": "array", "items": {"type": "string"}},
        "error": {"type": ["string", "null"], "description": "What went wrong, and what to do."},
    },
}
"""The JSON Schema of the result of a debate system's tool."""
CLAIM_FIELDS = ("claim", "speaker", "date", "score", "reason", "quote", "start", "end", "page", "heading")
CLAIMS_RESULT: dict[str, Any] = {
    "type": "object",
    "required": ["status", "claims", "cost"],
    "properties": {
        "status": {"type": "string", "description": "done or failed."},
        "claims": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "claim": {"type": "string", "description": "Rewritten so that it stands alone."},
                    "filled_in": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "Words of the claim that its quote does not have.",
                    },
                    "quote": {"type": "string", "description": "The words of the text, from `start` to `end`."},
                    "score": {"type": "number", "description": "How much it is worth checking, from 0 to 1."},
                },
            },
        },
        "left_out": {"type": "integer", "description": "Claims that are less worth checking."},
        "dropped": {"type": "integer", "description": "Claims that the text does not support, or that cannot be used."},
        "unread": {"type": "integer", "description": "Parts of the text without a usable reply."},
        "cost": COST,
        "warnings": {"type": "array", "items": {"type": "string"}},
        "error": {"type": ["string", "null"]},
    },
}
"""The JSON Schema of the result of `find_claims`."""


class Tools:
    """Middleware that answers MCP's ``tools/list`` and ``tools/call``; on Aegra, it answers all messages."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or passes it on."""
        if scope["type"] != "http" or scope["path"].rstrip("/") != "/mcp":
            return await self.app(scope, receive, send)
        if scope["method"] != "POST":
            if has_own_endpoint():
                return await self.app(scope, receive, send)
            return await JSONResponse({"detail": "MCP messages must be sent with POST."}, 405)(scope, receive, send)
        content = await Request(scope, receive).body()
        try:
            message = json.loads(content)
        except (ValueError, RecursionError):
            message = None
        only = Request(scope).query_params.get("tools")
        answer = await self._call(message, only, caller_client(scope)) if is_for_tools(message) else None
        if answer is None and has_own_endpoint():
            return await self.app(scope, replay(content, receive), send)
        if answer is None and isinstance(message, dict) and message.get("id") is None:
            return await Response(status_code=202)(scope, receive, send)
        if answer is None:
            message = message if isinstance(message, dict) else {"id": None}
            answer = protocol_reply(message)
        return await JSONResponse({"jsonrpc": "2.0", "id": message["id"], **answer})(scope, receive, send)

    async def _call(self, message: Mapping[str, Any], only: str | None, client: LangGraphClient) -> dict[str, Any]:
        """The ``result`` or ``error`` of the answer to ``tools/list`` or ``tools/call``."""
        given = message.get("params") or {}
        try:
            if message["method"] == "tools/list":
                return {"result": {"tools": select_tools(await list_tools(client), only)}}
            arguments = given.get("arguments") or {}
            if not (isinstance(given.get("name"), str) and isinstance(arguments, dict)):
                return {"error": {"code": INVALID_PARAMS, "message": "`name` must be a text, `arguments` an object."}}
            result = await call_tool(given["name"], arguments, client)
        except UserError as error:
            if error.kind == "unknown_graph":
                return {"error": {"code": INVALID_PARAMS, "message": error.detail}}
            return {"result": refused_result(error.detail)}
        except MootError as error:
            return {"result": refused_result(error.detail)}
        text = {"type": "text", "text": json.dumps(result, ensure_ascii=False)}
        return {"result": {"content": [text], "structuredContent": result, "isError": result["status"] != "done"}}


def has_own_endpoint() -> bool:
    """Whether this is LangGraph's server, which has its own MCP endpoint."""
    return "langgraph_api" in sys.modules


def protocol_reply(message: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to ``initialize`` or ``ping``; an error for any other message."""
    if message.get("method") == "initialize":
        wanted = message["params"].get("protocolVersion") if isinstance(message.get("params"), dict) else None
        version = wanted if wanted in VERSIONS else VERSIONS[0]
        about = {"name": "moot", "version": moot_version()}
        return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}}
    if message.get("method") == "ping":
        return {"result": {}}
    return {"error": {"code": NO_METHOD, "message": "This server knows initialize, ping, tools/list and tools/call."}}


def is_for_tools(message: Any) -> bool:
    """Whether a message is a valid request for ``tools/list`` or ``tools/call``."""
    return (
        isinstance(message, dict)
        and message.get("jsonrpc") == "2.0"
        and message.get("id") is not None
        and message.get("method") in ("tools/list", "tools/call")
        and isinstance(message.get("params") or {}, dict)
    )


def refused_result(problem: str) -> dict[str, Any]:
    """The result of a tool call that was refused or failed."""
    return {"isError": True, "content": [{"type": "text", "text": problem}]}


async def list_tools(client: LangGraphClient) -> list[dict[str, Any]]:
    """All debate systems and `find_claims` as tools, then the assistants that users created."""
    tools = [
        {
            "name": name,
            "title": load_graph(name, others=True).graph.name,
            "description": about + (DEFAULT_TOOL if name == next(iter(DESCRIPTIONS)) else ""),
            **tool_schemas(name),
        }
        for name, about in descriptions(others=True).items()
    ]
    for name, one in (await user_assistants(client)).items():
        about = one.get("description") or f"{one['graph_id']} with its own settings."
        tools.append({"name": name, "title": one["name"], "description": about, **tool_schemas(one["graph_id"])})
    return tools


async def user_assistants(client: LangGraphClient) -> dict[str, Any]:
    """The assistants that users created for debate systems, by tool name. Only the first `MOST` assistants are read.

    An assistant is left out if a graph or an earlier assistant has its tool name, or if this name would be empty.
    """
    found: dict[str, Any] = {}
    assistants: list[Any] = []
    while len(assistants) < MOST:
        more = await client.assistants.search(limit=PAGE_SIZE, offset=len(assistants))
        assistants += more
        if len(more) < PAGE_SIZE:
            break
    for one in assistants:
        name = NOT_IN_NAMES.sub("", re.sub(r"\s+", "_", one["name"].strip()))[:LONGEST]
        own = (one.get("metadata") or {}).get("created_by") != "system" and one["graph_id"] in graph_names()
        if own and name and name not in graph_names(others=True):
            found.setdefault(name, one)
    return found


def select_tools(tools: list[dict[str, Any]], only: str | None) -> list[dict[str, Any]]:
    """The tools with the comma-separated names in ``only``; all tools if it is empty or None.

    Raises:
        UserError: there is no such tool.
    """
    if not only:
        return tools
    known = {tool["name"]: tool for tool in tools}
    wanted = only.split(",")
    if unknown := [name for name in wanted if name not in known]:
        raise UserError(f"There is no tool {unknown[0]!r}. {did_you_mean(unknown[0], known)}", kind="unknown_graph")
    return [known[name] for name in wanted]


@lru_cache(maxsize=64)
def tool_schemas(name: str) -> dict[str, Any]:
    """The input schema, the output schema and the annotations of the tool of a debate system or of `find_claims`."""
    system = load_graph(name, others=True)
    given, settings = system.graph.get_input_jsonschema(), system.settings.model_json_schema()
    properties = {key: field for key, field in given["properties"].items() if key != "messages"}
    properties |= {key: settings["properties"][key] for key in SETTINGS if key in settings["properties"]}
    properties["settings"] = {"type": "object", "description": MORE_SETTINGS.format(name=name)}
    arguments_schema: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": [required_input(name)],
    }
    arguments_schema |= {"additionalProperties": False}
    if parts := used_definitions(properties, given.get("$defs", {}) | settings.get("$defs", {})):
        arguments_schema["$defs"] = parts
    arguments_schema = shorten_schema(arguments_schema)
    hints = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": True}
    output_schema = CLAIMS_RESULT if name in OTHER_GRAPHS else RESULT
    return {"inputSchema": arguments_schema, "outputSchema": output_schema, "annotations": hints}


def required_input(name: str) -> str:
    """The name of the required input of a graph's tool."""
    return "text" if name in OTHER_GRAPHS else "claim"


def shorten_schema(schema: Any) -> Any:
    """A schema without titles, and without `anyOf` for simple nullable types.

    It is shortened because clients' models read all of it.
    """
    if isinstance(schema, list):
        return [shorten_schema(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    values = ("default", "examples")  # inside these two, `title` is a key of data, not of a schema
    without_titles = {key: one for key, one in schema.items() if key != "title" or not isinstance(one, str)}
    schema = {key: one if key in values else shorten_schema(one) for key, one in without_titles.items()}
    match schema.get("anyOf"):
        case [{"type": str(kind)} as one, {"type": "null"}]:
            del schema["anyOf"]
            schema |= one | {"type": [kind, "null"]}
    return schema


def used_definitions(schema: Any, parts: Mapping[str, Any]) -> dict[str, Any]:
    """The definitions in ``parts`` that a schema refers to, directly or indirectly."""
    found: dict[str, Any] = {}
    left = [schema]
    while left:
        for name in re.findall(r'"#/\$defs/([^"]+)"', json.dumps(left.pop())):
            if name not in found and name in parts:
                found[name] = parts[name]
                left.append(parts[name])
    return found


async def call_tool(name: Any, arguments: Mapping[str, Any], client: LangGraphClient) -> dict[str, Any]:
    """Calls a tool and returns its result.

    Args:
        name: the tool's name.
        arguments: fields of the graph's input, and settings of the graph; ``settings`` may have more settings.
        client: sends requests as the caller.

    Raises:
        UserError: there is no such tool, its arguments are not valid, or the configuration or prices cannot be read.
        MootError: the server refuses the run, or the run fails without a result.
    """
    graph, assistant, tools = str(name), str(name), graph_names(others=True)
    if name not in tools:
        own = await user_assistants(client)
        if name not in own:
            raise UserError(
                f"There is no tool {name!r}. {did_you_mean(str(name), [*tools, *own])}See tools/list.",
                kind="unknown_graph",
            )
        graph, assistant = own[str(name)]["graph_id"], own[str(name)]["assistant_id"]
    if required_input(graph) not in arguments:
        raise UserError(f"{name} needs a `{required_input(graph)}`.", kind="invalid_setting")
    known = tool_schemas(graph)["inputSchema"]["properties"]
    kind = load_graph(graph, others=True).settings
    fields = kind.model_fields.keys() - kind.without
    if unknown := [key for key in arguments if key not in known and key not in fields]:
        raise UserError(
            f"{name} takes no {unknown[0]!r}. {did_you_mean(unknown[0], [*known, *fields])}Known: {', '.join(known)}.",
            kind="invalid_setting",
        )
    further = arguments.get("settings") or {}
    if not isinstance(further, dict):
        raise UserError('`settings` is an object: {"attempts": 2}.', kind="invalid_setting")
    defaults = await asyncio.to_thread(usual_settings) if assistant in tools else {}
    defaults = {key: value for key, value in defaults.items() if key in fields}
    context = defaults | {key: value for key, value in arguments.items() if key in fields} | further
    given = {key: value for key, value in arguments.items() if key not in fields and key != "settings"}
    if graph in OTHER_GRAPHS and assistant == graph and not {"model", "models"} & context.keys():
        raise UserError(
            "No model is named to find the claims: name a `model`, or set MOOT_MODEL on the server.",
            kind="missing_model",
        )
    try:
        document: Any = await client.runs.wait(None, assistant, input=given, context=context, raise_error=False)
    except httpx.HTTPStatusError as error:
        refusal = error.response.json()
        raise MootError(refusal["detail"], kind=str(refusal.get("kind") or "bad_request")) from error
    if "__error__" in document:
        raise MootError(str(document["__error__"].get("message") or document["__error__"]), kind="server_error")
    usd = cost_of(document["calls"], await asyncio.to_thread(read_prices))
    return claims_result(document, usd) if graph in OTHER_GRAPHS else tool_result(document, usd)


def claims_result(found: dict[str, Any], usd: float | None) -> dict[str, Any]:
    """The result of the tool `find_claims`.

    Args:
        found: the graph's output.
        usd: the cost in USD; None if it is not known.
    """
    claims = [{**{key: one[key] for key in CLAIM_FIELDS}, "filled_in": filled_words(one)} for one in found["claims"]]
    usage = {key: found["usage"][key] for key in ("calls", "prompt_tokens", "completion_tokens")}
    return {
        "status": found["status"],
        "claims": claims,
        **{key: len(found[key]) for key in ("left_out", "dropped", "unread")},
        "cost": usage | {"usd": usd},
        "warnings": [warning["detail"] for warning in found["warnings"]],
        "error": (found["error"] or {}).get("detail"),
    }


def tool_result(document: dict[str, Any], usd: float | None) -> dict[str, Any]:
    """The result of a debate system's tool.

    Args:
        document: the debate's result document.
        usd: the cost in USD; None if it is not known.
    """
    usage, known = document["usage"], {piece["id"]: piece for piece in document["evidence"]}
    reasons = turns_by_reason(document) if document["status"] == "done" else {}
    quotes = [
        {
            "quote": cited["quote"],
            "verified": cited["verified"],
            "evidence_id": cited["evidence_id"],
            **{key: known.get(cited["evidence_id"], {}).get(key) or None for key in ("title", "url", "page")},
        }
        for cited in verdict_citations(document)
    ]
    cost = {key: usage[key] for key in ("calls", "prompt_tokens", "completion_tokens")}
    return {
        "id": document["id"],
        "document": f"/moot/api/debates/{document['id']}",
        **{key: document[key] for key in ("status", "claim")},
        "verdict": document["answer"],
        "confidence": document["confidence"],
        "confidence_rests_on": confidence_basis(document),
        **{key: document.get(key) for key in ("decision", "prediction_set")},
        "guarantee": (document.get("calibration") or {}).get("guarantee"),
        "reasons": [{"by": [turn["agent"] for turn in turns], "reason": why} for why, turns in reasons.items()],
        "quotes": quotes,
        "cost": cost | {"usd": usd, "seconds": document["seconds"]},
        "warnings": [*map(caveat_in_words, caveats(document)), *other_warnings(document, without_caveats=True)],
        "error": (document["error"] or {}).get("detail"),
    }
