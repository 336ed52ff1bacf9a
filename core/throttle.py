"""Estimates two limits of an endpoint that refuses calls with HTTP 429: concurrent calls, and calls per second (pace).

TCP's congestion control is applied to calls: a refusal lowers both limits, and accepted calls raise them. Slow start
and additive growth are as in RFC 5681, and the curve of the pace is as in RFC 9438. A call that was in flight at the
last refusal does not raise the limits if it is accepted, and does not lower the pace if it is refused.
"""

from __future__ import annotations

import math
import random
from collections import deque

SHRINK = 0.7
"""The factor by which a refusal lowers both limits."""
PLATEAU = 50
"""Number of accepted calls after which both limits are at least as high as before a refusal.

This holds from the second refusal on. The pace grows most slowly around this number of calls.
"""
LEAST_CALLS = 4
"""A measurement of the pace counts at least this many calls, even if fewer calls started."""
STORED_STARTS = 512
"""Maximum number of stored start times of calls, from which the pace is measured."""


class Throttle:
    """The state of one endpoint. Times are an event loop's, in seconds.

    Attributes:
        active: whether a limit or a wait applies. It stays true after a wait, until the endpoint accepts a call.
        opens_at: when the endpoint may be called again.
        last_accepted: when the endpoint last accepted a call while ``active`` was true. A refusal sets it to the time
            of the refusal if ``active`` was false.
    """

    def __init__(self) -> None:
        self.active = False
        self.opens_at = 0.0
        self.last_accepted = 0.0
        self._starts: deque[float] = deque(maxlen=STORED_STARTS)
        self._refused_at = -math.inf
        self._refusals_in_a_row = 0
        self._successes = 0
        self._pace = math.inf  # the pace at the last refusal
        self._accepted = math.inf  # number of other calls in flight at the last refusal
        self._first = True  # true until the second refusal: few calls were measured before, so the limits grow faster
        self._must_measure = False  # whether `due` must measure the pace after the wait

    @property
    def room(self) -> float:
        """Maximum number of concurrent calls, at least 1; infinite if concurrency is not limited."""
        if self._accepted == math.inf:
            return math.inf
        growth = 1.0 if self._first else max(1 / 8, (1 - SHRINK) * self._accepted / PLATEAU)
        return max(1.0, SHRINK * self._accepted) + self._successes * growth

    @property
    def pace(self) -> float:
        """Maximum number of calls per second; infinite if the pace is not limited."""
        if self._first:
            return self._pace * SHRINK * math.exp2(self._successes / 8)
        return self._pace * (1 + (1 - SHRINK) * (self._successes / PLATEAU - 1) ** 3)

    @property
    def refused_pace(self) -> float:
        """The pace at the last refusal; infinite if it has not been measured."""
        return self._pace

    def due(self, now: float) -> float:
        """When the next call may start. After a refusal and its wait, this also measures the pace."""
        if not self.active or now < self.opens_at:
            return self.opens_at
        if self._must_measure:
            self._must_measure = False
            self._pace = min(self._pace, self._measured_pace())
        return self._starts[-1] + 1 / self.pace if self._starts else now

    def start(self, now: float) -> None:
        """Records the start of a call."""
        self._starts.append(now)

    def close(self, until: float) -> None:
        """Makes all calls wait at least until the given time."""
        self.active, self.opens_at = True, max(self.opens_at, until)

    def accept(self, started: float, now: float) -> None:
        """Records that the endpoint accepted a call.

        Args:
            started: when the call started.
            now: the time.
        """
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
        """Records a refused call, and makes all calls wait.

        The wait has a random part, so that several processes do not call again at the same moment. If the call was
        already in flight at the last refusal, the pace is not lowered again. All calls then wait only for
        ``retry_after`` seconds.

        Args:
            started: when the refused call started.
            now: the time.
            running: the number of other calls in flight.
            retry_after: seconds to wait, as the endpoint asked; 0 if it asked for no wait.
        """
        if started in self._starts:
            self._starts.remove(started)
        if not self.active:
            self.last_accepted = now
        wait = retry_after * random.uniform(1.0, 1.1)
        if started > self._refused_at:
            # If no other call was in flight, concurrency is not the reason for the refusal, so its limit stays.
            self._lower(now, running or self._accepted)
            wait = max(wait, self._default_wait() * random.uniform(0.5, 1.0))
        else:
            self._accepted = min(self._accepted, running or self._accepted)
        self.close(now + wait)

    def refuse_elsewhere(self, now: float, wait: float, pace: float) -> None:
        """Records that the endpoint refused another process or asked it to wait, and makes all calls wait.

        If another process was refused, the limits of this process are lowered. They are not lowered if this process
        already waits, or if its pace is more than 10% lower than the other process's pace. If each process lowered its
        limits only after its own refusals, more calls would be refused. If a slower process lowered its limits, it
        would fall further behind, because limits grow with each accepted call.

        Args:
            now: the time.
            wait: seconds during which the endpoint must not be called.
            pace: the other process's pace when it was refused; infinite if this pace is unknown; 0 if the endpoint
                refused no call, but asked for a wait.
        """
        known = self._pace < math.inf
        if pace and now >= self.opens_at and not (known and self.pace < 0.9 * pace):
            self._lower(now, self.room)
            self._must_measure = not known
        self.close(now + wait * random.uniform(1.0, 1.1))

    def _lower(self, now: float, accepted: float) -> None:
        """Lowers both limits after a refusal; ``accepted`` is the number of concurrent calls that were not refused."""
        self._first, self._pace = self._pace == math.inf, self.pace
        self._refusals_in_a_row += 1
        self._refused_at, self._successes, self._must_measure = now, 0, True
        self._accepted = accepted

    def _default_wait(self) -> float:
        """Seconds to wait unless a refusal asks for more: 0.5, doubled by each further refusal in a row, up to 16."""
        return float(min(16.0, 0.5 * 2 ** min(self._refusals_in_a_row - 1, 10)))

    def _measured_pace(self) -> float:
        """Calls started per second, in a window that ends at the last refusal and is as long as the default wait."""
        seconds = max(1.0, self._default_wait())
        started = sum(start > self._refused_at - seconds for start in self._starts)
        return max(started, LEAST_CALLS) / seconds
