"""Statistical tests of differences between systems; tables of these differences and of policies for abstentions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, fsum, log2
from operator import eq

import numpy as np
from moot.evals._report.comparison import Study, System, common_items, pairs_of, policy_labels
from moot.evals._report.scores import SYSTEM, TITLES, is_right, name_cell
from moot.evals._report.tables import Cell, Column, Table, columns, make_table
from moot.evals._stats.clusters import by_group
from moot.evals._stats.estimates import clusters_of, difference, item_means
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
    """A system and its baseline on the items that both have."""

    first: System
    """The system."""
    second: System
    """Its baseline."""
    test: PairedTest
    """The test by the study's first measure."""
    detectable: Cell
    """The smallest difference that the test finds significant with a power of `POWER`; "none" if there is no such
    difference; None if it cannot be computed."""
    p_holm: float | None
    """The p-value by Holm's correction; None if there is no p-value."""
    family: int
    """The number of tests that are corrected together."""
    difference: Interval
    """The system's score minus its baseline's, by the study's first measure."""


def comparisons_of(
    studies: Sequence[Study], against: str | None = None, family: Family = "report"
) -> list[list[Comparison]]:
    """Make every test of each study, with Holm's correction."""
    tested = [[paired_test(study, *pair) for pair in pairs_of(study, against)] for study in studies]
    families = [[p for tests in tested for p in tests]] if family == "report" else tested
    adjusted = iter([p for tests in families for p in holm([test.p for test in tests])])
    sizes = [sum(test.p is not None for test in tests) for tests in families]
    comparisons: list[list[Comparison]] = []
    for n, (study, tests) in enumerate(zip(studies, tested, strict=True)):
        size = sizes[0 if family == "report" else n]
        alpha = ALPHA / max(size, 1)
        comparisons.append([])
        for (first, second), test in zip(pairs_of(study, against), tests, strict=True):
            tested_difference = difference(first, second, study.first_measure, common_items(first, second))
            detectable = detectable_by_test(study, first, second, test, alpha)
            comparisons[-1].append(Comparison(first, second, test, detectable, next(adjusted), size, tested_difference))
    return comparisons


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
    heads += columns("count", groups="groups of items", better="", worse="")
    heads += [*columns("p", p="", p_holm="p by Holm"), *columns("text", test=""), *columns("share", detectable="")]
    size = tests[0].family if tests else 0
    return make_table(
        "differences",
        "Paired differences",
        "Both systems are compared on the items for which both have an outcome; other shared items are missing. Items "
        "not shared: only one system has them, or their right answers differ. In brackets: 95% paired bootstrap "
        "intervals over groups of items; an item without a group is its own group. With several runs, scores and "
        "intervals are of the mean over runs. Better and worse: the number of items on which the system is better or "
        "worse by the first measure. The test is McNemar's exact test if both systems have a single run and no two "
        "items are in the same group. Otherwise, it is an exact permutation test of the differences between items' "
        f"means over runs: it flips the signs of all differences of a group together. Holm's correction is for {size} "
        f"tests: {family or 'those of this table'}. Detectable is the smallest difference that the same test of this "
        f"many items finds with a power of {POWER:.0%} at p = {ALPHA:g} / {size}, the limit of the correction for the "
        "smallest p-value. For McNemar's test, it is computed with the observed share of discordant items, and for the "
        "permutation test with the observed sizes of the differences. If so few items differ that no difference could "
        'be found, more items are assumed to differ. It is "none" if there are too few items.',
        heads,
        rows,
    )


def _test_cells(comparison: Comparison) -> list[Cell]:
    test = comparison.test
    name = test.name if test.p is not None else f"not computable: {test.reason}"
    groups = test.groups if test.groups < test.n else None
    return [groups, test.better, test.worse, test.p, comparison.p_holm, name, comparison.detectable]


def _pair_cells(comparison: Comparison, second_measures: Sequence[str]) -> list[Cell]:
    """The cells of a pair: the names, the numbers of items, and the differences by the first and second measures."""
    first, second = comparison.first, comparison.second
    ids = common_items(first, second)
    differences = [comparison.difference, *(difference(first, second, name, ids) for name in second_measures)]
    unshared = len(first.gold.keys() | second.gold.keys()) - len(ids)
    return [first.label, second.label, differences[0].n, differences[0].missing, unshared, *differences]


def paired_test(study: Study, first: System, second: System) -> PairedTest:
    """The test of two systems on the items that both have."""
    ids = common_items(first, second)
    groups = clusters_of(first, second, ids)
    ours, theirs = (item_means(system, study.first_measure, ids) for system in (first, second))
    if _can_use_mcnemar(first, second, ids):
        return mcnemar(*([None if mean is None else mean == 1 for mean in means] for means in (ours, theirs)))
    return sign_flips(ours, theirs, groups)


def _can_use_mcnemar(first: System, second: System, ids: Sequence[str]) -> bool:
    """Whether both systems have a single run, and no two of the items are in the same group."""
    return len(first.items) == len(second.items) == 1 and len(set(clusters_of(first, second, ids))) == len(ids)


def detectable_by_test(study: Study, first: System, second: System, test: PairedTest, alpha: float = ALPHA) -> Cell:
    """The smallest difference that the test of two systems finds significant with a power of `POWER`."""
    if test.p is None:
        return None
    ids = common_items(first, second)
    if _can_use_mcnemar(first, second, ids):
        return mcnemar_detectable_difference(test, alpha)
    ours, theirs = (item_means(system, study.first_measure, ids) for system in (first, second))
    item_differences = [None if a is None or b is None else a - b for a, b in zip(ours, theirs, strict=True)]
    return flips_detectable_difference(by_group(clusters_of(first, second, ids), item_differences), alpha)


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
