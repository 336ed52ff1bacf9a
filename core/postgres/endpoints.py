"""Sharing of endpoints between many machines: concurrent calls and calls per minute are divided, refusals are shared.

Each process leases a number of concurrent calls and the same share of the calls per minute. It regularly reports how
many it wants, gives back calls that others need more, and takes free ones. So all processes together never exceed the
limit. If an endpoint asks one process to wait (Retry-After), all are told at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from moot.core.endpoint import without_user
from moot.core.errors import MootError
from moot.core.limiter import Limiter
from moot.core.postgres.connection import LONGEST_PAUSE, Postgres

log = logging.getLogger(__name__)

TICK = 1.0
"""Seconds between two reports of a process, if nothing has changed."""
SOON = 0.2
"""Least seconds between two reports."""
GONE = 15.0
"""Seconds without a report after which the calls that a process has leased are free again."""
TURN = 5
"""Seconds after which other processes have the first turn, if there are more processes than calls."""
CHANNEL = "moot_closed"


def fair_share(most: int, wanted: Mapping[str, int], mine: str, turn: int = 0) -> int:
    """How many concurrent calls a process should have.

    A process that wants no more than an equal share gets all it wants, and the others divide the rest. Calls that no
    process wants are divided too, so that a process need not ask before each call.

    Args:
        most: the limit of all processes together.
        wanted: how many each process wants.
        mine: the process.
        turn: a number that changes regularly, so that the remainder does not always go to the same process.
    """

    def place(one: str) -> bytes:
        return hashlib.sha256(f"{one} {turn}".encode()).digest()

    left = most
    asking = sorted(wanted, key=lambda one: (wanted[one], place(one)))
    share = dict.fromkeys(asking, 0)
    for number, one in enumerate(asking):
        share[one] = min(wanted[one], left // (len(asking) - number))
        left -= share[one]
    return share[mine] + left // len(asking)


class SharedEndpoints:
    """The endpoints that this process shares with others.

    Args:
        postgres: a connection.
    """

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._holder = uuid.uuid4().hex
        self._shares: dict[str, OneShare] = {}
        self._changed = asyncio.Event()
        self._refused = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._listener = threading.Thread(target=self._listen, name="moot-closed", daemon=True)
        self._is_closed = False

    def close(self) -> None:
        """Stops listening and closes the connections. Blocking."""
        self._is_closed = True
        if self._listener.is_alive():
            self._listener.join()
        self._postgres.close()

    def join(self, address: str, gate: Limiter) -> OneShare:
        """This process's share of an endpoint, initially without any call granted."""
        share = self._shares[without_user(address)] = OneShare(gate, self._changed, self._refused)
        self._changed.set()
        return share

    async def work(self) -> None:
        """Exchanges shares until it is cancelled."""
        self._listener.start()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK):
                    await self._changed.wait()
            self._changed.clear()
            self._refused.clear()
            for address in [*self._shares]:
                try:
                    await self.report_demand(address)
                except MootError as error:
                    log.warning("%s", error.detail)  # the granted calls stay as they are
            with suppress(TimeoutError):
                async with asyncio.timeout(SOON):
                    await self._refused.wait()

    async def report_demand(self, address: str) -> None:
        """Reports how many concurrent calls this process wants of an endpoint, and takes the calls that it is granted.

        Calls may begin during the report, so calls that are given back stay this process's until the next report.

        Raises:
            UserError, WorldError: the database cannot be used.
        """
        share = self._shares[address]
        held = max(share.granted, share.gate.running)
        asked = (address, share.most, share.gate.wanted, held, share.requested_wait())
        granted, closed = await asyncio.to_thread(self._exchange, *asked)
        if granted < share.granted:
            share.want()
        share.granted = granted
        share.close(closed)
        share.gate.look()

    def _exchange(self, address: str, most: int, wanted: int, held: int, refused: float) -> tuple[int, float]:
        """Reports the calls wanted and held. Blocking.

        Returns:
            The calls granted, and the seconds for which the endpoint is closed.
        """

        def job(cursor: Any) -> tuple[int, float]:
            cursor.execute("INSERT INTO moot.endpoints (address) VALUES (%s) ON CONFLICT DO NOTHING", (address,))
            cursor.execute(
                "UPDATE moot.endpoints SET closed_until = greatest(closed_until, now() + %s * interval '1 second') "
                "WHERE address = %s RETURNING extract(epoch FROM closed_until - now())::float8, "
                "extract(epoch FROM now())::float8",
                (refused, address),
            )
            closed, now = cursor.fetchone()
            if refused:
                cursor.execute("SELECT pg_notify(%s, %s)", (CHANNEL, json.dumps([self._holder, address, refused])))
            cursor.execute(
                "DELETE FROM moot.shares WHERE address = %s AND seen < now() - %s * interval '1 second'",
                (address, GONE),
            )
            cursor.execute("SELECT holder, most, wanted, granted FROM moot.shares WHERE address = %s", (address,))
            others = {holder: rest for holder, *rest in cursor.fetchall() if holder != self._holder}
            total = max([most, *(one[0] for one in others.values())])
            needs = {holder: one[1] for holder, one in others.items() if one[1]} | {self._holder: wanted}
            free = total - sum(one[2] for one in others.values())
            granted = max(min(fair_share(total, needs, self._holder, int(now / TURN)), free), 0)
            cursor.execute(
                "INSERT INTO moot.shares VALUES (%s, %s, %s, %s, %s, now()) ON CONFLICT (address, holder) DO UPDATE "
                "SET most = excluded.most, wanted = excluded.wanted, granted = excluded.granted, seen = excluded.seen",
                (address, self._holder, most, wanted, max(granted, held)),
            )
            return granted, max(0.0, closed)

        return self._postgres.do(job)

    def _listen(self) -> None:
        """Listens for waits that endpoints ask of other processes."""
        psycopg = self._postgres.psycopg
        while not self._is_closed:
            try:
                with psycopg.connect(self._postgres.url, autocommit=True, connect_timeout=10) as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    while not self._is_closed:
                        for said in connection.notifies(timeout=TICK):
                            holder, address, seconds = json.loads(said.payload)
                            if holder != self._holder and address in self._shares:
                                self._loop.call_soon_threadsafe(self._shares[address].close, float(seconds))
            except (psycopg.OperationalError, psycopg.InterfaceError):
                time.sleep(LONGEST_PAUSE)  # the regular report returns the waits, too


class OneShare:
    """A process's share of an endpoint; see `moot.core.limiter.Share`.

    Args:
        gate: the endpoint's limiter.
        changed: set if a report is due soon.
        urgent: set if a report is due at once.
    """

    def __init__(self, gate: Limiter, changed: asyncio.Event, urgent: asyncio.Event) -> None:
        self.gate = gate
        self.granted = 0
        self.most = 1
        self._changed = changed
        self._urgent = urgent
        self._refused = 0.0

    def want(self) -> None:
        """See `Share`."""
        self._changed.set()

    def refused(self, seconds: float) -> None:
        """See `Share`."""
        self._refused = max(self._refused, seconds)
        self._changed.set()
        self._urgent.set()

    def requested_wait(self) -> float:
        """The seconds that the endpoint has asked to wait since this was last called; 0 if it has not."""
        refused, self._refused = self._refused, 0.0
        return refused

    def close(self, seconds: float) -> None:
        """The endpoint has asked some process to wait this many seconds."""
        if seconds > 0:
            self.gate.throttle.close(asyncio.get_running_loop().time() + seconds)
