"""The screen prints lines for the updates of a graph's nodes.

``test_trial.py`` tests the lines of `proclaim`.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from typing import Any

import pytest
from moot.cli.resuming import DebateSetup
from moot.cli.screen import Screen
from moot.cli.signals import Stop
from moot.cli.verify import debate_and_print
from moot.graphs import DESCRIPTIONS, load_graph
from moot.graphs.cortex_debate import CortexSettings
from moot.graphs.madke import MadkeSettings
from moot.graphs.react import ReactSettings
from moot.graphs.tool_mad import ToolMadSettings
from moot.nodes._models.replies import StoreUse
from moot.nodes._records.reducers import recorded_round
from moot.nodes._runtime.settings import Settings
from moot.transcript import Live
from rich.console import Console

from tests.conftest import READERS, StartStub, says, supports

CLAIM = "The kilogram is no longer defined by a metal cylinder kept in France."
ENCYCLOPAEDIA = "bm25:demo-encyclopaedia"
OFFLINE: dict[str, dict[str, Any]] = {
    "tool_mad": {"scoring": "consensus_only", "debaters": READERS},
    "tool_mad_consistency": {"scoring": "off", "debaters": READERS},
    "madke": {"sources": ["bm25:demo-news"]},
    "standard_mad": {"sources": ["bm25:demo-news"]},
    "rag": {"sources": ["bm25:demo-news"]},
    "react": {"sources": ["bm25:demo-news"]},
    "isolate": {"sources": ["bm25:demo-news"]},
    "madam_rag": {"sources": ["bm25:demo-news"]},
    "debate_cv": {"sources": ["bm25:demo-news"], "max_rounds": 2},
    "gated": {"corpus": "demo-news"},
}
"""Settings with which a graph needs neither a network nor an encoder's file."""
SCORE_WORDS = ("the scores decide", "stable", "below the threshold", "faithfulness")


def run_on_screen(
    name: str, capsys: pytest.CaptureFixture[str], **more: Any
) -> tuple[list[str], list[tuple[str, str]]]:
    """Run a debate and print it; return the lines, and a pair of speaker and action for each speaker's line."""
    system = load_graph(name)
    given = {"model": "fake:3", "embedder": "openai:stub-embedding", **OFFLINE.get(name, {}), **more}
    chosen = system.settings.model_validate(given)
    begins = DebateSetup(chosen, StoreUse())
    assert debate_and_print(system, {"claim": CLAIM}, begins, Stop(), as_json=False, out=None) == 0
    lines = capsys.readouterr().out.splitlines()
    return lines, [found.groups() for line in lines if (found := re.match(r"  (\S+) +(.{10}) ", line))]  # type: ignore[misc]


@pytest.mark.parametrize("name", [name for name in DESCRIPTIONS if name not in ("proclaim", "debate_cv")])
def test_debates_of_each_graph_show_rounds_answers_and_one_verdict(
    start_stub: StartStub, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    start_stub()
    lines, labelled = run_on_screen(name, capsys)
    settings = load_graph(name).settings.model_fields
    assert lines[0] == f"Claim: {CLAIM}"
    assert sum(line.startswith("Verdict: ") for line in lines) == 1
    headings = [line for line in lines if re.fullmatch(r"Round \d+", line)]
    assert bool(headings) == bool({"max_rounds", "rounds", "debate_settings"} & set(settings))
    assert headings == sorted(set(headings))
    live = lines[: next(i for i, line in enumerate(lines) if line.startswith("Verdict: "))]
    for heading, after in zip(headings, [*headings, None][1:], strict=True):
        part = live[live.index(heading) : live.index(after) if after else None]
        answers = Counter(line.split()[0] for line in part if re.match(r"  \S+ +answers ", line))
        assert answers, heading
        assert set(answers.values()) == {1}  # each agent answers once, also in a subgraph
        assert sum(line.startswith(f"  {heading}: ") for line in part) == 1
    assert any(what.strip() in ("answers", "answer 1") for _, what in labelled)
    if name not in ("tool_mad", "gated"):  # these two graphs compute scores
        assert not any(words in line for words in SCORE_WORDS for line in lines)


def test_a_debate_of_two_fixed_sides_shows_arguments_and_who_is_ahead(
    start_stub: StartStub, capsys: pytest.CaptureFixture[str]
) -> None:
    ahead = {"match": "which side is `ahead`", "fields": {"ahead": "negative", "decided": False}}
    start_stub([ahead])
    roles = dict.fromkeys(("affirmative", "negative", "moderator"), "openai:stub")
    lines, labelled = run_on_screen("debate_cv", capsys, models=roles)
    said = [(who, what.strip()) for who, what in labelled if what.strip() in ("argues", "decides")]
    assert said == [("affirmative", "argues"), ("negative", "argues")] * 2 + [("moderator", "decides")]
    assert sum("finds      the negative side ahead; it cannot be decided yet" in line for line in lines) == 2
    assert "  The debate changed 0 of 1 later answer of the moderator." in lines


def test_tool_mad_prints_the_low_scores_that_reject_a_consensus(
    start_stub: StartStub, capsys: pytest.CaptureFixture[str]
) -> None:
    start_stub([says("rag", "SUPPORTS"), says("search", "SUPPORTS"), *supports([True, False], CLAIM)])
    roles = {role: f"openai:stub-{role}" for role in ("rag", "search", "scorer", "judge")}
    chosen: Any = {"scoring": "on", "claim_form": "question", "models": roles, "debaters": READERS, "max_rounds": 1}
    text = "\n".join(run_on_screen("tool_mad", capsys, **chosen)[0])
    for words in (
        "Round 1: rag SUPPORTS, search SUPPORTS: they agree; the scores decide whether that is stable.",
        "rag        scores r1  faithfulness 0.50 < 0.70; answer relevance 1.00 >= 0.80",
        "The consensus is not stable (rag's faithfulness, search's faithfulness below the threshold): the judge ",
    ):
        assert text.count(words) == 1
    assert "rounds are used up" not in text


def test_the_output_names_the_sources_used_instead_of_the_web(
    start_stub: StartStub, capsys: pytest.CaptureFixture[str]
) -> None:
    start_stub()
    lines, labelled = run_on_screen("madke", capsys, max_rounds=1, sources=["web", ENCYCLOPAEDIA], corpus="demo-news")
    assert labelled[0] == ("pool", "finds     ")
    assert lines.index("Round 1") > next(i for i, line in enumerate(lines) if "10. " in line)
    assert any("pool read bm25:demo-news (instead of the web" in line for line in lines)
    assert any(f"and {ENCYCLOPAEDIA}." in line for line in lines)


# --- updates of single nodes ----------------------------------------------------------------------------------------


def printed_lines(settings: Settings, *updates: dict[str, Any], width: int = 200, **terminal: Any) -> list[str]:
    """The lines that the screen prints for these updates, without trailing spaces."""
    page = io.StringIO()
    live = Live(settings)
    screen = Screen(Console(file=page, width=width, soft_wrap=not terminal, **terminal), live.speakers)
    for update in updates:
        screen.show(live.feed(update))
    return [line.rstrip() for line in page.getvalue().splitlines()]


def turn(agent: str, step: str, round: int = 1, **fields: Any) -> dict[str, Any]:
    key = {"round": round, "phase": "primary", "agent": agent, "step": step}
    return {**key, "query": None, "evidence_ids": [], "scores": {}, **fields}


def piece(number: int, title: str) -> dict[str, Any]:
    return {"id": f"ev-{number}", "title": title, "source": "Notes", "text": "text", "retrievals": []}


POOL = {
    "turns": [turn("pool", "retrieve", query="q", evidence_ids=["ev-1", "ev-2"], retrieval="ok")],
    "evidence": [piece(1, "Tin"), piece(2, "Lead")],
    "corpora": [],
}


def test_selected_pool_items_are_shown() -> None:
    base = turn("debater-1", "respond")
    selected = {**base, "selected": [2], "dropped": [7], "reason": "It is near.", "evidence_ids": ["ev-2"]}
    nameless = [{**piece(2, "Lead"), "title": ""}]  # the screen takes the title from the pool
    answered = {**selected, "answer": "REFUTES", "rationale": "Reasons.", "outcome": "ok"}
    lines = printed_lines(
        MadkeSettings(),
        POOL,
        {"turns": [selected], "evidence": nameless},
        {"turns": [turn("debater-2", "respond", selected=[], dropped=[], reason="None helps.")]},
        {"turns": [turn("debater-3", "respond", selected=None, dropped=[], reason=None)]},
        {"turns": [answered]},
        {"turns": [answered], "evidence": nameless},  # the update of the subgraph repeats the update of its node
        {"turns": [turn("debater-2", "respond", answer=None, rationale=None, outcome="refused")]},
    )
    assert lines == [
        "  pool       finds      1. Tin (Notes) [ev-1]",
        "  pool       finds      2. Lead (Notes) [ev-2]",
        "Round 1",
        "  debater-1  selects    Lead [ev-2] (there is no item 7) - It is near.",
        "  debater-2  selects    nothing - None helps.",
        "  debater-3  selects    nothing: its reply could not be used",
        "  debater-1  answers    REFUTES - Reasons.",
        "  debater-2  answers    no usable reply (refused)",
    ]


def test_the_judges_findings_and_the_summary_are_shown() -> None:
    votes = [{"agent": f"debater-{i}", "answer": "SUPPORTS", "group": 0} for i in (1, 2)]
    summary = turn("summariser", "summarise", 2, answer="SUPPORTS", rationale="All say so.", outcome="ok")
    lines = printed_lines(
        MadkeSettings(),
        recorded_round(1, votes=votes[:1]),  # the second debater has not spoken yet
        recorded_round(1, votes=votes),
        recorded_round(1, reason="no_agreement"),
        {"turns": [turn("judge", "agree", agree=False, reason="Not quite.", outcome="ok")]},
        {"turns": [turn("judge", "agree", 2, agree=None, reason=None, outcome="unparsed")]},
        {"turns": [turn("judge", "agree", 3, agree=True, reason="They do.", outcome="ok")]},
        {"turns": [summary], "answer": "SUPPORTS", "stop_reason": "consensus"},
    )
    assert [line for line in lines if line.startswith("  ")] == [
        "  Round 1: SUPPORTS from debater-1, debater-2.",
        "  judge      finds      no agreement - Not quite.",
        "  judge      finds      no usable reply (unparsed)",
        "  judge      finds      agreement - They do.",
        "  The debate stops: consensus.",
        "  summariser concludes  SUPPORTS - reasons: see the verdict",
    ]


def test_searches_of_an_agent_with_tools_are_shown() -> None:
    first = turn("agent-1", "act", number=1, thought="Who knows?", tool="search_bm25", query="tin")
    second = {**first, "number": 2, "query": "lead"}
    failed = turn("agent-1", "act", number=3, thought="", tool="no_such", outcome="unparsed")
    lines = printed_lines(
        ReactSettings(),
        {"turns": [first, second, failed]},
        {"turns": [{**second, "evidence_ids": ["ev-2"], "retrieval": "ok"}], "evidence": [piece(2, "Lead")]},
        {"turns": [{**first, "retrieval": "empty"}], "corpora": [{"retriever": "bm25:x"}]},
        {"turns": [turn("agent-1", "respond", thought="I wonder.")]},
        {"turns": [turn("agent-1", "respond", thought="I wonder.", answer="REFUTES", rationale="So it is.")]},
    )
    assert lines == [
        "  agent-1    thinks     Who knows?",
        "  agent-1    asks 1     search_bm25: tin",
        "  agent-1    asks 2     search_bm25: lead",
        "  agent-1    asks 3     no_such: (not carried out)",
        "  agent-1    finds 2    Lead (Notes) [ev-2]",
        "  agent-1    finds 1    nothing in bm25:x",
        "  agent-1    thinks     I wonder.",
        "  agent-1    answers    REFUTES - reasons: see the verdict",
    ]


def test_the_screen_shows_which_agents_each_agent_hears() -> None:
    weights = {"agent-1": {"agent-2": 0.06, "agent-3": 0.15}, "agent-2": {"agent-1": 0.08}, "agent-3": {}}
    kept_edges = {"agent-1": ["agent-3"], "agent-2": ["agent-1"], "agent-3": []}
    entry = {"round": 1, "confidence": {}, "recalibrated": {}, "weights": weights, "kept": kept_edges}
    plain = {"round": 2, "kept": {"agent-1": ["agent-2"]}, "weights": {}}
    assert printed_lines(CortexSettings(), {"graphs": [entry]}, {"graphs": [entry, plain]}) == [
        "Round 1",
        "  agent-1    hears      agent-3 (0.15); not agent-2 (0.06)",
        "  agent-2    hears      agent-1 (0.08)",
        "  agent-3    hears      nobody",
        "Round 2",
        "  agent-1    hears      agent-2",
    ]


def test_steps_of_reviewers_summarisers_and_moderators_are_shown() -> None:
    lines = printed_lines(
        MadkeSettings(),
        {"turns": [turn("a", "review", number=2, reviewed="b", comment="Weak.", confidence=7.0, outcome="ok")]},
        {"turns": [turn("a", "review", number=3, reviewed="c", comment=None, confidence=None, outcome="empty")]},
        {"turns": [turn("a", "score", number=1, reviewed="b", score=0.5, outcome="ok")]},
        {"turns": [turn("group-1", "summarise", summary="In short.", outcome="ok")]},
        {"turns": [turn("moderator", "moderate", preferred=None, reason="Both err.", outcome="ok")]},
        {
            "turns": [turn("moderator", "moderate", 2, preferred="REFUTES", reason="It holds.", outcome="ok")],
            "stop_reason": "judge_preference",
        },
        {
            "turns": [
                turn(
                    "b",
                    "compare",
                    2,
                    role="equivalence",
                    comparisons=[{"with": "NYC", "same": True, "reason": "A name."}],
                )
            ]
        },
        {"turns": [turn("c", "respond", 2, answer="Rome", rationale="Old.", confidence=0.9, outcome="ok")]},
    )
    assert [line for line in lines if line.startswith("  ")] == [
        "  a          reviews    b: Weak. (sure: 7 of 10)",
        "  a          reviews    c: no usable reply (empty)",
        "  a          scores     b: 0.50",
        "  group-1    sums up    In short.",
        "  moderator  prefers    no answer yet - Both err.",
        "  moderator  prefers    REFUTES - reasons: see the verdict",
        "  The debate stops: the moderator prefers an answer.",
        '  b          compared   means the same as "NYC" - A name.',
        "  c          answers    Rome (says it is 90% sure) - Old.",
    ]


@pytest.mark.parametrize(
    ("rounds", "new", "end"),
    [
        (2, 1, "the searches found something new, so the debate searches on."),
        (1, 1, "the searches found something new, but the rounds are used up, so the debate ends."),
        (2, 0, "the searches found nothing new, so the debate ends."),
    ],
)
def test_an_open_agreement_says_why_the_debate_searches_on_or_ends(rounds: int, new: int, end: str) -> None:
    votes = [{"agent": name, "answer": "NOT ENOUGH INFO", "group": 0} for name in ("rag", "search")]
    searches = [{"agent": "rag", "round": 1, "queries": ["tin"], "found": 1, "new": new}]
    settings = ToolMadSettings(preset="practical", max_rounds=rounds)
    (line,) = printed_lines(settings, recorded_round(1, votes=votes, reason="open", searches=searches))
    assert line.endswith(f": they agree that the evidence settles nothing; {end}")


def test_many_equal_votes_are_printed_as_a_count() -> None:
    votes = [{"agent": "a", "answer": "yes", "group": 0, "number": i} for i in range(1, 11)]
    votes += [{"agent": "a", "answer": "no", "group": 1, "number": 11}, {"agent": "a", "answer": None, "group": None}]
    lines = printed_lines(Settings(), recorded_round(1, votes=votes) | {"stop_reason": "budget_exhausted"})
    assert lines == ["  Votes: yes from 10 of 12; no from answer 11; no answer from a.", "  The budget is used up."]


def test_control_characters_and_markup_in_texts_have_no_effect() -> None:
    nasty = "\x1b[31m[bold]red[/bold]\x07"
    clean = "[31m[bold]red[/bold]"
    document = {"graph": "madke", "claim": nasty, "task": {"subject": "claim", "labels": [], "kind": "number"}}
    answer = turn("debater-1", "respond", answer=nasty, rationale=nasty, outcome="ok")
    found = {**piece(1, nasty), "source": nasty}
    pool = {**POOL, "turns": [turn("pool", "retrieve", evidence_ids=["ev-1"], retrieval="ok")], "evidence": [found]}
    votes = [{"agent": f"debater-{i}", "answer": nasty, "group": 0} for i in (1, 2)]
    lines = printed_lines(MadkeSettings(), document, pool, {"turns": [answer]}, recorded_round(1, votes=votes))
    assert lines == [
        f"Claim: {clean}",
        "Graph madke; answers: number",
        f"  pool       finds      1. {clean} ({clean}) [ev-1]",
        "Round 1",
        f"  debater-1  answers    {clean} - {clean}",
        f"  Round 1: {clean} from debater-1, debater-2.",
    ]
