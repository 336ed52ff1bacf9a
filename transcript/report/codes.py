"""Codes in words: the one table of what a reader sees in place of the codes of a document.

A code without words here is told with its underscores as spaces, which a test keeps from happening.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from moot.nodes.texts.task import MIXED, REFUTED, SUPPORTED, UNSETTLED

__all__ = ["ANSWERS", "answer_kind", "answer_word", "model_words", "source_words", "words_for"]


class Shown(NamedTuple):
    """An answer of a kind: the word of a chip, the verdict of a debate with evidence, and of one without any."""

    word: str
    verdict: str
    closed_book: str


ANSWERS: Mapping[str, Shown] = {
    "sup": Shown("Supported", "Supported by the evidence found", "Supported, by what the model knows"),
    "ref": Shown("Refuted", "Refuted by the evidence found", "Refuted, by what the model knows"),
    "nee": Shown("Not enough evidence", "Not enough evidence", "Not enough is known"),
    "con": Shown("Conflicting", "The evidence conflicts", "What is known conflicts"),
    "non": Shown("No verdict", "No verdict", "No verdict"),
}
"""Kinds of answers, each with its colour and shape; an answer in other words has the kind ``text``."""

FOUND: Mapping[str, tuple[str, str]] = {
    "SUPPORTED": ("sup", "Supported"),
    "NOT SUPPORTED": ("ref", "Not supported"),
    "INCONCLUSIVE": ("nee", "Inconclusive"),
}
"""What judges of a panel find, each with its kind and its word."""

SPELLINGS = {
    **dict.fromkeys(SUPPORTED, "sup"),
    **dict.fromkeys(REFUTED, "ref"),
    **dict.fromkeys((label.casefold() for label in UNSETTLED), "nee"),
    **dict.fromkeys(MIXED, "con"),
}
"""Labels that are read as an answer of a kind; all others are told in their own words."""


def answer_kind(task: Mapping[str, Any] | None, answer: str | None) -> str:
    """The kind of an answer: a key of `ANSWERS`, or ``text`` for one in other words.

    Only a label of a task on claims has a kind of its own: "supported" as an answer to a question is words.

    Args:
        task: what an answer is.
        answer: the answer; None for none.
    """
    if answer is None or task is None:
        return "non"
    if task["kind"] != "labels" or task["subject"] != "claim" or answer not in task["labels"]:
        return "text"
    return SPELLINGS.get(answer.replace("_", " ").casefold(), "text")


def answer_word(kind: str, answer: str | None) -> str:
    """What a chip says: the kind's word, else the answer itself."""
    if kind != "text":
        return ANSWERS[kind].word
    return (answer or "").replace("_", " ") if re.fullmatch(r"[A-Z_]+", answer or "") else answer or ""


# --- the table --------------------------------------------------------------------------------------------------------

CODES: Mapping[str, Mapping[str, str]] = {
    "stop": {
        "consensus": "all gave the same answer",
        "stable_consensus": "all gave the same answer, and it passed the checks",
        "max_rounds": "the rounds were used up",
        "reflection_plateau": "the sides hardly changed how they rate their own cases",
        "critic_resolved": "the critic found it resolved",
        "novelty_exhausted": "searches brought hardly anything new",
        "judicial_signal": "the court closed it",
        "judge_preference": "the moderator preferred an answer",
        "budget_exhausted": "a limit on calls, tokens, money or time was reached",
        "single_pass": "there was one pass",
    },
    "round": {
        "agreed": "All gave the same answer",
        "disputed": "The answers differed",
        "first_answers": "First answers that agree end no debate",
        "unverified": "All gave the same answer, with too few verified quotes",
        "stable": "All gave the same answer, and it passed the checks",
        "unstable": "All gave the same answer, but it did not pass the checks",
        "no_agreement": "The answers were found to differ",
        "preferred": "The moderator preferred an answer",
        "no_preference": "The moderator preferred no answer yet",
        "every_round": "Every round was held, whatever was said",
        "single_pass": "One pass",
        "min_rounds": "Nothing may end it so early",
        "unresolved": "Nothing was found that ends it",
    },
    "warning": {
        "agent_left": "A debater dropped out.",
        "budget_exhausted": "A limit was reached.",
        "burden_of_refutation": "The judges found it inconclusive.",
        "calibration_aged": "The calibration may no longer hold.",
        "call_failed": "A call to a model failed.",
        "check_failed": "What the verdict hangs on was not asked in full.",
        "cross_encoder_missing": "A score was taken another way.",
        "cut": "A reply was cut off.",
        "demo_model": "The demonstration model took part.",
        "empty_retrieval": "A search found nothing.",
        "empty": "A reply was empty.",
        "evidence_cut": "A text was cut off.",
        "evidence_not_compared": "A long text was shown by its beginning alone.",
        "exhibits_left_out": "Not all evidence fitted.",
        "fabricated_citation": "A source was cited that its writer was not shown.",
        "fabricated_citations": "All that the verdict cites is invented.",
        "failed": "A call to a model failed.",
        "judge_contradicts_votes": "The judge's finding and the answers disagree.",
        "new_answer": "The moderator preferred an answer that nobody gave.",
        "no_evidence": "The verdict rests on no evidence.",
        "origins_left_out": "Not all origins of evidence were read.",
        "no_reader_summary": "The debate could not be summed up for readers.",
        "no_search": "Nothing was searched for.",
        "not_kept": "This debate could not be kept to go on later.",
        "not_weighed": "A passage was not admitted, as it could not be weighed.",
        "not_joined": "Claims that say the same may stand twice.",
        "nothing_admitted": "No evidence was admitted.",
        "nothing_selected": "No evidence was selected.",
        "origin_share": "Part of what was found was left out, as one origin had its share.",
        "premises_not_searched": "Not all premises were searched for.",
        "prompt_shortened": "Not everything fitted before a model.",
        "query_not_formulated": "A query could not be formulated.",
        "query_not_refined": "A query was not refined.",
        "readers_alike": "Answers that agree were hardly independent.",
        "record_too_long": "The record is longer than was planned.",
        "refused": "A model refused to reply.",
        "retrieval_failed": "A source failed.",
        "score_missing": "A score is missing.",
        "seed_refused": "A model took no seed.",
        "selection_cut": "Part of a selection was left out.",
        "shared_model": "Several parts have the same model.",
        "side_not_heard": "A side was not heard.",
        "similarity_missing": "Two answers could not be compared.",
        "single_origin": "One origin.",
        "source_not_summarised": "An abstract was shown as it is.",
        "stand_in": "Another source stood in.",
        "tool_calls_dropped": "Some searches were not carried out.",
        "undated_evidence": "The date of a source is not known.",
        "unknown_exhibit": "A passage was challenged that was not shown.",
        "unknown_model_size": "The size of a model is not known.",
        "unknown_selection": "A selection named what is not there.",
        "unknown_speaker": "Who is to have said a claim is not in the text.",
        "unparsed": "A reply could not be read.",
        "unquoted": "An answer came without a quote that stands in its source.",
        "unusable_tool_call": "A search could not be carried out.",
        "unverified_quote": "A quote does not stand in its source.",
    },
    "outcome": {
        "budget_exhausted": "not asked, as a limit was reached",
        "cut": "no reply that can be used: it was cut off",
        "empty": "an empty reply",
        "failed": "no reply, as the call failed",
        "refused": "no reply, as the model refused",
        "unparsed": "no reply that can be used",
        "unquoted": "no answer with a quote that stands in its source",
    },
    "does": {
        "": "Said",
        "accepts": "Accepted",
        "adds": "Added",
        "admits": "Admitted",
        "answers": "Answered",
        "argues": "Argued",
        "asks": "Asked",
        "because": "Reasons",
        "challenges": "Challenged",
        "changed": "Changed",
        "cites": "Quoted",
        "compared": "Compared",
        "concludes": "Concluded",
        "decides": "Decided",
        "discards": "Discarded",
        "disputes": "Disputed",
        "dissents": "Dissented",
        "finds": "Found",
        "hears": "Heard",
        "lacks": "Missed",
        "prefers": "Preferred",
        "premise": "Premise",
        "questions": "Questioned",
        "quotes": "Quoted",
        "reflects": "Rated its own case",
        "refuses": "Refused",
        "remarks": "Remarked",
        "reviews": "Reviewed",
        "rules": "Ruled",
        "scores": "Rated",
        "searches": "Searched",
        "selects": "Selected",
        "strikes": "Struck",
        "sums up": "Summed up",
        "testifies": "Testified",
        "thinks": "Thought",
        "wants": "Wanted",
        "weighs": "Weighed",
    },
    "source": {
        "arxiv": "preprints (arXiv)",
        "bm25": "by keyword",
        "chroma": "by meaning",
        "given": "given with the claim",
        "hybrid": "by meaning and by keyword",
        "langchain": "a collection of documents",
        "openalex": "scholarly works (OpenAlex)",
        "person": "added by a person",
        "pubmed": "biomedical papers (PubMed)",
        "serper": "the web (Serper)",
        "tavily": "the web (Tavily)",
        "web": "the web",
        "wikipedia": "Wikipedia",
    },
    "method": {
        "tool_mad": "Tool-MAD",
        "tool_mad_consistency": "Tool-MAD, first version",
        "madke": "MADKE",
        "proclaim": "PROClaim",
        "standard_mad": "Standard debate",
        "standard_prompting": "One direct answer",
        "chain_of_thought": "Step-by-step reasoning",
        "self_consistency": "A vote over several lines of reasoning",
        "rag": "One search, then one answer",
        "react": "One agent with tools",
        "cortex_debate": "CortexDebate",
        "multi_agent_voting": "A vote of several agents",
        "society_of_minds": "Multi-agent debate",
        "tit_for_tat": "Two sides before a moderator",
        "reconcile": "RECONCILE, a round table",
        "chat_eval": "ChatEval",
        "peer_review": "Peer review",
        "group_debate": "GroupDebate",
        "neighbor_debate": "Neighbour debate",
        "gated": "A debate if first answers leave it open",
        "isolate": "Each source read by itself",
    },
    "score": {
        "faithfulness": "Statements in its passages",
        "answer_relevance": "Nearness to the claim",
        "consistency": "Nearness of its answers to its passages",
    },
}
"""By what a code is of, its words."""


def words_for(of: str, code: str | None) -> str:
    """A code in words.

    Args:
        of: what it is a code of, a key of `CODES`.
        code: the code.
    """
    return CODES[of].get(code or "", (code or "").replace("_", " "))


def source_words(name: str) -> str:
    """Where was searched: ``chroma:facts`` is "the collection “facts”, by meaning"."""
    kind, _, corpus = name.partition(":")
    how = words_for("source", kind)
    if kind in ("chroma", "bm25", "hybrid"):
        return f"the collection “{corpus}”, {how}" if corpus else f"a collection, {how}"
    return how


NOT_SEARCHED = "The web was not searched."
STOOD_IN: tuple[tuple[str, str, str], ...] = (
    ("`web` was asked for; (.+) was read in its place, as .*", NOT_SEARCHED, "{0} stood in."),
    (
        r"`(.+?)` could not be searched; its fallback `.+?` was read in its place \((.+)\)\.",
        "Another source stood in.",
        "{0} could not be searched; {1} stood in.",
    ),
    (
        r"`(.+?)` was asked for without a corpus; moot's small demo corpus (.+) was read\..*",
        "A demonstration collection stood in.",
        "No collection was named, so a small one that comes with moot was searched.",
    ),
)
"""What is warned of a source that stood in for another one (`moot.nodes.steps.retrieve.stood_in`), each with what a
report says: bold words, and a sentence with the names of the sources."""


def stood_in_words(detail: str) -> tuple[str, str]:
    """The warning that a source stood in, as a reader's bold words and a sentence.

    Args:
        detail: the warning's.
    """
    for warned, lead, said in STOOD_IN:
        if found := re.fullmatch(warned, detail):
            told = said.format(*map(source_words, found.groups()))
            return lead, told[:1].upper() + told[1:]
    return words_for("warning", "stand_in"), detail


def model_words(name: str) -> str:
    """A model's name as a reader sees it."""
    return {"embedded": "the built-in demonstration model"}.get(name.partition(":")[0], name)
