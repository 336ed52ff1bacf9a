"""Tool-MAD on the screen: every round's answers, their scores, and whether these make an agreement stable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moot.cli.show import Transcript, key_of
from moot.nodes.runtime.budget import is_bounded
from moot.nodes.runtime.state import Turn
from moot.nodes.speakers.debaters import rests_on_evidence
from moot.nodes.steps.compare import METRICS, agreed_answer, answers_of


class ScoredTranscript(Transcript):
    """Prints what the nodes of Tool-MAD write, in either version."""

    agreed = False

    def update(self, written: Mapping[str, Any]) -> None:
        """What a node wrote."""
        super().update(written)
        if written.get("scores"):
            self._stability()

    def _turn(self, turn: Turn, written: Mapping[str, Any]) -> None:
        super()._turn(turn, written)
        if turn.get("scores"):
            self._scores(turn)

    def _scores(self, key: Turn) -> None:
        """An answer's scores, once all of them are known."""
        turn = next(t for t in answers_of(self.turns, key["round"]) if t["agent"] == key["agent"])
        given = [metric for metric in METRICS if metric in turn["scores"]]
        complete = len(given) == len(self._gates()) or "consistency" in given
        if complete and (*key_of(turn), "scores") not in self.said:
            self.said.add((*key_of(turn), "scores"))
            grounded = rests_on_evidence(turn, self.settings)
            marks = "; ".join(self._mark(metric, turn["scores"][metric], grounded) for metric in given)
            self.line(turn["agent"], f"scores r{turn['round']}", marks)

    def _gates(self) -> list[str]:
        """The scores that have thresholds, and so decide whether a consensus is stable."""
        return [metric for metric in METRICS if hasattr(self.settings, f"{metric}_threshold")]

    def _mark(self, metric: str, value: float | None, grounded: bool) -> str:
        name = metric.replace("_", " ")
        threshold = getattr(self.settings, f"{metric}_threshold", None)
        if threshold is None:
            return f"{name} {'unknown' if value is None else f'{value:.2f}'}"
        if value is None and metric == "faithfulness" and not grounded:
            return f"{name} not applicable"
        if value is None:
            return f"{name} unknown (needs {threshold:.2f})"
        return f"{name} {value:.2f} {'>=' if value >= threshold else '<'} {threshold:.2f}"

    def _votes(self, written: Mapping[str, Any]) -> None:
        if not written.get("votes"):
            return
        given = ", ".join(f"{v['agent']} {v['answer'] or 'no answer'}" for v in written["votes"])
        self.agreed = agreed_answer(written["votes"]) is not None
        left = written["rounds"] < self.settings.max_rounds
        if self.agreed:
            why = "they agree" + ("; the scores decide whether that is stable" if self._scored() else self._then(left))
        else:
            then = f"so the debate goes on{self._unless}" if left else "and the rounds are used up"
            why = f"they differ, {then}"
        self.say(f"Round {written['rounds']}: {given}: {why}.", "magenta", 2)

    @property
    def _unless(self) -> str:
        """What may keep the next round from being held."""
        return ", unless the budget is used up" if is_bounded(self.settings) else ""

    def _then(self, left: bool) -> str:
        """What an agreement leads to where no scores gate it."""
        if getattr(self.settings, "scoring", "on") != "all_rounds":
            return ""
        return f", but every round is run{self._unless}" if left else "; the rounds are used up, so the judge decides"

    def _scored(self) -> bool:
        return bool(self._gates()) and self.settings.scoring == "on"

    def _stability(self) -> None:
        order = [debater.name for debater in self.settings.debaters]
        last = sorted(answers_of(self.turns), key=lambda turn: order.index(turn["agent"]))
        low = [
            f"{t['agent']}'s {metric.replace('_', ' ')}"
            for t in last
            for metric in self._gates()
            if not self._reached(metric, t["scores"])
            and (metric != "faithfulness" or rests_on_evidence(t, self.settings))
        ]
        if self.agreed and low:
            left = last[0]["round"] < self.settings.max_rounds
            then = f"another round{self._unless}" if left else "the judge decides"
            self.say(f"The consensus is not stable ({', '.join(low)} below the threshold): {then}.", "magenta", 2)

    def _reached(self, metric: str, scores: Mapping[str, float | None]) -> bool:
        value = scores.get(metric)
        return value is not None and value >= getattr(self.settings, f"{metric}_threshold")

    def _stop(self, written: Mapping[str, Any]) -> None:
        if written.get("stop_reason") != "max_rounds":  # said with the last round's answers
            super()._stop(written)
