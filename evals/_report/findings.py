"""The beginning of a report: findings that claim no more than the tests show, and a list of everything that was not
measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from moot.evals._report.comparison import Study, common_items
from moot.evals._report.runs import unpriced_models
from moot.evals._report.scores import lost_evidence
from moot.evals._report.tests import Comparison
from moot.evals._stats.clusters import FEW_GROUPS
from moot.evals._stats.estimates import item_means
from moot.evals._stats.sample_size import ALPHA, POWER
from moot.evals._stats.significance import Family

Compared = Sequence[tuple[Study, Sequence[Comparison]]]
"""The tests of each study."""
MOST = 6
"""Maximum number of findings that are listed singly."""


@dataclass(frozen=True)
class Findings:
    """The headline, the sentences below it, and the things not measured, each with the reason why it matters."""

    headline: str
    sentences: tuple[str, ...]
    not_measured: tuple[tuple[str, str], ...]


NOTHING = Findings("", (), ())


def findings_of(compared: Compared, family: Family) -> Findings:
    """The findings from the tests of a report.

    Args:
        compared: studies, each with its tests.
        family: the tests that were corrected together.
    """
    tested = [(study, one) for study, tests in compared for one in tests if one.p_holm is not None]
    found = [(study, one) for study, one in tested if one.p_holm is not None and one.p_holm <= ALPHA]
    headline = _headline(tested, found, compared)
    sentences = [*_of_found(found), *_of_others(tested, found), *_of_family(tested, family)]
    return Findings(headline, tuple(sentences), tuple(_not_measured(compared)))


def better_of(one: Comparison) -> tuple[str, str]:
    """The labels of the better system and of the other one, by the difference that was tested."""
    named = one.first.label, one.second.label
    return named if (one.apart.value or 0) > 0 else named[::-1]


def _headline(
    tested: Sequence[tuple[Study, Comparison]], found: Sequence[tuple[Study, Comparison]], of: Compared
) -> str:
    if not tested:
        asked = sum(len(tests) for _, tests in of)
        return "No difference could be tested" if asked else "Nothing was compared: there is no baseline here"
    if not found:
        return "No difference between the systems was found"
    several = len({study.title for study, _ in tested}) > 1
    parts = []
    for study, one in found[:2]:
        best, other = better_of(one)
        parts.append(f"{best} was right more often than {other}" + (f" on {study.benchmark.title}" if several else ""))
    if len(found) > 2:
        winners, places = {better_of(one)[0] for _, one in found}, {study.benchmark.title for study, _ in found}
        if len(winners) == 1:
            where = f", all on {places.pop()}" if several and len(places) == 1 else ""
            return f"{winners.pop()} was right more often in {len(found)} of {len(tested)} comparisons{where}"
        return f"{len(found)} of {len(tested)} comparisons show a difference"
    rest = "; no other difference was found" if len(tested) > len(found) else ""
    return "; ".join(parts) + rest


def _of_found(found: Sequence[tuple[Study, Comparison]]) -> Iterator[str]:
    for study, one in found[:MOST]:
        best, other = better_of(one)
        said = f"{study.title}: {best} was right on {in_100(one.apart.value)} more than {other}"
        ends = [end for end in (one.apart.low, one.apart.high) if end is not None]
        if len(ends) == 2:
            low, high = ends if (one.apart.value or 0) > 0 else (-ends[1], -ends[0])
            said += f" (95% interval {low * 100:+.1f} to {high * 100:+.1f})"
        yield f"{said}, on {one.test.n} items; p {p_text(one.test.p)}, by Holm {p_text(one.p_holm)}."
    if len(found) > MOST:
        yield f"{len(found) - MOST} more differences are in the tables."


def _of_family(tested: Sequence[tuple[Study, Comparison]], family: Family) -> Iterator[str]:
    if not tested:
        return
    size = tested[0][1].family
    if family == "report":
        every = f"all {size} tests" if size > 1 else "the one test"
        yield f"Holm's correction is for {every} of this report, by the first measure of each benchmark."
    else:
        yield (
            "Holm's correction is for each benchmark's tests by themselves: over several benchmarks, a difference by "
            "chance is that much likelier."
        )


def _of_others(tested: Sequence[tuple[Study, Comparison]], found: Sequence[tuple[Study, Comparison]]) -> Iterator[str]:
    others = len(tested) - len(found)
    if not others:
        return
    rest = [one for _, one in tested if one.p_holm is not None and one.p_holm > ALPHA]
    smallest = min(one.p_holm for one in rest if one.p_holm is not None)
    which = "The tested difference" if others == 1 else f"{'The other' if found else 'All'} {others} tested differences"
    told = f"{which} may be chance (smallest p by Holm {p_text(smallest)})."
    yield f"{told} That does not show that these systems are equally good."
    least = sorted(one.detectable for one in rest if isinstance(one.detectable, float))
    if least:
        span = in_100(least[0]) if least[-1] - least[0] < 0.0005 else f"{least[0] * 100:.1f} to {in_100(least[-1])}"
        yield (
            f"A difference of {span}, depending on the test, would be found with a chance of {POWER:.0%}; a smaller "
            "one is missed more often."
        )
    if none := len(rest) - len(least):
        what = "No" if none == len(rest) else f"In {none} of these tests no"
        yield f"{what} difference would be found with a chance of {POWER:.0%}: too few items tell the systems apart."


def in_100(share: float | None) -> str:
    """A difference of shares in words."""
    return f"{abs(share or 0) * 100:.1f} items in 100"


def p_text(p: float | None) -> str:
    """A p-value in a sentence."""
    return "unknown" if p is None else "< 0.001" if p < 0.001 else f"= {p:.3f}"


# --- not measured --------------------------------------------------------------------------------------------


def _not_measured(compared: Compared) -> Iterator[tuple[str, str]]:
    studies = [study for study, _ in compared]
    models = list(dict.fromkeys(str(study.model) for study in studies if study.model))
    if len(models) == 1 and all(study.model for study in studies):
        yield (
            "Other models",
            f"{models[0]} alone, in all roles that name no other. Others may order the systems otherwise.",
        )
    if untested := [study.title for study, tests in compared if not tests]:
        yield "Differences", f"Nothing is compared on {'; '.join(untested)}: one system, and no control beside it."
    own = {system.of for study in studies for system in study.measured if system.of}
    roots = dict.fromkeys(s.label for study in studies for s in study.measured if s.of is None)
    if bare := [label for label in roots if label not in own]:
        yield "The same cost", f"No control was run at the cost of {', '.join(bare)}: a better score may be bought."
    if single := [s.label for study in studies for s in study.measured if len(s.runs) == 1]:
        yield (
            "Chance of sampling",
            f"{', '.join(dict.fromkeys(single))}: one run each. Intervals are over items, not over runs.",
        )
    lost = Counter[str]()
    for system in (system for study in studies for system in study.measured):
        lost[system.label] += lost_evidence(system)
    if told := ", ".join(f"{label} on {count}" for label, count in lost.items() if count):
        yield "The same evidence", f"Items on which a source failed, another stood in or nothing was found: {told}."
    yield from _missing(compared)
    clustered = [one.test for _, tests in compared for one in tests if one.test.groups < one.test.n]
    if few := [test.groups for test in clustered if test.groups < FEW_GROUPS]:
        yield (
            "Few groups",
            f"Some tests rest on {min(few)} groups of items; below {FEW_GROUPS}, intervals are too narrow.",
        )
    if unpriced := list(dict.fromkeys(chain.from_iterable(map(unpriced_models, studies)))):
        yield "Cost in USD", f"No price is known for {', '.join(unpriced)}."
    yield "Memory", "Models may have seen these benchmarks in training. No check for that was run."


def _missing(compared: Compared) -> Iterator[tuple[str, str]]:
    """The number of missing answers, and whether they could reverse a difference."""
    systems = [system for study, _ in compared for system in study.measured]
    lost = sum(system.errors + system.not_run for system in systems)
    if not lost:
        return
    every = sum(len(system.observations) + system.not_run for system in systems)
    tests = [(study, one) for study, of_one in compared for one in of_one if one.apart.value]
    turned = sum(_turns(study, one) for study, one in tests)
    sign = f"turn {turned} of {len(tests)} differences round" if turned else "turn no difference round"
    yield (
        "Missing answers",
        f"{lost:,} of {every:,} answers are missing and count for no system. Counted as wrong, they {sign}.",
    )


def _turns(study: Study, one: Comparison) -> bool:
    """Whether a difference changes its sign, or becomes 0, if every missing answer is wrong."""
    ids = common_items(one.first, one.second)
    ours, theirs = (sum(x or 0 for x in item_means(s, study.headline, ids)) for s in (one.first, one.second))
    return (ours - theirs) * (one.apart.value or 0) <= 0
