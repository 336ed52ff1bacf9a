"""Prints the prompt tokens of a trial (PROClaim), by role and step.

The trial reads full abstracts of the corpus check_covid, and all roles use one model. With the replies in
trial_rules.json, 20 exhibits are admitted, and the court grants every expert. Each debate has two rounds. The program
counts a token for every 4 characters of all messages of all calls. It also prints the tokens that a provider's prefix
cache cannot serve. These are the tokens after the longest prefix that a prompt shares with an earlier prompt.

    python -m tests.benchmarks.trial [--corpus ../shared/data/corpus/check_covid.jsonl]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Any

from moot.graphs.proclaim import ProclaimSettings, graph
from moot.prompts import load
from moot.retrievers import index_passages, read_passages

from tests.benchmarks.endpoint import scripted_endpoint
from tests.conftest import SHARED

CLAIM = "The kilogram is not defined by a metal cylinder."
PREMISES = [
    "The kilogram was defined by a metal cylinder once.",
    "That definition is no longer in force.",
    "Another definition has taken its place.",
]
SEARCHED = ["Planck constant", "metre and second", "platinum"]
"""Queries that find new evidence, so that no side's search ends early."""
RULES: list[dict[str, Any]] = [
    {"model": "stub-miner", "fields": {"premises": PREMISES}},
    {"model": "stub-negotiator", "fields": {"supporting_query": "kilogram", "challenging_query": "metal cylinder"}},
    {"model": "stub-arbiter", "fields": {"relevance": 0.9, "credibility": 0.8}},
    {"model": "stub-(plaintiff|defense)", "fields": {"needed": True, "challenges": [], "citations": []}},
    {"model": "stub-court", "match": "`query`", "times": 4, "fields": {"query": SEARCHED[0]}},
    {"model": "stub-court", "match": "`query`", "times": 2, "fields": {"query": SEARCHED[1]}},
    {"model": "stub-court", "match": "`query`", "fields": {"query": SEARCHED[2]}},
    {"model": "stub-court", "fields": {"granted": True, "close": False}},
    {"model": "stub-critic", "fields": {"debate_resolved": False}},
    {"fields": {"citations": []}},
]


async def trial(_: int) -> dict[str, Any]:
    """Run the trial that latency.py times; return its document.

    Each debate has two rounds, and the court grants every expert. The parameter is ignored.
    """
    roles = ProclaimSettings().roles()
    settings = ProclaimSettings.model_validate(
        {
            "models": {role: f"openai:stub-{role}" for role in roles},
            "embedder": "openai:stub-embedding",
            "max_rounds": 2,
            "redundant_share": 1.0,
            "exhaustion": 0.0,
        }
    )
    document: dict[str, Any] = await graph.ainvoke({"claim": CLAIM}, context=settings)
    assert document["status"] == "done", document["error"]
    return document


ABSTRACTS = SHARED / "data/corpus/check_covid.jsonl"
ABSTRACT_RULES = Path(__file__).with_name("trial_rules.json")
ROLES = {
    **dict.fromkeys(("challenge", "gap", "argue", "request_expert", "reflect"), "counsel"),
    **dict.fromkeys(("refine", "rule_on_expert", "close"), "court"),
    "premises": "miner",
    "stance_queries": "negotiator",
    "weigh": "arbiter",
    "query": "retrieval",
    "testify": "expert",
    "critique": "critic",
    "analyse": "analyser",
    "judge": "judge",
}
"""The role of each step, which has the name of its prompt."""
WORDS = {
    step: [part.strip() for part, *_ in Formatter().parse(load(f"proclaim/{step}").replace("\n---\n", "\n"))]
    for step in ROLES
}
"""The fixed words of the prompt of each step."""
CLAIM_ON_COVID = (
    "Models suggest that almost no coronavirus transmission can be traced back to people in the pre-symptomatic stage."
)
EXHIBITS = 20


async def trial_on_abstracts(corpus: Path) -> None:
    """Run the trial over full abstracts.

    Args:
        corpus: the passages of check_covid, JSON lines.

    Raises:
        AssertionError: the trial failed, or differs from the trial whose tokens docs/figures.md states.
    """
    await index_passages("check_covid", read_passages(corpus), encoder="openai:stub-embedding")
    settings = ProclaimSettings.model_validate(
        {
            "model": "openai:stub",
            "embedder": "openai:stub-embedding",
            "sources": ["bm25:check_covid"],
            "max_evidence_tokens": 1536,
            "max_rounds": 2,
            "redundant_share": 1.0,
            "exhaustion": 0.0,
        }
    )
    document: dict[str, Any] = await graph.ainvoke({"claim": CLAIM_ON_COVID}, context=settings)
    assert document["status"] == "done", document["error"]
    standing = Counter(piece.get("status") for piece in document["evidence"])
    assert standing["admitted"] == EXHIBITS, standing
    assert [debate["rounds"] for debate in document["debates"]] == [2, 2], document["debates"]
    steps = Counter(turn["step"] for turn in document["turns"])
    assert steps["testify"] == 8, steps
    made_up = [w["detail"] for w in document["warnings"] if "citation" in w["kind"] or "quote" in w["kind"]]
    assert not made_up, made_up
    print(f"\nproclaim, 2 + 2 rounds, full abstracts: {len(document['calls'])} calls, exhibits {dict(standing)}")


def common_prefix_length(one: str, other: str) -> int:
    """The length of the common prefix of two texts."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def step_of(prompt: str) -> str:
    """The step whose fixed words a prompt contains in order; if several match, the step with the most fixed text.

    Raises:
        ValueError: no step matches.
    """
    return max(
        (step for step in WORDS if contains_in_order(prompt, WORDS[step])), key=lambda step: sum(map(len, WORDS[step]))
    )


def contains_in_order(prompt: str, words: Sequence[str]) -> bool:
    """Whether a prompt contains these parts in order, without overlaps."""
    at = 0
    for part in words:
        if (found := prompt.find(part, at)) < 0:
            return False
        at = found + len(part)
    return True


def print_report(prompts: Sequence[str]) -> None:
    """Print, by role and step, the prompt tokens and those after the longest prefix shared with an earlier prompt.

    Args:
        prompts: all prompts of one model, in order; at least one.
    """
    tokens: dict[tuple[str, str], list[float]] = {}
    for i, prompt in enumerate(prompts):
        step = step_of(prompt)
        known = max((common_prefix_length(prompt, before) for before in prompts[:i]), default=0)
        row = tokens.setdefault((ROLES[step], step), [0, 0, 0])
        row[:] = row[0] + 1, row[1] + len(prompt) / 4, row[2] + (len(prompt) - known) / 4
    print(f"{'role':12s} {'step':16s} {'calls':>5s} {'prompt tokens':>13s} {'outside of a prefix':>19s}")
    total = [sum(column) for column in zip(*tokens.values(), strict=True)]
    for (role, step_name), (calls, sent, outside) in [*sorted(tokens.items()), (("all", ""), total)]:
        print(f"{role:12s} {step_name:16s} {calls:5d} {sent:13,.0f} {outside:19,.0f}")


def prompt_of(request: Mapping[str, Any]) -> str:
    """The joined text of all messages of a request."""
    return "\n".join(message["content"] for message in request["messages"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=ABSTRACTS, help="the passages of check_covid")
    options = parser.parse_args()
    if not options.corpus.is_file():
        raise SystemExit(
            f"{options.corpus} does not exist: name the file of check_covid's passages (JSON lines) with --corpus"
        )
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "prompts.jsonl"
        with scripted_endpoint(json.loads(ABSTRACT_RULES.read_text()), 0, log):
            asyncio.run(trial_on_abstracts(options.corpus))
        print_report([prompt_of(json.loads(line)) for line in log.read_text().splitlines()])
