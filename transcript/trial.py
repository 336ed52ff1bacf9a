"""The text of a trial: the evidence found and admitted, two concurrent debates, and the panel.

A counsel is shown with the name of the side that the counsel speaks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from moot.core.words import count_with_noun
from moot.nodes._records.entries import RoundRecord, Turn
from moot.nodes._runtime.turns import titled
from moot.nodes._texts.calibrated import calibration_basis, shown_confidence
from moot.nodes._texts.verdict import votes_in_short
from moot.nodes._trial.courtroom import last_values, names_suffix
from moot.nodes._trial.negotiation import POOLS
from moot.transcript.end import (
    ShownReasons,
    answer_text,
    calibration_lines,
    changed_answers,
    citations,
    headline,
    no_verdict_reason,
    reason_or_reference,
    reasons,
    robustness_lines,
)
from moot.transcript.language import t
from moot.transcript.line import Line, line, list_of, own_line
from moot.transcript.words import Words

HEADINGS = {
    "gate": "First answers",
    "negotiation": "Negotiation of the evidence",
    "primary": "Primary debate, round {round}",
    "switched": "Switched debate, round {round} (the counsel have changed sides)",
    "panel": "Panel",
}
RULINGS = {"admitted": "admits", "disputed": "disputes", "discarded": "discards"}
"""The arbiter's action for each status of a weighed piece."""

WINNING_SIDE = {"SUPPORTED": "plaintiff", "NOT SUPPORTED": "defense"}
"""Maps a verdict to the side that wins with it; with other verdicts, no side wins."""
MOST_CITED = 10
"""Maximum number of citations that are shown. A side's arguments may have many more."""
ROUNDING_ERROR = 1e-5
"""Rounding causes at most this difference between the document's confidence and the sum of its parts."""


class TrialWords(Words):
    """Writes the text of a trial."""

    concurrent_phases = ("primary", "switched")

    def heading(self, turn: Turn) -> str:
        """See `Words.heading`; every turn of a trial has a heading."""
        return HEADINGS.get(turn["phase"], str(turn["phase"])).format(round=turn["round"])

    def after_votes(self, record: RoundRecord) -> Iterator[Line]:
        """No lines, because the findings of the critic and of the court are shown with their turns."""
        yield from ()

    def stop(self, reason: str | None) -> Iterator[Line]:
        """No lines, because the reason is shown when each debate stops."""
        yield from ()

    def verdict(self, document: Mapping[str, Any]) -> Iterator[Line]:
        """The panel's verdict; without a panel, because a gate settled the claim, the gate's verdict."""
        return panel_verdict(document, self.reasons) if "panel" in document["metrics"] else super().verdict(document)

    def pools(self, pieces: Iterable[Any]) -> Iterator[Line]:
        """The number of pieces found for each pool, how many of them are new, and titles of new pieces.

        Pools without a successful search have no line.
        """
        for pool in POOLS:
            turns = [one for one in self.turns if one.get("pool") == pool and one.get("retrieval") == "ok"]
            if turns:
                found = {id for turn in turns for id in turn["evidence_ids"]}
                new = [piece for piece in pieces if piece.get("pool") == pool]
                more = t(", {number} of them new", number=len(new)) if new else t(", none of them new")
                more = "" if len(new) == len(found) else more
                names = names_suffix([piece["title"] or piece["source"] for piece in new])
                yield line(turns[0]["agent"], "finds", f"{self._found_for(pool, len(found))}{more}{names}")

    def _found_for(self, pool: str, count: int) -> str:
        if pool == "seed" and self.known.task and self.known.task["subject"] == "question":
            return t("{count} pieces for the question", count=count)
        return {
            "seed": t("{count} pieces for the claim", count=count),
            "premises": t("{count} pieces for the premises", count=count),
            "plaintiff": t("{count} pieces to support it", count=count),
            "defense": t("{count} pieces to challenge it", count=count),
        }[pool]

    def rulings(self, pieces: Iterable[Any]) -> Iterator[Line]:
        """The rulings, each with its pieces and their weights; a warning if no piece is admitted.

        Pieces without a weight, and pieces found during the debates, are left out.
        """
        least = {"admitted": self.settings.admitted_above, "disputed": self.settings.disputed_above}
        weighed = [piece for piece in pieces if is_ruled_before_debates(piece)]
        for status, does in RULINGS.items():
            ruled = sorted((p for p in weighed if p.get("status") == status), key=lambda piece: -piece["weight"])
            above = ""
            if status == "admitted":
                above = t(" (above {least})", least=f"{least[status]:g}")
            elif status == "disputed":
                above = t(" (above {least}; for the panel alone)", least=f"{least[status]:g}")
            if ruled:
                names = "; ".join(f"{titled(piece)} {piece['weight']:.2f}" for piece in ruled)
                yield line("arbiter", does, f"{t('{count} pieces', count=len(ruled))}{above}: {names}")
            elif status == "admitted":
                yield line("arbiter", does, f"{t('nothing')}{above}", "warning")

    def concurrent_debate_stop(self, entry: Mapping[str, Any]) -> Iterator[Line]:
        """Why one of the two concurrent debates stops."""
        why = {
            "reflection_plateau": "the sides' reflections hardly change any more (total "
            f"{last_values(entry['reflection_total'], 3)})",
            "critic_resolved": "the critic finds it resolved",
            "novelty_exhausted": "new evidence is hardly novel any more "
            f"(mean novelty {last_values(entry['novelty'], 2)})",
            "judicial_signal": "the court closes it",
            "max_rounds": "its rounds are used up",
            "budget_exhausted": "its share of the budget is used up",
        }
        reason = why.get(entry["stop_reason"], entry["stop_reason"])
        yield own_line(
            f"The {entry['phase']} debate stops after {count_with_noun(entry['rounds'], 'round')}: {reason}."
        )


def is_ruled_before_debates(piece: Mapping[str, Any]) -> bool:
    """Whether the arbiter ruled on a piece before the debates."""
    return "weight" in piece and piece.get("pool") != "discovery"


# --- the verdict ------------------------------------------------------------------------------------------------------


def panel_verdict(document: Mapping[str, Any], shown: ShownReasons) -> Iterator[Line]:
    """The lines on a panel's verdict: answer, confidence, robustness, reasons, citations, dissents, changed positions.

    The citations are those of the winning side. There are none if no side wins.
    """
    verdict = document["raw_verdict"]
    how = f"{panel_votes_in_words(document)}; {document['stop_reason']}"
    if document["answer"] is None:
        yield from headline(document, f"Verdict: none, as {no_verdict_reason(document)} ({how})")
    else:
        yield from headline(document, answer_text(document, how))
    yield confidence_line(document)
    yield from calibration_lines(document)
    yield from robustness_lines(document)
    yield from reasons(document, shown)
    if side := WINNING_SIDE.get(verdict):
        yield from citations(document, side, MOST_CITED)
    for one in document["metrics"]["panel"]["dissent"]:
        yield line(
            one["agent"], "dissents", f"{one['verdict']} - {reason_or_reference(document, one['reason'], shown)}"
        )
    yield from changed_answers(document)


def panel_votes_in_words(document: Mapping[str, Any]) -> str:
    """How many judges gave the panel's verdict: ``NOT SUPPORTED by 2 of 3 judges``.

    Notes follow if the votes are tied, if an inconclusive verdict counts as not refuted, or if a judge gave no verdict.
    """
    panel, verdict = document["metrics"]["panel"], document["raw_verdict"]
    given = panel["verdicts"]
    found = f"{verdict} by {given[verdict]} of {count_with_noun(sum(given.values()), 'judge')}"
    if panel["tied"]:
        first = next(turn["agent"] for turn in document["turns"] if turn.get("verdict") == verdict)
        found += f"; tied votes, so the verdict of {first} counts"
    if any(warned["kind"] == "burden_of_refutation" for warned in document["warnings"]):
        found += ", and so not refuted"
    silent = panel["without_verdict"]
    return found + (f"; {list_of(silent)} gave no verdict" if silent else "")


def confidence_line(document: Mapping[str, Any]) -> Line:
    """The votes of the panel and the mean quality of its verdict; if it was calibrated, the confidence as a sum of its
    parts, and a note if the sum was cut or raised to a bound.

    The numbers have 2 to 4 decimals: the fewest with which the rounded parts add up, or else 4.
    """
    given, parts = document["metrics"]["panel"]["verdicts"], document["confidence_parts"]
    winning, votes = given[document["raw_verdict"]], sum(given.values())
    if shown_confidence(document) is None:
        # A withheld verdict has no confidence.
        quality = f" Mean quality of these verdicts: {parts['quality']:.2f}." if parts else ""
        return own_line(f"Votes: {votes_in_short(document)}.{quality}", "")
    if document["calibration"]["features"] != ["confidence"]:
        sure = document["calibration"]["confidence"]
        return own_line(f"Votes: {votes_in_short(document)}. Confidence {sure:.0%}, {calibration_basis(document)}.", "")
    base, switch, reflection = (parts[name] for name in ("base", "role_switch", "reflection"))
    total = base + switch + reflection
    limited = abs(total - document["confidence"]) > ROUNDING_ERROR
    digits = next((n for n in (2, 3, 4) if is_sum_after_rounding((base, switch, reflection), total, n)), 4)
    terms = f"base {base:.{digits}f} ({winning} of {votes} votes, quality {parts['quality']:.2f})"
    terms += signed_part("role switch", switch, digits, parts["consistency"] is not None)
    terms += signed_part("reflection", reflection, digits, parts["winning_reflection"] is not None)
    found = f"{document['confidence']:.{digits}f}"
    if limited:
        bound = "cut to 1" if total > 1 else f"raised to {document['confidence']:g}"
        return own_line(f"Confidence {found}, {calibration_basis(document)}: {terms} = {total:.{digits}f}, {bound}", "")
    return own_line(f"Confidence {found}, {calibration_basis(document)}: {terms}", "")


def is_sum_after_rounding(parts: tuple[float, ...], total: float, digits: int) -> bool:
    """Whether the parts, each rounded to ``digits`` decimals, add up to the total rounded in the same way."""
    return round(sum(round(part, digits) for part in parts), digits) == round(total, digits)


def signed_part(name: str, part: float, digits: int, has_score: bool) -> str:
    """A part of the confidence with its sign and name, and a note if the part's score is missing."""
    return f" {'-' if part < 0 else '+'} {name} {abs(part):.{digits}f}" + " (no score)" * (not has_score)
