"""The script of a full trial, and its expected turns and exhibits. They were worked out by hand."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from moot.core.endpoint import close_clients

from tests.conftest import StubEndpoint, running_stub
from tests.graphs.scripted_agents import Rule, rule
from tests.graphs.scripted_trial import (
    SIDES,
    TEXTS,
    argues,
    counsel,
    default_argument,
    default_rules,
    exhibits_in,
    id_of,
    in_round,
    latest_first,
    names,
    premise_rule,
    reflects,
    role_for,
    searches,
    stance_rule,
    trial,
    weighs,
)

FinishedTrial = tuple[dict[str, Any], StubEndpoint]
"""A finished trial: its document, and the endpoint that served it."""


@contextmanager
def shared_trial(folder: Path, rules: list[Rule], **settings: Any) -> Iterator[FinishedTrial]:
    """Run a trial that several tests share. Its endpoint stays open until the context ends."""

    async def run_trial() -> dict[str, Any]:
        try:
            return await trial(**settings)
        finally:
            await close_clients()

    with running_stub(folder / "stub", rules) as stub:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OPENAI_BASE_URL", stub.url)
            document = asyncio.run(run_trial())
        yield document, stub


# --- the script of a full trial ---------------------------------------------------------------------------------------

ALL_ROUNDS = [("primary", 1), ("primary", 2), ("primary", 3), ("switched", 1), ("switched", 2)]
"""The scripted rounds; with ``max_rounds=2`` the primary debate's third round is not reached."""
RECORD = "A A9 E F G H I D K A8 L M N A7 O P M8 Q B J"
"""The exhibits that the judges read in a trial with ``max_rounds=2``, in order.

First the admitted exhibits, the heaviest first. Then the exhibits found in the debates, the earliest first. Last the
disputed exhibits.
"""
REFLECTIONS: dict[tuple[str, str], list[tuple[float, float, float]]] = {
    # (side, phase): [(logic, novelty, rebuttal) in round 1, ...]; score = 0.4 logic + 0.3 novelty + 0.3 rebuttal
    ("plaintiff", "primary"): [(0.8, 0.6, 0.5), (0.9, 0.5, 0.6), (0.5, 0.5, 0.5)],  # 0.65, 0.69, 0.5
    ("defense", "primary"): [(0.5, 0.5, 0.5), (0.7, 0.4, 0.3), (0.9, 0.9, 0.9)],  # 0.5, 0.49, 0.9
    ("plaintiff", "switched"): [(0.2, 0.2, 0.2), (1, 1, 1)],  # 0.2, 1
    ("defense", "switched"): [(1, 0, 0.5), (0, 1, 1)],  # 0.55, 0.6
}


def expert_testimony(side: str, round: int, phase: str = "primary") -> str:
    return f"Testified for the {side}, {phase} {round}."


def advice_text(side: str, round: int, phase: str = "primary") -> str:
    return f"Advised to the {side}, {phase} {round}."


def need_text(side: str, round: int, phase: str = "primary") -> str:
    """The need that a side names in its reflection."""
    return f"Needed by the {side}, {phase} {round}."


def experts(*rounds: tuple[str, int]) -> list[Rule]:
    """Rules: in these rounds each side requests an expert, the court grants the request, and the expert testifies."""
    wanted, testimonies = [], []
    for phase, number in rounds:
        for side in SIDES:
            field = f"field {side} {phase} {number}"
            fields = {"needed": True, "expertise": field, "reason": f"To clear up {field}."}
            wanted.append(counsel(side, "request_expert", phase, 1, fields=fields))
            fields_of_testimony = {"testimony": expert_testimony(side, number, phase), "citations": []}
            testimonies.append(rule("expert", field, fields=fields_of_testimony))
    granted = rule("court", "`granted`", fields={"granted": True, "reason": "It may help."})
    return [*wanted, *latest_first(testimonies), granted]


def critics(*rounds: tuple[str, int]) -> list[Rule]:
    """Rules: in these rounds the critic scores both sides, advises both, and finds the debate unresolved."""
    rules = []
    for phase, number in rounds:
        fields = {
            "plaintiff": {"logic": 0.7, "evidence": 0.6, "rebuttal": 0.5, "reason": f"Good, {phase} {number}."},
            "defense": {"logic": 0.45, "evidence": 0.35, "rebuttal": 0.25, "reason": f"Poor, {phase} {number}."},
            "unresolved_premises": [f"Open after {phase} {number}."],
            "recommendations": {side: [advice_text(side, number, phase)] for side in SIDES}
            | {"queries": ["suggested #Z"]},
            "debate_resolved": False,
        }
        rules.append(rule("critic", in_round(number, phase), fields=fields))
    return latest_first(rules)


def citation_of(name: str, quote: str = "") -> dict[str, str]:
    """A citation of an exhibit, by default of its first five words."""
    return {"evidence_id": id_of(name), "quote": quote or " ".join(TEXTS[name].split()[:5])}


def full_trial() -> list[Rule]:
    """Rules for the full trial.

    Twelve exhibits are found before the debates. B (its weight is exactly 0.5) and J are disputed. C (its weight is
    exactly 0.1) and B6 are discarded.

    In the primary debate K, A8, L, M, N, A7 and O join the record, and R would in a third round. The novelty of A8
    equals the threshold. K9 and L9 are too similar to K and L.

    The switched debate starts without the exhibits that joined the record in the primary debate. In the switched debate
    K, P and Q join the record, and also M8, because M is not found in this debate.
    """
    reflections = [
        r
        for (side, phase), scores in REFLECTIONS.items()
        for number, score in enumerate(scores, 1)
        for r in reflects(side, score, phase=phase, discovery_need=need_text(side, number, phase))
    ]
    challenges = [
        counsel("plaintiff", "challenge", fields={"challenges": [{"evidence_id": id_of("J"), "reason": "J is idle."}]}),
        counsel("defense", "challenge", fields={"challenges": [{"evidence_id": id_of("A9"), "reason": "A9 repeats."}]}),
    ]
    weights = [
        *weighs(1, 0.9, "A"),
        *weighs(0.5, 1, "B"),
        *weighs(0.1, 1, "C"),
        *weighs(0.8, 0.7, "D"),
        *weighs(0.2, 0.9, "J"),
        *weighs(0.95, 0.9, "A9"),
        *weighs(0.4, 0.2, "B6"),
    ]
    return [
        premise_rule("It was defined so. #A #F #G #H", "It is not any more. #H"),
        stance_rule("for #I #A9", "against #J #B6"),
        *challenges,
        *weights,
        *searches("plaintiff", "first #K #A8 #B", "second #M #N #K", "third #R"),
        *searches("defense", "first #K9 #J #L", "second #L9 #A7 #O", "third #K9"),
        *searches("plaintiff", "switched #K #P", "switched #M8 #Q", phase="switched"),
        *argues(
            "plaintiff",
            default_argument("plaintiff", 1),
            citations=[citation_of("A"), citation_of("D", "not in it at all"), citation_of("B")],
        ),
        *argues("plaintiff", default_argument("plaintiff", 2), default_argument("plaintiff", 3)),
        *reflections,
        *experts(*ALL_ROUNDS),
        *critics(*ALL_ROUNDS),
        *default_rules(),
    ]


# --- the results --------------------------------------------------------------------------------------------------


def trace(document: Mapping[str, Any]) -> list[str]:
    """The turns in order, as ``primary 1 plaintiff/plaintiff argue`` (phase, round, agent/side, step)."""
    labels = ((t["phase"], t["round"], t["agent"], t["side"] or "-", t["step"]) for t in document["turns"])
    return [f"{phase} {number} {agent}/{side} {step}" for phase, number, agent, side, step in labels]


def expected_round(phase: str, number: int) -> list[list[str]]:
    """The turns of a round, in groups. In this round both sides search and get experts.

    Within a group any order is valid. In the first round the court is not asked whether to close the debate.
    """
    p, d = (f"{phase} {number} {role_for(side, phase)}/{side}" for side in SIDES)
    expert_turns = [f"{phase} {number} {who}/{side} {step}" for side in SIDES for who, step in EXPERT_STEPS]
    return [
        [f"{p} discover", f"{d} discover"],
        [f"{p} argue"],
        [f"{d} argue"],
        [f"{p} request_expert", f"{d} request_expert", *expert_turns],
        [f"{p} reflect", f"{d} reflect", f"{phase} {number} critic/- critique"]
        + ([f"{phase} {number} court/- close"] if number > 1 else []),
    ]


EXPERT_STEPS = [("court", "rule_on_expert"), ("expert", "testify")]


def check_trace(document: Mapping[str, Any], *rounds: tuple[str, int]) -> None:
    """Check that the turns are in the order of the procedure."""
    before_debates = [
        ["miner/- premises", "negotiator/- stance_queries", "retrieval/- retrieve_seed"],
        ["retrieval/- retrieve_premise"] * 2 + [f"{side}/{side} retrieve" for side in SIDES],
        [f"{side}/{side} challenge" for side in SIDES],
        ["arbiter/- weigh"] * 12,
    ]
    groups = [[f"negotiation 0 {turn}" for turn in group] for group in before_debates]
    groups += [group for phase, number in rounds for group in expected_round(phase, number)]
    groups += [["panel 0 analyser/- analyse"], [f"panel 0 judge-{n}/- judge" for n in (1, 2, 3)]]
    left = trace(document)
    for group in groups:
        assert sorted(left[: len(group)]) == sorted(group)
        left = left[len(group) :]
    assert left == []


def count_calls(document: Mapping[str, Any], *keys: str) -> Counter[Any]:
    return Counter(tuple(call[key] for key in keys) if len(keys) > 1 else call[keys[0]] for call in document["calls"])


def ids(*exhibits: str) -> list[str]:
    return [id_of(name) for text in exhibits for name in text.split()]


def find_turns(document: Mapping[str, Any], **fields: Any) -> list[dict[str, Any]]:
    """The turns whose fields have these values."""
    return [turn for turn in document["turns"] if fields.items() <= turn.items()]


def near(value: float) -> Any:
    return pytest.approx(value, abs=1e-6)


def names_of(document: Mapping[str, Any], wanted: Iterable[str]) -> str:
    """The names of the exhibits with these ids."""
    by_id = {piece["id"]: piece for piece in document["evidence"]}
    return names(by_id[one] for one in wanted)


# --- the contents of prompts ----------------------------------------------------------------------------------------

SPOKEN = re.compile(r"Said for the (\w+) by the (\w+)'s counsel, (\d)\.|Testified for the (\w+), (\w+) (\d)\.")


def statements_in(prompt: str) -> str:
    """The statements in a prompt, in order, in a short form such as ``p1 d1 xp1``.

    ``p1`` is the plaintiff's argument in round 1, ``d1`` the defense's, and ``xp1`` the testimony of the plaintiff's
    expert. Statements of the switched debate end with ``*``.
    """
    marks = []
    for by, who, number, called, phase, when in SPOKEN.findall(prompt):
        switched = who != by if by else phase == "switched"
        marks.append(f"{by[0] + number if by else 'x' + called[0] + when}{'*' if switched else ''}")
    return " ".join(marks)


def exhibit_names(prompt: str) -> str:
    """The names of the exhibits in a prompt, in order. The prompt shows their texts or only their titles."""
    return " ".join(exhibits_in(prompt))


def requests_with(stub: StubEndpoint, *texts: str) -> list[tuple[str, str]]:
    """The role and the prompt of each request that contains all of these texts."""
    sent = [(r["model"], "\n".join(m["content"] for m in r["messages"])) for r in stub.requests()]
    return [(model.removeprefix("stub-"), prompt) for model, prompt in sent if all(text in prompt for text in texts)]
