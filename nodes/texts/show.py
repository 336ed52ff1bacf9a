"""How claims, evidence, answers and scores are put before a model: as data between tags that they cannot close."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from moot.nodes.runtime.state import Reading, Task, Turn
from moot.nodes.runtime.turns import Citation
from moot.prompts import as_data, listed
from moot.retrievers import Evidence
from moot.retrievers.evidence import given_in, standing
from moot.retrievers.excerpts import shown_text


def show_claim(claim: str, task: Task) -> str:
    """The claim, or the question."""
    return as_data(task["subject"], claim)


NOTHING = "(no evidence was found)"


def show_evidence(
    evidence: Iterable[Evidence],
    nothing: str = NOTHING,
    about: Callable[[Evidence], Mapping[str, str]] = lambda piece: {},
) -> str:
    """Evidence, each piece with its id; where there is none, the words that say why.

    Args:
        evidence: what is shown.
        nothing: what is said where there is none.
        about: what else is said of a piece: names and figures of ours, no free text.
    """
    shown = standing(evidence)
    blocks = (as_data("evidence", _passage(piece), id=piece["id"], **about(piece)) for piece in shown)
    return listed(blocks, empty=nothing)


def show_given(evidence: Iterable[Evidence]) -> str:
    """What was given with the claim, under a heading, for prompts that show no other evidence; nothing without any."""
    given = given_in(evidence)
    return f"Evidence that is given:\n{show_evidence(given)}" if given else ""


WEB_SEARCHES = ("web", "tavily", "serper")


def without_titles(pool: Iterable[Evidence], corpora: Iterable[Reading]) -> list[Evidence]:
    """The pool, where pieces that a web search found (or bm25, without a key for one) have no title to be shown."""
    searched = {reading["retriever"] for reading in corpora if reading["requested"] in WEB_SEARCHES}
    return [{**p, "title": ""} if p["retrievals"][0]["retriever"] in searched else p for p in pool]


def show_pool(pool: Iterable[Evidence]) -> str:
    """Evidence to select from, each item with its number from 1."""
    blocks = (as_data("item", _passage(piece), number=str(number)) for number, piece in enumerate(pool, 1))
    return listed(blocks, empty="(the pool is empty)")


def _passage(piece: Evidence) -> str:
    dated = f", {piece['published']}" if piece.get("published") else ""
    also = "".join(f"; also {origin['source']}" for origin in piece.get("also", []))
    end = " (a summary)" if "summary_of" in piece else ""
    head = f"{piece['title']} ({piece['source']}{dated}{also})\n" if piece["title"] else ""
    return f"{head}{shown_text(piece)}{end}"


def show_answers(turns: Iterable[Turn], *, heading: str = "", confidence: bool = False) -> str:
    """Answers of debaters under a heading, with their reasons and what they cite; nothing where there are none."""
    turns = list(turns)
    several = len({turn["round"] for turn in turns}) > 1
    blocks = []
    for turn in turns:
        by = {"by": turn["agent"]} | ({"round": str(turn["round"])} if several else {})
        blocks.append(as_data("answer", _said(turn, confidence), **by))
    return "\n".join([heading, *blocks] if heading else blocks) if blocks else ""


def show_opponents(turns: Iterable[Turn]) -> str:
    """The other debaters' last answers; nothing in the first round."""
    return show_answers(turns, heading="What the other debaters answered last:")


def show_person(turns: Iterable[Turn]) -> str:
    """What a person who reads the debate said: remarks, and questions about drafts of the verdict; or nothing."""
    blocks = []
    for turn in turns:
        if remark := turn.get("remark"):
            blocks.append(as_data("remark", remark, round=str(turn["round"])))
        if question := turn.get("question"):
            blocks.append(f"{as_data('draft', _draft(turn['proposed']))}\n{as_data('question', question)}")
    return "\n".join([FROM_A_PERSON, *blocks]) if blocks else ""


FROM_A_PERSON = (
    "A person who reads this debate said what follows, about the debate or about a draft of its verdict. Answer it "
    "where you give your reasons, and change your mind where it is right:"
)


def _draft(proposed: Mapping[str, Any]) -> str:
    reasons = (f"{one['agent']}: {one['reasons']}" for one in proposed["reasons"])
    return "\n".join([f"Verdict: {proposed['verdict']}", *reasons])


def show_persona(persona: str | None) -> str:
    """Whom a debater speaks as; nothing where it speaks as itself."""
    return f"You speak as:\n{as_data('persona', persona)}" if persona else ""


def show_own(turn: Turn | None) -> str:
    """A debater's own last answer; nothing where there is none yet."""
    return show_answers([turn], heading="What you answered last:") if turn else ""


def show_groups(turns: Sequence[Turn], groups: Sequence[int | None]) -> str:
    """Answers of a round by what they say, each with its reasons and how sure its writer is; most frequent first."""
    found = sorted({g for g in groups if g is not None}, key=lambda g: -groups.count(g))
    parts = []
    for group in found:
        same = [turn for turn, of in zip(turns, groups, strict=True) if of == group]
        count = f"{len(same)} of {len(turns)} gave this answer:"
        parts.append(show_answers(same, heading=count, confidence=True))
    return "\n\n".join(parts)


def show_heard(turns: Iterable[Turn]) -> str:
    """Summaries of a round, and reviews of the reader's answer, under headings; nothing where there are none."""
    usable = [turn for turn in turns if turn.get("outcome") == "ok"]
    summaries = [as_data("summary", str(turn["summary"]), by=turn["agent"]) for turn in usable if "summary" in turn]
    reviews = [_review(turn) for turn in usable if "comment" in turn]
    lines = ["In short, the last round:", *summaries] if summaries else []
    return "\n".join([*lines, *(["Reviews of your answer:", *reviews] if reviews else [])])


def _review(turn: Turn) -> str:
    sure = f"How sure the reviewer is, from 1 to 10: {turn.get('confidence'):g}"
    return as_data("review", f"{sure}\n{turn.get('comment')}", by=turn["agent"])


def _said(turn: Turn, confidence: bool = False) -> str:
    if turn.get("answer") is None:
        return "(gave no valid answer)"
    cited = [_cited(c) for c in turn.get("citations") or []]
    sure = [f"Confidence: {turn['confidence']:g}"] if confidence and turn.get("confidence") is not None else []
    return "\n".join([f"Answer: {turn['answer']}", *sure, f"Reasons: {turn.get('rationale')}", *cited])


def _cited(citation: Citation) -> str:
    return f"Cites {citation['evidence_id']}{_mark(citation)}: {citation['quote']}"


def _mark(citation: Citation) -> str:
    if citation["fabricated"]:
        return " [this id was never shown to the debater]"
    return "" if citation["verified"] else " [this quote does not stand in the evidence]"


def show_history(turns: Sequence[Turn]) -> str:
    """A debate's answers, round by round, each with the evidence ids that its debater had."""
    rounds = sorted({turn["round"] for turn in turns})
    return "\n\n".join(f"Round {r}\n{show_answers(t for t in turns if t['round'] == r)}" for r in rounds)


MEASURES = {
    "faithfulness": "how much of what it said follows from the evidence it had",
    "answer_relevance": "how directly it spoke to what was asked",
    "consistency": "how close in meaning its answers were to the evidence it had",
}
"""What scores measure, for those who read them."""


def show_scores(scores: Mapping[str, Mapping[str, float | None]]) -> str:
    """Averages of each debater under a heading that explains them; nothing where nothing was measured."""

    def line(agent: str, of: Mapping[str, float | None]) -> str:
        parts = (f"{name.replace('_', ' ')} {'unknown' if v is None else f'{v:.2f}'}" for name, v in of.items())
        return f"- {agent}: {', '.join(parts)}"

    measured = dict.fromkeys(name for of in scores.values() for name in of)
    if not measured:
        return ""
    meanings = "; ".join(f"{name.replace('_', ' ')}: {MEASURES[name]}" for name in measured)
    return "\n".join([f"Averages of each debater, from 0 to 1 ({meanings}):", *map(line, scores, scores.values())])


def shown_ids(evidence: Iterable[Evidence], turns: Iterable[Turn] = ()) -> set[str]:
    """Ids that a reader of this evidence and these answers has seen; a fabricated one stays fabricated."""
    return {piece["id"] for piece in standing(evidence)} | cited_ids(turns)


def cited_ids(turns: Iterable[Turn]) -> set[str]:
    """Ids that answers cite and whose writers were shown them."""
    return {c["evidence_id"] for t in turns for c in t.get("citations") or [] if not c["fabricated"]}
