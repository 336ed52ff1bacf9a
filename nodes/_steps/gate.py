"""A gate before a debate: agents answer independently.

By default, a debate follows only if their answers do not settle the claim.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from langgraph.types import Send
from moot.nodes._models.step_record import tokens_of
from moot.nodes._records.entries import GATE, ORIGIN, Call, RoundReason, StopReason, Task, Turn
from moot.nodes._records.pieces import Pieces
from moot.nodes._records.reducers import recorded_round
from moot.nodes._runtime.ceilings import Decision, is_spent
from moot.nodes._runtime.node import Node, NodeContext, choose_model
from moot.nodes._runtime.opening import Needs
from moot.nodes._runtime.state import DebateState
from moot.nodes._runtime.turns import new_turn
from moot.nodes._speakers.gate import GateSettings
from moot.nodes._speakers.turns import send_turn, speaker_declaration
from moot.nodes._steps.compare import EQUIVALENCE, agreed_answer, answers_of, close_round, compare_with
from moot.nodes._texts.given import as_outer_evidence, inherit_evidence
from moot.nodes._texts.plans import plan_of, planned_search, searches_so_far
from moot.nodes._texts.task import TASKS, is_reasoning_task
from moot.nodes._texts.verdict import is_open
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
    planned = planned_search(state["claim"], state["turns"])
    first = [
        (
            speaker_declaration(one) | {"place": place},
            new_turn(0, one.name, phase=GATE) | (planned if one.retriever else {}),
        )
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


def why_not_passed(
    task: Task, agreed: str | None, origins: Sequence[str], settings: GateSettings
) -> Literal["differ", "open", "unverified"] | None:
    """Why the answers of a gate's agents do not settle the claim; None if they do.

    ``agreed`` is their common answer, and ``origins`` are those of the verified quotes for it.
    """
    if agreed is None:
        return "differ"
    if settings.open_continues and settings.trigger != "never" and is_open(task, agreed):
        return "open"
    return None if len(origins) >= settings.min_verified else "unverified"


def gate_node() -> Node:
    """Counts the gate's answers as votes, and decides whether they settle the claim without a debate.

    Reads: claim, task, turns, evidence, calls, metrics. The step writes the gate's record as ``gate`` of the debate's
    ``metrics``: the ``answers``, the common answer (``agreed``), the ``origins`` of verified quotes for it, whether the
    gate was ``passed``, the trigger that ``fired`` (``differ``, ``open``, ``unverified``, ``always``, or null), and its
    cost (``spent``). The entry ``debate`` is null until a debate has followed.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        closed = await close_round(state, run)
        agreed, answers = agreed_answer(closed["votes"]), [t for t in state["turns"] if t["step"] == "respond"]
        found = await asyncio.to_thread(verified_origins, answers, state["evidence"])
        trigger = run.settings.trigger
        failing = why_not_passed(state["task"], agreed, found, run.settings)
        for names in dependent_readers(answers, run.settings) if failing is None else ():
            run.record.warn("readers_alike", f"{', '.join(names)}: {SAME_MODEL_AND_EVIDENCE}")
        ends: RoundReason = "agreed" if trigger in ("differ", "never") else "first_answers"
        reason: RoundReason = "disputed" if failing == "differ" else failing or ends
        record = {
            "answers": {vote["agent"]: vote["answer"] for vote in closed["votes"]},
            "agreed": agreed,
            "origins": found if agreed is not None else [],
            "passed": failing is None,
            "fired": failing or ("always" if trigger == "always" else None),
            "spent": calls_and_tokens([*state["calls"], *run.record.calls]),
            # None until a debate has followed
            "debate": None,
        }
        closed |= recorded_round(closed["rounds"], GATE, reason=reason, votes=closed["votes"])
        return closed | {"metrics": {**state["metrics"], "gate": record}}

    return Node(step, prompts=(EQUIVALENCE,))


def quoting_answers(state: DebateState) -> list[Turn]:
    """The answers of the gate's agents that have a verified quote.

    Args:
        state: the debate's state.
    """
    answers = answers_of(state["turns"])
    return [turn for turn in answers if any(one["verified"] for one in turn.get("citations") or [])]


def warrants_node() -> Node:
    """Decides again about the debate, after the answers of the gate's agents were assessed.

    Reads: task, turns, calls, metrics. The gate stays passed only if a checked quote of one of them bears the common
    answer out; an assessment that failed bears nothing out. An answer that leaves the claim open needs no such quote,
    nor does one on a task of reasoning. The gate's record gets ``warrants``, which counts what the quotes do for the
    answer; if none bears it out, ``fired`` is ``unwarranted``.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        gate, task = state["metrics"]["gate"], state["task"]
        cited = [one for turn in answers_of(state["turns"]) for one in turn.get("citations") or [] if one["verified"]]
        found = Counter(one["warrant"] or "unknown" for one in cited)
        passed = is_open(task, gate["agreed"]) or is_reasoning_task(task) or found["entails"] > 0
        fired = None if passed else "unwarranted"
        spent = calls_and_tokens(state["calls"])
        record = {**gate, "passed": passed, "fired": fired, "warrants": dict(found), "spent": spent}
        reason: RoundReason = "agreed" if passed else "unwarranted"
        return {"metrics": {**state["metrics"], "gate": record}, **recorded_round(0, GATE, reason=reason)}

    return Node(step)


def to_self_critique(state: DebateState, settings: GateSettings) -> list[Send]:
    """Builds the `Send`s that make each of the gate's agents attack its own answer, from the same evidence.

    Args:
        state: the debate's state.
        settings: settings with ``agents``.
    """
    known, own = Pieces(state["evidence"]), {turn["agent"]: turn for turn in answers_of(state["turns"])}
    return [
        send_turn(
            "attack",
            state,
            speaker_declaration(agent),
            new_turn(1, agent.name, phase=GATE),
            own=own[agent.name],
            evidence=[known[id] for id in own[agent.name]["evidence_ids"]],
            retrieval=own[agent.name].get("retrieval"),
        )
        for agent in settings.agents
    ]


def self_critique_node() -> Node:
    """Compares the answers of agents that attacked their own with their first ones, and decides about the debate again.

    Reads: claim, task, turns, calls, metrics. The gate stays passed only if no answer changed; an unusable reply counts
    as a change. The gate's record gets ``critique``, with the new ``answers`` and the agents that ``changed``; if one
    did, ``fired`` is ``self_critique``.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        closed = await close_round(state, run)
        now = answers_of(state["turns"])
        round = now[0]["round"]  # `close_round` counts earlier answers in place of those that a ceiling prevented
        changed, compared = await compare_with(state, run, answers_of(state["turns"], round - 1), now)
        record = {
            **state["metrics"]["gate"],
            "passed": not changed,
            "fired": "self_critique" if changed else None,
            "critique": {"answers": {turn["agent"]: turn.get("answer") for turn in now}, "changed": changed},
            "spent": calls_and_tokens([*state["calls"], *run.record.calls]),
        }
        reason: RoundReason = "changed" if changed else "unchanged"
        # An agent's answer may be compared with others' and with its own first one, in one turn.
        made = {turn["agent"]: turn["comparisons"] for turn in closed["turns"]}
        both = [turn | {"comparisons": [*made.get(turn["agent"], ()), *turn["comparisons"]]} for turn in compared]
        closed["turns"] = [*closed["turns"], *both]
        closed |= {"rounds": round} | recorded_round(round, GATE, reason=reason, votes=closed["votes"])
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
    return asked | {key: value for key, value in task.items() if key in ORIGIN}


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
        searches = searches_so_far(state["turns"], state["evidence"])
        with inherit_evidence(state["evidence"], searches, plan_of(state["turns"])):
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
