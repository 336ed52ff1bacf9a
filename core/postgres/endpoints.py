"""Divides the limits of endpoints among the processes of several machines; refusals apply to all these processes.

Each process leases some of the concurrent calls, and with them the same fraction of the calls per minute. It regularly
reports how many calls it wants, gives back calls beyond its fair share, and takes free calls. So all processes together
stay within the limits, if they have the same limits and each of them reports in time. If an endpoint refuses a call of
one process or asks it for a wait, the other processes are notified at once, and wait. There is no notification of a
wait of more than `LONGEST_WAIT` seconds (`moot.core.limiter`): the other processes read this wait with their next
reports.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from moot.core.endpoint import without_user
from moot.core.errors import MootError
from moot.core.limiter import Limiter
from moot.core.postgres.connection import LONGEST_PAUSE, Postgres

log = logging.getLogger(__name__)

REPORT_INTERVAL = 1.0
"""If nothing changes, a process reports again after this number of seconds plus `LEAST_INTERVAL`. The thread that
listens for notifications checks every `REPORT_INTERVAL` seconds whether it must stop.
"""
LEAST_INTERVAL = 0.2
"""Minimum number of seconds between two reports, unless an endpoint refuses a call or asks for a wait."""
LEASE_SECONDS = 15.0
"""Seconds without a report after which a process loses the calls that it has leased."""
TURN_SECONDS = 5
"""Seconds after which a remainder of calls passes to other processes, if the calls cannot be divided equally."""
CHANNEL = "moot_closed"
"""The channel of the notifications."""


def fair_share(most: int, wanted: Mapping[str, int], mine: str, turn: int = 0) -> int:
    """The number of concurrent calls, of ``most``, for a process; ``turn`` changes who gets the remainder."""

    def random_order(process: str) -> bytes:
        return hashlib.sha256(f"{process} {turn}".encode()).digest()

    # A process that wants no more than an equal share gets what it wants; the others divide the rest.
    left = most
    processes = sorted(wanted, key=lambda process: (wanted[process], random_order(process)))
    share = dict.fromkeys(processes, 0)
    for number, process in enumerate(processes):
        share[process] = min(wanted[process], left // (len(processes) - number))
        left -= share[process]
    # Calls that nobody wants are divided, too, so that a process need not request each call.
    return share[mine] + left // len(processes)


class SharedEndpoints:
    """The endpoints that this process shares with other processes; to be created in a running event loop."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._holder = uuid.uuid4().hex
        self._shares: dict[str, EndpointShare] = {}
        self._changed = asyncio.Event()
        self._refused = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._listener = threading.Thread(target=self._listen, name="moot-closed", daemon=True)
        self._is_closed = False

    def close(self) -> None:
        """Stops listening and closes the connections; blocking."""
        self._is_closed = True
        if self._listener.is_alive():
            self._listener.join()
        self._postgres.close()

    def join(self, address: str, gate: Limiter) -> EndpointShare:
        """Adds an endpoint, and returns this process's share of it, of which no call is granted at first."""
        share = self._shares[without_user(address)] = EndpointShare(gate, self._changed, self._refused)
        self._changed.set()
        return share

    async def work(self) -> None:
        """Listens for notifications, and calls `report_demand` regularly for all endpoints, until it is cancelled."""
        self._listener.start()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(REPORT_INTERVAL):
                    await self._changed.wait()
            self._changed.clear()
            self._refused.clear()
            for address in [*self._shares]:
                try:
                    await self.report_demand(address)
                except MootError as error:
                    log.warning("%s", error.detail)  # the number of granted calls stays as it is
            with suppress(TimeoutError):
                async with asyncio.timeout(LEAST_INTERVAL):
                    await self._refused.wait()

    async def report_demand(self, address: str) -> None:
        """Reports an endpoint's waits and how many calls this process wants; applies what is granted and others'
        waits.
        """
        share = self._shares[address]
        leased = max(share.granted, share.gate.running)
        waits = share.take_waits()
        report = (address, share.most, share.gate.demand, leased, waits)
        try:
            granted, closed, long_waits = await asyncio.to_thread(self._exchange, *report)
        except MootError:
            share.return_waits(waits)
            raise
        # This process may still start calls while the report is sent, so others get the difference after the next.
        if granted < share.granted:
            share.request_more()
        share.granted = granted
        if closed > 0:  # in case no notification of this wait has arrived
            share.gate.refuse_elsewhere(closed, math.inf)  # infinite, because the other process's pace is unknown
        for name, seconds in long_waits.items():
            share.gate.close_elsewhere(name, seconds)
        share.gate.start_queued_calls()

    def _exchange(
        self, address: str, most: int, wanted: int, leased: int, waits: Waits
    ) -> tuple[int, float, dict[str, float]]:
        """Sends this process's report; returns the granted calls, and the seconds of the endpoint's wait and long
        waits.
        """
        wait, pace, own_long_waits = waits

        def job(cursor: Any) -> tuple[int, float, dict[str, float]]:
            cursor.execute("INSERT INTO moot.endpoints (address) VALUES (%s) ON CONFLICT DO NOTHING", (address,))
            cursor.execute(
                "UPDATE moot.endpoints SET closed_until = greatest(closed_until, now() + %s * interval '1 second') "
                "WHERE address = %s RETURNING extract(epoch FROM closed_until - now())::float8, "
                "extract(epoch FROM now())::float8",
                (wait, address),
            )
            closed, now = cursor.fetchone()
            if wait:
                cursor.execute("SELECT pg_notify(%s, %s)", (CHANNEL, json.dumps([self._holder, address, wait, pace])))
            for name, seconds in own_long_waits.items():
                cursor.execute(
                    "INSERT INTO moot.endpoints VALUES (%s, now() + %s * interval '1 second') ON CONFLICT (address) "
                    "DO UPDATE SET closed_until = greatest(moot.endpoints.closed_until, excluded.closed_until)",
                    (f"{address} {name}", seconds),
                )
            cursor.execute(
                "SELECT address, extract(epoch FROM closed_until - now())::float8 FROM moot.endpoints "
                "WHERE starts_with(address, %s) AND closed_until > now()",
                (f"{address} ",),
            )
            long_waits = {place.removeprefix(f"{address} "): left for place, left in cursor.fetchall()}
            cursor.execute(
                "DELETE FROM moot.shares WHERE address = %s AND seen < now() - %s * interval '1 second'",
                (address, LEASE_SECONDS),
            )
            cursor.execute("SELECT holder, most, wanted, granted FROM moot.shares WHERE address = %s", (address,))
            others = {holder: rest for holder, *rest in cursor.fetchall() if holder != self._holder}
            total = max([most, *(limit for limit, _, _ in others.values())])
            needs = {holder: need for holder, (_, need, _) in others.items() if need} | {self._holder: wanted}
            free = total - sum(held for _, _, held in others.values())
            granted = max(min(fair_share(total, needs, self._holder, int(now / TURN_SECONDS)), free), 0)
            cursor.execute(
                "INSERT INTO moot.shares VALUES (%s, %s, %s, %s, %s, now()) ON CONFLICT (address, holder) DO UPDATE "
                "SET most = excluded.most, wanted = excluded.wanted, granted = excluded.granted, seen = excluded.seen",
                (address, self._holder, most, wanted, max(granted, leased)),
            )
            return granted, max(0.0, closed), long_waits

        return self._postgres.do(job)

    def _listen(self) -> None:
        """Listens until `close` for notifications that an endpoint has asked another process to wait."""
        psycopg = self._postgres.psycopg
        while not self._is_closed:
            try:
                with psycopg.connect(self._postgres.url, autocommit=True, connect_timeout=10) as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    while not self._is_closed:
                        for notification in connection.notifies(timeout=REPORT_INTERVAL):
                            self._read_notification(notification.payload)
            except (psycopg.OperationalError, psycopg.InterfaceError):
                time.sleep(LONGEST_PAUSE)  # meanwhile, the answers to reports contain the waits

    def _read_notification(self, payload: str) -> None:
        """Applies the wait in a notification of another process; ignores a notification that cannot be read."""
        try:
            holder, address, seconds, pace = json.loads(payload)
            wait = float(seconds), float(pace)
        except (ValueError, TypeError):  # from another version of moot; the answers to reports contain the wait
            return
        if holder != self._holder and address in self._shares:
            self._loop.call_soon_threadsafe(self._shares[address].gate.refuse_elsewhere, *wait)


class Waits(NamedTuple):
    """Waits that an endpoint asked a process for."""

    seconds: float  # the longest wait for the endpoint; 0 for no wait
    pace: float  # calls per second before the refusal; see `moot.core.limiter.Share.report_wait`
    long: dict[str, float]  # the long waits in seconds, by the name of the model or source


class EndpointShare:
    """A process's share of an endpoint; see `moot.core.limiter.Share`."""

    def __init__(self, gate: Limiter, changed: asyncio.Event, urgent: asyncio.Event) -> None:
        self.gate = gate
        self.granted = 0
        self.most = 1
        self._changed = changed
        self._urgent = urgent
        self._wait = self._pace = 0.0
        self._long_waits: dict[str, float] = {}

    def request_more(self) -> None:
        """See `Share`; a report follows soon."""
        self._changed.set()

    def report_wait(self, seconds: float, pace: float) -> None:
        """See `Share`; a report follows at once, which notifies the other processes of the wait and the pace."""
        self._wait, self._pace = max(self._wait, seconds), max(self._pace, pace)
        self._changed.set()
        self._urgent.set()

    def report_long_wait(self, name: str, seconds: float) -> str:
        """See `Share`; a report follows at once, and the other processes read the wait with their next reports."""
        self._long_waits[name] = seconds
        self._changed.set()
        self._urgent.set()
        return ""

    def take_waits(self) -> Waits:
        """Returns the waits reported since the last call of this method, and forgets them."""
        waits = Waits(self._wait, self._pace, self._long_waits)
        self._wait, self._pace, self._long_waits = 0.0, 0.0, {}
        return waits

    def return_waits(self, waits: Waits) -> None:
        """Adds waits to the next report, because the report that contained them failed."""
        self._wait, self._pace = max(self._wait, waits.seconds), max(self._pace, waits.pace)
        self._long_waits = waits.long | self._long_waits

    def update(self, name: str = "") -> None:
        """See `Share`; does nothing, because notifications and reports update the limiter when they arrive."""
