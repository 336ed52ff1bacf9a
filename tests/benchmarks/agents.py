"""What debates among five agents cost: time beyond their chains of dependent calls, and the context that agents read.

Prints what the chat model's client takes alone, which no debate can be below. Then every graph debates for five rounds
on the scripted endpoint, every call taking the same time, with agents that never agree: calls, depth (the chain of
dependent calls) and wall time / (depth x latency), with embeddings from the endpoint, and for CortexDebate also from
the real encoder. Last the prompt tokens per agent and round of the same debate in which everybody, two neighbours, or
those whom the trust formula picks are heard.

    python -m tests.benchmarks.agents [--latency-ms 50] [--runs 5]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from typing import Any

from moot.evals.stats.debate_measures import context_tokens
from moot.graphs import load_graph
from moot.nodes.models.chat_models import open_chat_model
from moot.nodes.steps.score import average

from tests.benchmarks.endpoint import scripted

LABELS = ["SUPPORTS", "REFUTES", "NOT ENOUGH INFO", "SUPPORTS", "REFUTES"]
ROUNDS: dict[str, dict[str, Any]] = {
    "cortex_debate": {"agents": 5, "max_rounds": 5},
    "multi_agent_voting": {"agents": 5},
    "society_of_minds": {"agents": 5, "max_rounds": 5},
    "tit_for_tat": {"max_rounds": 5},
    "reconcile": {"agents": 5, "max_rounds": 5},
    "chat_eval": {"agents": 5, "max_rounds": 5},
    "peer_review": {"agents": 5, "rounds": 4},
    "group_debate": {"agents": 5, "max_rounds": 5},
    "neighbor_debate": {"agents": 5, "max_rounds": 5},
}


def model(number: int) -> str:
    """An agent's own model name, so that rules can tell agents apart."""
    return f"openai:stub-agent-{number}"


RULES: list[dict[str, Any]] = [
    *({"model": f"stub-agent-{i}$", "fields": {"answer": label, "citations": []}} for i, label in enumerate(LABELS, 1)),
    {"fields": {"preferred": None, "citations": []}},
]


async def debate(name: str, number: int, embedder: str = "openai:stub-embedding") -> dict[str, Any]:
    system, chosen = load_graph(name), dict(ROUNDS[name])
    if "agents" in chosen:
        chosen["agents"] = [{"model": model(i)} for i in range(1, 6)]
    settings = system.settings.model_validate({"model": "openai:stub", "embedder": embedder, **chosen})
    claim = f"Resolution {number} says that the kilogram is not defined by a metal cylinder."
    document: dict[str, Any] = await system.graph.ainvoke({"claim": claim}, context=settings)
    assert document["status"] == "done", document["error"]
    return document


async def measure(name: str, runs: int, latency: float, embedder: str = "openai:stub-embedding") -> dict[str, Any]:
    await debate(name, 0, embedder)  # loads what is loaded once
    documents = [await debate(name, number, embedder) for number in range(1, runs + 1)]
    walls, last = [d["seconds"] for d in documents], documents[-1]
    wall, depth = statistics.median(walls), last["depth"]
    print(
        f"{name:20s} {last['rounds']} rounds, {len(last['calls']):3d} calls, depth {depth:2d}, wall {wall * 1000:4.0f} "
        f"ms (median of {runs}; {min(walls) * 1000:.0f} to {max(walls) * 1000:.0f}), "
        f"wall / (depth x {latency * 1000:.0f} ms) = {wall / (depth * latency):.2f}  {embedder}"
    )
    return last


async def client_alone(at_once: int, latency: float) -> None:
    """What the chat model's client takes for five such rounds of calls, with no debate around it."""
    chat = (await open_chat_model("openai:stub-alone")).chat
    prompt = "a word " * 300  # about as long as a debate's
    for _ in range(2):  # the first time loads what is loaded once
        started = time.perf_counter()
        for number in range(5):
            await asyncio.gather(*(chat.ainvoke(f"{number} {call} {prompt}") for call in range(at_once)))
        taken = time.perf_counter() - started
    print(f"the client alone, {at_once:2d} calls at once: wall / (depth x latency) = {taken / 5 / latency:.2f}")


async def main(options: argparse.Namespace) -> None:
    latency = options.latency_ms / 1000
    for at_once in (1, 5, 20):
        await client_alone(at_once, latency)
    documents = {name: await measure(name, options.runs, latency) for name in ROUNDS}
    await measure("cortex_debate", options.runs, latency, "all-MiniLM-L6-v2")
    read = {name: average(list(context_tokens(document).values())) for name, document in documents.items()}
    everybody = read["society_of_minds"] or 0.0
    print("\nprompt tokens per agent and round, five agents, five rounds:")
    for name in ("society_of_minds", "neighbor_debate", "cortex_debate"):
        tokens = read[name] or 0.0
        print(f"{name:20s} {tokens:6.0f}  {100 * (tokens / everybody - 1):+.1f}%")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency-ms", type=float, default=50)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    with scripted(RULES, given.latency_ms):
        asyncio.run(main(given))
