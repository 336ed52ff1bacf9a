"""Outcomes of the items of a run, and scores that report how many items they cover.

The outcome of an item is the answer of the system; `ABSTAINED` if it ended without one; None if the run failed on it.
The cause of a failure decides how it counts. After an outage (of an endpoint or a network, or due to a quota, a
ceiling or a setting) the item is missing data: it is not a wrong answer, and every score reports the number of such
items. If replies cannot be used even after a retry, that is the system's own fault: there is no answer, which is wrong
under every policy for abstentions (`UNUSABLE`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from operator import eq
from typing import Any, TypeVar, get_args

from moot.core.errors import Outcome
from moot.nodes._steps.score import average
from moot.nodes._texts.answers import surely_differ

T = TypeVar("T")
Document = Mapping[str, Any]
"""A result document (`moot.nodes.VerdictOutput`) as plain JSON."""

ABSTAINED = ""
"""The outcome of an item without an answer. No label, number or phrase is empty."""
UNUSABLE = "(no usable reply)"
"""The unmapped outcome of an item on which a system's own replies could not be used; it is not an answer of any
task."""
OWN_FAULTS = frozenset(get_args(Outcome))
"""Kinds of errors that are the system's own fault: its models answered, but the answer cannot be used."""


@dataclass(frozen=True)
class Score:
    """A figure and the items that it covers: n + missing + left_out is the number of all items.

    Attributes:
        value: None if it is undefined, for example if no item counts.
        n: items that count.
        missing: items whose outcome is unknown because the run failed on them.
        left_out: items that have an outcome, but not this figure (for example an abstention that a policy leaves out).
    """

    value: float | None
    n: int
    missing: int = 0
    left_out: int = 0

    @property
    def coverage(self) -> float | None:
        """Items that count / items with an outcome, in [0, 1]; None if no item has an outcome."""
        known = self.n + self.left_out
        return self.n / known if known else None


def mean_score(values: Sequence[float | None], left_out: int = 0) -> Score:
    """The mean of one value per item; None is a missing item.

    Args:
        values: the value of each item.
        left_out: the number of items that have an outcome, but not this value.

    Raises:
        ValueError: a value is not finite.
    """
    known = [float(value) for value in values if value is not None]
    if not all(map(isfinite, known)):
        raise ValueError("an unknown value must be None, not NaN")
    return Score(average(known), len(known), len(values) - len(known), left_out)


def outcome_of(document: Document | None, *, mapped: bool = True) -> str | None:
    """The outcome of an item, from its result document.

    Args:
        document: None if there is none.
        mapped: True: the system's own answer. False: a trial's INCONCLUSIVE is an abstention, whatever label its
            settings map it to, so that policies can be compared (`moot.evals._stats.metrics.under_policies`).

    Returns:
        The answer; `ABSTAINED` if a finished debate has none. If the debate failed because replies could not be used:
        `ABSTAINED`, or `UNUSABLE` if ``mapped`` is False. None if it failed for another reason, was cancelled or is not
        done.
    """
    if document is None or not has_outcome(document):
        return None
    if document["status"] != "done":
        return ABSTAINED if mapped else UNUSABLE
    if not mapped and "panel" in document["metrics"] and document["raw_verdict"] == "INCONCLUSIVE":
        return ABSTAINED
    return document["answer"] or ABSTAINED


def has_outcome(document: Document) -> bool:
    """Whether a debate has an outcome: it finished, or its replies could not be used."""
    return document["status"] == "done" or (document["status"] == "failed" and is_model_fault(document))


def is_model_fault(document: Document) -> bool:
    """Whether a debate failed only because its models' replies could not be used, and no turn failed otherwise."""
    error, turns = document.get("error"), document.get("turns") or ()
    complete = all(turn.get("outcome") != "failed" for turn in turns)
    return error is not None and error["kind"] in OWN_FAULTS and complete


# --- several runs -----------------------------------------------------------------------------------------------------


def oracle_of_runs(correct: Sequence[Sequence[bool | None]]) -> list[bool | None]:
    """Best-of-runs: for each item whether any run was right, as if an oracle picked the run (S2, table 3).

    Args:
        correct: for each run whether each item was right, in one order; None if it is missing.

    Returns:
        For each item True if any run was right; None if no run was right, but a missing run could have been; else
        False. `mean_score` computes the share.

    Raises:
        ValueError: no run, or runs of different lengths.
    """
    return [True if any(item) else None if None in item else False for item in _by_item(correct)]


def majority_of_runs(runs: Sequence[Sequence[str | None]], same: Callable[[str, str], bool] = eq) -> list[str | None]:
    """Majority-of-runs: for each item the answer that most runs gave; a tie goes to the earliest run among them.

    Abstentions are not votes, as in debates: an item abstains if no run answered.

    Args:
        runs: for each run the outcome of each item, in one order.
        same: whether two answers are the same. An answer joins a group if it is the same as the group's first answer,
            and is not known to differ from any answer in it.

    Returns:
        For each item the earliest wording of the answer, `ABSTAINED`, or None if missing runs could change the result.
        For example, if one of three runs is missing, two equal answers decide, and two different ones do not.

    Raises:
        ValueError: no run, or runs of different lengths.
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
    groups.sort(key=len, reverse=True)  # the sort is stable: of equally large groups, the earliest comes first
    counts = [*map(len, groups), 0, 0]
    if missing and counts[0] <= counts[1] + missing:
        return None
    return groups[0][0] if groups else ABSTAINED


def _by_item(runs: Sequence[Sequence[T]]) -> list[tuple[T, ...]]:
    if not runs:
        raise ValueError("there must be at least one run")
    return list(zip(*runs, strict=True))
