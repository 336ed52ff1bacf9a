"""Scores of chosen sentences that are one F1 over all items: SciFact's (Wadden et al. 2020) and Check-COVID's.

Each item has `Counts`; the score is the F1 of their sums, not a mean of items' scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from moot.evals._stats.metrics import ratio

SCIFACT_MEASURES = ("abstract_label_f1", "abstract_f1", "sentence_selection_f1", "sentence_f1")
POOLED_MEASURES = (*SCIFACT_MEASURES, "rationale_f1")
"""Measures that are the F1 of sums of `Counts`."""
MOST_SENTENCES = 3
"""The number of chosen sentences of an abstract that count for `SCIFACT_MEASURES` of abstracts; the first ones do."""


class Counts(NamedTuple):
    """What an item adds to a score: how many of the chosen things are right, how many are chosen, how many are gold."""

    right: int
    chosen: int
    gold: int


class Abstract(NamedTuple):
    """A claim's gold abstract: its label, and sets of sentences, each of which is enough for the label."""

    label: str
    rationales: Sequence[Sequence[int]]


class ChosenAbstract(NamedTuple):
    """An abstract that a system chose: the label that it gives to it, and the sentences that it chose, in order."""

    label: str
    sentences: Sequence[int]


def pooled_f1(sums: Any) -> Any:
    """F1 = 2 x right / (chosen + gold), from an array of sums of shape (..., 3), in the order of `Counts`.

    That is 2 x precision x recall / (precision + recall). NaN if nothing is chosen and nothing is gold. With 2 of 3
    chosen things right, and 5 gold ones, F1 is 4 / 8.
    """
    right, chosen, gold = np.moveaxis(np.asarray(sums, dtype=float), -1, 0)
    return ratio(2 * right, chosen + gold)


def scifact_counts(gold: Mapping[str, Abstract], chosen: Mapping[str, ChosenAbstract]) -> dict[str, Counts]:
    """An item's counts for each of `SCIFACT_MEASURES`, as the leaderboard's script counts them.

    For ``abstract_label_f1``, a chosen abstract is right if it is gold and has the right label. For ``abstract_f1``,
    its first `MOST_SENTENCES` sentences (more, if each of its gold sets is larger) must also include a full set.
    For ``sentence_selection_f1``, a chosen sentence is right if it is in a set of which all sentences are chosen; for
    ``sentence_f1``, its abstract must have the right label, too. Abstracts are by id.
    """
    labelled = rationalised = selected = selected_and_labelled = 0
    for id, (label, sentences) in chosen.items():
        if (abstract := gold.get(id)) is None:
            continue
        sets = [set(rationale) for rationale in abstract.rationales]
        first = set(sentences[: max(MOST_SENTENCES, min(map(len, sets)))])
        found = set[int]().union(*(rationale for rationale in sets if rationale <= set(sentences)))
        selected += len(found)
        if label == abstract.label:
            labelled += 1
            rationalised += any(rationale <= first for rationale in sets)
            selected_and_labelled += len(found)
    abstracts = len(chosen), len(gold)
    all_chosen = sum(len(abstract.sentences) for abstract in chosen.values())
    all_gold = sum(len(rationale) for abstract in gold.values() for rationale in abstract.rationales)
    right = (labelled, rationalised, selected, selected_and_labelled)
    divisors = (abstracts, abstracts, (all_chosen, all_gold), (all_chosen, all_gold))
    return {
        measure: Counts(count, *divisor)
        for measure, count, divisor in zip(SCIFACT_MEASURES, right, divisors, strict=True)
    }


def rationale_counts(gold: Sequence[tuple[str, int]], chosen: Sequence[tuple[str, int]]) -> Counts:
    """An item's counts for ``rationale_f1``, as Check-COVID's script counts them without further options.

    A chosen sentence is right if it is gold and all gold sentences are chosen. A claim without gold sentences (not
    enough information) counts nothing.
    """
    if not gold:
        return Counts(0, 0, 0)
    complete = set(gold) <= set(chosen)
    return Counts(sum(sentence in gold for sentence in chosen) if complete else 0, len(chosen), len(gold))
