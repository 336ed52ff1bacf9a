"""The turns and citations behind a verdict, the warnings about it, and the outcome of a debate in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moot.nodes._records.entries import Turn, Warned
from moot.nodes._runtime.state import DebateState
from moot.nodes._runtime.turns import Citation
from moot.nodes._texts.answers import abstains, same_answer
from moot.nodes._texts.outage import found_nothing
from moot.nodes._texts.quotes import count_citations
from moot.nodes._texts.task import full_answer
from moot.retrievers._origins import largest_group, origins

NO_VERDICT = "No verdict: the evidence does not tell."
MOST_REASONS = 5
"""The maximum number of reasons shown, of quotes shown, and of agents named for a dissenting answer."""
CAVEATS: Mapping[str, str] = {
    "no_evidence": "no evidence",
    "fabricated_citations": "all citations fabricated",
    "single_origin": "one origin",
    "same_source": "the same source for several debaters",
    "stand_in": "a source stood in",
    "retrieval_failed": "a source failed",
    "demo_model": "demonstration model",
    "recorded_model": "recorded replies",
}
"""The kinds of warnings that are shown with a verdict, in this order, each with its short form for `verdict_line`."""
NOTHING_FOUND = "nothing found"
"""The short form of the warning ``no_evidence`` if the searches worked and found nothing (`found_nothing`)."""
MOST_CAVEATS = 3
"""Maximum number of warnings of one kind that are shown with a verdict."""


def verdict_turns(document: DebateState | dict[str, Any]) -> list[Turn]:
    """The turns on which the verdict is based; without a verdict, only judges' turns."""
    judged = [t for t in document["turns"] if t["step"] == "judge"]
    judged = [t for t in judged if t.get("verdict", document["raw_verdict"]) == document["raw_verdict"]]
    answer = document["answer"] or document["raw_verdict"]  # an abstention is only in the raw verdict
    if judged or answer is None:
        return judged
    # If no judge decided: the summariser's answer, the moderator's preference, and the last round's votes for it.
    decided = [t for t in document["turns"] if (t["step"] == "summarise" and t.get("answer")) or t.get("preferred")]
    votes = [(v["answer"], v["group"]) for v in document["votes"]]
    same = [g for given, g in votes if given is not None and same_answer(document["task"], given, answer)]
    group = next((g for given, g in votes if given == answer), same[0] if same else None)
    voters = {(v["agent"], v.get("number")) for v in document["votes"] if v["group"] == group and group is not None}
    given = [t for t in document["turns"] if t["step"] == "respond" and t["round"] == document["rounds"]]
    return [*decided, *(t for t in given if (t["agent"], t.get("number")) in voters)]


def verdict_citations(document: DebateState | dict[str, Any], *, fabricated: bool = False) -> list[Citation]:
    """The citations of the verdict, each pair of evidence and quote once.

    They are the citations in `verdict_turns`. The judges of a trial's panel cite nothing, so a trial's verdict has the
    citations from the winning side's arguments; an inconclusive verdict has none.

    Args:
        document: a result document.
        fabricated: whether to include citations of evidence that the citing speaker was not shown.
    """
    won = {"SUPPORTED": "plaintiff", "NOT SUPPORTED": "defense"}.get(str(document["raw_verdict"]))
    argued = [t for t in document["turns"] if t["step"] == "argue" and t.get("side") == won]
    cited = [c for t in [*verdict_turns(document), *argued] for c in t.get("citations") or []]
    once = {(c["evidence_id"], c["quote"], c["fabricated"]): c for c in cited}
    return [c for c in once.values() if fabricated or not c["fabricated"]]


def count_verdict_citations(document: DebateState | dict[str, Any]) -> dict[str, int]:
    """Counts the verdict's citations (`verdict_citations`): in total, verified, unverified and fabricated."""
    return count_citations([{"citations": verdict_citations(document, fabricated=True)}])


def citations_in_words(document: DebateState | dict[str, Any]) -> str:
    """A sentence that counts the verdict's citations: ``Citations: 2 verified, 1 unverified, 0 fabricated.``"""
    count = count_verdict_citations(document)
    kinds = ", ".join(f"{count[kind]} {kind}" for kind in ("verified", "unverified", "fabricated"))
    return f"Citations: {kinds}." if count["total"] else "Citations: none."


# --- warnings ---------------------------------------------------------------------------------------------------------


def verdict_warnings(document: DebateState | dict[str, Any]) -> list[Warned]:
    """Warnings about the basis of a verdict: no evidence, only fabricated citations, or a single origin."""
    if document["answer"] is None and not abstains(document["task"], document["raw_verdict"]):
        return []
    warned: list[Warned] = []

    def warn(kind: str, detail: str) -> None:
        warned.append({"kind": kind, "where": "verdict", "detail": detail})

    known = {piece["id"] for piece in document["evidence"]}
    decided = verdict_turns(document) or document["turns"]
    if not known and _was_meant_to_search(document):
        day = document["settings"].get("published_before")
        nothing = "the searches found nothing" + (f" published before {day}" if day else "")
        why = nothing if found_nothing(document) else "none was found"
        warn("no_evidence", f"The verdict is based on no evidence: {why}.")
    elif known and not any(id in known for turn in decided for id in turn.get("evidence_ids") or []):
        warn("no_evidence", "The verdict is based on no evidence: it was decided without any.")
    count = count_verdict_citations(document)
    if count["total"] and count["fabricated"] == count["total"]:
        several = f"All {count['total']} citations of the verdict are fabricated: they name"
        start = several if count["total"] > 1 else "The only citation of the verdict is fabricated: it names"
        warn("fabricated_citations", f"{start} evidence that was not shown.")
    # One verified citation is enough for this warning; near-duplicates have the same origin.
    if len(found := verdict_origins(document)) == 1:
        warn("single_origin", f"All verified citations of the verdict are of one origin: {found[0]}.")
    return warned


def verdict_origins(document: DebateState | dict[str, Any]) -> list[str]:
    """The names of the origins of the verdict's verified citations, each once."""
    cited = {c["evidence_id"] for c in verdict_citations(document) if c["verified"]}
    return list(dict.fromkeys(origins(piece for piece in document["evidence"] if piece["id"] in cited).values()))


def share_warnings(document: DebateState | dict[str, Any]) -> list[Warned]:
    """The warning ``origin_share``: too many pieces of evidence with a web address are near-duplicates."""
    share, evidence = document["settings"].get("max_origin_share", 1), document["evidence"]
    if share >= 1 or len(group := largest_group(evidence)) <= max(2, share * len(evidence)):
        return []
    detail = (
        f"Of the {len(evidence)} pieces of evidence, {len(group)} are near-duplicates of one another, from "
        f"{origins(group)[group[0]['id']]}. This is more than a share of {share:g} (max_origin_share)."
    )
    return [{"kind": "origin_share", "where": "close", "detail": detail}]


def _was_meant_to_search(document: DebateState | dict[str, Any]) -> bool:
    """Whether a debate was meant to search for evidence, even if it did not."""
    settings = document["settings"]
    if document["corpora"] or document["debates"]:  # the debate has searched, or is a trial
        return True
    if settings.get("retrieval") == "none" or settings.get("max_tool_calls") == 0:
        return False
    debaters = [debater for debater in settings.get("debaters") or [] if isinstance(debater, Mapping)]
    return bool(settings.get("sources")) or any(debater.get("retriever") for debater in debaters)


def caveats(document: Mapping[str, Any]) -> list[Warned]:
    """The warnings that are shown with the verdict, in the order of `CAVEATS`, at most `MOST_CAVEATS` of a kind."""
    found: list[Warned] = []
    for kind in CAVEATS:
        of_kind = {one["detail"]: one for one in document["warnings"] if one["kind"] == kind}
        found += [*of_kind.values()][:MOST_CAVEATS]
    return found


def caveat_in_words(warned: Warned) -> str:
    """The text with which a warning is shown with the verdict."""
    return f"A source failed: {warned['detail']}" if warned["kind"] == "retrieval_failed" else warned["detail"]


def nothing_found(document: Mapping[str, Any]) -> str:
    """`NOTHING_FOUND` if the debate is done, and its searches worked and found nothing; else an empty text."""
    return NOTHING_FOUND if document["status"] == "done" and found_nothing(document) else ""


def verdict_line(document: Mapping[str, Any], verdict: str) -> str:
    """A verdict and the short forms of its warnings on one line: ``REFUTES (max_rounds) - no evidence``."""
    short = {**CAVEATS, "no_evidence": NOTHING_FOUND if found_nothing(document) else CAVEATS["no_evidence"]}
    kinds = dict.fromkeys(short[one["kind"]] for one in caveats(document))
    return verdict + (f" - {'; '.join(kinds)}" if kinds else "")


# --- in words ---------------------------------------------------------------------------------------------------------


def turns_by_reason(document: DebateState | dict[str, Any]) -> dict[str, list[Turn]]:
    """The reasons in `verdict_turns`, each once, with all turns that give this reason in the same words."""
    given: dict[str, list[Turn]] = {}
    for turn in verdict_turns(document):
        if reason := turn.get("rationale") or turn.get("reason"):
            given.setdefault(reason, []).append(turn)
    return given


def outcome_in_words(document: Mapping[str, Any]) -> str:
    """The outcome of a debate as a text; only the error if it failed, and no reasons if there is no verdict."""
    if document["error"]:
        return f"No verdict. {document['error']['detail']}"
    warned = "\n".join(f"Warning: {caveat_in_words(one)}" for one in caveats(document))
    answer = document["answer"]
    if answer is None and not abstains(document["task"], document["raw_verdict"]):
        return "\n\n".join(filter(None, (f"No verdict ({document['stop_reason']}).", warned)))
    known = {piece["id"]: piece for piece in document["evidence"]}
    reasons = [
        f"{', '.join(dict.fromkeys(turn['agent'] for turn in turns))}: {reason}"
        for reason, turns in turns_by_reason(dict(document)).items()
    ]
    cited = [
        f'- {known[c["evidence_id"]]["title"] or c["evidence_id"]}: "{c["quote"]}"'
        + ("" if c["verified"] else " (not found in its text)")
        for c in verdict_citations(dict(document))
    ]
    verdict = NO_VERDICT if answer is None else full_answer(document["task"], answer)
    head = verdict_line(document, f"{verdict} ({document['stop_reason']})")
    counted = citations_in_words(dict(document))
    robustness = (document.get("robustness") or {}).get("said", "")
    blocks = [head, warned, robustness, *reasons[:MOST_REASONS], "\n".join([counted, *cited[:MOST_REASONS]])]
    return "\n\n".join(block for block in blocks if block)
