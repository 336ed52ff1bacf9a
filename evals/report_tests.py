"""Tables of how sure differences are, and of what scores owe to the way in which abstentions count."""

from __future__ import annotations

from collections.abc import Sequence

from moot.evals.comparison import Study, System, common_items, pairs_of
from moot.evals.derived import policy_labels
from moot.evals.estimates import difference
from moot.evals.metrics import LabelScore, accuracy, macro_f1, under_policies
from moot.evals.observations import Observation
from moot.evals.outcomes import ABSTAINED
from moot.evals.power import ALPHA, POWER, minimum_detectable_effect
from moot.evals.report_scores import SYSTEM, TITLES, name_of, right
from moot.evals.report_tables import Cell, Column, Table, columns, table
from moot.evals.significance import McNemar, holm, mcnemar
from moot.nodes.task import TASKS

# --- differences ------------------------------------------------------------------------------------------------------


def differences_table(study: Study, against: str | None = None) -> Table | None:
    """Every system less its baseline, over the items that both have.

    Args:
        study: with the systems.
        against: the baseline, as for `pairs_of`.
    """
    names = [study.headline, *([study.second] if study.second else [])]
    pairs = pairs_of(study, against)
    tests = [_test(study, first, second) for first, second in pairs]
    adjusted = holm([test.p for test in tests])
    rows = [
        [*_pair(first, second, names), test.only_first, test.only_second, test.p, p, detectable(test)]
        for (first, second), test, p in zip(pairs, tests, adjusted, strict=True)
    ]
    heads = [SYSTEM, Column("against", "against"), *columns("count", items="common items", missing="of them missing")]
    heads += columns("count", elsewhere="items of one alone")
    heads += columns("signed", **{f"difference_{name}": f"difference in {TITLES[name]}" for name in names})
    heads += columns("count", only_first="it alone right", only_second="baseline alone right")
    heads += [*columns("p", p="McNemar's p", p_holm="p by Holm"), *columns("share", detectable="detectable")]
    return table(
        "differences",
        "Paired differences",
        "Both systems on the same items; an item counts where both have an outcome. In brackets: 95% paired bootstrap "
        "intervals (of several runs: of the mean of their scores). McNemar's test is exact, and of each system's first "
        f"run; Holm's correction is for the {len(pairs)} tests of this table. Detectable is the least difference that "
        f"so many items show with a power of {POWER:.0%} at p = {ALPHA:g}, with the share of discordant items that was "
        "seen.",
        heads,
        rows,
    )


def _pair(first: System, second: System, names: Sequence[str]) -> list[Cell]:
    """Who is compared with whom, on how many items, and how far apart they are."""
    ids = common_items(first, second)
    differences = [difference(first, second, name, ids) for name in names]
    apart = len(first.gold.keys() | second.gold.keys()) - len(ids)
    return [first.label, second.label, differences[0].n, differences[0].missing, apart, *differences]


def _test(study: Study, first: System, second: System) -> McNemar:
    """McNemar's test of both systems' first runs."""

    def judged(system: System) -> list[bool | None]:
        seen = [system.items[0].get(id) for id in common_items(first, second)]
        return [None if one is None else right(one, study) for one in seen]

    return mcnemar(judged(first), judged(second))


def detectable(test: McNemar) -> float | str | None:
    """The least difference that the items of a test show, where as many are discordant as were.

    Returns:
        "none" where these items show no difference; None where there is no item.
    """
    if not test.n:
        return None
    share = (test.only_first + test.only_second) / test.n
    # The accuracy only bounds the effect: this one allows the most discordant items.
    least = minimum_detectable_effect(share / 2, test.n, share) if share else None
    return "none" if least is None else least


# --- abstentions ------------------------------------------------------------------------------------------------------


def policies_table(study: Study) -> Table | None:
    """The first measure, and macro-F1, under every policy of what an abstention counts as."""
    measures: dict[str, LabelScore] = {study.headline: accuracy}
    measures |= {"macro_f1": macro_f1} if "macro_f1" in study.benchmark.metrics else {}
    open_label, supported = policy_labels(study.benchmark.task)
    policies = {"wrong": "as wrong", "left_out": "left out", "open_label": f"as {open_label}"}
    policies |= {"burden_of_refutation": f"as {supported}"}
    heads = [SYSTEM, *columns("count", abstained="", errors=""), *columns("share", coverage="")]
    heads += [Column(f"{m}_{p}", f"{TITLES[m]}, {said}", "share") for m in measures for p, said in policies.items()]
    rows: list[list[Cell]] = []
    for system in study.measured:
        gold, given = _as_labels(system.observations, study)
        labels = {"open_label": open_label, "supported": supported}
        found = [under_policies(gold, given, **labels, score=score) for score in measures.values()]
        left_out = found[0]["left_out"]
        counts: list[Cell] = [given.count(ABSTAINED), given.count(None), left_out.coverage if left_out else None]
        scores = [scored[policy] for scored in found for policy in policies]
        rows.append([name_of(system), *counts, *(None if score is None else score.value for score in scores)])
    return table(
        "policies",
        "What an abstention counts as",
        "Abstentions before any policy of the system's own (a trial's INCONCLUSIVE is one), of all runs together. Left "
        "out: the score is of the answered items alone, whose share is the coverage.",
        heads,
        rows,
    )


def _as_labels(seen: Sequence[Observation], study: Study) -> tuple[list[str], list[str | None]]:
    """The right labels and the outcomes; answers that are no labels as one of two: right or wrong."""
    if TASKS[study.benchmark.task].kind in ("labels", "choice"):
        return [one.gold[0] for one in seen], [one.unmapped for one in seen]
    said = ["right" if right(one, study) else "wrong" for one in seen]
    return ["right"] * len(seen), [s if one.unmapped else one.unmapped for s, one in zip(said, seen, strict=True)]
