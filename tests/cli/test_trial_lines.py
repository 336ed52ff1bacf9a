"""The screen prints the lines of a trial: for single nodes, for two concurrent debates, and at the end."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from moot.cli.screen import Screen
from moot.graphs.proclaim import ProclaimSettings
from moot.nodes._runtime.document import blank_document
from moot.nodes._texts.task import make_task
from moot.transcript import Live, ending
from moot.transcript.order import DebateOrder
from rich.console import Console

from tests.cli.scripted import CLAIM, PRIMARY, SWITCHED

# --- updates of single nodes ----------------------------------------------------------------------------------------


def printed_lines(*updates: dict[str, Any], width: int = 200, document: Any = None, **terminal: Any) -> list[str]:
    """The lines that the screen prints for updates of nodes, and for the end of the trial if a document is given."""
    page = io.StringIO()
    console = Console(file=page, width=width, soft_wrap=not terminal, **terminal)
    live = Live(ProclaimSettings())
    screen = Screen(console, live.speakers)
    for update in updates:
        screen.show(live.feed(update))
    if document is not None:
        screen.show(live.end(document))
    return [line.rstrip() for line in page.getvalue().splitlines()]


def turn(agent: str, step: str, phase: str = "primary", round: int = 1, **fields: Any) -> dict[str, Any]:
    """A turn of an agent. Its round is 0 outside the two debates."""
    key = {"round": round if phase in ("primary", "switched") else 0, "phase": phase, "agent": agent, "step": step}
    return {**key, "role": agent, "side": None, "query": None, "evidence_ids": [], "scores": {}, **fields}


def stop_update(phase: str, rounds: int, reason: str, **scores: Any) -> dict[str, Any]:
    """An update that ends a debate. ``scores`` are lists with a score for each round."""
    return {"debates": [{"phase": phase, "rounds": rounds, "stop_reason": reason, **scores}]}


def argument_update(phase: str, round: int, text: str) -> dict[str, Any]:
    """An update with an argument of the plaintiff."""
    argument = turn("plaintiff", "argue", phase, round, side="plaintiff", argument=text, citations=[], outcome="ok")
    return {"turns": [argument]}


SCORES: dict[str, Any] = {"reflection_total": [0.5, 1.204, 1.2, 1.22], "novelty": [0.5, None, 0.06, 0.0]}
"""The scores of a debate, by round."""


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("reflection_plateau", "the sides' reflections hardly change any more (total 1.20, 1.20, 1.22)"),
        ("critic_resolved", "the critic finds it resolved"),
        ("novelty_exhausted", "new evidence is hardly novel any more (mean novelty 0.06, 0.00)"),
        ("judicial_signal", "the court closes it"),
        ("max_rounds", "its rounds are used up"),
    ],
)
def test_the_stop_reason_of_a_debate_is_shown_once(reason: str, words: str) -> None:
    stopped = stop_update("primary", 4, reason, **SCORES)
    # The graph's update repeats the update of the debate's subgraph.
    lines = printed_lines(argument_update("primary", 1, "So."), stopped, stopped)
    assert lines[-1] == f"  The primary debate stops after 4 rounds: {words}."
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        ("redundancy", "67% of the new evidence is redundant (above 60%)"),
        ("retrievals", "it has made all 4 retrievals"),
        ("relevance_gain", "it gained less than 0.05 in relevance"),
    ],
)
def test_a_line_gives_the_reason_why_a_side_stopped_searching(ended: str, words: str) -> None:
    live = Live(ProclaimSettings(redundant_share=0.6, max_retrievals=4, relevance_gain=0.05))
    found: dict[str, Any] = {
        "gap": "It.",
        "outcome": "ok",
        "formulated": None,
        "query": "It.",
        "retrieval": "ok",
        "joined": [],
        "ended": ended,
        "scores": {"redundancy": 2 / 3, "novelty": 0.1},
        "evidence_ids": ["a"],
    }
    lines = live.feed({"turns": [turn("defense", "discover", "switched", side="plaintiff", **found)]})
    lines += live.end(blank_document("proclaim", ProclaimSettings()))
    assert [(line.who, line.what, line.text) for line in lines[3:5]] == [
        ("plaintiff", "finds", "1 piece; none joins the record (mean novelty 0.10)"),
        ("plaintiff", "searches", f"no more: {words}"),
    ]


NO_QUERIES: Any = dict.fromkeys(("supporting_query", "challenging_query"))
REFLECTION: Any = dict.fromkeys(("flaws", "logic", "novelty", "rebuttal", "discovery_need", "refined_stance"))
CRITIQUE: Any = dict.fromkeys(("plaintiff", "defense", "unresolved_premises", "recommendations", "debate_resolved"))
CONSISTENCY: Any = dict.fromkeys(("contradictions", "plaintiff_counsel", "defense_counsel", "overall"))
NO_VERDICT: Any = dict.fromkeys(
    ("evidence_strength", "argument_validity", "scientific_reliability", "verdict", "reason")
)


def test_unusable_replies_are_marked() -> None:
    """An empty list of challenges is a usable reply."""
    refused: dict[str, Any] = {"outcome": "refused"}
    of: dict[str, Any] = {"side": "plaintiff"}
    discover = turn("plaintiff", "discover", side="plaintiff", gap=None, **refused)
    asked = discover | {"formulated": None, "query": CLAIM, "retrieval": "empty"}
    lines = printed_lines(
        {"turns": [turn("miner", "premises", "negotiation", premises=None, **refused)]},
        {"turns": [turn("negotiator", "stance_queries", "negotiation", **NO_QUERIES, **refused)]},
        {"turns": [turn("defense", "challenge", "negotiation", side="defense", challenges=None, **refused)]},
        {"turns": [turn("plaintiff", "challenge", "negotiation", side="plaintiff", challenges=[], outcome="ok")]},
        {"turns": [discover]},
        {"turns": [asked], "corpora": [{"retriever": "bm25:x"}]},
        {"turns": [turn("plaintiff", "argue", side="plaintiff", argument=None, citations=[], **refused)]},
        {"turns": [turn("plaintiff", "request_expert", **of, needed=None, expertise=None, reason=None, **refused)]},
        {"turns": [turn("court", "rule_on_expert", number=2, side="defense", granted=None, reason=None, **refused)]},
        {"turns": [turn("expert", "testify", number=2, testimony=None, expertise="law", citations=[], **refused)]},
        {"turns": [turn("plaintiff", "reflect", **of, **REFLECTION, **refused)]},
        {"turns": [turn("critic", "critique", **CRITIQUE, **refused)]},
        {"turns": [turn("court", "close", close=None, reason=None, **refused)]},
        {"turns": [turn("analyser", "analyse", "panel", **CONSISTENCY, **refused)]},
        {"turns": [turn("judge-2", "judge", "panel", **NO_VERDICT, **refused)]},
    )
    mark = "no usable reply (refused)"
    assert lines == [
        "Negotiation of the evidence",
        f"  miner      finds      {mark}",
        f"  negotiator asks       {mark}",
        f"  defense    challenges {mark}",
        "  plaintiff  challenges nothing",
        "Primary debate, round 1",
        f"  plaintiff  lacks      {mark}",
        f"  plaintiff  asks       {CLAIM} (as no query could be formulated)",
        "  plaintiff  finds      nothing in bm25:x",
        f"  plaintiff  argues     {mark}",
        f"  plaintiff  wants      {mark}",
        f"  court      rules      on the defense's expert: {mark}",
        f"  expert     testifies  {mark}",
        f"  plaintiff  reflects   {mark}",
        f"  critic     scores     {mark}",
        f"  court      decides    {mark}",
        "Panel",
        f"  analyser   finds      {mark}",
        f"  judge-2    decides    {mark}",
    ]


def test_failed_and_empty_searches_have_different_lines() -> None:
    seed = turn("retrieval", "retrieve_seed", "negotiation", pool="seed", retrieval="failed")
    premise = turn("retrieval", "retrieve_premise", "negotiation", pool="premises", number=2, retrieval="empty")
    task = make_task("pubmedqa", None, None, "Is tin soft?")
    opening = {"graph": "proclaim", "claim": "Is tin soft?", "task": task}
    assert printed_lines(opening, {"turns": [seed]}, {"turns": [premise], "corpora": [{"retriever": "bm25:x"}]})[
        -2:
    ] == [
        "  retrieval  finds      for the question: nothing, because a source could not be searched",
        "  retrieval  finds      for premise 2: nothing in bm25:x",
    ]


def test_a_line_says_that_a_ruling_admits_nothing() -> None:
    """The line of the search shows only five titles. The discarded pieces are sorted by weight."""
    pieces = [{"id": f"ev-{n}", "title": f"T{n}", "source": "S", "text": "t", "retrievals": []} for n in range(1, 8)]
    found = [{**piece, "pool": "seed", "status": "seed"} for piece in pieces]
    weights = [
        {**piece, **dict.fromkeys(("weight", "relevance", "credibility"), n / 100), "status": "discarded"}
        for n, piece in enumerate(found, 1)
    ]
    ids = [piece["id"] for piece in pieces]
    seed = turn("retrieval", "retrieve_seed", "negotiation", pool="seed", retrieval="ok", evidence_ids=ids)
    lines = printed_lines({"turns": [seed], "evidence": pieces}, {"evidence": found}, {"evidence": weights})
    assert lines[:2] == [
        "  retrieval  finds      7 pieces for the claim: T1; T2; T3; T4; T5; and 2 more",
        "  arbiter    admits     nothing (above 0.5)",
    ]
    assert lines[2].startswith("  arbiter    discards   7 pieces: T7 [ev-7] 0.07; T6 [ev-6] 0.06; ")


def test_control_characters_are_removed_and_markup_is_printed_as_text() -> None:
    nasty = "\x1b[31m[bold]red[/bold]\x07"
    clean = "[31m[bold]red[/bold]"
    challenges = [{"evidence_id": nasty * 20, "reason": nasty}]
    challenged = turn("defense", "challenge", "negotiation", side="defense", challenges=challenges, outcome="ok")
    premises = turn("miner", "premises", "negotiation", premises=[nasty, nasty], outcome="ok")
    shown = "".join(printed_lines({"turns": [premises]}, {"turns": [challenged]}, argument_update("primary", 1, nasty)))
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert shown.count(clean) >= 5


def test_wrapped_lines_of_a_text_are_indented_in_a_terminal() -> None:
    text = "A rather long argument that has no end. " * 10
    lines = printed_lines(argument_update("primary", 1, text), width=100, force_terminal=True, color_system=None)
    assert max(map(len, lines)) <= 100
    assert all(line.startswith(" " * 24) for line in lines[2:])


def test_long_names_of_judges_widen_the_column_of_names() -> None:
    page = io.StringIO()
    settings = ProclaimSettings.model_validate(
        {"judges": [{"name": "the-presiding-one"}, {"name": "b"}, {"name": "c"}]}
    )
    live = Live(settings)
    judged = {
        "turns": [turn(name, "judge", "panel", **NO_VERDICT, outcome="cut") for name in ("the-presiding-one", "b")]
    }
    Screen(Console(file=page, width=200), live.speakers).show(live.feed(judged))
    assert [line.index("decides") for line in page.getvalue().splitlines()[1:]] == [20, 20]


# --- two debates at the same time -----------------------------------------------------------------------------------


def test_rounds_of_concurrent_debates_are_not_interleaved() -> None:
    """Every event is shown once, and the events of each debate keep their order."""
    first = [("primary", 1, "a"), ("primary", 1, "b"), ("primary", 2, "c"), ("primary", 3, "d")]
    second = [("switched", 1, "A"), ("switched", 2, "B"), ("switched", 2, "C")]
    for places in itertools.combinations(range(7), 3):  # every interleaving of the two debates
        from_first, from_second = iter(first), iter(second)
        happened = [next(from_second if place in places else from_first) for place in range(7)]
        order, shown = DebateOrder[tuple[str, int, str]]("primary"), list[tuple[str, int, str]]()
        for event in happened:
            shown += order.add_event(event[0], event[1], event, last=event in (first[-1], second[-1]))
        assert sorted(shown) == sorted([*first, *second])
        assert [event for event in shown if event in first] == first
        assert [event for event in shown if event in second] == second
        rounds = [key for key, _ in itertools.groupby(shown, key=lambda event: event[:2])]
        assert len(rounds) == len(set(rounds))


def test_the_switched_debate_waits_for_the_end_of_a_primary_round() -> None:
    before = [
        argument_update("primary", 1, "One."),
        argument_update("switched", 1, "Two."),
        argument_update("switched", 2, "Three."),
    ]
    assert printed_lines(*before) == ["Primary debate, round 1", "  plaintiff  argues     One."]
    shown = printed_lines(*before, argument_update("primary", 2, "Four."))
    assert [line for line in shown if not line.startswith("  ")] == [
        PRIMARY.format(1),
        SWITCHED.format(1),
        PRIMARY.format(2),
    ]
    shown = printed_lines(*before, stop_update("primary", 1, "max_rounds", **SCORES))
    assert shown[2:] == [
        "  The primary debate stops after 1 round: its rounds are used up.",
        SWITCHED.format(1),
        "  plaintiff  argues     Two.",
        SWITCHED.format(2),
        "  plaintiff  argues     Three.",
    ]


def test_waiting_lines_are_shown_if_the_trial_is_interrupted() -> None:
    document = blank_document("proclaim", ProclaimSettings())
    shown = printed_lines(
        argument_update("primary", 1, "One."), argument_update("switched", 1, "Two."), document=document
    )
    assert shown[:5] == [
        PRIMARY.format(1),
        "  plaintiff  argues     One.",
        SWITCHED.format(1),
        "  plaintiff  argues     Two.",
        "Interrupted: no verdict.",
    ]


# --- the end --------------------------------------------------------------------------------------------------------


def ending_lines(
    verdicts: Sequence[str | None], confidence: float, quotes: Sequence[str] = (), **parts: float | None
) -> list[str]:
    """The lines that the screen prints at the end of a trial.

    Args:
        verdicts: the verdict of each judge; None for a judge without a verdict. At least one is not None.
        confidence: the confidence of the trial.
        quotes: the quotes in an argument for the plaintiff.
        parts: the parts of the confidence that differ from the defaults.
    """
    given = [verdict for verdict in verdicts if verdict]
    raw = max(given, key=given.count)
    judged = [
        turn(f"judge-{n}", "judge", "panel", verdict=verdict, reason=f"Reason {n}.", outcome="ok")
        for n, verdict in enumerate(verdicts, 1)
    ]
    cited = [{"evidence_id": "ev-1", "quote": quote, "fabricated": False, "verified": True} for quote in quotes]
    defaults = {"base": 0.0, "role_switch": 0.0, "reflection": 0.0, "quality": 0.5, "consistency": 6.0}
    counts = {name: given.count(name) for name in ("SUPPORTED", "NOT SUPPORTED", "INCONCLUSIVE")}
    panel = {
        "verdicts": counts,
        "without_verdict": [t["agent"] for t in judged if not t["verdict"]],
        "tied": sorted(counts.values())[-1] == sorted(counts.values())[-2],
        "dissent": [t for t in judged if t["verdict"] not in (raw, None)],
    }
    document = blank_document("proclaim", ProclaimSettings()) | {
        "status": "done",
        "claim": CLAIM,
        "task": make_task(None, None, None, CLAIM),
        "answer": {"SUPPORTED": "SUPPORTS", "NOT SUPPORTED": "REFUTES"}.get(raw, "NOT ENOUGH INFO"),
        "raw_verdict": raw,
        "stop_reason": "max_rounds",
        "confidence": confidence,
        "confidence_parts": {**defaults, "winning_reflection": 0.5, **parts},
        "metrics": {"panel": panel},
        "turns": [turn("defense", "argue", "switched", side="plaintiff", citations=cited), *judged],
        "evidence": [{"id": "ev-1", "title": "Tin", "source": "Notes", "text": "t", "retrievals": []}],
    }
    page = io.StringIO()
    Screen(Console(file=page, width=200)).show(ending(document).lines)
    return page.getvalue().splitlines()


@pytest.mark.parametrize(
    ("confidence", "parts", "words"),
    [
        (
            0.902,
            (0.76, 0.1, 0.042),
            "0.90: base 0.76 (2 of 3 votes, quality 0.50) + role switch 0.10 + reflection 0.04",
        ),
        # with two digits, the sum of 0.65, 0.10 and 0.04 would not be the confidence of 0.80
        (
            0.79505,
            (0.65287, 0.1, 0.04218),
            "0.795: base 0.653 (2 of 3 votes, quality 0.50) + role switch 0.100 + reflection 0.042",
        ),
        (
            0.5,
            (0.6, -0.05, -0.05),
            "0.50: base 0.60 (2 of 3 votes, quality 0.50) - role switch 0.05 - reflection 0.05",
        ),
        (
            1.0,
            (1.0, 0.1, 0.0),
            "1.00: base 1.00 (2 of 3 votes, quality 0.50) + role switch 0.10 + reflection 0.00 = 1.10, cut to 1",
        ),
        (
            0.1,
            (0.2, -0.05, -0.15),
            "0.10: base 0.20 (2 of 3 votes, quality 0.50) - role switch 0.05 - reflection 0.15 = 0.00, raised to 0.1",
        ),
        (
            0.0,
            (0.1, -0.05, -0.15),
            "0.00: base 0.10 (2 of 3 votes, quality 0.50) - role switch 0.05 - reflection 0.15 = -0.10, raised to 0",
        ),
    ],
)
def test_confidence_is_shown_as_a_sum(confidence: float, parts: tuple[float, float, float], words: str) -> None:
    named: dict[str, Any] = dict(zip(("base", "role_switch", "reflection"), parts, strict=True))
    lines = ending_lines(["NOT SUPPORTED", "SUPPORTED", "NOT SUPPORTED"], confidence, **named)
    shown, _, parts_shown = words.partition(":")
    assert lines[1] == f"  Confidence {shown}, not calibrated:{parts_shown}"


def test_a_missing_score_is_marked_in_the_confidence() -> None:
    """An inconclusive verdict has no line of citations."""
    lines = ending_lines(["INCONCLUSIVE"], 0.95, base=0.95, consistency=None, winning_reflection=None)
    assert lines[1].endswith(" + role switch 0.00 (no score) + reflection 0.00 (no score)")
    assert not any("cites" in line for line in lines)


def test_the_verdict_line_names_ties_and_judges_without_a_verdict() -> None:
    lines = ending_lines([None, "SUPPORTED", "NOT SUPPORTED"], 0.5, base=0.5)
    basis = (
        "SUPPORTED by 1 of 2 judges; tied votes, so the verdict of judge-2 counts; judge-1 gave no verdict; max_rounds"
    )
    assert lines[0] == f"Verdict: SUPPORTS ({basis})"
    assert lines[2:5] == [
        "  judge-2    because    Reason 2.",
        "  plaintiff  cites      nothing",
        "  judge-3    dissents   NOT SUPPORTED - Reason 3.",
    ]


def test_ten_of_twelve_citations_are_printed() -> None:
    lines = ending_lines(["SUPPORTED", "SUPPORTED", None], 0.5, [f"quote {number}" for number in range(12)], base=0.5)
    assert lines[4] == '  plaintiff  cites      [ev-1] Tin (Notes): "quote 0" (found word for word)'
    assert [line.split()[0] for line in lines[4:14]] == ["plaintiff"] * 10
    assert lines[14].strip() == "and 2 more"
