"""Trials on the screen: what is printed of what the nodes of PROClaim write, from the premises to the dissent."""

from __future__ import annotations

import asyncio
import io
import itertools
import re
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from moot.cli.options import parse_settings
from moot.cli.screen import Screen
from moot.cli.tables import settings_table
from moot.cli.verify import debate
from moot.core.errors import UserError
from moot.graphs import load_graph
from moot.graphs.proclaim import ProclaimSettings
from moot.nodes.runtime.document import blank_document
from moot.nodes.runtime.running import Running
from moot.nodes.texts.task import make_task
from moot.retrievers.evidence import evidence_id
from moot.transcript import Live, ending
from moot.transcript.floor import Floor
from rich.console import Console

from tests.conftest import StartStub

CLAIM = "The kilogram is no longer defined by a metal cylinder kept in France."
TEXTS = {
    "Definition": "Since 2019 one constant of nature fixes every unit of mass.",
    "Custody": "Three keys open that vault below Sèvres where old weights rest.",
    "Football": "Eleven players chase balls across green pitches most Saturdays.",
    "Amperes": "Electric currents received new definitions beside kelvins then.",
    "Balance": "Kibble devices compare mechanical with electrical power precisely.",
    "Bureau": "Delegates voted unanimously during November near Versailles itself.",
}
"""What the source holds, by titles; no two share a word, so that each is new beside the others."""
IDS = {title: evidence_id("Shelf", text) for title, text in TEXTS.items()}


class Shelf(BaseRetriever):
    """A source that finds what a query names: ``#Balance``, and for a query that names nothing three pieces."""

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        named = re.findall(r"#(\w+)", query) or ["Definition", "Custody", "Football"]
        if "Down" in named:
            raise ConnectionError("the shelf is locked")
        return [Document(TEXTS[t], metadata={"title": t, "source": "Shelf"}) for t in named if t in TEXTS]


shelf = Shelf()


def of(title: str) -> str:
    """A piece as it is printed."""
    return f"{title} [{IDS[title]}]"


def rule(role: str, match: str = "", times: int | None = None, **fields: Any) -> dict[str, Any]:
    """What a role replies, where its prompt matches; without fields, nothing that can be used."""
    said = {"fields": fields} if fields else {"reply": "I would rather not say."}
    return {"model": f"stub-({role})$", "match": match, **said} | ({"times": times} if times else {})


def counsel(role: str, side: str, field: str, times: int | None = None, **fields: Any) -> dict[str, Any]:
    """What a counsel replies on a side's behalf, when it is asked for a field."""
    return rule(role, f"counsel for the {side}.*`{field}`", times, **fields)


def argues(role: str, side: str, text: str, *citations: tuple[str, str]) -> dict[str, Any]:
    cited = [{"evidence_id": id, "quote": quote} for id, quote in citations]
    return counsel(role, side, "argument", 1, argument=text, citations=cited)


def reflects(role: str, side: str, *flaws: str, **three: float) -> dict[str, Any]:
    return counsel(role, side, "flaws", None, flaws=list(flaws), **three, discovery_need="", refined_stance="")


def weighs(title: str, relevance: float, credibility: float) -> dict[str, Any]:
    return rule("arbiter", f"\n{title} \\(", relevance=relevance, credibility=credibility, reason="As it reads.")


def judges(number: int, verdict: str, *scores: float) -> dict[str, Any]:
    names = ("evidence_strength", "argument_validity", "scientific_reliability")
    given = dict(zip(names, scores, strict=True))
    return rule(f"judge-{number}", "", None, verdict=verdict, reason=f"Reason {number}.", **given)


CRITIQUE: dict[str, Any] = {
    "plaintiff": {"logic": 0.9, "evidence": 0.8, "rebuttal": 0.7, "reason": "It is clear."},
    "defense": {"logic": 0.4, "evidence": 0.3, "rebuttal": 0.2, "reason": "It is not."},
    "unresolved_premises": ["It is in France."],
    "recommendations": {"plaintiff": [], "defense": [], "queries": []},
    "debate_resolved": False,
}
SCRIPT = [
    rule("miner", premises=["It was a cylinder. #Definition", "It is in France. #Custody #Amperes"]),
    rule("negotiator", supporting_query="for it #Balance", challenging_query="against it #Nothing"),
    counsel(
        "defense",
        "defense",
        "challenges",
        challenges=[
            {"evidence_id": IDS["Balance"], "reason": "It is beside the point."},
            {"evidence_id": "ev-none", "reason": "It is old."},
            {"evidence_id": IDS["Football"], "reason": "Nobody showed it."},
        ],
    ),
    weighs("Definition", 0.9, 0.9),
    weighs("Custody", 0.5, 0.6),
    weighs("Football", 0.1, 0.5),
    weighs("Balance", 1.0, 0.9),
    rule("arbiter", "\nAmperes \\("),
    # searches
    counsel("plaintiff", "plaintiff", "gap", 1, gap="Who decided it."),
    counsel("plaintiff", "plaintiff", "gap", None, gap="Nothing more."),
    counsel("defense", "defense", "gap"),
    counsel("plaintiff|defense", "(plaintiff|defense)", "gap", None, gap="Anything."),
    rule("retrieval", "\nWho decided it", query="who decided it"),
    rule("retrieval", "\nNothing more", query="no more #Down"),
    rule("retrieval", query="anything #Definition"),
    rule("court", "<query>\nwho decided it", query="who decided it #Bureau #Football"),
    rule("court", "<query>"),
    # what is said
    argues("plaintiff", "plaintiff", "A constant defines it.", (IDS["Definition"], "one constant of nature")),
    argues("defense", "defense", "It is in the vault.", ("ev-none", "made up"), (IDS["Definition"], "made up")),
    argues("plaintiff", "plaintiff", "The defense granted it."),
    counsel("defense", "defense", "argument"),
    argues("defense", "plaintiff", "No object defines it."),
    argues("plaintiff", "defense", "The object is there."),
    counsel("plaintiff", "plaintiff", "needed", 1, needed=True, expertise="metrology", reason="To be clear."),
    counsel("defense", "defense", "needed", 1, needed=True, expertise="law", reason="To be sure."),
    rule("plaintiff|defense", "`needed`", needed=False, expertise="", reason=""),
    rule("court", "By the plaintiff.*`granted`", granted=True, reason="It helps."),
    rule("court", "`granted`", granted=False, reason="It does not."),
    rule("expert", testimony="The vault holds a secondary standard.", citations=[]),
    reflects("plaintiff", "plaintiff", "One source alone.", "No date.", logic=0.8, novelty=0.6, rebuttal=0.4),
    reflects("defense", "defense", logic=0.57, novelty=0.57, rebuttal=0.57),
    rule("plaintiff|defense", "`flaws`"),
    rule("critic", "The defense granted it", **CRITIQUE | {"debate_resolved": True, "unresolved_premises": []}),
    rule("critic", "No object defines it"),
    rule("critic", **CRITIQUE),
    rule("court", "`close`", close=True, reason="All is said."),
    # the panel
    rule("analyser", plaintiff_counsel=8, defense_counsel=9, overall=8.5, contradictions=["Once it was, once not."]),
    judges(1, "NOT SUPPORTED", 7, 8, 8),
    judges(2, "SUPPORTED", 7, 6, 8),
    judges(3, "NOT SUPPORTED", 8, 7, 9),
    {"fields": {"citations": [], "challenges": []}},
]


def run(capsys: pytest.CaptureFixture[str], given: dict[str, Any] | None = None, **more: Any) -> list[str]:
    """The lines of a trial by script, in which every role has a model of its own."""
    judged = {"judges": more["judges"]} if "judges" in more else {}
    models = {role: f"openai:stub-{role}" for role in ProclaimSettings.model_validate(judged).roles()}
    chosen = {"sources": [f"langchain:{__name__}:shelf"], "embedder": "openai:stub-embedding", "attempts": 1} | more
    settings = ProclaimSettings.model_validate({**chosen, "models": models})
    debate(load_graph("proclaim"), {"claim": CLAIM, **(given or {})}, settings, as_json=False, out=None)
    return capsys.readouterr().out.splitlines()


def part(lines: list[str], heading: str) -> list[str]:
    """The lines under a heading."""
    begin = lines.index(heading) + 1
    ends = (i for i, line in enumerate(lines) if i >= begin and not line.startswith("  "))
    return lines[begin : next(ends, None)]


def in_order(lines: Sequence[str], *wanted: str) -> None:
    """Checks that these are lines, each once, and in this order; others may stand between them."""
    assert [line for line in lines if line in wanted] == list(wanted)


PRIMARY = "Primary debate, round {}"
SWITCHED = "Switched debate, round {} (the counsel have changed sides)"


def test_a_trial_from_its_premises_to_the_dissent(start_stub: StartStub, capsys: pytest.CaptureFixture[str]) -> None:
    start_stub(SCRIPT)
    lines = run(capsys, max_rounds=3, switched_rounds=1)
    headings = [
        line for line in lines if line in {"Panel", *(d.format(n) for d in (PRIMARY, SWITCHED) for n in (1, 2))}
    ]
    assert sorted(headings) == sorted([PRIMARY.format(1), SWITCHED.format(1), PRIMARY.format(2), "Panel"])
    assert (headings[0], headings[-1]) == (PRIMARY.format(1), "Panel")

    source = f"langchain:{__name__}:shelf"
    negotiation = [
        "  miner      premise 1  It was a cylinder. #Definition",
        "  miner      premise 2  It is in France. #Custody #Amperes",
        "  negotiator asks       to support it: for it #Balance",
        "  negotiator asks       to challenge it: against it #Nothing",
        f"  defense    finds      to challenge it: nothing in {source}",
        "  retrieval  finds      3 pieces for the claim: Definition; Custody; Football",
        "  retrieval  finds      3 pieces for the premises, 1 of them new: Amperes",
        "  plaintiff  finds      1 piece to support it: Balance",
        f"  defense    challenges {of('Balance')} - It is beside the point.",
        "  defense    challenges ev-none (no such piece was shown) - It is old.",
        f"  defense    challenges {IDS['Football']} (no such piece was shown) - Nobody showed it.",
        f"  arbiter    weighs     {of('Amperes')} (no usable reply: unparsed)",
        f"  arbiter    admits     2 pieces (above 0.5): {of('Balance')} 0.90; {of('Definition')} 0.81",
        f"  arbiter    disputes   1 piece (above 0.1; for the panel alone): {of('Custody')} 0.30",
        f"  arbiter    discards   1 piece: {of('Football')} 0.05",
    ]
    shown = part(lines, "Negotiation of the evidence")
    assert sorted(shown) == sorted(negotiation)
    in_order(shown, *negotiation[4:])

    said = part(lines, PRIMARY.format(1))
    plaintiff = [
        "  plaintiff  lacks      Who decided it.",
        "  plaintiff  asks       who decided it #Bureau #Football (as the court refined it)",
        "  plaintiff  finds      2 pieces; 1 joins the record (mean novelty 0.92; 1 not admitted before): "
        f"{of('Bureau')}",
        "  plaintiff  argues     A constant defines it.",
    ]
    defense = [
        "  defense    lacks      (no usable reply: unparsed)",
        "  defense    asks       anything #Definition",
        "  defense    finds      1 piece; none joins the record (mean novelty 0.00)",
        "  defense    searches   no more: 100% of it is redundant (above 70%)",
        "  defense    argues     It is in the vault.",
    ]
    cites = [
        f"             cites      {of('Definition')}",
        f"             cites      ev-none (no such piece was shown); {of('Definition')} (the quote is not found there)",
    ]
    experts = [
        "  plaintiff  wants      an expert on metrology - To be clear.",
        "  court      hears      the plaintiff's expert - It helps.",
        "  expert     testifies  (called by the plaintiff, on metrology) The vault holds a secondary standard.",
    ]
    refused = [
        "  defense    wants      an expert on law - To be sure.",
        "  court      refuses    the defense's expert - It does not.",
    ]
    reflections = [
        "  plaintiff  reflects   0.62 (logic 0.80, novelty 0.60, rebuttal 0.40) - One source alone. No date.",
        "  defense    reflects   0.57 (logic 0.57, novelty 0.57, rebuttal 0.57)",
    ]
    scores = [
        "  critic     scores     plaintiff: logic 0.90, evidence 0.80, rebuttal 0.70 - It is clear.",
        "  critic     scores     defense: logic 0.40, evidence 0.30, rebuttal 0.20 - It is not.",
    ]
    still = "  critic     finds      still open: It is in France."
    early = "  court      decides    to close the debate (which does not end it before round 2) - All is said."
    everything = [*plaintiff, *defense, *cites, *experts, *refused, *reflections, *scores, still, early]
    assert sorted(said) == sorted(everything)
    in_order(said, *plaintiff, cites[0], defense[-1], cites[1], *experts, reflections[0])
    in_order(said, *defense, *refused, reflections[1])
    in_order(said, experts[-1], *scores, still)
    in_order(said, experts[-1], early)

    said = part(lines, PRIMARY.format(2))
    in_order(
        said,
        "  plaintiff  lacks      Nothing more.",
        "  plaintiff  asks       no more #Down",
        "  plaintiff  finds      nothing, as a source could not be searched",
        "  plaintiff  argues     The defense granted it.",
        "  defense    argues     (no usable reply: unparsed)",
        "  critic     finds      the debate resolved",
        "  The primary debate stops after 2 rounds: the critic finds it resolved.",
    )
    assert not [line for line in said if "joins" in line or "finds      nothing in" in line or " wants " in line]
    assert "  court      decides    to close the debate - All is said." in said

    said = part(lines, SWITCHED.format(1))
    in_order(
        said,
        "  plaintiff  argues     (by the defense's counsel) No object defines it.",
        "  defense    argues     (by the plaintiff's counsel) The object is there.",
        "  defense    reflects   (no usable reply: unparsed)",
        "  The switched debate stops after 1 round: its rounds are used up.",
    )
    assert "  critic     scores     (no usable reply: unparsed)" in said

    said = part(lines, "Panel")
    assert said[:2] == [
        "  analyser   finds      consistency 8.5 of 10 (the plaintiff's counsel 8.0, the defense's counsel 9.0)",
        "  analyser   finds      a contradiction: Once it was, once not.",
    ]
    assert sorted(said[2:]) == [
        "  judge-1    decides    NOT SUPPORTED (evidence 7, arguments 8, reliability 8 of 10) - Reason 1.",
        "  judge-2    decides    SUPPORTED (evidence 7, arguments 6, reliability 8 of 10) - Reason 2.",
        "  judge-3    decides    NOT SUPPORTED (evidence 8, arguments 7, reliability 9 of 10) - Reason 3.",
    ]

    verdict = "Verdict: REFUTES (NOT SUPPORTED by 2 of 3 judges; critic_resolved)"
    assert part(lines, verdict) == [
        "  Confidence 0.90 = base 0.76 (2 of 3 votes, quality 0.76) + role switch 0.10 + reflection 0.04",
        "  judge-1    because    Reason 1.",
        "  judge-3    because    Reason 3.",
        f'  defense    cites      [{IDS["Definition"]}] Definition (Shelf): "made up" (not found in the text)',
        "  judge-2    dissents   SUPPORTED - Reason 2.",
    ]
    assert " calls, 2 + 1 rounds, " in lines[lines.index("Warnings:") - 1]
    assert not [line for line in lines if "most votes" in line or re.match(r"  Round|  Votes|Round", line)]


def test_a_panel_of_another_size_and_a_trial_without_its_parts(
    start_stub: StartStub, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = [rule("judge-4"), judges(5, "NOT SUPPORTED", 5, 5, 5)]
    start_stub([*silent, *SCRIPT])
    off: dict[str, Any] = {"role_switch": False, "progressive_retrieval": False, "self_reflection": False}
    lines = run(capsys, judges=5, **off)
    assert [line for line in lines if line.endswith(tuple("123")) and "debate" in line] == [
        PRIMARY.format(number) for number in (1, 2, 3)
    ]
    assert part(lines, "Verdict: REFUTES (NOT SUPPORTED by 3 of 4 judges; judge-4 gave no verdict; max_rounds)")[0] == (
        "  Confidence 0.81 = base 0.81 (3 of 4 votes, quality 0.69) + role switch 0.00 (no score) "
        "+ reflection 0.00 (no score)"
    )
    held = "(which does not end it: without progressive retrieval all rounds are held)"
    assert sum(line == f"  critic     finds      the debate resolved {held}" for line in lines) == 1
    assert "  judge-4    decides    (no usable reply: unparsed)" in part(lines, "Panel")
    for words in ("lacks", "reflects", "analyser", "consistency", "searches"):
        assert not any(words in line for line in lines if line.startswith("  ")), words


def test_why_there_is_no_answer(start_stub: StartStub, capsys: pytest.CaptureFixture[str]) -> None:
    open_verdicts = [judges(number, "INCONCLUSIVE", 3, 3, 3) for number in (1, 2)]
    start_stub([*open_verdicts, *SCRIPT])
    given = {"labels": ["true", "false"]}
    lines = run(capsys, given, inconclusive="abstain", max_rounds=2, switched_rounds=1)
    none = "Verdict: none, as the panel finds the claim INCONCLUSIVE, which is none of the answers "
    assert part(lines, f"{none}(INCONCLUSIVE by 2 of 3 judges; critic_resolved)")[1:] == [
        "  judge-1    because    Reason 1.",
        "  judge-2    because    Reason 2.",
        "  judge-3    dissents   NOT SUPPORTED - Reason 3.",
    ]
    start_stub([*open_verdicts, *SCRIPT])
    lines = run(capsys, given, inconclusive="burden_of_refutation", max_rounds=2, switched_rounds=1)
    assert "Verdict: true (INCONCLUSIVE by 2 of 3 judges, and so not refuted; critic_resolved)" in lines


def test_a_trial_that_fails_shows_what_there_was(start_stub: StartStub, capsys: pytest.CaptureFixture[str]) -> None:
    down = {"model": "stub-plaintiff$", "match": "counsel for the plaintiff.*`argument`", "status": 500}
    start_stub([down, *SCRIPT])
    lines = run(capsys, max_rounds=2)
    end = next(i for i, line in enumerate(lines) if line.startswith("No verdict (server_error at plaintiff: argue"))
    assert "  plaintiff  argues     (by the defense's counsel) No object defines it." in part(lines, SWITCHED.format(1))
    assert SWITCHED.format(1) in lines[:end]
    assert not any("argues" in line for line in part(lines, PRIMARY.format(1)))


def test_any_replies_are_shown(start_stub: StartStub, capsys: pytest.CaptureFixture[str]) -> None:
    start_stub()
    settings = load_graph("proclaim").settings.model_validate(
        {"model": "fake:3", "embedder": "openai:stub-embedding", "sources": ["bm25"], "max_rounds": 3}
    )
    assert debate(load_graph("proclaim"), {"claim": CLAIM}, settings, as_json=False, out=None) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"Claim: {CLAIM}"
    headings = [line for line in lines if re.match(r"Primary|Switched|Negotiation|Panel", line)]
    assert len(headings) == len(set(headings)) >= 6
    assert sum(line.startswith("Verdict: ") for line in lines) == 1
    for heading in headings[1:-1]:
        said = [line for line in part(lines, heading) if " argues " in line]
        assert len(said) == 2, heading


# --- what single nodes write ----------------------------------------------------------------------------------------


def printed(*written: dict[str, Any], width: int = 200, document: Any = None, **terminal: Any) -> list[str]:
    """The lines of what nodes wrote, and of the end where a document is given."""
    page = io.StringIO()
    console = Console(file=page, width=width, soft_wrap=not terminal, **terminal)
    live = Live(ProclaimSettings())
    screen = Screen(console, live.speakers)
    for one in written:
        screen.show(live.feed(one))
    if document is not None:
        screen.show(live.end(document))
    return [line.rstrip() for line in page.getvalue().splitlines()]


def turn(agent: str, step: str, phase: str = "primary", round: int = 1, **fields: Any) -> dict[str, Any]:
    key = {"round": round if phase in ("primary", "switched") else 0, "phase": phase, "agent": agent, "step": step}
    return {**key, "role": agent, "side": None, "query": None, "evidence_ids": [], "scores": {}, **fields}


def entry(phase: str, rounds: int, reason: str, **course: Any) -> dict[str, Any]:
    return {"debates": [{"phase": phase, "rounds": rounds, "stop_reason": reason, **course}]}


def argued(phase: str, round: int, text: str) -> dict[str, Any]:
    said = turn("plaintiff", "argue", phase, round, side="plaintiff", argument=text, citations=[], outcome="ok")
    return {"turns": [said]}


COURSE: dict[str, Any] = {"reflection_total": [0.5, 1.204, 1.2, 1.22], "novelty": [0.5, None, 0.06, 0.0]}


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("reflection_plateau", "the sides' reflections hardly change any more (in sum 1.20, 1.20, 1.22)"),
        ("critic_resolved", "the critic finds it resolved"),
        ("novelty_exhausted", "what is found is hardly new any more (mean novelty 0.06, 0.00)"),
        ("judicial_signal", "the court closes it"),
        ("max_rounds", "its rounds are used up"),
    ],
)
def test_why_a_debate_stops(reason: str, words: str) -> None:
    stopped = entry("primary", 4, reason, **COURSE)
    lines = printed(argued("primary", 1, "So."), stopped, stopped)  # the subgraph's own update says it again
    assert lines[-1] == f"  The primary debate stops after 4 rounds: {words}."
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        ("redundancy", "67% of it is redundant (above 60%)"),
        ("retrievals", "it may make 4 retrievals"),
        ("relevance_gain", "it gained less than 0.05 in relevance"),
    ],
)
def test_why_a_side_searches_no_more(ended: str, words: str) -> None:
    live = Live(ProclaimSettings(redundant_share=0.6, max_retrievals=4, relevance_gain=0.05))
    found: dict[str, Any] = {
        "joined": [],
        "ended": ended,
        "scores": {"redundancy": 2 / 3, "novelty": 0.1},
        "evidence_ids": ["a"],
    }
    said = live.feed({"turns": [turn("defense", "discover", "switched", side="plaintiff", **found)]})
    said += live.end(blank_document("proclaim", ProclaimSettings()))
    assert [(line.who, line.what, line.text) for line in said[1:3]] == [
        ("plaintiff", "finds", "1 piece; none joins the record (mean novelty 0.10)"),
        ("plaintiff", "searches", f"no more: {words}"),
    ]


def test_replies_that_cannot_be_used_are_shown_as_that() -> None:
    nothing: dict[str, Any] = {"outcome": "refused"}
    discover = turn("plaintiff", "discover", side="plaintiff", gap=None, **nothing)
    asked = discover | {"formulated": None, "query": CLAIM, "retrieval": "empty"}
    lines = printed(
        {"turns": [turn("miner", "premises", "negotiation", premises=None, **nothing)]},
        {"turns": [turn("negotiator", "stance_queries", "negotiation", supporting_query=None, **nothing)]},
        {"turns": [turn("defense", "challenge", "negotiation", side="defense", challenges=None, **nothing)]},
        {"turns": [turn("plaintiff", "challenge", "negotiation", side="plaintiff", challenges=[], outcome="ok")]},
        {"turns": [discover]},
        {"turns": [asked], "corpora": [{"retriever": "bm25:x"}]},
        {"turns": [turn("plaintiff", "argue", side="plaintiff", argument=None, citations=[], **nothing)]},
        {"turns": [turn("plaintiff", "request_expert", side="plaintiff", needed=None, reason=None, **nothing)]},
        {"turns": [turn("court", "rule_on_expert", side="defense", granted=None, reason=None, **nothing)]},
        {"turns": [turn("expert", "testify", side="defense", testimony=None, expertise="law", **nothing)]},
        {"turns": [turn("plaintiff", "reflect", side="plaintiff", logic=None, flaws=None, **nothing)]},
        {"turns": [turn("critic", "critique", debate_resolved=None, **nothing)]},
        {"turns": [turn("court", "close", close=None, reason=None, **nothing)]},
        {"turns": [turn("analyser", "analyse", "panel", overall=None, contradictions=None, **nothing)]},
        {"turns": [turn("judge-2", "judge", "panel", verdict=None, reason=None, **nothing)]},
    )
    none = "(no usable reply: refused)"
    assert lines == [
        "Negotiation of the evidence",
        f"  miner      finds      {none}",
        f"  negotiator asks       {none}",
        f"  defense    challenges {none}",
        "  plaintiff  challenges nothing",
        "Primary debate, round 1",
        f"  plaintiff  lacks      {none}",
        f"  plaintiff  asks       {CLAIM} (as no query could be formulated)",
        "  plaintiff  finds      nothing in bm25:x",
        f"  plaintiff  argues     {none}",
        f"  plaintiff  wants      {none}",
        f"  court      rules      on the defense's expert {none}",
        f"  expert     testifies  {none}",
        f"  plaintiff  reflects   {none}",
        f"  critic     scores     {none}",
        f"  court      decides    {none}",
        "Panel",
        f"  analyser   finds      {none}",
        f"  judge-2    decides    {none}",
    ]


def test_what_was_looked_for_and_not_found() -> None:
    seed = turn("retrieval", "retrieve_seed", "negotiation", pool="seed", retrieval="failed")
    premise = turn("retrieval", "retrieve_premise", "negotiation", pool="premises", number=2, retrieval="empty")
    task = make_task("pubmedqa", None, None, "Is tin soft?")
    opening = {"graph": "proclaim", "claim": "Is tin soft?", "task": task}
    assert printed(opening, {"turns": [seed]}, {"turns": [premise], "corpora": [{"retriever": "bm25:x"}]})[-2:] == [
        "  retrieval  finds      for the question: nothing, as a source could not be searched",
        "  retrieval  finds      for premise 2: nothing in bm25:x",
    ]


def test_nothing_is_admitted_and_many_pieces_are_counted() -> None:
    pieces = [{"id": f"ev-{n}", "title": f"T{n}", "source": "S", "text": "t", "retrievals": []} for n in range(1, 8)]
    found = [{**piece, "pool": "seed", "status": "seed"} for piece in pieces]
    weights = [{**piece, "weight": n / 100, "status": "discarded"} for n, piece in enumerate(found, 1)]
    ids = [piece["id"] for piece in pieces]
    seed = turn("retrieval", "retrieve_seed", "negotiation", pool="seed", retrieval="ok", evidence_ids=ids)
    lines = printed({"turns": [seed], "evidence": pieces}, {"evidence": found}, {"evidence": weights})
    assert lines[1:3] == [
        "  retrieval  finds      7 pieces for the claim: T1; T2; T3; T4; T5; and 2 more",
        "  arbiter    admits     nothing (above 0.5)",
    ]
    assert lines[3].startswith("  arbiter    discards   7 pieces: T7 [ev-7] 0.07; T6 [ev-6] 0.06; ")


def test_texts_of_models_stay_texts() -> None:
    nasty = "\x1b[31m[bold]red[/bold]\x07"
    clean = "[31m[bold]red[/bold]"
    challenges = [{"evidence_id": nasty * 20, "reason": nasty}]
    challenged = turn("defense", "challenge", "negotiation", side="defense", challenges=challenges, outcome="ok")
    premises = turn("miner", "premises", "negotiation", premises=[nasty, nasty], outcome="ok")
    shown = "".join(printed({"turns": [premises]}, {"turns": [challenged]}, argued("primary", 1, nasty)))
    assert "\x1b" not in shown
    assert shown.count(clean) >= 5


def test_long_texts_continue_under_themselves_in_a_terminal() -> None:
    text = "A rather long argument that has no end. " * 10
    lines = printed(argued("primary", 1, text), width=100, force_terminal=True, color_system=None)
    assert max(map(len, lines)) <= 100
    assert all(line.startswith(" " * 24) for line in lines[2:])


def test_long_names_of_judges_move_what_follows() -> None:
    page = io.StringIO()
    settings = ProclaimSettings.model_validate(
        {"judges": [{"name": "the-presiding-one"}, {"name": "b"}, {"name": "c"}]}
    )
    live = Live(settings)
    judged = {"turns": [turn(name, "judge", "panel", verdict=None) for name in ("the-presiding-one", "b")]}
    Screen(Console(file=page, width=200), live.speakers).show(live.feed(judged))
    assert [line.index("decides") for line in page.getvalue().splitlines()[1:]] == [20, 20]


# --- two debates at the same time -----------------------------------------------------------------------------------


def test_a_round_is_shown_whole_and_nothing_is_lost() -> None:
    first = [("primary", 1, "a"), ("primary", 1, "b"), ("primary", 2, "c"), ("primary", 3, "d")]
    second = [("switched", 1, "A"), ("switched", 2, "B"), ("switched", 2, "C")]
    for places in itertools.combinations(range(7), 3):  # every order in which the two may happen
        ones, others = iter(first), iter(second)
        happened = [next(others) if place in places else next(ones) for place in range(7)]
        floor, shown = Floor[tuple[str, int, str]]("primary"), list[tuple[str, int, str]]()
        for event in happened:
            shown += floor.tell(event[0], event[1], event, last=event in (first[-1], second[-1]))
        assert sorted(shown) == sorted([*first, *second])
        assert [event for event in shown if event in first] == first
        assert [event for event in shown if event in second] == second
        rounds = [key for key, _ in itertools.groupby(shown, key=lambda event: event[:2])]
        assert len(rounds) == len(set(rounds))


def test_the_other_debate_waits_for_the_round_to_end() -> None:
    before = [argued("primary", 1, "One."), argued("switched", 1, "Two."), argued("switched", 2, "Three.")]
    assert printed(*before) == ["Primary debate, round 1", "  plaintiff  argues     One."]
    shown = printed(*before, argued("primary", 2, "Four."))
    assert [line for line in shown if not line.startswith("  ")] == [
        PRIMARY.format(1),
        SWITCHED.format(1),
        PRIMARY.format(2),
    ]
    shown = printed(*before, entry("primary", 1, "max_rounds", **COURSE))
    assert shown[2:] == [
        "  The primary debate stops after 1 round: its rounds are used up.",
        SWITCHED.format(1),
        "  plaintiff  argues     Two.",
        SWITCHED.format(2),
        "  plaintiff  argues     Three.",
    ]


def test_an_interrupted_trial_shows_what_waited() -> None:
    document = blank_document("proclaim", ProclaimSettings())
    shown = printed(argued("primary", 1, "One."), argued("switched", 1, "Two."), document=document)
    assert shown[:5] == [
        PRIMARY.format(1),
        "  plaintiff  argues     One.",
        SWITCHED.format(1),
        "  plaintiff  argues     Two.",
        "Interrupted: no verdict.",
    ]


# --- the end --------------------------------------------------------------------------------------------------------


def ended(
    verdicts: Sequence[str | None], confidence: float, quotes: Sequence[str] = (), **parts: float | None
) -> list[str]:
    """The lines of a verdict of these judges with this confidence, and of what the plaintiff quoted."""
    given = [verdict for verdict in verdicts if verdict]
    raw = max(given, key=given.count)
    judged = [
        turn(f"judge-{n}", "judge", "panel", verdict=verdict, reason=f"Reason {n}.", outcome="ok")
        for n, verdict in enumerate(verdicts, 1)
    ]
    cited = [{"evidence_id": "ev-1", "quote": quote, "fabricated": False, "verified": True} for quote in quotes]
    known = {"base": 0.0, "role_switch": 0.0, "reflection": 0.0, "quality": 0.5, "consistency": 6.0}
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
        "confidence_parts": {**known, "winning_reflection": 0.5, **parts},
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
            "0.90 = base 0.76 (2 of 3 votes, quality 0.50) + role switch 0.10 + reflection 0.04",
        ),
        # with two digits that would be 0.65 + 0.10 + 0.04 = 0.80
        (
            0.79505,
            (0.65287, 0.1, 0.04218),
            "0.795 = base 0.653 (2 of 3 votes, quality 0.50) + role switch 0.100 + reflection 0.042",
        ),
        (
            0.5,
            (0.6, -0.05, -0.05),
            "0.50 = base 0.60 (2 of 3 votes, quality 0.50) - role switch 0.05 - reflection 0.05",
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
def test_confidence_as_a_sum(confidence: float, parts: tuple[float, float, float], words: str) -> None:
    named: dict[str, Any] = dict(zip(("base", "role_switch", "reflection"), parts, strict=True))
    lines = ended(["NOT SUPPORTED", "SUPPORTED", "NOT SUPPORTED"], confidence, **named)
    assert lines[1] == f"  Confidence {words}"


def test_parts_of_a_confidence_that_have_no_score() -> None:
    lines = ended(["INCONCLUSIVE"], 0.95, base=0.95, consistency=None, winning_reflection=None)
    assert lines[1].endswith(" + role switch 0.00 (no score) + reflection 0.00 (no score)")
    assert not any("cites" in line for line in lines)


def test_equal_votes_and_judges_without_a_verdict() -> None:
    lines = ended([None, "SUPPORTED", "NOT SUPPORTED"], 0.5, base=0.5)
    how = "SUPPORTED by 1 of 2 judges; with equal votes that of judge-2 holds; judge-1 gave no verdict; max_rounds"
    assert lines[0] == f"Verdict: SUPPORTS ({how})"
    assert lines[2:5] == [
        "  judge-2    because    Reason 2.",
        "  plaintiff  cites      nothing",
        "  judge-3    dissents   NOT SUPPORTED - Reason 3.",
    ]


def test_of_many_citations_some_are_printed() -> None:
    lines = ended(["SUPPORTED", "SUPPORTED", None], 0.5, [f"quote {number}" for number in range(12)], base=0.5)
    assert lines[4] == '  plaintiff  cites      [ev-1] Tin (Notes): "quote 0" (found word for word)'
    assert [line.split()[0] for line in lines[4:14]] == ["plaintiff"] * 10
    assert lines[14].strip() == "and 2 more"


# --- settings -------------------------------------------------------------------------------------------------------


def test_settings_of_a_trial_from_the_command_line() -> None:
    pairs = ["judges=5", "models.judge-4=openai:a", "models.judge-1.model=openai:b", "temperatures.judges=0"]
    settings: Any = parse_settings(ProclaimSettings, pairs, {})
    assert [judge.name for judge in settings.judges] == [f"judge-{number}" for number in range(1, 6)]
    assert (settings.models["judge-4"], settings.models["judge-1"].model) == ("openai:a", "openai:b")
    assert (settings.temperatures["judges"], settings.temperatures["court"]) == (0, 0.2)
    named: Any = parse_settings(ProclaimSettings, ["judges.0.model=openai:a"], {})
    assert [judge.model for judge in named.judges] == ["openai:a", None, None]
    for pair, words in (
        ("judges=4", "odd number of judges, not 4"),
        ("models.judge-4=openai:a", "no role 'judge-4'"),
        ("temperatures.jury=0", "no role 'jury'"),
        ("inconclusive=maybe", "inconclusive: "),
    ):
        with pytest.raises(UserError, match=words):
            parse_settings(ProclaimSettings, [pair], {})


def test_settings_are_listed_whole_in_a_narrow_terminal() -> None:
    page = io.StringIO()
    settings = load_graph("proclaim").settings
    Console(file=page, width=100).print(settings_table(settings))
    lines = page.getvalue().splitlines()
    assert max(map(len, lines)) <= 100
    assert "…" not in page.getvalue()
    names = [line.split()[0] for line in lines[1:] if line[:1].strip()]
    assert names == list(settings.model_fields)


async def test_an_interrupted_trial_keeps_what_was_said(start_stub: StartStub) -> None:
    stub = start_stub([*SCRIPT, {"fields": {"needed": False, "close": False, "debate_resolved": False}}])
    settings = ProclaimSettings.model_validate(
        {
            "model": "openai:stub",
            "embedder": "openai:stub-embedding",
            "sources": ["bm25"],
            "exhaustion": 0,
            "plateau": 0,
        }
    )

    def stop(written: dict[str, Any]) -> None:
        if any(turn["step"] == "argue" and turn["round"] == 2 for turn in written.get("turns") or []):
            running.cancel()

    running = asyncio.ensure_future(Running(load_graph("proclaim").graph, settings, stop).run({"claim": CLAIM}))
    document = await running
    assert (document["status"], document["answer"], document["rounds"]) == ("interrupted", None, 1)
    said = [(turn["phase"], turn["step"]) for turn in document["turns"] if turn["round"] == 1]
    assert said.count(("primary", "argue")) == said.count(("switched", "argue")) == 2
    assert said.count(("primary", "critique")) == 1
    assert document["usage"]["calls"] == len(document["calls"])
    made = [call for call in stub.calls() if call["kind"] == "chat"]
    assert 0 <= len(made) - len(document["calls"]) <= 4  # but for those that were under way
