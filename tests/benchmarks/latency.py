"""How much time a debate takes beyond its chain of dependent model calls.

Runs Tool-MAD on the scripted endpoint, every call taking the same time, with debaters that disagree in every round:
three rounds of query and answer, then scores (two calls) and the judge make a chain of nine calls. Everything else has
to happen beside it. Prints calls, depth and wall time, with embeddings from the endpoint and from the real encoder.

    python -m tests.benchmarks.latency [--latency-ms 50] [--runs 5]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from typing import Any

from tests.benchmarks.endpoint import scripted

RULES = [
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


async def debate(embedder: str, number: int) -> dict[str, Any]:
    from moot.graphs.tool_mad import ToolMadSettings, graph

    settings = ToolMadSettings.model_validate({"models": MODELS, "embedder": embedder})
    claim = f"Resolution {number} says that the kilogram is not defined by a metal cylinder."  # nothing is remembered
    document: dict[str, Any] = await graph.ainvoke({"claim": claim}, context=settings)
    assert document["status"] == "done", document["error"]
    assert document["stop_reason"] == "max_rounds"
    return document


async def measure(embedder: str, runs: int, latency: float) -> None:
    await debate(embedder, 0)  # loads what is loaded once
    documents = [await debate(embedder, number) for number in range(1, runs + 1)]
    walls = [d["seconds"] for d in documents]
    wall, depth = statistics.median(walls), documents[-1]["depth"]
    print(
        f"{embedder:24s} calls {len(documents[-1]['calls'])}, depth {depth}, "
        f"wall {wall * 1000:.0f} ms (median of {runs}; {min(walls) * 1000:.0f} to {max(walls) * 1000:.0f}), "
        f"wall / (depth x {latency * 1000:.0f} ms) = {wall / (depth * latency):.2f}"
    )


async def main(options: argparse.Namespace) -> None:
    for embedder in ("openai:stub-embedding", "all-MiniLM-L6-v2"):
        await measure(embedder, options.runs, options.latency_ms / 1000)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency-ms", type=float, default=50)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    with scripted(RULES, given.latency_ms):
        asyncio.run(main(given))
