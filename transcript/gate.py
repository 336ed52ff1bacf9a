"""Writes the text of a debate behind a gate: first answers, the gate's decision, then the text of the debate itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moot.graphs import load_graph
from moot.nodes._records.entries import GATE, RoundRecord, Turn
from moot.nodes._runtime.settings import Settings
from moot.nodes._speakers.gate import GateSettings
from moot.transcript.line import Line, own_line
from moot.transcript.words import Words, vote_words

DECISIONS = {
    "agreed": "The gate ends the debate: all agents gave the same answer, with verified quotes.",
    "unverified": "The gate leaves the claim open: all agents gave the same answer, with too few verified quotes.",
    "disputed": "The gate leaves the claim open: the answers differ.",
}


class GateWords(Words):
    """Writes the gate's text.

    `gate_words` makes a subclass of this class and of the class that writes the text of the debate behind the gate.
    """

    def heading(self, turn: Turn) -> str | None:
        """See `Words.heading`."""
        return "First answers" if turn["phase"] == GATE else super().heading(turn)

    def after_round(self, record: RoundRecord) -> Iterator[Line]:
        """The votes and the gate's decision after the first answers; for other rounds, see `Words.after_round`."""
        if record["phase"] != GATE:
            yield from super().after_round(record)
            return
        yield own_line(f"Answers: {vote_words(record.get('votes') or [])}.")
        yield own_line(DECISIONS[record["reason"]])

    def verdict(self, document: Mapping[str, Any]) -> Iterator[Line]:
        """The verdict, as for the debate behind the gate. If no debate took place, see `Words.verdict`."""
        gate = document["metrics"].get("gate")  # None if the run ended before the gate
        took_place = gate is not None and gate["debate"] is not None
        return super().verdict(document) if took_place else Words.verdict(self, document)


def gate_words(settings: GateSettings, words_of: Any) -> Words:
    """The object that writes the text of a debate behind a gate.

    Args:
        settings: the settings of the gate.
        words_of: the function `moot.transcript.kinds.words_of`, called with the settings of the debate behind the gate.
    """
    inner: Settings = settings.of_debate(load_graph(settings.debate).settings)
    kind: Any = type("GateWords", (GateWords, type(words_of(inner))), {})
    words: Words = kind(inner)
    return words
