"""Measures the cost of many simultaneous debates, compared with the same calls made directly.

The calls are those of 120 Tool-MAD debates with three disputed rounds, 64 debates at once, on the scripted endpoint.
They are made by bare aiohttp (floor.py), and by moot. For comparison, four other ways make the same number of calls:

- Du et al.'s multi-agent debate (three agents, two rounds), written directly on AsyncOpenAI
- the same debate in moot (`society_of_minds`)
- single calls of AsyncOpenAI
- single calls of ChatOpenAI

Each run of a way has a new process. The program runs all ways in turn, and repeats this several times.

    python -m tests.benchmarks.scale [--latency-ms 50] [--runs 3] [--json FILE] [--check]
"""

from __future__ import annotations

import argparse
import statistics

from tests.benchmarks.endpoint import scripted_endpoint
from tests.benchmarks.tables import finish, markdown, parser_of, spread
from tests.benchmarks.ways import ENDPOINT_RULES, run

DEBATES, AT_ONCE = 120, 64
CALLS, DEPTH, SOCIETY_CALLS = 31, 9, 6
"""The calls of a Tool-MAD debate, the calls in its longest chain, and the calls of Du et al.'s debate."""
CALLS_AT_ONCE = AT_ONCE * CALLS // DEPTH
"""The mean number of calls in flight if `AT_ONCE` Tool-MAD debates did nothing but wait for calls."""
WAYS = {
    "bare_aiohttp": ("Tool-MAD's requests, bare aiohttp", DEBATES, AT_ONCE),
    "moot": ("Tool-MAD, moot", DEBATES, AT_ONCE),
    "plain_society": ("Du et al., plainly on AsyncOpenAI", DEBATES * CALLS // SOCIETY_CALLS, CALLS_AT_ONCE // 3),
    "moot_society": ("Du et al., moot", DEBATES * CALLS // SOCIETY_CALLS, CALLS_AT_ONCE // 3),
    "plain_openai": ("calls of AsyncOpenAI", DEBATES * CALLS, CALLS_AT_ONCE),
    "plain_langchain": ("calls of ChatOpenAI", DEBATES * CALLS, CALLS_AT_ONCE),
}
"""For each way: its description, the number of debates or calls, and how many run at once."""
MOST = 1.5
"""Limit for Tool-MAD in moot: its processor time per call, divided by that of a call of ChatOpenAI.

This is 5 ms on a machine on which a call of ChatOpenAI takes 3.35 ms.
"""
BUSY = 0.9
"""Above this share of a core, the endpoint limits the speed."""

Runs = dict[str, list[dict[str, float]]]


def measure(runs: int, latency_ms: float) -> Runs:
    """Run all ways ``runs`` times; return the figures of each run, by way."""
    found: Runs = {way: [] for way in WAYS}
    with scripted_endpoint(ENDPOINT_RULES, latency_ms):
        for _ in range(runs):
            for way, (_, work, at_once) in WAYS.items():
                found[way].append(run(way, work, at_once, **({"max_concurrency": 512} if "moot" in way else {})))
    return found


def times_the_floor(found: Runs, way: str) -> list[float]:
    """The wall time relative to bare aiohttp, one value for each run."""
    return [one["wall"] / floor["wall"] for one, floor in zip(found[way], found["bare_aiohttp"], strict=True)]


def ms_per_call(found: Runs, way: str) -> list[float]:
    """Milliseconds of processor time per chat call, one value for each run."""
    return [1000 * one["cpu"] / one["calls"] for one in found[way]]


def table(found: Runs) -> str:
    """The runs in Markdown."""
    header = ["", "at once", "calls", "wall, s", "CPU, s", "CPU a call, ms", "wall / bare aiohttp", "endpoint's CPU"]
    rows = [
        [
            WAYS[way][0],
            str(WAYS[way][2]),
            f"{runs[0]['calls']:,.0f}",
            spread([one["wall"] for one in runs], 2),
            spread([one["cpu"] for one in runs], 2),
            spread(ms_per_call(found, way), 2),
            spread(times_the_floor(found, way), 2),
            endpoint_share(runs),
        ]
        for way, runs in found.items()
    ]
    return markdown(header, rows)


def endpoint_share(runs: list[dict[str, float]]) -> str:
    """The share of a core that the endpoint used (median), and a note if the endpoint limited the speed."""
    share = statistics.median(one["endpoint_share"] for one in runs)
    return f"{share:.0%}" + (", the limit" if share > BUSY else "")


def over_limits(found: Runs) -> list[str]:
    """A message if Tool-MAD in moot exceeded its limit (median of the runs)."""
    pairs = zip(ms_per_call(found, "moot"), ms_per_call(found, "plain_langchain"), strict=True)
    times = statistics.median(ours / plain for ours, plain in pairs)
    return [f"Tool-MAD takes {times:.2f} times the CPU of a call of ChatOpenAI > {MOST}"] if times > MOST else []


def main(options: argparse.Namespace) -> None:
    found = measure(options.runs, options.latency_ms)
    latency, runs = f"a call takes {options.latency_ms:.0f} ms", f"median of {options.runs} runs (minimum to maximum)"
    print(f"Many debates at once; {latency}; {runs}\n")
    print(table(found))
    finish(options, found, over_limits(found))


if __name__ == "__main__":
    main(parser_of(__doc__, runs=3).parse_args())
