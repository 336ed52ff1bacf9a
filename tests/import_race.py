"""Races of two threads: one imports chromadb, and the other serialises an object with orjson for the first time.

Each race runs in a new process. The second thread serialises when the import has reached a module of `REACHED`; the
races take these modules in turn. ``make faults`` runs 200 races. If this module is run as a script, it also runs races
that do not import numpy first, for comparison. Most of them fail.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import typer

REACHED = ("chromadb", "chromadb.api", "chromadb.api.types")
"""Modules of chromadb, in the order in which Python begins to import them."""
NUMPY_FIRST, NUMPY_LATER = "moot.core.lazy import imported", "importlib import import_module as imported"
"""Imports of the function ``imported``. Only the module `moot.core.lazy` imports numpy first."""
RACE = """
import os, sys, threading, time
import orjson
from {source}

faults = []

def import_chromadb():
    try:
        imported("chromadb")
    except Exception as error:
        faults.append(error)

def serialise():
    while {module!r} not in sys.modules and not faults:
        pass
    orjson.dumps(object(), default=str, option=orjson.OPT_SERIALIZE_NUMPY)

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=run, daemon=True) for run in (import_chromadb, serialise)]
for thread in threads:
    thread.start()
threads[1].join()
while threads[0].is_alive() and not hasattr(sys.modules.get("chromadb.api.types"), "NDArray"):
    time.sleep(0.001)  # the rest of the import does not matter
try:
    import numpy
    orjson.dumps(numpy.ones(2) + 1, option=orjson.OPT_SERIALIZE_NUMPY)
except Exception as error:
    faults.append(error)
print(*faults, sep="; ", flush=True)
os._exit(bool(faults))
"""


def races(times: int, *, numpy_first: bool = True) -> Iterator[str]:
    """Run races in parallel, one per processor; yield the result of each (see `run_race`).

    Raises:
        TimeoutExpired: a race took more than 100 seconds.
    """
    source = NUMPY_FIRST if numpy_first else NUMPY_LATER
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(lambda module: run_race(source, module), itertools.islice(itertools.cycle(REACHED), times))


def run_race(source: str, module: str) -> str:
    """Run one race.

    Args:
        source: `NUMPY_FIRST` or `NUMPY_LATER`.
        module: the module of `REACHED` for which the second thread waits.

    Returns:
        An empty string if the race succeeds, otherwise its output. If a failed race has no output: its exit code.

    Raises:
        TimeoutExpired: the race took more than 100 seconds.
    """
    command = [sys.executable, "-c", RACE.format(source=source, module=module)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    return ((done.stdout + done.stderr).strip() or f"exit code {done.returncode}") if done.returncode else ""


def main(times: int = 200, compared: int = 20) -> None:
    """Run races that import numpy first, and races that do not. Exit with 1 if a race of the first kind fails."""
    failed = [fault for fault in races(times) if fault]
    print(f"with numpy first:    {len(failed)} of {times} failed")
    without = [fault for fault in races(compared, numpy_first=False) if fault]
    print(f"without numpy first: {len(without)} of {compared} failed")
    for fault in dict.fromkeys(failed):
        print(fault, file=sys.stderr)
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    typer.run(main)
