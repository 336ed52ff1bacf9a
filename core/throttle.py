"""What an endpoint takes that refuses calls as too many (HTTP 429): how many at once, and how far apart.

The control of congestion that TCP has, for calls: a refusal shrinks both, successes give back (slow start and additive
growth as in RFC 5681, the pace's curve as in RFC 9438). Calls that were under way when one was refused say nothing new.
"""

from __future__ import annotations

import math
import random
from collections import deque

SHRINK = 0.7
"""What is left, after a refusal, of the calls at once and of the pace."""
PLATEAU = 50
"""Successes after which the pace is what it was before the refusal; it changes least around there."""
LEAST = 4
"""Calls a second that are taken as possible after a first refusal, whatever was seen."""
KEPT = 512
"""Starts of calls that are remembered, to know the pace that the endpoint took."""


class Throttle:
    """The state of one endpoint. Times are an event loop's, in seconds.

    Attributes:
        active: whether anything holds calls back.
        opens: when the endpoint may be asked again.
        took_one: when it last took a call, or first refused one.
    """

    def __init__(self) -> None:
        self.active = False
        self.opens = 0.0
        self.took_one = 0.0
        self._starts: deque[float] = deque(maxlen=KEPT)
        self._refused_at = -math.inf
        self._in_a_row = 0
        self._successes = 0
        self._pace = math.inf  # calls a second at the last refusal
        self._at_once = math.inf  # calls that the endpoint had taken at the last refusal
        self._first = True  # little is known yet: what was measured may be far too low
        self._measure = False

    @property
    def room(self) -> float:
        """Calls at once, at least 1."""
        if self._at_once == math.inf:
            return math.inf
        growth = 1.0 if self._first else max(1 / 8, (1 - SHRINK) * self._at_once / PLATEAU)
        return max(1.0, SHRINK * self._at_once) + self._successes * growth

    @property
    def pace(self) -> float:
        """Calls a second."""
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
        """A call starts."""
        self._starts.append(now)

    def close(self, until: float) -> None:
        """Nobody is to ask before that time."""
        self.active, self.opens = True, max(self.opens, until)

    def accept(self, started: float, now: float) -> None:
        """A call that started then was taken."""
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
        """A call that started then was refused, while so many others run, with so many seconds of patience asked for.

        Patience is asked of all, and a little is added by chance, so that several processes do not return at once.
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
            self._at_once = running or self._at_once  # a call alone is refused for another reason
            wait = max(wait, self._patience() * random.uniform(0.5, 1.0))
        else:
            self._at_once = min(self._at_once, running or self._at_once)
        self.close(now + wait)

    def _patience(self) -> float:
        """Seconds to wait after so many refusals in a row, if nothing else is asked for."""
        return float(min(16.0, 0.5 * 2 ** min(self._in_a_row - 1, 10)))

    def _measured(self) -> float:
        """Calls a second that the endpoint took before it refused one."""
        seconds = max(1.0, self._patience())
        taken = sum(start > self._refused_at - seconds for start in self._starts)
        return max(taken, LEAST) / seconds
