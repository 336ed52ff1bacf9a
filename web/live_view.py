"""A running debate as the page shows it: the agents' answers, the turns of each round, and the evidence.

The wording is that of the report (`moot.transcript.report`), so that no words change when the debate ends.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from typing import Any

from moot.graphs import load_graph
from moot.nodes._runtime.settings import checked_settings
from moot.retrievers._archives import website_of
from moot.transcript.document import checked_parts, round_sections
from moot.transcript.report import head
from moot.transcript.report.names import Names
from moot.transcript.report.record import parts, timeline
from moot.transcript.report.sources import Sources, plain, title_of, web_address

EMPTY: Mapping[str, Any] = {
    **dict.fromkeys(("answer", "raw_verdict", "confidence", "error", "stop_reason", "task")),
    **{key: [] for key in ("turns", "evidence", "round_log", "warnings", "corpora", "votes", "calls", "graphs")},
    "claim": "",
    "status": "interrupted",
    "metrics": {},
    "rounds": 0,
    "debates": [],
    "models": {},
}
"""Values for the fields that the document of a running debate does not have yet."""
MOST_SOURCES = 60
"""Maximum number of sources listed while a debate runs; the report lists all."""

STEPS: Mapping[str, tuple[str, str]] = {
    "open": ("prepare", "opening models and sources"),
    "close": ("end", "writing the result"),
    **dict.fromkeys(
        ("formulate_query", "stance_queries", "refine_query", "state_gap"), ("search", "formulating a query")
    ),
    **dict.fromkeys(("retrieve", "seed_retrieval", "tools", "admit_discoveries"), ("search", "searching")),
    **dict.fromkeys(
        ("gather_queries", "gather_challenges", "gather_testimony", "gather_samples", "share"),
        ("search", "collecting what was found"),
    ),
    "plan": ("search", "planning the search"),
    **dict.fromkeys(("select", "choose_documents"), ("search", "selecting evidence")),
    **dict.fromkeys(("check_gate", "check_attacks"), ("check", "checking whether the first answers suffice")),
    "attack": ("answer", "attacking its own answer"),
    "debate": ("answer", "debating"),
    "group_origins": ("check", "grouping the evidence by origin"),
    "premises": ("search", "splitting the claim into premises"),
    **dict.fromkeys(("disclose", "challenge"), ("search", "negotiating the evidence")),
    **dict.fromkeys(
        ("weigh_exhibit", "weigh_discovery", "rule", "rule_on_discoveries", "rule_on_expert"),
        ("check", "ruling on the evidence"),
    ),
    **dict.fromkeys(("respond", "answer", "agent", "model"), ("answer", "writing its answer")),
    "argue": ("answer", "arguing"),
    "request_expert": ("answer", "asking for an expert"),
    "testify": ("answer", "testifying"),
    **dict.fromkeys(("review", "hand_back"), ("answer", "reviewing the others")),
    "reflect": ("check", "rating its own case"),
    **dict.fromkeys(("critique", "court"), ("check", "judging the round")),
    **dict.fromkeys(("compare_answers", "agreement", "agree"), ("check", "comparing the answers")),
    **dict.fromkeys(
        (
            "faithfulness",
            "answer_relevance",
            "consistency",
            "average_scores",
            "choose_similarity",
            "analyse_consistency",
        ),
        ("check", "checking the answers"),
    ),
    **dict.fromkeys(("score_peers", "weigh_edges"), ("check", "deciding who hears whom")),
    **dict.fromkeys(("moderate", "close_round"), ("check", "closing the round")),
    "summarise": ("check", "summing up"),
    **dict.fromkeys(("compile_record", "gather_debates"), ("decide", "compiling the record")),
    **dict.fromkeys(("judge", "decide", "vote", "conclude", "aggregate"), ("decide", "deciding")),
    **dict.fromkeys(("assess", "assess_answers", "check_warrants"), ("check", "checking what the quotes bear out")),
    "second_opinion": ("check", "asking for a second opinion"),
    "robustness": ("decide", "testing what the verdict depends on"),
    **dict.fromkeys(
        (
            "review_plan",
            "review_queries",
            "review_query",
            "review_premises",
            "review_evidence",
            "human_review",
            "human_remark",
        ),
        ("person", "waiting for your reply"),
    ),
}
"""Maps each node's name to the kind of its step and a description."""


def debate_view(document: Mapping[str, Any], wanted: Collection[str]) -> dict[str, Any]:
    """The page's view of a running debate; ``timeline`` is None if there are fewer than two answers and decisions."""
    with checked_parts():
        system = load_graph(str(document.get("graph")))
        settings = checked_settings(system.settings, dict(document.get("settings") or {}), system.name)
        whole = {**EMPTY, **document, "settings": settings.model_dump(mode="json")}
        names, sources = Names(whole), Sources(whole)
        sections = round_sections(whole) if whole["task"] else []
        answers, all_parts = timeline(whole, sections, names), parts(whole, sections, sources, names)
        listed = [_source_entry(sources, names, id) for id in [*sources.quoted, *sources.unquoted][:MOST_SOURCES]]
        speakers = dict.fromkeys([*names.declared, *(turn["agent"] for turn in whole["turns"])])
        return {
            "names": {agent: [names(agent), names.speaker_facts(agent)] for agent in speakers},
            "declared": len(names.declared),
            "most": whole["settings"].get("max_rounds", whole["settings"].get("rounds")),
            "timeline": asdict(answers) if answers else None,
            "parts": [
                asdict(part if part is all_parts[-1] or part.heading in wanted else replace(part, cards=[], notes=[]))
                for part in all_parts
            ],
            "sources": listed,
            "count": len(sources.pieces),
            "quoted": len(sources.quoted),
            "warned": [[lead, text] for lead, text in head.verdict_warnings(whole, names)] if whole["task"] else [],
        }


def _source_entry(sources: Sources, names: Names, id: str) -> dict[str, Any]:
    """The entry of a piece of evidence in the list of sources, with up to three of its verified quotes."""
    piece = sources.pieces[id]
    quotes = {
        citation["quote"]: names(turn["agent"])
        for turn in sources.document["turns"]
        for citation in turn.get("citations") or []
        if citation["verified"] and citation["evidence_id"] == id
    }
    about = [plain(piece.get("publisher") or piece["source"]), plain(piece.get("published") or "")]
    return {
        "number": sources.numbers[id],
        "title": title_of(piece),
        "about": " · ".join(filter(None, [*about, website_of(web_address(piece.get("url")))])),
        "address": web_address(piece.get("url")),
        "by": sorted(set(quotes.values())),
        "quotes": list(quotes)[:3],
    }
