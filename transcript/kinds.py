"""Chooses the class that writes a debate's text (`Words` or a subclass) by the class of the debate's settings."""

from __future__ import annotations

from collections.abc import Mapping

from moot.graphs import load_graph
from moot.nodes._runtime.settings import Settings
from moot.nodes._speakers.debaters import DebaterSettings
from moot.nodes._speakers.gate import GateSettings
from moot.nodes._trial.trial_settings import TrialSettings
from moot.transcript.scores import ScoredWords
from moot.transcript.trial import TrialWords
from moot.transcript.words import Words

KINDS: Mapping[type[Settings], type[Words]] = {DebaterSettings: ScoredWords, TrialSettings: TrialWords}
"""The classes for systems with their own texts. Other systems use `Words`."""


def words_of(settings: Settings) -> Words:
    """The object that writes the text of a debate with these settings; behind a gate, of the debate that may follow."""
    if isinstance(settings, GateSettings):
        settings = settings.of_debate(load_graph(settings.debate).settings)
    return next((words for kind, words in KINDS.items() if isinstance(settings, kind)), Words)(settings)
