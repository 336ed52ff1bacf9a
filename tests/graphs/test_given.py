"""Texts given with a claim: agents see and cite them, secrets in them are hidden, and invalid texts are refused."""

from __future__ import annotations

from typing import Any, cast

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from moot.core.errors import UserError
from moot.graphs import load_graph
from moot.graphs.standard_prompting import builder
from moot.nodes._texts.given import LONGEST_GIVEN, MOST_GIVEN, check_given
from moot.retrievers._evidence import evidence_id

from tests.conftest import StartStub, reading_demo

CLAIM = "The bells of the old mill ring at noon."
QUOTE = "the miller rang its two bells every day at noon"
ONLY_IN_LETTER = "Nobody in the valley owned a watch"
LETTER = {
    "id": "letter-1",
    "title": "A letter from the mill",
    "text": f"{ONLY_IN_LETTER}, so {QUOTE}.",
    "source": "parish archive",
    "published": "May 3, 1871",
}
ADMITS = {"relevance": 1, "credibility": 1}
"""Fields of the arbiter's reply. They admit each piece of evidence, so a trial's counsel read all pieces."""


def given_ids(document: dict[str, Any]) -> list[str]:
    """The ids of the given texts."""
    return [p["id"] for p in document["evidence"] if any(r["retriever"] == "given" for r in p["retrievals"])]


SECRET = "a1B2c3D4" * 4
"""The value of the environment variable ``SHOP_PASSWORD``."""


@pytest.mark.parametrize("name", ["tool_mad", "proclaim"])
async def test_a_secret_is_hidden_in_evidence_and_in_replies_and_prompts(
    start_stub: StartStub, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Quotes that contain the secret are verified."""
    monkeypatch.setenv("SHOP_PASSWORD", SECRET)
    fields = {"citations": [{"evidence_id": "note", "quote": f"the miller wrote {SECRET} on the wall"}]}
    fields |= dict.fromkeys(("rationale", "reason", "argument", "query"), f"It is {SECRET}.")  # type: ignore[arg-type]
    stub = start_stub([{"fields": fields | ADMITS}])
    system = load_graph(name)
    chosen = system.settings.model_validate(
        {"model": "openai:stub", "embedder": "openai:stub-embedding", "attempts": 1, **reading_demo(system.settings)}
    )
    note = {"id": "note", "text": f"Once the miller wrote {SECRET} on the wall.", "source": "archive"}
    document = await system.graph.ainvoke({"claim": CLAIM, "given": [note]}, context=chosen)
    assert SECRET not in str(document)
    assert "[SHOP_PASSWORD]" in str(document["turns"])
    assert not any(SECRET in prompt for prompt in stub.prompts())
    cited = [c for turn in document["turns"] for c in turn.get("citations") or []]
    assert cited
    assert all(c["verified"] for c in cited)


async def test_given_texts_do_not_stay_for_the_next_debate_on_a_thread(start_stub: StartStub) -> None:
    stub = start_stub([{"fields": {"citations": []}}])
    checkpointed, settings = builder.compile(checkpointer=InMemorySaver()), load_graph("standard_prompting").settings

    async def run_on_thread(**asked: Any) -> dict[str, Any]:
        config: Any = {"configurable": {"thread_id": "one"}}
        document: dict[str, Any] = await checkpointed.ainvoke(
            cast(Any, asked), config, context=settings(model="openai:stub")
        )
        return document

    assert given_ids(await run_on_thread(claim=CLAIM, given=[LETTER])) == ["letter-1"]
    refused = await run_on_thread(claim=CLAIM, given=[{"title": "without a text"}])
    assert (refused["status"], refused["error"]["kind"], refused["evidence"]) == ("failed", "invalid_given", [])
    assert (await run_on_thread(claim=CLAIM))["evidence"] == []
    assert given_ids(await run_on_thread(claim=CLAIM, given=[{"text": "Another."}])) == [
        evidence_id("given", "Another.")
    ]
    first, second, third = stub.prompts()
    assert ONLY_IN_LETTER in first
    assert ONLY_IN_LETTER not in second + third
    assert "No evidence is given" in second
    assert "the evidence" not in second


WRONG: dict[str, tuple[Any, str]] = {
    "a dictionary, not a list": ({"text": "One."}, "valid list"),
    "a string, not a list": ("One.", "valid list"),
    "a string in the list": (["One."], "text 1: .*dictionary"),
    "no key `text`": ([LETTER, {"title": "x"}], "text 2, text: Field required"),
    "a number as text": ([{"text": 3}], "text 1, text: .*string"),
    "only white space": ([{"text": " \n\u200b"}], "text 1 has no visible text"),
    "a lone surrogate": ([{"text": "\ud800"}], "text 1, text: "),
    "an id with markup": ([{"text": "One.", "id": 'a"><b'}], "text 1, id: "),
    "two texts with one id": (
        [{"text": "One.", "id": "a"}, {"text": "Two.", "id": "a"}],
        "two different texts have the id a",
    ),
    "a long title": ([{"text": "One.", "title": "x" * 5000}], "text 1, title: .*at most 4000"),
    "too many texts": ([{"text": "One."}] * (MOST_GIVEN + 1), "there are 201 texts"),
    "too many characters": (
        [{"text": "x" * (LONGEST_GIVEN // 2)}, {"text": "y" * (LONGEST_GIVEN // 2 + 1)}],
        "400,001 characters",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_invalid_given_texts_are_refused(wrong: str) -> None:
    given, problem = WRONG[wrong]
    with pytest.raises(UserError, match=rf"`given` cannot be used: .*{problem}.*at most 200 objects") as refused:
        check_given(given)
    assert refused.value.kind == "invalid_given"
