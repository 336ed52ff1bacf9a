"""Measures how wall time, processor time and memory grow with the number of debates in flight.

The debates are Tool-MAD's, with three disputed rounds and a `max_concurrency` too high to matter. With 64 debates in
flight, the program also measures the default `max_concurrency`. For comparison, it measures Du et al.'s debate, written
directly on AsyncOpenAI. Each run of each row has a new process. All runs use one scripted endpoint.

    python -m tests.benchmarks.growth [--latency-ms 50] [--runs 1] [--json FILE]
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from tests.benchmarks.endpoint import scripted_endpoint
from tests.benchmarks.scale import CALLS, SOCIETY_CALLS, endpoint_share
from tests.benchmarks.tables import finish, markdown, parser_of, spread
from tests.benchmarks.ways import ENDPOINT_RULES, run

DEBATES = {1: 8, 16: 64, 64: 128, 256: 512}
"""Maps the number of debates in flight to the number of Tool-MAD debates in a run."""
UNLIMITED = {"max_concurrency": 1000}
MOOT, DEFAULT, PLAIN = "Tool-MAD, moot", "Tool-MAD, moot, default settings", "Du et al., plainly on AsyncOpenAI"


def measure(runs: int, latency_ms: float) -> list[dict[str, Any]]:
    """The rows: the system, the number in flight, the number of debates, and the figures of each run."""
    rows = []
    with scripted_endpoint(ENDPOINT_RULES, latency_ms):
        for at_once, debates in DEBATES.items():
            societies = debates * CALLS // SOCIETY_CALLS // 4  # together they make a quarter as many calls
            cases = [(MOOT, "moot", debates, UNLIMITED), (PLAIN, "plain_society", societies, {})]
            cases += [(DEFAULT, "moot", debates, {})] if at_once == 64 else []
            for name, way, work, settings in cases:
                found = [run(way, work, at_once, **settings) for _ in range(runs)]
                rows.append({"name": name, "at_once": at_once, "work": work, "runs": found})
    return rows


def ms_per_call(row: dict[str, Any], time: str) -> list[float]:
    """Milliseconds of ``wall`` or ``cpu`` time per chat call, one value for each run."""
    return [1000 * one[time] / one["calls"] for one in row["runs"]]


def table(rows: list[dict[str, Any]]) -> str:
    """The rows in Markdown."""
    header = ["", "in flight", "wall a debate, ms", "CPU a debate, ms", "wall a call, ms", "CPU a call, ms"]
    return markdown(
        [*header, "memory, MiB", "endpoint's CPU"],
        [
            [
                row["name"],
                str(row["at_once"]),
                *(spread([1000 * one[time] / row["work"] for one in row["runs"]], 0) for time in ("wall", "cpu")),
                *(spread(ms_per_call(row, time), 2) for time in ("wall", "cpu")),
                f"{statistics.median(one['memory'] for one in row['runs']):,.0f}",
                endpoint_share(row["runs"]),
            ]
            for row in sorted(rows, key=lambda row: (row["name"] == PLAIN, row["name"]))
        ],
    )


def main(options: argparse.Namespace) -> None:
    rows = measure(options.runs, options.latency_ms)
    print(f"Growth with debates in flight, {options.latency_ms:.0f} ms a call\n")
    print(table(rows))
    finish(options, rows, [])


if __name__ == "__main__":
    main(parser_of(__doc__, runs=1).parse_args())
