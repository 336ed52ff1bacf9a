"""Prints the prompt tokens per agent and round of three graphs, which differ in what an agent hears.

An agent hears all other agents, two neighbours, or the agents that it trusts. Five agents who never agree debate for
five rounds on the scripted endpoint. Before the debates, the program times the client of the chat model alone, with 1,
5 and 20 calls at once. These times are a lower bound for debates. The debates are not timed here, but in `latency.py`.

    python -m tests.benchmarks.agents [--latency-ms 50]
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any

from moot.evals._stats.debate_measures import context_tokens
from moot.graphs import load_graph
from moot.nodes._models.chat_models import open_chat_model
from moot.nodes._steps.score import average

from tests.benchmarks.endpoint import scripted_endpoint

LABELS = ["SUPPORTS", "REFUTES", "NOT ENOUGH INFO", "SUPPORTS", "REFUTES"]
SETTINGS: dict[str, dict[str, Any]] = {
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


def model_of_agent(number: int) -> str:
    """The name of an agent's model. Each agent has a different model, so that rules can tell the agents apart."""
    return f"openai:stub-agent-{number}"


RULES: list[dict[str, Any]] = [
    *({"model": f"stub-agent-{i}$", "fields": {"answer": label, "citations": []}} for i, label in enumerate(LABELS, 1)),
    {"fields": {"preferred": None, "citations": []}},
]


async def debate(name: str, number: int, embedder: str = "openai:stub-embedding") -> dict[str, Any]:
    """Run a graph's debate on the claim with this number; return the document."""
    system, chosen = load_graph(name), dict(SETTINGS[name])
    if "agents" in chosen:
        chosen["agents"] = [{"model": model_of_agent(i)} for i in range(1, 6)]
    # peer_review makes 20 calls at once, more than the default max_concurrency allows.
    defaults = {"model": "openai:stub", "embedder": embedder, "max_concurrency": 64}
    settings = system.settings.model_validate({**defaults, **chosen})
    claim = f"Resolution {number} says that the kilogram is not defined by a metal cylinder."
    document: dict[str, Any] = await system.graph.ainvoke({"claim": claim}, context=settings)
    assert document["status"] == "done", document["error"]
    return document


async def time_client(at_once: int, latency: float) -> None:
    """Print the time of simultaneous calls by the chat model's client alone, relative to the latency.

    The time is the mean of five repetitions.

    Args:
        at_once: the number of simultaneous calls.
        latency: the duration of a call in seconds.
    """
    chat = (await open_chat_model("openai:stub-alone")).chat
    prompt = "a word " * 300  # about as long as a prompt of a debate
    for _ in range(2):  # the first pass loads modules and fills caches
        started = time.perf_counter()
        for number in range(5):
            await asyncio.gather(*(chat.ainvoke(f"{number} {call} {prompt}") for call in range(at_once)))
        taken = time.perf_counter() - started
    print(f"the client alone, {at_once:2d} calls at once: wall / (depth x latency) = {taken / 5 / latency:.2f}")


async def main(options: argparse.Namespace) -> None:
    for at_once in (1, 5, 20):
        await time_client(at_once, options.latency_ms / 1000)
    names = ("society_of_minds", "neighbor_debate", "cortex_debate")
    means = {name: average(list(context_tokens(await debate(name, 0)).values())) or 0.0 for name in names}
    print("\nprompt tokens per agent and round, five agents, five rounds:")
    for name, tokens in means.items():
        print(f"{name:20s} {tokens:6.0f}  {100 * (tokens / means[names[0]] - 1):+.1f}%")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency-ms", type=float, default=50)
    given = parser.parse_args()
    with scripted_endpoint(RULES, given.latency_ms):
        asyncio.run(main(given))
