"""Metrics of answers (texts, numbers, labels) and of evidence (FEVER and FEVEROUS scores, citations, gold recall).

`exact_match`, `token_f1`, `best_score` and `numeric_match` score a single item;
`moot.evals._stats.outcomes.mean_score` computes the mean over items. The other metrics take lists of all items. An
outcome of None is missing data. The outcome `ABSTAINED` is wrong, except under some policies (`under_policies`).
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from moot.evals._benchmarks.records import page_title
from moot.evals._stats.measures import load_extra
from moot.evals._stats.outcomes import ABSTAINED, Document, Score, mean_score
from moot.nodes._texts.answers import normal_expression, read_number
from moot.nodes._texts.quotes import count_citations
from moot.nodes._texts.task import TASKS

# --- texts ------------------------------------------------------------------------------------------------------------

ARTICLES = re.compile(r"\b(?:a|an|the)\b")
PUNCTUATION = dict.fromkeys(map(ord, string.punctuation))
PUNCTUATION_TO_SPACE = dict.fromkeys(map(ord, string.punctuation + "‘’´`"), " ")
YES_NO = ("yes", "no", "noanswer")
"""Answers that HotpotQA's and 2WikiMultiHopQA's scripts compare as a whole."""

Normalise = Callable[[str], str]
Metric = Callable[[str | None, str], float | None]
"""Computes the score of one outcome against one gold answer."""


def normalise_squad(text: str) -> str:
    """A text as SQuAD's script compares it: in lower case, without ASCII punctuation and articles, with single spaces.

    Words joined by a punctuation sign become one word: "well-known" becomes "wellknown". The scripts of NQ-open,
    HotpotQA and 2WikiMultiHopQA compare texts in the same way.
    """
    return _without_articles(text.lower().translate(PUNCTUATION))


def normalise_triviaqa(text: str) -> str:
    """A text as TriviaQA's script compares it: as in `normalise_squad`, but punctuation (also ‘ ’ ´) becomes spaces."""
    return _without_articles(text.lower().translate(PUNCTUATION_TO_SPACE))


def _without_articles(text: str) -> str:
    return " ".join(ARTICLES.sub(" ", text).split())


def exact_match(given: str | None, gold: str, normalise: Normalise = normalise_squad) -> float | None:
    """1.0 if the two texts are the same after normalisation, else 0.0; None if the outcome is missing.

    An abstention scores 0.0.
    """
    if given is None:
        return None
    return float(given != ABSTAINED and normalise(given) == normalise(gold))


def token_f1(
    given: str | None, gold: str, normalise: Normalise = normalise_squad, whole: Collection[str] = ()
) -> float | None:
    """F1 of the shared words, in [0, 1]: 2 x shared words / (words of the outcome + words of the right answer).

    Each word is matched at most once. If only one text has words after normalisation, F1 is 0.0; if neither text has
    words, F1 is 1.0 (as in SQuAD 2's script). An abstention scores 0.0. If one of the texts is in ``whole``, such as
    `YES_NO`, both are compared as a whole. F1 is None if the outcome is missing.
    """
    if given is None:
        return None
    shared, given_words, gold_words = shared_words(given, gold, normalise, whole)
    return 2 * shared / (given_words + gold_words)


def shared_words(
    given: str, gold: str, normalise: Normalise = normalise_squad, whole: Collection[str] = ()
) -> tuple[int, int, int]:
    """The numbers of shared words, of an outcome's words, and of a right answer's words, as `token_f1` counts them.

    If either text has no words or is in ``whole``, or if the outcome is an abstention, each text counts as one word.
    """
    plain, plain_gold = normalise(given), normalise(gold)
    if given == ABSTAINED or not plain or not plain_gold or plain in whole or plain_gold in whole:
        return int(given != ABSTAINED and plain == plain_gold), 1, 1
    words, gold_words = Counter(plain.split()), Counter(plain_gold.split())
    return (words & gold_words).total(), words.total(), gold_words.total()


def best_score(metric: Metric, given: str | None, golds: Collection[str]) -> float | None:
    """A metric's highest value over several right answers (aliases); None if the outcome is missing."""
    if not golds:
        raise ValueError("there must be at least one right answer")
    values = [metric(given, gold) for gold in golds]
    return max((value for value in values if value is not None), default=None)


def numeric_match(given: str | None, gold: str) -> float | None:
    """1.0 if the outcome and the right answer are the same number, else 0.0; None if the outcome is missing.

    `read_number` reads both: "1,000" equals "1000.0". An outcome without exactly one number scores 0.0.
    """
    value = read_number(gold)
    if value is None:
        raise ValueError(f"the right answer {gold[:80]!r} is not a number")
    return None if given is None else float(read_number(given) == value)


def all_answers_match(
    given: str | None, gold: Collection[str], wrong: Collection[str], normalise: Normalise = normalise_squad
) -> float | None:
    """RAMDocs' exact match (Wang et al. 2025): 1.0 if a text gives all right answers and no wrong one, else 0.0.

    A text gives an answer if it contains its words in a row, after normalisation: "1963 and 1956" gives "1956" and
    "1963". Wrong answers whose words are in a right answer, as 13 of its 500 questions have, are left aside, because a
    text with all right answers contains them. None if the outcome is missing; an abstention scores 0.0.
    """
    if given is None:
        return None

    def words(text: str) -> str:
        return f" {normalise(text)} "

    told, right = words(given), [words(answer) for answer in gold]
    lures = [lure for lure in map(words, wrong) if not any(lure in answer for answer in right)]
    return float(all(answer in told for answer in right) and not any(lure in told for lure in lures))


# --- labels -----------------------------------------------------------------------------------------------------------

LabelScore = Callable[[Sequence[str], Sequence[str | None]], Score]
"""Computes a score from the right labels and the outcomes of all items."""


def _known_labels(gold: Sequence[str], outcomes: Sequence[str | None]) -> tuple[list[str], list[str]]:
    """The right labels and the outcomes of the items that are not missing."""
    if ABSTAINED in gold:
        raise ValueError("the right label of an item is empty")
    known = [(right, outcome) for right, outcome in zip(gold, outcomes, strict=True) if outcome is not None]
    return [right for right, _ in known], [outcome for _, outcome in known]


def accuracy(gold: Sequence[str], outcomes: Sequence[str | None]) -> Score:
    """The share of items whose outcome is the right label, in [0, 1]; abstentions are not right.

    Args:
        gold: the right label of each item.
        outcomes: the outcome of each item, in the same order and spelling.

    Returns:
        A value of None if every item is missing.

    Raises:
        ValueError: the lists have different lengths, or a right label is empty.
    """
    right, given = _known_labels(gold, outcomes)
    value = len(_correct_labels(right, given)) / len(right) if right else None
    return Score(value, len(right), len(gold) - len(right))


def macro_f1(gold: Sequence[str], outcomes: Sequence[str | None], labels: Sequence[str] | None = None) -> Score:
    """The mean over labels of F1 = 2 TP / (2 TP + FP + FN), in [0, 1].

    An abstention is a miss (FN) of the right label, not a separate label.

    Args:
        gold: the right label of each item.
        outcomes: the outcome of each item.
        labels: the labels to average over; by default the labels that are right for some item with an outcome. If an
            answer is outside this list, it is a miss (FN) of the right label, but not a false positive (FP) of another
            label. A label that is neither right for any item nor given as an answer has no F1, and is left out of the
            mean.

    Returns:
        A value of None if every item is missing.

    Raises:
        ValueError: as `accuracy`, or a right label is not in ``labels``.
    """
    right, given = _known_labels(gold, outcomes)
    if labels is not None and not set(gold) <= set(labels):
        raise ValueError(f"{sorted(set(gold) - set(labels))} are right labels, but not among {list(labels)}")
    counts = _label_counts(right, given, labels or dict.fromkeys(right))
    return _label_score(mean_f1(*counts, absent=bool(labels)), right, gold)


def balanced_accuracy(gold: Sequence[str], outcomes: Sequence[str | None]) -> Score:
    """The mean over labels of recall = TP / (TP + FN), in [0, 1].

    The labels are all labels that are right for an item with an outcome. Abstentions are misses (FN).

    Args:
        gold: the right label of each item.
        outcomes: the outcome of each item, in the same order and spelling.

    Returns:
        A value of None if every item is missing.

    Raises:
        ValueError: as `accuracy`.
    """
    right, given = _known_labels(gold, outcomes)
    return _label_score(mean_recall(*_label_counts(right, given, dict.fromkeys(right))), right, gold)


class LabelMetrics(NamedTuple):
    """Precision, recall and F1 of one label; each is None if its divisor is 0."""

    right: int
    """The number of items for which the label is right."""
    given: int
    """The number of items that were answered with the label."""
    precision: float | None
    """TP / (TP + FP)."""
    recall: float | None
    """TP / (TP + FN)."""
    f1: float | None
    """2 TP / (2 TP + FP + FN)."""


def by_label(gold: Sequence[str], outcomes: Sequence[str | None], labels: Sequence[str]) -> dict[str, LabelMetrics]:
    """Precision, recall and F1 of each label, by scikit-learn, over the known items; abstentions are misses."""
    right, given = _known_labels(gold, outcomes)
    counts = Counter(given)
    if not right:
        return {label: LabelMetrics(0, 0, None, None, None) for label in labels}
    found = load_extra("sklearn.metrics").precision_recall_fscore_support(
        right, given, labels=list(labels), zero_division=np.nan
    )
    return {
        label: LabelMetrics(int(support), counts[label], *(None if np.isnan(x) else float(x) for x in shares))
        for label, *shares, support in zip(labels, *found, strict=True)
    }


def _label_score(value: Any, known: Sequence[str], gold: Sequence[str]) -> Score:
    """Make a score; ``known`` has the right labels of the items with an outcome, ``gold`` those of all items."""
    return Score(float(value) if known else None, len(known), len(gold) - len(known))


def _correct_labels(right: Sequence[str], given: Sequence[str]) -> list[str]:
    """The labels of the items that were answered correctly."""
    return [a for a, b in zip(right, given, strict=True) if a == b]


def _label_counts(right: Sequence[str], given: Sequence[str], labels: Iterable[str]) -> list[Any]:
    """Three counts for each label: correct answers with it, items for which it is right, and answers with it."""
    names = list(labels)
    return [
        np.array([counted[n] for n in names]) for counted in map(Counter, (_correct_labels(right, given), right, given))
    ]


def mean_f1(hits: Any, right: Any, given: Any, *, absent: bool = False) -> Any:
    """`macro_f1` from arrays of counts of shape (..., labels), as an array of shape (...); NaN if undefined."""
    both = right + given
    return mean_known(ratio(2 * hits, both if absent else np.where(right > 0, both, 0)))


def mean_recall(hits: Any, right: Any, given: Any) -> Any:
    """`balanced_accuracy` from arrays of counts; the arguments and the result are as for `mean_f1`."""
    return mean_known(ratio(hits, right))


def ratio(parts: Any, wholes: Any) -> Any:
    """Divide two arrays element by element; NaN if the divisor is not positive."""
    return np.divide(parts, wholes, out=np.full(np.shape(wholes), np.nan), where=np.asarray(wholes) > 0)


def mean_known(values: Any, weights: Any = 1) -> Any:
    """The weighted means over an array's last axis, ignoring NaN; NaN if all values with a weight are NaN."""
    return ratio(np.nansum(values * weights, axis=-1), (~np.isnan(values) * weights).sum(axis=-1))


# --- an item ----------------------------------------------------------------------------------------------------------

COMPUTED = ("accuracy", "exact_match", "token_f1", "numeric_match")
"""Measures of `moot.evals._benchmarks.catalogue.Benchmark.metrics` that are computed here."""
WHOLE_YES_NO = ("hotpotqa", "2wikimultihopqa")
"""Tasks whose official scripts compare the answers yes and no as a whole, not word by word."""


def item_score(measure: str, task: str, outcome: str | None, gold: Collection[str]) -> float | None:
    """The score of an outcome, in [0, 1]; with several right answers, the highest score. Returns the score; None if the
    outcome is missing.
    """
    return best_score(_metrics_for(task)[measure], outcome, gold)


def _metrics_for(task: str) -> dict[str, Metric]:
    normalise = {"expression": normal_expression}.get(TASKS[task].kind, normalise_squad)
    normalise = normalise_triviaqa if task == "triviaqa" else normalise
    return {
        "accuracy": lambda given, gold: accuracy([gold], [given]).value,
        "exact_match": partial(exact_match, normalise=normalise),
        "token_f1": partial(token_f1, normalise=normalise, whole=YES_NO if task in WHOLE_YES_NO else ()),
        "numeric_match": numeric_match,
    }


# --- abstentions ------------------------------------------------------------------------------------------------------


def under_policies(
    gold: Sequence[str],
    outcomes: Sequence[str | None],
    *,
    open_label: str | None = None,
    supported: str | None = None,
    score: LabelScore = accuracy,
) -> dict[str, Score | None]:
    """A score under each policy for abstentions. Each of the last two scores is None if the task does not have the
    label.
    """
    answered = [(right, outcome) for right, outcome in zip(gold, outcomes, strict=True) if outcome != ABSTAINED]
    of_answered = score([right for right, _ in answered], [outcome for _, outcome in answered])

    def counted_as(label: str | None) -> Score | None:
        return None if label is None else score(gold, [label if o == ABSTAINED else o for o in outcomes])

    return {
        "wrong": score(gold, outcomes),
        "left_out": replace(of_answered, left_out=of_answered.left_out + len(gold) - len(answered)),
        "open_label": counted_as(open_label),
        "burden_of_refutation": counted_as(supported),
    }


# --- evidence ---------------------------------------------------------------------------------------------------------

Sentence = tuple[str, int]
"""A page's title and the number of a sentence on it."""


def fever_page(title: str) -> str:
    """The title of a Wikipedia page in its readable spelling; FEVER writes ``_`` for a space and ``-LRB-`` for ``(``.

    Args:
        title: the title in either spelling.
    """
    return unicodedata.normalize("NFC", page_title(title))


def fever_score(
    gold: Sequence[str],
    outcomes: Sequence[str | None],
    sets: Sequence[Sequence[Collection[Sentence]]],
    found: Sequence[Sequence[Sentence] | None],
    *,
    open_label: str = "NOT ENOUGH INFO",
    first: int = 5,
) -> Score:
    """FEVER score (Thorne et al. 2018): the share of items with the right label and one full set of evidence.

    A set is full if all its sentences are among the first ``first`` sentences found. If `open_label` is right, only the
    label counts. Titles are compared by `fever_page`. An item whose ``found`` is None (the system reports no pages and
    sentences) is left out if it has an outcome, else missing. The value is None if no item counts.
    """
    values: list[float | None] = []
    left_out = 0
    for right, outcome, alternatives, given in zip(gold, outcomes, sets, found, strict=True):
        if right != open_label and not (alternatives and all(alternatives)):
            raise ValueError(f"a claim with the label {right!r} needs sets of evidence, none of them empty")
        if outcome is not None and given is None:
            left_out += 1
            continue
        counted = {(fever_page(page), number) for page, number in (given or [])[:first]}
        full = any(
            all((fever_page(page), number) in counted for page, number in alternative) for alternative in alternatives
        )
        values.append(None if outcome is None else float(outcome == right and (right == open_label or full)))
    return mean_score(values, left_out)


CELLS = ("cell", "header_cell", "item", "table_caption")
"""Kinds of elements of a page that count as cells of a table."""


def feverous_score(
    gold: Sequence[str],
    outcomes: Sequence[str | None],
    sets: Sequence[Sequence[Collection[tuple[str, str]]]],
    found: Sequence[Sequence[tuple[str, str]] | None],
    *,
    first: int = 5,
    first_cells: int = 25,
) -> Score:
    """FEVEROUS score (Aly et al. 2021): the share of items with the right label and one full set of evidence.

    A set is full if all its elements are among the elements that count (``first``, ``first_cells``). Titles are
    compared by `fever_page`. Unlike FEVER, FEVEROUS requires evidence even for claims without enough information.

    The value is None if every item is missing or left out.
    """
    values: list[float | None] = []
    left_out = 0
    for right, outcome, alternatives, given in zip(gold, outcomes, sets, found, strict=True):
        if not (alternatives and all(alternatives)):
            raise ValueError("each claim needs sets of evidence, none of them empty")
        if outcome is not None and given is None:
            left_out += 1
            continue
        places = [(fever_page(page), element) for page, element in given or []]
        cells = [place for place in places if place[1].rstrip("_0123456789") in CELLS]
        counted = {*cells[:first_cells], *[place for place in places if place not in cells][:first]}
        full = any(
            all((fever_page(page), element) in counted for page, element in alternative) for alternative in alternatives
        )
        values.append(None if outcome is None else float(outcome == right and full))
    return mean_score(values, left_out)


def citation_precision(documents: Sequence[Document | None]) -> Score:
    """The mean over documents of a share: the document's verified citations / all its citations, in [0, 1].

    A verified citation quotes words of the evidence that it names. The counts are in ``metrics.citations`` of a result
    document; without this field, the citations in its turns are counted. Documents without citations are left out. An
    item without a document, or with a document whose status is not ``done``, is missing.
    """
    values: list[float | None] = []
    left_out = 0
    for document in documents:
        if document is None or document["status"] != "done":
            values.append(None)
            continue
        counts = document["metrics"].get("citations") or count_citations(document["turns"])
        if counts["total"]:
            values.append(counts["verified"] / counts["total"])
        else:
            left_out += 1
    return mean_score(values, left_out)


def gold_recall(gold: Sequence[Collection[str]], found: Sequence[Collection[str] | None]) -> Score:
    """The mean over items of a share: the item's gold ids that were found / all its gold ids, in [0, 1].

    An item without gold ids is left out if ``found`` has a value for it; otherwise it is missing.
    """
    pairs = [(set(right), given) for right, given in zip(gold, found, strict=True) if right or given is None]
    values = [None if given is None else len(right & set(given)) / len(right) for right, given in pairs]
    return mean_score(values, len(gold) - len(pairs))
