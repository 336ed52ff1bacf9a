"""No request makes a server fault: our routes, and our checks before the server's, fuzzed on a real server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moot.graphs import DESCRIPTIONS
from moot.web.pages import ROUTES

from tests.serving import Server

TEXT = st.text(st.characters(exclude_categories=()), max_size=20)  # half characters among them
SCALAR = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
ANY = st.recursive(SCALAR, lambda of: st.lists(of, max_size=3) | st.dictionaries(TEXT, of, max_size=3), max_leaves=8)
GRAPHS = st.sampled_from([*DESCRIPTIONS, "01a200c3-1f9c-7796-acfd-edbddb149c86", "../info", 5, None])
SETTINGS = ANY | st.dictionaries(st.sampled_from(["model", "models", "k", "agents", "attempts", "answer_prompt"]), ANY)
RUN = st.fixed_dictionaries(
    {"assistant_id": GRAPHS, "input": st.none() | st.text(max_size=5) | st.lists(SCALAR)},
    optional={"context": SETTINGS, "config": ANY | st.fixed_dictionaries({"configurable": SETTINGS})},
)
"""A run that is never taken: its input is no object."""
COMMAND = st.fixed_dictionaries({"id": SCALAR, "method": st.just("run.start") | SCALAR, "params": RUN | ANY})
NO_JSON = st.binary(max_size=20) | st.just(b"[" * 100_000)
IDS = st.text(min_size=1, max_size=30) | st.sampled_from(["..", ".", "a/b", "%2e%2e", "json", "x" * 300, "\0"])
ALL = [(method, route.path) for route in ROUTES for method in sorted((route.methods or set()) - {"HEAD"})]
OURS = [(method, path) for method, path in ALL if method != "GET" or "{" in path or path == "/moot/api/debates"]
"""Those that read anything of a request."""
CHECKED = {
    "/runs/wait": RUN,
    "/runs/batch": st.lists(RUN | ANY, max_size=3),
    "/threads/{id}/runs/wait": RUN,
    "/threads/{id}/commands": COMMAND,
    "/assistants": st.fixed_dictionaries({"graph_id": GRAPHS, "context": SETTINGS, "name": st.just("fuzzed")}),
}
fuzzed = settings(
    max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60) as client:
        yield client


def filled(path: str, name: str) -> str:
    """A path with a name in the place of its parameters."""
    return re.sub(r"{\w+}", lambda _: quote(name, safe="", errors="replace"), path)


@pytest.mark.parametrize(("method", "path"), OURS)
@fuzzed
@given(
    name=IDS,
    query=st.text(max_size=20),
    body=st.binary(max_size=60) | ANY.map(lambda value: json.dumps(value).encode()),
)
def test_our_routes(http: httpx.Client, method: str, path: str, name: str, query: str, body: bytes) -> None:
    asked: dict[str, Any] = {"params": {"page": query.encode(errors="replace")}}
    answer = http.request(method, filled(path, name), **asked, content=body if method == "POST" else None)
    assert answer.status_code < 500, answer.text


@pytest.mark.parametrize("path", CHECKED)
@fuzzed
@given(data=st.data(), name=IDS)
def test_what_is_checked_before_the_server_takes_it(
    http: httpx.Client, path: str, data: st.DataObject, name: str
) -> None:
    body = data.draw(CHECKED[path].map(lambda value: json.dumps(value).encode()) | NO_JSON)
    answer = http.post(filled(path, name), content=body, headers={"content-type": "application/json"})
    assert answer.status_code < 500, answer.text
