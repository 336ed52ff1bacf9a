"""How much time a debate takes beyond its chain of dependent model calls.

Runs Tool-MAD on the scripted endpoint, every call taking the same time, with debaters that disagree in every round:
three rounds of query and answer, then scores (two calls) and the judge make a chain of nine calls. Everything else has
to happen beside it. Prints calls, depth and wall time, with embeddings from the endpoint and from the real encoder.

    python tests/benchmarks/latency.py [--latency-ms 50] [--runs 5]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

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
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "rules.json"
        rules.write_text(json.dumps(RULES))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        stub = str(Path(__file__).parents[1] / "stub_llm.py")
        command = [
            sys.executable,
            stub,
            "--port",
            str(port),
            "--latency-ms",
            str(given.latency_ms),
            "--rules",
            str(rules),
        ]
        server = subprocess.Popen(command, stderr=subprocess.PIPE)
        try:
            assert server.stderr is not None
            server.stderr.readline()
            os.environ |= {"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "MOOT_HOME": folder}
            asyncio.run(main(given))
        finally:
            server.terminate()
            server.wait()
