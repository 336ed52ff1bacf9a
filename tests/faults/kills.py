"""Kill debates with SIGKILL or SIGTERM, resume them, and compare them with undisturbed debates."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from moot.core.store import Reply

from tests.conftest import CLAIM, StubEndpoint
from tests.faults.debates import IN_PYTHON, SYSTEMS, Ended, Sandbox, sandbox, settings_of, words_of

Start = Callable[[str, Sandbox], "subprocess.Popen[str]"]
"""A function that starts or resumes a debate of a system in a `Sandbox`."""
LATENCY_MS = 60
"""The duration of a call, in milliseconds. It is so long that calls are in flight when a debate is killed."""


@dataclass(frozen=True)
class Moment:
    """When and how a debate is killed.

    Args:
        system: the debate's system.
        signal: the signal that kills it.
        share: the share of an undisturbed debate after which the kill comes, from 0 to 1.
        unit: what the share counts: requests ("calls") or seconds ("time").
    """

    system: str
    signal: signal.Signals
    share: float
    unit: str


@dataclass(frozen=True)
class Counts:
    """The numbers of chat calls and of embedded texts. They were sent to an endpoint or are stored.

    Texts are counted, not requests for embeddings, because each run groups texts into requests differently.
    """

    chats: int
    texts: int

    def __sub__(self, other: Counts) -> Counts:
        return Counts(self.chats - other.chats, self.texts - other.texts)


@dataclass(frozen=True)
class Undisturbed:
    """A debate without a kill: its verdict, its number of requests, its calls and texts, and its duration."""

    verdict: Any
    requests: int
    sent: Counts
    seconds: float


@dataclass(frozen=True)
class Killed:
    """The result of a debate that was killed and resumed.

    Args:
        moment: when the debate was killed.
        before: the number of requests before the kill.
        unanswered: the number of calls and texts without a usable reply at the kill; 0 if the debate was done.
        repaid: the number of calls and texts beyond those of the undisturbed debate.
        wrong: the first error; empty if there is none.
    """

    moment: Moment
    before: int
    unanswered: int
    repaid: int
    wrong: str


def moments(number: int, seed: int) -> Iterator[Moment]:
    """Draw random moments. The systems take turns, and the signal changes when all systems have had a turn."""
    draw = random.Random(seed)
    for index in range(number):
        system = [*SYSTEMS][index % len(SYSTEMS)]
        sent_signal = (signal.SIGKILL, signal.SIGTERM)[index // len(SYSTEMS) % 2]
        yield Moment(system, sent_signal, draw.random(), draw.choice(("calls", "time")))


@cache
def undisturbed(system: str, folder: Path) -> Undisturbed:
    """Run a debate without a kill; return its figures. They are cached, so each system runs once per folder."""
    with sandbox(folder / f"undisturbed-{system}", latency_ms=LATENCY_MS) as here:
        started = time.monotonic()
        ended = here.verify(system)
        if ended.code:
            raise AssertionError(f"{system}: {ended.errors[-2000:]}")
        seconds = time.monotonic() - started
        return Undisturbed(ended.verdict, here.served(), count_sent(here.stub.calls()), seconds)


def start_by_command(system: str, here: Sandbox) -> subprocess.Popen[str]:
    """Start or resume a debate with ``moot verify``."""
    return here.start(*words_of(system), "--out", str(here.out))


def start_by_resume(system: str, here: Sandbox) -> subprocess.Popen[str]:
    """Resume a debate with ``moot verify --resume``, which names neither system nor settings."""
    return here.start("verify", CLAIM, "--resume", "--out", str(here.out))


def start_in_python(system: str, here: Sandbox) -> subprocess.Popen[str]:
    """Start or resume a debate in a Python process that records it."""
    chosen = {"model": "openai:stub", **settings_of(system)}
    given = {"graph": system, "settings": chosen, "claims": [CLAIM], "mode": "record", "out": str(here.out)}
    return here.start(json.dumps(given), program=IN_PYTHON)


def kill(moment: Moment, folder: Path, start: Start = start_by_command, again: Start | None = None) -> Killed:
    """Kill a debate, resume it if it was not done, and compare it with the undisturbed debate.

    Args:
        moment: when to kill the debate.
        folder: the folder of all killed debates.
        start: starts the debate.
        again: resumes the debate; by default ``start``.

    Raises:
        AssertionError: the undisturbed debate failed.
    """
    reference = undisturbed(moment.system, folder)
    name = f"{moment.system}-{moment.signal.name}-{moment.unit}-{moment.share:.6f}"
    with sandbox(folder / name, latency_ms=LATENCY_MS) as here:
        process = start(moment.system, here)
        wait_for(moment, reference, here, process)
        before = here.served()
        process.send_signal(moment.signal)
        ended = here.end(process)
        sent, stored = calls_of(here.stub), here.stored()
        wrong = exit_error(ended, moment) or unstored_reply_error(sent, stored)
        lost = Counts(0, 0)
        if ended.code and (ended.document or {}).get("status") != "done":  # killed before the debate was done
            lost = count_sent(sent) - count_stored(stored)
            ended = here.end((again or start)(moment.system, here))
        repaid = count_sent(calls_of(here.stub)) - reference.sent
        if not wrong and ended.verdict != reference.verdict:
            wrong = f"another verdict: {ended.verdict} {ended.errors[-500:]}"
        if not wrong and repaid != lost:
            wrong = f"repaid: {repaid}; without a usable reply before the kill: {lost}"
        return Killed(moment, before, lost.chats + lost.texts, repaid.chats + repaid.texts, wrong)


def calls_of(stub: StubEndpoint) -> list[dict[str, Any]]:
    """Wait until no call is in flight; return all calls that the endpoint received."""
    while in_flight(stub):
        time.sleep(0.01)
    return stub.calls()


def count_sent(calls: Sequence[dict[str, Any]]) -> Counts:
    """Count the chat calls and embedded texts of an endpoint's log."""
    return Counts(sum(call["kind"] == "chat" for call in calls), sum(call.get("inputs", 0) for call in calls))


def count_stored(stored: Sequence[Reply]) -> Counts:
    """Count the stored replies and vectors, without calls that failed or have no reply."""
    vectors = sum(reply.kind == "embedding" and not reply.failed for reply in stored)
    return Counts(sum(map(count_answered, stored)), vectors)


def count_answered(reply: Reply) -> int:
    """Count the answered calls of a stored request: an unusable first reply counts, too."""
    if reply.kind != "chat" or not reply.value:
        return 0
    if reply.failed:
        return int("message" not in reply.value)
    return sum(call["outcome"] != "failed" for call in reply.value["calls"])


def unstored_reply_error(sent: Sequence[dict[str, Any]], stored: Sequence[Reply]) -> str:
    """An error message if a reply that a later prompt quotes is not stored; else an empty string."""
    stored_replies = "".join(json.dumps(reply.value) for reply in stored if reply.kind == "chat")
    replies = {call["ref"] for call in sent if "ref" in call}
    used = replies & {ref for call in sent for ref in call.get("deps", ())}
    lost = {ref for ref in used if f"(ref {ref})" not in stored_replies}
    return f"replies were used but not stored: {sorted(lost)}" if lost else ""


def wait_for(moment: Moment, reference: Undisturbed, here: Sandbox, process: Any) -> None:
    """Wait for the moment of the kill. Return earlier if the debate ends before it."""
    if moment.unit == "time":
        with suppress(subprocess.TimeoutExpired):
            process.wait(moment.share * reference.seconds)
        return
    calls = ceil(moment.share * reference.requests)
    while process.poll() is None and here.served(calls) < calls:
        pass


def in_flight(stub: StubEndpoint) -> int:
    """The number of requests that the endpoint has not answered yet."""
    return int(stub.stats()["in_flight"])


def exit_error(ended: Ended, moment: Moment) -> str:
    """An error message if the exit code is neither 0 nor a code of the signal (SIGTERM: -15 or 143); else empty."""
    if ended.code in (0, -signal.SIGKILL if moment.signal == signal.SIGKILL else 128 + moment.signal, -moment.signal):
        return ""
    return f"exit code {ended.code}, {ended.verdict}: {ended.errors[-1500:]}"
