"""Measures the time and memory that Inspect's orchestration adds to debates.

The program runs the samples on the scripted endpoint in two ways: with asyncio alone, and as `moot eval run` does. Each
way runs in a new process. If there are several runs, the order of the two ways alternates. The system is Tool-MAD with
three disputed rounds (31 calls a debate), or a system with a single call.

For each way, the program prints the wall time, the processor time per sample, and the process's peak memory after a
quarter of the samples and after all. Then it prints medians over the runs: Inspect's wall time relative to asyncio
alone, and the additional processor time per sample.

    python -m tests.benchmarks.evaluation [--graph tool_mad] [--samples 1000] [--at-once 64] [--latency-ms 50]
        [--runs 1]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.benchmarks.endpoint import scripted_endpoint
from tests.benchmarks.latency import MODELS, RULES

READERS = [{"name": "rag", "retriever": "chroma:demo-encyclopaedia"}, {"name": "search", "retriever": "bm25:demo-news"}]
SETTINGS: dict[str, dict[str, Any]] = {
    "tool_mad": {
        "model": "openai:stub-judge",  # of the roles without a model of their own
        "models": MODELS,
        "embedder": "openai:stub-embedding",
        "debaters": READERS,
        "max_concurrency": 64,
        "max_rounds": 3,
    },
    "standard_prompting": {"model": "openai:stub-judge"},
}


def write_claims(folder: Path, count: int) -> Path:
    """Write a file of claims in FEVER's format; return its path."""
    path = folder / "fever.jsonl"
    lines = [
        json.dumps(
            {"id": i, "claim": f"Resolution {i} says so.", "label": "REFUTES", "evidence": [[[0, 0, "Page", 0]]]}
        )
        for i in range(count)
    ]
    path.write_text("\n".join(lines))
    return path


class Memory:
    """Records the process's peak memory (MiB) by the number of finished samples."""

    def __init__(self) -> None:
        self.ended = 0
        self.marks: dict[int, float] = {}

    def note(self, _: Any = None) -> None:
        """Count a finished sample, and record the peak memory."""
        self.ended += 1
        self.marks[self.ended] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextmanager
def print_figures(samples: int) -> Iterator[Memory]:
    """Context manager that measures the samples that run in it, and prints the figures as JSON.

    For each sample, `Memory.note` must be called.
    """
    memory, started, cpu = Memory(), time.perf_counter(), time.process_time()
    yield memory
    wall, cpu = time.perf_counter() - started, time.process_time() - cpu
    marks = [memory.marks[n] for n in (max(1, samples // 4), samples)]
    print(json.dumps({"wall": wall, "cpu": cpu, "memory": marks}))


async def run_directly(graph: str, samples: int, at_once: int) -> None:
    """Run the debates with asyncio alone."""
    from moot.evals._runs.solver import run_debate
    from moot.graphs import load_graph

    system = load_graph(graph)
    settings = system.settings.model_validate(SETTINGS[graph])
    gate = asyncio.Semaphore(at_once)

    async def debate(i: int) -> None:
        async with gate:
            document = await run_debate(system, {"claim": f"Resolution {i} says so.", "task": "fever"}, settings)
            assert document["status"] == "done", document["error"]
            memory.note()

    await run_debate(system, {"claim": "First.", "task": "fever"}, settings)  # loads modules and fills caches
    with print_figures(samples) as memory:
        await asyncio.gather(*(debate(i) for i in range(samples)))


def run_by_inspect(graph: str, samples: int, at_once: int) -> None:
    """Run the debates as `moot eval run` does."""
    from moot.evals._runs.plan import make_plan
    from moot.evals._runs.run_plan import Limits, run_plan

    with tempfile.TemporaryDirectory() as folder:

        def run(count: int, logs: str, memory: Memory) -> None:
            tasks = {"fever": str(write_claims(Path(folder), count))}
            plan = make_plan({"graphs": [{"graph": graph, "settings": SETTINGS[graph]}], "tasks": tasks})
            (log,) = run_plan(plan, Path(folder) / logs, Limits(at_once), lambda total, held: memory.note)
            assert log.status == "success", log

        run(1, "first", Memory())  # loads modules and fills caches
        with print_figures(samples) as memory:
            run(samples, "logs", memory)


def measure(way: str, options: argparse.Namespace) -> dict[str, Any]:
    """The figures of one way, measured in a new process."""
    command = [sys.executable, "-m", "tests.benchmarks.evaluation", "--way", way]
    command += ["--graph", options.graph, "--samples", str(options.samples), "--at-once", str(options.at_once)]
    with scripted_endpoint(RULES, options.latency_ms), tempfile.TemporaryDirectory() as buffers:
        os.environ["XDG_DATA_HOME"] = buffers  # Inspect keeps its recovery files there
        found: dict[str, Any] = json.loads(subprocess.check_output(command).splitlines()[-1])
    return found


def main(options: argparse.Namespace) -> None:
    ratios, added = [], []
    for run in range(options.runs):
        found = {}
        for way in ("directly", "by_inspect")[:: -1 if run % 2 else 1]:
            found[way] = one = measure(way, options)
            quarter, full = one["memory"]
            print(
                f"{way:10s} {options.graph}, {options.samples} samples, {options.at_once} at once: "
                f"wall {one['wall']:.1f} s, CPU {1000 * one['cpu'] / options.samples:.1f} ms a sample, "
                f"peak memory {quarter:.0f} MiB after a quarter, {full:.0f} after all"
            )
        ratios.append(found["by_inspect"]["wall"] / found["directly"]["wall"])
        added.append(1000 * (found["by_inspect"]["cpu"] - found["directly"]["cpu"]) / options.samples)
    print(
        f"{options.graph}: ratio of wall times {statistics.median(ratios):.2f}, "
        f"CPU {statistics.median(added):.1f} ms more a sample (median of {options.runs})"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", choices=SETTINGS, default="tool_mad")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--latency-ms", type=float, default=50)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--way", choices=("directly", "by_inspect"))
    given = parser.parse_args()
    if given.way == "directly":
        asyncio.run(run_directly(given.graph, given.samples, given.at_once))
    elif given.way:
        run_by_inspect(given.graph, given.samples, given.at_once)
    else:
        main(given)
