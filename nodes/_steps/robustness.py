"""Checks of a verdict's robustness, which show the evidence that the verdict depends on.

Each check repeats a deciding step after the verdict, usually with less or reordered evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

from moot.core.errors import MootError
from moot.nodes._models.parallel import all_at_once
from moot.nodes._models.speaker import Speaker
from moot.nodes._records.entries import Turn
from moot.nodes._records.pieces import Pieces
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import DebateState
from moot.nodes._steps.judging import judge
from moot.nodes._steps.responding import SINGLE_PROMPT, respond
from moot.nodes._texts.answers import same_answer
from moot.nodes._texts.plans import plan_of
from moot.nodes._texts.robustness_checks import Check, Quoted, checks_of, robustness_result
from moot.nodes._texts.show import show_remarks
from moot.nodes._texts.verdict import is_open, verdict_citations
from moot.retrievers import Evidence
from moot.retrievers._evidence import active_evidence
from moot.retrievers._origins import origins

UNUSED_STATUSES = ("seed", "disputed", "discarded")
"""The statuses of evidence that was not used in the debates of a trial."""


def robustness_node() -> Node:
    """Writes ``robustness``: on which evidence the verdict depends, if it is asked for and there is a verdict."""

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        # Not a panel's judges, nor a moderator, whose prompt shows arguments in place of answers.
        judged = [t for t in state["turns"] if t["step"] == "judge" and t["agent"] == "judge"]
        judge_turn = judged[-1] if judged else None
        evidence = decider_evidence(state, judge_turn)
        names = origins(evidence)
        checks = checks_of(evidence, names, quotes_by_origin(state, names), cited_origins(state, names))
        # The checks repeat the answer step of ``rag``: does it give this verdict at all, with all evidence?
        if checks and judge_turn is None and state["graph"] != "rag":
            checks.insert(0, {**checks[0], "kind": "all", "without": [], "evidence_ids": [p["id"] for p in evidence]})
        selected, most = checks[: run.settings.robustness_calls], run.settings.robustness_calls
        kind: Literal["judge", "answer"] = "judge" if judge_turn else "answer"
        before = Counter(run.budget.skipped), Counter(run.budget.cut)
        # A failed call leaves only its check without an answer.
        made = await all_at_once(repeat_decision(state, kind, check, evidence, names, run) for check in selected)
        # Calls that a ceiling prevented in the checks do not count as skipped calls of the debate.
        run.budget.skipped, run.budget.cut = before
        return {"robustness": robustness_result(kind, made, max(0, len(checks) - most))}

    def idle(state: DebateState, settings: Any) -> bool:
        return not (settings.robustness and state["raw_verdict"] is not None)

    return Node(step, idle=idle)


def decider_evidence(state: DebateState, judge_turn: Turn | None) -> list[Evidence]:
    """The active evidence that the judge was shown or, without its turn, whose status is not in `UNUSED_STATUSES`."""
    ids = set(judge_turn["evidence_ids"]) if judge_turn else None
    return [
        piece
        for piece in active_evidence(state["evidence"])
        if (piece["id"] in ids if ids is not None else piece.get("status") not in UNUSED_STATUSES)
    ]


def quotes_by_origin(state: DebateState, names: dict[str, str]) -> dict[str, list[Quoted]]:
    """The verified quotes of all turns by origin; only from the pieces whose origins are in ``names`` (by id)."""
    texts = {piece["id"]: piece["text"] for piece in state["evidence"]}
    found: dict[str, list[Quoted]] = {}
    for turn in state["turns"]:
        answer = turn.get("answer")
        for one in turn.get("citations") or []:
            if one["verified"] and one["evidence_id"] in names:
                text = texts[one["evidence_id"]][one["start"] : one["end"]]
                bears = one.get("warrant")
                says_it = answer is not None and not is_open(state["task"], answer) and bears != "neither"
                quoted = Quoted(text, str(answer) if says_it else "", bears != "contradicts")
                found.setdefault(names[one["evidence_id"]], []).append(quoted)
    return found


def cited_origins(state: DebateState, names: dict[str, str]) -> list[str]:
    """The origins of the verdict's verified quotes, each once; ``names`` is the same as for `quotes_by_origin`."""
    ids = [one["evidence_id"] for one in verdict_citations(state) if one["verified"]]
    return list(dict.fromkeys(names[id] for id in ids if id in names))


def cites_only(turn: Turn, without: set[str], names: dict[str, str]) -> bool:
    """Whether a turn has verified citations, and every one of them cites an origin in ``without``."""
    cited = {names.get(one["evidence_id"]) for one in turn.get("citations") or [] if one["verified"]}
    return bool(cited) and cited <= without


async def repeat_decision(
    state: DebateState, kind: str, check: Check, evidence: Sequence[Evidence], names: dict[str, str], run: NodeContext
) -> Check:
    """Repeats the deciding step for a check; if the call fails, the check's ``outcome`` is the error's kind."""
    by_id = Pieces(evidence)
    left, without = [by_id[id] for id in check["evidence_ids"]], set(check["without"])
    history = [t for t in state["turns"] if t["step"] == "respond"]
    turns = [turn for turn in history if not cites_only(turn, without, names)] if without else history
    made: Check = {**check, "turns_left_out": len(history) - len(turns) if kind == "judge" else 0}
    options: dict[str, Any] = {"known": not left, "verified_quotes": run.settings.verified_quotes}
    claim, task = state["claim"], state["task"]
    try:
        if kind == "judge":
            speaker = await run.speaker_of({"name": "judge", "told": show_remarks(state["turns"])})
            scores = state.get("scores")
            reply = await judge(claim, task, turns, left, speaker, scores=scores, **options)
        else:
            options |= {"prompt": SINGLE_PROMPT, "plan": plan_of(state["turns"])}
            reply = await respond(claim, task, left, await answering_speaker(state, run), **options)
    except MootError as error:  # whatever it is: the debate has its verdict
        run.record.warn("check_failed", error.detail)
        return {**made, "outcome": getattr(error, "kind", "failed")}
    verdict = state["answer"] if state["answer"] is not None else state["raw_verdict"]
    same = reply.answer is not None and same_answer(task, reply.answer, str(verdict))
    return {**made, "answer": reply.answer, "same": same, "outcome": "ok"}


async def answering_speaker(state: DebateState, run: NodeContext) -> Speaker:
    """The speaker of the checks if no single judge decided: the role ``judge``, if the system has it, else an agent."""
    roles = run.settings.roles() or set()
    first = next((turn["agent"] for turn in state["turns"] if turn["step"] in ("respond", "judge")), "judge")
    return await run.speaker("judge" if "judge" in roles else first)
