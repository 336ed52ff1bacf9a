"""Measures of judges, counsel and rounds in PROClaim's trials, from result documents (PROClaim, 4.2, 4.7, app. O).

A result document is the plain JSON object that a graph returns (`moot.nodes.VerdictOutput`). Documents of every status
count with the data that they have: a trial that failed before the panel has no verdicts, but may have turns and rounds.
Without data a figure is None, never NaN. Pass only documents with the same settings to one call, because judges are
identified by name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from statistics import pstdev
from typing import Any, Literal, NamedTuple

from moot.evals._stats.measures import load_extra
from moot.nodes._steps.score import average

Document = Mapping[str, Any]
Phase = Literal["primary", "switched"]
COUNSEL = ("plaintiff", "defense")


# --- the panel ------------------------------------------------------------------------------------------------------


class Disagreement(NamedTuple):
    """The shares of unanimous and of split panels, which add up to 1, and the number of panels."""

    unanimous: float
    split: float
    panels: int


def panel_verdicts(documents: Sequence[Document]) -> tuple[list[str], list[list[str | None]]]:
    """The verdicts of all judges. A verdict is None if the judge gave no readable verdict or was not asked."""
    given = [
        {t["agent"]: t.get("verdict") for t in document["turns"] if (t["step"], t["phase"]) == ("judge", "panel")}
        for document in documents
    ]
    judges = sorted({judge for verdicts in given for judge in verdicts}, key=lambda name: (len(name), name))
    return judges, [[verdicts.get(judge) for judge in judges] for verdicts in given]


def cohen_kappa(first: Sequence[str | None], second: Sequence[str | None]) -> float | None:
    """Cohen's kappa of two judges = (agreement - agreement by chance) / (1 - agreement by chance), in [-1, 1].

    A case counts only if both judges gave a verdict: a missing verdict is not a category. A judge can also be compared
    with the gold verdicts (PROClaim, app. D).

    None if kappa is undefined: no case has both verdicts, or agreement by chance is 1 because the same verdict was
    given in all cases.
    """
    if len(first) != len(second):
        raise ValueError(f"both judges must judge the same number of cases, not {len(first)} and {len(second)}")
    both = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    if len({verdict for pair in both for verdict in pair}) < 2:
        return None
    return float(load_extra("sklearn.metrics").cohen_kappa_score(*zip(*both, strict=True)))


def cohen_kappas(documents: Sequence[Document]) -> dict[tuple[str, str], float | None]:
    """`cohen_kappa` of each pair of judges, over documents with both verdicts (PROClaim, 4.1); {} without a pair."""
    judges, rows = panel_verdicts(documents)
    by_judge = {judge: [row[i] for row in rows] for i, judge in enumerate(judges)}
    return {(a, b): cohen_kappa(by_judge[a], by_judge[b]) for a, b in combinations(judges, 2)}


def mean_cohen_kappa(documents: Sequence[Document]) -> float | None:
    """The mean of the known `cohen_kappas` (PROClaim, table 3); None if no kappa is known."""
    return average(list(cohen_kappas(documents).values()))


def fleiss_kappa(verdicts: Sequence[Sequence[str | None]]) -> float | None:
    """Fleiss' kappa of n judges, in [-1 / (n - 1), 1]: (agreement - agreement by chance) / (1 - agreement by chance).

    It needs the same number of verdicts for each case, so a case with a missing verdict is left out.

    None if kappa is undefined: there are fewer than two judges, no case has all verdicts, or agreement by chance is 1
    because all verdicts are the same.
    """
    if len({len(row) for row in verdicts}) > 1:
        raise ValueError("each case needs a verdict or None from each judge")
    complete = [row for row in verdicts if len(row) > 1 and None not in row]
    categories = list(dict.fromkeys(verdict for row in complete for verdict in row))
    if len(categories) < 2:
        return None
    table = [[list(row).count(verdict) for verdict in categories] for row in complete]
    return float(load_extra("statsmodels.stats.inter_rater").fleiss_kappa(table))


def panel_fleiss_kappa(documents: Sequence[Document]) -> float | None:
    """`fleiss_kappa` of the panels: PROClaim's judicial conformity (4.7, app. O.4); 1 means that all judges agree.

    A panel counts only if it has a verdict from every judge that appears in any of the documents. None if kappa is
    undefined: no panel counts, there is a single judge, or all counted verdicts are the same.
    """
    return fleiss_kappa(panel_verdicts(documents)[1])


def disagreement(documents: Sequence[Document]) -> Disagreement | None:
    """The shares of unanimous and split panels among the panels that `panel_fleiss_kappa` counts (PROClaim, table 3).
    None if no panel counts, or if there is a single judge.
    """
    panels = [set(row) for row in panel_verdicts(documents)[1] if len(row) > 1 and None not in row]
    if not panels:
        return None
    split = sum(len(panel) > 1 for panel in panels) / len(panels)
    return Disagreement(1 - split, split, len(panels))


# --- the counsel ----------------------------------------------------------------------------------------------------


def role_play_consistency(documents: Sequence[Document]) -> dict[str, float | None]:
    """Mean scores from the role-switch analysis, in [0, 10] (PROClaim, app. O.1).

    The keys are ``plaintiff_counsel``, ``defense_counsel`` and ``overall``. Each mean is over the documents in which
    the score is known; it is None if there is no such document, for example because no trial had a role switch.
    """
    turns = [turn for document in documents for turn in document["turns"] if turn["step"] == "analyse"]
    fields = ("plaintiff_counsel", "defense_counsel", "overall")
    return {field: average([turn.get(field) for turn in turns]) for field in fields}


_SELF = r"(?:I|we)(?:'ll)?(?: must| have to| do| will| can| readily| freely| also)*"
_OTHER = r"(?:you|my opponent|my learned friend|opposing counsel|the (?:other|opposing) side)"
_POINT = r"(?:very )?(?:good|fair|valid|strong|excellent|reasonable|legitimate) points?"
CONCESSIONS = (
    rf"{_SELF} (?:concede|admit|grant (?:you|that|the point))(?! (?:nothing|no|none|neither)\b)",
    rf"{_SELF} (?:partially|partly|largely|mostly|somewhat) agree",
    rf"{_SELF}(?: fully| entirely| completely)? agree with {_OTHER}",
    rf"{_OTHER} (?:do |does )?(?:make|makes|have|has|raise|raises) (?:an? |some )?{_POINT}",
    r"that(?: is|'s) a (?:good|fair|valid) point",
    rf"{_OTHER}(?: are|'re| is)(?: absolutely| quite| partly| partially)? (?:right|correct)",
    r"(?:I|we) stand corrected",
    r"(?:I was|we were) (?:wrong|mistaken)",
    rf"{_SELF} (?:withdraw|retract) (?:my|our|that|this) (?:claim|argument|objection|point|statement)",
    r"point taken",
    r"fair enough(?! to)",
)
"""Patterns of phrases with which a speaker of either side concedes a point; the list is ours.

Most phrases are in the first person or about the other side. "The defense is right" is not in the list, because it is a
concession only if the plaintiff's counsel says it. "Granted" and "admittedly" are not in the list, because they begin
many counterarguments.
"""
_CONCESSION = re.compile(rf"\b(?:{'|'.join(CONCESSIONS)})\b", re.IGNORECASE)
_NEGATION_OR_CONDITION = re.compile(
    r"\b(?:not|cannot|never|no|nor|neither|nothing|none|nobody|without|hardly|refuse|deny|dispute|doubt|reject"
    r"|if|unless|whether)\b|n't\b",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"[.,;:!?()—–\n]|\bbut\b", re.IGNORECASE)
_WORD = re.compile(r"\w+(?:['’-]\w+)*")


def concessions(text: str) -> list[str]:
    """The concessions to the other side in a text, found by `CONCESSIONS`, in order.

    A phrase does not count if a negation or a condition precedes it in its clause ("I do not think you make a good
    point", "even if you are right"). This rule misses a few real concessions ("nobody doubts that you are right").
    """
    clauses = (" ".join(clause.split()) for clause in _CLAUSE_END.split(text.replace("’", "'")))
    return [
        found[0]
        for clause in clauses
        for found in _CONCESSION.finditer(clause)
        if not _NEGATION_OR_CONDITION.search(clause, 0, found.start())
    ]


def count_concessions(turns: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """The numbers of `concessions` and of words in each counsel's arguments, in both debates of a trial together.

    A word is a run of letters and digits, which may contain apostrophes and hyphens. A counsel keeps its name when the
    sides are switched: in the switched debate, the plaintiff's counsel speaks for the defense.
    """
    arguments: dict[str, list[str]] = {counsel: [] for counsel in COUNSEL}
    for turn in turns:
        if turn["step"] == "argue" and turn["agent"] in arguments:
            arguments[turn["agent"]].append(turn.get("argument") or "")
    return {
        counsel: {"concessions": sum(len(concessions(text)) for text in texts), "words": sum(map(_count_words, texts))}
        for counsel, texts in arguments.items()
    }


def _count_words(text: str) -> int:
    return len(_WORD.findall(text))


def concession_rates(documents: Sequence[Document]) -> dict[str, float | None]:
    """Each counsel's `concessions` per 1,000 words of all its arguments.

    PROClaim counts only three markers (app. O.2). A turn without an argument adds no words. The rate is None if a
    counsel wrote no words.
    """
    by_document = [
        document["metrics"].get("concessions") or count_concessions(document["turns"]) for document in documents
    ]
    sums = {counsel: sum((Counter(counts[counsel]) for counts in by_document), Counter[str]()) for counsel in COUNSEL}
    return {
        counsel: 1000 * total["concessions"] / total["words"] if total["words"] else None
        for counsel, total in sums.items()
    }


# --- rounds ---------------------------------------------------------------------------------------------------------


def _by_round(document: Document, key: str, phase: Phase) -> list[float | None]:
    """The values of a key for the rounds of one debate of a trial; [] if the debate was not held."""
    return next((list(debate[key]) for debate in document["debates"] if debate["phase"] == phase), [])


def reflection_trajectory(document: Document, phase: Phase = "primary") -> list[float | None]:
    """The sum of both sides' reflection scores in each round, in [0, 2]; None if a side's score is unknown."""
    return _by_round(document, "reflection_total", phase)


def changes(trajectory: Sequence[float | None]) -> list[float]:
    """Each round's value minus the value of the round before; pairs with an unknown value are left out."""
    return [after - before for before, after in pairwise(trajectory) if before is not None and after is not None]


def mean_reflection_change(documents: Sequence[Document], phase: Phase = "primary") -> float | None:
    """The mean absolute change of the `reflection_trajectory` from round to round, in [0, 2] (PROClaim, app. O.3).

    Every change in every debate has the same weight, so longer debates weigh more. None if no debate has two known
    values in a row.
    """
    return average([abs(d) for document in documents for d in changes(reflection_trajectory(document, phase))])


def instability(trajectory: Sequence[float | None]) -> float | None:
    """The instability of a trajectory: the population standard deviation of its `changes`, in the values' unit.

    The formula is ours. PROClaim (4.2, app. P) finds that reflection scores of wrong predictions oscillate, but defines
    no measure of oscillation. This measure is 0 if the values are constant or change by the same amount in each round.
    It is about d if the values go up and down by d. The standard deviation of the values themselves could not
    distinguish a trend from an oscillation.
    """
    if all(None in trajectory[i : i + 3] for i in range(len(trajectory) - 2)):
        return None
    return pstdev(changes(trajectory))


def novelty_by_round(documents: Sequence[Document], phase: Phase = "primary") -> dict[int, float | None]:
    """The mean novelty of the evidence that debates retrieved in each round, from round 1 (PROClaim, figure 3).

    The novelty of a piece of evidence is 1 - its highest cosine similarity to the pool: in [0, 1] for most encoders.

    Returns for each round, the mean over the debates that retrieved evidence in this round; None if no debate did.
    """
    debates = [_by_round(document, "novelty", phase) for document in documents]
    last = max(map(len, debates), default=0)
    return {n + 1: average([values[n] for values in debates if n < len(values)]) for n in range(last)}


__all__ = [
    "CONCESSIONS",
    "Disagreement",
    "changes",
    "cohen_kappa",
    "cohen_kappas",
    "concession_rates",
    "concessions",
    "count_concessions",
    "disagreement",
    "fleiss_kappa",
    "instability",
    "mean_cohen_kappa",
    "mean_reflection_change",
    "novelty_by_round",
    "panel_fleiss_kappa",
    "panel_verdicts",
    "reflection_trajectory",
    "role_play_consistency",
]
