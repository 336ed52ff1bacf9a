"""The default settings show as many gold passages of the visible claims as settings without a limit."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from moot.graphs.rag import RagSettings, graph

from tests.commands import moot
from tests.conftest import SHARED

DATA = SHARED / "data"
LIMITS: list[dict[str, Any]] = [{}, {"max_origin_share": 1.0}]
LARGEST_LOSS = 0.01
"""The largest difference between the shares of gold passages that a debate shows with and without a limit."""


def read_lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


async def gold_shares(claims: dict[str, set[str]], **settings: Any) -> list[float]:
    """For each claim, the share of its gold texts that a debate on the claim shows (of as many as can be shown)."""
    running = asyncio.Semaphore(8)

    async def gold_share(claim: str, gold: set[str]) -> float:
        async with running:
            document = await graph.ainvoke({"claim": claim}, context=RagSettings(model="fake:1", **settings))
        return len(gold & {piece["text"] for piece in document["evidence"]}) / min(3, len(gold))

    return await asyncio.gather(*(gold_share(*one) for one in claims.items()))


@pytest.mark.skipif(not DATA.exists(), reason="the benchmark samples are not part of the project (../shared/data)")
@pytest.mark.parametrize("name", ["averitec", "fever_symmetric"])
def test_the_limit_on_near_duplicates_costs_no_gold_passages(name: str) -> None:
    texts = {passage["id"]: passage["text"].strip() for passage in read_lines(f"corpus/{name}.jsonl")}
    judged = read_lines(f"qrels/visible/{name}.jsonl")[:100]
    claims = {one["query"]: {texts[gold["id"]] for gold in one["gold"]} for one in judged}
    ended = moot("index", DATA / "corpus" / f"{name}.jsonl", "--corpus", name, "--embedder", "none")
    assert ended.returncode == 0, ended.stderr
    limited, unlimited = (
        sum(asyncio.run(gold_shares(claims, sources=[f"bm25:{name}"], k=3, **limit))) / len(claims) for limit in LIMITS
    )
    assert unlimited > 0.6
    assert limited >= unlimited - LARGEST_LOSS
