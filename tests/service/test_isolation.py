"""On every route, a user cannot reach another user's data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.service.running import CONTEXT, Service, begin, missing_requirements, status

pytestmark = [
    pytest.mark.skipif(bool(missing_requirements()), reason=missing_requirements() or "none"),
    pytest.mark.timeout(600),
]

MARK = "Fenugreek"
"""A word in all of Bob's data."""


@dataclass
class BobsData:
    """The ids of Bob's data.

    Args:
        ids: the values for the parameters of routes, by the parameters' names.
        debate: the id of his debate.
    """

    ids: dict[str, str]
    debate: str


@pytest.fixture(scope="module")
def bobs_data(service: Service) -> BobsData:
    """Bob's assistant, his item of the store, and his debate that waits for a reply."""
    with service.client_of("bob") as bob:
        thread, run = begin(bob, f"{MARK} is bitter.", ask_person=["remark"])
        service.wait_for(lambda: status(bob, (thread, run)) == "interrupted", "no question was asked")
        made = {"graph_id": "rag", "name": MARK, "context": CONTEXT, "metadata": {"of": MARK}}
        assistant = bob.post("/assistants", json=made).raise_for_status().json()["assistant_id"]
        item = {"namespace": ["notes"], "key": "note", "value": {"said": MARK}}
        bob.put("/store/items", json=item).raise_for_status()
        [listed] = bob.get("/moot/api/debates", params={"q": MARK}).json()["debates"]
        checkpoint = bob.get(f"/threads/{thread}/state").json()["checkpoint"]["checkpoint_id"]
    ids = {"thread_id": thread, "run_id": run, "assistant_id": assistant, "checkpoint_id": checkpoint}
    return BobsData({**ids, "id": listed["id"], "kind": "json", "name": "page.css"}, listed["debate"])


def bodies(bobs_data: BobsData) -> list[dict[str, Any]]:
    """The bodies that Cid sends to every POST, PUT, PATCH and DELETE route."""
    ids = bobs_data.ids
    run = {"assistant_id": ids["assistant_id"], "input": {"claim": "Ann asks."}, "context": CONTEXT}
    redirected = {"configurable": {"thread_id": ids["thread_id"], "run_id": ids["run_id"]}}
    return [
        {},
        run,
        {**run, "assistant_id": "standard_prompting", "config": redirected, "checkpoint": redirected["configurable"]},
        {"assistant_id": "society_of_minds", "command": {"resume": {"remark": "Ann's."}}},
        {"namespace": ["users", "bob", "notes"], "key": "note", "value": {"said": "Ann's"}},
        {"namespace_prefix": ["users", "bob"], "prefix": ["users", "bob"], "limit": 1000},
        {"values": {"claim": "Ann's"}, "checkpoint": {"checkpoint_id": ids["checkpoint_id"], **ids}},
        {"thread_id": ids["thread_id"], "run_ids": [ids["run_id"]], "if_exists": "do_nothing", "graph_id": "rag"},
        {"status": "all"},
    ]


def routes(client: httpx.Client) -> Iterator[tuple[str, str]]:
    """The method and the path of each route in the server's OpenAPI schema, and of each route of moot."""
    from moot.web.pages import ROUTES

    for path, known in client.get("/openapi.json").raise_for_status().json()["paths"].items():
        yield from ((method.upper(), path) for method in known if method in ("get", "post", "put", "patch", "delete"))
    for route in ROUTES:
        yield from ((method, route.path) for method in (route.methods or ()) if method != "HEAD")


def response_of(client: httpx.Client, method: str, path: str, **sent: Any) -> tuple[int, str]:
    """The status and the text of a response; (0, "") for a stream that sends nothing for ten seconds."""
    try:
        with client.stream(method, path, timeout=10, **sent) as response:
            return response.status_code, response.read().decode()
    except httpx.ReadTimeout:
        return 0, ""


def test_no_route_shows_or_changes_another_users_data(service: Service, bobs_data: BobsData) -> None:
    named = re.compile(r"{(\w+)[^}]*}")
    with service.client_of("cid") as cid, service.client_of("bob") as bob:
        place = (bobs_data.ids["thread_id"], bobs_data.ids["run_id"])
        before = bob.get(f"/threads/{place[0]}/state").json()
        reached = 0
        for method, pattern in routes(cid):
            path = named.sub(lambda one: bobs_data.ids.get(one[1], bobs_data.ids["run_id"]), pattern)
            for body in bodies(bobs_data) if method in ("POST", "PUT", "PATCH", "DELETE") else [None]:
                code, text = response_of(cid, method, path, **({} if body is None else {"json": body}))
                assert MARK not in text, (method, path, body, text[:500])
                no_id = {*named.findall(pattern)} <= {"kind", "name"}
                no_data = text == "[]" or text.startswith("<!doctype html>")  # an empty list, or a page without data
                assert no_id or no_data or not 200 <= code < 300, (method, path, body, code, text[:300])
                reached += 1
        assert reached > 150
        assert bob.get(f"/threads/{place[0]}/state").json() == before
        assert status(bob, place) == "interrupted"
        assert bob.get(f"/assistants/{bobs_data.ids['assistant_id']}").json()["name"] == MARK
        query = {"key": "note", "namespace": "notes"}
        assert bob.get("/store/items", params=query).json()["value"] == {"said": MARK}
        [listed] = bob.get("/moot/api/debates", params={"q": MARK}).json()["debates"]
        assert (listed["debate"], listed["status"], listed["can"]) == (bobs_data.debate, "waiting", "answer")


def test_forged_fields_of_a_request_have_no_effect(service: Service, bobs_data: BobsData) -> None:
    asked = {"assistant_id": "standard_prompting", "input": {"claim": "Ann forges."}, "context": CONTEXT}
    forged_fields = {
        "langgraph_auth_user": {"identity": "bob"},
        "user_id": "bob",
        "__moot_session": {"id": bobs_data.debate},
    }
    with service.client_of("cid") as cid, service.client_of("bob") as bob:
        count_before = bob.get("/moot/api/debates").json()["total"]
        forged = {**asked, "config": {"configurable": forged_fields, "metadata": {"owner": "bob"}}}
        forged["checkpoint"] = forged_fields
        document = cid.post("/runs/wait", json=forged).raise_for_status().json()
        assert document["status"] == "done"
        listed = cid.get("/moot/api/debates").json()["debates"]
        assert document["id"] in {one["debate"] for one in listed}
        assert bob.get("/moot/api/debates").json()["total"] == count_before
