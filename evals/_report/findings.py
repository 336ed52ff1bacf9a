"""The beginning of a report: findings that claim no more than the tests show, and a list of what was not measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from moot.evals._report.comparison import Study, common_items
from moot.evals._report.runs import unpriced_models
from moot.evals._report.scores import cost_ratio_cells, count_less_evidence
from moot.evals._report.tests import Comparison
from moot.evals._stats.clusters import FEW_GROUPS
from moot.evals._stats.estimates import item_means
from moot.evals._stats.sample_size import ALPHA, POWER
from moot.evals._stats.significance import Family

TestsByStudy = Sequence[tuple[Study, Sequence[Comparison]]]
"""Studies, each with its tests."""
MOST_FINDINGS = 6
"""Maximum number of significant differences with a sentence of their own."""
AT_EQUAL_COST = ("self_consistency", "self_consistency_with_evidence")
"""The controls whose budget is the cost of their system (`moot.evals._runs.controls.CONTROLS`)."""

LEAST_RATIO = 0.8
"""A control at equal cost that took less than this share of the cost is named. The rest is less than one longest reply,
which is a fifth of a debate with five such replies."""


@dataclass(frozen=True)
class Findings:
    """The headline, the sentences below it, and the gaps in the measurement.

    ``not_measured``: for each gap a name and a description.
    """

    headline: str
    sentences: tuple[str, ...]
    not_measured: tuple[tuple[str, str], ...]


NO_FINDINGS = Findings("", (), ())


def findings_of(compared: TestsByStudy, family: Family, across: Sequence[Comparison] = ()) -> Findings:
    """The findings from the tests of a report: those of each study, and those of no single study."""
    tested = [one for one in [*chain.from_iterable(tests for _, tests in compared), *across] if one.p_holm is not None]
    significant = [one for one in tested if one.p_holm is not None and one.p_holm <= ALPHA]
    sentences = [
        *_significant_sentences(significant),
        *_insignificant_sentences(tested),
        *_unshown_sentences(tested),
        *_correction_sentence(tested, family),
    ]
    n_tests = sum(len(tests) for _, tests in compared) + len(across)
    return Findings(_headline(tested, significant, n_tests), tuple(sentences), tuple(_not_measured(compared, across)))


def better_and_other(comparison: Comparison) -> tuple[str, str]:
    """The names of the better system and of the other system, by the difference that was tested."""
    return comparison.names if (comparison.difference.value or 0) > 0 else comparison.names[::-1]


def shown(comparison: Comparison) -> str:
    """What a significant test shows, in words."""
    if comparison.bounds is None:
        better, other = better_and_other(comparison)
        return f"{better} was right more often than {other}"
    first, second = comparison.names
    margin = per_100_items(comparison.bounds.margin)
    if comparison.claim == "equivalent":
        return f"{first} and {second} were equally good, up to {margin}"
    return f"{first} was not worse than {second} by {margin}"


def _headline(tested: Sequence[Comparison], significant: Sequence[Comparison], n_tests: int) -> str:
    if not tested:
        return "No difference could be tested" if n_tests else "Nothing was compared, because there is no baseline"
    if not significant:
        margins = any(one.bounds for one in tested)
        return "No difference between the systems was found" if not margins else "No stated test showed its claim"
    many_places = len({one.title for one in tested}) > 1
    parts = [shown(one) + (f" on {one.place}" if many_places else "") for one in significant[:2]]
    if len(significant) > 2:
        differences = [one for one in significant if one.bounds is None]
        if len(differences) < len(significant):
            return f"{len(significant)} of {len(tested)} tests show their claim"
        winners = {better_and_other(one)[0] for one in significant}
        if len(winners) == 1:
            places = {one.place for one in significant}
            place = f", all on {places.pop()}" if many_places and len(places) == 1 else ""
            return f"{winners.pop()} was right more often in {len(significant)} of {len(tested)} comparisons{place}"
        return f"{len(significant)} of {len(tested)} comparisons show a difference"
    rest = "; no other difference was found" if len(tested) > len(significant) else ""
    return "; ".join(parts) + rest


def _significant_sentences(significant: Sequence[Comparison]) -> Iterator[str]:
    for comparison in significant[:MOST_FINDINGS]:
        yield finding_sentence(comparison)
    if len(significant) > MOST_FINDINGS:
        yield f"The tables contain further significant differences ({len(significant) - MOST_FINDINGS})."


def finding_sentence(comparison: Comparison) -> str:
    """A significant test as a sentence."""
    bounds, test = comparison.bounds, comparison.test
    p_values = f"p {p_text(comparison.p)}, p by Holm {p_text(comparison.p_holm)}"
    if bounds is not None:
        interval = f"{(bounds.low or 0) * 100:+.1f} to {(bounds.high or 0) * 100:+.1f}"
        about = f"difference {(bounds.value or 0) * 100:+.1f} in 100, 90% interval {interval}"
        return f"{comparison.title}: {shown(comparison)} ({about}), on {bounds.n} items; {p_values}."
    better, other = better_and_other(comparison)
    gain = abs(comparison.difference.value or 0) * 100
    sentence = f"{comparison.title}: {better} was right on {gain:.1f} more items in 100 than {other}"
    ends = [end for end in (comparison.difference.low, comparison.difference.high) if end is not None]
    if len(ends) == 2:
        low, high = ends if (comparison.difference.value or 0) > 0 else (-ends[1], -ends[0])
        sentence += f" (95% interval {low * 100:+.1f} to {high * 100:+.1f})"
    return f"{sentence}, on {test.n} items; {p_values}."


def _correction_sentence(tested: Sequence[Comparison], family: Family) -> Iterator[str]:
    if not tested:
        return
    size = tested[0].family
    if family == "report":
        tests = f"all {size} tests" if size > 1 else "the only test"
        yield f"Holm's correction covers {tests} of this report. Tests use the first measure of each benchmark."
    else:
        yield (
            "Holm's correction covers the tests of each benchmark with each model separately. The more benchmarks "
            "and models there are, the more likely is a false positive."
        )


def _unshown_sentences(tested: Sequence[Comparison]) -> Iterator[str]:
    unshown = [one for one in tested if one.bounds is not None and (one.p_holm or 0) > ALPHA]
    if unshown:
        yield f"Tests of a margin that do not show their claim: {len(unshown)}. This does not show the opposite."


def _insignificant_sentences(tested: Sequence[Comparison]) -> Iterator[str]:
    tested = [one for one in tested if one.bounds is None]
    not_significant = [one for one in tested if one.p_holm is not None and one.p_holm > ALPHA]
    significant, others = len(tested) - len(not_significant), len(not_significant)
    if not others:
        return
    smallest = min(comparison.p_holm for comparison in not_significant if comparison.p_holm is not None)
    one = "The other tested difference" if significant else "The tested difference"
    several = f"{'The other' if significant else 'All'} {others} tested differences"
    subject = one if others == 1 else several
    sentence = f"{subject} may be due to chance (smallest p by Holm {p_text(smallest)})."
    yield f"{sentence} This does not show that the systems are equally good."
    known = [comparison.detectable for comparison in not_significant if comparison.detectable is not None]
    least = sorted(detectable for detectable in known if isinstance(detectable, float))
    if least:
        span = (
            per_100_items(least[0])
            if least[-1] - least[0] < 0.0005
            else f"{least[0] * 100:.1f} to {per_100_items(least[-1])}, depending on the test,"
        )
        yield (
            f"A difference of {span} would be found with a chance of {POWER:.0%}; a smaller difference is missed more "
            "often."
        )
    if undetectable := len(known) - len(least):
        beginning = "Not" if undetectable == len(not_significant) else f"In {undetectable} of these tests, not"
        chance = f"would be found with a chance of {POWER:.0%}"
        yield f"{beginning} even the largest difference {chance}: there are too few items."


def per_100_items(share: float | None) -> str:
    """A difference of shares as text, without its sign: ``5.0 items in 100``."""
    return f"{abs(share or 0) * 100:.1f} items in 100"


def p_text(p: float | None) -> str:
    """A p-value as text that follows the letter p: ``= 0.012``."""
    return "unknown" if p is None else "< 0.001" if p < 0.001 else f"= {p:.3f}"


# --- not measured --------------------------------------------------------------------------------------------


def _not_measured(compared: TestsByStudy, across: Sequence[Comparison]) -> Iterator[tuple[str, str]]:
    studies = [study for study, _ in compared]
    models = list(dict.fromkeys(str(study.model) for study in studies if study.model))
    if len(models) == 1 and all(study.model for study in studies):
        yield (
            "Other models",
            f"Only {models[0]} was used, except in roles with their own model. "
            "Other models may rank systems differently.",
        )
    if untested := [study.title for study, tests in compared if not tests and not across]:
        yield "Differences", f"Nothing is compared on {'; '.join(untested)}: there is no baseline."
    with_controls = {s.of for study in studies for s in study.measured if s.control in AT_EQUAL_COST}
    roots = dict.fromkeys(s.label for study in studies for s in study.measured if s.of is None)
    if without_controls := [label for label in roots if label not in with_controls]:
        yield (
            "The same cost",
            f"No control with the same cost was run for {', '.join(without_controls)}: "
            "a better score may be due to nothing but a higher cost.",
        )
    if cheaper := list(dict.fromkeys(chain.from_iterable(map(_cheaper_controls, studies)))):
        yield (
            "The whole cost",
            f"Controls that took much less than their system's cost, because a further reply at its longest did not "
            f"fit: {', '.join(cheaper)}. They may score less for this reason. A lower max_tokens lets them take more.",
        )
    if single := [s.label for study in studies for s in study.measured if len(s.runs) == 1]:
        yield (
            "Chance of sampling",
            f"{', '.join(dict.fromkeys(single))}: one run each. Intervals are over items, not over runs.",
        )
    comparisons = [*chain.from_iterable(tests for _, tests in compared), *across]
    tested = [comparison for comparison in comparisons if comparison.test.p is not None]
    if unequal := [one for one in tested if len(one.first.items) != len(one.second.items) and one.second.runs]:
        yield (
            "Equal numbers of runs",
            f"Tests of systems with different numbers of runs: {len(unequal)} of {len(tested)}. Their p-values are "
            "approximations. They can be too small if there are few items, or if nearly all answers are right.",
        )
    less_evidence = Counter[str]()
    for system in (system for study in studies for system in study.measured):
        less_evidence[system.label] += count_less_evidence(system)
    if listed := ", ".join(f"{label} on {count}" for label, count in less_evidence.items() if count):
        yield (
            "The same evidence",
            f"Items for which a source failed, a fallback was used or nothing was found: {listed}.",
        )
    yield from _missing_answers(compared)
    clustered = [comparison.test for comparison in comparisons if comparison.test.groups < comparison.test.n]
    if group_counts := [test.groups for test in clustered if test.groups < FEW_GROUPS]:
        yield (
            "Few groups",
            f"A test uses only {min(group_counts)} groups of items. With fewer than {FEW_GROUPS} groups, intervals "
            "tend to be too narrow.",
        )
    if unpriced := list(dict.fromkeys(chain.from_iterable(map(unpriced_models, studies)))):
        yield "Cost in USD", f"No price is known for {', '.join(unpriced)}."
    yield "Memory", "Models may have seen these benchmarks in training. No check for that was run."


def _cheaper_controls(study: Study) -> Iterator[str]:
    """The controls at equal cost that took less than `LEAST_RATIO` of the cost, each with what they took."""
    systems = {system.label: system for system in study.measured}
    for control in study.measured:
        unit = control.runs[0].equal or "tokens"
        if control.control in AT_EQUAL_COST and unit != "calls":
            tokens, usd, _ = cost_ratio_cells(control, systems.get(str(control.of)))
            ratio = usd if unit == "usd" else tokens
            if isinstance(ratio, float) and ratio < LEAST_RATIO:
                yield f"{control.label} on {study.title} ({ratio:.0%})"


def _missing_answers(compared: TestsByStudy) -> Iterator[tuple[str, str]]:
    """The number of missing answers, and their effect on the differences (`_reverses`); nothing if none is missing."""
    systems = [system for study, _ in compared for system in study.measured]
    missing = sum(system.errors + system.not_run for system in systems)
    if not missing:
        return
    planned = sum(len(system.observations) + system.not_run for system in systems)
    tests = [
        (study, comparison)
        for study, comparisons in compared
        for comparison in comparisons
        if comparison.difference.value
    ]
    reversed_count = sum(_reverses(study, comparison) for study, comparison in tests)
    effect = f"{reversed_count} of {len(tests)} differences" if reversed_count else "no difference"
    yield (
        "Missing answers",
        f"{missing:,} of {planned:,} answers are missing. They count neither as right nor as wrong. If items "
        f"on which a system failed in every run counted as wrong, that would reverse or remove {effect}.",
    )


def _reverses(study: Study, comparison: Comparison) -> bool:
    """Whether a difference changes its sign or becomes 0 if missing answers count as wrong."""
    ids = common_items(comparison.first, comparison.second)
    ours, theirs = (
        sum(x or 0 for x in item_means(s, study.first_measure, ids)) for s in (comparison.first, comparison.second)
    )
    return (ours - theirs) * (comparison.difference.value or 0) <= 0
