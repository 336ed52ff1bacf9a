"""Users of a server with LangGraph's ``auth`` hook find only their own threads. The hook is the one in the docs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import CLAIM, free_port, running_stub
from tests.serving import DEV, QUIET, ROOT, Server, running
from tests.web.test_browser import start

if TYPE_CHECKING:
    from playwright.async_api import Browser

SECTION = (ROOT / "docs/howto/running.md").read_text().partition("## Your own users")[2]
CONFIG: dict[str, Any] = json.loads(SECTION.partition("```json\n")[2].partition("```")[0])
HOOK = SECTION.partition("```python\n")[2].partition("```")[0]
ADA, BOB = {"authorization": "Bearer token-of-ada"}, {"authorization": "Bearer token-of-bob"}
RUN: dict[str, Any] = {"assistant_id": "standard_prompting", "input": {"claim": CLAIM}, "context": {"model": "fake:1"}}
WAITING: dict[str, Any] = {
    "model": "fake:1",
    "scoring": "consensus_only",  # needs no encoder; the built-in encoder takes long to load
    "debaters": [{"name": name, "retriever": "bm25:demo-news"} for name in ("one", "two")],
    "ask_person": ["queries"],
    "max_rounds": 1,
}
"""Settings of a debate that waits for a person to accept its queries."""


@pytest.fixture(scope="module")
def server_with_auth(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with graphs and the page of moot, and with the ``Auth`` object in the docs."""
    yield from run_server(tmp_path_factory.mktemp("owned"), CONFIG)


def run_server(folder: Path, config: dict[str, Any]) -> Iterator[Server]:
    """Start ``langgraph dev`` with the hook and this configuration, yield it, and terminate it afterwards."""
    (folder / "auth.py").write_text(HOOK)
    (folder / "langgraph.json").write_text(json.dumps(config))
    port = free_port()
    with running_stub(folder / "stub", []) as stub:
        yield from running([*DEV, "--port", str(port)], folder, port, stub, **QUIET)


def run_as(server: Server, user: dict[str, str], **context: str) -> str:
    """Run a debate on a new thread of a user; return the id of the thread."""
    thread: str = json.loads(server.send("/threads", {}, user))["thread_id"]
    server.send(f"/threads/{thread}/runs/wait", RUN | {"context": RUN["context"] | context}, user)
    return thread


def test_without_a_token_only_the_health_check_answers(server_with_auth: Server) -> None:
    for path in ("/moot", "/moot/debates", "/moot/api/debates", "/moot/api/choices", "/docs", "/threads/1/state"):
        assert server_with_auth.refused(path)[0] == 401, path
    assert server_with_auth.refused("/moot/api/debates", {"thread_id": "x"})[0] == 401
    assert server_with_auth.refused("/runs/wait", RUN)[0] == 401
    assert json.loads(server_with_auth.send("/ok"))["ok"] is True
    studio = {"x-auth-scheme": "langsmith"}
    assert server_with_auth.refused("/threads/search", {}, studio)[0] == 401


def test_only_the_owner_of_a_thread_finds_its_document_and_learns_its_state(server_with_auth: Server) -> None:
    thread = run_as(server_with_auth, ADA, model="openai:stub")  # debates of a fake model are no earlier checks
    id = json.loads(server_with_auth.send(f"/moot/api/debates/{thread}", headers=ADA))["id"]
    lists = [json.loads(server_with_auth.send("/moot/api/debates", headers=user))["debates"] for user in (ADA, BOB)]
    assert [[entry["id"] for entry in entries].count(id) for entries in lists] == [1, 0]
    for place in (thread, id, f"{id}/json", id[-32:]):
        assert server_with_auth.refused(f"/moot/api/debates/{place}", None, BOB)[0] == 404, place
    assert json.loads(server_with_auth.send(f"/moot/api/debates/{id}/json", headers=ADA))["status"] == "done"
    resumed = {"assistant_id": "standard_prompting", "command": {"resume": True}}
    assert server_with_auth.refused(f"/threads/{thread}/runs/wait", resumed, ADA)[0] == 422
    # Bob gets 404, so he does not learn that the thread has nothing to resume.
    assert server_with_auth.refused(f"/threads/{thread}/runs/wait", resumed, BOB)[0] == 404
    asked = ("/moot/api/earlier", {"claims": [CLAIM]})
    [earlier], [earlier_of_bob] = [json.loads(server_with_auth.send(*asked, user))["found"] for user in (ADA, BOB)]
    assert id in [check["id"] for check in earlier["checks"]]
    assert earlier_of_bob["checks"] == []
    context = {"model": "openai:stub"}
    assert json.loads(server_with_auth.send("/runs/wait", RUN | {"context": context}, ADA))["status"] == "done"
    costs = {"graph": RUN["assistant_id"], "context": context}
    assert "(estimated" in json.loads(server_with_auth.send("/moot/api/expected", costs, BOB))["words"]


async def test_a_user_cannot_open_the_debate_of_another_user_in_a_browser(
    server_with_auth: Server, browser: Browser
) -> None:
    settings = WAITING | {"ask_person": []}
    context = await browser.new_context(base_url=server_with_auth.url)
    page = await context.new_page()
    page.set_default_timeout(60_000)
    refused = await page.goto("/moot")
    assert refused is not None
    assert (refused.status, await refused.json()) == (401, {"detail": "Log in first."})
    await context.add_cookies([{"name": "session", "value": "token-of-ada", "url": server_with_auth.url}])
    await start(page, "Water boils at 100 degrees.", settings)  # unlike CLAIM, which Ada has checked before
    await page.wait_for_url("**/moot/debates/*")
    address = page.url
    await context.add_cookies([{"name": "session", "value": "token-of-bob", "url": server_with_auth.url}])
    other = await page.goto(address)
    assert other is not None
    assert other.status == 404
    await context.close()


async def test_the_page_shows_a_user_only_their_own_threads(server_with_auth: Server, browser: Browser) -> None:
    waiting = RUN | {"assistant_id": "tool_mad", "context": WAITING}
    thread = json.loads(await asyncio.to_thread(server_with_auth.send, "/threads", {}, ADA))["thread_id"]
    await asyncio.to_thread(server_with_auth.send, f"/threads/{thread}/runs/wait", waiting, ADA)
    for user, seen, heading in ((ADA, 1, "Past checks"), (BOB, 0, "No checks yet")):
        async with await browser.new_context(base_url=server_with_auth.url, extra_http_headers=user) as context:
            page = await context.new_page()
            page.set_default_timeout(30_000)
            await page.goto("/moot/debates")
            await page.get_by_role("heading", name=heading).wait_for()
            waits = page.get_by_role("listitem").filter(has_text="waits for your answer")
            assert await waits.count() == seen
            if not seen:
                await page.goto(f"/moot?thread={thread}")
                await page.get_by_role("alert").first.wait_for()
                continue
            await waits.get_by_role("link", name=CLAIM).click()
            await page.get_by_label("Search of Debater A").wait_for()


def test_a_server_does_not_start_if_its_hook_does_not_guard_the_page(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="enable_custom_route_auth"):
        next(run_server(tmp_path, CONFIG | {"http": {"app": CONFIG["http"]["app"]}}))
