"""No debate is lost if its client leaves, or if its server ends. Equal requests with one key share one debate."""

from __future__ import annotations

import json
import pickle
import signal
import sqlite3
import time
import urllib.error
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ormsgpack
import pytest
from langgraph.checkpoint.base.id import uuid6
from moot.web.idempotency import join_run
from starlette.requests import Request

from tests.conftest import CLAIM, MODELS, StubEndpoint, free_port, running_stub, says
from tests.faults.debates import stored_in
from tests.faults.kills import calls_of, count_sent, count_stored
from tests.serving import Planted, Server, running
from tests.web.documents import contents

if TYPE_CHECKING:
    from playwright.async_api import Page

LEXICAL = [{"name": name, "retriever": "bm25:demo-news"} for name in ("rag", "search")]
SETTINGS = {"model": "openai:stub", "embedder": "openai:stub-embedding", "debaters": LEXICAL, "max_rounds": 2}
SETTINGS |= {"models": MODELS}
LATE = says("judge", "SUPPORTS") | {"model": "-stub-judge$", "delay_ms": 2000}
"""A slow judge. A debate with this judge still runs after other debates have started."""
RULES = [{"model": "^slow-", "delay_ms": 2000}, LATE]
RULES += [says("rag", "SUPPORTS"), says("search", "REFUTES"), says("judge", "SUPPORTS")]
ROUTE = "/moot/api/debates"


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StubEndpoint]:
    with running_stub(tmp_path_factory.mktemp("models") / "stub", RULES, latency_ms=60) as stub:
        yield stub


@contextmanager
def serving(folder: Path, stub: StubEndpoint) -> Iterator[Server]:
    """Context manager: yields ``moot serve`` with its home in a folder."""
    port = free_port()
    command = ["-c", "from moot.cli.main import run; run()", "serve", "--port", str(port)]
    yield from running(command, folder, port, stub)


def second_folder(folder: Path) -> Path:
    """A folder for a second server that shares the home of the server in ``folder``."""
    (folder / "home").mkdir(exist_ok=True)
    (folder / "other").mkdir()
    (folder / "other" / "home").symlink_to(folder / "home")
    return folder / "other"


@pytest.fixture(scope="module")
def two_servers(tmp_path_factory: pytest.TempPathFactory, stub: StubEndpoint) -> Iterator[tuple[Server, Server]]:
    """Two servers on one home, for all tests that stop no server."""
    folder = tmp_path_factory.mktemp("both")
    with serving(folder, stub) as first, serving(second_folder(folder), stub) as second:
        yield first, second


def wait_for_result(check: Callable[[], Any]) -> Any:
    """Repeat a check until its result is true; return the result."""
    deadline = time.monotonic() + 60
    while not (value := check()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return value


def listed_debates(server: Server, status: str = "", claim: str = "") -> list[dict[str, Any]]:
    """The entries on the first page of the list; if a status or a claim is given, only the entries that have it."""
    entries: list[dict[str, Any]] = server.json(ROUTE)["debates"]
    return [entry for entry in entries if status in ("", entry["status"]) and claim in ("", entry["claim"])]


def run_of(claim: str, **settings: Any) -> dict[str, Any]:
    """A request for a run about a claim."""
    return {"assistant_id": "tool_mad", "input": {"claim": claim}, "context": SETTINGS | settings}


def documents(server: Server, claim: str = "") -> list[dict[str, Any]]:
    """The stored documents of a server; if a claim is given, only the documents about it."""
    stored = contents(server.folder / "home").values()
    return [one for one in stored if claim in ("", one["claim"])]


def start_slow_debate(server: Server, claim: str, name: str) -> dict[str, Any]:
    """Start a debate that nobody watches; return its run.

    Its judge is slow. The names of its models start with ``name``, so that `calls_by` finds their calls.
    """
    models = {role: f"openai:{name}-{model.removeprefix('openai:')}" for role, model in MODELS.items()}
    thread = server.json("/threads", {})["thread_id"]
    run: dict[str, Any] = server.json(
        f"/threads/{thread}/runs", run_of(claim, model=f"openai:{name}-stub", models=models)
    )
    return run


def calls_by(name: str, stub: StubEndpoint) -> list[dict[str, Any]]:
    """The ended calls of models whose names start with ``name``."""
    return [call for call in stub.calls() if call["model"].startswith(name)]


def test_a_debate_without_a_client_is_finished_and_stored(two_servers: tuple[Server, Server]) -> None:
    server, claim = two_servers[0], "Nobody watches this."

    def rows(status: str = "") -> list[dict[str, Any]]:
        return [row for row in listed_debates(server, status) if row["claim"] == claim]

    server.json("/runs", run_of(claim, max_rounds=1))
    [row] = wait_for_result(rows)
    assert row["graph"] == "tool_mad"
    [row] = wait_for_result(lambda: rows("done"))
    [document] = [one for one in documents(server) if one["claim"] == claim]
    assert (document["status"], row["answer"], row["id"][-32:]) == ("done", document["answer"], document["id"])


Scenario = Generator[None, Server, None]
"""A debate in four steps: before the server stops, while it is down, after it restarts, and after it stops again."""


def debate_under_way(stub: StubEndpoint) -> Scenario:
    """A debate that runs when the server stops.

    The number of calls that it needs is read from its own document. A debate on another claim may need more or fewer.
    """
    claim, server = "Another claim.", (yield)
    undisturbed = server.json("/runs/wait", run_of(CLAIM))
    before = len(calls_by("late", stub))
    run = start_slow_debate(server, claim, "late")
    wait_for_result(lambda: len(calls_by("late", stub)) >= before + 3)
    yield
    calls_of(stub)  # waits for the calls in flight
    sent = count_sent(calls_by("late", stub)[before:]).chats
    lost = sent - count_stored(stored_in(server.folder / "home", claim)).chats
    if server.process.returncode != -signal.SIGKILL:
        [stopped] = documents(server, claim)
        assert stopped["status"] == "interrupted"
        assert stopped["calls"]
    server = yield
    [row] = listed_debates(server, "interrupted", claim)
    assert (row["claim"], row["graph"], row["can"]) == (claim, "tool_mad", "resume")
    place = server.json(f"{ROUTE}/{row['id']}/resume", {})
    assert place["thread_id"] == run["thread_id"]
    assert server.refused(f"{ROUTE}/{row['id']}/resume", {})[0] == 422  # the debate continues already
    server.json(f"/threads/{place['thread_id']}/runs/{place['run_id']}/join")
    paid = count_sent(calls_by("late", stub)[before:]).chats
    assert listed_debates(server, "interrupted", claim) == []
    found = server.json(f"{ROUTE}/{place['thread_id']}")
    needed = sum(not call.get("shared") for call in found["document"]["calls"])
    assert paid == needed + lost
    assert found["document"]["answer"] == undisturbed["answer"]
    assert found["document"]["id"] == row["debate"]
    assert [len(documents(server, one)) for one in (claim, CLAIM)] == [1, 1]
    server.send(f"{ROUTE}/{found['id']}", method="DELETE")
    assert server.refused(f"/threads/{place['thread_id']}")[0] == 404
    yield
    assert [len(documents(server, one)) for one in (claim, CLAIM)] == [0, 1]


def debate_resumed_by_click(stub: StubEndpoint) -> Scenario:
    """A debate that runs when the server stops. A test in a browser resumes the debate."""
    server = yield
    before = len(calls_by("clicked", stub))
    start_slow_debate(server, "A click resumes this.", "clicked")
    wait_for_result(lambda: len(calls_by("clicked", stub)) >= before + 3)
    yield
    yield


def waiting_question(stub: StubEndpoint) -> Scenario:
    """A debate whose question waits while the server is down.

    Two copies of its thread are added to the file of threads. The server removes only the copy that is too old.
    """
    claim, server = "Somebody is asked about this.", (yield)
    thread = server.json("/threads", {})["thread_id"]
    server.json(f"/threads/{thread}/runs/wait", run_of(claim, max_rounds=1, ask_person=["verdict"]))
    [row] = listed_debates(server, "waiting", claim)
    assert (row["thread"], row["can"]) == (thread, "answer")
    yield
    assert (server.folder / "home" / "threads.sqlite").stat().st_mode & 0o077 == 0
    copied = (
        "INSERT INTO checkpoints SELECT ?, checkpoint_ns, ?, NULL, type, checkpoint, metadata FROM checkpoints "
        "WHERE thread_id = ? LIMIT 1"
    )
    with closing(sqlite3.connect(server.folder / "home" / "threads.sqlite")) as file, file:
        file.execute(copied, ("of another server", str(uuid6()), thread))
        old = "10" + str(uuid6())[2:]  # the first digits of a checkpoint's id are its time
        assert file.execute(copied, ("forgotten", old, thread)).rowcount == 1
    server = yield
    assert listed_debates(server, "waiting", claim) == [row]
    with closing(sqlite3.connect(server.folder / "home" / "threads.sqlite")) as file:
        left = {thread for (thread,) in file.execute("SELECT DISTINCT thread_id FROM checkpoints")}
    assert {thread, "of another server"} <= left
    assert "forgotten" not in left
    wait = server.json(f"/threads/{thread}/state")["tasks"][0]["interrupts"][0]["id"]
    reply = {"assistant_id": "tool_mad", "command": {"resume": {wait: {"accept": True}}}}
    calls = len(stub.calls())
    ended = server.json(f"/threads/{thread}/runs/wait", reply)
    assert (ended["status"], ended["id"]) == ("done", row["debate"])
    assert len(stub.calls()) == calls  # no call was made again
    [row] = listed_debates(server, claim=claim)
    assert (row["status"], row["answer"]) == ("done", ended["answer"])
    assert [one["status"] for one in documents(server, claim)] == ["done"]  # the unfinished document was replaced


def pickled_threads(stub: StubEndpoint) -> Scenario:
    """Threads whose checkpoints run code if they are loaded without restrictions: one pickle, and one msgpack."""
    server = yield
    mark = server.folder / "unpickled"
    called = ormsgpack.packb(("builtins", "eval", f"open({str(mark)!r}, 'w').close()"))
    planted = {"pickle": pickle.dumps(Planted(mark)), "msgpack": ormsgpack.packb(ormsgpack.Ext(0, called))}
    threads = {type: server.json("/threads", {})["thread_id"] for type in planted}
    for thread in threads.values():
        server.json(f"/threads/{thread}/runs/wait", run_of("This is pickled.", max_rounds=1))
    yield
    with closing(sqlite3.connect(server.folder / "home" / "threads.sqlite")) as file, file:
        for type, content in planted.items():
            changed = "UPDATE checkpoints SET type = ?, checkpoint = ? WHERE thread_id = ?"
            assert file.execute(changed, (type, content, threads[type])).rowcount
    server = yield
    for thread in threads.values():
        with pytest.raises(urllib.error.HTTPError):
            server.send(f"/threads/{thread}/state")
        assert not mark.exists()


def equal_requests(stub: StubEndpoint) -> Scenario:
    """Twenty equal requests with one key, which is valid until the debate is deleted."""
    claim, key = "Twenty ask about this.", {"idempotency-key": "of-one-debate"}

    def ask(server: Server, path: str = "/runs/wait") -> bytes:
        return server.send(path, run_of(claim, max_rounds=1), key)

    server = yield
    with ThreadPoolExecutor(20) as pool:
        found = [json.loads(one) for one in pool.map(lambda _: ask(server), range(20))]
    [row] = listed_debates(server, "done", claim)
    assert {one["id"] for one in found} == {row["debate"]}
    assert all(one == found[0] for one in found)
    assert server.refused("/runs/wait", run_of("Another claim."), key)[0] == 422
    assert server.refused("/runs/wait", run_of(claim) | {"context": [1]}, key)[0] == 422
    assert json.loads(ask(server, "/runs"))["status"] == "success"
    assert b'"status": "done"' in ask(server, "/runs/stream")
    thread = server.json("/threads", {})["thread_id"]
    assert json.loads(ask(server, f"/threads/{thread}/runs/wait")) == found[0]
    assert len(listed_debates(server, claim=claim)) == 1
    yield
    server = yield
    assert json.loads(ask(server)) == found[0]
    assert server.refused("/runs/wait", run_of("Another claim."), key)[0] == 422
    server.send(f"{ROUTE}/{row['id']}", method="DELETE")
    assert json.loads(ask(server))["id"] != found[0]["id"]


SCENARIOS = (waiting_question, pickled_threads, equal_requests, debate_under_way, debate_resumed_by_click)
"""The debates of a server that is stopped. When the server stops, the last two debates still run."""


@dataclass
class Restarted:
    """A server that was stopped and started again, and the debates of its home."""

    server: Server
    scenarios: dict[Callable[[StubEndpoint], Scenario], Scenario]
    finished: list[Scenario]

    def finish(self, scenario: Callable[[StubEndpoint], Scenario]) -> None:
        """Run the step of a scenario that comes after the restart."""
        with suppress(StopIteration):
            self.scenarios[scenario].send(self.server)
            self.finished.append(self.scenarios[scenario])


@pytest.fixture(scope="module", params=[signal.SIGKILL, signal.SIGTERM], ids=lambda sent: sent.name)
def restarted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, stub: StubEndpoint
) -> Iterator[Restarted]:
    """A server that was stopped by a signal and started again. Tests share it, because a start takes long."""
    folder = tmp_path_factory.mktemp("restarted")
    scenarios: dict[Callable[[StubEndpoint], Scenario], Scenario] = {scenario: scenario(stub) for scenario in SCENARIOS}
    with serving(folder, stub) as server:
        for scenario in scenarios.values():
            next(scenario)
            scenario.send(server)
        server.process.send_signal(request.param)
        server.process.wait(30)
    for scenario in scenarios.values():
        next(scenario)
    with serving(folder, stub) as server:
        yield (found := Restarted(server, scenarios, []))
    server.process.wait(30)
    for scenario in found.finished:
        next(scenario, None)


def test_a_debate_of_a_stopped_server_can_be_resumed(restarted: Restarted) -> None:
    restarted.finish(debate_under_way)


def test_a_question_still_waits_after_a_restart(restarted: Restarted) -> None:
    restarted.finish(waiting_question)


def test_no_stored_thread_is_unpickled(restarted: Restarted) -> None:
    restarted.finish(pickled_threads)


def test_equal_requests_with_one_key_run_only_one_debate(restarted: Restarted) -> None:
    restarted.finish(equal_requests)


@pytest.mark.parametrize("restarted", [signal.SIGKILL], ids=["SIGKILL"], indirect=True)
async def test_a_click_resumes_a_debate_after_a_restart(page: Page, restarted: Restarted) -> None:
    server, claim = restarted.server, "A click resumes this."
    row = page.locator(".checks li", has_text=claim)
    for width, height in ((1440, 900), (390, 844)):
        await page.set_viewport_size({"width": width, "height": height})
        await page.goto(f"{server.url}/moot/debates")
        await row.filter(has_text="interrupted").wait_for()
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
    await row.get_by_role("button", name="Go on").focus()
    await page.keyboard.press("Enter")
    await page.get_by_role("heading", name="Supported, without a verified quote").wait_for()
    await page.get_by_role("link", name="Past checks").click()
    await row.filter(has_text="Supported").wait_for()
    assert len(documents(server, claim)) == 1


def test_two_servers_on_one_home_run_one_debate_per_key(two_servers: tuple[Server, Server], stub: StubEndpoint) -> None:
    one, other = two_servers

    def ask(asked: tuple[Server, str]) -> tuple[int, Any]:
        server, key = asked
        try:
            return 200, json.loads(
                server.send("/runs/wait", run_of(f"Claim {key}.", max_rounds=1), {"idempotency-key": key})
            )
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    with ThreadPoolExecutor(16) as pool:
        before = len(stub.requests())
        keys = [f"number-{i}" for i in range(8)]
        answers = list(pool.map(ask, [(server, key) for key in keys for server in (one, other)]))
        paid = len(stub.requests()) - before
        again = [ask((server, keys[0])) for server in (one, other)]
        assert len(stub.requests()) - before == paid
    for first, second in zip(answers[::2], answers[1::2], strict=True):
        (_, done), (status, refused) = sorted((first, second), key=lambda one: one[0])
        assert done.get("status") == "done", answers
        assert (status == 200 and refused == done) or (status, refused["kind"]) == (409, "debate_running")
    assert len({one["id"] for _, one in again}) == 1
    finished = {one["id"]: one for status, one in answers if status == 200}
    assert (len(finished), paid) == (8, sum(one["usage"]["calls"] for one in finished.values()))


def test_simultaneous_replies_end_a_debate_only_once(two_servers: tuple[Server, Server]) -> None:
    first, second = two_servers
    claim = "Two replies come at once."

    def send_reply(server: Server) -> bytes:
        return server.send(f"/threads/{thread}/runs/wait", reply)

    with ThreadPoolExecutor(4) as pool:
        for servers in ([first, first], [first, second]):
            thread = first.json("/threads", {})["thread_id"]
            first.json(f"/threads/{thread}/runs/wait", run_of(claim, max_rounds=1, ask_person=["verdict"]))
            wait = first.json(f"/threads/{thread}/state")["tasks"][0]["interrupts"][0]["id"]
            second.json("/threads", {"thread_id": thread, "metadata": {"graph_id": "tool_mad"}})
            reply = {"assistant_id": "tool_mad", "command": {"resume": {wait: {"accept": True}}}}
            answers = [json.loads(answer) for answer in pool.map(send_reply, servers)]
            assert any(answer.get("status") == "done" for answer in answers)
            wait_for_result(lambda: not listed_debates(first, "running"))
    for entries in (listed_debates(first), documents(first)):
        assert [debate["status"] for debate in entries if debate["claim"] == claim] == ["done", "done"]


def test_a_debate_can_be_watched_only_at_the_server_that_runs_it(
    two_servers: tuple[Server, Server], stub: StubEndpoint
) -> None:
    """No server resumes a running debate. The second server resumes it after the first server has cancelled it."""
    first, second = two_servers
    claim, before = "Somebody watches this.", len(calls_by("slow", stub))
    run = start_slow_debate(first, claim, "slow")
    wait_for_result(lambda: len(calls_by("slow", stub)) > before)
    assert [row["can"] for row in listed_debates(first, "running", claim)] == ["watch"]
    assert ["can" in row for row in listed_debates(second, "running", claim)] == [False]
    [row] = listed_debates(second, claim=claim)  # the second server also lists the debate
    assert second.refused(f"{ROUTE}/{row['id']}/resume", {})[0] == 422
    first.send(f"/threads/{run['thread_id']}/runs/{run['run_id']}/cancel?wait=true", {})
    [row] = listed_debates(second, "interrupted", claim)
    place = second.json(f"{ROUTE}/{row['id']}/resume", {})
    wait_for_result(lambda: [row["can"] for row in listed_debates(second, "running", claim)] == ["watch"])
    assert first.refused(f"{ROUTE}/{row['id']}/resume", {})[0] == 422
    assert "thread" not in listed_debates(first, claim=claim)[0]
    second.send(f"/threads/{place['thread_id']}/runs/{place['run_id']}/cancel?wait=true", {})


def test_a_request_that_joins_a_run_keeps_all_its_stream_modes() -> None:
    scope: Any = {"type": "http", "headers": [], "path": "/runs/stream", "method": "POST"}
    join_run(scope, "/threads/1/runs/2/stream", {"stream_mode": ["updates", "custom"]})
    [asked] = Request(scope).query_params.getlist("stream_mode")  # one, because LangGraph reads only the last
    assert json.loads(asked) == ["updates", "custom"]
