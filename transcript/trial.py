"""The text of a trial: the evidence found and admitted, two concurrent debates, and the panel.

A counsel is shown with the name of the side that the counsel speaks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from moot.core.words import count_with_noun
from moot.nodes._records.entries import PERSON, RoundRecord, Turn
from moot.nodes._trial.confidence import QUALITIES
from moot.nodes._trial.courtroom import SIDES, is_unadmitted
from moot.transcript.line import NO_BUDGET, Line, Tone, line, own_line, titled, with_reason
from moot.transcript.panel import panel_verdict
from moot.transcript.words import Words

TRIAL_FIELDS = (
    "about",
    "premises",
    "supporting_query",
    "challenges",
    "relevance",
    "gap",
    "retrieval",
    "joined",
    "ended",
    "argument",
    "needed",
    "granted",
    "testimony",
    "logic",
    "debate_resolved",
    "close",
    "overall",
    "verdict",
)
"""Fields of turns that are shown, in this order; the method ``_NAME`` gives the lines for the field ``NAME``."""
HEADINGS = {
    "negotiation": "Negotiation of the evidence",
    "primary": "Primary debate, round {round}",
    "switched": "Switched debate, round {round} (the counsel have changed sides)",
    "panel": "Panel",
}
POOLS = {
    "seed": "for the {subject}",
    "premises": "for the premises",
    "plaintiff": "to support it",
    "defense": "to challenge it",
}
"""The purpose of the search behind each pool."""
RULINGS = {"admitted": "admits", "disputed": "disputes", "discarded": "discards"}
"""The arbiter's action for each status of a weighed piece."""
READERS = {"admitted": "", "disputed": "; for the panel alone"}
"""Maps the status of a piece to a note on who reads the piece."""
MOST_TITLES = 5
"""Maximum number of titles in a list. The other titles are only counted."""


class TrialWords(Words):
    """Writes the text of a trial."""

    fields = TRIAL_FIELDS
    concurrent_phases = ("primary", "switched")

    def heading(self, turn: Turn) -> str:
        """See `Words.heading`; every turn of a trial has a heading."""
        return HEADINGS.get(turn["phase"], turn["phase"]).format(round=turn["round"])

    def after_round(self, record: RoundRecord) -> Iterator[Line]:
        """No lines, because the findings of the critic and of the court are shown with their turns."""
        yield from ()

    def stop(self, reason: str | None) -> Iterator[Line]:
        """No lines, because the reason is shown when each debate stops."""
        yield from ()

    def verdict(self, document: Mapping[str, Any]) -> Iterator[Line]:
        """The panel's verdict."""
        return panel_verdict(document, self.reasons)

    # --- the negotiation --------------------------------------------------------------------------------------------

    def _premises(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        if turn["agent"] == PERSON:
            return
        for number, premise in enumerate(turn["premises"] or [], 1):
            yield line(turn["agent"], f"premise {number}", premise)
        if turn["premises"] is None:
            yield line(turn["agent"], "finds", unusable(turn), "warning")

    def _supporting_query(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        if turn["supporting_query"] is None:
            yield line(turn["agent"], "asks", unusable(turn), "warning")
            return
        yield line(turn["agent"], "asks", f"{POOLS['plaintiff']}: {turn['supporting_query']}")
        yield line(turn["agent"], "asks", f"{POOLS['defense']}: {turn['challenging_query']}")

    def pools(self, pieces: Iterable[Any]) -> Iterator[Line]:
        """The number of pieces found for each pool, how many of them are new, and titles of new pieces.

        Pools without a successful search have no line.
        """
        for pool, what in POOLS.items():
            turns = [t for t in self.turns if t.get("pool") == pool and t.get("retrieval") == "ok"]
            if turns:
                found = {id for turn in turns for id in turn["evidence_ids"]}
                new = [piece for piece in pieces if piece.get("pool") == pool]
                more = "" if len(new) == len(found) else f", {len(new) or 'none'} of them new"
                names = names_suffix([piece["title"] or piece["source"] for piece in new])
                text = f"{count_with_noun(len(found), 'piece')} {what.format(subject=self.subject)}{more}{names}"
                yield line(turns[0]["agent"], "finds", text)

    def _challenges(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        for one in turn["challenges"] or []:
            shown = one["evidence_id"] in turn["evidence_ids"]
            yield line(
                turn["agent"], "challenges", f"{self._piece_in_words(one['evidence_id'], shown)} - {one['reason']}"
            )
        if turn["challenges"] is None:
            yield line(turn["agent"], "challenges", unusable(turn), "warning")
        elif not turn["challenges"]:
            yield line(turn["agent"], "challenges", "nothing")

    def _relevance(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        if turn["relevance"] is None:  # otherwise, `rulings` shows the pieces with their weights
            about = ", ".join(titled(piece) for piece in self._known_pieces(turn))
            yield line(turn["agent"], "weighs", f"{about} {unusable(turn)}", "warning")

    def rulings(self, pieces: Iterable[Any]) -> Iterator[Line]:
        """The rulings, each with its pieces and their weights; a warning if no piece is admitted.

        Pieces without a weight are left out, for example pieces found during the debates.
        """
        least = {"admitted": self.settings.admitted_above, "disputed": self.settings.disputed_above}
        weighed = [piece for piece in pieces if "weight" in piece]
        for status, does in RULINGS.items():
            ruled = sorted((p for p in weighed if p.get("status") == status), key=lambda piece: -piece["weight"])
            above = f" (above {least[status]:g}{READERS[status]})" if status in least else ""
            if ruled:
                names = "; ".join(f"{titled(piece)} {piece['weight']:.2f}" for piece in ruled)
                yield line("arbiter", does, f"{count_with_noun(len(ruled), 'piece')}{above}: {names}")
            elif status == "admitted":
                yield line("arbiter", does, f"nothing{above}", "warning")

    # --- a debate in court ------------------------------------------------------------------------------------------

    def _gap(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        return self._statement(turn, "lacks", turn["gap"])

    def _retrieval(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        """In a debate, the query of a side. In every phase, a line about a search without results."""
        if "pool" in turn:
            what = POOLS[turn["pool"]].format(subject=self.subject)
            what = f"for premise {turn['number']}" if "number" in turn else what
            yield from self._no_results(turn, update, turn["agent"], "finds", f"{what}: ")
            return
        if "formulated" in turn:
            refined = " (as the court refined it)" if turn["formulated"] != turn["query"] else ""
            how = " (as no query could be formulated)" if turn["formulated"] is None else refined
            yield line(side_name(turn), "asks", f"{turn['query']}{how}")
        yield from self._no_results(turn, update, side_name(turn), "finds")

    def _joined(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        """How many pieces were found, how novel they are, and which of them join the record; no line without pieces."""
        found = [piece for piece in update.get("evidence") or [] if piece["id"] in turn["evidence_ids"]]
        joined = [titled(self.pieces[id]) for id in turn["joined"] if id in self.pieces]
        if turn["evidence_ids"]:
            many = f"{len(joined) or 'none'} {'join' if len(joined) > 1 else 'joins'} the record"
            barred = len({piece["id"] for piece in found if is_unadmitted(piece)})
            how = f"mean novelty {last_values([turn['scores'].get('novelty')], 1)}"
            how += f"; {barred} not admitted before" if barred else ""
            least = self.settings.min_request_similarity
            dissimilar = sum(r.get("request_similarity", least) < least for p in found for r in p["retrievals"])
            how += f"; {dissimilar} not similar to the request" if dissimilar else ""
            yield line(
                side_name(turn),
                "finds",
                f"{count_with_noun(len(turn['evidence_ids']), 'piece')}; {many} ({how}){names_suffix(joined)}",
            )

    def _ended(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        if turn["ended"]:
            share = turn["scores"].get("redundancy") or 0.0
            why = {
                "redundancy": (
                    f"{share:.0%} of the new evidence is redundant (above {self.settings.redundant_share:.0%})"
                ),
                "retrievals": f"it has made all {count_with_noun(self.settings.max_retrievals, 'retrieval')}",
                "relevance_gain": f"it gained less than {self.settings.relevance_gain} in relevance",
            }
            yield line(side_name(turn), "searches", f"no more: {why.get(turn['ended'], turn['ended'])}")

    def _argument(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        by = "" if turn.get("side") in (turn["agent"], None) else f"(by the {turn['agent']}'s counsel) "
        return self._statement(turn, "argues", turn["argument"], by, "answer")

    def _needed(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        if turn["needed"] is None:
            yield line(side_name(turn), "wants", unusable(turn), "warning")
        elif turn["needed"]:
            yield line(side_name(turn), "wants", with_reason(f"an expert on {turn['expertise']}", turn["reason"]))

    def _granted(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        what = {True: "hears", False: "refuses", None: "rules"}[turn["granted"]]
        whose = f"the {turn['side']}'s expert"
        ruled = f"on {whose} {unusable(turn)}" if turn["granted"] is None else whose
        yield line(
            turn["agent"], what, with_reason(ruled, turn["reason"]), "warning" if turn["granted"] is None else ""
        )

    def _testimony(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        called = f"(called by the {turn['side']}, on {turn['expertise']}) "
        return self._statement(turn, "testifies", turn["testimony"], called, "answer")

    def _statement(self, turn: Turn, what: str, text: str | None, prefix: str = "", tone: Tone = "") -> Iterator[Line]:
        """A statement after its prefix, and its citations; a warning if ``text`` is None."""
        if text is None:
            yield line(side_name(turn), what, unusable(turn), "warning")
            return
        yield line(side_name(turn), what, prefix + text, tone)
        marks = dict.fromkeys(self._citation_in_words(citation) for citation in turn.get("citations") or [])
        if marks:
            yield line("", "cites", "; ".join(marks))

    def _citation_in_words(self, citation: Mapping[str, Any]) -> str:
        shown = not citation["fabricated"]
        missing = " (the quote is not found there)" * (shown and not citation["verified"])
        return self._piece_in_words(citation["evidence_id"], shown) + missing

    def _piece_in_words(self, id: str, shown: bool) -> str:
        """A piece that a participant names: its title and id, or only its id if the participant was not shown it."""
        return titled(self.pieces[id]) if shown and id in self.pieces else f"{id[:80]} (no such piece was shown)"

    def _logic(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        score = turn["scores"].get("reflection")
        if score is None:
            yield line(side_name(turn), "reflects", unusable(turn), "warning")
            return
        parts = f"logic {turn['logic']:.2f}, novelty {turn['novelty']:.2f}, rebuttal {turn['rebuttal']:.2f}"
        yield line(side_name(turn), "reflects", with_reason(f"{score:.2f} ({parts})", " ".join(turn["flaws"] or [])))

    def _debate_resolved(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        if turn["debate_resolved"] is None:
            yield line(turn["agent"], "scores", unusable(turn), "warning")
            return
        for side, rating in (("plaintiff", turn["plaintiff"]), ("defense", turn["defense"])):
            if rating:
                scores = (
                    f"logic {rating['logic']:.2f}, evidence {rating['evidence']:.2f}, rebuttal {rating['rebuttal']:.2f}"
                )
                yield line(turn["agent"], "scores", with_reason(f"{side}: {scores}", rating["reason"]))
        still = "; ".join(turn["unresolved_premises"] or [])
        if turn["debate_resolved"]:
            yield line(turn["agent"], "finds", f"the debate resolved{self._early_note(turn)}", "finding")
        if still:
            yield line(turn["agent"], "finds", f"still open: {still}")

    def _close(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        found = {True: f"to close the debate{self._early_note(turn)}", False: "to go on", None: unusable(turn)}
        tone: Tone = "warning" if turn["close"] is None else "finding"
        yield line(turn["agent"], "decides", with_reason(found[turn["close"]], turn["reason"]), tone)

    def _early_note(self, turn: Turn) -> str:
        """A note if a decision to end the debate has no effect in this round; empty otherwise."""
        if not self.settings.progressive_retrieval:
            return " (which does not end it: without progressive retrieval all rounds take place)"
        least = self.settings.min_rounds
        return f" (which does not end it before round {least})" if turn["round"] < least else ""

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

    # --- the panel --------------------------------------------------------------------------------------------------

    def _overall(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        if turn["overall"] is None:
            yield line(turn["agent"], "finds", unusable(turn), "warning")
            return
        counsel = ", ".join(f"the {side}'s counsel {turn[f'{side}_counsel']:.1f}" for side in SIDES)  # type: ignore[literal-required]
        yield line(turn["agent"], "finds", f"consistency {turn['overall']:.1f} of 10 ({counsel})", "finding")
        for one in turn["contradictions"] or []:
            yield line(turn["agent"], "finds", f"a contradiction: {one}")

    def _verdict(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        if turn["verdict"] is None:
            yield line(turn["agent"], "decides", unusable(turn), "warning")
            return
        evidence, arguments, reliability = (round(turn[quality] or 0, 1) for quality in QUALITIES)  # type: ignore[literal-required]
        scores = f"evidence {evidence:g}, arguments {arguments:g}, reliability {reliability:g}"
        found = f"{turn['verdict']} ({scores} of 10)"
        yield line(
            turn["agent"], "decides", with_reason(found, self.reasons_or_reference(turn, turn["reason"])), "answer"
        )


def unusable(turn: Turn) -> str:
    """The text in place of a reply that could not be used, was not requested, or was not waited for."""
    if turn.get("outcome") == "budget_exhausted":
        return f"({NO_BUDGET})"
    return f"(no usable reply: {turn.get('outcome', 'unparsed')})"


def side_name(turn: Turn) -> str:
    """The name of a speaker; for a counsel, the name of the side that the counsel speaks for."""
    return str(turn.get("side") or turn["agent"]) if turn["agent"] in SIDES else turn["agent"]


def names_suffix(names: Sequence[str]) -> str:
    """A colon, the first `MOST_TITLES` names and the number of the other names; empty for no names."""
    more = [f"and {len(names) - MOST_TITLES} more"] if len(names) > MOST_TITLES else []
    return f": {'; '.join([*names[:MOST_TITLES], *more])}" if names else ""


def last_values(values: Sequence[float | None], count: int) -> str:
    """The last ``count`` values of a series, as a text."""
    return ", ".join("unknown" if value is None else f"{value:.2f}" for value in values[-count:])
