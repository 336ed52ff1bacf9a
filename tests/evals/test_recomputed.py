"""The figures of a report on made-up logs, computed again with scipy, statsmodels, scikit-learn and pandas."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from moot.core.lazy import imported
from moot.evals._report.sections import Report, Section
from moot.evals._report.tables import Table, as_csv
from moot.evals._report.write import compare
from moot.evals._runs.stated import StatedTest
from moot.evals._stats.margins import equivalence, margin_test, non_inferiority, paired_differences
from moot.evals._stats.significance import draw_runs, sign_flips, stratified_bootstrap

from tests.evals.made_comparison import BENCHMARKS, LABELS, SMALL, documents, gold_of, write_study

pandas, metrics = imported("pandas"), imported("sklearn.metrics")
scipy_stats, proportion = imported("scipy.stats"), imported("statsmodels.stats.proportion")
close: Any = lambda expected: pytest.approx(expected, abs=1e-9)  # noqa: E731
TESTS = [
    {"first": "debate", "second": "debate alone"},
    {"first": "debate", "second": "single", "benchmark": "pooled"},
    {"first": "large", "second": "single"},
    {"first": "debate", "second": "large", "claim": "not_worse", "margin": 0.05, "benchmark": "pooled"},
    {"first": "debate alone", "second": "single", "claim": "equivalent", "margin": 0.2},
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report on the made-up study, with stated tests."""
    folder = write_study(tmp_path_factory.mktemp("logs"))
    return compare([folder], tests=[StatedTest.model_validate(test) for test in TESTS])


def frame(table: Table | None) -> Any:
    """A table as pandas reads its CSV file, with the first column as the index."""
    assert table is not None
    return pandas.read_csv(io.StringIO(as_csv(table))).set_index("system")


def section_of(report: Report, benchmark: str, model: str = SMALL) -> Section:
    [section] = [one for one in report.sections if (one.benchmark, one.model) == (benchmark, model)]
    return section


def table_of(section: Section, key: str) -> Any:
    return frame(next(table for table in section.tables if table.key == key))


def right(benchmark: str, system: str, seeds: Sequence[int] = (1, 2, 3)) -> Any:
    """Whether a system is right, by item (rows) and run (columns)."""
    gold = gold_of(benchmark)
    runs = [documents(benchmark, system, seed) for seed in seeds]
    return np.array([[run[id]["answer"] == label for run in runs] for id, label in gold.items()], dtype=float)


def differences(benchmark: str, first: str, second: str) -> Any:
    """The differences of two systems' means over runs, by item."""
    seeds = {name: (1,) if name in ("single", "large") else (1, 2, 3) for name in (first, second)}
    return right(benchmark, first, seeds[first]).mean(axis=1) - right(benchmark, second, seeds[second]).mean(axis=1)


def groups_of(benchmark: str) -> list[str]:
    return [str(int(id) // 2) if benchmark == "feverous" else id for id in gold_of(benchmark)]


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_scores_and_costs_are_those_of_scikit_learn_and_pandas(report: Report, benchmark: str) -> None:
    systems, gold = table_of(section_of(report, benchmark), "systems"), list(gold_of(benchmark).values())
    labels = [label for label in LABELS if label in gold]
    for system, seeds in (("debate", (1, 2, 3)), ("debate alone", (1, 2, 3)), ("single", (1,))):
        given = [[document["answer"] for document in documents(benchmark, system, seed).values()] for seed in seeds]
        scores = [metrics.accuracy_score(gold, run) for run in given]
        macro = [metrics.f1_score(gold, run, labels=labels, average="macro") for run in given]
        assert (systems.loc[system, "accuracy"], systems.loc[system, "macro_f1"]) == (
            close(np.mean(scores)),
            close(np.mean(macro)),
        )
        if len(seeds) > 1:
            several = table_of(section_of(report, benchmark), "seeds").loc[system]
            assert (several["sd"], several["variance"]) == (
                close(np.std(scores, ddof=1)),
                close(np.var(scores, ddof=1)),
            )
    assert f"over the labels that are right for these items: {', '.join(sorted(labels))}." in next(
        table.caption for table in section_of(report, benchmark).tables if table.key == "systems"
    )


def test_wilsons_interval_of_a_single_run_is_that_of_statsmodels(report: Report) -> None:
    row = table_of(section_of(report, "fever"), "systems").loc["single"]
    low, high = proportion.proportion_confint(right("fever", "single", (1,)).sum(), 60, method="wilson")
    assert (row["accuracy_low"], row["accuracy_high"]) == (close(low), close(high))
    overview = frame(report.overview)
    assert overview[overview["model"] == SMALL].loc["single", "score_1_low"] == close(low)


def test_only_stated_tests_are_made_and_corrected_by_holms_method(report: Report) -> None:
    tables = [table_of(section, "differences") for section in report.sections if section.model == SMALL]
    rows = [row for table in [*tables, frame(report.across)] for _, row in table.iterrows()]
    assert len(rows) == 8  # three on each of two benchmarks, and two that are pooled
    adjusted = imported("statsmodels.stats.multitest").multipletests([row["p"] for row in rows], method="holm")[1]
    assert [row["p_holm"] for row in rows] == close(list(adjusted))


def exact_p(sums: Any) -> float:
    """The exact p-value of sign flips, by the convolution of the sums' distributions in units of 1/6."""
    units = np.round(np.array(sums) * 6).astype(int)
    chances = np.array([1.0])
    for unit in np.abs(units[units != 0]):
        step = np.zeros(2 * unit + 1)
        step[[0, -1]] = 0.5
        chances = np.convolve(chances, step)
    far = abs(np.arange(len(chances)) - len(chances) // 2) >= abs(units.sum())
    return float(chances[far].sum())


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_differences_and_permutation_tests(report: Report, benchmark: str) -> None:
    row = table_of(section_of(report, benchmark), "differences").loc["debate"]
    items = differences(benchmark, "debate", "debate alone")
    sums = pandas.Series(items).groupby(groups_of(benchmark)).sum()
    assert (row["difference_accuracy"], row["p"]) == (close(items.mean()), close(exact_p(sums)))
    assert (row["better"], row["worse"]) == ((items > 0).sum(), (items < 0).sum())


def test_the_sign_flip_test_is_scipys_exact_permutation_test() -> None:
    first, second = [1.0, 0.5, 1.0, 0.0, 1.0, 0.75, 1.0, 1.0], [0.0, 1.0, 0.5, 0.0, 0.0, 0.25, 0.0, 0.5]
    found = scipy_stats.permutation_test(
        (np.subtract(first, second),), np.sum, permutation_type="samples", n_resamples=np.inf
    )
    assert sign_flips(first, second).p == close(found.pvalue)


def test_models_are_compared_on_the_same_items(tmp_path: Path) -> None:
    folder = write_study(tmp_path)
    stated = [StatedTest(first="single", second="large"), StatedTest(first="debate", second="large")]
    across = compare([folder], tests=stated).across
    assert across is not None
    rows = frame(across).reset_index()
    assert list(rows["model"] + " " + rows["against_model"]) == ["openai:small openai:large"] * 4
    ours, theirs = (right("fever", name, (1,))[:, 0].astype(bool) for name in ("single", "large"))
    better, worse = int((ours & ~theirs).sum()), int((~ours & theirs).sum())
    [first] = [row for _, row in rows.iterrows() if (row["system"], row["benchmark"]) == ("single", "FEVER")]
    assert first["p"] == close(scipy_stats.binomtest(better, better + worse).pvalue)
    assert (first["better"], first["worse"], first["items"]) == (better, worse, 60)


def test_a_pooled_difference_gives_each_benchmark_the_same_weight(report: Report) -> None:
    row = frame(report.across).loc["debate"].iloc[0]
    each = {benchmark: differences(benchmark, "debate", "single") for benchmark in BENCHMARKS}
    assert row["difference"] == close(np.mean([items.mean() for items in each.values()]))
    sums = [
        value / len(items)
        for benchmark, items in each.items()
        for value in pandas.Series(items).groupby(groups_of(benchmark)).sum()
    ]
    assert row["p"] == close(exact_p(np.array(sums) * 120))  # in units of 1 / 720
    assert row["items"] == sum(BENCHMARKS.values())


def test_a_pooled_test_of_a_margin_has_satterthwaites_degrees_of_freedom(report: Report) -> None:
    row = frame(report.across).loc["debate"].iloc[1]
    fits = []
    for benchmark in BENCHMARKS:
        items = differences(benchmark, "debate", "large")
        groups = np.unique(groups_of(benchmark), return_inverse=True)[1]
        model = imported("statsmodels.api").OLS(items, np.ones(len(items)))
        fit = model.fit(cov_type="cluster", cov_kwds={"groups": groups}, use_t=True)
        fits.append((fit.params[0], fit.bse[0] ** 2, groups.max()))
    mean, variance = np.mean([fit[0] for fit in fits]), sum(fit[1] for fit in fits) / 4
    freedom = sum(fit[1] for fit in fits) ** 2 / sum(fit[1] ** 2 / fit[2] for fit in fits)
    assert row["p"] == close(scipy_stats.t.sf((mean + 0.05) / sqrt(variance), freedom))
    half = scipy_stats.t.ppf(0.95, freedom) * sqrt(variance)
    assert (row["bounds_low"], row["bounds_high"]) == (close(mean - half), close(mean + half))


def test_equivalence_is_statsmodels_two_one_sided_tests(report: Report) -> None:
    row = table_of(section_of(report, "fever"), "differences").loc["debate alone"]
    first, second = right("fever", "debate alone").mean(axis=1), right("fever", "single", (1,))[:, 0]
    expected = imported("statsmodels.stats.weightstats").ttost_paired(first, second, -0.2, 0.2)[0]
    assert row["p"] == close(expected)
    found = non_inferiority(list(first), list(second), 0.1)
    assert found.p == close(scipy_stats.ttest_rel(first + 0.1, second, alternative="greater").pvalue)
    assert equivalence(list(first), list(second), 0.2).p == close(expected)


def test_tests_of_a_margin_without_a_spread_have_no_p_value() -> None:
    assert equivalence([1.0, 1.0, None], [1.0, 1.0, 0.0], 0.1).reason == "no spread"
    assert equivalence([1.0, 0.0], [0.0, 0.0], 0.1, "aa").reason == "one group"
    assert margin_test([paired_differences([], [])], 0.1, "equivalent").reason == "no items"
    with pytest.raises(ValueError, match="positive"):
        equivalence([1.0], [1.0], 0)


def test_resamples_of_runs_have_the_variance_of_their_mean() -> None:
    scores = np.array([0.2, 0.5, 0.9])
    drawn = draw_runs(np.random.default_rng(1), 3, 200_000) @ scores / 2
    assert drawn.var() == pytest.approx(scores.var(ddof=1) / 3, rel=0.01)
    # Two runs, one all right and one all wrong: a resample has one of them.
    items = np.array([[1.0, 0.0]] * 8)

    def mean(drawn: Any, runs: Any) -> Any:
        return (items[drawn].mean(axis=1) * runs).sum(axis=1) / runs.sum(axis=1)

    found = stratified_bootstrap([range(8)], mean, runs=[2])
    assert (found.value, found.low, found.high) == (0.5, 0.0, 1.0)


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_drift_and_changes_are_those_of_pandas(report: Report, benchmark: str) -> None:
    gold = gold_of(benchmark)
    turns = pandas.DataFrame(
        [
            (id, seed, turn["agent"], turn["round"], turn["answer"] == gold[id])
            for seed in (1, 2, 3)
            for id, document in documents(benchmark, "debate", seed).items()
            for turn in document["turns"]
        ],
        columns=["id", "seed", "agent", "round", "right"],
    )
    wide = turns.pivot_table(index=["id", "seed", "agent"], columns="round", values="right", aggfunc="first").astype(
        bool
    )
    changed = table_of(section_of(report, benchmark), "changes").query("of == 'speakers'").iloc[0]
    [(first, last)] = pairwise(wide.columns)
    assert (changed["wrong_right"], changed["right_wrong"]) == (
        (~wide[first] & wide[last]).sum(),
        (wide[first] & ~wide[last]).sum(),
    )
    effects = table_of(section_of(report, benchmark), "effects").loc["debate"]
    by_item = (wide[last].astype(int) - wide[first].astype(int)).groupby("id").mean()
    assert effects["drift"] == close(by_item.mean())
    sums = by_item.groupby(groups_of(benchmark)).sum()
    assert effects["drift_p"] == close(exact_p(sums * 1.5))  # in units of 1/9
