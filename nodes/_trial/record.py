"""The record of a trial for its panel (PROClaim, section 2.8): exhibits, statements, searches and scores."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from moot.nodes._records.entries import Task, Turn
from moot.nodes._texts.show import cited_ids, show_evidence
from moot.nodes._trial.counsel import SIDES, common_values, on_record, premises_of, show_statements, statements
from moot.prompts import as_data
from moot.retrievers import Evidence
from moot.retrievers._evidence import active_evidence
from moot.retrievers._excerpts import count_tokens

DEBATE_NAMES = {"primary": "first", "switched": "second"}
"""The names of the debates in the record, by their phase."""

ALWAYS_WHOLE = ("first_debate", "second_debate", "retrieval", "critic", "reflections", "consistency")
"""The parts of a record that are never shortened."""


def panel_exhibits(evidence: Iterable[Evidence]) -> list[Evidence]:
    """The panel's evidence: admitted pieces by weight, discoveries of the debates, then disputed pieces by weight."""
    pieces = active_evidence(evidence)
    # Pieces without a ruling count as disputed pieces with the weight 0.
    disputed = [piece for piece in pieces if piece.get("status", "seed") in ("disputed", "seed")]
    return on_record(pieces) + sorted(disputed, key=lambda piece: -piece.get("weight", 0.0))


def fitting_exhibits(
    pieces: Sequence[Evidence], cost: Callable[[Evidence], int], room: int, cited: Collection[str] = ()
) -> tuple[list[Evidence], list[Evidence]]:
    """The exhibits that fit into ``room`` tokens, and those left out: uncited ones first, each time the last one."""
    total = sum(cost(piece) for piece in pieces)
    left_out: set[str] = set()
    from_the_end = list(reversed(pieces))
    for piece in sorted(from_the_end, key=lambda piece: piece["id"] in cited):
        if total <= room:
            break
        total -= cost(piece)
        left_out.add(piece["id"])
    return [p for p in pieces if p["id"] not in left_out], [p for p in pieces if p["id"] in left_out]


def fit_record(
    claim: str, task: Task, turns: Sequence[Turn], evidence: Sequence[Evidence], most_tokens: int
) -> tuple[dict[str, str], list[Evidence]]:
    """The values for a judge's prompt, and the exhibits left out to keep it below ``most_tokens`` (estimated)."""
    values = common_values(claim, task, premises_of(turns))
    parts = {
        "first_debate": show_debate(turns, "primary"),
        "second_debate": show_debate(turns, "switched"),
        "retrieval": show_retrieval(turns),
        "critic": show_critic(turns),
        "reflections": show_reflections(turns),
        "consistency": show_consistency(turns),
    }
    # Only exhibits are left out, so the record is longer if the other parts are.
    room, cited = most_tokens - tokens_without_exhibits(parts), cited_ids(turns)
    kept, left_out = fitting_exhibits(
        panel_exhibits(evidence), lambda piece: count_tokens(show_exhibits([piece])), room, cited
    )
    cited_ones = ", ".join(piece["id"] for piece in left_out if piece["id"] in cited)
    note = f"({len(left_out)} more are left out for the record's length; cited of these: {cited_ones or 'none'}.)"
    exhibits = [show_exhibits(kept), *([note] if left_out else [])]
    return values | parts | {"exhibits": "\n".join(exhibits)}, left_out


def tokens_without_exhibits(values: Mapping[str, str]) -> int:
    """The number of tokens (estimated) of the parts in `ALWAYS_WHOLE`."""
    return sum(count_tokens(values[name]) for name in ALWAYS_WHOLE)


def show_exhibits(pieces: Sequence[Evidence]) -> str:
    """The text of exhibits, each with its status and, if it is known, its weight."""
    return show_evidence(pieces, "(no exhibit is shown)", _status_attributes)


def _status_attributes(piece: Evidence) -> dict[str, str]:
    """The attributes of an exhibit's tag; without a ruling, the status is ``disputed``."""
    status = piece.get("status", "seed")
    weight = {"weight": f"{piece['weight']:.2f}"} if "weight" in piece else {}
    return {"status": "disputed" if status == "seed" else status} | weight


def show_debate(turns: Iterable[Turn], phase: str) -> str:
    """The transcript of the debate in a phase, under a heading; empty if no such debate took place."""
    debate = [turn for turn in turns if turn["phase"] == phase]
    heading = f"The {DEBATE_NAMES[phase]} debate:"
    return show_statements(statements(debate), heading, f"{heading}\n(nothing was said)" if debate else "")


def show_retrieval(turns: Iterable[Turn]) -> str:
    """The sides' searches during the debates, with one line for each search; empty if there were none."""
    lines = [_search_line(turn) for turn in turns if turn["step"] == "discover"]
    return _block("How the two sides looked for more evidence:", "retrieval", lines)


def _search_line(turn: Turn) -> str:
    scores = turn.get("scores", {})
    novelty = "" if scores.get("novelty") is None else f", mean novelty {scores['novelty']:.2f}"
    formulated = turn.get("formulated")
    refined = "" if formulated in (None, turn.get("query")) else f" (asked for as: {formulated})"
    if turn.get("retrieval") == "failed":
        return f"{_round_text(turn)}, {turn['side']}: {turn.get('query')}{refined}: the sources could not be searched"
    found = f"{len(turn.get('evidence_ids', []))} found, {len(turn.get('joined', []))} joined the record{novelty}"
    end = f"; the side's search ended there ({turn['ended']})" if turn.get("ended") else ""
    return f"{_round_text(turn)}, {turn['side']}: {turn.get('query')}{refined}: {found}{end}"


def show_critic(turns: Iterable[Turn]) -> str:
    """The critic's scores of both sides in each round, and the premises it finds unresolved; empty without turns."""
    lines = []
    for turn in turns:
        if turn["step"] == "critique":
            lines += [f"{_round_text(turn)}, {side}: {_scores_text(turn.get(side))}" for side in SIDES]
            unresolved = "; ".join(turn.get("unresolved_premises") or [])
            lines += [f"{_round_text(turn)}, open: {unresolved}"] if unresolved else []
    return _block("The critic's scores, from 0 to 1:", "critic", lines)


def _scores_text(scores: Mapping[str, Any] | None) -> str:
    if scores is None:
        return "not scored"
    numbers = ", ".join(f"{name} {scores[name]:.2f}" for name in ("logic", "evidence", "rebuttal"))
    return f"{numbers}. {scores['reason']}"


def show_reflections(turns: Iterable[Turn]) -> str:
    """The reflection score of each side in each round; empty if no side reflected."""
    lines = []
    for turn in turns:
        if turn["step"] == "reflect":
            score = turn.get("scores", {}).get("reflection")
            shown = "not scored" if score is None else f"{score:.2f}"
            lines.append(f"{_round_text(turn)}, {turn['side']}: {shown}")
    return _block("How each side rates its own case, from 0 to 1:", "reflections", lines)


def show_consistency(turns: Iterable[Turn]) -> str:
    """The analyser's findings on consistency; empty if the analyser had no turn."""
    found = next((turn for turn in turns if turn["step"] == "analyse"), None)
    if found is None:
        return ""
    if found.get("overall") is None:
        return "How consistently the counsel argued when they changed sides is not known."
    lines = [
        f"{found['plaintiff_counsel']:g} for the counsel who spoke for the plaintiff first, "
        f"{found['defense_counsel']:g} for the other counsel, {found['overall']:g} overall",
        *(f"Contradiction: {text}" for text in found["contradictions"] or []),
    ]
    return _block("How consistently the counsel argued when they changed sides, from 0 to 10:", "consistency", lines)


def _round_text(turn: Turn) -> str:
    return f"{DEBATE_NAMES[turn['phase']]} debate, round {turn['round']}"


def _block(heading: str, tag: str, lines: Sequence[str]) -> str:
    """Lines in a tag, under a heading; empty if there are no lines."""
    single = (" ".join(line.splitlines()) for line in lines)  # so that a model's text cannot add a line
    return f"{heading}\n{as_data(tag, chr(10).join(single))}" if lines else ""
