"""Tables about what debate did to the answers: changes by round, drift, conformity, the oracle gap, judges and gates.

A function returns None if its table would have no row. They are for systems of which some debate has several rounds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from moot.evals._analyses.debate_figures import DebateFigures
from moot.evals._report.comparison import Study, System, first_round_majority
from moot.evals._report.debates import VERDICT
from moot.evals._report.scores import SYSTEM, TITLES, is_right
from moot.evals._report.tables import Cell, Column, Table, columns, make_table
from moot.evals._stats.changes import Changes, anyone_right, changes, drift, minorities
from moot.evals._stats.clusters import by_group, clustered_wilson
from moot.evals._stats.estimates import mean_over_items
from moot.evals._stats.observations import Observation, is_right_answer
from moot.evals._stats.significance import Interval, PairedTest, sign_flips
from moot.nodes._steps.score import average

Debate = tuple[Observation, DebateFigures]
"""An observation with the figures of its debate."""
Step = tuple[int, int]
"""The numbers of two rounds in a row; both are `END` for the step to the verdict."""
END = 10**6
POOLED = "All runs are pooled."


def debates_with_rounds(system: System) -> list[Debate]:
    """A system's debates with answers in rounds; [] if none of them has several rounds, each with several answers."""
    found = [(o, o.debate_figures) for o in system.answered if o.debate_figures is not None and o.debate_figures.rounds]
    return found if any(len(figures.rounds) > 1 for _, figures in found) else []


# --- by round ---------------------------------------------------------------------------------------------------------


def changes_table(study: Study) -> Table | None:
    """How many answers became right or wrong, and how many stayed, from each round to the next and to the verdict."""
    heads = [SYSTEM, Column("of", "answers of"), *columns("text", step="from round to round")]
    heads += columns("count", answers="", wrong_right="wrong to right", right_wrong="right to wrong")
    heads += columns("count", stayed_right="stayed right", stayed_wrong="stayed wrong")
    heads += columns("signed", net="net gain")
    rows: list[list[Cell]] = []
    for system in study.measured:
        debates = debates_with_rounds(system)
        for of, steps in (("speakers", _speakers_steps), ("the majority", _majority_steps)):
            found: dict[Step, Changes] = defaultdict(lambda: Changes(0, 0, 0, 0))
            for step, one in (pair for debate in debates for pair in steps(debate, study)):
                found[step] = Changes(*map(sum, zip(found[step], one, strict=True)))
            for (first, second), total in sorted(found.items()):
                n, named = sum(total), f"{first} to {second}" if first < END else f"last to {VERDICT}"
                rows.append([system.label, of, named, n, *total, (total[0] - total[1]) / n if n else None])
    return make_table(
        "changes",
        "Answers that debate changed",
        "Each answer is compared with the same speaker's answer in the next round, and the majority answer of a round "
        "with that of the next; in a tie, the majority answer is the earliest speaker's. The last step is from the "
        "debate's last majority to the verdict. The first measure decides what is right; an answer that could not be "
        "read counts as wrong. Net gain: wrong to right minus right to wrong, per answer. Later rounds have only the "
        f"debates that went on, which are the hard ones. {POOLED}",
        heads,
        rows,
    )


def _speakers_steps(debate: Debate, study: Study) -> Iterator[tuple[Step, Changes]]:
    observation, figures = debate
    numbers = sorted({answer.round for answer in observation.answers})[-len(figures.rounds) :]
    for (first, before), (second, after) in pairwise(zip(numbers, figures.rounds, strict=False)):
        yield (first, second), changes(before, after)


def _majority_steps(debate: Debate, study: Study) -> Iterator[tuple[Step, Changes]]:
    observation, _ = debate
    given = [
        (one.round, {"": is_right_answer(study.benchmark, one.answer, observation.gold)})
        for one in observation.answers
        if one.speakers > 1
    ]
    for (first, before), (second, after) in pairwise(given):
        yield (first, second), changes(before, after)
    if given:
        yield (END, END), changes(given[-1][1], {"": is_right(observation, study) is True})


# --- one row for a system ---------------------------------------------------------------------------------------------


def effects_table(study: Study) -> Table | None:
    """What debate did: one figure for each question, in a row for each system."""
    title = TITLES[study.first_measure]
    heads = [SYSTEM, *columns("count", debates="")]
    heads += columns("share", first=f"{title}, first-round majority", verdict=f"{title}, verdict")
    heads += [*columns("signed", drift="drift of speakers' answers"), *columns("p", drift_p="p of drift")]
    heads += columns("share", gave_in="right minority gave in", corrected="wrong minority corrected")
    heads += columns("count", right_minority="answers in right minorities")
    heads += [*columns("share", oracle="some speaker was right"), *columns("signed", oracle_gap="oracle gap")]
    heads += [*columns("share", judge="judge took the right side"), *columns("count", judged="split debates judged")]
    heads += columns("share", gate="gate passed, right", opened="gate opened, first wrong", rescued="and verdict right")
    heads += columns("count", gated="debates with a gate")
    rows = [[system.label, *cells] for system in study.measured if (cells := _effect_cells(system, study))]
    return make_table(
        "effects",
        "What debate did",
        "Over debates with an outcome. First-round majority and verdict: over these debates, in a tie the earliest "
        "speaker's answer. Drift: the share of speakers who are right at the end minus the share at the start; if "
        "debate is a martingale, it is 0 (Choi, Zhu and Li 2025); its p-value is that of the exact sign-flip test over "
        "items, and belongs to no family of corrected tests. Gave in: of the right answers that at most half of the "
        "speakers gave in a round, the share that was wrong in the next; corrected: the same of wrong answers. Oracle "
        "gap: how often some speaker was right in some round, minus how often the verdict is. Judge: how often the "
        "verdict is right if a judge decided between right and wrong last answers. Gate: how often the readers' common "
        "answer is right if the gate let it pass; how often most readers were wrong if it did not, and how often the "
        "verdict is right in the latter case. In brackets: 95% intervals over groups of items. "
        f"{POOLED}",
        heads,
        rows,
    )


def _effect_cells(system: System, study: Study) -> list[Cell]:
    """The cells of a system in `effects_table`; [] if debate did nothing that could be measured."""
    debates = debates_with_rounds(system)
    gates = [(o, f.gate) for o in system.answered if (f := o.debate_figures) is not None and f.gate is not None]
    if not debates and not gates:
        return []
    observations = [observation for observation, _ in debates]
    several = any(len(figures.rounds[0]) > 1 for _, figures in debates)
    first = [_first_round_right(o, study) if several else None for o in observations]
    sides = [(o, minorities(figures.rounds)) for o, figures in debates]
    oracle = [float(anyone_right(figures.rounds) is True) for _, figures in debates]
    verdicts = [float(is_right(o, study) is True) for o in observations]
    gaps = [best - verdict for best, verdict in zip(oracle, verdicts, strict=True)]
    judged = [(o, figures.judge_right) for o, figures in debates if figures.judge_right is not None]
    passed = [(o, gate.right) for o, gate in gates if gate.passed]
    opened = [(o, not gate.first_right) for o, gate in gates if not gate.passed]
    rescued = [(o, gate.right) for o, gate in gates if not gate.passed and not gate.first_right]
    return [
        len(debates),
        *(mean_over_items(observations, values) for values in (first, verdicts)),
        mean_over_items(observations, [drift(figures.rounds) for _, figures in debates]),
        drift_test(debates).p,
        share([(o, n < one.gave_in) for o, one in sides for n in range(one.right)]),
        share([(o, n < one.corrected) for o, one in sides for n in range(one.wrong)]),
        sum(one.right for _, one in sides),
        mean_over_items(observations, oracle),
        mean_over_items(observations, gaps),
        *(share(judged), len(judged) or None),
        *(share(passed), share(opened), share(rescued), len(gates) or None),
    ]


def _first_round_right(observation: Observation, study: Study) -> float | None:
    majority = first_round_majority(observation)
    return None if majority is None else float(is_right_answer(study.benchmark, majority, observation.gold))


def share(given: Iterable[tuple[Observation, bool]]) -> Interval:
    """A share with Wilson's interval over groups of items; answers about one item are one group."""
    pairs = list(given)
    return clustered_wilson(by_group((observation.cluster for observation, _ in pairs), (right for _, right in pairs)))


def drift_test(debates: Sequence[Debate]) -> PairedTest:
    """The exact test of whether debates drift: over groups of items, with an item's mean over runs."""
    by_item: dict[str, list[float | None]] = defaultdict(list)
    clusters = {observation.id: observation.cluster for observation, _ in debates}
    for observation, figures in debates:
        by_item[observation.id].append(drift(figures.rounds))
    means = [average(values) for values in by_item.values()]
    return sign_flips(means, [0.0] * len(means), [clusters[id] for id in by_item])


TABLES: tuple[Callable[[Study], Table | None], ...] = (effects_table, changes_table)
"""The functions that make these tables, in the order of a report."""
