"""Answer relevance: the form in which a claim is compared, and scores of real answers with recorded questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langgraph.runtime import Runtime
from moot.graphs.tool_mad import ToolMadSettings
from moot.nodes._steps.relevance import answer_relevance, answer_relevance_node, claim_to_compare
from moot.nodes._steps.score import written_answer
from moot.nodes._texts.task import make_task
from moot.retrievers import open_encoder
from moot.retrievers._encoders import Encoder, Vector

from tests.conftest import SHARED, StartStub

QUESTIONS = Path(__file__).with_name("read_questions.jsonl")
DEBATES, VISIBLE = SHARED / "data/read_debates", SHARED / "data/visible"
BENCHMARKS = {
    "averitec": ("averitec.jsonl", "claim"),
    "check_covid": ("check_covid.jsonl", "claim"),
    "hotpotqa": ("hotpotqa_distractor.jsonl", "question"),
}
"""The file of each task's benchmark, and the field with the claim."""


@pytest.mark.parametrize(
    ("claim", "form", "compared"),
    [
        ("Saffron is a spice", "question", "Is it true that Saffron is a spice?"),
        ("Is saffron a spice? ", "question", "Is saffron a spice? "),
        ("Saffron is a spice", "as_given", "Saffron is a spice"),
    ],
)
def test_a_claim_is_compared_as_a_question_or_as_given(claim: str, form: Any, compared: str) -> None:
    assert claim_to_compare(claim, form) == compared


@pytest.mark.parametrize(
    ("task", "form", "unchanged"),
    [("fever", "question", False), ("fever", "as_given", True), ("gsm8k", "question", True)],
)
async def test_the_node_compares_claims_as_questions_and_problems_as_given(
    start_stub: StartStub, task: str, form: Any, unchanged: bool
) -> None:
    """With the setting ``as_given``, claims are also compared as given."""
    claim = "Find the sum of two and two."
    start_stub([{"model": "stub-scorer", "fields": {"questions": [claim] * 3}}])
    settings = ToolMadSettings(
        models={"scorer": "openai:stub-scorer"}, embedder="openai:stub-embedding", claim_form=form
    )
    turn = {"round": 1, "phase": "primary", "agent": "rag", "step": "respond", "answer": "4", "rationale": "So it is."}
    state = {"claim": claim, "task": make_task(task), "turns": [turn], "evidence": []}
    update = await answer_relevance_node().with_settings(settings, "score")(state, Runtime())
    score = update["turns"][0]["scores"]["answer_relevance"]
    assert (score == pytest.approx(1)) is unchanged


async def claim_vectors(encoder: Encoder) -> dict[str, dict[str, Vector]]:
    """The vectors of all claims of `BENCHMARKS`, by task and claim."""
    vectors = {}
    for task, (name, field) in BENCHMARKS.items():
        lines = (VISIBLE / name).read_text(encoding="utf-8").splitlines()
        claims = list({json.loads(line)[field] for line in lines})
        found = await encoder.embed([claim_to_compare(claim) for claim in claims])
        vectors[task] = dict(zip(claims, found, strict=True))
    return vectors


@pytest.mark.skipif(not DEBATES.exists(), reason="the debates (../shared/data/read_debates) are not here")
async def test_most_answers_of_recorded_debates_reach_the_threshold() -> None:
    """The model's questions are recorded.

    The mean score exceeds the mean similarity of the questions to the nearest other claim of the benchmark.
    """
    encoder = await open_encoder()
    of_claims = await claim_vectors(encoder)
    rows = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    own, nearest = [], []
    for row in rows:
        document = json.loads((DEBATES / f"{row['run']}.json").read_text(encoding="utf-8"))
        claims = of_claims[document["task"]["name"]].items()
        vectors = [vector for claim, vector in claims if claim != document["claim"]]
        place = ["respond", row["round"], row["agent"]]
        [turn] = [t for t in document["turns"] if [t["step"], t["round"], t["agent"]] == place]
        model = FakeListChatModel(responses=[json.dumps({"questions": row["questions"]})])
        found = await answer_relevance(document["claim"], written_answer(document["task"], turn), model, encoder)
        assert found.score is not None
        own.append(found.score)
        questions = await encoder.embed(found.questions)
        middle = [sum(values) / len(questions) for values in zip(*questions, strict=True)]
        nearest.append(max(sum(a * b for a, b in zip(vector, middle, strict=True)) for vector in vectors))
    assert len(own) == 20
    assert sum(score >= 0.8 for score in own) / len(own) >= 0.55
    assert (sum(own) - sum(nearest)) / len(own) >= 0.25
