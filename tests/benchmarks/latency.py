"""Measures how much time one debate takes beyond its chain of dependent model calls.

The depth of a debate is the number of calls in this chain. Every chat call takes the same time (the latency) on the
scripted endpoint. Time beyond depth x latency is moot's own work that does not overlap with calls.

Tool-MAD's debaters disagree in every round. Three rounds of query and answer, the scores (two calls) and the judge make
a chain of nine calls. Embeddings come from the endpoint, or from the real encoder. Debates of the many-agent graphs
never end early; they take five rounds if the graph has rounds. The trial has two rounds in each debate, and the court
grants every expert.

Each group of cases runs in a new process.

    python -m tests.benchmarks.latency [--latency-ms 50] [--runs 5] [--json FILE] [--check]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.benchmarks.endpoint import scripted_endpoint
from tests.benchmarks.tables import finish, markdown, parser_of, spread

RULES: list[dict[str, Any]] = [
    {"model": "stub-rag", "fields": {"answer": "SUPPORTS"}},
    {"model": "stub-search", "fields": {"answer": "REFUTES"}},
    {
        "model": "stub-scorer",
        "fields": {
            "statements": ["one", "two", "three"],
            "verdicts": [{"index": i, "reason": "stated", "supported": i < 2} for i in range(3)],
        },
    },
]
MODELS = {role: f"openai:stub-{role}" for role in ("rag", "search", "scorer", "judge")}
READERS = [
    {"name": "rag", "retriever": "chroma:demo-encyclopaedia"},
    {"name": "search", "retriever": "bm25:demo-news"},
]
SETTINGS: dict[str, Any] = {"models": MODELS, "debaters": READERS}
"""Tool-MAD's settings, except for the encoder."""

ENDPOINT, ENCODER = "openai:stub-embedding", "all-MiniLM-L6-v2"
GROUPS = ("tool_mad", "tool_mad with the encoder", "many agents", "trial")
CORTEX = "cortex_debate"


@dataclass(frozen=True)
class Case:
    """A graph, its encoder, the limit of wall time / (depth x latency), and a function that runs a debate.

    A limit of None means no limit. The function takes the number of the debate, and returns the document.
    """

    graph: str
    embedder: str
    limit: float | None
    debate: Callable[[int], Awaitable[dict[str, Any]]]


async def tool_mad(embedder: str, number: int) -> dict[str, Any]:
    """Run a Tool-MAD debate on the claim with this number; return the document."""
    from moot.graphs.tool_mad import ToolMadSettings, graph

    settings = ToolMadSettings.model_validate({**SETTINGS, "embedder": embedder})
    # a new claim in each run, so that no reply comes from a cache
    claim = f"Resolution {number} says that the kilogram is not defined by a metal cylinder."
    document: dict[str, Any] = await graph.ainvoke({"claim": claim}, context=settings)
    assert document["status"] == "done", document["error"]
    assert document["stop_reason"] == "max_rounds"
    return document


def cases_of(group: str) -> tuple[list[dict[str, Any]], list[Case]]:
    """The endpoint's rules for a group of cases, and the cases of the group."""
    if group == "many agents":
        from tests.benchmarks import agents

        limits = dict.fromkeys(agents.SETTINGS, 1.2) | {"peer_review": 1.25}
        cases = [Case(name, ENDPOINT, limit, partial(agents.debate, name)) for name, limit in limits.items()]
        return agents.RULES, [*cases, Case(CORTEX, ENCODER, None, partial(agents.debate, CORTEX, embedder=ENCODER))]
    if group == "trial":
        from tests.benchmarks import trial

        return trial.RULES, [Case("proclaim", ENDPOINT, 1.15, trial.trial)]
    embedder, limit = (ENDPOINT, 1.2) if group == "tool_mad" else (ENCODER, 1.35)
    return RULES, [Case("tool_mad", embedder, limit, partial(tool_mad, embedder))]


async def measure(case: Case, runs: int, latency_ms: float) -> dict[str, Any]:
    """Measure a case; return its row of the table."""
    await case.debate(0)  # loads modules and fills caches
    documents, cpu = await run_debates(case, range(1, runs + 1))
    last = documents[-1]
    walls = [document["seconds"] for document in documents]
    return {
        "graph": case.graph,
        "embedder": case.embedder,
        "calls": len(last["calls"]),
        "depth": last["depth"],
        "wall": walls,
        "cpu": cpu / runs,
        "ratio": statistics.median(walls) / (last["depth"] * latency_ms / 1000),
        "limit": case.limit,
    }


async def run_debates(case: Case, numbers: range) -> tuple[list[dict[str, Any]], float]:
    """Run debates with these numbers one after the other; return their documents and total processor time (s)."""
    cpu = time.process_time()
    documents = [await case.debate(number) for number in numbers]
    return documents, time.process_time() - cpu


async def measure_all(cases: list[Case], runs: int, latency_ms: float) -> list[dict[str, Any]]:
    return [await measure(case, runs, latency_ms) for case in cases]


def table(rows: list[dict[str, Any]]) -> str:
    """The rows in Markdown."""
    return markdown(
        ["graph", "embeddings from", "calls", "depth", "wall, ms", "CPU, ms", "wall / (depth x latency)", "at most"],
        [
            [
                f"`{row['graph']}`",
                "the endpoint" if row["embedder"] == ENDPOINT else "the encoder",
                str(row["calls"]),
                str(row["depth"]),
                spread([1000 * wall for wall in row["wall"]], 0),
                f"{1000 * row['cpu']:.0f}",
                f"{row['ratio']:.2f}",
                f"{row['limit']:.2f}" if row["limit"] else "",
            ]
            for row in rows
        ],
    )


def main(options: argparse.Namespace) -> None:
    if options.group:
        rules, cases = cases_of(options.group)
        with scripted_endpoint(rules, options.latency_ms):
            print(json.dumps(asyncio.run(measure_all(cases, options.runs, options.latency_ms))))
        return
    rows: list[dict[str, Any]] = []
    for group in GROUPS:
        command = [sys.executable, "-m", "tests.benchmarks.latency", "--group", group]
        command += ["--runs", str(options.runs), "--latency-ms", str(options.latency_ms)]
        rows += json.loads(subprocess.check_output(command).splitlines()[-1])
    runs = f"median of {options.runs} runs (minimum to maximum)"
    print(f"One debate at a time, {options.latency_ms:.0f} ms a call; {runs}\n")
    print(table(rows))
    exceeded = [
        f"{r['graph']}: {r['ratio']:.2f} > {r['limit']}" for r in rows if r["limit"] and r["ratio"] > r["limit"]
    ]
    finish(options, rows, exceeded)


if __name__ == "__main__":
    parser = parser_of(__doc__, runs=5)
    parser.add_argument("--group", choices=GROUPS, help="measure this group in this process, and print JSON")
    main(parser.parse_args())
