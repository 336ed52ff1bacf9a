"""Moot's scores equal RAGAS's own scores to 1e-6, if both get the same scripted replies over HTTP.

Each deliberate difference has its own test, named ``test_ragas_..._and_moot_...``:

no statements       RAGAS gives NaN; moot gives null
no evidence         RAGAS raises an error; moot gives null without a call
no answer           RAGAS raises an error; moot gives null without a call
evasive answers     RAGAS gives 0 if its model calls the answer noncommittal each time; moot has no such rule
missing verdicts    RAGAS divides by the number of verdicts (NaN if it is 0); moot asks again, then gives null
form of the claim   RAGAS uses the claim as given; moot by default turns the claim into a question
blank questions     RAGAS leaves them out (0 if all are blank); moot asks again, then gives null
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from langgraph.runtime import Runtime
from moot.evals._runs.ragas import ragas_answer_relevance, ragas_faithfulness
from moot.graphs.tool_mad import ToolMadSettings
from moot.nodes._models.chat_models import open_chat_model
from moot.nodes._models.speaker import Speaker
from moot.nodes._runtime.node import Node
from moot.nodes._steps.faithfulness import faithfulness, faithfulness_node
from moot.nodes._steps.relevance import answer_relevance
from moot.nodes._steps.score import faithfulness_score
from moot.nodes._texts.task import make_task
from moot.retrievers import Evidence, ReplyError, make_evidence, open_encoder

from tests.conftest import StartStub

pytestmark = pytest.mark.skipif(not find_spec("ragas"), reason="RAGAS is not installed: pip install 'moot[ragas]'")

CLAIM = "Which river flows through Vienna?"
ANSWER = "The Danube flows through Vienna, and the Wien joins it there."
CONTEXT = "Vienna lies on the Danube."  # of RAGAS's prompts, only the one for verdicts contains this text
UNICODE = "Wo liegt 東京? «Où» 🗼 — naïve “quotes” and \\ {braces}"
STUB, MINILM = "openai:stub-embedding", "all-MiniLM-L6-v2"
EXACT = 1e-6


@pytest.fixture(autouse=True)
def private_ragas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep RAGAS from sending usage data and from writing to the user's folder."""
    monkeypatch.setenv("RAGAS_DO_NOT_TRACK", "true")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


@asynccontextmanager
async def ragas_llm(url: str) -> AsyncIterator[Any]:
    """RAGAS's model on the scripted endpoint."""
    import openai
    from ragas.llms import llm_factory

    async with openai.AsyncOpenAI(base_url=url, api_key="stub", max_retries=0) as client:
        yield llm_factory("stub-ragas", client=client)


async def moot_scorer() -> Speaker:
    """Moot's model on the scripted endpoint."""
    return Speaker("scorer", await open_chat_model("openai:stub-moot"))


def verdict_rules(statements: Sequence[str], supported: Sequence[bool]) -> list[dict[str, Any]]:
    """Rules: both RAGAS and moot find these statements and give these verdicts.

    There may be fewer verdicts than statements.
    """
    theirs = [
        {"statement": s, "reason": "stated", "verdict": int(v)} for s, v in zip(statements, supported, strict=False)
    ]
    ours = [{"index": i, "reason": "stated", "supported": v} for i, v in enumerate(supported)]
    return [
        {"model": "stub-ragas", "match": CONTEXT, "fields": {"statements": theirs}},
        {"model": "stub-ragas", "fields": {"statements": statements}},
        {"model": "stub-moot", "fields": {"statements": statements, "verdicts": ours}},
    ]


def question_rules(questions: Sequence[str], noncommittal: Sequence[bool] = ()) -> list[dict[str, Any]]:
    """Rules: RAGAS and moot write these questions.

    ``noncommittal``: for each question, whether RAGAS calls the answer noncommittal; by default it never does.
    """
    flags = [int(f) for f in noncommittal] or [0] * len(questions)
    one_by_one = [
        {"model": "stub-ragas", "times": 1, "fields": {"question": q, "noncommittal": f}}
        for q, f in zip(questions, flags, strict=True)
    ]
    return [*one_by_one, {"model": "stub-moot", "fields": {"questions": questions}}]


def evidence_of(text: str = CONTEXT) -> list[Evidence]:
    """One piece of evidence with this text."""
    return [make_evidence(text=text, title="Vienna", source="test", query="q", score=None, retriever="test")]


async def node_update(node: Node, answer: str | None, evidence: list[Evidence]) -> tuple[dict[str, Any], list[Any]]:
    """The scores that a node writes for one turn, and the calls that it made."""
    turn = {"round": 1, "phase": "primary", "agent": "rag", "step": "answer", "answer": answer, "rationale": answer}
    settings = ToolMadSettings(models={"scorer": "openai:stub-moot"}, embedder=STUB)
    update = await node.with_settings(settings, "score")(
        {"claim": CLAIM, "task": make_task(), "turns": [turn], "evidence": evidence}, Runtime()
    )
    return update["turns"][0]["scores"], update.get("calls", [])


# --- the same numbers -----------------------------------------------------------------------------------------------

SHARES = [
    (1, 1),
    (0, 1),
    (1, 2),
    (2, 2),
    (1, 3),
    (2, 3),
    (0, 4),
    (3, 4),
    (2, 5),
    (5, 6),
    (1, 7),
    (3, 7),
    (6, 7),
    (5, 8),
]
"""Pairs of the number of supported statements and the number of statements."""
FAITHFULNESS = {
    **{f"{k} of {n}": ([f"Statement {i}." for i in range(n)], [i < k for i in range(n)]) for k, n in SHARES},
    "all of 8": ([f"Fact {i}." for i in range(8)], [True] * 8),
    "alternating": ([f"Fact {i}." for i in range(7)], [i % 2 == 0 for i in range(7)]),
    "duplicates, judged alike": (["It rains.", "It rains.", "It snows."], [True, True, False]),
    "duplicates, judged differently": (["It rains.", "It rains.", "It rains."], [True, False, False]),
    "unicode": ([UNICODE, "Ωμέγα ≤ ∞", "ﷺ \u200d ½"], [True, False, True]),
}


@pytest.mark.parametrize(("statements", "supported"), FAITHFULNESS.values(), ids=FAITHFULNESS)
async def test_faithfulness_equals_ragas(start_stub: StartStub, statements: list[str], supported: list[bool]) -> None:
    async with ragas_llm(start_stub(verdict_rules(statements, supported)).url) as llm:
        theirs = await ragas_faithfulness(CLAIM, ANSWER, [CONTEXT], llm)
    ours = await faithfulness(ANSWER, evidence_of(), await moot_scorer(), claim=CLAIM)
    assert ours.supported == supported
    assert ours.score == pytest.approx(theirs, abs=EXACT, rel=0)
    assert theirs == pytest.approx(sum(supported) / len(supported), abs=EXACT)


NEAR = ["Through which city does the Danube flow?", "What river runs through Vienna?", "Where does the Wien end?"]
FAR = ["Who composed the Goldberg Variations?", "How many moons has Mars?"]
RELEVANCE = {
    "n=1": (CLAIM, NEAR[:1], []),
    "n=2": (CLAIM, NEAR[:2], []),
    "n=3": (CLAIM, NEAR, []),
    "n=5": (CLAIM, [*NEAR, *FAR], []),
    "identical": (CLAIM, [CLAIM] * 3, []),
    "unrelated": (CLAIM, FAR, []),
    "duplicates": (CLAIM, [NEAR[0], NEAR[0], FAR[0]], []),
    "unicode": (UNICODE, [UNICODE, "東京はどこですか?", "Où est la tour 🗼?"], []),
    "one of three noncommittal": (CLAIM, NEAR, [True, False, False]),
}


@pytest.mark.parametrize("embedder", [MINILM, STUB])
@pytest.mark.parametrize(("claim", "questions", "noncommittal"), RELEVANCE.values(), ids=RELEVANCE)
async def test_answer_relevance_equals_ragas(
    start_stub: StartStub, claim: str, questions: list[str], noncommittal: list[bool], embedder: str
) -> None:
    n = len(questions)
    async with ragas_llm(start_stub(question_rules(questions, noncommittal)).url) as llm:
        encoder = await open_encoder(embedder)
        theirs = await ragas_answer_relevance(claim, ANSWER, llm, encoder, n)
        ours = await answer_relevance(claim, ANSWER, await moot_scorer(), encoder, n, claim_form="as_given")
    assert ours.questions == questions
    assert ours.score == pytest.approx(theirs, abs=EXACT, rel=0)
    assert (theirs == pytest.approx(1, abs=EXACT)) == (set(questions) == {claim})


# --- deliberate differences -----------------------------------------------------------------------------------------


async def test_ragas_gives_nan_without_statements_and_moot_gives_null(start_stub: StartStub) -> None:
    async with ragas_llm(start_stub(verdict_rules([], [])).url) as llm:
        assert math.isnan(await ragas_faithfulness(CLAIM, ANSWER, [CONTEXT], llm))
    assert (await faithfulness(ANSWER, evidence_of(), await moot_scorer(), claim=CLAIM)).score is None
    assert faithfulness_score([]) is None


async def test_ragas_uses_the_claim_as_given_and_moot_turns_it_into_a_question(start_stub: StartStub) -> None:
    claim = "The Danube flows through Vienna"
    async with ragas_llm(start_stub(question_rules([f"Is it true that {claim}?"] * 3, [])).url) as llm:
        encoder = await open_encoder(STUB)
        assert await ragas_answer_relevance(claim, ANSWER, llm, encoder) < 0.9
        ours = await answer_relevance(claim, ANSWER, await moot_scorer(), encoder)
    assert ours.score == pytest.approx(1, abs=EXACT)


@pytest.mark.parametrize(("supported", "share"), [([True], 1.0), ([False, True], 0.5), ([], math.nan)])
async def test_ragas_ignores_missing_verdicts_and_moot_needs_all_verdicts(
    start_stub: StartStub, supported: list[bool], share: float
) -> None:
    async with ragas_llm(start_stub(verdict_rules(["It rains.", "It snows.", "It hails."], supported)).url) as llm:
        theirs = await ragas_faithfulness(CLAIM, ANSWER, [CONTEXT], llm)
    assert theirs == pytest.approx(share, nan_ok=True)
    with pytest.raises(ReplyError, match="one verdict for each index"):
        await faithfulness(ANSWER, evidence_of(), await moot_scorer(), claim=CLAIM)
    scores, _ = await node_update(faithfulness_node(), ANSWER, evidence_of())
    assert scores == {"faithfulness": None}


# --- errors ---------------------------------------------------------------------------------------------------------
