"""Estimates the limits of an endpoint that refuses calls with HTTP 429: concurrent calls, and the pace of calls.

It applies TCP's congestion control to calls: a refusal lowers both limits, successes raise them (slow start and
additive growth as in RFC 5681, the pace's curve as in RFC 9438). Calls that were in flight at a refusal are ignored.
"""

from __future__ import annotations

import math
import random
from collections import deque

SHRINK = 0.7
"""The factor by which a refusal lowers the concurrent calls and the pace."""
PLATEAU = 50
"""Successes until the pace is back at its value before the refusal; it changes least around that point."""
LEAST = 4
"""Calls per second that are assumed possible after a first refusal, whatever was measured."""
KEPT = 512
"""Start times of calls that are stored to measure the pace that the endpoint accepted."""


class Throttle:
    """The state of one endpoint. Times are an event loop's, in seconds.

    Attributes:
        active: whether any limit applies.
        opens: when the endpoint may be called again.
        took_one: when it last accepted a call, or first refused one.
    """

    def __init__(self) -> None:
        self.active = False
        self.opens = 0.0
        self.took_one = 0.0
        self._starts: deque[float] = deque(maxlen=KEPT)
        self._refused_at = -math.inf
        self._in_a_row = 0
        self._successes = 0
        self._pace = math.inf  # calls per second at the last refusal
        self._at_once = math.inf  # calls that the endpoint had accepted at the last refusal
        self._first = True  # few calls were measured: the estimate may be far too low
        self._measure = False

    @property
    def room(self) -> float:
        """Concurrent calls, at least 1."""
        if self._at_once == math.inf:
            return math.inf
        growth = 1.0 if self._first else max(1 / 8, (1 - SHRINK) * self._at_once / PLATEAU)
        return max(1.0, SHRINK * self._at_once) + self._successes * growth

    @property
    def pace(self) -> float:
        """Calls per second."""
        if self._first:
            return self._pace * SHRINK * math.exp2(self._successes / 8)
        return self._pace * (1 + (1 - SHRINK) * (self._successes / PLATEAU - 1) ** 3)

    def due(self, now: float) -> float:
        """When the next call may start."""
        if not self.active or now < self.opens:
            return self.opens
        if self._measure:
            self._measure = False
            self._pace = min(self._pace, self._measured())
        return self._starts[-1] + 1 / self.pace if self._starts else now

    def start(self, now: float) -> None:
        """Records the start of a call."""
        self._starts.append(now)

    def close(self, until: float) -> None:
        """Closes the endpoint for calls before the given time."""
        self.active, self.opens = True, max(self.opens, until)

    def accept(self, started: float, now: float) -> None:
        """Records that the endpoint accepted a call that started then."""
        self.took_one = now
        if started <= self._refused_at:
            return
        self._in_a_row = 0
        self._successes += 1
        if self.pace > 20 * self._pace:
            self._pace = math.inf
        if self.room > 2 * self._at_once + 8:
            self._at_once = math.inf
        if self._pace == self._at_once == math.inf and now >= self.opens:
            self.active, self._first = False, True

    def refuse(self, started: float, now: float, running: int, asked: float) -> None:
        """Records a refused call: its start, the number of other running calls, and the seconds of waiting asked for.

        All calls wait. A small random time is added, so that several processes do not return at once.
        """
        if started in self._starts:
            self._starts.remove(started)
        if not self.active:
            self.took_one = now
        wait = asked * random.uniform(1.0, 1.1)
        if started > self._refused_at:
            self._first, self._pace = self._pace == math.inf, self.pace
            self._in_a_row += 1
            self._refused_at, self._successes, self._measure = now, 0, True
            self._at_once = running or self._at_once  # a call that runs alone is refused for another reason
            wait = max(wait, self._patience() * random.uniform(0.5, 1.0))
        else:
            self._at_once = min(self._at_once, running or self._at_once)
        self.close(now + wait)

    def _patience(self) -> float:
        """Seconds to wait after this many refusals in a row, if the endpoint asks for no wait."""
        return float(min(16.0, 0.5 * 2 ** min(self._in_a_row - 1, 10)))

    def _measured(self) -> float:
        """Calls per second that the endpoint accepted before it refused one."""
        seconds = max(1.0, self._patience())
        taken = sum(start > self._refused_at - seconds for start in self._starts)
        return max(taken, LEAST) / seconds
