"""A gate before a debate: agents answer independently.

By default, a debate follows only if their answers do not settle the claim.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langgraph.types import Send
from moot.nodes._models.step_record import tokens_of
from moot.nodes._records.entries import GATE, Call, RoundReason, StopReason, Task, Turn
from moot.nodes._records.reducers import recorded_round
from moot.nodes._runtime.ceilings import Decision, is_spent
from moot.nodes._runtime.node import Node, NodeContext, choose_model
from moot.nodes._runtime.opening import Needs
from moot.nodes._runtime.state import DebateState
from moot.nodes._runtime.turns import new_turn
from moot.nodes._speakers.gate import GateSettings
from moot.nodes._speakers.turns import send_turn, speaker_declaration
from moot.nodes._steps.compare import EQUIVALENCE, agreed_answer, close_round
from moot.nodes._texts.given import as_outer_evidence, inherit_evidence
from moot.nodes._texts.task import TASKS
from moot.retrievers._evidence import Evidence
from moot.retrievers._origins import origins

Inner = Callable[[Any], tuple[Any, Any]]
"""Takes the gate's settings; returns the graph and the settings of the debate that follows the gate."""
SAME_MODEL_AND_EVIDENCE = (
    "one model at temperature 0 read the same evidence, so their agreement says little. Use different sources or "
    "models, or a temperature above 0."
)
"""The end of the warning about readers (the gate's agents) whose answers are hardly independent."""
PASSED_KEYS = ("turns", "corpora", "calls", "warnings", "round_log", "debates", "graphs", "scores", "votes", "rounds")
VERDICT_KEYS = ("answer", "raw_verdict", "stop_reason", "error")
CONFIDENCE_KEYS = ("confidence", "confidence_parts", "confidence_from")
"""The keys of the inner debate's confidence.

`debate_node` copies `PASSED_KEYS`, `VERDICT_KEYS` and `CONFIDENCE_KEYS` from the inner debate's document into the outer
debate's state. It copies `CONFIDENCE_KEYS` only if the inner debate's confidence is based on more than counted answers.
"""


def to_readers(state: DebateState, settings: GateSettings) -> list[Send]:
    """Builds the `Send`s that make the gate's agents answer independently, before any debate.

    Args:
        state: the debate's state.
        settings: settings with ``agents``.
    """
    first = [
        (speaker_declaration(one) | {"place": place}, new_turn(0, one.name, phase=GATE))
        for place, one in enumerate(settings.agents, 1)
    ]
    return [send_turn("reader", state, who, turn, previous_query=None) for who, turn in first]


def verified_origins(answers: Iterable[Turn], evidence: Sequence[Evidence]) -> list[str]:
    """The origins of the evidence from which the answers have verified quotes, each origin once; blocking."""
    cited = {c["evidence_id"] for turn in answers for c in turn.get("citations") or [] if c["verified"]}
    named = origins(evidence)
    return list(dict.fromkeys(name for id, name in named.items() if id in cited))


def dependent_readers(answers: Iterable[Turn], settings: GateSettings) -> list[list[str]]:
    """Groups of readers whose answers are hardly independent: one model at temperature 0 with the same evidence."""
    own = {agent.name: agent.model for agent in settings.agents}
    groups: dict[tuple[Any, ...], list[str]] = {}
    for turn in answers:
        name = turn["agent"]
        choice = choose_model(settings, name, own[name])
        named = "temperature" in choice.model_fields_set
        if (choice.temperature if named else settings.temperature_of(name)) == 0:
            groups.setdefault((choice.model, *sorted(turn["evidence_ids"])), []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def calls_and_tokens(calls: Sequence[Call]) -> dict[str, int]:
    return {"calls": len(calls), "tokens": tokens_of(calls)}


def gate_node() -> Node:
    """Counts the gate's answers as votes, and decides whether they settle the claim without a debate.

    Reads: claim, task, turns, evidence, calls, metrics. The step writes the gate's record as ``gate`` of the debate's
    ``metrics``: the ``answers``, the common answer (``agreed``), the ``origins`` of verified quotes for it, whether the
    gate was ``passed``, and its cost (``spent``). The entry ``debate`` is null until a debate has followed.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        closed = await close_round(state, run)
        agreed, answers = agreed_answer(closed["votes"]), [t for t in state["turns"] if t["step"] == "respond"]
        found = await asyncio.to_thread(verified_origins, answers, state["evidence"])
        passed = agreed is not None and len(found) >= run.settings.min_verified
        for names in dependent_readers(answers, run.settings) if passed else ():
            run.record.warn("readers_alike", f"{', '.join(names)}: {SAME_MODEL_AND_EVIDENCE}")
        reason: RoundReason = "agreed" if passed else "disputed" if agreed is None else "unverified"
        record = {
            "answers": {vote["agent"]: vote["answer"] for vote in closed["votes"]},
            "agreed": agreed,
            "origins": found if agreed is not None else [],
            "passed": passed,
            "spent": calls_and_tokens([*state["calls"], *run.record.calls]),
            # None until a debate has followed
            "debate": None,
        }
        closed |= recorded_round(closed["rounds"], GATE, reason=reason, votes=closed["votes"])
        return closed | {"metrics": {**state["metrics"], "gate": record}}

    return Node(step, prompts=(EQUIVALENCE,))


def stop_reason_without_debate(state: DebateState, settings: Any) -> StopReason:
    """The stop reason if the gate's answers decide by vote: the gate was not passed, and no debate follows.

    Args:
        state: the debate's state.
        settings: the debate's settings.
    """
    return "budget_exhausted" if is_spent(state) else "single_pass"


def inner_input(state: DebateState) -> dict[str, Any]:
    """The input for an inner debate, without evidence, from the outer debate's state."""
    task: Task = state["task"]
    asked: dict[str, Any] = {"claim": state["claim"], "task": task["name"]}
    if task["name"] == "labels":
        asked["labels"] = {label: task["meanings"].get(label, "") for label in task["labels"]}
    elif TASKS[task["name"]].kind == "choice":
        asked["options"] = list(task["meanings"].values())
    return asked | {key: task[key] for key in ("claim_date", "speaker") if key in task}


def with_inner_settings(decision: Decision, own: Any) -> Decision:
    """The same decision, but with the inner debate's settings (``own``) as the source of its placeholders' values."""
    fill = decision.values
    return replace(decision, values=lambda state, settings: fill(state, own)) if fill else decision


def debate_node(inner: Inner, may_follow: Callable[[Any], bool]) -> Node:
    """Runs another system's debate on all evidence so far, and takes its verdict or its error.

    Reads: claim, task, evidence, depth, metrics. ``metrics.gate.debate`` gets the name of the other system
    and the calls and tokens of its debate.

    Args:
        inner: takes the gate's settings; returns the graph and the settings of the debate.
        may_follow: takes the gate's settings; returns whether a debate may follow the gate.
    """

    def decides(settings: Any) -> Mapping[str | None, Decision]:
        if not may_follow(settings):
            return {}
        graph, own = inner(settings)
        needs: Needs = graph.builder.needs(own)
        return {role: with_inner_settings(one, own) for role, one in graph.builder.deciders(own, needs).items()}

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        graph, settings = inner(run.settings)
        run.budget.release_held()
        with inherit_evidence(state["evidence"]):
            document: dict[str, Any] = await graph.ainvoke(inner_input(state), context=settings)
        run.session.document = None  # the inner debate has set it at its end, but the outer debate continues
        record = {
            **state["metrics"]["gate"],
            "debate": {"graph": document["graph"], **calls_and_tokens(document["calls"])},
        }
        update = {key: document[key] for key in (*PASSED_KEYS, *VERDICT_KEYS)}
        # If the confidence only counts answers, it is computed later, from the answers of the gate and the debate.
        if set(document["confidence_parts"] or {}) - {"answer_share"}:
            update |= {key: document[key] for key in CONFIDENCE_KEYS}
        return update | {
            "evidence": as_outer_evidence(document["evidence"]),
            "depth": state["depth"] + document["depth"],
            "metrics": {**document["metrics"], **state["metrics"], "gate": record},
        }

    return Node(step, decides=decides)
