"""A scripted trial: the endpoint's rules, and functions that run the trial and read its output."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from moot.cli.resuming import DebateSetup
from moot.cli.signals import Stop
from moot.cli.verify import debate_and_print
from moot.graphs import load_graph
from moot.graphs.proclaim import ProclaimSettings
from moot.nodes._models.replies import StoreUse
from moot.retrievers._evidence import evidence_id

CLAIM = "The kilogram is no longer defined by a metal cylinder kept in France."
TEXTS = {
    "Definition": "Since 2019 one constant of nature fixes every unit of mass.",
    "Custody": "Three keys open that vault below Sèvres where old weights rest.",
    "Football": "Eleven players chase balls across green pitches most Saturdays.",
    "Amperes": "Electric currents received new definitions beside kelvins then.",
    "Balance": "Kibble devices compare mechanical with electrical power precisely.",
    "Bureau": "Delegates voted unanimously during November near Versailles itself.",
}
"""The source's texts by title. No two share a word, so each is new evidence."""
IDS = {title: evidence_id("Shelf", text) for title, text in TEXTS.items()}


class Shelf(BaseRetriever):
    """A source that finds the texts whose titles a query names, as in ``#Balance``. It fails for ``#Down``.

    A query without such names finds three texts.
    """

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        named = re.findall(r"#(\w+)", query) or ["Definition", "Custody", "Football"]
        if "Down" in named:
            raise ConnectionError("the shelf is locked")
        return [Document(TEXTS[t], metadata={"title": t, "source": "Shelf"}) for t in named if t in TEXTS]


shelf = Shelf()


def printed_piece(title: str) -> str:
    """A piece of evidence as the screen shows it."""
    return f"{title} [{IDS[title]}]"


def rule(role: str, match: str = "", times: int | None = None, **fields: Any) -> dict[str, Any]:
    """A rule: the reply of a role to prompts that match. Without fields, the reply is unusable.

    Args:
        role: a regular expression for the role's name.
        match: a regular expression for the prompt.
        times: the rule applies to this many calls only; None for all.
        fields: the fields of the reply.
    """
    content = {"fields": fields} if fields else {"reply": "I would rather not say."}
    return {"model": f"stub-({role})$", "match": match, **content} | ({"times": times} if times else {})


def counsel(role: str, side: str, field: str, times: int | None = None, **fields: Any) -> dict[str, Any]:
    """A rule: the reply of a counsel who speaks for this side, to the prompt that asks for this field."""
    return rule(role, f"counsel for the {side}.*`{field}`", times, **fields)


def argument(role: str, side: str, text: str, *citations: tuple[str, str]) -> dict[str, Any]:
    """A rule for one call: a counsel's argument, with citations as pairs of id and quote."""
    cited = [{"evidence_id": id, "quote": quote} for id, quote in citations]
    return counsel(role, side, "argument", 1, argument=text, citations=cited)


def reflection(role: str, side: str, *flaws: str, **scores: float) -> dict[str, Any]:
    """A rule: the flaws that a counsel finds in its own argument, and the argument's scores."""
    return counsel(role, side, "flaws", None, flaws=list(flaws), **scores, discovery_need="", refined_stance="")


def rating(title: str, relevance: float, credibility: float) -> dict[str, Any]:
    """A rule: the arbiter's ratings of an exhibit."""
    return rule("arbiter", f"\n{title} \\(", relevance=relevance, credibility=credibility, reason="As it reads.")


def judgement(number: int, verdict: str, *scores: float) -> dict[str, Any]:
    """A rule: a judge's verdict and three scores."""
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
    rating("Definition", 0.9, 0.9),
    rating("Custody", 0.5, 0.6),
    rating("Football", 0.1, 0.5),
    rating("Balance", 1.0, 0.9),
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
    # the arguments
    argument("plaintiff", "plaintiff", "A constant defines it.", (IDS["Definition"], "one constant of nature")),
    argument("defense", "defense", "It is in the vault.", ("ev-none", "made up"), (IDS["Definition"], "made up")),
    argument("plaintiff", "plaintiff", "The defense granted it."),
    counsel("defense", "defense", "argument"),
    argument("defense", "plaintiff", "No object defines it."),
    argument("plaintiff", "defense", "The object is there."),
    counsel("plaintiff", "plaintiff", "needed", 1, needed=True, expertise="metrology", reason="To be clear."),
    counsel("defense", "defense", "needed", 1, needed=True, expertise="law", reason="To be sure."),
    rule("plaintiff|defense", "`needed`", needed=False, expertise="", reason=""),
    rule("court", "By the plaintiff.*`granted`", granted=True, reason="It helps."),
    rule("court", "`granted`", granted=False, reason="It does not."),
    rule("expert", testimony="The vault holds a secondary standard.", citations=[]),
    reflection("plaintiff", "plaintiff", "One source alone.", "No date.", logic=0.8, novelty=0.6, rebuttal=0.4),
    reflection("defense", "defense", logic=0.57, novelty=0.57, rebuttal=0.57),
    rule("plaintiff|defense", "`flaws`"),
    rule("critic", "The defense granted it", **CRITIQUE | {"debate_resolved": True, "unresolved_premises": []}),
    rule("critic", "No object defines it"),
    rule("critic", **CRITIQUE),
    rule("court", "`close`", close=True, reason="All is said."),
    # the panel
    rule("analyser", plaintiff_counsel=8, defense_counsel=9, overall=8.5, contradictions=["Once it was, once not."]),
    judgement(1, "NOT SUPPORTED", 7, 8, 8),
    judgement(2, "SUPPORTED", 7, 6, 8),
    judgement(3, "NOT SUPPORTED", 8, 7, 9),
    {"fields": {"citations": [], "challenges": []}},
]


def run_trial(given: dict[str, Any] | None = None, out: Path | None = None, **more: Any) -> None:
    """Run a scripted trial and print it. ``more`` has further settings. Every role has its own model.

    The document is written to ``out``, if that is given.
    """
    judged = {"judges": more["judges"]} if "judges" in more else {}
    models = {role: f"openai:stub-{role}" for role in ProclaimSettings.model_validate(judged).roles()}
    chosen = {"sources": [f"langchain:{__name__}:shelf"], "embedder": "openai:stub-embedding", "attempts": 1}
    # There is no minimum, because the endpoint's vectors say nothing about similarity.
    chosen |= {"min_request_similarity": -1} | more
    settings = ProclaimSettings.model_validate({**chosen, "models": models})
    begins = DebateSetup(settings, StoreUse())
    debate_and_print(load_graph("proclaim"), {"claim": CLAIM, **(given or {})}, begins, Stop(), as_json=False, out=out)


def run(capsys: pytest.CaptureFixture[str], given: dict[str, Any] | None = None, **more: Any) -> list[str]:
    """The lines of a scripted trial: first its stdout, then its stderr."""
    run_trial(given, **more)
    captured = capsys.readouterr()
    return [*captured.out.splitlines(), *captured.err.splitlines()]


def part(lines: list[str], heading: str) -> list[str]:
    """The indented lines that follow a heading."""
    begin = lines.index(heading) + 1
    ends = (i for i, line in enumerate(lines) if i >= begin and not line.startswith("  "))
    return lines[begin : next(ends, None)]


PRIMARY = "Primary debate, round {}"
SWITCHED = "Switched debate, round {} (the counsel have changed sides)"
