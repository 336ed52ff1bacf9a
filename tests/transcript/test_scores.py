"""The text on the scores of a Tool-MAD debate."""

from __future__ import annotations

from typing import Any

from moot.graphs import load_graph
from moot.nodes._texts.task import make_task
from moot.transcript.kinds import ScoredWords

from tests.conftest import CLAIM


def test_unknown_scores_are_not_called_low() -> None:
    debaters = [{"name": name, "retriever": "bm25:demo-news"} for name in ("rag", "search")]
    words = ScoredWords(load_graph("tool_mad").settings(model="openai:m", debaters=debaters))
    scores = {"rag": {"faithfulness": 0.1, "answer_relevance": 1.0}, "search": {"faithfulness": None}}
    shared = {"round": 1, "phase": "primary", "step": "respond", "answer": "SUPPORTS", "evidence_ids": []}
    turns = [{**shared, "agent": name, "scores": found} for name, found in scores.items()]
    words.update({"graph": "tool_mad", "claim": CLAIM, "task": make_task("fever", claim=CLAIM), "turns": turns})
    votes = [{"agent": name, "answer": "SUPPORTS", "group": 0} for name in scores]
    record: Any = {"round": 1, "phase": "primary", "reason": "unstable", "votes": votes}
    *_, last = words.after_round(record)
    assert last.text == (
        "The consensus is not stable (rag's faithfulness below the threshold; search's faithfulness, search's answer "
        "relevance unknown): another round."
    )
