"""Tables of systems' scores and costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from statistics import stdev, variance
from typing import NamedTuple

from moot.evals._report.comparison import Study, System
from moot.evals._report.tables import Cell, Column, Nested, Table, columns, make_table
from moot.evals._stats.estimates import estimate, mean_over_items, run_means
from moot.evals._stats.metrics import by_label, item_score
from moot.evals._stats.observations import Observation
from moot.evals._stats.outcomes import ABSTAINED, Score, majority_of_runs, mean_score, oracle_of_runs
from moot.evals._stats.significance import RESAMPLES
from moot.nodes._steps.score import average
from moot.nodes._texts.answers import same_answer
from moot.nodes._texts.task import TASKS, make_task

SYSTEM = Column("system", "system")
TITLES = {
    "accuracy": "accuracy",
    "exact_match": "exact match",
    "numeric_match": "numeric match",
    "macro_f1": "macro-F1",
    "balanced_accuracy": "balanced accuracy",
    "token_f1": "token F1",
    "judged": "judged right",
    "fever_score": "FEVER score",
    "feverous_score": "FEVEROUS score",
    "hover_score": "HoVer score",
    "support_em": "supporting-fact EM",
    "support_f1": "supporting-fact F1",
    "joint_em": "joint EM",
    "joint_f1": "joint F1",
    "abstract_label_f1": "abstract F1 (label only)",
    "abstract_f1": "abstract F1 (with rationale)",
    "sentence_selection_f1": "sentence F1 (selection)",
    "sentence_f1": "sentence F1 (with label)",
    "rationale_f1": "rationale F1",
    "averitec_questions": "questions (METEOR)",
    "averitec_evidence": "questions and answers (METEOR)",
    "averitec_score": "AVeriTeC score @ .25",
    "ev2r_recall": "Ev2R recall",
    "ev2r_score": "Ev2R score",
    "all_answers": "all answers, no wrong one",
    "citation_precision": "citation precision",
    "gold_recall": "gold recall",
}
"""Names of measures in reports."""
FIGURES = ("calls", "depth", "rounds", "seconds")
"""Figures of result documents; the table of costs has the mean of each."""


LESS_EVIDENCE = (
    "retrieval_failed",
    "same_source",
    "stand_in",
    "empty_retrieval",
    "no_evidence",
    "nothing_admitted",
    "premises_not_searched",
)
"""Kinds of warnings of a debate that had less evidence than it should have, or evidence from a fallback source."""

INTERVALS = (
    "Wilson's if each item has one score, which is 0 or 1, else percentile bootstrap intervals "
    f"({RESAMPLES:,} resamples), which also draw the runs of a system that has several"
)
"""The kinds of the intervals of scores, in words (`moot.evals._stats.estimates.estimate`)."""
BEST_POSSIBLE_NOTE = (
    " Best possible: the largest share of right answers of a system that always gives the same answer to the same "
    "question; some items ask the same question but have different right answers."
)


def count_less_evidence(system: System) -> int:
    """The number of observations with a warning of a kind in `LESS_EVIDENCE`."""
    return sum(not observation.warnings.keys().isdisjoint(LESS_EVIDENCE) for observation in system.observations)


def name_cell(system: System) -> Cell:
    """The cell with a system's label; the label of a control is nested below that of its system."""
    return Nested(system.label) if system.of else system.label


def is_right(observation: Observation, study: Study) -> bool | None:
    """Whether an observation is right by the study's first measure; None if it has no score."""
    value = observation.scores.get(study.first_measure)
    return None if value is None else value == 1


# --- the systems ------------------------------------------------------------------------------------------------------


def systems_table(study: Study) -> Table | None:
    """The scores of every system, and the numbers of its items: with an outcome, failed, not run and so on."""
    first, *others = [name for name in study.benchmark.metrics if name in TITLES]
    heads = [SYSTEM, Column("of", "control of"), *columns("count", runs="", items="", errors="", not_run="")]
    heads += columns("count", abstained="", unusable="no usable reply", lost="with less evidence")
    heads += [*columns("count", scored="items in scores"), Column(first, TITLES[first], "share")]
    heads += columns("share", ceiling="best possible", **{name: TITLES[name] for name in others})
    same = len(study.same_items)
    fewer = any(len({observation.id for observation in system.answered}) > same for system in study.systems)
    title = f"Systems, over the {same:,} item{'s' if same != 1 else ''} on which all have an outcome"
    return make_table(
        "systems",
        title if fewer else "Systems",
        "Items: the number of items with an outcome, over all runs. Errors are missing data, and count in no score "
        f"here. All scores are over the same {same:,} items: those on which every system has an outcome, with the "
        "same right answers. Systems without any outcome do not limit these items. Abstentions and replies that could "
        "not be used are not right; the table of policies shows other ways to count them. With less evidence: for "
        "example, a source failed, a fallback was used, or nothing was found; see the table of warnings. In brackets: "
        f"95% intervals over groups of items, {INTERVALS}. With several runs, the score is the mean over runs. The "
        "label prior is chosen on these same items, so no constant answer is right more often."
        f"{f1_labels(study)}{BEST_POSSIBLE_NOTE if lowest_ceiling(study.measured) else ''}",
        heads,
        [_system_cells(system, study, first, others) for system in study.systems],
    )


def f1_labels(study: Study, ids: Collection[str] | None = None) -> str:
    """A sentence that names the labels over which macro-F1 is the mean; empty for a benchmark without macro-F1.

    The labels are those that are right for some of the items ``ids``, by default those on which scores are computed.
    """
    if "macro_f1" not in study.benchmark.metrics:
        return ""
    wanted = study.same_items if ids is None else ids
    labels = sorted({gold[0] for system in study.measured for id, gold in system.gold.items() if id in wanted})
    return f" Macro-F1 is the mean of F1 over the labels that are right for these items: {', '.join(labels)}."


def _system_cells(system: System, study: Study, first: str, others: Sequence[str]) -> list[Cell]:
    unusable = sum(observation.unusable for observation in system.answered)
    abstained = sum(observation.outcome == ABSTAINED for observation in system.answered) - unusable
    counts: list[Cell] = [len(system.runs) or "", len(system.answered), system.errors, system.not_run or "", abstained]
    counts += [unusable, count_less_evidence(system) if system.runs else ""]
    same = study.same_items
    best = lowest_ceiling([system] if system.runs else study.measured)
    score = estimate(system, first, same)
    scores: list[Cell] = [score.n, score, best, *(estimate(system, name, same) for name in others)]
    return [name_cell(system), system.of or "", *counts, *scores]


def lowest_ceiling(systems: Sequence[System]) -> float | None:
    """The lowest `LoggedRun.ceiling` (best possible accuracy) over all runs of the systems; None if no run has one."""
    return min((run.ceiling for system in systems for run in system.runs if run.ceiling is not None), default=None)


# --- labels -----------------------------------------------------------------------------------------------------------


def _labels_of(study: Study) -> list[str]:
    """The labels of a study's task, then other right labels of its items."""
    task = TASKS[study.benchmark.task]
    if task.kind not in ("labels", "choice"):
        return []
    known = [label for label, *_ in task.labels]
    gold = sorted({observation.gold[0] for system in study.measured for observation in system.observations})
    return list(dict.fromkeys([*known, *gold]))


def confusion_table(study: Study) -> Table | None:
    """The confusion matrix of each system: the number of items by right label and answer."""
    labels = _labels_of(study)
    heads = [SYSTEM, Column("right", "right label"), *columns("count", items="items")]
    heads += [Column(f"given_{n}", f"answered {label}", "count") for n, label in enumerate(labels, 1)]
    heads += columns("count", other="another answer", none="no answer", errors="missing")
    rows: list[list[Cell]] = []
    for system in study.measured:
        counts = Counter((observation.gold[0], observation.outcome) for observation in system.observations)
        for label in labels:
            outcomes = {outcome: count for (right, outcome), count in counts.items() if right == label}
            if outcomes:
                named: list[Cell] = [outcomes.pop(given, 0) for given in labels]
                abstained, missing = outcomes.pop(ABSTAINED, 0), outcomes.pop(None, 0)
                total = sum(counts[key] for key in counts if key[0] == label)
                rows.append([system.label, label, total, *named, sum(outcomes.values()) or None, abstained, missing])
    return make_table(
        "confusion",
        "Confusion matrix",
        "Each row has the items with the same right label, over all runs, counted by the answer that the system gave. "
        "No answer: the system abstained, or its replies could not be used. Missing: the run failed on the item.",
        heads,
        rows,
    )


def labels_table(study: Study) -> Table | None:
    """Precision, recall and F1 of each label for each system; None if the answers are not labels or letters."""
    labels = _labels_of(study)
    heads = [SYSTEM, Column("label", "label")]
    heads += columns("count", right="items with the label", given="answers with the label")
    heads += [*columns("share", precision="", recall="", f1="F1"), *columns("count", errors="missing items")]
    rows: list[list[Cell]] = []
    for system in study.measured:
        observations = system.observations
        scores = by_label(
            [observation.gold[0] for observation in observations],
            [observation.outcome for observation in observations],
            labels,
        )
        missing = Counter(observation.gold[0] for observation in observations if observation.outcome is None)
        rows += [[system.label, label, *scores[label], missing[label]] for label in labels]
    return make_table(
        "labels",
        "By label",
        "All runs are pooled; missing items are left out. An item without an answer is a false negative of its right "
        "label. A dash: the figure cannot be computed, for example the precision of a label that was never given, or "
        "the recall of a label that no item has.",
        heads,
        rows,
    )


def strata_table(study: Study) -> Table | None:
    """The score by the first measure for each class of items; None if the items are not of several classes."""
    strata = sorted({observation.stratum for system in study.measured for observation in system.observations})
    heads = [SYSTEM, Column("stratum", "items of"), *columns("count", items="", errors="")]
    rows: list[list[Cell]] = []
    for system in study.measured if len(strata) > 1 else ():
        for stratum in strata:
            observations = [observation for observation in system.observations if observation.stratum == stratum]
            failed = sum(observation.outcome is None for observation in observations)
            score = mean_over_items(
                observations, [observation.scores.get(study.first_measure) for observation in observations]
            )
            if observations:
                rows.append([system.label, stratum or "(none)", len(observations) - failed, failed, score])
    caption = (
        "95% intervals: Wilson's for a single run with scores of 0 and 1, otherwise the bootstrap's. With several "
        "runs, each item counts once, with its mean score."
    )
    return make_table(
        "strata", "By class of items", caption, [*heads, Column("score", TITLES[study.first_measure], "share")], rows
    )


# --- costs ------------------------------------------------------------------------------------------------------------


class ScoreAndCost(NamedTuple):
    """A system's score, and the average tokens and cost (USD) of an item; each is None if it is unknown."""

    score: float | None
    tokens: float | None
    cost: float | None


RATIOS = {"": "tokens", "_cost": "USD", "_seconds": "seconds"}
"""Units in which a control's cost is divided by its system's cost. Each key is the end of a column's key."""


def costs_table(study: Study) -> Table | None:
    """The average cost of an item for each system, and whether the system is on the Pareto front of cost and score."""
    spent = {system.label: _score_and_cost(system, study) for system in study.measured}
    fronts = {
        "front_cost": is_on_front([(other.cost, other.score) for other in spent.values()]),
        "front_tokens": is_on_front([(other.tokens, other.score) for other in spent.values()]),
    }
    heads = [SYSTEM, *columns("share", score=TITLES[study.first_measure]), *columns("count", errors="", tokens="")]
    heads += [*columns("money", cost="cost (USD)"), *columns("count", priced="items with a known cost")]
    heads += columns("number", **dict.fromkeys(FIGURES, ""))
    heads += columns("ratio", **{f"relative{key}": f"{title} / its system's" for key, title in RATIOS.items()})
    heads += columns("money", total="all calls (USD)")
    heads += columns("text", front_cost="on the front by cost", front_tokens="on the front by tokens")
    rows: list[list[Cell]] = []
    for i, system in enumerate(study.measured):
        priced = sum(observation.cost is not None for observation in system.answered)
        means: list[Cell] = [average([observation.figure(name) for observation in system.answered]) for name in FIGURES]
        on_front = ["yes" if best[i] else "" for best in fronts.values()]
        relative = cost_ratio_cells(system, next((other for other in study.measured if other.label == system.of), None))
        score, *costs = spent[system.label]
        rows.append(
            [name_cell(system), score, system.errors, *costs, priced, *means, *relative, total_cost(system), *on_front]
        )
    return make_table(
        "costs",
        "Cost of an item",
        "Means over items with an outcome and a known figure; scores are those in the table of systems. Costs use the "
        "table of prices; a cost is unknown if a model has no price or an endpoint did not count tokens. The cost of "
        "all calls includes failed samples, but not their earlier tries; it is unknown if a sample has no result "
        "document, for example because Inspect's time limit ended the sample. Depth is the number of calls in the "
        "longest chain in which each call waits for the call before it. A control's ratios to its system are over the "
        "items for which both figures are known. If the control's budget is its system's cost, the ratio in the "
        "budget's unit is usually below 1: a control stops before a call whose longest reply could exceed the budget. "
        "If the debate is small, such a call is a large part of the budget. The ratio is above 1 only if replies are "
        "longer than requested. On the front: no other system is at least as good at a lower cost, or better at the "
        "same cost.",
        heads,
        rows,
    )


def _score_and_cost(system: System, study: Study) -> ScoreAndCost:
    tokens, costs = (
        [observation.tokens for observation in system.answered],
        [observation.cost for observation in system.answered],
    )
    return ScoreAndCost(estimate(system, study.first_measure, study.same_items).value, average(tokens), average(costs))


def cost_ratio_cells(control: System, system: System | None) -> list[Cell]:
    """A control's tokens, USD and seconds divided by those of its system."""
    if system is None:
        return [""] * len(RATIOS)
    runs = {run.seed: items for run, items in zip(system.runs, system.items, strict=True)}
    pairs = [
        (own, other)
        for run, items in zip(control.runs, control.items, strict=True)
        for id, own in items.items()
        if own.outcome is not None and (other := runs.get(run.seed, {}).get(id)) and other.outcome is not None
    ]
    return [
        ratio_of_sums([(own.tokens, other.tokens) for own, other in pairs]),
        ratio_of_sums([(own.cost, other.cost) for own, other in pairs]),
        ratio_of_sums([(own.figure("seconds"), other.figure("seconds")) for own, other in pairs]),
    ]


def ratio_of_sums(pairs: Sequence[tuple[float | None, float | None]]) -> float | None:
    """The sum of the first values divided by the sum of the second values, over pairs in which both are known.

    >>> ratio_of_sums([(1, 2), (3, 2), (None, 9)])
    1.0
    """
    known = [(first, second) for first, second in pairs if first is not None and second is not None]
    divisor = sum(second for _, second in known)
    return sum(first for first, _ in known) / divisor if divisor else None


def total_cost(system: System) -> float | None:
    """The total cost (USD) of all samples; None if there is no sample, or the cost of any sample is unknown."""
    costs = [observation.cost for observation in system.observations]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known and len(known) == len(costs) else None


def is_on_front(points: Sequence[tuple[float | None, float | None]]) -> list[bool]:
    """Whether each (cost, score) point is on the Pareto front.

    A point dominates another if it is at least as cheap and better, or at least as good and cheaper. A point is on the
    front if no point dominates it. A point with an unknown cost or score is not on the front, and dominates no point.
    """
    known = [(cost, score) for cost, score in points if cost is not None and score is not None]

    def is_dominated(cost: float, score: float) -> bool:
        return any(c <= cost and s >= score and (c, s) != (cost, score) for c, s in known)

    return [cost is not None and score is not None and not is_dominated(cost, score) for cost, score in points]


# --- several runs -----------------------------------------------------------------------------------------------------


def seeds_table(study: Study) -> Table | None:
    """For each system with several runs: mean and spread of the runs' scores, and the scores of majority and oracle."""
    heads = [SYSTEM, *columns("count", runs="", errors=""), *columns("share", mean="", sd="s.d.")]
    heads += [*columns("variance", variance=""), *columns("share", lowest="", highest="")]
    heads += columns("share", majority="majority of runs", oracle="oracle: best of runs")
    heads += columns("count", undecided="items with an unknown majority")
    systems = [system for system in study.systems if len(system.items) > 1]
    rows = [[name_cell(system), *_seed_cells(system, study)] for system in systems]
    return make_table(
        "seeds",
        "Several runs",
        f"{TITLES[study.first_measure].capitalize()} of the runs, with the standard deviation and variance over runs "
        "(divisor n - 1). The majority takes each item's most frequent answer; in a tie, that of the run with the "
        "lowest seed. The oracle takes, for each item, a run that was right, if there is one; no real system can know "
        "which. Both leave out the items whose result depends on missing runs.",
        heads,
        rows,
    )


def _seed_cells(system: System, study: Study) -> list[Cell]:
    known = [mean for mean in run_means(system, study.first_measure) if mean is not None]
    spread = [stdev(known), variance(known)] if len(known) > 1 else [None, None]
    majority, oracle = majority_and_oracle(system, study)
    ends = [min(known, default=None), max(known, default=None)]
    return [
        len(system.items),
        system.errors,
        average(known),
        *spread,
        *ends,
        majority.value,
        oracle.value,
        majority.missing,
    ]


def majority_and_oracle(system: System, study: Study) -> tuple[Score, Score]:
    """The score of the majority answers of the runs, and the score of an oracle."""
    task = study.benchmark.task
    full_task = None if TASKS[task].kind == "choice" or task == "labels" else make_task(task)

    def same(first: str, second: str) -> bool:
        return first == second if full_task is None else same_answer(full_task, first, second)

    ids = list(system.gold)
    answers = majority_of_runs([[run[id].outcome if id in run else None for id in ids] for run in system.items], same)
    correct = [[is_right(run[id], study) if id in run else None for id in ids] for run in system.items]
    scores = [
        item_score(study.first_measure, task, answer, system.gold[id]) for id, answer in zip(ids, answers, strict=True)
    ]
    return mean_score(scores), mean_score(oracle_of_runs(correct))
