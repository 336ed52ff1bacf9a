"""The turns and citations behind a verdict, the warnings about it, and the outcome of a debate in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from moot.nodes._records.entries import OPPOSITE, Task, Turn, Warned
from moot.nodes._runtime.state import DebateState
from moot.nodes._runtime.turns import Citation
from moot.nodes._texts.answers import abstains, same_answer
from moot.nodes._texts.dissent import last_turns
from moot.nodes._texts.outage import found_nothing
from moot.nodes._texts.plans import asked_in_vain
from moot.nodes._texts.quotes import count_citations
from moot.nodes._texts.task import full_answer, is_reasoning_task, unsettled_label
from moot.retrievers import Evidence
from moot.retrievers._origins import largest_group, origins

NO_VERDICT = "No verdict: the evidence does not tell."
MOST_REASONS = 5
"""The maximum number of reasons shown, of quotes shown, and of agents named for a dissenting answer."""
CAVEATS: Mapping[str, str] = {
    "no_evidence": "no evidence",
    "fabricated_citations": "all citations fabricated",
    "verdict_withheld": "withheld",
    "rests_on_claim_page": "the claim's own page",
    "rests_on_retracted": "a retracted work",
    "unwarranted": "no quote bears it out",
    "not_assessed": "not assessed",
    "doubted": "doubted",
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
    # Only the raw verdict keeps an abstention and a withheld verdict.
    withheld = (document.get("metrics") or {}).get("withheld")
    answer = (None if withheld else document["answer"]) or document["raw_verdict"]
    if judged or answer is None:
        return judged
    # If no judge decided: the summariser's or the aggregator's answer, or the moderator's preference, and the last
    # answers that voted for it. An aggregator answers after each round.
    final = ("summarise", "aggregate")
    decided = [t for t in document["turns"] if (t["step"] in final and t.get("answer")) or t.get("preferred")][-1:]
    group = _group_of(document, answer)
    voters = {(v["agent"], v.get("number")) for v in document["votes"] if v["group"] == group and group is not None}
    given = last_turns(t for t in document["turns"] if t["step"] == "respond")
    return [*decided, *(turn for speaker, turn in given.items() if speaker in voters)]


def _group_of(document: DebateState | dict[str, Any], answer: str) -> int | None:
    """The group of the votes for an answer; None if nobody voted for it."""
    votes = [(v["answer"], v["group"]) for v in document["votes"]]
    same = [g for given, g in votes if given is not None and same_answer(document["task"], given, answer)]
    return next((g for given, g in votes if given == answer), same[0] if same else None)


def side_borne_out(turn: Mapping[str, Any], warrant: str | None = None) -> str | None:
    """The side that a turn's quotes bear out: its own, or the other one if it concedes; None outside of trials.

    A quote with the ``warrant`` contradicts bears out the opposite of this side.
    """
    side = turn.get("side")
    flips = bool(turn.get("concedes")) != (warrant == "contradicts")
    return OPPOSITE[side] if side and flips else side


def winning_arguments(document: DebateState | dict[str, Any]) -> list[Turn]:
    """The arguments of a trial that bear out the side of its verdict; none of an inconclusive verdict."""
    won = {"SUPPORTED": "plaintiff", "NOT SUPPORTED": "defense"}.get(str(document["raw_verdict"]))
    argued = (t for t in document["turns"] if t["step"] == "argue" and t.get("argument"))
    return [turn for turn in argued if won and side_borne_out(turn) == won]


def verdict_citations(document: DebateState | dict[str, Any], *, fabricated: bool = False) -> list[Citation]:
    """The citations of the verdict, each pair of evidence and quote once.

    They are the citations in `verdict_turns`. The judges of a trial's panel cite nothing, so a trial's verdict has the
    citations from arguments that bear the winning side out; an inconclusive verdict has none.

    Args:
        document: a result document.
        fabricated: whether to include citations of evidence that the citing speaker was not shown.
    """
    decided = [*verdict_turns(document), *winning_arguments(document)]
    cited = [c for t in decided for c in t.get("citations") or []]
    once: dict[Any, Citation] = {}
    for c in cited:
        key = (c["evidence_id"], c["quote"], c["fabricated"])
        known = once.get(key, c)
        once[key] = min(known, c, key=lambda one: WARRANTS.index(one.get("warrant")))
    return [c for c in once.values() if fabricated or not c["fabricated"]]


WARRANTS = ("entails", "contradicts", "neither", None)
"""What a quote does for an answer. If several who decided gave a quote, the first of these that was found counts."""
WARRANT_WORDS: Mapping[str | None, str] = {
    "entails": "bears it out",
    "contradicts": "speaks against it",
    "neither": "does not bear on it",
}
"""What a quote does for the answer that cites it, in words."""


def was_assessed(turn: Turn) -> bool:
    """Whether an answer of a debate with the setting ``assess`` was assessed, even if that failed."""
    return "faithfulness" in turn.get("scores", {})


def deciding_answers(document: DebateState | dict[str, Any]) -> list[Turn]:
    """The answers behind a verdict (`verdict_turns`), unless they leave the claim open; in a trial, whose panel quotes
    nothing, the `winning_arguments`.
    """
    if is_open(document["task"], document["answer"]):
        return []
    answered = [turn for turn in verdict_turns(document) if turn.get("answer") is not None and "citations" in turn]
    return answered or winning_arguments(document)


def is_open(task: Task, answer: str | None) -> bool:
    """Whether an answer settles nothing: there is none, or it is an abstention or the label for not enough evidence."""
    return answer is None or answer == unsettled_label(task) or abstains(task, answer)


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
    """Warnings about a verdict's basis: no evidence, only fabricated citations, retracted works, or a single origin."""
    if document["answer"] is None and not abstains(document["task"], document["raw_verdict"]):
        return []
    warned: list[Warned] = []

    def warn(kind: str, detail: str) -> None:
        warned.append({"kind": kind, "where": "verdict", "detail": detail})

    known = {piece["id"] for piece in document["evidence"]}
    decided = verdict_turns(document) or document["turns"]
    if is_open(document["task"], document["raw_verdict"]):  # an earlier round may have read what settles nothing
        decided = [*decided, *(turn for turn in document["turns"] if turn["step"] == "respond")]
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
    cited = {c["evidence_id"] for c in verdict_citations(document) if c["verified"]}
    retracted = [piece["id"] for piece in document["evidence"] if piece["id"] in cited and piece.get("retracted")]
    if cited and all(piece.get("claim_page") for piece in document["evidence"] if piece["id"] in cited):
        own = "The verdict quotes only the page or the site on which the claim appeared"
        warn("rests_on_claim_page", f"{own}: it shows what was said, not whether that is true.")
    if lacking := lacking_warrant(document):
        warn(*lacking)
    if doubt := doubt_in_words(document):
        warn("doubted", doubt)
    if retracted:
        what = "quotes only works" if len(retracted) == len(cited) else "also quotes works"
        warn("rests_on_retracted", f"The verdict {what} that were retracted: {', '.join(retracted)}.")
    return warned


def lacking_warrant(document: DebateState | dict[str, Any]) -> tuple[str, str] | None:
    """The kind and the text of the warning that no checked quote bears out a decisive verdict on evidence.

    It is ``unwarranted`` if all who decided were assessed, and ``not_assessed`` if an assessment failed. None if a
    quote of one of them bears it out, if nobody was assessed, or on a task of reasoning, whose evidence only helps.
    """
    assessed = document["settings"].get("assess") and any(map(was_assessed, deciding_answers(document)))
    if not assessed or is_reasoning_task(document["task"]):
        return None
    found = [c["warrant"] for c in verdict_citations(document) if c["verified"]]
    if "entails" in found:
        return None
    verdict = f"the verdict {document['answer'] or document['raw_verdict']!r}"
    if None in found:
        return "not_assessed", f"Whether the quotes of those who decided bear out {verdict} is not known."
    against, beside = found.count("contradicts"), found.count("neither")
    counts = [f"{count} {words}" for count, words in ((against, "against it"), (beside, "beside it")) if count]
    why = f"of its checked quotes, {' and '.join(counts)}" if counts else "they give no quote that is in the evidence"
    return "unwarranted", f"Nothing that those who decided quote bears out {verdict}: {why}."


def doubt_in_words(document: DebateState | dict[str, Any]) -> str:
    """A sentence on the doubt of a second opinion (``doubt_below``); empty without a doubt."""
    found = (document.get("metrics") or {}).get("second_opinion") or {}
    if not found.get("doubted"):
        return ""
    return (
        f"A second opinion, which read the evidence but not the debate, gives the verdict "
        f"{document['answer'] or document['raw_verdict']!r} a probability of {found['probability']:.2f}, below "
        f"{document['settings']['doubt_below']:g} (doubt_below); likeliest is {found['answer']!r}."
    )


def why_withheld(document: DebateState | dict[str, Any]) -> str:
    """Why a decisive verdict is withheld: none of its checked quotes may decide; empty if it is not withheld.

    Quotes from fact checks by others (unless ``fact_checks_decide``) and from retracted works do not decide. A verdict
    without checked quotes is not withheld, only warned of; nor is one that quotes the claim's own page, which shows
    what was said. With ``require_warrant``, a verdict is also withheld if no quote bears it out, or nothing was quoted.
    """
    task, answer = document["task"], document["answer"]
    if is_open(task, answer):
        return ""
    if document["settings"].get("require_warrant") and (why := _required_warrant(document)):
        return f"{why} A warrant is required (require_warrant). {_withheld(document)}"
    cited = {c["evidence_id"] for c in verdict_citations(document) if c["verified"]}
    pieces = [piece for piece in document["evidence"] if piece["id"] in cited]
    decide = document["settings"].get("fact_checks_decide", False)
    kinds = [_without_weight(piece, fact_checks_decide=decide) for piece in pieces]
    if not pieces or not all(kinds):
        return ""
    what = " and ".join(dict.fromkeys(kinds))
    return f"All checked quotes of the verdict {answer!r} are from {what}, which do not decide. {_withheld(document)}"


def _required_warrant(document: DebateState | dict[str, Any]) -> str:
    """Why a decisive verdict lacks the warrant that is required; empty if it has one, or needs none."""
    if is_reasoning_task(document["task"]):
        return ""
    if not any(was_assessed(turn) for turn in deciding_answers(document)):
        return f"No evidence was read for the verdict {document['answer']!r}, so nothing bears it out."
    lacking = lacking_warrant(document)
    return lacking[1] if lacking else ""


def _withheld(document: DebateState | dict[str, Any]) -> str:
    became = unsettled_label(document["task"]) or "none"
    return f"So it is withheld: the verdict is {became}, and `raw_verdict` has what was answered."


def _without_weight(piece: Evidence, *, fact_checks_decide: bool) -> str:
    """What a piece is whose quotes do not decide, in words; empty for other pieces."""
    if piece.get("retracted"):
        return "retracted works"
    return "fact checks by others" if piece.get("fact_check") and not fact_checks_decide else ""


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


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def warrants_in_short(document: Mapping[str, Any]) -> str:
    """What the checked quotes of a verdict do for it, counted: ``2 bear it out, 1 speaks against it``.

    Empty if they were not assessed.
    """
    return counted_warrants(verdict_citations(dict(document)))


def counted_warrants(citations: Iterable[Citation]) -> str:
    """What checked quotes do for an answer, counted, as `warrants_in_short`; empty if they were not assessed."""
    found = Counter(str(c.get("warrant")) for c in citations if c["verified"])
    plural = {"entails": "bear it out", "contradicts": "speak against it", "neither": "do not bear on it"}
    counts = ((found[bears], WARRANT_WORDS[bears], many) for bears, many in plural.items())
    return ", ".join(f"{count} {one if count == 1 else many}" for count, one, many in counts if count)


def votes_in_short(document: Mapping[str, Any]) -> str:
    """Who stands behind a verdict, counted: ``2 of 2 debaters``, ``panel 2 to 1``, ``judge; 1 of 2 debaters``.

    Empty without a verdict. An answer that nobody compared with another is ``one answer``. Of a verdict that is
    withheld, the answer that was given is named: ``2 of 2 debaters for REFUTES``.
    """
    text = _counted_votes(document)
    withheld = (document["metrics"] or {}).get("withheld")
    return f"{text} for {document['raw_verdict']}" if text and withheld else text


def _counted_votes(document: Mapping[str, Any]) -> str:
    """The same, without the answer."""
    answer = document["answer"] or document["raw_verdict"]
    if answer is None or document["status"] == "failed":
        return ""
    metrics, votes, counts = document["metrics"] or {}, document["votes"], votes_behind(document)
    if counts and metrics.get("panel"):
        return f"panel {counts[0]} to {counts[1] - counts[0]}"
    judged = any(turn["step"] == "judge" for turn in document["turns"])
    if counts is None:
        return "judge" if judged else "one answer"
    noun = "origins" if metrics.get("origins") else "debaters" if document["settings"].get("debaters") else "agents"
    counted = f"{counts[0]} of {counts[1]} {'answers' if 'number' in votes[0] and noun != 'origins' else noun}"
    return f"judge; {counted}" if judged else counted


def votes_behind(document: Mapping[str, Any]) -> tuple[int, int] | None:
    """How many of the last votes, or of a panel's judges, are for a verdict, and how many there are in all.

    None without a verdict, or if there are fewer than two votes.
    """
    answer = document["raw_verdict"] or document["answer"]
    if answer is None:
        return None
    if panel := (document["metrics"] or {}).get("panel"):
        given = panel["verdicts"]
        return given.get(document["raw_verdict"], 0), sum(given.values())
    votes, group = document["votes"], _group_of(dict(document), answer)
    # A vote that does not count, as it leaves the claim open, is still for a verdict that does.
    same = [vote for vote in votes if (vote["answer"] == answer if group is None else vote["group"] == group)]
    return (len(same), len(votes)) if len(votes) > 1 else None


def share_borne_out(document: Mapping[str, Any]) -> float | None:
    """The share of a verdict's checked quotes that bear it out, 0 without any; None if its answers were not assessed,
    if an assessment failed, so that a quote has no warrant, or if it leaves the claim open.
    """
    if not any(map(was_assessed, deciding_answers(dict(document)))):
        return None
    found = [quote.get("warrant") for quote in verdict_citations(dict(document)) if quote["verified"]]
    if None in found:
        return None
    return found.count("entails") / len(found) if found else 0.0


def token_probability(document: Mapping[str, Any]) -> float | None:
    """The mean probability of the tokens of the answers behind a verdict; None if no endpoint gave it."""

    def place(entry: Mapping[str, Any]) -> tuple[Any, ...]:
        return entry["agent"], entry["phase"], entry["round"], entry.get("number")

    decided = set(map(place, verdict_turns(dict(document))))
    calls = [call for call in document["calls"] if "answer_probability" in call and place(call) in decided]
    known = [call["answer_probability"] for call in calls]
    return sum(known) / len(known) if known else None


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
        + (_in_brackets(WARRANT_WORDS.get(c.get("warrant"), "")) if c["verified"] else " (not found in its text)")
        for c in verdict_citations(dict(document))
    ]
    verdict = NO_VERDICT if answer is None else full_answer(document["task"], answer)
    head = verdict_line(document, f"{verdict} ({document['stop_reason']})")
    counted = citations_in_words(dict(document))
    robustness = (document.get("robustness") or {}).get("said", "")
    blocks = [
        head,
        warned,
        asked_in_vain(document),
        robustness,
        *reasons[:MOST_REASONS],
        "\n".join([counted, *cited[:MOST_REASONS]]),
    ]
    return "\n\n".join(block for block in blocks if block)
