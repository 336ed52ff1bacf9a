"""Inspect scorers for debates, one for each measure of a single item, and their metrics over all items.

Each scorer reads the result document that `moot.evals._runs.solver.debate` stores. A sample without an outcome is
missing data, not a wrong answer: it is unscored, and Inspect counts the unscored samples. Scorers of answers score an
abstention as a wrong answer, and mark it. If a debate failed because its own replies could not be used, its outcome is
an abstention.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from math import isnan
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from inspect_ai.log import transcript
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, mean, metric, scorer, stderr
from inspect_ai.solver import TaskState
from inspect_ai.util import store_from_events
from moot.core.errors import MootError
from moot.evals._analyses.ev2r import judge_recall
from moot.evals._analyses.graders import grade_answer
from moot.evals._runs.solver import DOCUMENT, parsed_document
from moot.evals._stats import averitec, metrics
from moot.evals._stats.metrics import fever_page, item_score
from moot.evals._stats.official import cited_answers, last_part, official_score, question_answers
from moot.evals._stats.outcomes import ABSTAINED, INPUTS, Document, outcome_of
from moot.evals._stats.rationales import pooled_f1
from moot.nodes._models.chat_models import open_chat_model
from moot.nodes._models.speaker import Speaker
from moot.nodes._texts.labels import fold_label
from moot.nodes._texts.verdict import verdict_turns
from moot.retrievers import Evidence
from moot.retrievers._archives import page_of

Measure = Callable[[str, TaskState, Sequence[str], Document], Awaitable[Score | float | None] | Score | float | None]
"""Computes a sample's value from its outcome, the sample, its right answers and its result document. The value is None
if it is undefined. A `Score` is used unchanged."""


_parsed = lru_cache(maxsize=16)(parsed_document)  # cached, because all scorers of a sample read the same document


def measured(measure: Measure, *, of_answers: bool = True) -> Scorer:
    """Make a scorer from a measure of a debate.

    A sample is unscored if it has no outcome, its value is undefined, or the judge of its answer fails.

    Args:
        measure: computes the value of a sample.
        of_answers: whether scores include the answer, its reasons and metadata. False saves memory, because Inspect
            keeps all scores until the end.
    """

    async def score(state: TaskState, target: Target) -> Score:
        # a sample that Inspect recovered after a kill has an empty store, but its events contain the document
        stored = state.store.get(DOCUMENT) or store_from_events([*transcript().events]).get(DOCUMENT)
        document = None if stored is None else _parsed(stored)
        outcome = outcome_of(document, list(target))
        if document is None or outcome is None:
            return Score.unscored(reason="no_result", explanation="The debate has no outcome.")
        value = measure(outcome, state, list(target), document)
        try:
            value = await value if isinstance(value, Awaitable) else value
        except MootError as error:  # the debate remains valid even if the judge of its answer or its evidence fails
            return Score.unscored(reason="grader_failed", explanation=error.detail)
        if isinstance(value, Score):
            return value
        if value is None:
            return Score.unscored(reason="undefined", explanation="This measure is undefined for this sample.")
        if not of_answers:
            return Score(value=value)
        metadata = {"outcome": outcome, "gold": list(target), "stop_reason": document["stop_reason"]}
        return Score(
            value=value, answer=outcome or "(abstained)", explanation=reasons_text(document), metadata=metadata
        )

    return score


def reasons_text(document: Document) -> str:
    """The reasons of the verdict as its speakers wrote them, or the error of a failed debate; else a note."""
    if document["error"]:
        return str(document["error"]["detail"])
    reasons = [turn.get("rationale") or turn.get("reason") or "" for turn in verdict_turns(dict(document))]
    return "\n\n".join(filter(None, reasons)) or f"(no reasons; stop reason: {document['stop_reason']})"


# --- metrics over all samples -----------------------------------------------------------------------------------------


def _label_metric(compute: metrics.LabelScore) -> Metric:
    def value(scores: list[SampleScore]) -> float:
        metadata = [score.score.metadata or {} for score in scores]
        result = compute([entry["gold"][0] for entry in metadata], [entry["outcome"] for entry in metadata]).value
        return float("nan") if result is None else result  # Inspect's value for an undefined score

    return value


@metric(name="macro_f1")
def macro_f1() -> Metric:
    """Macro-F1 over the scored samples (`moot.evals._stats.metrics.macro_f1`)."""
    return _label_metric(metrics.macro_f1)


@metric(name="balanced_accuracy")
def balanced_accuracy() -> Metric:
    """Balanced accuracy over the scored samples (`moot.evals._stats.metrics.balanced_accuracy`)."""
    return _label_metric(metrics.balanced_accuracy)


@metric(name="abstained")
def abstained() -> Metric:
    """The share of abstentions among the scored samples; NaN if no sample is scored."""

    def value(scores: list[SampleScore]) -> float:
        abstentions = [(score.score.metadata or {})["outcome"] == ABSTAINED for score in scores]
        return sum(abstentions) / len(abstentions) if abstentions else float("nan")

    return value


# --- scorers ----------------------------------------------------------------------------------------------------------


@scorer(metrics=[mean(), stderr(), macro_f1(), balanced_accuracy(), abstained()], name="accuracy")
def accuracy() -> Scorer:
    """Whether the answer is the right label or letter."""
    return item_scorer("accuracy")


@scorer(metrics=[mean(), stderr(), abstained()], name="exact_match")
def exact_match() -> Scorer:
    """Whether the answer equals a right answer, compared as by the task's official script."""
    return item_scorer("exact_match")


@scorer(metrics=[mean(), stderr()], name="token_f1")
def token_f1() -> Scorer:
    """F1 of the words that the answer and the nearest right answer share, compared as by the task's official script."""
    return item_scorer("token_f1")


@scorer(metrics=[mean(), stderr(), abstained()], name="numeric_match")
def numeric_match() -> Scorer:
    """Whether the answer is the right number."""
    return item_scorer("numeric_match")


def item_scorer(measure: str) -> Scorer:
    """Make a scorer for a measure that needs no model (`moot.evals._stats.metrics.item_score`)."""
    return measured(lambda outcome, state, gold, document: item_score(measure, document["task"]["name"], outcome, gold))


@scorer(metrics=[mean(), stderr()], name="judged")
def judged(model: str) -> Scorer:
    """Whether a model judges that the answer means the same as a right answer (MADKE).

    Two cases need no call: an abstention is wrong, and an answer that equals a right answer as text is right. If the
    call fails or the judge gives no usable reply, the sample is unscored.

    Args:
        model: the judge, as provider:name. It should not be a model of the debaters.
    """

    async def value(outcome: str, state: TaskState, gold: Sequence[str], document: Document) -> float | None:
        speaker = Speaker("equivalence", await open_chat_model(model))
        is_same = await grade_answer(document["claim"], document["task"], outcome, gold, speaker)
        return None if is_same is None else float(is_same)

    return measured(value)


@scorer(metrics=[mean(), stderr()], name="citation_precision")
def citation_precision() -> Scorer:
    """The share of citations whose quotes are in the evidence that they name.

    A sample is unscored if there are no citations, or if the debate failed.
    """
    return measured(
        lambda outcome, state, gold, document: metrics.citation_precision([document]).value, of_answers=False
    )


# --- official scores that require evidence ----------------------------------------------------------------------------


def _is_computable(scores: Sequence[SampleScore]) -> bool:
    """Whether a verdict could cite the evidence that an official score requires, and the zeros of `gold_recall` are no
    misses of evidence without an address.
    """
    metadata = [score.score.metadata or {} for score in scores]
    unaddressed = any(one.get("unaddressed") for one in metadata)
    return any(one["named"] for one in metadata) and not (unaddressed and not any(s.score.as_float() for s in scores))


@metric(name="mean")
def mean_if_named() -> Metric:
    """The mean, or the F1 over all items for one of `POOLED_MEASURES`; NaN if it cannot be computed for the run."""

    def value(scores: list[SampleScore]) -> float:
        metadata = [score.score.metadata or {} for score in scores]
        if not _is_computable(scores):
            return float("nan")
        counts = [one["counts"] for one in metadata if "counts" in one]
        if counts:
            return float(pooled_f1(np.sum(counts, axis=0)))
        return sum(score.score.as_float() for score in scores) / len(scores)

    return value


@metric(name="stderr")
def stderr_if_named() -> Metric:
    """The standard error of the mean; NaN if `mean_if_named` is NaN."""
    error = stderr()

    def value(scores: list[SampleScore]) -> float:
        return float(error(scores)) if _is_computable(scores) else float("nan")  # type: ignore[arg-type]

    return value


@scorer(metrics=[mean_if_named(), stderr_if_named()], name="gold_recall")
def gold_recall() -> Scorer:
    """The share of gold evidence that was found.

    A sample is unscored if its item has no gold evidence, or if the debate searched no source. If gold evidence is
    named by addresses or ids, the mean is NaN for a run that found no piece of it, but pieces without an address.
    """

    def value(outcome: str, state: TaskState, gold: Sequence[str], document: Document) -> Score | None:
        searched = [piece for piece in document["evidence"] if any(r["query"] for r in piece["retrievals"])]
        named = state.metadata.get("gold_evidence") or {}
        sets = gold_and_found(named, searched)
        if sets is None or not document["corpora"]:
            return None
        recall = metrics.gold_recall([sets[0]], [sets[1]]).value
        if recall is None:
            return None
        by_address = not named.get("pages") and (named.get("documents") or named.get("urls"))
        unaddressed = bool(by_address) and not recall and not (searched and all(p.get("url") for p in searched))
        return Score(value=recall, metadata={"named": not unaddressed, "unaddressed": unaddressed})

    return measured(value, of_answers=False)


def official_scorer(measure: str) -> Scorer:
    """Make a scorer for an official score (`moot.evals._stats.official`)."""

    def value(outcome: str, state: TaskState, gold: Sequence[str], document: Document) -> Score | None:
        given = (state.metadata.get(INPUTS) or {}).get("given") or []
        found, named = official_score(measure, outcome, gold, document, state.metadata.get("gold_evidence"), given)
        if found is None or isinstance(found, float):
            return None if found is None else Score(value=found, metadata={"named": named})
        # NaN for an item without chosen and gold things, which adds nothing
        return Score(value=float(pooled_f1(found)), metadata={"named": named, "counts": list(found)})

    return measured(value, of_answers=False)


@scorer(metrics=[mean_if_named(), stderr_if_named()], name="fever_score")
def fever_score() -> Scorer:
    """Whether the label is right and the verdict cites all sentences of a gold set (FEVER).

    Only the first five cited sentences count. The label NOT ENOUGH INFO needs no citation.
    """
    return official_scorer("fever_score")


@scorer(metrics=[mean_if_named(), stderr_if_named()], name="feverous_score")
def feverous_score() -> Scorer:
    """Whether the label is right and the verdict cites all elements of a gold set (FEVEROUS).

    Of the cited sentences, titles and sections, only the first five count. Of the cited cells, list items and table
    captions, only the first 25 count.
    """
    return official_scorer("feverous_score")


@scorer(metrics=[mean_if_named(), stderr_if_named()], name="hover_score")
def hover_score() -> Scorer:
    """Whether the label is right and the verdict cites a gold sentence of each gold page (HoVer).

    If there are k gold pages, the first two cited sentences of each of the first k + 1 cited pages count.
    """
    return official_scorer("hover_score")


@scorer(metrics=[mean_if_named(), stderr_if_named()], name="support_em")
def support_em() -> Scorer:
    """Whether the verdict quotes exactly the supporting facts: all of them, and no other sentence (HotpotQA)."""
    return official_scorer("support_em")


@scorer(metrics=[mean_if_named(), stderr_if_named()], name="support_f1")
def support_f1() -> Scorer:
    """F1 of the set of sentences that the verdict quotes, against the set of supporting facts (HotpotQA)."""
    return official_scorer("support_f1")


@scorer(metrics=[mean_if_named(), stderr_if_named()], name="joint_em")
def joint_em() -> Scorer:
    """Whether the answer equals a right answer, and the verdict quotes exactly the supporting facts (HotpotQA)."""
    return official_scorer("joint_em")


@scorer(metrics=[mean_if_named(), stderr_if_named()], name="joint_f1")
def joint_f1() -> Scorer:
    """F1 of the joint precision and the joint recall (HotpotQA).

    The joint precision is the answer's precision times the precision of the supporting facts. The joint recall is the
    product of the two recalls.
    """
    return official_scorer("joint_f1")


@scorer(metrics=[mean_if_named()], name="abstract_label_f1")
def abstract_label_f1() -> Scorer:
    """F1 of the abstracts that the verdict cites: right are gold ones, if the label is right (SciFact)."""
    return official_scorer("abstract_label_f1")


@scorer(metrics=[mean_if_named()], name="abstract_f1")
def abstract_f1() -> Scorer:
    """As `abstract_label_f1`, but the first three cited sentences must include a full gold set (SciFact)."""
    return official_scorer("abstract_f1")


@scorer(metrics=[mean_if_named()], name="sentence_selection_f1")
def sentence_selection_f1() -> Scorer:
    """F1 of the sentences that the verdict cites: right are those of gold sets that are cited in full (SciFact)."""
    return official_scorer("sentence_selection_f1")


@scorer(metrics=[mean_if_named()], name="sentence_f1")
def sentence_f1() -> Scorer:
    """As `sentence_selection_f1`, but the label must also be right (SciFact)."""
    return official_scorer("sentence_f1")


@scorer(metrics=[mean_if_named()], name="rationale_f1")
def rationale_f1() -> Scorer:
    """F1 of the sentences that the verdict cites, which are right if all gold sentences are cited (Check-COVID)."""
    return official_scorer("rationale_f1")


@scorer(metrics=[mean_if_named(), stderr_if_named()], name="averitec_questions")
def averitec_questions() -> Scorer:
    """How well queries of the quotes cover the gold questions: Hungarian METEOR (AVeriTeC 2024)."""
    return official_scorer("averitec_questions")


@scorer(metrics=[mean_if_named(), stderr_if_named()], name="averitec_evidence")
def averitec_evidence() -> Scorer:
    """How well queries and quotes cover the gold questions and answers: Hungarian METEOR (AVeriTeC 2024)."""
    return official_scorer("averitec_evidence")


@scorer(metrics=[mean_if_named(), stderr_if_named()], name="averitec_score")
def averitec_score() -> Scorer:
    """Whether the label is right, and `averitec_evidence` is above .25 (AVeriTeC 2024)."""
    return official_scorer("averitec_score")


@scorer(metrics=[mean_if_named(), stderr_if_named()], name="all_answers")
def all_answers() -> Scorer:
    """Whether the answer has all right answers, and no wrong one (RAMDocs)."""
    return official_scorer("all_answers")


@scorer(metrics=[mean_if_named(), stderr_if_named()], name="ev2r_recall")
def ev2r_recall(model: str) -> Scorer:
    """The share of the facts of the gold questions and answers that queries and quotes state, by a judge (Ev2R)."""

    async def value(outcome: str, state: TaskState, gold: Sequence[str], document: Document) -> Score | None:
        questions = (state.metadata.get("gold_evidence") or {}).get("questions") or []
        if not questions:
            return None
        pairs = cited_answers(document)
        recall = await judge_recall(document["claim"], question_answers(questions), pairs, model)
        return Score(value=recall, metadata={"named": bool(pairs)})

    return measured(value, of_answers=False)


@scorer(metrics=[mean_if_named(), stderr_if_named()], name="ev2r_score")
def ev2r_score(model: str) -> Scorer:
    """Whether the label is right, and `ev2r_recall` is at least .5 (AVeriTeC 2025). Arguments as for `ev2r_recall`."""
    recall_of = ev2r_recall(model)

    async def value(outcome: str, state: TaskState, gold: Sequence[str], document: Document) -> Score | None:
        # the scorer of the recall usually comes first, and its call need not be paid again
        known = (state.scores or {}).get("ev2r_recall") or await recall_of(state, Target(gold))
        if known is None or isnan(known.as_float()):
            return known
        return known.model_copy(
            update={"value": averitec.ev2r_score(right=outcome == gold[0], recall=known.as_float())}
        )

    return measured(value, of_answers=False)


def gold_and_found(
    gold_evidence: Mapping[str, Any] | None, evidence: Sequence[Evidence]
) -> tuple[set[str], set[str]] | None:
    """Names of an item's gold evidence and of the evidence found, for `moot.evals._stats.metrics.gold_recall`.

    Names are normalised titles, ids, addresses or texts. A piece of gold evidence was found if its name is in both
    sets. If the item has several kinds of gold evidence, only the first kind in this list is used:

    - ``pages`` match the title of a piece of evidence;
    - ``documents`` match a piece's title, or the last part of its address (a PubMed id);
    - ``urls`` match a piece's address; only the host without "www." and the path are compared.
      For a copy, such as an archived page, the address of its page is compared;
    - ``texts`` match a piece if one text contains the other; case and the amount of white space are ignored.

    None if the item has no gold evidence of these kinds.
    """
    named = gold_evidence or {}
    if pages := named.get("pages"):
        return {_normal_title(page) for page in pages}, {_normal_title(piece["title"]) for piece in evidence}
    if documents := named.get("documents"):
        ends = {last_part(_normal_address(piece.get("url", ""))) for piece in evidence}
        return {fold_label(str(document)) for document in documents}, {fold_label(end) for end in ends} | {
            _normal_title(p["title"]) for p in evidence
        }
    if urls := named.get("urls"):
        return {_normal_address(url) for url in urls}, {_normal_address(piece.get("url", "")) for piece in evidence} - {
            ""
        }
    if texts := named.get("texts"):
        gold, found = {_normal_text(text) for text in texts}, [_normal_text(piece["text"]) for piece in evidence]
        return gold, {text for text in gold if any(text in piece or (piece and piece in text) for piece in found)}
    return None


def _normal_title(title: str) -> str:
    return fever_page(title).casefold()


def _normal_address(url: str) -> str:
    try:
        parts = urlsplit(page_of(url))
    except ValueError:  # the text is not an address, so it must match nothing
        return ""
    return f"{(parts.hostname or '').removeprefix('www.')}{parts.path.rstrip('/')}"


def _normal_text(text: str) -> str:
    return " ".join(text.casefold().split())
