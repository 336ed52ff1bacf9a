"""Prints what share of a ceiling each debate spends. Some debates have eight debaters, or given texts.

    python -m tests.benchmarks.ceilings [SYSTEM ...]

In a first pass over the debates, the scripted endpoint counts a token for every 4 bytes; in a second, for every 2.5
bytes. Until moot has seen token counts, it estimates a token for every 3 bytes. So its first estimates are too high in
the first pass, and too low in the second.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from moot.core.endpoint import close_clients
from moot.graphs import DESCRIPTIONS, load_graph
from moot.nodes._models.contexts import forget_contexts

from tests.conftest import StubEndpoint, reading_demo, running_stub

CLAIM = "The kilogram is no longer defined by a metal cylinder kept in France."
GIVEN = [
    {"text": f"Report {i}. " + " ".join(f"Sentence {j} of report {i} speaks of kilograms." for j in range(43))}
    for i in range(200)
]
"""200 texts, 400,000 characters in all."""
LEAST = {"proclaim": 5_500, "madam_rag": 3_100}
"""The approximate tokens of a system's cheapest decision; 1,700 for systems that are not listed."""
SHORT_LISTS = {"match": "You put their answers together and decide", "fields": {"answers": [], "misleading": []}}
"""The endpoint does not know limits of replies; with invented lists, replies of MADAM-RAG's aggregator exceed them."""


def eight_debaters(name: str) -> dict[str, Any]:
    """Settings with 8 debaters; empty if the system has no setting for their number."""
    fields = load_graph(name).settings.model_fields
    if name == "tit_for_tat" or not {"agents", "debaters"} & set(fields):
        return {}
    if name.startswith("tool_mad") or name == "gated":
        readers = [{"name": f"reader-{i}", "retriever": "bm25:demo-news"} for i in range(8)]
        return {"agents" if name == "gated" else "debaters": readers}
    return {"agents" if "agents" in fields else "debaters": 8}


def cases(name: str) -> Iterator[tuple[str, dict[str, Any], list[dict[str, str]], dict[str, Any]]]:
    """The cases of a system: for each, its name (may be empty), settings, given texts, and ceiling."""
    least = LEAST.get(name, 1_700)
    for tokens in (least, 4 * least, 16 * least):
        yield "", {}, [], {"budget": tokens}
    yield "200 texts", {}, GIVEN, {"budget": max(2_000, least)}
    if name in ("tool_mad", "society_of_minds"):
        yield "200 texts", {}, GIVEN, {"budget": 250_000}
    if more := eight_debaters(name):
        yield "8 debaters", more, [], {"budget": 20_000}
    yield "", {}, [], {"max_calls": 5}


async def run_debate(name: str, given: list[dict[str, str]], **settings: Any) -> dict[str, Any]:
    """Run a debate on the scripted endpoint; return the document."""
    forget_contexts()
    system = load_graph(name)
    chosen = {"model": "openai:stub", "embedder": "openai:stub-embedding", **reading_demo(system.settings), **settings}
    claim = {"claim": CLAIM} | ({"given": given} if given else {})
    document: dict[str, Any] = await system.graph.ainvoke(claim, context=system.settings.model_validate(chosen))
    return document


def scripted(folder: Path, bytes_per_token: float) -> AbstractContextManager[StubEndpoint]:
    """A scripted endpoint that counts a token for every ``bytes_per_token`` bytes, and sends short replies."""
    return running_stub(folder, [SHORT_LISTS], bytes_per_token=bytes_per_token, reply_chars=200)


async def main(names: list[str]) -> None:
    """Print a line per debate, and the highest share of a ceiling that was spent."""
    print(f"{'bytes/token':>11} {'system':22} {'':11} {'ceiling':>17} {'spent':>9} {'share':>6} calls  status")
    worst = 0.0
    for per in (4, 2.5):
        with tempfile.TemporaryDirectory() as folder, scripted(Path(folder) / "s", per) as stub:
            os.environ["OPENAI_BASE_URL"] = stub.url
            for name in names:
                for what, settings, given, ceiling in cases(name):
                    document = await run_debate(name, given, **settings, **ceiling)
                    ((setting, most),) = ceiling.items()
                    used = document["usage"]
                    spent = (
                        used["calls"] if setting == "max_calls" else used["prompt_tokens"] + used["completion_tokens"]
                    )
                    worst = max(worst, spent / most)
                    reason = document["stop_reason"] or document["error"]["detail"][:60]
                    print(
                        f"{per:>11} {name:22} {what:11} {setting:>9} {most:>7,} {spent:>9,} {spent / most:>6.2f} "
                        f"{used['calls']:>5}  {document['status']} {reason}",
                        flush=True,
                    )
            await close_clients()
    print(f"the highest share of a ceiling that was spent: {worst:.3f}")


if __name__ == "__main__":
    os.environ["OPENAI_API_KEY"] = "scripted"
    with tempfile.TemporaryDirectory() as home:
        os.environ.setdefault("MOOT_HOME", home)
        asyncio.run(main(sys.argv[1:] or list(DESCRIPTIONS)))
