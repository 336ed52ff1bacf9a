"""AVeriTeC's scores, as its organisers' scripts compute them: that of 2024 (Hungarian METEOR), and that of 2025 (Ev2R).

Both count a label only if the evidence is good enough, and compare questions with their answers. A debate's questions
are its queries, and its answers are the quotes that they found (`moot.evals._stats.official.cited_answers`). METEOR is
NLTK's; WordNet and the model that finds sentences are data that no package contains (`why_no_meteor`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from moot.core.errors import UserError
from moot.evals._stats.measures import load_extra

MOST_PAIRS = 10
"""The number of a system's questions, and of its pairs of question and answer, that count; the first ones do."""
ENOUGH_METEOR = 0.25
"""The score of 2024 counts a label if the evidence scores more than this."""
ENOUGH_RECALL = 0.5
"""The score of 2025 counts a label if the evidence has at least this recall."""
METEOR_MEASURES = ("averitec_questions", "averitec_evidence", "averitec_score")
"""Measures that need METEOR."""
EV2R_MEASURES = ("ev2r_recall", "ev2r_score")
"""Measures that need a judge."""


@lru_cache(maxsize=4096)  # two measures compare the same texts
def meteor(found: str, gold: str) -> float:
    """METEOR of a text against a gold text, in [0, 1], by NLTK; a UserError if its data are missing."""
    tokenize, translate = load_extra("nltk.tokenize"), load_extra("nltk.translate.meteor_score")
    try:
        words, gold_words = tokenize.word_tokenize(found), tokenize.word_tokenize(gold)
        return float(translate.single_meteor_score(gold_words, words))
    except (LookupError, OSError) as error:  # NLTK's error for missing data, and that for an incomplete folder
        raise UserError(
            "METEOR needs two data sets of NLTK, wordnet and punkt_tab, and one of them is missing or incomplete. "
            "`python -m nltk.downloader wordnet punkt_tab` puts them into ~/nltk_data; on a machine without network, "
            "copy this folder from another one. NLTK_DATA names another place.",
            kind="missing_file",
        ) from error


def why_no_meteor() -> str:
    """Why METEOR cannot be computed here, and what to do; empty if it can be computed."""
    try:
        meteor("a word", "another word")
    except UserError as error:
        return error.detail
    return ""


def hungarian_score(found: Sequence[str], gold: Sequence[str], compare: Callable[[str, str], float] = meteor) -> float:
    """How well texts cover gold texts, in [0, 1]: the best assignment's sum of scores / the number of gold texts.

    Each text is assigned to at most one gold text, and the reverse. Only the first `MOST_PAIRS` texts count. If two
    gold texts score .6 and .2 with the first text, and .5 and .4 with the second, the best sum is .6 + .4, so .5.
    """
    if not gold:
        raise ValueError("there must be at least one gold text")
    scores = np.array([[compare(text, right) for right in gold] for text in found[:MOST_PAIRS]]).reshape(-1, len(gold))
    return float(scores[load_extra("scipy.optimize").linear_sum_assignment(scores, maximize=True)].sum()) / len(gold)


def averitec_score(*, right: bool, evidence: float) -> float:
    """The score of 2024: 1 if the label is right and the evidence scores more than `ENOUGH_METEOR`, else 0."""
    return float(right and evidence > ENOUGH_METEOR)


def ev2r_recall(covered: Sequence[bool]) -> float:
    """The share of the facts of the gold evidence that the system's evidence states; of 4 facts 3 make .75."""
    if not covered:
        raise ValueError("there must be at least one fact")
    return sum(covered) / len(covered)


def ev2r_score(*, right: bool, recall: float) -> float:
    """The score of 2025: 1 if the label is right and the recall is at least `ENOUGH_RECALL`, else 0."""
    return float(right and recall >= ENOUGH_RECALL)
