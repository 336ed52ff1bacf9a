"""Ceilings shared by many machines: each process leases blocks of budget from a central counter."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence

from moot.nodes._models.ceilings import Ceilings
from moot.nodes._models.spend import Spend

Lease = Callable[[Spend, Spend], Awaitable[tuple[Sequence[float], Sequence[float]]]]
"""A function that leases budget for a call: it takes the missing amount and the call's maximum cost.

It leases at least the missing amount, or nothing if less is left, and at most a multiple of the cost. It returns the
leased amount, and the amount that is left to lease."""


class LeasedCeilings(Ceilings):
    """The ceilings of one of the processes: the budget that it has leased.

    Budget that a process leased but did not spend is not available to other processes until it is returned. So a batch
    may end a little before its ceiling is reached.

    Args:
        lease: leases more budget.
        most: the bounds of all processes together.
        seconds: maximum number of seconds from now.
    """

    def __init__(self, lease: Lease, most: Spend, seconds: float) -> None:
        nothing_leased = Spend(*(math.inf if one == math.inf else 0 for one in most))
        super().__init__(nothing_leased, seconds, adds_earlier_runs=False)
        self._lease = lease
        self._left = most
        self._leasing = asyncio.Lock()

    async def request_more(self, need: Spend, short: Spend) -> bool:
        """Leases a block of budget, unless another call has just leased one; returns whether there is more budget."""
        before = self.most
        async with self._leasing:
            if self.most != before:
                return True  # another call has leased a block meanwhile
            leased, left = await self._lease(self._bounded(short), self._bounded(need))
            self._left = Spend(*left)
            self.most = self.most.plus(Spend(*leased))
        return self.most != before

    def _bounded(self, spend: Spend) -> Spend:
        """The amount with zero for each quantity that is unbounded or negative."""
        return Spend(*(0 if most == math.inf else max(0, one) for one, most in zip(spend, self.most, strict=True)))

    def end_unused_lease(self) -> Spend:
        """Ends the lease of budget that is neither spent nor reserved; returns the amount."""
        unused = self._bounded(self._available())
        self.most = self.most.minus(unused)
        return unused

    def _obtainable(self) -> Spend:
        return self._available().plus(self._left)
