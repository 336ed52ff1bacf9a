"""Official scores that require evidence.

These are the scores of FEVER, FEVEROUS, HoVer, SciFact, Check-COVID and AVeriTeC, and HotpotQA's scores of supporting
facts, alone and joint with the answer; besides, RAMDocs' exact match. A system's evidence is the evidence that its
verdict cites (`moot.nodes._texts.verdict.verdict_citations`). For HotpotQA, the evidence is the sentences that the
citations quote, in whole or in part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from moot.evals._benchmarks.records import ELEMENTS
from moot.evals._stats.averitec import EV2R_MEASURES, METEOR_MEASURES, averitec_score, hungarian_score
from moot.evals._stats.metrics import (
    YES_NO,
    all_answers_match,
    exact_match,
    fever_page,
    fever_score,
    feverous_score,
    shared_words,
)
from moot.evals._stats.observations import Observation
from moot.evals._stats.outcomes import Document
from moot.evals._stats.rationales import (
    POOLED_MEASURES,
    Abstract,
    ChosenAbstract,
    Counts,
    rationale_counts,
    scifact_counts,
)
from moot.nodes._texts.quotes import find_quote
from moot.nodes._texts.verdict import is_open, verdict_citations
from moot.retrievers._evidence import Origin, clean

PAGE_MEASURES = ("fever_score", "feverous_score", "hover_score")
FACT_MEASURES = ("support_em", "support_f1", "joint_em", "joint_f1")
ALL_ANSWERS = "all_answers"
GOLD_RECALL = "gold_recall"
OFFICIAL_MEASURES = (*PAGE_MEASURES, *FACT_MEASURES, *POOLED_MEASURES, *METEOR_MEASURES, ALL_ANSWERS)
"""Measures of `moot.evals._benchmarks.catalogue.Benchmark.metrics` that this module computes."""
OPEN_LABEL = "NOT ENOUGH INFO"
SENTENCE = "sentence_"
Fact = tuple[str, int]
"""A paragraph's title, or a document's id, and the number of a sentence in it."""
PlaceOf = Callable[[Mapping[str, Any] | Origin], tuple[str, str] | None]
"""The page or the document of a piece of evidence, and its element there; None if its address names no element."""


class GoldMatch(NamedTuple):
    """How well evidence or an answer matches the gold, in [0, 1]. ``exact`` is 1 if it equals the gold, else 0."""

    exact: float
    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """2 x precision x recall / (precision + recall); 0 if precision and recall are 0."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def match_facts(found: Collection[Fact], gold: Collection[Fact]) -> GoldMatch:
    """HotpotQA's scores of supporting facts (Yang et al. 2018), as its script computes them."""
    cited, right = set(found), set(gold)
    shared = len(cited & right)
    return GoldMatch(float(cited == right), shared / len(cited) if cited else 0.0, shared / len(right))


def joint_match(answer: GoldMatch, facts: GoldMatch) -> GoldMatch:
    """HotpotQA's joint scores: the answer's exact match, precision and recall, each times the same score of the facts.

    The joint F1 is computed from the joint precision and recall.
    """
    return GoldMatch(*(score * other for score, other in zip(answer, facts, strict=True)))


def match_answer(outcome: str, gold: Collection[str]) -> GoldMatch:
    """The scores of a free-text answer, as HotpotQA's script computes them.

    If there are several right answers, only the best match counts: by ``exact``, and in a tie by F1.
    """

    def match_with(right: str) -> GoldMatch:
        shared, words, gold_words = shared_words(outcome, right, whole=YES_NO)
        return GoldMatch(exact_match(outcome, right) or 0.0, shared / words, shared / gold_words)

    return max((match_with(right) for right in gold), key=lambda match: (match.exact, match.f1))


def hover_score(gold: str, outcome: str, facts: Collection[Fact], found: Sequence[Fact]) -> float:
    """HoVer score of an item (Jiang et al. 2020).

    The score is 1 if the label is right and a right sentence of each gold page is found, else 0. Gold pages are the
    pages with right sentences. If there are k gold pages, only the first k + 1 pages found count, with the first two
    sentences found on each page (hover-nlp.github.io).
    """
    right = {(fever_page(page), number) for page, number in facts}
    pages = {page for page, _ in right}
    by_page: dict[str, list[int]] = {}
    for page, number in found:
        by_page.setdefault(fever_page(page), []).append(number)
    counted = {(page, n) for page, numbers in [*by_page.items()][: len(pages) + 1] for n in numbers[:2]}
    return float(outcome == gold and pages == {page for page, _ in counted & right})


# --- the evidence of a verdict --------------------------------------------------------------------------------------


def page_and_element(origin: Mapping[str, Any] | Origin) -> tuple[str, str] | None:
    """The title of a piece of evidence, and the element at the end of its address, as in ``#sentence_3``.

    None if the address does not end with an element.
    """
    try:
        element = urlsplit(str(origin.get("url") or "")).fragment
    except ValueError:  # not an address
        return None
    return (origin["title"], element) if re.fullmatch(ELEMENTS, element) else None


def document_and_element(origin: Mapping[str, Any] | Origin) -> tuple[str, str] | None:
    """As `page_and_element`, but with the document's id, the last part of the address's path, in place of the title."""
    found = page_and_element(origin)
    return found and (last_part(urlsplit(str(origin.get("url"))).path), found[1])


def last_part(path: str) -> str:
    """The last part of an address's path, after a slash or a colon, as in ``CorpusID:4983``."""
    return re.split("[/:]", path)[-1]


def cited_places(document: Document, place_of: PlaceOf = page_and_element) -> list[tuple[str, str]] | None:
    """Each (page, element) of the cited pieces of evidence, once, in the order of citation.

    None if no piece of evidence in the document has an address with an element.
    """
    known = {p["id"]: [*filter(None, map(place_of, (p, *p.get("also", ()))))] for p in document["evidence"]}
    if not any(known.values()):
        return None
    cited = [
        place for citation in verdict_citations(dict(document)) for place in known.get(citation["evidence_id"], ())
    ]
    return list(dict.fromkeys(cited))


def numbered_sentences(places: Sequence[tuple[str, str]]) -> list[Fact]:
    """The places that are sentences, with their numbers."""
    return [(page, int(e.removeprefix(SENTENCE))) for page, e in places if e.startswith(SENTENCE)]


def cited_answers(document: Document) -> list[tuple[str, str]]:
    """The verdict's checked quotes as answers, each with its question: the first query that found its text.

    If no query found it, as with a text that came with the claim, the question is the claim.
    """
    question = {
        piece["id"]: next(filter(None, (found["query"] for found in piece["retrievals"])), document["claim"])
        for piece in document["evidence"]
    }
    cited = [citation for citation in verdict_citations(dict(document)) if citation["verified"]]
    return [(question[citation["evidence_id"]], citation["quote"]) for citation in cited]


def question_answers(questions: Sequence[Mapping[str, Any]]) -> list[str]:
    """AVeriTeC's gold questions with their answers as texts, one for each answer, as its script writes them."""
    return [
        f"{asked['question']} {answer}"
        for asked in questions
        for answer in asked["answers"] or ("No answer could be found.",)
    ]


def cited_facts(
    document: Document, given: Sequence[Mapping[str, str]], sentence_starts: Sequence[Sequence[int]]
) -> list[Fact] | None:
    """The sentences that the verdict quotes from texts that came with the claim. None if the verdict cites nothing; []
    if it quotes no sentence of these texts.
    """
    citations = verdict_citations(dict(document))
    titles = {piece["id"]: piece["title"] for piece in document["evidence"]}
    facts: dict[Fact, None] = {}
    for citation in citations:
        for text, starts in zip(given, sentence_starts, strict=True):
            if clean(text["title"]) == titles.get(citation["evidence_id"]) and (
                span := find_quote(citation["quote"], text["text"])
            ):
                ends = [*starts[1:], len(text["text"])]
                numbers = [n for n, (a, b) in enumerate(zip(starts, ends, strict=True)) if a < span[1] and span[0] < b]
                facts |= dict.fromkeys((text["title"], n) for n in numbers)
    return list(facts) if citations else None


# --- scores of an item and of a run -----------------------------------------------------------------------------------


def official_score(
    measure: str,
    outcome: str,
    gold: Sequence[str],
    document: Document,
    gold_evidence: Mapping[str, Any] | None,
    given: Sequence[Mapping[str, str]] = (),
) -> tuple[float | Counts | None, bool]:
    """An official score of one item, and whether the verdict could cite the kind of evidence that the score requires.
    Returns first, the score in [0, 1], or the item's counts for one of `POOLED_MEASURES`; None if the score requires
    evidence for this item, but the benchmark's file does not say which evidence is right, or gives it with the claim.
    """
    known = gold_evidence or {}
    sets = known.get("sets") or []
    if measure == ALL_ANSWERS:
        return all_answers_match(outcome, gold, known.get("wrong_answers") or ()), True
    if measure in METEOR_MEASURES:
        pairs = cited_answers(document)
        return _averitec(measure, pairs, known.get("questions") or [], right=outcome == gold[0]), bool(pairs)
    if measure in POOLED_MEASURES:
        chosen = cited_places(document, document_and_element)
        if given or not (sets or is_open(document["task"], gold[0])):
            return None, chosen is not None
        sentences = numbered_sentences(chosen or [])
        if measure == "rationale_f1":
            return rationale_counts([(id, n) for id, n in sets[0]] if sets else [], sentences), chosen is not None
        label = None if not outcome or is_open(document["task"], outcome) else outcome
        return _scifact(label, gold[0], sets, sentences)[measure], chosen is not None
    if measure in FACT_MEASURES:
        if not sets or "sentences" not in known:
            return None, False
        facts = cited_facts(document, given, known["sentences"])
        right = [(page, number) for page, number in sets[0]]
        supports = match_facts(facts or [], right)
        if measure.startswith("joint"):
            supports = joint_match(match_answer(outcome, gold), supports)
        return supports.exact if measure.endswith("em") else supports.f1, facts is not None
    places = cited_places(document)
    if not sets and (measure != "fever_score" or gold[0] != OPEN_LABEL):
        return None, places is not None
    if measure == "feverous_score":
        return feverous_score(gold[:1], [outcome], [sets], [places or []]).value, places is not None
    numbered = numbered_sentences(places or [])
    if measure == "hover_score":
        return hover_score(gold[0], outcome, [(page, number) for page, number in sets[0]], numbered), places is not None
    return fever_score(gold[:1], [outcome], [sets], [numbered]).value, places is not None


def _scifact(
    label: str | None, gold_label: str, sets: Sequence[Sequence[Fact]], sentences: Sequence[Fact]
) -> dict[str, Counts]:
    """The counts of a claim: each cited abstract has the verdict's label; without a decisive one, none is chosen."""
    gold: dict[str, list[list[int]]] = {}
    for one in sets:
        gold.setdefault(one[0][0], []).append([number for _, number in one])
    chosen: dict[str, list[int]] = {}
    for id, number in sentences if label else ():
        chosen.setdefault(id, []).append(number)
    return scifact_counts(
        {id: Abstract(gold_label, rationales) for id, rationales in gold.items()},
        {id: ChosenAbstract(label or "", numbers) for id, numbers in chosen.items()},
    )


def _averitec(measure: str, pairs: Sequence[tuple[str, str]], questions: Sequence[Any], *, right: bool) -> float | None:
    if not questions:
        return None
    if measure == "averitec_questions":
        return hungarian_score([asked for asked, _ in pairs], [one["question"] for one in questions])
    evidence = hungarian_score([" ".join(pair) for pair in pairs], question_answers(questions))
    return averitec_score(right=right, evidence=evidence) if measure == "averitec_score" else evidence


def why_not_computable(measure: str, observations: Sequence[Observation]) -> str:
    """Why an official score of a run cannot be computed; empty if it can be computed, or if no item has an outcome."""
    answered = [observation for observation in observations if observation.outcome is not None]
    # without a judge there is no score, and one that fails leaves out some items; some items have no gold evidence
    if measure in (*EV2R_MEASURES, GOLD_RECALL):
        answered = [observation for observation in answered if is_known(measure, observation)]
    if not answered:
        return ""
    if not any(measure in observation.scores for observation in answered):
        return "the log contains no such score; `inspect score` adds it"
    if unknown := sum(not is_known(measure, observation) for observation in answered):
        return f"of {unknown} items, the file does not say which evidence is right, or it comes with the claim"
    if measure == GOLD_RECALL:
        zeros = not any(observation.scores[measure] for observation in answered)
        unaddressed = zeros and any(measure in observation.uncitable_measures for observation in answered)
        return "evidence that was found has no address, by which the gold evidence is named" if unaddressed else ""
    if any(measure not in observation.uncitable_measures for observation in answered):
        return ""
    if measure in (*FACT_MEASURES, *METEOR_MEASURES, *EV2R_MEASURES):
        return "no verdict cites any evidence"
    return "no evidence has an address that ends with an element of its page, such as #sentence_3"


def is_known(measure: str, observation: Observation) -> bool:
    """Whether an observation has the score, or its counts."""
    return measure in observation.counts or observation.scores.get(measure) is not None


def drop_uncomputable(
    observations: Sequence[Observation], measures: Collection[str]
) -> tuple[list[Observation], list[str]]:
    """The observations of a run, with None in place of each official score that cannot be computed for the run, and of
    gold recall, if it cannot.
    """
    needing = (*OFFICIAL_MEASURES, *EV2R_MEASURES, GOLD_RECALL)
    reason_by_measure = {
        name: reason
        for name in (*measures, GOLD_RECALL)
        if name in needing and (reason := why_not_computable(name, observations))
    }
    if not reason_by_measure:
        return list(observations), []
    kept = [
        replace(
            observation,
            scores={n: None if n in reason_by_measure else value for n, value in observation.scores.items()},
            counts={n: value for n, value in observation.counts.items() if n not in reason_by_measure},
        )
        for observation in observations
    ]
    reasons: dict[str, list[str]] = {}
    for name, reason in reason_by_measure.items():
        reasons.setdefault(reason, []).append(name)
    return kept, [f"{', '.join(names)}: not computable, as {reason}" for reason, names in reasons.items()]
