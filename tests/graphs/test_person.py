"""A person in the loop: the moments at which a debate waits, the valid replies, and their effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Overwrite
from moot.core.errors import UserError
from moot.graphs import DESCRIPTIONS, load_graph
from moot.nodes._steps.person_replies import check_person_reply
from moot.retrievers._evidence import evidence_id

from tests.conftest import StartStub, StubEndpoint, reading_demo

CLAIM = "The platypus is a mammal that lays eggs."
ONE_SIDE = "stub-(rag|debater-1|agent-1|agent-2|affirmative)$"
RULES: list[dict[str, Any]] = [
    {"model": ONE_SIDE, "match": "your `answer`", "fields": {"answer": "SUPPORTS", "citations": []}},
    {
        "model": "judge|summariser",
        "match": "A person who reads this debate.*Is it hearsay",
        "fields": {"answer": "REFUTES", "citations": []},
    },
    {"model": "judge|summariser", "match": "`answer`", "fields": {"answer": "SUPPORTS", "citations": []}},
    {"match": "your `answer`", "fields": {"answer": "REFUTES", "citations": []}},
    {"fields": {"citations": [], "agree": False, "close": False, "preferred": None, "debate_resolved": False}},
]
"""Rules for debaters who never agree, and for a deciding role that changes its answer after a person's question."""
SMALL_DEBATE = {
    "max_rounds": 2,
    "rounds": 1,
    "min_rounds": 2,
    "sources": ["bm25:demo-news"],
    "max_premises": 2,
    "seed_k": 2,
    "judges": 1,
}
ASK_PERSON_TYPES = {
    name: get_args(field.annotation)
    for name in DESCRIPTIONS
    if (field := load_graph(name).settings.model_fields.get("ask_person"))
}
MOMENTS = {name: get_args(types[0]) for name, types in ASK_PERSON_TYPES.items()}
"""For each graph that can ask a person: the moments at which it can wait."""

Reply = Callable[[Mapping[str, Any]], Any]


def settings_of(name: str, **settings: Any) -> Any:
    """The settings of a small debate in which every role has its own model."""
    kind = load_graph(name).settings
    small = {key: value for key, value in SMALL_DEBATE.items() if key in kind.model_fields}
    models = {
        role: f"openai:stub-{role}" for role in kind().roles() if not role.startswith("judge-") or role == "judge-1"
    }
    given = {
        "models": models,
        "embedder": "openai:stub-embedding",
        "attempts": 1,
        **reading_demo(kind),
        **small,
        **settings,
    }
    return kind.model_validate(given)


async def debate(name: str, reply: Reply = lambda value: True, **settings: Any) -> tuple[dict[str, Any], list[Any]]:
    """Run a debate in which ``reply`` stands for a person, by default one who accepts everything.

    Returns:
        The document, and the values of all interrupts: what the person was asked.
    """
    asked: list[Any] = []
    context = settings_of(name, **settings)
    graph = load_graph(name).graph.builder.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    given: Any = {"claim": CLAIM}
    for _ in range(60):
        document: dict[str, Any] = await graph.ainvoke(given, config, context=context)
        waits = document.pop("__interrupt__", [])
        if not waits:
            return document, asked
        asked += [wait.value for wait in waits]
        given = Command(resume={wait.id: reply(wait.value) for wait in waits})
    raise AssertionError(asked)


def person_turns(document: Mapping[str, Any], moment: str) -> list[Any]:
    """The turns of the person's reviews at this moment."""
    turns = [t for t in document["turns"] if t["agent"] == "person"]
    return [turn for turn in turns if turn["step"] == f"review_{moment}"]


def models_prompted_with(stub: StubEndpoint, words: str) -> list[str]:
    """The model of each request whose prompt contains these words."""
    return [r["model"] for r in stub.requests() if words in "\n".join(m["content"] or "" for m in r["messages"])]


@pytest.mark.parametrize("name", ["tool_mad", "madke", "gated"])
async def test_the_calls_before_a_question_count_against_the_ceiling(start_stub: StartStub, name: str) -> None:
    stub = start_stub(RULES)
    await load_graph(name).graph.ainvoke({"claim": CLAIM}, context=settings_of(name))
    needed = len(stub.prompts())
    document, asked = await debate(name, ask_person=MOMENTS[name], max_calls=needed - 1)
    assert asked
    assert len(document["calls"]) == len(stub.prompts()) - needed == needed - 1


def change_evidence(value: Mapping[str, Any]) -> Any:
    """Strike the first piece and add `ADDED`. Accept other proposals, and evidence that already contains `ADDED`."""
    if value["kind"] != "evidence" or any(p["text"] == ADDED["text"] for p in value["proposed"]["evidence"]):
        return True
    return {"strike": [value["proposed"]["evidence"][0]["id"]], "add": [ADDED]}


ADDED = {"text": "Monotremes lay leathery eggs.", "title": "Eggs", "url": "https://eggs.example"}


def check_changed_evidence(document: Mapping[str, Any], asked: list[Any], stub: StubEndpoint) -> None:
    """Check that the document has the struck and the added piece, and that prompts show only the added one."""
    struck = asked[0]["proposed"]["evidence"][0]
    (turn,) = [t for t in person_turns(document, "evidence") if struck["id"] in t["struck"]]
    known = {piece["id"]: piece for piece in document["evidence"]}
    assert known[struck["id"]]["struck"] is True
    assert document["status"] == "done"
    prompts = [p for p in stub.prompts() if struck["text"][:60].translate({60: "‹", 62: "›"}) in p]
    assert prompts == []
    added = known[turn["added"][0]]
    assert (added["title"], added["url"], added["retrievals"][0]["agent"]) == ("Eggs", "https://eggs.example", "person")
    assert any(ADDED["text"] in prompt for prompt in stub.prompts())


async def test_struck_evidence_stays_struck_in_later_rounds(start_stub: StartStub) -> None:
    """Evidence that the person adds can be cited."""
    cites = {"evidence_id": evidence_id("given", ADDED["text"]), "quote": "lay leathery eggs"}
    stub = start_stub(
        [
            {
                "model": "stub-rag",
                "match": "Monotremes.*your `answer`",
                "fields": {"answer": "SUPPORTS", "citations": [cites]},
            },
            *RULES,
        ]
    )
    document, asked = await debate("tool_mad", change_evidence, ask_person=["evidence"], query_formulation=False)
    struck = {p["id"] for p in asked[0]["proposed"]["evidence"][:1]}
    check_changed_evidence(document, asked, stub)
    later = [value for value in asked if "round 2" in value["about"]]
    assert later
    assert not any(struck & {p["id"] for p in value["proposed"]["evidence"]} for value in later)
    citations = [c for t in document["turns"] if t["agent"] == "rag" for c in t.get("citations", [])]
    assert citations
    assert all(c["verified"] and not c["fabricated"] for c in citations)


async def test_a_person_is_asked_again_after_an_invalid_reply(start_stub: StartStub) -> None:
    start_stub(RULES)
    replies = [{"remark": ""}, "no", {"strike": []}, {"remark": "Go on."}]
    document, asked = await debate("society_of_minds", lambda value: replies.pop(0), ask_person=["remark"])
    assert [bool(value.get("problem")) for value in asked] == [False, True, True, True]
    assert [turn["remark"] for turn in person_turns(document, "remark")] == ["Go on."]
    assert document["status"] == "done"


PROPOSED = {"queries": {"rag": "eggs"}, "evidence": [{"id": "ev-1", "text": "Eggs."}]}


@pytest.mark.parametrize(
    ("moment", "reply", "problem"),
    [
        ("queries", {"queries": {"nobody": "eggs"}}, "nobody"),
        ("queries", {"queries": {"rag": " \u200b"}}, "no visible text"),
        ("premises", {"premises": []}, "premises"),
        ("premises", {"accept": True, "premises": ["Eggs."]}, "either accept"),
        ("evidence", {"strike": ["ev-2"]}, "ev-2"),
        ("evidence", {"add": [{"text": " "}]}, "no visible text"),
        ("evidence", {"add": [{"text": "Eggs.", "id": "ev-1"}]}, "leave out the `id`"),
        ("remark", {}, "either accept"),
        ("remark", {"accept": False}, "accept"),
        ("remark", {"question": "Why?"}, "question"),
        ("remark", {"remark": "x" * 5000}, "4000"),
        ("verdict", [1], "dictionary"),
    ],
)
def test_invalid_replies_are_refused(moment: Any, reply: Any, problem: str) -> None:
    with pytest.raises(UserError, match=problem) as refused:
        check_person_reply(moment, reply, PROPOSED)
    assert refused.value.kind == "invalid_reply" or "given" in refused.value.kind


@pytest.mark.parametrize("moment", ["queries", "premises", "evidence", "remark", "verdict"])
def test_the_reply_none_accepts_the_proposal(moment: Any) -> None:
    assert check_person_reply(moment, None, PROPOSED).accept


async def test_a_debate_that_asks_a_person_fails_without_a_checkpointer(start_stub: StartStub) -> None:
    stub = start_stub(RULES)
    document = await load_graph("rag").graph.ainvoke(
        {"claim": CLAIM}, context=settings_of("rag", ask_person=["evidence"])
    )
    assert (document["status"], document["error"]["kind"]) == ("failed", "no_checkpointer")
    assert stub.calls() == []


async def test_a_debate_can_branch_from_a_past_checkpoint_with_changed_evidence(start_stub: StartStub) -> None:
    stub = start_stub(RULES)
    graph = load_graph("standard_mad").graph.builder.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    first = await graph.ainvoke({"claim": CLAIM}, config, context=settings_of("standard_mad"))
    history = [state async for state in graph.aget_state_history(config)]
    before = next(state for state in history if state.next == ("judge",))
    piece = {**before.values["evidence"][0], "id": "ev-new", "text": "Nobody has seen an egg."}
    branch = await graph.aupdate_state(before.config, {"evidence": Overwrite([piece])})
    second = await graph.ainvoke(None, branch, context=settings_of("standard_mad"))
    assert [p["text"] for p in second["evidence"]] == ["Nobody has seen an egg."]
    assert all(models_prompted_with(stub, p["text"][:40]) for p in first["evidence"])
    assert models_prompted_with(stub, "Nobody has seen an egg.") == ["stub-judge"]
    checkpoints = [state async for state in graph.aget_state_history(config)]
    assert any(
        state.values.get("evidence") == first["evidence"] and state.values["status"] == "done" for state in checkpoints
    )
