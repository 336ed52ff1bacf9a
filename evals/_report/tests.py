"""Statistical tests of differences between systems; tables of these differences and of policies for abstentions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from math import ceil, fsum, log2
from operator import eq
from typing import Any

import numpy as np
from moot.evals._report.comparison import Cluster, Study, System, common_items, policy_labels
from moot.evals._report.pairs import Pair, Wanted, pairs_of, stated_pairs
from moot.evals._report.scores import SYSTEM, TITLES, f1_labels, is_right, name_cell
from moot.evals._report.tables import Cell, Column, Table, columns, make_table
from moot.evals._runs.stated import StatedTest
from moot.evals._stats.clusters import mean_of_intervals
from moot.evals._stats.estimates import clusters_of, difference, item_means
from moot.evals._stats.margins import Claim, MarginTest, margin_test, paired_differences
from moot.evals._stats.measures import load_extra
from moot.evals._stats.metrics import LabelScore, accuracy, macro_f1, under_policies
from moot.evals._stats.observations import Observation
from moot.evals._stats.outcomes import ABSTAINED, UNUSABLE
from moot.evals._stats.sample_size import ALPHA, POWER, power
from moot.evals._stats.significance import (
    Family,
    Interval,
    PairedTest,
    flip_chances,
    holm,
    in_units,
    mcnemar,
    sign_flips,
)
from moot.nodes._texts.task import TASKS

# --- differences ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """A system and its baseline on the items that both have, on one benchmark or on several together."""

    pairs: tuple[Pair, ...]
    """The system and its baseline on each benchmark; each benchmark has the same weight."""
    test: PairedTest
    """The test of a difference by the first measure of each benchmark."""
    detectable: Cell
    """The smallest difference that the test finds significant with a power of `POWER`; "none" if there is no such
    difference; None if it cannot be computed, or for another claim."""
    p_holm: float | None
    """The p-value by Holm's correction; None if there is no p-value."""
    family: int
    """The number of tests that are corrected together."""
    difference: Interval
    """The system's score minus its baseline's, by the first measure of each benchmark."""
    claim: Claim = "different"
    """What the test can show."""
    bounds: MarginTest | None = None
    """The test of a margin; None for the claim ``different``."""

    @property
    def first(self) -> System:
        """The system; if there are several benchmarks, on the first of them."""
        return self.pairs[0].first

    @property
    def second(self) -> System:
        """Its baseline; if there are several benchmarks, on the first of them."""
        return self.pairs[0].second

    @property
    def p(self) -> float | None:
        """The p-value of the claim; None if it cannot be computed."""
        return self.test.p if self.bounds is None else self.bounds.p

    @property
    def names(self) -> tuple[str, str]:
        """The labels of the two systems; if their models differ, with their models."""
        pair = self.pairs[0]
        if not pair.between_models:
            return pair.first.label, pair.second.label
        return f"{pair.first.label} ({pair.study.model})", f"{pair.second.label} ({pair.second_study.model})"

    @property
    def across(self) -> bool:
        """Whether the test is of no single study: it is over several benchmarks, or between two models."""
        return len(self.pairs) > 1 or self.pairs[0].between_models

    @property
    def place(self) -> str:
        """The benchmark, or the number of benchmarks."""
        return self.pairs[0].study.benchmark.title if len(self.pairs) == 1 else f"{len(self.pairs)} benchmarks"

    @property
    def title(self) -> str:
        """The benchmark and, unless the test is between models, the model."""
        pair = self.pairs[0]
        if not self.across:
            return pair.study.title
        return self.place if pair.between_models else f"{self.place}, {pair.study.model or 'several models'}"


def comparisons_of(
    studies: Sequence[Study], against: str | None = None, family: Family = "report"
) -> list[list[Comparison]]:
    """Make every test of each study, with Holm's correction."""
    found = _compare([Wanted((pair,)) for study in studies for pair in pairs_of(study, against)], family)
    return [[one for one in found if one.pairs[0].study is study] for study in studies]


def stated_comparisons(
    studies: Sequence[Study], tests: Sequence[StatedTest], family: Family = "report"
) -> tuple[list[list[Comparison]], list[Comparison]]:
    """Make the tests that a user states: those of each study, and those of no single study (`Comparison.across`)."""
    found = _compare([wanted for test in tests for wanted in stated_pairs(studies, test)], family)
    within = [[one for one in found if not one.across and one.pairs[0].study is study] for study in studies]
    return within, [one for one in found if one.across]


def _compare(wanted: Sequence[Wanted], family: Family) -> list[Comparison]:
    """Make tests, with Holm's correction over all of them, or over those of each study and those of no single study."""
    found = [_uncorrected(one) for one in wanted]
    families: dict[Any, list[int]] = {}
    for i, one in enumerate(found):
        key = None if family == "report" or one.across else id(one.pairs[0].study)
        families.setdefault((family == "benchmark" and one.across, key), []).append(i)
    for members in families.values():
        adjusted = holm([found[i].p for i in members])
        size = sum(found[i].p is not None for i in members)
        for i, p_holm in zip(members, adjusted, strict=True):
            one = found[i]
            plain = one.bounds is None and len(one.pairs) == 1
            detectable = detectable_by_test(one.pairs[0], one.test, ALPHA / max(size, 1)) if plain else None
            found[i] = replace(one, p_holm=p_holm, family=size, detectable=detectable)
    return found


def _uncorrected(wanted: Wanted) -> Comparison:
    """A comparison before Holm's correction."""
    pairs = wanted.pairs
    differences = [difference(p.first, p.second, p.study.first_measure, common_items(p.first, p.second)) for p in pairs]
    bounds = None
    if wanted.margin is not None:
        items = [paired_differences(*means_of(pair), item_groups(pair)) for pair in pairs]
        bounds = margin_test(items, wanted.margin, wanted.claim)
    test = paired_test(pairs[0]) if len(pairs) == 1 else pooled_test(pairs)
    pooled = differences[0] if len(pairs) == 1 else mean_of_intervals(differences)
    return Comparison(pairs, test, None, None, 0, pooled, wanted.claim, bounds)


def differences_table(
    study: Study, against: str | None = None, compared: Sequence[Comparison] | None = None, family: str = ""
) -> Table | None:
    """The difference between each system and its baseline, over the items that both have; None without a baseline."""
    names = [study.first_measure, *([study.second_measure] if study.second_measure else [])]
    second_measures = names[1:]
    tests = comparisons_of([study], against)[0] if compared is None else compared
    rows = [[*_pair_cells(comparison, second_measures), *_test_cells(comparison)] for comparison in tests]
    heads = [
        SYSTEM,
        Column("against", "against"),
        *columns("count", items="", missing="", elsewhere="items not shared"),
    ]
    heads += columns("signed", **{f"difference_{name}": f"difference in {TITLES[name]}" for name in names})
    size = tests[0].family if tests else 0
    return make_table(
        "differences",
        "Paired differences",
        f"{ITEMS_NOTE} In brackets: 95% paired bootstrap intervals over groups of items; an item without a group is "
        "its own group; if all items differ by 0, or all by 1, they are Tango's score intervals. With several runs, "
        "scores and intervals are of the mean over runs, and the bootstrap draws "
        f"runs, too. {TEST_NOTE} Holm's correction is for {size} tests: {family or 'those of this table'}. Detectable "
        "is the smallest difference that the same test of this "
        f"many items finds with a power of {POWER:.0%} at p = {ALPHA:g} / {size}, the limit of the correction for the "
        "smallest p-value. For McNemar's test, it is computed with the observed share of discordant items, and for the "
        "permutation test with the observed sizes of the differences. If so few items differ that no difference could "
        'be found, more items are assumed to differ. It is "none" if there are too few items.'
        f"{f1_labels(study) if second_measures else ''}",
        [*heads, *TEST_COLUMNS],
        rows,
    )


ITEMS_NOTE = (
    "Both systems are compared on the items for which both have an outcome; other shared items are missing. Items not "
    "shared: only one system has them, or their right answers differ."
)
TEST_NOTE = (
    "Better and worse: the number of items on which the system is better or worse by the first measure. The test is "
    "McNemar's exact test if both systems have a single run and no two items are in the same group. Otherwise, it is "
    "an exact permutation test of the differences between items' means over runs: it flips the signs of all "
    "differences of a group together. With a margin, the test can show that the systems are equivalent (two one-sided "
    "t-tests: the difference is less than the margin) or that the system is not worse by the margin (one of them); the "
    "90% interval then is that of the t-tests."
)
TEST_COLUMNS = (
    *columns("count", groups="groups of items", better="", worse=""),
    *columns("text", claim="to show"),
    *columns("share", margin=""),
    *columns("signed", bounds="difference [90% interval]"),
    *columns("p", p="", p_holm="p by Holm"),
    *columns("text", test=""),
    *columns("share", detectable=""),
)


def _test_cells(comparison: Comparison) -> list[Cell]:
    test, bounds = comparison.test, comparison.bounds
    groups = test.groups if test.groups < test.n else None
    counts: list[Cell] = [groups, test.better, test.worse]
    if bounds is None:
        name = test.name if test.p is not None else f"not computable: {test.reason}"
        return [*counts, "", "", "", test.p, comparison.p_holm, name, comparison.detectable]
    interval = Interval(bounds.value, bounds.low, bounds.high, bounds.n, bounds.missing, reason=bounds.reason)
    name = MARGIN_TESTS[comparison.claim] if bounds.p is not None else f"not computable: {bounds.reason}"
    claim = comparison.claim.replace("_", " ")
    return [*counts, claim, bounds.margin, interval, bounds.p, comparison.p_holm, name, ""]


MARGIN_TESTS = {"equivalent": "two one-sided t-tests (TOST)", "not_worse": "one-sided t-test"}


def _pair_cells(comparison: Comparison, second_measures: Sequence[str]) -> list[Cell]:
    """The cells of a pair: the names, the numbers of items, and the differences by the first and second measures."""
    first, second = comparison.first, comparison.second
    ids = common_items(first, second)
    differences = [comparison.difference, *(difference(first, second, name, ids) for name in second_measures)]
    return [first.label, second.label, *_item_counts(comparison), *differences]


def _item_counts(comparison: Comparison) -> list[Cell]:
    """The numbers of items of a comparison: known, missing, and not shared."""
    sides = [(pair.first, pair.second) for pair in comparison.pairs]
    unshared = sum(len(a.gold.keys() | b.gold.keys()) - len(common_items(a, b)) for a, b in sides)
    return [comparison.difference.n, comparison.difference.missing, unshared]


def across_table(compared: Sequence[Comparison], family: str = "") -> Table | None:
    """The tests between models, and those over several benchmarks; None if there is none."""
    heads = [SYSTEM, *columns("text", model="", against="", against_model="its model", benchmark="")]
    heads += columns("count", items="", missing="", elsewhere="items not shared")
    heads += columns("signed", difference="difference")
    rows: list[list[Cell]] = []
    for one in compared:
        pair = one.pairs[0]
        models = [study.model or "several" for study in (pair.study, pair.second_study)]
        place = ", ".join(p.study.benchmark.title for p in one.pairs)
        named: list[Cell] = [one.first.label, models[0], one.second.label, models[1], place]
        rows.append([*named, *_item_counts(one), one.difference, *_test_cells(one)])
    size = compared[0].family if compared else 0
    return make_table(
        "across",
        "Differences between models and over benchmarks",
        f"By the first measure of each benchmark. {ITEMS_NOTE} Over several benchmarks, the difference is the mean of "
        "their differences, each with the same weight; its 95% interval follows from theirs (Zou and Donner 2008), and "
        "the permutation test flips the differences of items, each divided by the number of its benchmark's items. "
        f"{TEST_NOTE} Holm's correction is for {size} tests{f': {family}' if family else ''}.",
        [*heads, *TEST_COLUMNS],
        rows,
    )


Means = tuple[list[float | None], list[float | None]]


def means_of(pair: Pair) -> Means:
    """Each shared item's mean score over runs, for both systems of a pair."""
    ids, measure = common_items(pair.first, pair.second), pair.study.first_measure
    return item_means(pair.first, measure, ids), item_means(pair.second, measure, ids)


def item_groups(pair: Pair) -> list[Cluster]:
    """The group of each shared item of a pair."""
    return clusters_of(pair.first, pair.second, common_items(pair.first, pair.second))


def paired_test(pair: Pair) -> PairedTest:
    """The test of two systems on the items that both have."""
    ours, theirs = means_of(pair)
    if _can_use_mcnemar(pair):
        return mcnemar(*([None if mean is None else mean == 1 for mean in means] for means in (ours, theirs)))
    return sign_flips(ours, theirs, item_groups(pair))


def pooled_test(pairs: Sequence[Pair]) -> PairedTest:
    """The permutation test of the mean over benchmarks of the systems' differences."""
    ours: list[float | None] = []
    theirs: list[float | None] = []
    groups: list[Hashable] = []
    for n, pair in enumerate(pairs):
        means = means_of(pair)
        known = sum(a is not None and b is not None for a, b in zip(*means, strict=True))
        for all_values, values in ((ours, means[0]), (theirs, means[1])):
            all_values += [None if value is None else value / max(known, 1) for value in values]
        groups += [(n, group) for group in item_groups(pair)]
    return sign_flips(ours, theirs, groups)


def _can_use_mcnemar(pair: Pair) -> bool:
    """Whether both systems have a single run, and no two of the items are in the same group."""
    groups = item_groups(pair)
    return len(pair.first.items) == len(pair.second.items) == 1 and len(set(groups)) == len(groups)


def detectable_by_test(pair: Pair, test: PairedTest, alpha: float = ALPHA) -> Cell:
    """The smallest difference that the test of two systems finds significant with a power of `POWER`."""
    if test.p is None:
        return None
    if _can_use_mcnemar(pair):
        return mcnemar_detectable_difference(test, alpha)
    return flips_detectable_difference(paired_differences(*means_of(pair), item_groups(pair))[0], alpha)


def mcnemar_detectable_difference(test: PairedTest, alpha: float = ALPHA) -> Cell:
    """The smallest difference that a McNemar test of this many items finds significant with a power of `POWER`.

    The share of discordant items is the observed share or, if that is smaller than the difference, the difference.

    "none" if no difference reaches this power; None if there is no item.
    """
    if not test.n:
        return None
    share = (test.better + test.worse) / test.n

    def power_gap(effect: float) -> float:
        # the power depends on the difference of the two accuracies, not on their level; at a level of 1/2, the
        # difference may have any value up to the share of discordant items
        return power((1 + effect) / 2, (1 - effect) / 2, test.n, max(share, effect), alpha) - POWER

    if power_gap(1) < 0:
        return "none"
    return float(load_extra("scipy.optimize").brentq(power_gap, 0, 1))


def flips_detectable_difference(groups: Sequence[Sequence[float]], alpha: float = ALPHA) -> Cell:
    """The smallest mean difference that `sign_flips` finds significant with a power of `POWER`, for these groups.

    The differences of groups keep their observed sizes, and each favours the better system with the same probability.
    If so few groups differ that the test could not be significant, more groups differ by the mean size, all in favour
    of the better system. If no group differs, this size is the largest possible: all items of a group.
    """
    n, needed = sum(map(len, groups)), ceil(1 - log2(alpha))
    if len(groups) < needed:
        return "none"
    totals = list(map(fsum, groups))
    units, _ = in_units(totals)
    if len(units) < needed:
        mean_size = fsum(map(abs, totals)) / len(units) if len(units) else n / len(groups)
        share = load_extra("scipy.stats").beta.ppf(POWER, needed, len(groups) - needed + 1)  # binomial, solved for it
        return float(share * len(groups) * mean_size / n)
    sizes = abs(units)
    p_values = 2 * np.cumsum(flip_chances(sizes, int(sizes.sum()) // 2))
    critical = int((p_values <= alpha).sum()) - 1

    def power_gap(flip: float) -> float:
        return float(flip_chances(sizes, critical, flip).sum()) - POWER

    flip = load_extra("scipy.optimize").brentq(power_gap, 0, 0.5, xtol=1e-5)
    return float((1 - 2 * flip) * fsum(map(abs, totals)) / n)


# --- abstentions ------------------------------------------------------------------------------------------------------


def policies_table(study: Study) -> Table | None:
    """The score by the first measure under every policy for abstentions; macro-F1, too, if the benchmark has it."""
    measures: dict[str, LabelScore] = {study.first_measure: accuracy}
    measures |= {"macro_f1": macro_f1} if "macro_f1" in study.benchmark.metrics else {}
    open_label, supported = policy_labels(study.benchmark.task)
    policies = {"wrong": "as wrong", "left_out": "left out", "open_label": f"as {open_label}"}
    policies |= {"burden_of_refutation": f"as {supported}"}
    first = TITLES[study.first_measure]
    heads = [SYSTEM, *columns("count", abstained="", unusable="no usable reply", missing="")]
    heads += columns("share", coverage="", unusable_missing=f"{first}, no usable reply as missing")
    heads += columns("share", lowest=f"{first}, missing as wrong", highest=f"{first}, missing as right")
    heads += [Column(f"{m}_{p}", f"{TITLES[m]}, {policy}", "share") for m in measures for p, policy in policies.items()]
    rows: list[list[Cell]] = []
    for system in study.measured:
        gold, given = _as_labels(system.observations, study)
        labels = {"open_label": open_label, "supported": supported}
        found = [under_policies(gold, given, **labels, score=score) for score in measures.values()]
        left_out, missing = found[0]["left_out"], given.count(None) + system.not_run
        counts: list[Cell] = [given.count(ABSTAINED), given.count(UNUSABLE), missing]
        counts.append(left_out.coverage if left_out else None)
        counts.append(accuracy(gold, [None if outcome == UNUSABLE else outcome for outcome in given]).value)
        scores = [None if score is None else score.value for scored in found for score in map(scored.get, policies)]
        rows.append([name_cell(system), *counts, *accuracy_bounds(gold, given, system.not_run), *scores])
    return make_table(
        "policies",
        "Scores by the policy for items without an answer",
        "The counts are over all runs. An answer counts as an abstention even if a system then maps it to a label, as"
        " a trial maps INCONCLUSIVE. Left out: the score is over the items with an outcome that is not an abstention;"
        " the share of these items among all items with an outcome is the coverage. No usable reply: the system's "
        "models replied, but the reply could not be used, even after another request. Such an item is wrong under "
        "every policy, except in the column that counts it as missing. Missing items are those on which the run "
        "failed, and those that were not run. They "
        f"count in two scores only: in one as wrong, in the other as right. The {first} of all items, with abstentions "
        "as wrong, lies between these two.",
        heads,
        rows,
    )


def accuracy_bounds(gold: Sequence[str], outcomes: Sequence[str | None], not_run: int = 0) -> tuple[float, float]:
    """The accuracy if all missing items were wrong, and if all were right, in [0, 1]; abstentions are not right."""
    right, total = sum(map(eq, gold, outcomes)), len(gold) + not_run
    return right / total, (right + outcomes.count(None) + not_run) / total


def _as_labels(observations: Sequence[Observation], study: Study) -> tuple[list[str], list[str | None]]:
    """For each observation the right label, and the outcome before a system maps abstentions to a label.

    If the answers are not labels or letters, every right label is "right", and an outcome is "right" or "wrong". But
    the outcomes of missing items, abstentions and unusable replies are not replaced.
    """
    if TASKS[study.benchmark.task].kind in ("labels", "choice"):
        return [observation.gold[0] for observation in observations], [
            observation.unmapped for observation in observations
        ]
    judgements = ["right" if is_right(observation, study) else "wrong" for observation in observations]
    kept = (None, ABSTAINED, UNUSABLE)
    given = [
        observation.unmapped if observation.unmapped in kept else judgement
        for judgement, observation in zip(judgements, observations, strict=True)
    ]
    return ["right"] * len(observations), given
