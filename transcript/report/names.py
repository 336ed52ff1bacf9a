"""The speakers' names in reports, such as Debater A, and the sources that they searched."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from typing import Any

from moot.nodes._steps.retrieving import sources_of
from moot.transcript.language import in_clauses, listed, t
from moot.transcript.report.codes import source_words

ROLES = {
    "agent": "Agent",
    "plaintiff": "Plaintiff",
    "defense": "Defense",
    "judge": "Judge",
    "retrieval": "Search",
    "miner": "Premise finder",
    "equivalence": "Comparison",
    "person": "A person",
    "negotiator": "Negotiator",
    "arbiter": "Arbiter",
    "court": "Court",
    "critic": "Critic",
    "expert": "Expert",
    "summariser": "Summariser",
    "moderator": "Moderator",
    "pool": "Pool",
    "analyser": "Analyser",
    "planner": "Planner",
    "reviewer": "Reviewer",
    "aggregator": "Aggregator",
    "tally": "Tally",
    "affirmative": "Affirmative",
    "negative": "Negative",
    "group": "Group",
    "debater": "Debater",
}
"""Maps names of speakers, without a number, to the names that readers see."""
ABOUT = {"plaintiff": "speaks for the claim", "defense": "speaks against the claim"}
"""Maps each side of a trial to a fact about the side."""
ADDRESS = r"\S+://\S+"


class Names:
    """The names of the speakers in reports."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        settings = document["settings"]
        declared = settings.get("debaters") or settings.get("agents") or []
        self.declared = [one["name"] for one in declared if isinstance(one, Mapping)]
        self.single = len({turn["agent"] for turn in document["turns"] if turn["step"] == "respond"}) == 1
        self.given = {
            name: t("Debater {letter}", letter=letter)
            for name, letter in zip(self.declared, string.ascii_uppercase, strict=False)
            if not re.fullmatch(r"agent-\d+|affirmative|negative", name)
        }
        searched: dict[str, dict[str, None]] = {
            one["name"]: dict.fromkeys(map(source_words, sources_of(one)))
            for one in declared
            if isinstance(one, Mapping) and one.get("retriever")
        }
        if document["corpora"] or settings.get("retrieval") == "none":  # what was read in fact
            searched = {}
        for reading in document["corpora"]:
            searched.setdefault(reading["agent"], {})[source_words(reading["retriever"])] = None
        self.searched = {agent: listed(found) for agent, found in searched.items()}
        texts = " ".join(str(turn.get("rationale") or "") for turn in document["turns"])
        self.mentioned = {name for name in self.given if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", texts)}

    def __call__(self, agent: str) -> str:
        """The name that readers see for a speaker."""
        if agent in self.given:
            return self.given[agent]
        if agent == "agent-1" and self.single:
            return t("The model")
        role, _, number = agent.partition("-")
        if role in ROLES and (not number or number.isdecimal()):
            return f"{t(ROLES[role])} {number}".strip()
        return agent[:1].upper() + agent[1:]

    def speaker_facts(self, agent: str) -> str:
        """Facts about a speaker: what it reads, its side, and its name if texts use it; empty if none is known."""
        found = [t("reads {sources}", sources=self.searched[agent])] if agent in self.searched else []
        found += [t(ABOUT[agent])] if agent in ABOUT else []
        found += [t("called “{name}” in the debate", name=agent)] if agent in self.mentioned else []
        return in_clauses(found)

    def with_names(self, text: str) -> str:
        """Replaces the debaters' names in a sentence that moot wrote; returns the sentence with the names for readers.

        Only names that the settings declare are replaced. Names such as ``agent-1`` are not replaced, nor are parts of
        addresses, and words after an article: "the search" is no debater with this name.
        """
        if not self.given:
            return text
        known = "|".join(map(re.escape, sorted(self.given, key=len, reverse=True)))
        word = rf"{ADDRESS}|(?<![\w-])(?<!\b[Tt]he )(?<!\ba )({known})(?![\w-])"
        return re.sub(word, lambda found: self.given.get(found[0], found[0]), text)
