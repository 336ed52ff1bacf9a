"""Formats claims, evidence, answers and scores for prompts: as data between tags, which the data cannot close."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import count
from typing import Any

from moot.nodes._records.entries import Reading, Task, Turn, Vote
from moot.nodes._runtime.turns import Citation
from moot.prompts import as_data
from moot.prompts._files import enclose, join_blocks, without_brackets
from moot.retrievers import Evidence
from moot.retrievers._evidence import active_evidence, given_evidence
from moot.retrievers._excerpts import shown_text
from moot.retrievers._normalise import WEB_SEARCHES


def show_claim(claim: str, task: Task) -> str:
    """The claim or the question, then its speaker and date, if known, as separate data."""
    return "\n".join(filter(None, (as_data(task["subject"], claim), show_origin(task))))


def show_origin(task: Task) -> str:
    """The speaker and date of the claim, if known; else empty."""
    known = {"Said by": task.get("speaker"), "Date": task.get("claim_date")}
    origin = "\n".join(f"{name}: {value}" for name, value in known.items() if value)
    return as_data(f"{task['subject']}_origin", origin) if origin else ""


NOTHING = "(no evidence was found)"
RETRACTED = "yes: this work was taken back, so it carries no answer: do not cite it for one"
"""How agents are told that a work was retracted."""
FACT_CHECK = "yes: a verdict of others; you may cite it beside other quotes, but it does not decide"
"""How agents are told that a piece is a fact check by others."""
CLAIM_PAGE = "yes: the claim appeared here; this shows what was said, not whether what was said is true"
"""How agents are told that a piece is from the page or the site on which the claim appeared."""
NOT_LOOKED_FOR = "(none: no search was made)"


class RankedText(str):
    """A text with evidence; ``ranks`` has the best rank of each piece that a search ranked, by the piece's id."""

    ranks: Mapping[str, int]


def show_evidence(
    evidence: Iterable[Evidence],
    nothing: str = NOTHING,
    about: Callable[[Evidence], Mapping[str, str]] = lambda piece: {},
) -> str:
    """The active pieces of evidence, each with its id; if there are none, ``nothing``."""
    shown = active_evidence(evidence)
    # Values from ``about`` must come from moot itself, because free text could forge a tag.
    blocks = (as_data("evidence", _piece_text(piece), **_attributes(piece), **about(piece)) for piece in shown)
    text = RankedText(join_blocks(blocks, empty=nothing))
    # `shorten` leaves out the last ranks first.
    text.ranks = {piece["id"]: rank for piece in shown if (rank := best_rank(piece, 0))}
    return text


def best_rank(piece: Evidence, place: int) -> int:
    """The best rank that a search gave to a piece (1 is best); ``place`` if no search ranked the piece."""
    return min((found["rank"] for found in piece["retrievals"] if "rank" in found), default=place)


def show_given(evidence: Iterable[Evidence]) -> str:
    """The given evidence (`given_evidence`) under a heading, for prompts that show no other; empty if there is none."""
    given = given_evidence(evidence)
    return f"Evidence that is given:\n{show_evidence(given)}" if given else ""


def without_web_titles(pool: Iterable[Evidence], corpora: Iterable[Reading]) -> list[Evidence]:
    """All pieces, with empty titles for those whose first retrieval was a web search.

    The source that stands for ``web`` without a key counts as a web search. But pieces from Wikipedia keep their
    titles, because these are not headlines.

    Args:
        pool: the pieces.
        corpora: the readings of sources; each names the requested source and the source that was used.
    """
    asked = ("web", *WEB_SEARCHES)
    # Titles from Wikipedia stay, because they are not headlines.
    searched = {reading["retriever"] for reading in corpora if reading["requested"] in asked} - {"wikipedia"}
    return [{**p, "title": ""} if p["retrievals"][0]["retriever"] in searched else p for p in pool]


def show_pool(pool: Iterable[Evidence]) -> str:
    """The pieces of evidence to select from, each with its number (from 1) and with its id for citations."""
    blocks = (
        as_data("item", _piece_text(piece), number=str(number), **_attributes(piece))
        for number, piece in enumerate(pool, 1)
    )
    return join_blocks(blocks, empty="(the pool is empty)")


SNIPPET = " (a search engine's snippet: the page was not read)"


def _attributes(piece: Evidence) -> dict[str, str]:
    """A piece's id, and what an agent must know of it, in the tag, which no text can forge."""
    told = {"retracted": RETRACTED if "retracted" in piece else "", "site": piece.get("site_label", "")}
    told["fact_check"] = FACT_CHECK if piece.get("fact_check") else ""
    told["claim_page"] = CLAIM_PAGE if piece.get("claim_page") else ""
    return {"id": piece["id"], **{name: value for name, value in told.items() if value}}


def _piece_text(piece: Evidence) -> str:
    dated = f", {piece['published']}" if piece.get("published") else ""
    also = "".join(f"; also {origin['source']}" for origin in piece.get("also", []))
    end = " (a summary)" if "summary_of" in piece else SNIPPET if piece.get("snippet") else ""
    head = f"{piece['title']} ({piece['source']}{dated}{also})\n" if piece["title"] else ""
    return f"{head}{shown_text(piece)}{end}"


def show_answers(
    turns: Iterable[Turn], *, heading: str = "", confidence: bool = False, evidence_ids: bool = False
) -> str:
    """Answers of debaters under a heading; empty if there are none."""
    turns = list(turns)
    several = len({turn["round"] for turn in turns}) > 1
    blocks = []
    for turn in turns:
        by = {"by": turn["agent"]} | ({"round": str(turn["round"])} if several else {})
        had = {"evidence": ", ".join(turn.get("evidence_ids") or []) or "none"} if evidence_ids else {}
        # Reasons and checked citations have separate tags, which only moot can write: reasons cannot forge a citation.
        blocks.append(enclose("answer", _answer_lines(turn, confidence), **by, **had))
    return "\n".join([heading, *blocks] if heading else blocks) if blocks else ""


def show_opponents(turns: Iterable[Turn]) -> str:
    """The last answers of the other debaters under a heading; empty if there are none."""
    return show_answers(turns, heading="What the others answered last:")


def show_remarks(turns: Iterable[Turn]) -> str:
    """A person's remarks and questions, each question after the draft of the verdict; empty if there are none."""
    blocks = []
    for turn in turns:
        if remark := turn.get("remark"):
            blocks.append(as_data("remark", remark, round=str(turn["round"])))
        if question := turn.get("question"):
            blocks.append(f"{as_data('draft', _draft_text(turn['proposed']))}\n{as_data('question', question)}")
    return "\n".join([FROM_A_PERSON, *blocks]) if blocks else ""


FROM_A_PERSON = (
    "A person who reads this debate wrote the text below, about the debate or about a draft of its verdict. It is "
    "advice, not evidence: weigh it, and change your mind if it convinces you. If your reply has a place for reasons, "
    "answer the person there:"
)


def _draft_text(proposed: Mapping[str, Any]) -> str:
    reasons = (f"{one['agent']}: {one['reasons']}" for one in proposed["reasons"])
    return "\n".join([f"Verdict: {proposed['verdict']}", *reasons])


def show_persona(persona: str | None) -> str:
    """The instruction to adopt a persona, in the user's words; empty without a persona."""
    return f"Speak as: {without_brackets(persona)}" if persona else ""


def show_own_answer(turn: Turn | None) -> str:
    """A debater's own last answer under a heading; empty if there is none yet."""
    return show_answers([turn], heading="What you answered last:") if turn else ""


def show_groups(turns: Sequence[Turn], groups: Sequence[int | None]) -> str:
    """The answers of a round by group, each answer with its reasons and confidence; the largest group comes first.

    Args:
        turns: the turns of the round.
        groups: the group of each turn's answer. A turn without a group (None) is not shown, but counts in the total.
    """
    found = sorted({g for g in groups if g is not None}, key=lambda g: -groups.count(g))
    parts = []
    for group in found:
        same = [turn for turn, other in zip(turns, groups, strict=True) if other == group]
        count = f"{len(same)} of {len(turns)} gave this answer:"
        parts.append(show_answers(same, heading=count, confidence=True))
    return "\n\n".join(parts)


def show_heard(turns: Iterable[Turn]) -> str:
    """Summaries of the last round, and reviews of the speaker's answer, under headings.

    Turns with another ``outcome`` than ``ok`` are not shown. The text is empty if nothing is left to show.

    Args:
        turns: turns with a summary or a review.
    """
    usable = [turn for turn in turns if turn.get("outcome") == "ok"]
    summaries = [as_data("summary", str(turn["summary"]), by=turn["agent"]) for turn in usable if "summary" in turn]
    reviews = [_review_block(turn) for turn in usable if "comment" in turn]
    lines = ["In short, the last round:", *summaries] if summaries else []
    return "\n".join([*lines, *(["Reviews of your answer:", *reviews] if reviews else [])])


def _review_block(turn: Turn) -> str:
    sure = f"How sure the reviewer is, from 1 to 10: {turn.get('confidence'):g}"
    return as_data("review", f"{sure}\n{turn.get('comment')}", by=turn["agent"])


def _answer_lines(turn: Turn, confidence: bool) -> list[str]:
    """An answer with its reasons and citations, as the parts of its tag."""
    answer = turn.get("answer")
    if answer is None:
        return ["(gave no valid answer)"]
    sure = [f"Confidence: {turn['confidence']:g}"] if confidence and turn.get("confidence") is not None else []
    reasons = as_data("reasons", turn.get("rationale") or "(none)")
    return [f"Answer: {_one_line(answer)}", *sure, reasons, *show_citations(turn.get("citations") or [])]


def show_citations(citations: Iterable[Citation]) -> list[str]:
    """A list with one block, which has all citations and marks failed checks; an empty list without citations."""
    lines = [_citation_line(citation) for citation in citations]
    return [enclose("citations", lines)] if lines else []


def _citation_line(citation: Citation) -> str:
    """A citation on one line; a failed check is at its start, where no id or quote can imitate it."""
    id, quote = _one_line(citation["evidence_id"]), _one_line(citation["quote"])
    if citation["fabricated"]:
        return f"[the agent that cites this id was never shown it] {id}: {quote}"
    return f"{id}: {quote}" if citation["verified"] else f"[this quote is not in the evidence] {id}: {quote}"


def _one_line(text: str) -> str:
    return without_brackets(" ".join(text.split()))


def show_history(turns: Sequence[Turn]) -> str:
    """A debate's answers by round, with the ids of each debater's evidence if any debater had evidence."""
    rounds = sorted({turn["round"] for turn in turns})
    had = any(turn.get("evidence_ids") for turn in turns)
    return "\n\n".join(
        f"Round {r}\n{show_answers((t for t in turns if t['round'] == r), evidence_ids=had)}" for r in rounds
    )


MEASURES = {
    "faithfulness": "how much of what it said follows from the evidence it had",
    "answer_relevance": "how directly it spoke to what was asked",
    "consistency": "how close in meaning its answers were to the evidence it had",
}
"""The meaning of each score, in the words of prompts."""


WEIGH_SCORES = (
    "Take them into account beside the reasons: look more closely at an answer whose scores are low, but decide by "
    'what holds. "unknown": they could not be measured.'
)


def show_scores(scores: Mapping[str, Mapping[str, float | None]], turns: Iterable[Turn] = ()) -> str:
    """Average scores of each debater, from 0 to 1, under a heading; empty if no score is known."""
    known = Counter((t["agent"], name) for t in turns for name, v in t.get("scores", {}).items() if v is not None)

    def mean_text(agent: str, name: str, value: float | None) -> str:
        count = known[agent, name]
        over = f" ({count} round{'s' if count > 1 else ''})" if count else ""
        return f"{name.replace('_', ' ')} {'unknown' if value is None else f'{value:.2f}'}{over}"

    measured = dict.fromkeys(name for means in scores.values() for name, value in means.items() if value is not None)
    if not measured:
        return ""
    lines = (
        f"- {agent}: {', '.join(mean_text(agent, m, means.get(m)) for m in measured)}"
        for agent, means in scores.items()
    )
    meanings = "; ".join(f"{name.replace('_', ' ')}: {MEASURES[name]}" for name in measured)
    return "\n".join([f"Averages of each debater, from 0 to 1 ({meanings}). {WEIGH_SCORES}", *lines])


BEAR_OUT = "Look for what would bear that answer out more directly, or overturn it."
OVERTURN = "Look for what would overturn that answer, or for a part of the matter that nobody has looked up yet."
"""What to look for if only the words of the answers were far from the claim, which no search can mend."""
UNSUPPORTED = "Statements that do not follow from the evidence of the debater who made them:"


def show_why(
    votes: Iterable[Vote],
    low: Sequence[tuple[str, str, float | None, float]] | None,
    unsupported: Iterable[tuple[str, str]] = (),
) -> str:
    """The reason for another round; ``low`` has the scores that are too low, or is None if the answers differ."""
    lines = [f"{vote['agent']}: {_one_line(vote['answer'] or '(no valid answer)')}" for vote in votes]
    answers = as_data("answers", "\n".join(lines))
    if low is None:
        why = "Why there is another round: the last answers are not the same. Look for what decides between them."
        return f"{why}\n{answers}"
    if not low:
        return f"The last answers agree, but this debate runs all its rounds. {BEAR_OUT}\n{answers}"
    scores = (
        f"- {agent}: {name.replace('_', ' ')} {score_and_threshold(value, least)} ({MEASURES[name]})"
        for agent, name, value, least in low
    )
    why = "Why there is another round: the last answers agree, but some of their scores are too low."
    statements = [as_data("statement", text, by=agent) for agent, text in unsupported]
    or_unknown = " or unknown" * any(value is None for _, _, value, _ in low)
    heading = f"Scores from 0 to 1, each too low{or_unknown}:"
    search = BEAR_OUT if any(name == "faithfulness" for _, name, *_ in low) else OVERTURN
    lines = [f"{why} {search}", answers, heading, *scores, *([UNSUPPORTED, *statements] if statements else [])]
    return "\n".join(lines)


def show_why_open(votes: Iterable[Vote], subject: str) -> str:
    """The reason for another round after answers that the evidence settles nothing."""
    lines = [f"{vote['agent']}: {_one_line(vote['answer'] or '(no valid answer)')}" for vote in votes]
    return (
        f"Why there is another round: all last answers leave the {subject} open. Look for evidence that would settle "
        f"it: {BOTH_SIDES[subject]}.\n{as_data('answers', chr(10).join(lines))}"
    )


BOTH_SIDES = {
    "claim": "one query for what would show that the claim holds, one for what would show that it does not",
    "question": "one query for the likeliest answer, one for another answer or for what has to be known first",
}


def score_and_threshold(value: float | None, threshold: float) -> str:
    """A score compared with its threshold, with two decimals, or more if the threshold or the difference needs them."""
    decimals = max(2, len(f"{Decimal(repr(threshold)):f}".partition(".")[2]))
    if value is None:
        return f"unknown (needs {threshold:.{decimals}f})"
    if value >= threshold:
        return f"{value:.{decimals}f} >= {threshold:.{decimals}f}"
    shown = (f"{value:.{digits}f} < {threshold:.{digits}f}" for digits in count(decimals))
    return next(text for text in shown if len(set(text.split(" < "))) == 2)


def shown_ids(evidence: Iterable[Evidence], turns: Iterable[Turn] = ()) -> set[str]:
    """The ids in a prompt that shows this evidence and these answers, without ids that the answers fabricated."""
    return {piece["id"] for piece in active_evidence(evidence)} | cited_ids(turns)


def cited_ids(turns: Iterable[Turn]) -> set[str]:
    """The ids of evidence that answers cite, without fabricated ids."""
    return {c["evidence_id"] for t in turns for c in t.get("citations") or [] if not c["fabricated"]}
