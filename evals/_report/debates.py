"""Tables about debates: stop reasons, changes by round, judges and trials, and citations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, get_args

from moot.evals._report.comparison import Study, System
from moot.evals._report.scores import SYSTEM, TITLES, right
from moot.evals._report.tables import Cell, Column, Table, columns, table
from moot.evals._stats.calibration import ks_stability
from moot.evals._stats.debate_measures import co2, cons
from moot.evals._stats.estimates import over_items
from moot.evals._stats.item_scores import item_score
from moot.evals._stats.metrics import citation_precision
from moot.evals._stats.observations import Observation
from moot.evals._stats.official import OF_PAGES
from moot.evals._stats.outcomes import UNUSABLE, Document, Score, mean_score
from moot.evals._stats.panel_measures import (
    COUNSEL,
    Phase,
    cohen_kappas,
    concession_rates,
    disagreement,
    fleiss_kappa_of,
    mean_cohen_kappa,
    mean_reflection_change,
    novelty_by_round,
    reflection_trajectory,
    role_play_consistency,
)
from moot.nodes._steps.score import average

VERDICT = "verdict"
"""The value of the column of rounds for the system's own verdict."""
PHASES: tuple[Phase, ...] = get_args(Phase)
POOLED = "Of all runs together."
INTERVALS = "95% intervals: Wilson's; of several runs, in which an item counts once, those of the bootstrap."


def documents(system: System) -> list[Document]:
    """The result documents of the debates that finished."""
    return [seen.document for seen in system.answered if seen.document is not None and not seen.unusable]


# --- stops and rounds -------------------------------------------------------------------------------------------------


def stops_table(study: Study) -> Table | None:
    """The first measure by stop reason."""
    heads = [SYSTEM, Column("stop_reason", "stopped by"), *columns("count", items="", errors="errors in all")]
    heads += [*columns("share", share="", score=TITLES[study.headline]), *columns("number", rounds="mean rounds")]
    rows: list[list[Cell]] = []
    for system in study.measured:
        groups: dict[str, list[Observation]] = {}
        for seen in system.answered:
            reason = UNUSABLE if seen.unusable else str((seen.document or {}).get("stop_reason"))
            groups.setdefault(reason, []).append(seen)
        for reason, of in sorted(groups.items()):
            score = over_items(of, [seen.scores.get(study.headline) for seen in of])
            rounds = average([seen.figure("rounds") for seen in of])
            rows.append([system.label, reason, len(of), system.errors, len(of) / len(system.answered), score, rounds])
    caption = f"{INTERVALS} Stop reasons are not random: debates on hard items take longer."
    return table("stops", "By stop reason", caption, heads, rows)


def rounds_table(study: Study) -> Table | None:
    """The first measure of each round's majority answer, for systems with several rounds."""
    title = TITLES[study.headline]
    heads = [SYSTEM, Column("round", "round"), *columns("count", held="debates in it", errors="")]
    heads += columns("share", score_held=f"{title} in these", score=f"{title} of all, stopped here")
    rows: list[list[Cell]] = []
    for system in study.measured:
        seen = [one for one in system.answered if one.answers]
        numbers = sorted({answer.round for one in seen for answer in one.answers})
        if len(numbers) < 2:
            continue
        for number in numbers:
            then = [_right_after(one, number, study) for one in seen]
            in_it = [value for value, one in zip(then, seen, strict=True) if one.answers[-1].round >= number]
            held = mean_score(in_it)
            rows.append([system.label, str(number), held.n, system.errors, held.value, over_items(seen, then)])
        end = [one.scores.get(study.headline) for one in seen]
        rows.append([system.label, VERDICT, len(seen), system.errors, None, over_items(seen, end)])
    return table(
        "rounds",
        "By round",
        "The majority answer of a round (in a tie: the earliest speaker's answer). Stopped here: of all debates, "
        "those that had ended before with their last round's answer, so that rounds can be compared. The verdict is "
        f"the system's own. {INTERVALS}",
        heads,
        rows,
    )


def _right_after(seen: Observation, number: int, study: Study) -> float | None:
    """The majority's score after a round, or after the debate's last round if it ended before."""
    said = [answer.answer for answer in seen.answers if answer.round <= number] or [seen.answers[0].answer]
    return item_score(study.headline, study.benchmark.task, said[-1], seen.gold)


def consistency_table(study: Study) -> Table | None:
    """Shares of debates that end in consensus, and in a right consensus, for systems in which several speakers vote."""
    heads = [SYSTEM, *columns("count", items="", errors=""), *columns("share", cons="Cons", co2="Co2")]
    rows: list[list[Cell]] = []
    for system in study.measured:
        seen = [one for one in system.answered if one.document is not None and not one.unusable]
        if any(len(one.document["votes"]) > 1 for one in seen if one.document):
            given = [right(one, study) is True for one in seen]
            shares = [cons(documents(system)), co2(documents(system), given)]
            rows.append([system.label, len(seen), system.errors, *shares])
    caption = f"Of the debates that ended: consensus, and consensus on the right answer. {POOLED}"
    return table("consistency", "Consistency", caption, heads, rows)


# --- trials -----------------------------------------------------------------------------------------------------------


def _tried(study: Study) -> list[System]:
    return [system for system in study.measured if any(document["debates"] for document in documents(system))]


def trials_table(study: Study) -> Table | None:
    """Agreement of judges, and behaviour of counsel, for systems with a panel."""
    heads = [SYSTEM, *columns("count", trials="", errors="", panels=""), *columns("share", unanimous="", split="")]
    heads += columns(
        "share", cohen="mean Cohen's kappa", fleiss="Fleiss' kappa", reflection="mean change of reflection"
    )
    heads += columns("number", **{who: f"consistency, {who.replace('_', ' ')}" for who in role_play_consistency([])})
    heads += columns("number", **{f"concessions_{who}": f"concessions, {who}" for who in COUNSEL})
    rows: list[list[Cell]] = []
    for system in _tried(study):
        held = documents(system)
        split = disagreement(held)
        panels: list[Cell] = [split.panels, split.unanimous, split.split] if split else [0, None, None]
        kappas = [mean_cohen_kappa(held), fleiss_kappa_of(held)]
        roles = [*role_play_consistency(held).values(), *concession_rates(held).values()]
        rows.append([system.label, len(held), system.errors, *panels, *kappas, mean_reflection_change(held), *roles])
    return table(
        "trials",
        "Judges and counsel",
        "Panels are those in which every judge gave a verdict. Mean change of reflection: from one round to the next, "
        f"of both sides' scores together (0 to 2). Consistency of counsel over both debates: 0 to 10. Concessions are "
        f"per 1,000 words of a counsel's arguments. {POOLED}",
        heads,
        rows,
    )


def judges_table(study: Study) -> Table | None:
    """Cohen's kappa of each pair of judges."""
    heads = [SYSTEM, *columns("text", first="judge", second="and"), *columns("share", kappa="Cohen's kappa")]
    rows = [
        [system.label, first, second, kappa]
        for system in _tried(study)
        for (first, second), kappa in cohen_kappas(documents(system)).items()
    ]
    caption = "Over the trials in which both judged; undefined if both always gave the same single verdict."
    return table("judges", "Agreement between judges", caption, heads, rows)


def trial_rounds_table(study: Study) -> Table | None:
    """Novelty and reflection by round, in each debate of trials."""
    heads = [SYSTEM, Column("debate", "debate"), *columns("count", round="", held="debates in it")]
    heads += columns("share", novelty="", reflection="", ks="KS to the last round")
    rows: list[list[Cell]] = []
    for system in _tried(study):
        for phase in PHASES:
            held = documents(system)
            novelty, paths = novelty_by_round(held, phase), [reflection_trajectory(one, phase) for one in held]
            for number, stability in ks_stability(paths).items():
                in_it = [path[number - 1] for path in paths if len(path) >= number]
                figures = [novelty.get(number), average(in_it), stability.value]
                rows.append([system.label, phase, number, len(in_it), *figures])
    return table(
        "trial_rounds",
        "Novelty and reflection by round",
        "Means over the debates with the round. Novelty is 1 - the highest similarity of new evidence to the pool; "
        "reflection is the sum of both sides' scores of their own case (0 to 2). KS: how far the distribution "
        f"of reflections is from that of the same debates' last rounds, 0 if they no longer change. {POOLED}",
        heads,
        rows,
    )


# --- evidence ---------------------------------------------------------------------------------------------------------


def found_table(study: Study) -> Table | None:
    """The amount of each system's evidence, if any system had evidence."""
    heads = [SYSTEM, *columns("number", pieces="mean pieces", searches="mean searches")]
    heads += columns("count", failed="items with a failed source", stood_in="items with a stand-in", none="without any")
    rows: list[list[Cell]] = []
    for system in study.measured:
        found = [seen.found for seen in system.answered if seen.found is not None]
        means: list[Cell] = [average([of.pieces for of in found]), average([of.searches for of in found])]
        failed, stood_in = (sum(map(bool, of)) for of in ([o.failed for o in found], [o.stood_in for o in found]))
        rows.append([system.label, *means, failed, stood_in, sum(not of.pieces for of in found)])
    if not any(seen.found and any(seen.found) for system in study.measured for seen in system.observations):
        return None
    return table(
        "found",
        "How much evidence systems had",
        "Of the items that are not missing. Searches are queries that a source found something for. Systems that "
        "differ here had unequal evidence: a source may have failed for one and not for the other.",
        heads,
        rows,
    )


def evidence_table(study: Study) -> Table | None:
    """Citations, and the share of gold evidence that was found."""
    heads = [SYSTEM, *columns("count", items="", errors="", citations="", verified="", fabricated="")]
    heads += [
        *columns("share", citation_precision=TITLES["citation_precision"]),
        *columns("count", uncited="uncited items"),
    ]
    scored = ("gold_recall", *(name for name in (*OF_PAGES, "support_f1") if name in study.benchmark.metrics))
    heads += columns("share", **{name: TITLES[name] for name in scored})
    heads += columns("count", **{f"{name}_items": f"items with {TITLES[name]}" for name in scored})
    rows: list[list[Cell]] = []
    for system in study.measured:
        counts = sum((Counter(one["metrics"]["citations"]) for one in documents(system)), Counter[str]())
        precision = citation_precision(documents(system))
        found = [scored_by(system, name) for name in scored]
        if counts["total"] or any(score.n for score in found):
            cited: list[Cell] = [counts["total"], counts["verified"], counts["fabricated"], precision.value]
            values: list[Cell] = [*(score.value for score in found), *(score.n or None for score in found)]
            rows.append([system.label, len(system.answered), system.errors, *cited, precision.left_out, *values])
    return table(
        "evidence",
        "Citations and evidence",
        "A verified citation quotes words of the evidence that it names; a fabricated one names evidence that was not "
        "shown. Precision is the mean over items with citations of verified / all. Gold recall and official scores as "
        f"the logs hold them, over the items for which they are defined. {POOLED}",
        heads,
        rows,
    )


def scored_by(system: System, measure: str) -> Score:
    """The mean of a measure from logs, over the items for which it is defined."""
    known = [seen.scores.get(measure) for seen in system.answered]
    defined = [value for value in known if value is not None]
    return Score(average(defined), len(defined), system.errors, len(known) - len(defined))


TABLES: Sequence[Callable[[Study], Any]] = (
    stops_table,
    rounds_table,
    consistency_table,
    trials_table,
    judges_table,
    trial_rounds_table,
    found_table,
    evidence_table,
)
"""All of them, in the order of a report."""
