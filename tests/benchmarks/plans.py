"""Measures how many gold passages two debaters find in round 1, with and without a plan of the search.

    python -m tests.benchmarks.plans PLANS.jsonl QRELS_FOLDER CORPUS.jsonl [CORPUS.jsonl ...]

Each line of PLANS has a claim (``query``), its set (``set``: the names of its qrels file and its corpus file), its id
(``qid``), ``premises``, and two queries (``q2``), which somebody wrote from the claim alone. QRELS_FOLDER has a file
for each set, with ``qid`` and ``gold`` (ids of passages). Every claim is debated by the system tool_mad with a rag
debater (chroma) and a search debater (bm25), k = 3, under each preset: its planner replies with the written plan, and
all other roles are fake models. So the passages come from moot's own path from the plan to the prompts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from moot.graphs.tool_mad import ToolMadSettings, graph
from moot.retrievers import index_passages, known_corpora, read_passages

WITHOUT, WITH, LEAST_PLANNED = "paper", "practical", 0.82
"""The presets, and the mean recall that a plan must reach on the written plans."""


class WrittenPlans(BaseChatModel):
    """A planner that replies with the plan written for the claim in its prompt."""

    plans: dict[str, str]

    @property
    def _llm_type(self) -> str:
        return "written-plans"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        prompt = str(messages[-1].content)
        claims = [claim for claim in self.plans if claim in prompt]
        reply = AIMessage(self.plans[max(claims, key=len)])
        return ChatResult(generations=[ChatGeneration(message=reply)])


def read_lines(file: Path) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


async def found_texts(record: Mapping[str, Any], planner: WrittenPlans, changes: Mapping[str, Any]) -> set[str]:
    """The texts that two debaters find for a claim in one round."""
    debaters = [
        {"name": "rag", "retriever": f"chroma:{record['set']}"},
        {"name": "search", "retriever": f"bm25:{record['set']}"},
    ]
    settings = ToolMadSettings.model_validate(
        {
            "model": "fake:1",
            "models": {"planner": planner},
            "debaters": debaters,
            "max_rounds": 1,
            "query_formulation": False,
            "scoring": "consensus_only",
            **changes,
        }
    )
    document = await graph.ainvoke({"claim": record["query"], "task": "fever"}, context=settings)
    if document["error"]:
        raise SystemExit(f"{record['query'][:80]}: {document['error']['detail']}")
    return {piece["text"] for piece in document["evidence"]}


def recall(gold: set[str], found: set[str]) -> float:
    """The share of the gold texts that were found."""
    return len(gold & found) / len(gold)


def interval(differences: list[float], draws: int = 10_000) -> tuple[float, float]:
    """The 95% interval of a mean difference, by a percentile bootstrap with a fixed seed."""
    rng = random.Random(1)
    means = sorted(statistics.fmean(rng.choices(differences, k=len(differences))) for _ in range(draws))
    return means[int(draws * 0.025)], means[int(draws * 0.975)]


async def main() -> None:
    """Index the corpora, hold the debates, and print the recalls; exit 1 if a plan finds too little."""
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("plans", type=Path)
    given.add_argument("qrels", type=Path)
    given.add_argument("corpora", type=Path, nargs="+")
    given.add_argument("--home", type=Path, help="a folder that keeps the corpora for the next run")
    given.add_argument("--share", type=float, help="max_origin_share in place of each preset's own")
    asked = given.parse_args()
    records = read_lines(asked.plans)
    with tempfile.TemporaryDirectory() as home:
        os.environ["MOOT_HOME"] = str(asked.home or home)
        texts: dict[str, str] = {}
        for file in asked.corpora:
            passages = list(read_passages(file))
            texts |= {passage.id: passage.text for passage in passages}
            if file.stem not in known_corpora():
                await index_passages(file.stem, iter(passages))
        gold = {
            (name, line["qid"]): {texts[one["id"]] for one in line["gold"]}
            for name in sorted({record["set"] for record in records})
            for line in read_lines(asked.qrels / f"{name}.jsonl")
        }
        plans = {
            r["query"]: json.dumps({"subject": r["query"], "premises": r["premises"], "queries": r["q2"]})
            for r in records
        }
        share = {} if asked.share is None else {"max_origin_share": asked.share}
        recalls: dict[str, list[float]] = {}
        for preset in (WITHOUT, WITH):
            planner = WrittenPlans(plans=plans)
            recalls[preset] = [
                recall(gold[r["set"], r["qid"]], await found_texts(r, planner, {"preset": preset, **share}))
                for r in records
            ]
            for name in sorted({record["set"] for record in records}):
                own = [one for one, r in zip(recalls[preset], records, strict=True) if r["set"] == name]
                print(f"{preset}, {name}: {statistics.fmean(own):.3f} ({len(own)} claims)")
    differences = [after - before for before, after in zip(recalls[WITHOUT], recalls[WITH], strict=True)]
    low, high = interval(differences)
    before, after = (statistics.fmean(recalls[preset]) for preset in (WITHOUT, WITH))
    print(f"recall of gold passages: {before:.3f} -> {after:.3f} with a plan, difference [{low:+.3f}, {high:+.3f}]")
    if after < LEAST_PLANNED:
        raise SystemExit(f"A plan must find at least {LEAST_PLANNED}.")


if __name__ == "__main__":
    asyncio.run(main())
