"""Tables about debates: stop reasons, changes by round, judges and trials, and evidence.

A function returns None if its table would have no row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, get_args

from moot.evals._report.comparison import Study, System
from moot.evals._report.scores import SYSTEM, TITLES, is_right
from moot.evals._report.tables import Cell, Column, Table, columns, make_table
from moot.evals._stats.calibration import ks_stability
from moot.evals._stats.debate_measures import consistent_share, right_consistent_share
from moot.evals._stats.estimates import mean_over_items
from moot.evals._stats.metrics import citation_precision, item_score
from moot.evals._stats.observations import Observation
from moot.evals._stats.official import PAGE_MEASURES
from moot.evals._stats.outcomes import UNUSABLE, Document, Score, mean_score
from moot.evals._stats.panel_measures import (
    COUNSEL,
    Phase,
    cohen_kappas,
    concession_rates,
    disagreement,
    mean_cohen_kappa,
    mean_reflection_change,
    novelty_by_round,
    panel_fleiss_kappa,
    reflection_trajectory,
    role_play_consistency,
)
from moot.nodes._steps.score import average

VERDICT = "verdict"
"""The value in the column of rounds for a system's own verdict."""
PHASES: tuple[Phase, ...] = get_args(Phase)
POOLED = "All runs are pooled."
INTERVALS = (
    "The 95% intervals are Wilson's if each item has one score, which is 0 or 1, else the bootstrap's. An item with "
    "several runs counts once, with its mean score."
)


def finished_documents(system: System) -> list[Document]:
    """The result documents of finished debates. Debates that failed because of unusable replies are left out."""
    return [
        observation.document
        for observation in system.answered
        if observation.document is not None and not observation.unusable
    ]


# --- stops and rounds -------------------------------------------------------------------------------------------------


def stops_table(study: Study) -> Table | None:
    """The score by the first measure, for each stop reason."""
    heads = [SYSTEM, Column("stop_reason", "stopped by"), *columns("count", items="", errors="errors of the system")]
    heads += [*columns("share", share="", score=TITLES[study.first_measure]), *columns("number", rounds="mean rounds")]
    rows: list[list[Cell]] = []
    for system in study.measured:
        groups: dict[str, list[Observation]] = {}
        for observation in system.answered:
            reason = UNUSABLE if observation.unusable else str((observation.document or {}).get("stop_reason"))
            groups.setdefault(reason, []).append(observation)
        for reason, group in sorted(groups.items()):
            score = mean_over_items(group, [observation.scores.get(study.first_measure) for observation in group])
            rounds = average([observation.figure("rounds") for observation in group])
            rows.append(
                [system.label, reason, len(group), system.errors, len(group) / len(system.answered), score, rounds]
            )
    caption = (
        "Share is items with this stop reason / all items of the system with an outcome. Scores of different "
        f"stop reasons are over different items: for example, debates on hard items take longer. {INTERVALS}"
    )
    return make_table("stops", "By stop reason", caption, heads, rows)


def rounds_table(study: Study) -> Table | None:
    """The scores of the majority answers after each round, and of the verdict, for systems with several rounds."""
    title = TITLES[study.first_measure]
    heads = [SYSTEM, Column("round", "round"), *columns("count", held="debates in the round", errors="")]
    heads += columns("share", score_held=f"{title} of debates in the round", score=f"{title} if all stopped here")
    rows: list[list[Cell]] = []
    for system in study.measured:
        observations = [observation for observation in system.answered if observation.answers]
        numbers = sorted({answer.round for observation in observations for answer in observation.answers})
        if len(numbers) < 2:
            continue
        for number in numbers:
            scores = [_score_after(observation, number, study) for observation in observations]
            reached = [
                value
                for value, observation in zip(scores, observations, strict=True)
                if observation.answers[-1].round >= number
            ]
            score = mean_score(reached)
            rows.append(
                [system.label, str(number), score.n, system.errors, score.value, mean_over_items(observations, scores)]
            )
        end = [observation.scores.get(study.first_measure) for observation in observations]
        rows.append([system.label, VERDICT, len(observations), system.errors, None, mean_over_items(observations, end)])
    return make_table(
        "rounds",
        "By round",
        "The score of a round is that of its majority answer; in a tie, that of the earliest speaker's answer. The "
        "score if all stopped here is over all debates, so that rounds can be compared: debates that ended earlier "
        f"keep their last answer. The last row is the system's own verdict. {INTERVALS}",
        heads,
        rows,
    )


def _score_after(observation: Observation, number: int, study: Study) -> float | None:
    """The score of the majority answer in the last round up to ``number``; if there is none, in the first round."""
    answers = [answer.answer for answer in observation.answers if answer.round <= number] or [
        observation.answers[0].answer
    ]
    return item_score(study.first_measure, study.benchmark.task, answers[-1], observation.gold)


def consistency_table(study: Study) -> Table | None:
    """The shares of debates that end in consensus, and in right consensus, for systems with several voters."""
    heads = [SYSTEM, *columns("count", items="", errors=""), *columns("share", cons="Cons", co2="Co2")]
    rows: list[list[Cell]] = []
    for system in study.measured:
        observations = [
            observation
            for observation in system.answered
            if observation.document is not None and not observation.unusable
        ]
        if any(len(observation.document["votes"]) > 1 for observation in observations if observation.document):
            correct = [is_right(observation, study) is True for observation in observations]
            shares = [
                consistent_share(finished_documents(system)),
                right_consistent_share(finished_documents(system), correct),
            ]
            rows.append([system.label, len(observations), system.errors, *shares])
    caption = (
        "Cons is the share of the finished debates that ended in consensus. Co2 is the share of the finished debates "
        f"that ended in consensus on a right answer. {POOLED}"
    )
    return make_table("consistency", "Consistency", caption, heads, rows)


# --- trials -----------------------------------------------------------------------------------------------------------


def _systems_with_trials(study: Study) -> list[System]:
    """The systems of which at least one finished debate is a trial."""
    return [system for system in study.measured if any(document["debates"] for document in finished_documents(system))]


def trials_table(study: Study) -> Table | None:
    """The agreement of the judges and the behaviour of the counsel, for systems that hold trials."""
    heads = [SYSTEM, *columns("count", trials="", errors="", panels=""), *columns("share", unanimous="", split="")]
    heads += columns(
        "share", cohen="mean Cohen's kappa", fleiss="Fleiss' kappa", reflection="mean change of reflection"
    )
    heads += columns("number", **{role: f"consistency, {role.replace('_', ' ')}" for role in role_play_consistency([])})
    heads += columns("number", **{f"concessions_{role}": f"concessions, {role}" for role in COUNSEL})
    rows: list[list[Cell]] = []
    for system in _systems_with_trials(study):
        documents = finished_documents(system)
        split = disagreement(documents)
        panels: list[Cell] = [split.panels, split.unanimous, split.split] if split else [0, None, None]
        kappas = [mean_cohen_kappa(documents), panel_fleiss_kappa(documents)]
        roles = [*role_play_consistency(documents).values(), *concession_rates(documents).values()]
        rows.append(
            [system.label, len(documents), system.errors, *panels, *kappas, mean_reflection_change(documents), *roles]
        )
    return make_table(
        "trials",
        "Judges and counsel",
        "The columns panels, unanimous, split and Fleiss' kappa count only panels in which every judge gave a verdict. "
        "Cohen's kappa of two judges is over the trials in which both gave a verdict. The mean change of reflection is "
        "how much the sum of both sides' scores (0 to 2) changes from one round to the next, in the primary debate. "
        "The consistency of the counsel, from 0 to 10, is over both debates. Concessions are per 1,000 words of a "
        f"counsel's arguments. {POOLED}",
        heads,
        rows,
    )


def judges_table(study: Study) -> Table | None:
    """Cohen's kappa of each pair of judges."""
    heads = [SYSTEM, *columns("text", first="judge", second="other judge"), *columns("share", kappa="Cohen's kappa")]
    rows = [
        [system.label, first, second, kappa]
        for system in _systems_with_trials(study)
        for (first, second), kappa in cohen_kappas(finished_documents(system)).items()
    ]
    caption = (
        "Kappa is over the trials in which both judges gave a verdict. It is undefined if there is no such trial, or "
        f"if both judges always gave one and the same verdict. {POOLED}"
    )
    return make_table("judges", "Agreement between judges", caption, heads, rows)


def trial_rounds_table(study: Study) -> Table | None:
    """The novelty of evidence and the reflection of both sides by round, for both debates of trials."""
    heads = [SYSTEM, Column("debate", "debate"), *columns("count", round="", held="debates in the round")]
    heads += columns("share", novelty="", reflection="", ks="KS distance to the last round")
    rows: list[list[Cell]] = []
    for system in _systems_with_trials(study):
        for phase in PHASES:
            documents = finished_documents(system)
            novelty, paths = (
                novelty_by_round(documents, phase),
                [reflection_trajectory(document, phase) for document in documents],
            )
            for number, stability in ks_stability(paths).items():
                reached = [path[number - 1] for path in paths if len(path) >= number]
                figures = [novelty.get(number), average(reached), stability.value]
                rows.append([system.label, phase, number, len(reached), *figures])
    return make_table(
        "trial_rounds",
        "Novelty and reflection by round",
        "Reflection is the sum of both sides' scores of their own case (0 to 2), as a mean over the debates that "
        "reached the round. Novelty is 1 - the highest similarity of new evidence to the pool, as a mean over those "
        "debates that retrieved evidence in the round. The KS distance is between the distributions of "
        "reflection in this round and in the last rounds of the same debates (0: no change). "
        f"{POOLED}",
        heads,
        rows,
    )


# --- evidence ---------------------------------------------------------------------------------------------------------


def evidence_count_table(study: Study) -> Table | None:
    """The amount of each system's evidence; None if no debate has evidence, a failed source or a fallback source."""
    heads = [SYSTEM, *columns("number", pieces="mean pieces", searches="mean searches")]
    heads += columns(
        "count",
        failed="items with a failed source",
        stood_in="items with a fallback source",
        none="items without evidence",
    )
    rows: list[list[Cell]] = []
    for system in study.measured:
        counts = [
            observation.evidence_count for observation in system.answered if observation.evidence_count is not None
        ]
        means: list[Cell] = [average([count.pieces for count in counts]), average([count.searches for count in counts])]
        failed, replaced = (
            sum(map(bool, count)) for count in ([o.failed for o in counts], [o.stood_in for o in counts])
        )
        rows.append([system.label, *means, failed, replaced, sum(not count.pieces for count in counts)])
    if not any(
        observation.evidence_count and any(observation.evidence_count)
        for system in study.measured
        for observation in system.observations
    ):
        return None
    return make_table(
        "found",
        "Amount of evidence",
        f"Missing items do not count. Searches are queries with results. {POOLED} Systems that differ here had unequal "
        "evidence: a source may have failed for one system and not for another.",
        heads,
        rows,
    )


def evidence_table(study: Study) -> Table | None:
    """The citations, the share of gold evidence that was found, and the official scores that require evidence."""
    heads = [SYSTEM, *columns("count", items="", errors="", citations="", verified="", fabricated="")]
    heads += [
        *columns("share", citation_precision=TITLES["citation_precision"]),
        *columns("count", uncited="items without citations"),
    ]
    scored = ("gold_recall", *(name for name in (*PAGE_MEASURES, "support_f1") if name in study.benchmark.metrics))
    heads += columns("share", **{name: TITLES[name] for name in scored})
    heads += columns("count", **{f"{name}_items": f"items with {TITLES[name]}" for name in scored})
    rows: list[list[Cell]] = []
    for system in study.measured:
        counts = sum(
            (Counter(document["metrics"]["citations"]) for document in finished_documents(system)), Counter[str]()
        )
        precision = citation_precision(finished_documents(system))
        logged = [mean_logged_score(system, name) for name in scored]
        if counts["total"] or any(score.n for score in logged):
            cited: list[Cell] = [counts["total"], counts["verified"], counts["fabricated"], precision.value]
            values: list[Cell] = [*(score.value for score in logged), *(score.n or None for score in logged)]
            rows.append([system.label, len(system.answered), system.errors, *cited, precision.left_out, *values])
    return make_table(
        "evidence",
        "Citations and evidence",
        "A verified citation quotes words of the evidence that it names; a fabricated citation names evidence that was "
        "not shown. Precision is verified / all citations, as the mean over items with citations. Gold recall and "
        f"official scores are those in the logs, over the items for which they are defined. {POOLED}",
        heads,
        rows,
    )


def mean_logged_score(system: System, measure: str) -> Score:
    """The mean of a measure in the logs, over the items for which it is defined."""
    known = [observation.scores.get(measure) for observation in system.answered]
    defined = [value for value in known if value is not None]
    return Score(average(defined), len(defined), system.errors, len(known) - len(defined))


TABLES: Sequence[Callable[[Study], Any]] = (
    stops_table,
    rounds_table,
    consistency_table,
    trials_table,
    judges_table,
    trial_rounds_table,
    evidence_count_table,
    evidence_table,
)
"""The functions that make these tables, in the order of a report."""
