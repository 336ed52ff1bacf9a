"""A race: one thread imports chromadb while another is the first to use orjson. ``make faults`` runs it 200 times.

Each race runs in a new process. The second thread serialises when the import has reached a module of `MOMENTS`; the
races take these modules in turn. For comparison, some races do not import numpy at the start. Most of these fail.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import typer

MOMENTS = ("chromadb", "chromadb.api", "chromadb.api.types")
AT_START, NOT_AT_START = "moot.core.lazy import imported", "importlib import import_module as imported"
RACE = """
import os, sys, threading, time
import orjson
from {source}

faults = []

def imports():
    try:
        imported("chromadb")
    except Exception as error:
        faults.append(error)

def serialises():
    while {moment!r} not in sys.modules and not faults:
        pass
    orjson.dumps(object(), default=str, option=orjson.OPT_SERIALIZE_NUMPY)

sys.setswitchinterval(1e-6)
racing = [threading.Thread(target=race, daemon=True) for race in (imports, serialises)]
for thread in racing:
    thread.start()
racing[1].join()
while racing[0].is_alive() and not hasattr(sys.modules.get("chromadb.api.types"), "NDArray"):
    time.sleep(0.001)  # the rest of chromadb does not matter
try:
    import numpy
    orjson.dumps(numpy.ones(2) + 1, option=orjson.OPT_SERIALIZE_NUMPY)
except Exception as error:
    faults.append(error)
print(*faults, sep="; ", flush=True)
os._exit(bool(faults))
"""


def races(times: int, *, numpy_at_start: bool = True) -> Iterator[str]:
    """Run races in parallel, one per processor; yield the error of each, or an empty string."""
    source = AT_START if numpy_at_start else NOT_AT_START
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(lambda moment: race(source, moment), itertools.islice(itertools.cycle(MOMENTS), times))


def race(source: str, moment: str) -> str:
    """Run one race; return its error, or an empty string."""
    command = [sys.executable, "-c", RACE.format(source=source, moment=moment)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    return (done.stdout + done.stderr).strip() if done.returncode else ""


def main(times: int = 200, compared: int = 20) -> None:
    """Run races with and without numpy imported at the start. Exit with 1 if a race with numpy fails."""
    broken = [fault for fault in races(times) if fault]
    print(f"numpy at start: {len(broken)} of {times} broken")
    without = [fault for fault in races(compared, numpy_at_start=False) if fault]
    print(f"without:        {len(without)} of {compared} broken")
    for fault in dict.fromkeys(broken):
        print(fault, file=sys.stderr)
    raise SystemExit(bool(broken))


if __name__ == "__main__":
    typer.run(main)
