"""Ceilings that many machines share: each process leases blocks of them from whoever keeps the count of all."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence

from moot.nodes.models.ceilings import Ceilings, Spend

Lease = Callable[[Spend, Spend], Awaitable[tuple[Sequence[float], Sequence[float]]]]
"""Leases at least the first, if there is so much, and some times the second: what was leased, and what is left then."""


class LeasedCeilings(Ceilings):
    """The ceilings as one of the processes has them: what it has leased. Nothing is spent that was not.

    What a process has leased and not spent no other can spend until it is given back: so a ceiling may end a batch a
    little before it is reached.

    Args:
        lease: leases more.
        most: the bounds of all processes together.
        seconds: most seconds from now.
    """

    def __init__(self, lease: Lease, most: Spend, seconds: float) -> None:
        super().__init__(Spend(*(math.inf if one == math.inf else 0 for one in most)), seconds)
        self._lease = lease
        self._left = most
        self._leasing = asyncio.Lock()

    async def more(self, need: Spend, short: Spend) -> bool:
        """As of `Ceilings`: leases another block."""
        before = self.most
        async with self._leasing:
            if self.most != before:
                return True  # somebody has leased a block meanwhile
            leased, left = await self._lease(self._bounded(short), self._bounded(need))
            self._left = Spend(*left)
            self.most = self.most.plus(Spend(*leased))
        return self.most != before

    def _bounded(self, spend: Spend) -> Spend:
        """Of a spend what is bounded; nothing of what is not, or is below 0."""
        return Spend(*(0 if most == math.inf else max(0, one) for one, most in zip(spend, self.most, strict=True)))

    def unused(self) -> Spend:
        """What was leased and is neither spent nor held; it is no longer leased then."""
        unused = self._bounded(self._room())
        self.most = self.most.minus(unused)
        return unused

    def _outlook(self) -> Spend:
        return self._room().plus(self._left)
