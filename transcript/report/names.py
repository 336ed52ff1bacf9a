"""The speakers' names in reports, such as Debater A, and the sources that they searched."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from typing import Any

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
}
"""Maps names of speakers, without a number, to the names that readers see."""
ABOUT = {"plaintiff": "speaks for the claim", "defense": "speaks against the claim"}
"""Maps each side of a trial to a fact about the side."""


class Names:
    """The names of the speakers in reports."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        settings = document["settings"]
        declared = settings.get("debaters") or settings.get("agents") or []
        self.declared = [one["name"] for one in declared if isinstance(one, Mapping)]
        self.single = len({turn["agent"] for turn in document["turns"] if turn["step"] == "respond"}) == 1
        self.given = {
            name: f"Debater {letter}"
            for name, letter in zip(self.declared, string.ascii_uppercase, strict=False)
            if not re.fullmatch(r"agent-\d+", name)
        }
        searched: dict[str, dict[str, None]] = {}
        for reading in document["corpora"]:
            searched.setdefault(reading["agent"], {})[source_words(reading["retriever"])] = None
        self.searched = {agent: ", ".join(found) for agent, found in searched.items()}

    def __call__(self, agent: str) -> str:
        """The name that readers see for a speaker."""
        if agent in self.given:
            return self.given[agent]
        if agent == "agent-1" and self.single:
            return "The model"
        role, _, number = agent.partition("-")
        if role in ROLES and (not number or number.isdecimal()):
            return f"{ROLES[role]} {number}".strip()
        return agent[:1].upper() + agent[1:]

    def speaker_facts(self, agent: str) -> str:
        """Facts about a speaker: its sources, its side, and its name in the debate's texts; empty if none is known."""
        found = [f"searched {self.searched[agent]}"] if agent in self.searched else []
        found += [ABOUT[agent]] if agent in ABOUT else []
        found += [f"called “{agent}” in the debate"] if agent in self.given else []
        return "; ".join(found)

    def with_names(self, text: str) -> str:
        """Replaces the debaters' names in a sentence that moot wrote; returns the sentence with the names for readers.

        Only names that the settings declare are replaced. Names such as ``agent-1`` are not replaced.
        """
        if not self.given:
            return text
        known = "|".join(map(re.escape, sorted(self.given, key=len, reverse=True)))
        return re.sub(rf"(?<![\w-])({known})(?![\w-])", lambda found: self.given[found[0]], text)
