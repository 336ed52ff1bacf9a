"""Chooses the class that writes a debate's text, by the class of the debate's settings; has the class of Tool-MAD's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from moot.graphs import load_graph
from moot.nodes._records.entries import RoundRecord
from moot.nodes._runtime.ceilings import is_bounded
from moot.nodes._runtime.settings import Settings
from moot.nodes._speakers.debaters import DebaterSettings, has_found_new, low_scores
from moot.nodes._speakers.gate import GateSettings
from moot.nodes._steps.compare import agreed_answer, answers_of
from moot.nodes._steps.score import METRICS
from moot.nodes._texts.plans import failed_in_words, searches_of_round
from moot.nodes._trial.trial_settings import TrialSettings
from moot.transcript.line import Line, own_line
from moot.transcript.trial import TrialWords
from moot.transcript.words import Words


class ScoredWords(Words):
    """Writes the text of debates of `tool_mad` and `tool_mad_consistency`."""

    def after_votes(self, record: RoundRecord) -> Iterator[Line]:
        """Lines on whether the debaters agree, whether the consensus is stable, and what follows.

        There are no lines if the round has no votes.
        """
        votes = record.get("votes")
        if not votes:
            return
        given = ", ".join(f"{v['agent']} {v['answer'] or 'no answer'}" for v in votes)
        left = record["round"] < self.settings.max_rounds
        if "searches" in record:
            then = f"the debate searches on{self._budget_condition}"
            ends = "" if self._is_gated() else ", so the debate ends"
            found = f"the searches found {'something' if has_found_new(record) else 'nothing'} new"
            found = found if record["searches"] else "the debate has not searched yet"
            found += "" if has_found_new(record) else failed_in_words(searches_of_round(record))
            found += ", but the rounds are used up" if has_found_new(record) and not left else ""
            goes_on = left and has_found_new(record) and self.settings.searches_in(record["round"] + 1)
            why = f"they agree that the evidence settles nothing; {found}{f', so {then}' if goes_on else ends}"
        elif agreed_answer(votes) is not None:
            why = "they agree" + (
                "; the scores decide whether that is stable" if self._is_gated() else self._ungated_outcome(left)
            )
        else:
            then = f"so the debate goes on{self._budget_condition}" if left else "and the rounds are used up"
            why = f"they differ, {then}"
        yield own_line(f"Round {record['round']}: {given}: {why}.")
        if record.get("reason") == "unstable" and (low := self._low_scores_in_words(record)):
            then = f"another round{self._budget_condition}" if left else "the judge decides"
            yield own_line(f"The consensus is not stable ({low}): {then}.")

    @property
    def _budget_condition(self) -> str:
        """A clause on the budget, which may prevent the next round; empty without a budget."""
        return ", unless the budget is used up" if is_bounded(self.settings) else ""

    def _ungated_outcome(self, left: bool) -> str:
        """What follows if the debaters agree and no score decides; empty if the agreement ends the debate."""
        if getattr(self.settings, "scoring", "on") != "all_rounds":
            return ""
        return (
            f", but every round is run{self._budget_condition}"
            if left
            else "; the rounds are used up, so the judge decides"
        )

    def _is_gated(self) -> bool:
        """Whether scores decide if a consensus is stable."""
        gated = any(hasattr(self.settings, f"{metric}_threshold") for metric in METRICS)
        return gated and bool(self.settings.scoring == "on")

    def _low_scores_in_words(self, record: RoundRecord) -> str:
        """The scores that are below their thresholds, then the unknown scores; empty if there are none."""
        answers = sorted(answers_of(self.turns, record["round"]), key=lambda turn: self.speakers.index(turn["agent"]))
        low = low_scores(answers, self.settings, self.known.task)
        named = [(f"{agent}'s {metric.replace('_', ' ')}", value is None) for agent, metric, value, _ in low]
        below = ", ".join(name for name, is_unknown in named if not is_unknown)
        unknown = ", ".join(name for name, is_unknown in named if is_unknown)
        parts = [f"{below} below the threshold" * bool(below), f"{unknown} unknown" * bool(unknown)]
        return "; ".join(filter(None, parts))

    def stop(self, reason: str | None) -> Iterator[Line]:
        """See `Words.stop`. ``max_rounds`` has no line here, because `after_votes` has already written one."""
        return super().stop(None if reason == "max_rounds" else reason)


KINDS: Mapping[type[Settings], type[Words]] = {DebaterSettings: ScoredWords, TrialSettings: TrialWords}
"""The classes for systems with their own texts. Other systems use `Words`."""


def words_of(settings: Settings) -> Words:
    """The object that writes the text of a debate with these settings; behind a gate, of the debate that may follow."""
    if isinstance(settings, GateSettings):
        settings = settings.of_debate(load_graph(settings.debate).settings)
    return next((words for kind, words in KINDS.items() if isinstance(settings, kind)), Words)(settings)
