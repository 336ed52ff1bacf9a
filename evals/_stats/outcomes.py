"""Outcomes of the items of a run, and scores that report how many items they cover.

The outcome of an item is the system's answer; `ABSTAINED` if the debate ended without an answer; None if the item is
missing data. The cause of a failure decides how the item counts. If an endpoint or a network failed, if a quota, a
ceiling or a setting stopped the debate, or if the debate has not ended, the item is missing data. It is not a wrong
answer, and every score reports the number of such items. If replies cannot be used even after a retry, that is the
system's own fault. The item then has no answer, and counts as wrong under every policy for abstentions (see
`UNUSABLE`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from operator import eq
from typing import Any, NamedTuple, TypeVar, get_args

from moot.core.errors import Outcome
from moot.nodes._steps.score import average
from moot.nodes._texts.answers import ABSTENTION, abstains, surely_differ
from moot.retrievers._evidence import GIVEN

T = TypeVar("T")
Document = Mapping[str, Any]
"""A result document (`moot.nodes.VerdictOutput`) as plain JSON."""
INPUTS = "moot"
"""Key of a sample's metadata for a debate's input: an object with ``task``, ``labels``, ``given``, ``claim_date``,
``speaker``, ``appeared_at`` (see `moot.nodes.ClaimInput`) and ``published_before``. No other metadata reaches it."""

ABSTAINED = ""
"""The outcome of an item without an answer. It is empty, unlike every label, number and phrase."""
UNUSABLE = "(no usable reply)"
"""The unmapped outcome (see `outcome_of`) of an item on which the system's own replies could not be used. It is not a
valid answer to any task."""
OWN_FAULTS = frozenset(get_args(Outcome))
"""Kinds of errors that are the system's own fault: its models replied, but the reply cannot be used."""


@dataclass(frozen=True)
class Score:
    """A figure, and how many items count, are missing or are left out, which add up to all items."""

    value: float | None
    """The figure; None if it is undefined, for example if no item counts."""
    n: int
    """The number of items that count."""
    missing: int = 0
    """The number of items whose outcome or value is unknown."""
    left_out: int = 0
    """The number of items that have an outcome, but do not count in this figure (for example abstentions that a policy
    leaves out)."""

    @property
    def coverage(self) -> float | None:
        """Items that count / items with an outcome, in [0, 1]; None if no item has an outcome."""
        known = self.n + self.left_out
        return self.n / known if known else None


def mean_score(values: Sequence[float | None], left_out: int = 0) -> Score:
    """The mean of the values of items. The value is None if every item is missing or left out."""
    known = [float(value) for value in values if value is not None]
    if not all(map(isfinite, known)):
        raise ValueError("values must be finite; an unknown value must be None")
    return Score(average(known), len(known), len(values) - len(known), left_out)


def outcome_of(document: Document | None, gold: Collection[str] = (), *, mapped: bool = True) -> str | None:
    """The outcome of an item: the answer, or `ABSTAINED` if there is none or the debate's replies could not be used.

    If the right answers ``gold`` include `ABSTENTION`, a debate that said that the evidence does not tell has it as its
    outcome. None if the debate failed for another reason, was cancelled or is not done, or if there is no document. If
    not ``mapped``, a trial's INCONCLUSIVE is an abstention and not the label that the trial gives to it, and unusable
    replies are `UNUSABLE`, so that policies can be compared (`moot.evals._stats.metrics.under_policies`).
    """
    if document is None or not has_outcome(document):
        return None
    if document["status"] != "done":
        return ABSTAINED if mapped else UNUSABLE
    if not mapped and "panel" in document["metrics"] and document["raw_verdict"] == "INCONCLUSIVE":
        return ABSTAINED
    if ABSTENTION in gold and abstains(document["task"], document["raw_verdict"]):
        return ABSTENTION
    return document["answer"] or ABSTAINED


def has_outcome(document: Document) -> bool:
    """Whether a debate has an outcome: it finished, or failed only because its models' replies could not be used."""
    return document["status"] == "done" or (document["status"] == "failed" and is_model_fault(document))


def is_model_fault(document: Document) -> bool:
    """Whether a debate's error is that its models' replies could not be used, and no turn failed for another reason."""
    error, turns = document.get("error"), document.get("turns") or ()
    complete = all(turn.get("outcome") != "failed" for turn in turns)
    return error is not None and error["kind"] in OWN_FAULTS and complete


# --- evidence ---------------------------------------------------------------------------------------------------------


class EvidenceCount(NamedTuple):
    """The amount of evidence in a debate."""

    pieces: int
    """The number of pieces of evidence, including those given with the claim."""
    searches: int
    """The number of different pairs of a source and a query that found evidence."""
    failed: int
    """The number of different pairs of an agent and a source that failed for this agent."""
    stood_in: int
    """The number of warnings that a fallback source was used in place of another source."""


def count_evidence(document: Document) -> EvidenceCount:
    """Count the evidence in a result document."""
    evidence = document["evidence"]
    searches = {(retrieval["retriever"], retrieval["query"]) for piece in evidence for retrieval in piece["retrievals"]}
    failed = {
        (retrieval["agent"], retrieval["retriever"]) for retrieval in document["corpora"] if retrieval.get("failed")
    }
    fallbacks = sum(warning["kind"] == "stand_in" for warning in document["warnings"])
    return EvidenceCount(len(evidence), sum(source != GIVEN for source, _ in searches), len(failed), fallbacks)


# --- several runs -----------------------------------------------------------------------------------------------------


def oracle_of_runs(correct: Sequence[Sequence[bool | None]]) -> list[bool | None]:
    """Best-of-runs: for each item whether any run was right, as if an oracle picked the run (PROClaim, table 3). If no
    run was right: None if the item is missing in a run, because that run could have been right; otherwise False.
    """
    return [True if any(item) else None if None in item else False for item in _by_item(correct)]


def majority_of_runs(runs: Sequence[Sequence[str | None]], same: Callable[[str, str], bool] = eq) -> list[str | None]:
    """Majority-of-runs: for each item the answer of most runs; in a tie, the tied answer of the earliest run.

    As in debates, an abstention is not a vote. Each answer joins a group of equal answers: it must be the same as the
    group's first answer, and must not surely differ (`surely_differ`) from any answer in the group.

    Returns for each item: the majority answer in its earliest wording; `ABSTAINED` if all runs abstained; None if the
    missing runs could give another answer as many votes.
    """
    return [_majority(item, same) for item in _by_item(runs)]


def _majority(outcomes: tuple[str | None, ...], same: Callable[[str, str], bool]) -> str | None:
    groups: list[list[str]] = []
    for answer in filter(None, outcomes):
        candidates = (g for g in groups if same(g[0], answer))
        group = next((g for g in candidates if not any(surely_differ(member, answer) for member in g)), None)
        if group is None:
            groups.append([answer])
        else:
            group.append(answer)
    missing = outcomes.count(None)
    groups.sort(key=len, reverse=True)  # the sort is stable: among groups of equal size, the earliest stays first
    counts = [*map(len, groups), 0, 0]
    if missing and counts[0] <= counts[1] + missing:
        return None
    return groups[0][0] if groups else ABSTAINED


def _by_item(runs: Sequence[Sequence[T]]) -> list[tuple[T, ...]]:
    if not runs:
        raise ValueError("there must be at least one run")
    return list(zip(*runs, strict=True))
