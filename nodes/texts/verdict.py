"""What a verdict rests on, and a debate's end in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moot.nodes.runtime.state import DebateState, Turn
from moot.nodes.runtime.turns import Citation
from moot.nodes.texts.answers import abstains, same_answer
from moot.nodes.texts.task import full_answer

NO_VERDICT = "No verdict: the evidence does not tell."
MOST_REASONS = 5
"""Reasons and citations that are put into words; those who agree may be many."""


def verdict_turns(document: DebateState | dict[str, Any]) -> list[Turn]:
    """The turns that the verdict rests on.

    The judge's; else that of the summariser or moderator, where there is one, and the last answers that say the same.
    """
    judged = [t for t in document["turns"] if t["step"] == "judge"]
    judged = [t for t in judged if t.get("verdict", document["raw_verdict"]) == document["raw_verdict"]]  # of a panel
    answer = document["answer"] or document["raw_verdict"]  # which may be an abstention
    if judged or answer is None:
        return judged
    decided = [t for t in document["turns"] if (t["step"] == "summarise" and t.get("answer")) or t.get("preferred")]
    votes = [(v["answer"], v["group"]) for v in document["votes"]]
    group = next((g for said, g in votes if said is not None and same_answer(document["task"], said, answer)), None)
    voters = {(v["agent"], v.get("number")) for v in document["votes"] if v["group"] == group and group is not None}
    given = [t for t in document["turns"] if t["step"] == "respond" and t["round"] == document["rounds"]]
    return [*decided, *(t for t in given if (t["agent"], t.get("number")) in voters)]


def verdict_reasons(document: DebateState | dict[str, Any]) -> list[tuple[str, str]]:
    """Who decided, and why, `MOST_REASONS` at most."""
    reasons = [(turn["agent"], turn.get("rationale") or turn.get("reason")) for turn in verdict_turns(document)]
    return [(agent, reason) for agent, reason in reasons if reason][:MOST_REASONS]


def verdict_citations(document: DebateState | dict[str, Any]) -> list[Citation]:
    """What the verdict cites, each piece of evidence and quote once, without fabricated ids.

    The judges of a panel cite nothing; a verdict of theirs rests on what the side that it is for cited.

    Args:
        document: a result document.
    """
    won = {"SUPPORTED": "plaintiff", "NOT SUPPORTED": "defense"}.get(str(document["raw_verdict"]))
    argued = [t for t in document["turns"] if t["step"] == "argue" and t.get("side") == won]
    cited = [c for t in [*verdict_turns(document), *argued] for c in t.get("citations") or [] if not c["fabricated"]]
    return list({(c["evidence_id"], c["quote"]): c for c in cited}.values())


def in_words(document: Mapping[str, Any]) -> str:
    """How a debate ended: the answer, the reasons of those who decided, and what it rests on; or why there is none."""
    if document["error"]:
        return f"No verdict. {document['error']['detail']}"
    answer = document["answer"]
    if answer is None and not abstains(document["task"], document["raw_verdict"]):
        return f"No verdict ({document['stop_reason']})."
    known = {piece["id"]: piece for piece in document["evidence"]}
    said = [f"{agent}: {reason}" for agent, reason in verdict_reasons(dict(document))]
    cited = [
        f'- {known[c["evidence_id"]]["title"] or c["evidence_id"]}: "{c["quote"]}"'
        + ("" if c["verified"] else " (not found in its text)")
        for c in verdict_citations(dict(document))
    ]
    said_it = NO_VERDICT if answer is None else full_answer(document["task"], answer)
    head = f"{said_it} ({document['stop_reason']})"
    blocks = [head, *said, "\n".join(cited[:MOST_REASONS])]
    return "\n\n".join(block for block in blocks if block)
