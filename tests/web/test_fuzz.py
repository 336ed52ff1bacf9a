"""A real server is fuzzed from an OpenAPI description of its routes; no request may cause an internal server error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moot.graphs import DESCRIPTIONS, load_graph
from moot.nodes._runtime.state import VerdictOutput
from moot.web.pages import ROUTES
from pydantic import TypeAdapter
from schemathesis.generation import GenerationMode

from tests.conftest import running_stub
from tests.serving import Server, langgraph_dev

Schema = dict[str, Any]
COMPONENTS: dict[str, Schema] = {}
"""Schemas that other schemas refer to."""


def small_schema(schema: Schema) -> Schema:
    """Limit sizes in a schema, so that examples are generated fast; move its definitions into `COMPONENTS`."""
    COMPONENTS.update({name: limit_sizes(of) for name, of in schema.pop("$defs", {}).items()})
    small: Schema = limit_sizes(schema)
    return small


def limit_sizes(schema: Any) -> Any:
    """A copy of a schema with at most two items per list.

    An object may have only its declared properties. If none are declared, it may have at most two, with any names.
    """
    if isinstance(schema, list):
        return [limit_sizes(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    most: Schema = {"maxItems": 2} if schema.get("type") == "array" else {}
    if schema.get("type") == "object":
        most = {"additionalProperties": False} if "properties" in schema else {"maxProperties": 2}
    return {key: limit_sizes(of) for key, of in schema.items()} | most


def object_schema(required: list[str], **properties: Schema) -> Schema:
    """The schema of an object."""
    return {"type": "object", "properties": properties, "required": required}


REF = "#/components/schemas/{model}"
DOCUMENT = small_schema(TypeAdapter(VerdictOutput).json_schema(ref_template=REF))
# These fields have only valid values, so that some documents are accepted.
DOCUMENT["properties"] |= {
    "graph": {"enum": list(DESCRIPTIONS)},
    "settings": {"const": {}},
    "started_at": {"const": "2026-01-01T00:00:00.000+00:00"},
}
SETTINGS = {"anyOf": [small_schema(load_graph("tool_mad").settings.model_json_schema(ref_template=REF)), {}]}
GRAPH = {"anyOf": [{"enum": list(DESCRIPTIONS)}, {"type": "string", "format": "uuid"}, {"type": "string"}]}
RUN = object_schema(
    ["assistant_id", "input"],
    assistant_id=GRAPH,
    input={"type": ["null", "string", "array", "number"]},  # not an object, so that runs are refused
    context=SETTINGS,
    config={"anyOf": [object_schema([], configurable=SETTINGS), {}]},
)
START = {"const": "run.start"}
COMMAND = object_schema(["id", "method", "params"], id={"type": "integer"}, method=START, params={"anyOf": [RUN, {}]})
ASSISTANT = object_schema(["graph_id", "context"], graph_id=GRAPH, context=SETTINGS, name={"type": "string"})
BODIES = {"/moot/api/debates/import": DOCUMENT, "/moot/api/said": DOCUMENT}
"""The schemas of bodies of our routes; the other routes get any JSON."""
CHECKED = {
    "/runs/wait": RUN,
    "/runs/batch": {"type": "array", "items": {"anyOf": [RUN, {}]}, "maxItems": 3},
    "/threads/{id}/runs/wait": RUN,
    "/threads/{id}/commands": COMMAND,
    "/assistants": ASSISTANT,
}
"""The routes of LangGraph's server whose bodies we check, with the bodies' schemas."""


def operation(path: str, body: Schema | None) -> Schema:
    """The OpenAPI description of one method of a path."""
    named = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"{(\w+)}", path)
    ]
    asked: Schema = {"parameters": [*named, {"name": "page", "in": "query", "schema": {"type": ["string", "integer"]}}]}
    if body is not None:
        asked["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return asked | {"responses": {"default": {"description": "An answer."}}}


def describe_api() -> Schema:
    """The OpenAPI description of our routes, and of the server's routes whose requests we check."""
    paths: dict[str, Schema] = {path: {"post": operation(path, body)} for path, body in CHECKED.items()}
    for route in ROUTES:
        for method in (route.methods or set()) - {"HEAD"}:
            body = BODIES.get(route.path, {}) if method == "POST" else None
            paths.setdefault(route.path, {})[method.lower()] = operation(route.path, body)
    about = {"title": "moot", "version": "1"}
    return {"openapi": "3.1.0", "info": about, "paths": paths, "components": {"schemas": COMPONENTS}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A separate server for this file, because accepted uploads stay on the server."""
    folder = tmp_path_factory.mktemp("fuzzed")
    with running_stub(folder / "stub") as stub:
        yield from langgraph_dev(folder / "server", stub)


API: Any = schemathesis.openapi.from_dict(describe_api())
OPERATIONS = [found.ok() for found in API.get_all_operations()]


@pytest.mark.filterwarnings("ignore:Overriding standard format")
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: str(operation.label))
@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_request_causes_an_internal_server_error(operation: Any, data: st.DataObject, server: Server) -> None:
    case = data.draw(st.one_of([operation.as_strategy(generation_mode=mode) for mode in GenerationMode]))
    answer = case.call(base_url=server.url, timeout=60)
    assert answer.status_code < 500, answer.text


@pytest.mark.parametrize(
    "path", ["/runs/wait", "/threads/1/commands", "/assistants", "/moot/api/debates/import", "/moot/api/said"]
)
@pytest.mark.parametrize("body", [b"", b"\xff", b"[" * 100_000, b'{"assistant_id": "\\ud800", "input": NaN}', b"1e999"])
def test_malformed_bodies_are_refused_as_client_errors(server: Server, path: str, body: bytes) -> None:
    answer = httpx.post(server.url + path, content=body, headers={"content-type": "application/json"})
    assert 400 <= answer.status_code < 500, answer.text
