"""SIGKILL and SIGTERM at random moments of a debate, which the same command then finishes."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.conftest import CLAIM, StubEndpoint
from tests.faults.debates import IN_PYTHON, SYSTEMS, Ended, Place, place, settings_of, words_of

EMBEDDED = 2
"""Requests by which one trial of many exceeded those in flight. The cause is not known; embeddings may be joined in
other ways from run to run."""
Start = Callable[[str, Place], "subprocess.Popen[str]"]
"""Starts a debate of a system in a place."""
LATENCY_MS = 60
"""Of each call, so that some are in flight at the kill."""
STORING = 0.1
"""Seconds between an answer of the endpoint and its place in the ledger, at most: the ledger gathers what is kept for
20 ms, and a busy machine takes as long again to read the answer and to store it."""


@dataclass(frozen=True)
class Moment:
    """When a debate is killed: after a share of the requests, or after a share of the time."""

    system: str
    signal: signal.Signals
    share: float
    by: str


@dataclass(frozen=True)
class Undisturbed:
    """A debate without a kill: its verdict, its requests, its seconds."""

    verdict: Any
    requests: int
    seconds: float


@dataclass(frozen=True)
class Killed:
    """The result of a debate that was killed and resumed.

    Args:
        moment: when it was killed.
        before: requests until then.
        flying: requests that were under way then.
        repaid: requests in all, less those of the undisturbed debate.
        wrong: what is not as it has to be.
    """

    moment: Moment
    before: int
    flying: int
    repaid: int
    wrong: str


def moments(number: int, seed: int) -> Iterator[Moment]:
    """Random moments, over all systems and both signals."""
    draw = random.Random(seed)
    for index in range(number):
        system = [*SYSTEMS][index % len(SYSTEMS)]
        number_of = (signal.SIGKILL, signal.SIGTERM)[index // len(SYSTEMS) % 2]
        yield Moment(system, number_of, draw.random(), draw.choice(("calls", "time")))


@cache
def undisturbed(system: str, folder: Path) -> Undisturbed:
    """Run a debate without a kill."""
    with place(folder / f"undisturbed-{system}", latency_ms=LATENCY_MS) as here:
        started = time.monotonic()
        ended = here.verify(system)
        if ended.code:
            raise AssertionError(f"{system}: {ended.errors[-2000:]}")
        return Undisturbed(ended.verdict, here.served(), time.monotonic() - started)


def by_command(system: str, here: Place) -> subprocess.Popen[str]:
    """Start a debate as ``moot verify``."""
    return here.start(*words_of(system), "--out", str(here.out))


def by_resume(system: str, here: Place) -> subprocess.Popen[str]:
    """Resume a debate with ``moot verify --resume``, which names neither system nor settings."""
    return here.start("verify", CLAIM, "--resume", "--out", str(here.out))


def in_python(system: str, here: Place) -> subprocess.Popen[str]:
    """Start the same debate in a Python process that records it."""
    chosen = {"model": "openai:stub", **settings_of(system)}
    given = {"graph": system, "settings": chosen, "claims": [CLAIM], "mode": "record", "out": str(here.out)}
    return here.start(json.dumps(given), program=IN_PYTHON)


def kill(moment: Moment, folder: Path, start: Start = by_command, again: Start | None = None) -> Killed:
    """Kill a debate and resume it.

    Args:
        moment: when.
        folder: a folder for all such debates.
        start: starts a debate.
        again: goes on with it; by default the same command does.
    """
    whole = undisturbed(moment.system, folder)
    name = f"{moment.system}-{moment.signal.name}-{moment.by}-{moment.share:.6f}"
    with place(folder / name, latency_ms=LATENCY_MS) as here:
        process = start(moment.system, here)
        wait_for(moment, whole, here, process)
        before, killed = here.served(), time.time()
        process.send_signal(moment.signal)
        ended = here.end(process)
        dead = time.time()
        flying = flying_between(killed, dead, here.stub)
        wrong = first_end(ended, moment)
        # If it ended before, its user has the document.
        if ended.code and (ended.document or {}).get("status") != "done":
            ended = here.end((again or start)(moment.system, here))
        repaid = here.served() - whole.requests
        if not wrong and ended.verdict != whole.verdict:
            wrong = f"another verdict: {ended.verdict} {ended.errors[-500:]}"
        if not wrong and repaid > flying + EMBEDDED:
            wrong = f"{repaid} calls repaid, {flying} were under way"
        return Killed(moment, before, flying, repaid, wrong)


def wait_for(moment: Moment, whole: Undisturbed, here: Place, process: Any) -> None:
    """Wait for the moment, or for the end of the debate."""
    started = time.monotonic()
    while process.poll() is None:
        by_calls = moment.by == "calls" and here.served() >= moment.share * whole.requests
        if by_calls or (moment.by == "time" and time.monotonic() - started >= moment.share * whole.seconds):
            return
        time.sleep(0.005)


def flying_between(killed: float, dead: float, stub: StubEndpoint) -> int:
    """Requests in flight when a process was killed, or sent before it was dead.

    On a busy machine the process may not have read an answer yet, so answers without a later request count too.
    """
    while in_flight(stub):
        time.sleep(0.01)
    sent = [call for call in stub.calls() if call["recv"] <= dead]
    taken_up = min(killed, max((call["recv"] for call in sent), default=killed)) - STORING
    return sum(call["end"] >= taken_up for call in sent)


def in_flight(stub: StubEndpoint) -> int:
    """Requests that the endpoint has not answered yet."""
    with urllib.request.urlopen(stub.url.removesuffix("/v1") + "/stub/stats") as reply:
        return int(json.load(reply)["in_flight"])


def first_end(ended: Ended, moment: Moment) -> str:
    """The error in the end of a process that got a signal; it may have ended before."""
    if ended.code in (0, -signal.SIGKILL if moment.signal == signal.SIGKILL else 128 + moment.signal, -moment.signal):
        return ""
    return f"exit code {ended.code}, {ended.verdict}: {ended.errors[-1500:]}"
