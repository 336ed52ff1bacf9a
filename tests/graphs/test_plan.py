"""Plans of the first search, passages that travel, and searches that go on: whole debates on the scripted endpoint.

The expected searches, passages and rounds were worked out by hand.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from moot.graphs import load_graph
from moot.nodes._runtime.turns import Known
from moot.nodes._speakers.debaters import quoted_passages
from moot.nodes._steps.query import tell_query
from moot.nodes._steps.responding import tell_turn
from moot.nodes._texts.plans import searches_so_far
from moot.nodes._texts.verdict import outcome_in_words
from moot.retrievers._evidence import evidence_id
from moot.transcript.report.report import report
from pydantic import Field

from tests.conftest import MODELS, StartStub, StubEndpoint, says
from tests.retrievers.conftest import Serve, serve  # noqa: F401
from tests.retrievers.vendors import TAVILY, starter

CLAIM = "We planted the largest lighthouse forest."
FOR, AGAINST = "lighthouse forest planted record", "lighthouse forest never planted"
PLAN = {
    "subject": "The lighthouse forest of Ostrava.",
    "premises": ["A forest was planted.", "No forest is larger."],
    "queries": [FOR, AGAINST],
}
TEXTS = {name: f"Passage {name}: the forest has {number}00 trees." for number, name in enumerate("abcdefgh", 1)}
IDS = {name: evidence_id("shelf", text) for name, text in TEXTS.items()}
NAMES = {id: name for name, id in IDS.items()}


class Shelf(BaseRetriever):
    """A retriever with fixed results: for each query the names of passages in `TEXTS`, as letters."""

    finds: dict[str, str]
    asked: list[str] = Field(default=[])

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        self.asked.append(query)
        if (found := self.finds.get(query, "")) == "down":
            raise ConnectionError("the shelf is locked")
        return [Document(TEXTS[name], metadata={"title": name.upper(), "source": "shelf"}) for name in found]


PLANNED = {CLAIM: "ab", FOR: "ca", AGAINST: "cd"}
"""With k = 2: c has 1/61 + 1/61, a 1/61 + 1/62, b and d 1/62. So c and a are shown; the claim alone finds a and b."""


def plans(**fields: Any) -> dict[str, Any]:
    return {"model": "stub-planner", "fields": PLAN | fields}


def asks(role: str, *queries: str, times: int = 1) -> dict[str, Any]:
    """A rule: a debater writes these queries."""
    return {"model": f"stub-{role}$", "match": "your next search", "fields": {"queries": [*queries]}, "times": times}


def quotes(*names: str) -> list[dict[str, str]]:
    return [{"evidence_id": IDS[name], "quote": TEXTS[name][:25]} for name in names]


async def debate(graph: str, shelf: Shelf, **settings: Any) -> dict[str, Any]:
    system = load_graph(graph)
    readers = [{"name": name, "retriever": shelf} for name in ("rag", "search")]
    sources: dict[str, Any] = {"debaters": readers} if graph.startswith("tool_mad") else {"sources": [shelf]}
    if graph == "tool_mad":
        sources |= {"scoring": "consensus_only"}
    if graph == "gated":
        sources = {"agents": [{"name": f"reader-{i}", "retriever": shelf} for i in (1, 2)]}
        sources |= {"debate_settings": {"debaters": readers}}
    models = {role: f"openai:stub-{role}" for role in ("planner", *(system.settings().roles() & {*MODELS}))}
    given = {"model": "openai:stub", "models": models, "plan": True, "k": 2, **sources, **settings}
    document: dict[str, Any] = await system.graph.ainvoke({"claim": CLAIM}, context=system.settings(**given))
    assert document["error"] is None
    return document


def shown(document: dict[str, Any]) -> list[tuple[int, str, str]]:
    """Round, agent and the passages shown, for each turn with evidence."""
    turns = [turn for turn in document["turns"] if turn["evidence_ids"]]
    return [(turn["round"], turn["agent"], "".join(NAMES[id] for id in turn["evidence_ids"])) for turn in turns]


async def test_all_debaters_search_for_the_claim_and_the_planned_queries(start_stub: StartStub) -> None:
    stub, shelf = start_stub([plans(), says("rag", "SUPPORTS"), says("search", "SUPPORTS")]), Shelf(finds=PLANNED)
    document = await debate("tool_mad", shelf)
    assert shown(document) == [(1, "rag", "ca"), (1, "search", "ca")]
    assert sorted(shelf.asked) == sorted([CLAIM, FOR, AGAINST] * 2)
    assert [call["role"] for call in document["calls"]] == ["planner", "rag", "search"]
    plan, *answers = document["turns"]
    assert {key: plan[key] for key in PLAN} == PLAN
    assert (plan["step"], plan["round"], plan["outcome"]) == ("plan", 0, "ok")
    assert [turn["queries"] for turn in answers] == [[CLAIM, FOR, AGAINST]] * 2
    piece = next(piece for piece in document["evidence"] if piece["id"] == IDS["c"])
    assert {found["query"] for found in piece["retrievals"]} == {FOR, AGAINST}
    assert all("A forest was planted." in prompt for prompt in stub.prompts("stub-rag"))
    assert shown(await debate("tool_mad", Shelf(finds=PLANNED), plan=False, query_formulation=False))[0][2] == "ab"


@pytest.mark.parametrize(
    "rule", [{"reply": "no JSON"}, {"status": 500, "retry_after": "0"}, {"fields": PLAN | {"queries": ["one"]}}]
)
async def test_without_a_plan_the_claim_is_searched_for_with_a_warning(
    start_stub: StartStub, rule: dict[str, Any]
) -> None:
    start_stub([{"model": "stub-planner", **rule}, says("rag", "SUPPORTS"), says("search", "SUPPORTS")])
    document = await debate("tool_mad", shelf := Shelf(finds=PLANNED), attempts=1)
    assert (set(shelf.asked), shown(document)[0][2]) == ({CLAIM}, "ab")
    assert (document["status"], document["turns"][0]["queries"]) == ("done", None)
    [warned] = [one for one in document["warnings"] if one["kind"] == "search_not_planned"]
    assert warned["detail"].endswith("The claim itself is searched for.")
    assert not [call for call in document["calls"] if call["node"] == "formulate_query"]


async def test_a_plan_of_any_length_leaves_space_for_evidence(start_stub: StartStub) -> None:
    """Premises of 5,000 characters each do not fit into the context of the debaters."""
    endless = plans(premises=["It was planted. " * 300] * 9, subject="A forest " * 900)
    stub = start_stub([endless, says("rag", "SUPPORTS"), says("search", "SUPPORTS")])
    document = await debate("tool_mad", Shelf(finds=PLANNED), context_tokens=3_000)
    assert (document["status"], len(document["turns"][0]["premises"])) == ("done", 9)
    assert all(prompt.count("<evidence id=") == 2 for prompt in stub.prompts("stub-rag"))


@pytest.mark.parametrize("graph", ["rag", "madke", "standard_mad", "isolate", "gated", "tool_mad_consistency"])
async def test_systems_that_search_first_plan_once(start_stub: StartStub, graph: str) -> None:
    start_stub([plans(), {"match": "`answer`", "fields": {"answer": "SUPPORTS", "citations": quotes("c")}}])
    document = await debate(graph, shelf := Shelf(finds=PLANNED))
    assert [call["role"] for call in document["calls"]].count("planner") == 1
    assert {CLAIM, FOR, AGAINST} == set(shelf.asked)
    assert {NAMES[piece["id"]] for piece in document["evidence"]} == {"a", "c"}
    without = await debate(graph, Shelf(finds=PLANNED), retrieval="none")
    assert not [turn for turn in without["turns"] if turn["step"] == "plan"]


@pytest.mark.parametrize(
    ("graph", "settings"),
    [("gated", {"trigger": "self_critique", "min_verified": 0}), ("madam_rag", {"max_rounds": 2})],
)
async def test_an_agent_that_answers_anew_still_reads_the_plan(
    start_stub: StartStub, graph: str, settings: dict[str, Any]
) -> None:
    together = {"answers": [], "misleading": [], "rationale": "So.", "citations": [], "answer": "SUPPORTS"}
    rules = [plans(), {"match": "what is `misleading`", "reply": json.dumps(together)}]
    stub = start_stub([*rules, {"match": "your `answer`", "fields": {"answer": "SUPPORTS", "citations": quotes("c")}}])
    await debate(graph, Shelf(finds=PLANNED), **settings)
    anew = [prompt for prompt in stub.prompts() if "You have answered before" in prompt]
    assert len(anew) == 2
    assert all(PLAN["premises"][1] in prompt for prompt in anew)


async def test_only_the_labels_rules_tell_the_planner_of_a_speaker_s_own_words(start_stub: StartStub) -> None:
    stub = start_stub([plans(), {"fields": {"answer": "SUPPORTS", "citations": []}}])
    graph = load_graph("rag")
    plain = {"model": "openai:stub", "models": {"planner": "openai:stub-planner"}, "plan": True}
    for origin, rules in (({"speaker": "Ada Okafor"}, True), ({"speaker": "Ada Okafor"}, False), ({}, True)):
        settings = graph.settings(**plain, sources=[Shelf(finds=PLANNED)], label_rules=rules)
        await graph.graph.ainvoke({"claim": CLAIM, **origin}, context=settings)
    assert ["be true of what X said" in prompt for prompt in stub.prompts("stub-planner")] == [True, False, False]


async def test_react_reads_the_plan(start_stub: StartStub) -> None:
    stub = start_stub([plans(), {"fields": {"answer": "SUPPORTS", "citations": []}}])
    await debate("react", Shelf(finds=PLANNED), max_tool_calls=1)
    asked = next(prompt for prompt in stub.prompts() if "you look" in prompt or "look for the evidence" in prompt)
    assert f"Queries to begin with:\n- {FOR}\n- {AGAINST}" in asked


async def test_a_paid_search_is_asked_once_for_the_claim_and_the_first_query(
    start_stub: StartStub,
    serve: Serve,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = await starter(serve, monkeypatch)(TAVILY)
    start_stub([plans(), {"fields": {"answer": "SUPPORTS", "citations": []}}])
    document = await debate("rag", Shelf(finds={}), sources=["tavily"], claim_page="evidence")
    assert [body["query"] for body in server.bodies] == [f"{CLAIM} {FOR}"]
    assert document["evidence"]


async def test_a_person_reviews_the_planned_queries(start_stub: StartStub) -> None:
    start_stub([plans(), says("rag", "SUPPORTS"), says("search", "SUPPORTS")])
    system, shelf = load_graph("tool_mad"), Shelf(finds={**PLANNED, "oak": "ef"})
    readers = [{"name": name, "retriever": shelf} for name in ("rag", "search")]
    given = {"model": "openai:stub", "models": {**MODELS, "planner": "openai:stub-planner"}, "plan": True, "k": 2}
    settings = system.settings(**given, debaters=readers, scoring="consensus_only", ask_person=["queries"])
    graph, thread = system.graph.builder.compile(checkpointer=InMemorySaver()), {"configurable": {"thread_id": "1"}}
    waits = await graph.ainvoke({"claim": CLAIM}, thread, context=settings)
    assert waits["__interrupt__"][0].value["proposed"] == {"queries": {"planner-1": FOR, "planner-2": AGAINST}}
    document = await graph.ainvoke(Command(resume={"queries": {"planner-2": "oak"}}), thread, context=settings)
    assert set(shelf.asked) == {CLAIM, FOR, "oak"}
    assert (document["turns"][0]["queries"], document["status"]) == ([FOR, "oak"], "done")


# --- later rounds -----------------------------------------------------------------------------------------------------


def travelling(start_stub: StartStub) -> tuple[StubEndpoint, Shelf]:
    """Round 1: rag quotes a and c, search quotes c. Round 2: rag finds e, and search finds f."""
    later = {"e": "e", "f": "f"}
    rules = [plans(), asks("rag", "e"), asks("search", "f")]
    rules += [says("rag", "SUPPORTS", 1, citations=quotes("a", "c")), says("rag", "REFUTES", citations=quotes("c"))]
    return start_stub([*rules, says("search", "REFUTES", citations=quotes("c"))]), Shelf(finds=PLANNED | later)


async def test_passages_that_were_quoted_are_shown_to_all_in_the_next_round(start_stub: StartStub) -> None:
    stub, shelf = travelling(start_stub)
    document = await debate("tool_mad", shelf, passages_travel=True)
    assert shown(document)[2:] == [(2, "rag", "cae"), (2, "search", "caf")]
    last = document["turns"][-1]
    assert last["quoted_by"] == {IDS["c"]: ["rag", "search"], IDS["a"]: ["rag"]}
    assert [citation["verified"] for citation in last["citations"]] == [True]  # search found c only in round 1
    known = Known(None, pieces={piece["id"]: piece for piece in document["evidence"]})
    told = [f"{said.verb} {said.text}" for said in tell_turn(last, known)]
    assert f"reads C (shelf) [{IDS['c']}], quoted by rag and itself" in told
    assert f"finds F (shelf) [{IDS['f']}]" in told
    prompt = stub.prompts("stub-search")[-1]
    assert f'<evidence id="{IDS["c"]}" quoted_by="rag, search">' in prompt
    assert f'<evidence id="{IDS["f"]}">' in prompt
    assert "`quoted_by` in their tags says who did" in prompt


async def test_at_most_k_passages_travel_and_none_without_the_setting(start_stub: StartStub) -> None:
    """With k = 2, rag quotes c and a in round 1, and search, which has another source, b: all once."""
    for travel, first in ((True, "ca"), (False, "")):
        start_stub([
            plans(), asks("rag", "e"), asks("search", "f"),
            says("rag", "SUPPORTS", citations=quotes("c", "a")), says("search", "REFUTES", citations=quotes("b")),
        ])  # fmt: skip
        shelves = {
            "rag": Shelf(finds={**PLANNED, "e": "e"}),
            "search": Shelf(name="other", finds={CLAIM: "bh", "f": "f"}),
        }
        readers = [{"name": name, "retriever": shelf} for name, shelf in shelves.items()]
        document = await debate("tool_mad", shelves["rag"], debaters=readers, passages_travel=travel, max_rounds=2)
        assert shown(document)[:2] == [(1, "rag", "ca"), (1, "search", "bh")]
        assert shown(document)[2:4] == [(2, "rag", f"{first}e"), (2, "search", f"{first}f")]


OPEN = "NOT ENOUGH INFO"


async def test_an_open_claim_is_searched_on_until_nothing_new_is_found(start_stub: StartStub) -> None:
    """Round 1 finds c and a, round 2 finds e, round 3 only c and e."""
    rules = [asks(role, *queries) for role in ("rag", "search") for queries in (["e1", "e2"], ["old"])]
    stub = start_stub([plans(), *rules, says("rag", OPEN), says("search", OPEN)])
    shelf = Shelf(finds={**PLANNED, "e1": "e", "e2": "", "old": "ce"})
    document = await debate("tool_mad", shelf, open_continues=True, max_rounds=6)
    assert shown(document)[::2] == [(1, "rag", "ca"), (2, "rag", "e"), (3, "rag", "ce")]
    assert (document["answer"], document["stop_reason"], document["rounds"]) == (OPEN, "consensus", 3)
    assert [record["reason"] for record in document["round_log"]] == ["open"] * 3
    searches = document["round_log"][-1]["searches"]
    assert [(one["found"], one["new"]) for one in searches[::2]] == [(2, 2), (1, 1), (2, 0)]
    assert [one["queries"] for one in searches[::2]] == [[CLAIM, FOR, AGAINST], ["e1", "e2"], ["old"]]
    asked = next(prompt for prompt in stub.prompts("stub-rag") if '"e2' not in prompt and "e1\ne2" in prompt)
    assert '<searched_for round="2" by="rag, search" found="1, 1" new="1, 1">\ne1\ne2\n</searched_for>' in asked
    assert "all last answers leave the claim open" in asked
    assert "Ask in other words than the earlier searches" in asked
    said = f"Searched for: the claim itself and “{FOR}”; “{AGAINST}”; “e1”; “e2”; “old”. Nothing that was found settles"
    assert f"{said} the claim, and the last round found nothing new." in outcome_in_words(document)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (("down", "down"), ", and the last round found nothing new, as every search failed."),
        (("down", ""), ", and the last round found nothing new, but a search failed."),
        (("", ""), ", and the last round found nothing new."),
        (("down", "e"), ", and the last round found nothing new."),  # the third round, in which no search fails
    ],
)
async def test_a_search_that_failed_is_not_told_as_one_that_found_nothing(
    start_stub: StartStub, found: tuple[str, str], told: str
) -> None:
    rules = [asks("rag", "q"), asks("search", "r"), asks("rag", "s"), asks("search", "s")]
    stub = start_stub([plans(), *rules, *(says(role, OPEN, citations=quotes("c")) for role in ("rag", "search"))])
    shelf = Shelf(finds={**PLANNED, "q": found[0], "r": found[1]})
    document = await debate("tool_mad", shelf, open_continues=True, passages_travel=True)
    assert f"settles the claim{told}" in outcome_in_words(document)
    searches = document["round_log"][1]["searches"][2:]
    assert [one.get("failed") for one in searches] == [(one == "down" or None) for one in found]
    known = Known(None, pieces={piece["id"]: piece for piece in document["evidence"]})
    for turn, one in zip(document["turns"][3:5], found, strict=True):
        parts = " ".join(f"{said.verb} {said.text}" for said in tell_turn(turn, known))
        assert ("finds nothing, because a source could not be searched" in parts) == (one == "down")
        assert f"reads C (shelf) [{IDS['c']}]" in parts
        assert ("finds nothing" in parts) == (one != "e")
    # What a report says that each query found is without the passage that travelled.
    counts = {"down": None, "": "0 passages", "e": "1 passage"}
    text = report(document, "md")
    assert [f"“r” ({counts[found[1]]} found)" in text, "“r” (" in text] == [found[1] != "down"] * 2
    asked = [prompt for prompt in stub.prompts("stub-rag") if 'found="failed"' in prompt]
    assert bool(asked) == (document["rounds"] == 3)


async def test_a_last_round_without_a_search_found_nothing_because_it_did_not_look(start_stub: StartStub) -> None:
    """The gate's debate begins with the gate's evidence, and has one round."""
    start_stub([plans(), {"match": "your `answer`", "fields": {"answer": OPEN, "citations": []}}])
    readers = [{"name": name, "retriever": "bm25:demo-news"} for name in ("rag", "search")]
    inner = {"debate_settings": {"max_rounds": 1, "debaters": readers}}
    document = await debate("gated", Shelf(finds=PLANNED), preset="practical", corpus="demo-news", **inner)
    assert f"“{AGAINST}”. Nothing that was found settles the claim." in outcome_in_words(document)


@pytest.mark.parametrize(
    ("settings", "rounds"),
    [
        ({}, 1),
        ({"open_continues": True, "max_rounds": 2}, 2),
        ({"open_continues": True, "retrieval": "once"}, 1),
        ({"open_continues": True, "retrieval": "later"}, 3),
        ({"open_continues": True, "retrieval": "none"}, 1),
    ],
)
async def test_an_open_agreement_ends_a_debate_that_cannot_search_on(
    start_stub: StartStub, settings: dict[str, Any], rounds: int
) -> None:
    """Every later search finds something new, so that only the settings end the debate. By default, T is 3."""
    rules = [asks(role, f"q{number}") for number in range(1, 5) for role in ("rag", "search")]
    start_stub([plans(), *rules, says("rag", OPEN), says("search", OPEN)])
    shelf = Shelf(finds={**PLANNED, "q1": "e", "q2": "f", "q3": "g", "q4": "h"})
    document = await debate("tool_mad", shelf, **settings)
    assert (document["rounds"], document["stop_reason"], document["answer"]) == (rounds, "consensus", OPEN)


async def test_an_agreement_on_a_decisive_answer_ends_the_debate(start_stub: StartStub) -> None:
    start_stub([plans(), says("rag", "REFUTES"), says("search", "REFUTES")])
    document = await debate("tool_mad", Shelf(finds=PLANNED), open_continues=True)
    assert (document["rounds"], [one["reason"] for one in document["round_log"]]) == (1, ["agreed"])
    assert "Searched for" not in outcome_in_words(document)


@pytest.mark.parametrize(("round", "told"), [(1, []), (2, ["oak"])])
def test_a_debater_s_queries_are_told_also_beside_the_claim(round: int, told: list[str]) -> None:
    """In the first round, they are the plan's, which are told there."""
    turn: Any = {"round": round, "query": CLAIM, "queries": [CLAIM, "oak"]}
    assert [said.text for said in tell_query(turn, Known(None, claim=CLAIM))] == told


# --- formulae ---------------------------------------------------------------------------------------------------------


def test_the_most_quoted_passages_come_first() -> None:
    def answer(agent: str, *names: str) -> dict[str, Any]:
        return {"agent": agent, "citations": [{"evidence_id": name, "verified": name != "x"} for name in names]}

    evidence: Any = [{"id": name} for name in "abcx"] + [{"id": "s", "struck": True}]
    answers = [answer("rag", "a", "a", "b", "x", "s"), answer("search", "c", "b")]
    assert quoted_passages(answers, evidence, 9) == {"b": ["rag", "search"], "a": ["rag"], "c": ["search"]}
    assert [*quoted_passages(answers, evidence, 2)] == ["b", "a"]


def test_a_piece_is_new_in_the_first_round_that_finds_it() -> None:
    def piece(name: str, *found: tuple[int, str], **more: str) -> dict[str, Any]:
        places = [{"round": round, "agent": agent, "retriever": "bm25:x"} for round, agent in found]
        return {"source": "s", "text": name, "retrievals": places, **more}

    def search(round: int, agent: str, query: str) -> dict[str, Any]:
        return {"round": round, "agent": agent, "query": query, "retrieval": "ok"}

    evidence: Any = [
        piece("a", (1, "rag"), (2, "search")),
        piece("b", (1, "rag"), (1, "search")),
        piece("c", (2, "search")),
        piece("short", (1, "rag"), summary_of="whole"),
        piece("brief", (2, "search"), summary_of="whole"),
    ]
    turns = [search(1, "rag", "q"), search(1, "search", "q"), search(2, "search", "r"), {"round": 2, "agent": "rag"}]
    counted = [(one["agent"], one["found"], one["new"]) for one in searches_so_far(turns, evidence)]
    assert counted == [("rag", 3, 3), ("search", 1, 1), ("search", 3, 1)]
