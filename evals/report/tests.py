"""Tables of how sure differences are, and of what scores owe to the way in which abstentions count."""

from __future__ import annotations

from collections.abc import Sequence
from operator import eq
from statistics import stdev

from moot.evals.report.comparison import Study, System, common_items, pairs_of
from moot.evals.report.scores import SYSTEM, TITLES, name_of, right
from moot.evals.report.tables import Cell, Column, Table, columns, table
from moot.evals.stats.derived import policy_labels
from moot.evals.stats.estimates import difference, item_means
from moot.evals.stats.measures import package
from moot.evals.stats.metrics import LabelScore, accuracy, macro_f1, under_policies
from moot.evals.stats.observations import Observation
from moot.evals.stats.outcomes import ABSTAINED, UNUSABLE
from moot.evals.stats.power import ALPHA, POWER, minimum_detectable_effect
from moot.evals.stats.significance import PairedTest, holm, mcnemar, sign_flips
from moot.nodes.texts.task import TASKS

# --- differences ------------------------------------------------------------------------------------------------------


def differences_table(study: Study, against: str | None = None) -> Table | None:
    """Every system less its baseline, over the items that both have.

    Args:
        study: with the systems.
        against: the baseline, as for `pairs_of`.
    """
    names = [study.headline, *([study.second] if study.second else [])]
    pairs = pairs_of(study, against)
    tests = [paired_test(study, first, second) for first, second in pairs]
    adjusted = holm([test.p for test, _ in tests])
    rows = [
        [*_pair(first, second, names), test.better, test.worse, test.p, p, test.name, least]
        for (first, second), (test, least), p in zip(pairs, tests, adjusted, strict=True)
    ]
    heads = [SYSTEM, Column("against", "against"), *columns("count", items="", missing="", elsewhere="of one alone")]
    heads += columns("signed", **{f"difference_{name}": f"difference in {TITLES[name]}" for name in names})
    heads += columns("count", better="", worse="")
    heads += [*columns("p", p="", p_holm="p by Holm"), *columns("text", test=""), *columns("share", detectable="")]
    return table(
        "differences",
        "Paired differences",
        "Both systems on the same items: those on which both have an outcome, and beside them how many are missing in "
        "one or the other. In brackets: 95% paired bootstrap intervals (of several runs: of the mean of their scores). "
        "Better and worse: on how many items the system is, by the first measure. The test is McNemar's exact one of "
        "single runs and, where a system has several, a permutation test, which flips the signs of the differences of "
        f"items' means over runs. Holm's correction is for the {len(pairs)} tests of this table. Detectable is the "
        f"least difference that so many items show with a power of {POWER:.0%} at p = {ALPHA:g}: of single runs with "
        "the share of discordant items that was seen, of several by the t-test's power, with the spread of differences "
        "that was seen.",
        heads,
        rows,
    )


def _pair(first: System, second: System, names: Sequence[str]) -> list[Cell]:
    """Who is compared with whom, on how many items, and how far apart they are."""
    ids = common_items(first, second)
    differences = [difference(first, second, name, ids) for name in names]
    apart = len(first.gold.keys() | second.gold.keys()) - len(ids)
    return [first.label, second.label, differences[0].n, differences[0].missing, apart, *differences]


def paired_test(study: Study, first: System, second: System) -> tuple[PairedTest, Cell]:
    """The test of two systems on the items that both have, and the least difference that it detects."""
    ids = common_items(first, second)
    ours, theirs = (item_means(system, study.headline, ids) for system in (first, second))
    if len(first.items) == len(second.items) == 1:
        test = mcnemar(*([None if mean is None else mean == 1 for mean in means] for means in (ours, theirs)))
        return test, detectable(test)
    apart = [a - b for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
    return sign_flips(ours, theirs), detectable_mean(apart)


def detectable(test: PairedTest) -> Cell:
    """The least difference that the items of a McNemar test show, where as many are discordant as were.

    Returns:
        "none" where these items show no difference; None where there is no item.
    """
    if not test.n:
        return None
    share = (test.better + test.worse) / test.n
    # The accuracy only bounds the effect: this one allows the most discordant items.
    least = minimum_detectable_effect(share / 2, test.n, share) if share else None
    return "none" if least is None else least


def detectable_mean(apart: Sequence[float]) -> Cell:
    """The least mean difference that so many items show, where their differences spread as these do.

    Returns:
        As `detectable`, None of a single item too.
    """
    if len(apart) < 2:
        return None
    least = stdev(apart) * package("statsmodels.stats.power").TTestPower().solve_power(
        nobs=len(apart), alpha=ALPHA, power=POWER
    )
    return float(least) if 0 < least <= 1 else "none"


# --- abstentions ------------------------------------------------------------------------------------------------------


def policies_table(study: Study) -> Table | None:
    """The first measure, and macro-F1, under every policy of what an abstention counts as."""
    measures: dict[str, LabelScore] = {study.headline: accuracy}
    measures |= {"macro_f1": macro_f1} if "macro_f1" in study.benchmark.metrics else {}
    open_label, supported = policy_labels(study.benchmark.task)
    policies = {"wrong": "as wrong", "left_out": "left out", "open_label": f"as {open_label}"}
    policies |= {"burden_of_refutation": f"as {supported}"}
    first = TITLES[study.headline]
    heads = [SYSTEM, *columns("count", abstained="", unusable="no usable reply", missing="")]
    heads += columns("share", coverage="", unusable_missing=f"{first}, no usable reply as missing")
    heads += columns("share", lowest=f"{first}, missing as wrong", highest=f"{first}, missing as right")
    heads += [Column(f"{m}_{p}", f"{TITLES[m]}, {said}", "share") for m in measures for p, said in policies.items()]
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
        rows.append([name_of(system), *counts, *bounds(gold, given, system.not_run), *scores])
    return table(
        "policies",
        "What an item without an answer counts as",
        "Abstentions before any policy of the system's own (a trial's INCONCLUSIVE is one), of all runs together. Left "
        "out: the score is of the answered items alone, whose share is the coverage. "
        "No usable reply: the system's models answered, but not so that the answer can be used, even when asked again; "
        "that is wrong under every policy but the one that counts it as missing. Missing items, those that an outage "
        f"ended or that were not run, are in no score but two: as wrong, and as right. The {first} of all items, with "
        "abstentions as wrong, lies between these.",
        heads,
        rows,
    )


def bounds(gold: Sequence[str], outcomes: Sequence[str | None], not_run: int = 0) -> tuple[float, float]:
    """The lowest and the highest accuracy that missing items leave open, in [0, 1]; abstentions are not right.

    Args:
        gold: the right label of each item; there is at least one.
        outcomes: each item's, in the same order; None is missing.
        not_run: items that are missing beside these.
    """
    right, every = sum(map(eq, gold, outcomes)), len(gold) + not_run
    return right / every, (right + outcomes.count(None) + not_run) / every


def _as_labels(seen: Sequence[Observation], study: Study) -> tuple[list[str], list[str | None]]:
    """The right labels and the outcomes; answers that are no labels as one of two: right or wrong."""
    if TASKS[study.benchmark.task].kind in ("labels", "choice"):
        return [one.gold[0] for one in seen], [one.unmapped for one in seen]
    said = ["right" if right(one, study) else "wrong" for one in seen]
    kept = (None, ABSTAINED, UNUSABLE)
    given = [one.unmapped if one.unmapped in kept else s for s, one in zip(said, seen, strict=True)]
    return ["right"] * len(seen), given
