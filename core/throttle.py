"""Estimates the limits of an endpoint that refuses calls with HTTP 429: concurrent calls, and the pace of calls.

It applies TCP's congestion control to calls: a refusal lowers both limits, successes raise them (slow start and
additive growth as in RFC 5681, the pace's curve as in RFC 9438). Successes of calls that were in flight at a refusal do
not count.
"""

from __future__ import annotations

import math
import random
from collections import deque

SHRINK = 0.7
"""The factor by which a refusal lowers the concurrent calls and the pace."""
PLATEAU = 50
"""Successes after which both limits have recovered from a refusal that was not the first. Around this point the pace
changes least.
"""
LEAST_PACE = 4
"""Number of accepted calls that is assumed when the pace is measured, if there were fewer."""
STORED_STARTS = 512
"""Most start times of calls that are stored to measure the pace that the endpoint accepted."""


class Throttle:
    """The state of one endpoint. Times are an event loop's, in seconds.

    Attributes:
        active: whether any limit applies.
        opens_at: when the endpoint may be called again.
        last_accepted: when the endpoint last accepted a call since the first refusal; else the time of this refusal.
    """

    def __init__(self) -> None:
        self.active = False
        self.opens_at = 0.0
        self.last_accepted = 0.0
        self._starts: deque[float] = deque(maxlen=STORED_STARTS)
        self._refused_at = -math.inf
        self._refusals_in_a_row = 0
        self._successes = 0
        self._pace = math.inf  # calls per second at the last refusal
        self._accepted = math.inf  # calls that the endpoint had accepted at the last refusal
        self._first = True  # until a second refusal: the pace may be far too low, as few calls were measured
        self._measure = False  # whether the pace has to be measured after a refusal

    @property
    def room(self) -> float:
        """Most concurrent calls, at least 1; infinite if they are not limited."""
        if self._accepted == math.inf:
            return math.inf
        growth = 1.0 if self._first else max(1 / 8, (1 - SHRINK) * self._accepted / PLATEAU)
        return max(1.0, SHRINK * self._accepted) + self._successes * growth

    @property
    def pace(self) -> float:
        """Most calls per second; infinite if they are not limited."""
        if self._first:
            return self._pace * SHRINK * math.exp2(self._successes / 8)
        return self._pace * (1 + (1 - SHRINK) * (self._successes / PLATEAU - 1) ** 3)

    @property
    def refused_pace(self) -> float:
        """The pace at the last refusal, in calls per second; infinite if it is not known."""
        return self._pace

    def due(self, now: float) -> float:
        """When the next call may start."""
        if not self.active or now < self.opens_at:
            return self.opens_at
        if self._measure:
            self._measure = False
            self._pace = min(self._pace, self._measured_pace())
        return self._starts[-1] + 1 / self.pace if self._starts else now

    def start(self, now: float) -> None:
        """Records the start of a call."""
        self._starts.append(now)

    def close(self, until: float) -> None:
        """Lets no call start before the given time."""
        self.active, self.opens_at = True, max(self.opens_at, until)

    def accept(self, started: float, now: float) -> None:
        """Records that the endpoint accepted a call, which started at the given time."""
        self.last_accepted = now
        if started <= self._refused_at:
            return
        self._refusals_in_a_row = 0
        self._successes += 1
        if self.pace > 20 * self._pace:
            self._pace = math.inf
        if self.room > 2 * self._accepted + 8:
            self._accepted = math.inf
        if self._pace == self._accepted == math.inf and now >= self.opens_at:
            self.active, self._first = False, True

    def refuse(self, started: float, now: float, running: int, retry_after: float) -> None:
        """Records a refused call: its start, the number of other running calls, and the requested wait.

        All calls wait. A small random time is added, so that several processes do not call again at the same moment.
        """
        if started in self._starts:
            self._starts.remove(started)
        if not self.active:
            self.last_accepted = now
        wait = retry_after * random.uniform(1.0, 1.1)
        if started > self._refused_at:
            self._lower(now, running or self._accepted)  # a call refused alone says nothing about concurrency
            wait = max(wait, self._default_wait() * random.uniform(0.5, 1.0))
        else:
            self._accepted = min(self._accepted, running or self._accepted)
        self.close(now + wait)

    def refuse_elsewhere(self, now: float, wait: float, pace: float) -> None:
        """Records a refusal of another process: all calls wait, and this process lowers its limits unless it is slower.

        If each process lowered its limits only after its own refusals, more calls would be refused. If slower processes
        lowered theirs, too, they would fall behind more and more: limits grow with each accepted call.

        Args:
            now: the time.
            wait: seconds during which the endpoint must not be called.
            pace: the other process's pace when it was refused; infinite if it is unknown; 0 if the endpoint only asked
                it to wait.
        """
        known = self._pace < math.inf
        if pace and now >= self.opens_at and not (known and self.pace < 0.9 * pace):
            self._lower(now, self.room)
            self._measure = not known
        self.close(now + wait * random.uniform(1.0, 1.1))

    def _lower(self, now: float, accepted: float) -> None:
        """Lowers both limits after a refusal. ``accepted`` is the number of concurrent calls that were not refused."""
        self._first, self._pace = self._pace == math.inf, self.pace
        self._refusals_in_a_row += 1
        self._refused_at, self._successes, self._measure = now, 0, True
        self._accepted = accepted

    def _default_wait(self) -> float:
        """Seconds to wait after a refusal if the endpoint asks for no wait; they grow with the refusals in a row."""
        return float(min(16.0, 0.5 * 2 ** min(self._refusals_in_a_row - 1, 10)))

    def _measured_pace(self) -> float:
        """Calls per second that the endpoint accepted before it refused one."""
        seconds = max(1.0, self._default_wait())
        started = sum(start > self._refused_at - seconds for start in self._starts)
        return max(started, LEAST_PACE) / seconds
