"""Scripted trials: the replies of each role in each round, and exhibits of known similarity.

The exhibits ``A`` to ``Z`` have ten words each, and no word in common. ``A9`` shares nine words with ``A``. The cosine
of these two exhibits is 0.9, so if one is known, the novelty of the other is 0.1. ``A9`` and ``B9`` share their tenth
word.

A query finds the exhibits that it names (``#A #B9``), ``#0`` finds nothing, and ``#down`` fails. A query without names,
such as the claim, finds the exhibits in `SEED`.
"""

from __future__ import annotations

import importlib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from string import ascii_uppercase
from typing import Any, cast

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from moot.graphs.proclaim import ProclaimSettings, graph

from tests.conftest import StubEndpoint
from tests.graphs.scripted_agents import CLAIM, Rule, rule, warning_kinds

SEED = ["A", "B", "C", "D", "E"]
"""The exhibits that a search for the claim itself finds."""
SIDES = ("plaintiff", "defense")
OTHER = {"plaintiff": "defense", "defense": "plaintiff"}
STEPS = {
    "challenge": "`challenges`",
    "gap": "`gap`",
    "argue": "`argument`",
    "request_expert": "`needed`",
    "reflect": "`flaws`",
    "refine": "`query`",
    "rule_on_expert": "`granted`",
    "close": "`close`",
}
"""For each step, a pattern that tells its prompts from the other prompts of counsel or of the court."""
SCRIPTED_ROUNDS = 10
"""The number of rounds with scripted arguments."""

# --- exhibits ---------------------------------------------------------------------------------------------------------


def _words() -> Iterator[str]:
    """Words that each have their own dimension in the vectors of the scripted encoder."""
    embed, taken = importlib.import_module("tests.stub_llm").embed, set()
    for number in itertools.count():
        place = next(i for i, value in enumerate(embed(f"w{number}")) if value)
        if place not in taken:
            taken.add(place)
            yield f"w{number}"


def _texts() -> Iterator[tuple[str, str]]:
    words = _words()
    own = {letter: list(itertools.islice(words, 10)) for letter in ascii_uppercase}
    rest = {shared: list(itertools.islice(words, 10 - shared)) for shared in range(1, 10)}
    for letter in ascii_uppercase:
        yield letter, " ".join(own[letter])
        yield from ((f"{letter}{n}", " ".join(own[letter][:n] + rest[n])) for n in rest)


TEXTS = dict(_texts())
"""The texts of all exhibits, by their names."""
NAMES = {text: name for name, text in TEXTS.items()}


class Library(BaseRetriever):
    """A source that finds the exhibits that a query names."""

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        if "#down" in query:
            raise ConnectionError("the library is closed")
        named = [] if "#0" in query else re.findall(r"#([A-Z]\d?)\b", query) or SEED
        return [Document(TEXTS[name], metadata={"source": f"shelf {name}"}) for name in named]


library = Library()
LIBRARY = f"langchain:{__name__}:library"


def names(pieces: Iterable[Mapping[str, Any]]) -> str:
    """The names of these exhibits, such as ``A B9``."""
    return " ".join(NAMES[piece["text"]] for piece in pieces)


# --- rules ------------------------------------------------------------------------------------------------------------


def role_for(side: str, phase: str = "primary") -> str:
    """The role that speaks for a side."""
    return OTHER[side] if phase == "switched" else side


def counsel(side: str, step: str, phase: str = "primary", times: int | None = None, **reply: Any) -> Rule:
    """A rule for a side's counsel in a step of a phase. ``reply`` is, for example, ``status=500``."""
    return rule(role_for(side, phase), f"counsel for the {side}.*{STEPS[step]}", times, **reply)


def default_argument(side: str, round: int, phase: str = "primary") -> str:
    """The text of a side's argument if no rule sets another."""
    return f"Said for the {side} by the {role_for(side, phase)}'s counsel, {round}."


def argues(
    side: str, *arguments: str, phase: str = "primary", citations: Sequence[Mapping[str, str]] = ()
) -> list[Rule]:
    """Rules for a side's arguments, one text per round."""
    cited = list(citations)
    return [counsel(side, "argue", phase, 1, fields={"argument": a, "citations": cited}) for a in arguments]


def reflects(side: str, *scores: float | Sequence[float], phase: str = "primary", **more: Any) -> list[Rule]:
    """Rules for a side's scores of itself, one entry per round.

    An entry is logic, novelty and rebuttal, or one number for all three.
    """
    three = [(one, one, one) if isinstance(one, float | int) else one for one in scores]
    given = [dict(zip(("logic", "novelty", "rebuttal"), one, strict=True)) for one in three]
    empty = {"flaws": [], "discovery_need": "", "refined_stance": ""}
    return [counsel(side, "reflect", phase, 1, fields={**empty, **one, **more}) for one in given]


def searches(side: str, *queries: str, phase: str = "primary") -> list[Rule]:
    """Rules for a side's queries, one per round.

    The gap contains the query, and the court adds the word ``exactly`` to the query.
    """
    rules = []
    for query in queries:
        gap = f"Gap: {query}."
        rules.append(counsel(side, "gap", phase, 1, fields={"gap": gap}))
        rules.append(rule("retrieval", f"\n{re.escape(gap)}", fields={"query": query}))
        rules.append(rule("court", f"<query>\n{re.escape(query)}\n", fields={"query": f"{query} exactly"}))
    return rules


def premise_rule(*given: str) -> Rule:
    """A rule for the miner's premises of the claim."""
    return rule("miner", fields={"premises": list(given)})


def stance_rule(supporting: str, challenging: str) -> Rule:
    """A rule for the negotiator's query for each side, before the debates."""
    return rule("negotiator", fields={"supporting_query": supporting, "challenging_query": challenging})


def weighs(relevance: float, credibility: float, *exhibits: str) -> list[Rule]:
    """Rules for the arbiter's ratings of these exhibits.

    Without names, the result is one rule for all exhibits that no earlier rule rates.
    """
    fields = {"relevance": relevance, "credibility": credibility, "reason": "As it reads."}
    return [rule("arbiter", f"\n{TEXTS[name]}\n", fields=fields) for name in exhibits] or [
        rule("arbiter", fields=fields)
    ]


def judge_rules(*verdicts: str, scores: Sequence[Sequence[float]] = ()) -> list[Rule]:
    """Rules for the judges' verdicts, the chief judge's first.

    ``scores`` has an entry per judge: the scores that this judge gives for evidence strength, argument validity and
    scientific reliability. By default each score is 6.
    """
    rules = []
    for number, verdict in enumerate(verdicts, 1):
        strength, validity, reliability = scores[number - 1] if scores else (6, 6, 6)
        found = {"evidence_strength": strength, "argument_validity": validity, "scientific_reliability": reliability}
        reason = f"Reason of judge {number}."
        rules.append(rule(f"judge-{number}", fields={**found, "verdict": verdict, "reason": reason}))
    return rules


def analysis_rule(overall: float) -> Rule:
    """A rule for the analyser. It gives each counsel and the whole trial this score of consistency."""
    fields = {"plaintiff_counsel": overall, "defense_counsel": overall, "overall": overall, "contradictions": []}
    return rule("analyser", fields=fields)


def default_rules() -> list[Rule]:
    """Rules that a test appends to its own rules. With these rules alone, only the maximum of rounds ends a debate.

    The premise finds ``F``, the supporting query ``G``, the challenging query ``H``. All exhibits are admitted with the
    weight 0.72. In the debates no search finds anything and no side requests an expert. The scores of reflections
    alternate, and neither critic nor court ends a debate. Two of three judges find the claim SUPPORTED. The analyser
    gives each counsel 6 of 10.
    """
    both = [(side, phase) for phase in ("primary", "switched") for side in SIDES]
    arguments = [
        r
        for side, phase in both
        for r in argues(side, *(default_argument(side, n, phase) for n in range(1, SCRIPTED_ROUNDS + 1)), phase=phase)
    ]
    swings = [r for side, phase in both for r in reflects(side, *[0.2, 0.8] * (SCRIPTED_ROUNDS // 2), phase=phase)]
    silence = [
        rule("(plaintiff|defense)", STEPS["challenge"], fields={"challenges": []}),
        rule("(plaintiff|defense)", STEPS["gap"], fields={"gap": "Anything else."}),
        rule("retrieval", fields={"query": "#0"}),
        rule("court", STEPS["refine"], fields={"query": "#0"}),
        rule("(plaintiff|defense)", STEPS["request_expert"], fields={"needed": False, "expertise": "", "reason": ""}),
        rule("court", STEPS["close"], fields={"close": False, "reason": "Go on."}),
        rule("critic", fields={"debate_resolved": False}),
        *judge_rules("SUPPORTED", "NOT SUPPORTED", "SUPPORTED"),
        analysis_rule(6),
        {"fields": {"citations": []}},
    ]
    return [
        premise_rule("It holds. #F"),
        stance_rule("for #G", "against #H"),
        *weighs(0.9, 0.8),
        *arguments,
        *swings,
        *silence,
    ]


# --- the results ------------------------------------------------------------------------------------------------------


async def trial(claim: str = CLAIM, given: Mapping[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    """Run a trial with the settings of `trial_settings`. ``given`` is further input."""
    document: dict[str, Any] = await graph.ainvoke(
        cast(Any, {"claim": claim, **(given or {})}), context=trial_settings(**settings)
    )
    return document


def trial_settings(**settings: Any) -> ProclaimSettings:
    """The default settings of a scripted trial, updated with ``settings``.

    By default a debate has two rounds, the library is the source, and every role has its own model. Evidence need not
    be similar to a request, because gaps share no words with exhibits.
    """
    known = ProclaimSettings.model_validate({k: v for k, v in settings.items() if k == "judges"})
    roles = known.roles() - {judge.name for judge in known.judges if judge.model}
    models = {role: f"openai:stub-{role}" for role in roles} | settings.pop("models", {})
    chosen = {"embedder": "openai:stub-embedding", "sources": [LIBRARY], "attempts": 1, "max_rounds": 2}
    chosen |= {"min_request_similarity": -1, **settings}
    return ProclaimSettings.model_validate({**chosen, "models": models})


def turns(document: Mapping[str, Any], step: str, phase: str = "primary") -> dict[tuple[str, int], dict[str, Any]]:
    """The last turn of a step in each round of a phase, by side and round. A turn without a side is under its agent."""
    found = [turn for turn in document["turns"] if turn["step"] == step and turn["phase"] == phase]
    return {(turn["side"] or turn["agent"], turn["round"]): turn for turn in found}


def debate_entry(document: Mapping[str, Any], phase: str = "primary") -> dict[str, Any]:
    """A debate's entry in the result's ``debates``."""
    return next(dict(entry) for entry in document["debates"] if entry["phase"] == phase)


def outcome(document: Mapping[str, Any]) -> tuple[Any, ...]:
    """The result of a trial: status, answer, raw verdict, and the primary debate's stop reason and rounds."""
    return tuple(document[key] for key in ("status", "answer", "raw_verdict", "stop_reason", "rounds"))


def kinds(document: Mapping[str, Any]) -> list[str]:
    """The kinds of warnings, in order, without warnings about empty searches, which the default rules cause."""
    return warning_kinds(document, but=("empty_retrieval",))


def prompts(stub: StubEndpoint, role: str, step: str = "", side: str = "") -> list[str]:
    """The prompts of a role (of one step and side, if named) in the order of its calls, without repeated requests."""
    sent = [r["messages"] for r in stub.requests() if r["model"] == f"stub-{role}" and len(r["messages"]) == 2]
    texts = ["\n".join(message["content"] for message in messages) for messages in sent]
    return [t for t in texts if STEPS.get(step, "") in t and (not side or f"counsel for the {side}" in t)]


# --- several trials, and their stops ---------------------------------------------------------------------------------

S, N, I = "SUPPORTED", "NOT SUPPORTED", "INCONCLUSIVE"  # noqa: E741


def roles(document: Mapping[str, Any]) -> set[str]:
    """The roles that were called."""
    return {call["role"] for call in document["calls"]}


def piece(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The exhibit of this name in a result."""
    return next(p for p in document["evidence"] if NAMES[p["text"]] == name)


ONE_ROUND: dict[str, Any] = {"max_rounds": 1, "role_switch": False}


def find_turns(document: Mapping[str, Any], **fields: Any) -> list[dict[str, Any]]:
    """The turns whose fields have these values."""
    return [turn for turn in document["turns"] if fields.items() <= turn.items()]
