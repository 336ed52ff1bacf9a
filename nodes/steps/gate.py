"""A gate before a debate: independent answers, and whether they settle the claim; and the debate if they do not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langgraph.types import Send
from moot.nodes.models.ledger import tokens_of
from moot.nodes.records.entries import GATE, Call, RoundReason, StopReason, Task, Turn
from moot.nodes.records.reducers import recorded_round
from moot.nodes.runtime.budget import Decision, is_spent
from moot.nodes.runtime.node import Node, Run, choose_model
from moot.nodes.runtime.opening import Needs
from moot.nodes.runtime.state import DebateState
from moot.nodes.speakers.gate import GateSettings
from moot.nodes.speakers.hand_over import declared, hand_over, new_turn
from moot.nodes.steps.compare import EQUIVALENCE, agreed_answer, closed_round
from moot.nodes.texts.given import handed_on, taken_back
from moot.nodes.texts.task import TASKS
from moot.retrievers.evidence import Evidence
from moot.retrievers.origins import origins

Inner = Callable[[Any], tuple[Any, Any]]
"""From the settings, the graph of the debate that is held if the gate does not end it, and its settings."""
ALIKE = (
    "one model at temperature 0 read the same evidence, so that their agreement says little. Give them other sources, "
    "other models, or a temperature."
)
"""What is to be said of readers who are hardly independent."""
HANDED = ("turns", "corpora", "calls", "warnings", "round_log", "debates", "graphs", "scores", "votes", "rounds")
VERDICT = ("answer", "raw_verdict", "stop_reason", "error")
CONFIDENCE = ("confidence", "confidence_parts", "confidence_from")
"""What a debate hands to the one that it is held in."""


def to_readers(state: DebateState, settings: GateSettings) -> list[Send]:
    """All answer independently, before any debate, each from its own retrieval.

    Args:
        state: the debate.
        settings: with those who answer.
    """
    first = [
        (declared(one) | {"place": place}, new_turn(0, one.name, phase=GATE))
        for place, one in enumerate(settings.agents, 1)
    ]
    return [hand_over("reader", state, who, turn, previous_query=None) for who, turn in first]


def verified_origins(answers: Iterable[Turn], evidence: Sequence[Evidence]) -> list[str]:
    """The origins of the evidence from which answers have a quote that was verified, each once. Blocking.

    Args:
        answers: turns with citations.
        evidence: what they cite.
    """
    cited = {c["evidence_id"] for turn in answers for c in turn.get("citations") or [] if c["verified"]}
    named = origins(evidence)
    return list(dict.fromkeys(name for id, name in named.items() if id in cited))


def alike(answers: Iterable[Turn], settings: GateSettings) -> list[list[str]]:
    """Readers whose answers are hardly independent: one model at temperature 0 answered all from the same evidence.

    Args:
        answers: their turns.
        settings: with their models.
    """
    own = {agent.name: agent.model for agent in settings.agents}
    groups: dict[tuple[Any, ...], list[str]] = {}
    for turn in answers:
        name = turn["agent"]
        choice = choose_model(settings, name, own[name])
        named = "temperature" in choice.model_fields_set
        if (choice.temperature if named else settings.temperature_of(name)) == 0:
            groups.setdefault((choice.model, *sorted(turn["evidence_ids"])), []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def taken(calls: Sequence[Call]) -> dict[str, int]:
    """Calls and their tokens."""
    return {"calls": len(calls), "tokens": tokens_of(calls)}


def gate_node() -> Node:
    """Closes the gate's answers: who answered what, whether all are the same, and from how many origins they quote.

    Reads: claim, task, turns, evidence, calls, metrics. ``gate`` of the debate's ``metrics`` says what it saw: the
    ``answers``, the one that all ``agreed`` on, the ``origins`` of verified quotes for it, whether it ``passed``, and
    what it took (``spent``).
    """

    async def step(state: DebateState, run: Run) -> dict[str, Any]:
        closed = await closed_round(state, run)
        agreed, answers = agreed_answer(closed["votes"]), [t for t in state["turns"] if t["step"] == "respond"]
        found = await asyncio.to_thread(verified_origins, answers, state["evidence"])
        passed = agreed is not None and len(found) >= run.settings.min_verified
        for names in alike(answers, run.settings) if passed else ():
            run.ledger.warn("readers_alike", f"{', '.join(names)}: {ALIKE}")
        reason: RoundReason = "agreed" if passed else "disputed" if agreed is None else "unverified"
        saw = {
            "answers": {vote["agent"]: vote["answer"] for vote in closed["votes"]},
            "agreed": agreed,
            "origins": found if agreed is not None else [],
            "passed": passed,
            "spent": taken([*state["calls"], *run.ledger.calls]),
            "debate": None,
        }
        closed |= recorded_round(closed["rounds"], GATE, reason=reason, votes=closed["votes"])
        return closed | {"metrics": {**state["metrics"], "gate": saw}}

    return Node(step, prompts=(EQUIVALENCE,))


def gate_alone(state: DebateState, settings: Any) -> StopReason:
    """Why the gate's answers decide although they do not pass."""
    return "budget_exhausted" if is_spent(state) else "single_pass"


def asked_again(state: DebateState) -> dict[str, Any]:
    """What an open debate was asked, as another one is asked it."""
    task: Task = state["task"]
    asked: dict[str, Any] = {"claim": state["claim"], "task": task["name"]}
    if task["name"] == "labels":
        asked["labels"] = {label: task["meanings"].get(label, "") for label in task["labels"]}
    elif TASKS[task["name"]].kind == "choice":
        asked["options"] = list(task["meanings"].values())
    return asked | {key: task[key] for key in ("claim_date", "speaker") if key in task}


def with_settings(decision: Decision, own: Any) -> Decision:
    """The decision, whose prompt is filled by the settings of its own debate."""
    fill = decision.values
    return replace(decision, values=lambda state, settings: fill(state, own)) if fill else decision


def debate_node(inner: Inner, held: Callable[[Any], bool]) -> Node:
    """Holds another system's debate on all evidence that there is, and takes its verdict over.

    Reads: claim, task, evidence, depth, metrics. What it took is ``debate`` of the gate's metrics.

    Args:
        inner: the debate.
        held: from the settings, whether it may be held at all.
    """

    def decides(settings: Any) -> Mapping[str | None, Decision]:
        if not held(settings):
            return {}
        graph, own = inner(settings)
        needs: Needs = graph.builder.needs(own)
        return {role: with_settings(one, own) for role, one in graph.builder.deciders(own, needs).items()}

    async def step(state: DebateState, run: Run) -> dict[str, Any]:
        graph, settings = inner(run.settings)
        run.ceilings.hand_on()
        with handed_on(state["evidence"]):
            document: dict[str, Any] = await graph.ainvoke(asked_again(state), context=settings)
        run.session.document = None  # the debate that it is held in goes on
        saw = {**state["metrics"]["gate"], "debate": {"graph": document["graph"], **taken(document["calls"])}}
        update = {key: document[key] for key in (*HANDED, *VERDICT)}
        if set(document["confidence_parts"] or {}) - {"answer_share"}:  # else it is found from the answers of both
            update |= {key: document[key] for key in CONFIDENCE}
        return update | {
            "evidence": taken_back(document["evidence"]),
            "depth": state["depth"] + document["depth"],
            "metrics": {**document["metrics"], **state["metrics"], "gate": saw},
        }

    return Node(step, decides=decides)
