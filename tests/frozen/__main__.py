"""Records the frozen debates again, or compares them with their recordings.

python -m tests.frozen                               compare all systems
python -m tests.frozen rag react                     compare these
python -m tests.frozen --record "REASON" [SYSTEM...] record again; the reason goes into differences.jsonl
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Sequence

from moot.core.endpoint import close_clients

import tests.conftest  # noqa: F401 (removes keys and addresses of real services from the environment)
from tests.frozen import record
from tests.frozen.running import frozen_runs
from tests.frozen.runs import SYSTEMS, runs_of


async def all_runs(systems: Sequence[str]) -> dict[str, record.Runs]:
    try:
        return {system: await frozen_runs(runs_of(system)) for system in systems}
    finally:
        await close_clients()


def main(arguments: list[str]) -> int:
    reason = ""
    if arguments[:1] == ["--record"]:
        reason, arguments = (arguments[1] if len(arguments) > 1 else ""), arguments[2:]
        if not reason or reason in SYSTEMS:
            print('Give the reason for the differences: python -m tests.frozen --record "REASON" [SYSTEM...]')
            return 2
    systems = arguments or list(SYSTEMS)
    if unknown := [system for system in systems if system not in SYSTEMS]:
        print(f"There is no system {unknown[0]!r}. Known: {', '.join(SYSTEMS)}.")
        return 2
    with tempfile.TemporaryDirectory() as home:
        os.environ["MOOT_HOME"] = home
        now = asyncio.run(all_runs(systems))
    old = {system: record.read(system) for system in systems}
    for system in systems:
        if words := record.describe(old[system], now[system]):
            print(f"== {system}\n{words}\n")
    if not reason:
        return int(old != now)
    for system in systems:
        if old[system] != now[system]:
            record.write(system, now[system])
    if not record.BASE.exists():
        record.BASE.write_text(
            json.dumps({system: record.digest(runs) for system, runs in now.items()}, indent=1) + "\n"
        )
    elif old != now:
        record.allow(reason, old, now)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
