"""Faults of ``moot serve``: kills in the middle of debates, hostile requests, markup, and planted pickles."""

from __future__ import annotations

import html
import json
import random
import re
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

from tests.conftest import CLAIM, StubEndpoint, free_port, running_stub, says
from tests.faults.debates import ROOT, SHELF, stored_in
from tests.faults.kills import LATENCY_MS, calls_of, count_sent, count_stored, unstored_reply_error
from tests.faults.record import Fault, Result, first_failed
from tests.serving import Server, plant, running

ALLOWED_SOURCES = SHELF.removeprefix("langchain:")
DEBATES = "/moot/api/debates"
ROLES = ("rag", "search", "scorer", "judge")
RULES = [says("rag", "SUPPORTS"), says("search", "REFUTES"), says("judge", "SUPPORTS")]
SETTINGS: dict[str, Any] = {
    "model": "openai:stub",
    "models": {role: f"openai:stub-{role}" for role in ROLES},
    "embedder": "openai:stub-embedding",
    "debaters": [{"name": name, "retriever": SHELF} for name in ("rag", "search")],
    "max_rounds": 2,
}
MARKUP = "<script>alert(1)</script> <img src=x onerror=alert(2)> [x](javascript:alert(3)) <iframe src='//evil.test'>"


@contextmanager
def serving(folder: Path, stub: StubEndpoint) -> Iterator[Server]:
    """Run ``moot serve`` with its home in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["-c", "from moot.cli.main import run; run()", "serve", "--port", str(port := free_port())]
    yield from running(command, folder, port, stub, MOOT_LANGCHAIN_SOURCES=ALLOWED_SOURCES, PYTHONPATH=str(ROOT))


def debate_request(claim: str = CLAIM, **settings: Any) -> dict[str, Any]:
    """The body of a request for a debate."""
    return {"assistant_id": "tool_mad", "input": {"claim": claim}, "context": SETTINGS | settings}


def start_unwatched(server: Server, thread: str, claim: str) -> None:
    """Start a debate as a program does, without reading its stream."""
    server.json(f"/threads/{thread}/runs", debate_request(claim))


def start_watched(server: Server, thread: str, claim: str) -> None:
    """Start a debate as the page does, and read its stream."""

    def read() -> None:
        with suppress(OSError, HTTPException):  # the stream breaks when the server is killed
            server.send(
                f"/threads/{thread}/runs/stream", debate_request(claim) | {"stream_mode": ["custom", "updates"]}
            )

    threading.Thread(target=read, daemon=True).start()


def kill_server(start: Callable[[Server, str, str], None]) -> Callable[[Path, bool], Result]:
    """Make a function that kills servers at random moments of debates. The next server resumes the debate."""

    def cause(folder: Path, quick: bool) -> Result:
        times, draw = 2 if quick else 8, random.Random(21)
        repaid, unanswered, wrong, killed, answer = 0, 0, "", "", None
        before, undisturbed, lost, claim, home = 0, 0, 0, "", folder / "server" / "home"
        folder.mkdir(parents=True)
        with running_stub(folder / "stub", RULES, latency_ms=LATENCY_MS) as stub:
            for number in range(times + 1):
                with serving(folder / "server", stub) as server:
                    if killed:
                        found, resumed = resumed_document(server, killed)
                        lost *= resumed  # a debate that ended before the kill is not resumed, so it repeats no call
                        unanswered += lost
                        needed = sum(not call.get("shared") for call in found["calls"])
                        more = count_sent(stub.calls()[before:]).chats - needed
                        repaid += more
                        wrong = wrong or first_failed(
                            (found["status"] == "done", f"thread {killed} has the status {found['status']}"),
                            (found["answer"] == answer, f"the answer is {found['answer']}, not {answer}"),
                            (more == lost, f"{more} calls were paid again, but {lost} had no stored answer"),
                        )
                    else:
                        answer, undisturbed = server.json("/runs/wait", debate_request())["answer"], len(stub.calls())
                    if number == times:
                        break
                    before, killed = len(stub.calls()), server.json("/threads", {})["thread_id"]
                    claim = f"Claim number {number}."
                    start(server, killed, claim)
                    wait_for(stub, before + draw.randrange(1, undisturbed))
                    server.process.send_signal((signal.SIGKILL, signal.SIGTERM)[number % 2])
                    server.process.wait(60)
                    sent, stored = calls_of(stub)[before:], stored_in(home, claim)
                    wrong = wrong or unstored_reply_error(sent, stored)
                    lost = count_sent(sent).chats - count_stored(stored).chats
        return Result(times, f"{repaid} calls paid again; {unanswered} had no usable answer", wrong)

    return cause


def wait_for(stub: StubEndpoint, calls: int) -> None:
    """Wait until the endpoint has answered this many calls. After 60 seconds raise a TimeoutError."""
    deadline = time.monotonic() + 60
    while (answered := stub.stats(logged=calls)["logged"]) < calls:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{answered} calls were answered, not {calls}")


def resumed_document(server: Server, thread: str) -> tuple[dict[str, Any], bool]:
    """Resume the killed server's debate as the page's button does, unless the debate ended before the kill.

    Returns:
        The debate's document, and whether the debate was resumed.
    """
    rows = [row for row in server.json(DEBATES)["debates"] if row["status"] == "interrupted"]
    for row in rows:
        place = server.json(f"{DEBATES}/{row['id']}/resume", {})
        server.send(f"/threads/{place['thread_id']}/runs/{place['run_id']}/join")
    return server.json(f"{DEBATES}/{thread}")["document"], bool(rows)


def send_foreign_requests(folder: Path, quick: bool) -> Result:
    """Send requests from other websites, with foreign hosts, or with forbidden addresses, models or sources."""
    elsewhere = "http://127.0.0.1:1/v1"
    asked: list[tuple[str, Any, dict[str, str]]] = [
        ("/info", None, {"host": "evil.example"}),
        ("/info", None, {"host": "localhost.evil.example"}),
        ("/runs/wait", debate_request(), {"origin": "https://evil.example"}),
        ("/runs/wait", debate_request(), {"origin": "null", "sec-fetch-site": "cross-site"}),
        (DEBATES, None, {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}),
        ("/runs/wait", debate_request(models={"judge": f"{elsewhere}:stub"}), {}),
        ("/runs/wait", debate_request(embedder="somebody/model"), {}),
        ("/runs/wait", debate_request(debaters=[{"name": "rag", "retriever": "langchain:os:system"}]), {}),
        ("/runs/wait", {**debate_request(), "webhook": elsewhere}, {}),
        ("/runs/wait", debate_request(base_url=elsewhere), {}),
    ]
    folder.mkdir(parents=True)
    with running_stub(folder / "stub", RULES) as stub, serving(folder / "server", stub) as server:
        answered = []
        for path, body, headers in asked:
            try:
                response = server.send(path, body, headers)
            except urllib.error.HTTPError as error:
                error.close()
            else:
                document = json.loads(response)
                if not (isinstance(document, dict) and (document.get("error") or document.get("__error__"))):
                    answered.append(f"{path} {json.dumps(body)[-80:]} {headers}")
        called = len(stub.calls())
        allowed = server.json("/runs/wait", debate_request())["status"]
    wrong = first_failed(
        (allowed == "done", f"an allowed request ends with the status {allowed}"),
        (not answered, f"answered without an error: {'; '.join(answered)}"),
        (called == 0, f"{called} calls were made"),
    )
    return Result(len(asked), wrong=wrong)


def send_markup(folder: Path, quick: bool) -> Result:
    """Run a debate with markup in its claim, in a given text and in replies."""
    fields = {"rationale": MARKUP, "query": MARKUP, "reason": MARKUP}
    folder.mkdir(parents=True)
    with running_stub(folder / "stub", [{"fields": fields}]) as stub, serving(folder / "server", stub) as server:
        thread = server.json("/threads", {})["thread_id"]
        request = debate_request(f"{MARKUP} {CLAIM}")
        request["input"]["given"] = [{"text": MARKUP, "title": MARKUP}]
        document = server.json(f"/threads/{thread}/runs/wait", request)
        id = server.json(f"{DEBATES}/{thread}")["id"]
        report = server.send(f"{DEBATES}/{id}/html").decode()
        page = server.send(f"/moot/debates/{id}").decode()
        listed = urllib.request.urlopen(f"{server.url}{DEBATES}")
        with listed:
            content_type = listed.headers["content-type"]
    executable = re.findall(r"<(?:script|img|iframe)\b[^>]*(?:alert|evil|onerror)|href=.javascript:", report + page)
    wrong = first_failed(
        (document["status"] == "done", f"{document['status']}: {document.get('error')}"),
        (html.escape("<script>alert(1)</script>") in report, "the report does not show the script as text"),
        ("<script>alert(1)" not in report + page, "a script is in the report or in the page"),
        (not executable, f"executable markup: {executable[:3]}"),
        (content_type.startswith("application/json"), content_type),
    )
    return Result(3, wrong=wrong)


def plant_pickles(folder: Path, quick: bool) -> Result:
    """Put pickles in the folders in which the server looks for its own files."""
    folder.mkdir(parents=True)
    home = folder / "server" / "home"
    home.mkdir(parents=True)
    marks = [plant(folder / "server"), plant(home)]
    with running_stub(folder / "stub", RULES) as stub, serving(folder / "server", stub) as server:
        document = server.json("/runs/wait", debate_request())
    read = [str(mark) for mark in marks if mark.exists()]
    wrong = first_failed((document["status"] == "done", str(document.get("error"))), (not read, f"unpickled: {read}"))
    return Result(6, wrong=wrong)


FAULTS = [
    Fault(
        "kill -9 and SIGTERM of the API server",
        "`moot serve` is killed at random moments of debates without a client; the next server resumes them",
        "all debates end with the answer of an undisturbed run; only calls without a usable answer are paid again",
        kill_server(start_unwatched),
    ),
    Fault(
        "kill -9 and SIGTERM under the page",
        "`moot serve` is killed at random moments of debates that a page watches; the next server resumes them",
        "all debates end with the answer of an undisturbed run; only calls without a usable answer are paid again",
        kill_server(start_watched),
    ),
    Fault(
        "SSRF",
        "requests with foreign hosts or from other websites; requests that name forbidden addresses, models or sources",
        "refused without any call",
        send_foreign_requests,
    ),
    Fault(
        "HTML",
        "the claim, a given text and all replies contain tags and scripts",
        "they are shown as text",
        send_markup,
    ),
    Fault(
        "unsafe deserialisation",
        "pickles are in the folders in which the server looks for its files",
        "they are not unpickled",
        plant_pickles,
    ),
]
