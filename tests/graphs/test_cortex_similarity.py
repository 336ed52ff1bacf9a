"""CortexDebate can compare outputs by a cross-encoder or a prompt, not only by embeddings (table 10 of its paper)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from moot.core.errors import UserError
from moot.nodes._cortex.similarity import similarities_by_cross_encoder

from tests.conftest import StartStub
from tests.graphs.scripted_agents import debate, rule, script

Turns = list[Any]
TURNS: Turns = [
    {"agent": "agent-1", "answer": "S", "rationale": "one"},
    {"agent": "agent-2", "answer": None, "rationale": None},
    {"agent": "agent-3", "answer": "R", "rationale": "three"},
]


class Lengths:
    """A cross-encoder that rates two texts by the length of the first, so their order matters."""

    name = "lengths"

    def __init__(self, unit: float) -> None:
        self.unit = unit

    async def compare(self, text: str, others: Sequence[str]) -> list[float]:
        return [self.unit * len(text) for _ in others]


async def test_a_cross_encoder_compares_each_pair_of_outputs_in_both_orders() -> None:
    found = await similarities_by_cross_encoder(TURNS, Lengths(0.1))  # type: ignore[arg-type]
    assert found == {"agent-1|agent-3": pytest.approx(0.1 * (5 + 7) / 2)}  # an agent without an answer is in no pair
    assert await similarities_by_cross_encoder(TURNS[:2], Lengths(0.1)) == {}  # type: ignore[arg-type]


async def test_a_similarity_of_50_from_a_cross_encoder_is_refused() -> None:
    with pytest.raises(UserError, match="lengths returned the similarity 50"):
        await similarities_by_cross_encoder(TURNS, Lengths(10))  # type: ignore[arg-type]


async def test_similarities_come_from_the_cross_encoder_in_the_settings(
    start_stub: StartStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    async def open_lengths(name: str) -> Lengths:
        opened.append(name)
        return Lengths(0.01)

    monkeypatch.setattr("moot.nodes._cortex.weigh.open_cross_encoder", open_lengths)
    stub = start_stub(script("SRN", "SSS", first=0))
    document = await debate("cortex_debate", agents=3, max_rounds=1, similarity="cross_encoder", cross_encoder="mine")
    assert (document["status"], document["settings"]["similarity"], opened) == ("done", "cross_encoder", ["mine"])
    turns = {t["agent"]: f"{t['answer']}\n{t['rationale']}" for t in document["turns"] if t["round"] == 0}
    similarities = document["graphs"][0]["similarity"]
    assert similarities["agent-1|agent-2"] == pytest.approx(
        0.01 * (len(turns["agent-1"]) + len(turns["agent-2"])) / 2, abs=1e-9
    )
    assert all(call["kind"] == "chat" for call in stub.calls())  # no text is embedded


async def test_with_similarity_by_prompt_a_model_scores_pairs_of_outputs(start_stub: StartStub) -> None:
    """A pair without a score causes a warning."""
    rules = [rule("similarity", r"a1r0\..*a2r0\.", fields={"score": 0.9})]
    rules += [rule("similarity", r"a1r0\..*a3r0\.", fields={"score": 0.1})]
    rules += [rule("similarity", r"a2r0\..*a3r0\.", reply="I would rather not say.")]
    stub = start_stub([*rules, *script("SRN", "SSS", first=0)])
    document = await debate("cortex_debate", agents=3, max_rounds=1, similarity="prompt")
    similarities = document["graphs"][0]["similarity"]
    assert [similarities[key] for key in ("agent-1|agent-2", "agent-1|agent-3")] == [0.9, 0.1]
    assert "similarity_missing" in {warned["kind"] for warned in document["warnings"]}
    assert document["usage"]["by_role"]["similarity"]["calls"] == 4  # three pairs, and one repeated request
    assert all(call["kind"] == "chat" for call in stub.calls())
