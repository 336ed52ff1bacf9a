"""Ceilings shared by many machines: each process leases blocks of budget from a central counter."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence

from moot.nodes._models.ceilings import Ceilings
from moot.nodes._models.spend import Spend

Lease = Callable[[Spend, Spend], Awaitable[tuple[Sequence[float], Sequence[float]]]]
"""A function that leases budget for a call. Its arguments are the amount that the process lacks for the call, and
the call's maximum cost.

It leases nothing if less than the lacking amount is left to lease. Otherwise it leases at least the lacking amount, and
usually a multiple of the maximum cost, so that it is called less often. It returns the leased amount, and the amount
that is left to lease.
"""


class LeasedCeilings(Ceilings):
    """The ceilings in one of several processes, whose bounds are the budget that this process has leased."""

    def __init__(self, lease: Lease, most: Spend, seconds: float) -> None:
        # A batch may end a little before its ceiling is reached, because no other process can use what one has leased.
        nothing_leased = Spend(*(math.inf if one == math.inf else 0 for one in most))
        super().__init__(nothing_leased, seconds, adds_earlier_runs=False)
        self._lease = lease
        self._left = most
        self._leasing = asyncio.Lock()

    async def request_more(self, need: Spend, short: Spend) -> bool:
        """Leases a block of budget, unless another call has just leased one; returns whether the budget has grown."""
        before = self.most
        async with self._leasing:
            if self.most != before:
                return True  # another call has leased a block meanwhile
            leased, left = await self._lease(self._bounded_part(short), self._bounded_part(need))
            self._left = Spend(*left)
            self.most = self.most.plus(Spend(*leased))
        return self.most != before

    def _bounded_part(self, spend: Spend) -> Spend:
        """The amount, but zero for each quantity that is negative or has no bound."""
        return Spend(*(0 if most == math.inf else max(0, one) for one, most in zip(spend, self.most, strict=True)))

    def end_unused_lease(self) -> Spend:
        """Ends the lease of the budget that is neither spent nor reserved; the caller must return it to the counter."""
        unused = self._bounded_part(self._available())
        self.most = self.most.minus(unused)
        return unused

    def _obtainable(self) -> Spend:
        """The available budget, plus the amount that was left to lease after the last lease."""
        return self._available().plus(self._left)
