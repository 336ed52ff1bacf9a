"""The text of a trial: the evidence found and admitted, two concurrent debates, and the panel.

A counsel is shown with the name of the side that the counsel speaks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from moot.core.words import count_with_noun
from moot.nodes._records.entries import RoundRecord, Turn
from moot.nodes._runtime.turns import titled
from moot.nodes._trial.turns import POOLS, last_values, names_suffix
from moot.transcript.line import Line, line, own_line
from moot.transcript.panel import panel_verdict
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
READERS = {"admitted": "", "disputed": "; for the panel alone"}
"""Maps the status of a piece to a note on who reads the piece."""


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
        subject = self.known.task["subject"] if self.known.task else "claim"
        for pool, what in POOLS.items():
            turns = [t for t in self.turns if t.get("pool") == pool and t.get("retrieval") == "ok"]
            if turns:
                found = {id for turn in turns for id in turn["evidence_ids"]}
                new = [piece for piece in pieces if piece.get("pool") == pool]
                more = "" if len(new) == len(found) else f", {len(new) or 'none'} of them new"
                names = names_suffix([piece["title"] or piece["source"] for piece in new])
                text = f"{count_with_noun(len(found), 'piece')} {what.format(subject=subject)}{more}{names}"
                yield line(turns[0]["agent"], "finds", text)

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
