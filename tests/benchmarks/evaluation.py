"""What Inspect's orchestration costs beyond the same debates called directly, and whether memory grows with samples.

Runs Tool-MAD on the scripted endpoint, one consensus a debate, so many samples at once: first with asyncio alone, then
as `moot eval run` does, each in a process of its own, in turn; both look for cyclic garbage as often as the command
line does. Prints the wall time of both, their ratio, and the process's largest memory after a quarter of the samples
and after all.

    python -m tests.benchmarks.evaluation [--samples 1000] [--at-once 64] [--latency-ms 50] [--runs 1]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
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

from moot.cli.main import COLLECTED_EVERY

from tests.benchmarks.endpoint import scripted
from tests.benchmarks.latency import MODELS, RULES

SETTINGS = {"models": MODELS, "embedder": "openai:stub-embedding", "max_concurrency": 64, "max_rounds": 1}


def claims(folder: Path, count: int) -> Path:
    """A file of claims in FEVER's format."""
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
    """The process's largest memory, in MiB, when so many samples had ended."""

    def __init__(self) -> None:
        self.ended = 0
        self.marks: dict[int, float] = {}

    def note(self, _: Any = None) -> None:
        """Another sample has ended."""
        self.ended += 1
        self.marks[self.ended] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextmanager
def timed(samples: int) -> Iterator[Memory]:
    memory, begun, cpu = Memory(), time.perf_counter(), time.process_time()
    yield memory
    wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
    marks = [memory.marks[n] for n in (max(1, samples // 4), samples)]
    print(json.dumps({"wall": wall, "cpu": cpu, "memory": marks}))


async def directly(samples: int, at_once: int) -> None:
    from moot.evals.runs.solver import document_of
    from moot.graphs import load_graph

    system = load_graph("tool_mad")
    settings = system.settings.model_validate(SETTINGS)
    gate = asyncio.Semaphore(at_once)

    async def one(i: int) -> None:
        async with gate:
            document = await document_of(system, {"claim": f"Resolution {i} says so.", "task": "fever"}, settings)
            assert document["status"] == "done", document["error"]
            memory.note()

    await document_of(system, {"claim": "First.", "task": "fever"}, settings)  # loads what is loaded once
    with timed(samples) as memory:
        await asyncio.gather(*(one(i) for i in range(samples)))


def by_inspect(samples: int, at_once: int) -> None:
    from moot.evals.runs.plan import make_plan
    from moot.evals.runs.run import Limits, run_plan

    with tempfile.TemporaryDirectory() as folder:

        def run(count: int, logs: str, memory: Memory) -> None:
            tasks = {"fever": str(claims(Path(folder), count))}
            plan = make_plan({"graphs": [{"graph": "tool_mad", "settings": SETTINGS}], "tasks": tasks})
            (log,) = run_plan(plan, Path(folder) / logs, Limits(at_once), lambda total, held: memory.note)
            assert log.status == "success", log

        run(1, "first", Memory())  # loads what is loaded once
        with timed(samples) as memory:
            run(samples, "logs", memory)


def measured(way: str, options: argparse.Namespace) -> dict[str, Any]:
    """What a process of its own prints."""
    command = [sys.executable, "-m", "tests.benchmarks.evaluation", "--way", way]
    command += ["--samples", str(options.samples), "--at-once", str(options.at_once)]
    with scripted(RULES, options.latency_ms):
        found: dict[str, Any] = json.loads(subprocess.check_output(command).splitlines()[-1])
    return found


def main(options: argparse.Namespace) -> None:
    ratios = []
    for _ in range(options.runs):
        walls = {}
        for way in ("directly", "by_inspect"):
            found = measured(way, options)
            walls[way] = found["wall"]
            quarter, whole = found["memory"]
            print(
                f"{way:12s} {options.samples} samples, {options.at_once} at once: wall {found['wall']:.1f} s, "
                f"CPU {found['cpu']:.1f} s, largest memory {quarter:.0f} MiB after a quarter, {whole:.0f} after all"
            )
        ratios.append(walls["by_inspect"] / walls["directly"])
    print(f"ratio of wall times {statistics.median(ratios):.2f} (median of {options.runs})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--latency-ms", type=float, default=50)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--way", choices=("directly", "by_inspect"))
    given = parser.parse_args()
    gc.set_threshold(COLLECTED_EVERY)
    if given.way == "directly":
        asyncio.run(directly(given.samples, given.at_once))
    elif given.way:
        by_inspect(given.samples, given.at_once)
    else:
        main(given)
