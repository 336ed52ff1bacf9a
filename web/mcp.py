"""``/mcp``: offers each debate system, `find_claims` and each assistant of a user as a tool under its own name.

LangGraph's own endpoint names tools after assistants' titles, takes no settings, and returns Python's `repr` of the
whole document, and Aegra has no such endpoint. So this module answers all messages on both servers.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import httpx
from langgraph_sdk.client import LangGraphClient
from moot.core.config import usual_settings
from moot.core.errors import MootError, UserError, did_you_mean
from moot.core.fingerprints import moot_version
from moot.graphs import load_graph
from moot.graphs._registry import DESCRIPTIONS, OTHER_GRAPHS, descriptions, graph_names
from moot.nodes._models.prices import cost_of, read_prices
from moot.nodes._texts.calibrated import shown_confidence
from moot.nodes._texts.verdict import caveat_in_words, caveats, turns_by_reason, verdict_citations, votes_in_short
from moot.transcript.claims import filled_words
from moot.transcript.end import other_warnings
from moot.web.bounds import INVALID_REQUEST
from moot.web.caller import caller_client, parse_json, public_text
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

log = logging.getLogger(__name__)

SETTINGS = (
    *("preset", "model", "corpus", "sources", "debaters", "k", "max_rounds", "rounds", "agents", "published_before"),
    *("verified_quotes", "temperature", "seed", "budget", "max_cost", "max_calls", "max_seconds"),
)
"""Settings that are separate arguments if a system has them. Other settings go into the argument ``settings``."""
DEFAULT_TOOL = " Use this tool to check a claim, unless the user names another; it makes 20 to 30 calls to the model."
MORE_SETTINGS = "Further settings of this system, by name; `moot settings {name}` lists them."
PARSE_ERROR, NO_METHOD, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32601, -32602, -32603
"""JSON-RPC's codes of errors; also `INVALID_REQUEST`."""
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Supported versions of the protocol, the latest first."""
LISTED = ("tool_mad", "rag", "find_claims")
"""Those of moot's own tools that are listed unless the client names others: all would fill a model's context."""
ALL_TOOLS = "all"
INSTRUCTIONS = (
    f"Listed are {', '.join(LISTED)}, and the tools that this server's users have added. The address "
    f"/mcp?tools={ALL_TOOLS} lists all debate systems, /mcp?tools=NAME,NAME some; each can be called by its name."
)
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
        "votes": {
            "type": "string",
            "description": "Who stands behind the verdict: `2 of 2 debaters`, `panel 2 to 1`, `one answer`.",
        },
        "confidence": {
            "type": ["number", "null"],
            "description": "From 0 to 1, only if the debate was given a calibration.",
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
CLAIM_FIELDS = ("claim", "speaker", "date", "score", "reason", "note", "quote", "start", "end", "page", "heading")
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
                    "score": {
                        "type": ["number", "null"],
                        "description": "How much it is worth checking, from 0 to 1; null if it was not rated.",
                    },
                    "note": {"type": "string", "description": "Why the quote itself is the claim, or empty."},
                },
            },
        },
        "left_out": {"type": "integer", "description": "Claims that are less worth checking."},
        "dropped": {
            "type": "integer",
            "description": "Quotes that are not in the text, and further claims of a quote.",
        },
        "unread": {"type": "integer", "description": "Parts of the text without a usable reply."},
        "cost": COST,
        "warnings": {"type": "array", "items": {"type": "string"}},
        "error": {"type": ["string", "null"]},
    },
}
"""The JSON Schema of the result of `find_claims`."""


class Tools:
    """Middleware that answers MCP's messages. Every fault in a message is answered with an error of JSON-RPC."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a message, or passes a request for another path on."""
        if scope["type"] != "http" or scope["path"].rstrip("/") != "/mcp":
            return await self.app(scope, receive, send)
        if scope["method"] != "POST":
            refusal = JSONResponse({"detail": "MCP messages must be sent with POST."}, 405, {"Allow": "POST"})
            return await refusal(scope, receive, send)
        request = Request(scope, receive)
        try:
            message = parse_message(await request.body(), request.headers.get("content-type", ""))
        except JsonRpcError as error:
            return await JSONResponse(error.reply(None), 400)(scope, receive, send)
        if "method" not in message or "id" not in message:  # a response or a notification
            return await Response(status_code=202)(scope, receive, send)
        try:
            result = await self._result(message, request)
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        except JsonRpcError as error:
            reply = error.reply(message["id"])
        except MootError as error:
            code = INVALID_PARAMS if isinstance(error, UserError) else INTERNAL_ERROR
            reply = JsonRpcError(code, public_text(error)).reply(message["id"])
        except Exception:
            log.exception("The MCP message %r failed.", message["method"])
            reply = JsonRpcError(INTERNAL_ERROR, "The server failed. Its log says why.").reply(message["id"])
        return await JSONResponse(reply)(scope, receive, send)

    async def _result(self, message: Mapping[str, Any], request: Request) -> dict[str, Any]:
        """The ``result`` of the answer to a request."""
        given = message.get("params")
        given = {} if given is None else given
        if not isinstance(given, dict):
            raise JsonRpcError(INVALID_PARAMS, "`params` must be an object.")
        match message["method"]:
            case "initialize":
                return initialization(given)
            case "ping":
                return {}
            case "tools/list":
                only = request.query_params.get("tools")
                return {"tools": select_tools(await list_tools(caller_client(request.scope)), only)}
            case "tools/call":
                return await self._call(given, caller_client(request.scope))
        known = "initialize, ping, tools/list and tools/call"
        raise JsonRpcError(NO_METHOD, f"This server knows {known}.")

    async def _call(self, given: Mapping[str, Any], client: LangGraphClient) -> dict[str, Any]:
        """The ``result`` of the answer to ``tools/call``; errors of the tool are results, too."""
        name, arguments = given.get("name"), given.get("arguments")
        arguments = {} if arguments is None else arguments
        if not (isinstance(name, str) and isinstance(arguments, dict)):
            raise JsonRpcError(INVALID_PARAMS, "`name` must be a text, `arguments` an object.")
        try:
            result = await call_tool(name, arguments, client)
        except MootError as error:
            if error.kind == "unknown_graph":
                raise
            return {"isError": True, "content": [{"type": "text", "text": error.detail}]}
        text = {"type": "text", "text": json.dumps(result, ensure_ascii=False)}
        return {"content": [text], "structuredContent": result, "isError": result["status"] != "done"}


class JsonRpcError(Exception):
    """An error of JSON-RPC, with its code and message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    def reply(self, id: Any) -> dict[str, Any]:
        """The answer with this error to the message with an id; None if the id is not known."""
        return {"jsonrpc": "2.0", "id": id, "error": {"code": self.code, "message": str(self)}}


def parse_message(content: bytes, content_type: str) -> dict[str, Any]:
    """Parses a message: a request, a notification or a response."""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise JsonRpcError(INVALID_REQUEST, "Send the message as application/json.")
    try:
        message = parse_json(content)
    except UserError as error:
        raise JsonRpcError(PARSE_ERROR, error.detail) from error
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise JsonRpcError(INVALID_REQUEST, 'A message is one object with "jsonrpc": "2.0"; batches are not supported.')
    if "id" in message and (isinstance(message["id"], bool) or not isinstance(message["id"], str | int)):
        raise JsonRpcError(INVALID_REQUEST, "The `id` of a message is a text or a whole number.")
    if not isinstance(message.get("method"), str) and ("method" in message or not {"result", "error"} & {*message}):
        raise JsonRpcError(INVALID_REQUEST, "A message needs a `method`, which is a text.")
    return message


def initialization(given: Mapping[str, Any]) -> dict[str, Any]:
    """The result of ``initialize``."""
    wanted = given.get("protocolVersion")
    if not isinstance(wanted, str):
        raise JsonRpcError(INVALID_PARAMS, "`protocolVersion` must be a text.")
    version = wanted if wanted in VERSIONS else VERSIONS[0]
    about = {"name": "moot", "version": moot_version()}
    return {
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": about,
        "instructions": INSTRUCTIONS,
    }


async def list_tools(client: LangGraphClient) -> list[dict[str, Any]]:
    """All debate systems and `find_claims` as tools, then the assistants that users created."""
    tools: list[dict[str, Any]] = [
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
    """The tools with the comma-separated names in ``only``: `LISTED` and users' own without it, `ALL_TOOLS` for all."""
    if only == ALL_TOOLS:
        return tools
    if not only:
        return [tool for tool in tools if tool["name"] in LISTED or tool["name"] not in DESCRIPTIONS | OTHER_GRAPHS]
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
    """Calls a tool and returns its result."""
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
    further = {} if arguments.get("settings") is None else arguments["settings"]
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
        raise refusal_error(error.response) from error
    if "__error__" in document:
        raise MootError(str(document["__error__"].get("message") or document["__error__"]), kind="server_error")
    usd = cost_of(document["calls"], await asyncio.to_thread(read_prices))
    return claims_result(document, usd) if graph in OTHER_GRAPHS else tool_result(document, usd)


def refusal_error(response: httpx.Response) -> MootError:
    """The error of a run that the server has refused."""
    try:
        refusal = response.json()
        return MootError(str(refusal["detail"]), kind=str(refusal.get("kind") or "bad_request"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return MootError(f"The server refused the run (HTTP {response.status_code}).", kind="server_error")


def claims_result(found: dict[str, Any], usd: float | None) -> dict[str, Any]:
    """The result of the tool `find_claims`."""
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
    """The result of a debate system's tool."""
    usage, known = document["usage"], {piece["id"]: piece for piece in document["evidence"]}
    reasons = turns_by_reason(document) if document["status"] == "done" else {}
    quotes = [
        {
            "quote": cited["quote"],
            "verified": cited["verified"],
            "warrant": cited.get("warrant"),
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
        "votes": votes_in_short(document),
        "confidence": shown_confidence(document),
        **{key: document.get(key) for key in ("decision", "prediction_set")},
        "guarantee": (document.get("calibration") or {}).get("guarantee"),
        "reasons": [{"by": [turn["agent"] for turn in turns], "reason": why} for why, turns in reasons.items()],
        "quotes": quotes,
        "cost": cost | {"usd": usd, "seconds": document["seconds"]},
        "warnings": [*map(caveat_in_words, caveats(document)), *other_warnings(document, without_caveats=True)],
        "error": (document["error"] or {}).get("detail"),
    }
