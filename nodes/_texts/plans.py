"""The plan of a debate's first search, and the searches made so far, as data and as texts for prompts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from moot.nodes._records.entries import Searched, Turn
from moot.nodes._texts.task import leaves_open
from moot.prompts import as_data
from moot.retrievers import Evidence
from moot.retrievers._evidence import GIVEN, clean
from moot.retrievers._excerpts import beginning


def plan_of(turns: Iterable[Turn]) -> Turn | None:
    """The turn with the plan; None if there is none, or if its call gave no plan."""
    return next((turn for turn in turns if turn["step"] == "plan" and turn["queries"]), None)


def planned_search(claim: str, turns: Iterable[Turn]) -> dict[str, object]:
    """The fields of a turn that searches as planned: for the claim and the plan's queries; empty if none was made.

    Without a usable plan, the claim itself is searched for.
    """
    if (made := next((turn for turn in turns if turn["step"] == "plan"), None)) is None:
        return {}
    queries = list(dict.fromkeys([claim, *(made["queries"] or [])]))
    return {"query": claim} | ({"queries": queries} if len(queries) > 1 else {})


def queries_of(turn: Turn) -> list[str]:
    """The texts that a turn searched for; empty if it did not search."""
    several = turn.get("queries")
    if isinstance(several, list):  # a person's review of queries has a mapping
        return several
    return [turn["query"]] if turn.get("query") else []


def is_found_by(turn: Turn, piece: Evidence) -> bool:
    """Whether the search of a turn found a piece."""
    found = [one for one in piece["retrievals"] if one["retriever"] != GIVEN]
    return any((one.get("agent"), one.get("round")) == (turn["agent"], turn["round"]) for one in found)


def searches_so_far(turns: Iterable[Turn], evidence: Iterable[Evidence]) -> list[Searched]:
    """The searches of a debate in the order of its turns, with the number of pieces that each found first.

    Two agents that find the same piece in the same round both found something new. If rag found a and b in round 1,
    and search found b in round 1 and a and c in round 2, the numbers of new pieces are 2, 1 and 1.
    """
    # A model's summary of the same text is the same piece, whatever its words are.
    first: dict[tuple[str, str], int] = {}
    found: dict[tuple[int, str], set[tuple[str, str]]] = {}
    for piece in evidence:
        key = (piece["source"], piece.get("summary_of", piece["text"]))
        for retrieval in piece["retrievals"]:
            round = retrieval.get("round", 0)
            first[key] = min(first.get(key, round), round)
            if retrieval["retriever"] != GIVEN:
                found.setdefault((round, retrieval.get("agent", "")), set()).add(key)
    searches: list[Searched] = []
    for turn in turns:
        if turn.get("retrieval") not in ("ok", "empty", "failed") or not (queries := queries_of(turn)):
            continue
        pieces = found.get((turn["round"], turn["agent"]), set())
        new = sum(first[piece] == turn["round"] for piece in pieces)
        made: Searched = {
            "agent": turn["agent"],
            "round": turn["round"],
            "queries": queries,
            "found": len(pieces),
            "new": new,
        }
        searches.append({**made, "failed": True} if turn["retrieval"] == "failed" else made)
    return searches


MOST_PREMISES = 5
"""Maximum number of premises of a plan that prompts show; the planner is asked for no more."""
MOST_PLAN_TOKENS = 100
"""Maximum number of tokens of a plan's subject, and of each of its premises and queries, that prompts show."""
PLANNED = (
    "What the {subject} is about and what it rests on, as planned before any search. This is no evidence; drop what "
    "the evidence shows otherwise:"
)


def show_plan(plan: Turn | None, subject: str, *, queries: bool = False) -> str:
    """The subject and the premises of a plan, and its queries if ``queries``, under a heading; empty without a plan.

    Of a plan that is longer than was asked for, only the beginning is shown, so that evidence keeps its space.
    """
    if plan is None:
        return ""
    subject_text, *premises = (
        beginning(text, MOST_PLAN_TOKENS) for text in (plan["subject"], *plan["premises"][:MOST_PREMISES])
    )
    lines = [f"About: {subject_text}", *(["Premises:", *(f"- {premise}" for premise in premises)] if premises else [])]
    if queries:
        lines += ["Queries to begin with:", *(f"- {beginning(query, MOST_PLAN_TOKENS)}" for query in plan["queries"])]
    return f"{PLANNED.format(subject=subject)}\n{as_data('plan', chr(10).join(lines))}"


def show_asked(searches: Sequence[Searched]) -> str:
    """The searches so far under a heading, each with what it found; empty if there were none.

    Agents that searched for the same in the same round share a block, with a number for each of them.
    """
    same: dict[tuple[int, str], list[Searched]] = {}
    for one in searches:
        same.setdefault((one["round"], "\n".join(one["queries"])), []).append(one)
    blocks = [
        as_data(
            "searched_for",
            queries,
            round=str(round),
            by=", ".join(one["agent"] for one in each),
            found=", ".join("failed" if "failed" in one else str(one["found"]) for one in each),
            new=", ".join(str(one["new"]) for one in each),
        )
        for (round, queries), each in same.items()
    ]
    heading = "What was searched for so far, how many passages this found for each debater, and how many were new:"
    return "\n".join([heading, *blocks]) if blocks else ""


def queries_in(document: Mapping[str, Any]) -> list[str]:
    """What the debate searched for besides the claim itself, each text once."""
    claim = document["claim"]
    texts = (clean(query) for turn in document["turns"] for query in queries_of(turn) if query != claim)
    return list(dict.fromkeys(filter(None, texts)))


def asked_in_vain(document: Mapping[str, Any]) -> str:
    """What was searched for, in a sentence, if the verdict is that the evidence settles nothing and the debate searched
    on (`open_continues`); else empty.
    """
    records = [one for one in document["round_log"] if "searches" in one]
    if not records or document["status"] != "done" or not leaves_open(document["task"], document["raw_verdict"]):
        return ""
    last, queries = records[-1], queries_in(document)
    if not (queries or last["searches"]):
        return ""
    subject = document["task"]["subject"]
    listed = "; ".join(f"“{query}”" for query in queries)
    what = f"the {subject} itself and {listed}" if queries else f"the {subject} itself"
    made = searches_of_round(last)
    in_vain = made and not any(one["new"] for one in made)
    end = f", and the last round found nothing new{failed_in_words(made)}" if in_vain else ""
    return f"Searched for: {what}. Nothing that was found settles the {subject}{end}."


def searches_of_round(record: Mapping[str, Any]) -> list[Searched]:
    """The searches that were made in the round of a record, which has all searches so far."""
    return [one for one in record["searches"] if one["round"] == record["round"]]


def failed_in_words(made: Sequence[Searched]) -> str:
    """The clause that a round's searches failed; empty if none did."""
    failed = sum("failed" in one for one in made)
    return "" if not failed else ", as every search failed" if failed == len(made) else ", but a search failed"
