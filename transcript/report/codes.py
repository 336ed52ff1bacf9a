"""The words that readers see in place of a document's codes.

A code that is not in `CODES` is shown with spaces in place of underscores. Tests ensure that `CODES` has all warnings,
outcomes, stop reasons, reasons of rounds and sources.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from moot.nodes._texts.labels import MIXED, REFUTED, SUPPORTED, UNSETTLED
from moot.transcript.language import speaking, t

__all__ = ["ANSWERS", "answer_kind", "answer_word", "in_words", "model_words", "source_words", "words_for"]


class AnswerWords(NamedTuple):
    """The texts for a kind of answer.

    ``word`` is the text of a chip, which is a small coloured label. The other texts are for verdicts: ``verdict`` if a
    quote is verified, ``unquoted`` if no quote is verified, and ``closed_book`` if there is no evidence.
    """

    word: str
    verdict: str
    unquoted: str
    closed_book: str


ANSWERS: Mapping[str, AnswerWords] = {
    "sup": AnswerWords(
        "Supported",
        "Supported by the evidence found",
        "Supported, without a verified quote",
        "Supported, by what the model knows",
    ),
    "ref": AnswerWords(
        "Refuted",
        "Refuted by the evidence found",
        "Refuted, without a verified quote",
        "Refuted, by what the model knows",
    ),
    "nee": AnswerWords("Not enough evidence", "Not enough evidence", "Not enough evidence", "Not enough is known"),
    "con": AnswerWords("Conflicting", "The evidence conflicts", "The evidence conflicts", "What is known conflicts"),
    "non": AnswerWords("No verdict", "No verdict", "No verdict", "No verdict"),
}
"""Maps each kind of answer to its words. The kind ``text`` is missing, because its answers are shown as they are."""

FINDINGS: Mapping[str, tuple[str, str]] = {
    "SUPPORTED": ("sup", "Supported"),
    "NOT SUPPORTED": ("ref", "Not supported"),
    "INCONCLUSIVE": ("nee", "Inconclusive"),
}
"""Maps each finding of a panel's judges to its kind of answer and its word."""

SPELLINGS = {
    **dict.fromkeys(SUPPORTED, "sup"),
    **dict.fromkeys(REFUTED, "ref"),
    **dict.fromkeys((label.casefold() for label in UNSETTLED), "nee"),
    **dict.fromkeys(MIXED, "con"),
}
"""Maps labels to kinds of answers. The labels are in lower case, with spaces in place of underscores."""


def answer_kind(task: Mapping[str, Any] | None, answer: str | None) -> str:
    """The kind of an answer: a key of `ANSWERS`, or ``text`` for any other answer.

    The kind is ``non`` if there is no answer or no task. The kinds ``sup``, ``ref``, ``nee`` and ``con`` are only for
    known labels of a task about a claim. For example, "supported" as an answer to a question has the kind ``text``.
    """
    if answer is None or task is None:
        return "non"
    if task["kind"] != "labels" or task["subject"] != "claim" or answer not in task["labels"]:
        return "text"
    return SPELLINGS.get(answer.replace("_", " ").casefold(), "text")


def answer_word(kind: str, answer: str | None) -> str:
    """The word of a kind of answer; for the kind ``text``, the answer itself.

    In an answer of the kind ``text`` with only capitals and underscores, spaces replace the underscores: "MOSTLY TRUE".
    """
    if kind != "text":
        return t(ANSWERS[kind].word)
    return (answer or "").replace("_", " ") if re.fullmatch(r"[A-Z_]+", answer or "") else answer or ""


# --- the table --------------------------------------------------------------------------------------------------------

CODES: Mapping[str, Mapping[str, str]] = {
    "stop": {
        "consensus": "all gave the same answer",
        "stable_consensus": "all gave the same answer, and it passed the checks",
        "max_rounds": "the rounds were used up",
        "reflection_plateau": "the sides hardly changed how they rate their own cases",
        "critic_resolved": "the critic found the debate resolved",
        "novelty_exhausted": "searches brought hardly anything new",
        "judicial_signal": "the court closed the debate",
        "judge_preference": "the moderator preferred an answer",
        "budget_exhausted": "a limit on calls, tokens, money or time was reached",
        "single_pass": "there was one pass",
    },
    "round": {
        "agreed": "All gave the same answer",
        "open": "All answers left it open",
        "disputed": "The answers differed",
        "first_answers": "The first answers do not end the debate, even if all are the same",
        "unverified": "All gave the same answer, with too few verified quotes",
        "unwarranted": "All gave the same answer, and no quote bears it out",
        "stable": "All gave the same answer, and it passed the checks",
        "unstable": "All gave the same answer, but it did not pass the checks",
        "no_agreement": "The answers were found to differ",
        "preferred": "The moderator preferred an answer",
        "no_preference": "The moderator preferred no answer yet",
        "changed": "Not every agent kept its answer",
        "unchanged": "No agent changed its answer",
        "decided": "The moderator found that it can be decided",
        "undecided": "The moderator could not decide yet",
        "every_round": "Every round is run in any case",
        "single_pass": "One pass",
        "min_rounds": "The minimum number of rounds was not reached",
        "unresolved": "No reason to end the debate was found",
    },
    "warning": {
        "agent_left": "A debater dropped out.",
        "budget_exhausted": "A limit was reached.",
        "burden_of_refutation": "The judges found the claim inconclusive.",
        "byline_date": "The date of a text is taken from its byline.",
        "calibration_aged": "The calibration may no longer hold.",
        "call_failed": "A call to a model failed.",
        "check_failed": "Not all tests of the verdict's robustness were made.",
        "cross_encoder_missing": "A score was computed in another way.",
        "claim_page_left_out": "Results from the claim's own page or site were left out.",
        "claim_page_not_read": "The page on which the claim appeared could not be read.",
        "cut": "A reply was cut off.",
        "demo_model": "A demonstration model took part.",
        "doubted": "A second opinion doubts the verdict.",
        "document_noted": "A part of a document was left out, or read in another way (see its note).",
        "empty_retrieval": "A search found nothing.",
        "empty": "A reply was empty.",
        "evidence_cut": "A text was cut off.",
        "evidence_not_compared": "Only the beginning of a long text was shown.",
        "exhibits_left_out": "Not all evidence was shown to the judges.",
        "fabricated_citation": "A citation names a source that its writer was not shown.",
        "fabricated_citations": "All citations of the verdict are invented.",
        "failed": "A call to a model failed.",
        "judge_contradicts_votes": "The judge's finding and the answers disagree.",
        "new_answer": "The moderator preferred an answer that neither side gave.",
        "documents_left_out": "Not all documents were read.",
        "no_evidence": "The verdict rests on no evidence.",
        "origins_left_out": "Not all origins of evidence were read.",
        "no_reader_summary": "The summary for readers could not be written.",
        "no_role_switch": "Both counsel have the same model, so no debate with switched sides was held.",
        "no_search": "No search was made.",
        "not_kept": "This debate could not be stored, so it cannot be resumed.",
        "search_not_planned": "The search was not planned.",
        "settings_changed": "The debate began with other settings than those shown here.",
        "not_assessed": "The verdict's quotes could not be assessed.",
        "not_weighed": "A passage was not admitted, as it could not be weighed.",
        "not_joined": "Claims with the same meaning may be listed twice.",
        "nothing_admitted": "No evidence was admitted.",
        "nothing_selected": "No evidence was selected.",
        "opinion_missing": "There is no second opinion.",
        "origin_share": "Many pieces of evidence were near-duplicates of one another.",
        "pages_not_read": "Pages could not be read, so the search engine's snippets were shown.",
        "not_archived": "No archived copy of a cited page was found.",
        "premises_not_searched": "No search was made for some premises.",
        "own_retries": "A model repeats failed requests itself.",
        "prompt_shortened": "A prompt was shortened to fit the model's context.",
        "query_not_formulated": "A query could not be formulated.",
        "query_not_refined": "A query was not refined.",
        "recorded_model": "The replies come from a record.",
        "readers_alike": "Agreeing answers were hardly independent.",
        "record_too_long": "The record is longer than its limit.",
        "refused": "A model refused to reply.",
        "retrieval_failed": "A source failed.",
        "rests_on_claim_page": "The verdict quotes only the claim's own page or site.",
        "rests_on_retracted": "The verdict quotes a work that was retracted.",
        "retracted_evidence": "A work was retracted.",
        "retractions_unknown": "Whether works were retracted could not be asked.",
        "same_source": "Several debaters read the same source.",
        "score_missing": "A score is missing.",
        "seed_refused": "A model does not accept a seed.",
        "selection_cut": "Part of a selection was left out.",
        "shared_model": "Several agents have the same model.",
        "side_not_heard": "A side was not heard.",
        "similarity_missing": "Two answers could not be compared.",
        "single_origin": "One origin.",
        "sites_left_out": "Results of some sites were left out.",
        "source_not_summarised": "An abstract was shown without a summary.",
        "stand_in": "Another source was searched instead.",
        "tool_calls_dropped": "Some searches were not carried out.",
        "undated_evidence": "The date of a source is not known.",
        "verdict_withheld": "The verdict was withheld.",
        "unknown_document": "A document was named that nobody read.",
        "unknown_exhibit": "A challenge names a passage that was not shown.",
        "unknown_model_size": "The size of a model is not known.",
        "unknown_selection": "A selection names a passage that does not exist.",
        "unknown_speaker": "The named speaker of a claim is not in the text.",
        "unparsed": "A reply could not be read.",
        "unquoted": "An answer has no verified quote.",
        "unusable_tool_call": "A search could not be carried out.",
        "unverified_quote": "A quote is not in its source.",
        "unwarranted": "No quote bears the verdict out.",
    },
    "outcome": {
        "budget_exhausted": "no answer, as a limit was reached",
        "cut": "no reply that can be used: it was cut off",
        "empty": "an empty reply",
        "failed": "no reply, as the call failed",
        "refused": "no reply, as the model refused",
        "unparsed": "no reply that can be used",
        "unquoted": "no answer with a verified quote",
    },
    "standing": {
        "seed": "no ruling yet",
        "discarded": "discarded by the arbiter",
        "disputed": "disputed; for the panel alone",
        "discovered": "found during the debate",
        "admitted": "admitted by the arbiter",
    },
    "does": {
        "": "Said",
        "accepts": "Accepted",
        "adds": "Added",
        "admits": "Admitted",
        "answers": "Answered",
        "argues": "Argued",
        "asks": "Asked",
        "assessed": "Assessed",
        "because": "Reasons",
        "challenges": "Challenged",
        "changed": "Changed",
        "cites": "Quoted",
        "compared": "Compared",
        "concedes": "Conceded",
        "concludes": "Concluded",
        "decides": "Decided",
        "discards": "Discarded",
        "disputes": "Disputed",
        "dissents": "Dissented",
        "estimates": "Estimated",
        "finds": "Found",
        "hears": "Heard",
        "lacks": "Missed",
        "plans": "Planned",
        "prefers": "Preferred",
        "premise": "Premise",
        "questions": "Questioned",
        "quotes": "Quoted",
        "reads": "Read what was quoted",
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
        "brave": "the web (Brave)",
        "chroma": "by meaning",
        "ddgs": "the web (DuckDuckGo and others)",
        "fact_checks": "fact checks by others (Google)",
        "given": "given with the claim",
        "hybrid": "by meaning and by keyword",
        "langchain": "a collection of documents",
        "mcp": "a tool of an MCP server",
        "object": "a collection of documents",
        "openalex": "scholarly works (OpenAlex)",
        "person": "added by a person",
        "pubmed": "biomedical papers (PubMed)",
        "searxng": "the web (SearXNG)",
        "serper": "the web (Serper)",
        "tavily": "the web (Tavily)",
        "web": "the web",
        "wikipedia": "Wikipedia",
    },
    "score": {
        "faithfulness": "Statements in its passages",
        "answer_relevance": "Nearness to the claim",
        "consistency": "Nearness of its answers to its passages",
    },
    "setting": {
        "admitted_above": "Weight above which evidence is admitted",
        "archive": "Copies of cited pages in the Wayback Machine",
        "ask_person": "Ask me about",
        "assess": "Assess the answers that decide",
        "attempts": "Tries for each call",
        "budget": "Limit on tokens",
        "calibration": "Calibration file",
        "check_retractions": "Ask Crossref about retractions",
        "claim_page": "The page on which the claim appeared",
        "context_tokens": "Context window of the model",
        "corpus": "Collection of documents",
        "cross_encoder": "Cross-encoder",
        "demonstrations": "Show worked examples first",
        "disputed_above": "Weight above which evidence is disputed",
        "doubt_below": "Doubt a verdict whose second opinion is below",
        "fact_checks_decide": "Fact checks by others may decide",
        "fallback": "Where to search if a source fails",
        "hear": "Whom an agent hears",
        "judges": "Judges",
        "k": "Passages for each search",
        "max_calls": "Limit on model calls",
        "max_concurrency": "Most parallel calls",
        "max_cost": "Stop at",
        "max_evidence_tokens": "Longest passage shown to a model",
        "max_origin_share": "Largest share of near-duplicates in a search",
        "max_documents": "Most documents that are read",
        "one_answer_ends": "End when one answer is left",
        "max_origins": "Most origins that are read",
        "max_premises": "Most premises of the claim",
        "max_seconds": "Limit on time",
        "max_tokens": "Longest reply",
        "max_wait": "Longest wait if the endpoint limits the rate",
        "min_agents": "Fewest agents who must answer",
        "models": "Models of single roles",
        "panel_tokens": "How much of the record a judge reads",
        "published_before": "Only evidence from before",
        "read_pages": "Read the pages that a web search finds",
        "require_warrant": "Only verdicts that a quote bears out",
        "requests_per_minute": "Most calls per minute",
        "respect_robots": "Read only pages that robots.txt allows",
        "robustness_calls": "Most model calls for tests of the verdict",
        "second_opinion": "Ask for a second opinion",
        "site_labels": "Your labels of sites",
        "sites_never": "Never from these sites",
        "sites_only": "Only from these sites",
        "source_summaries": "Sum up long sources",
        "sources": "Where to search",
        "structured_output": "How structured output is requested",
        "temperature": "Randomness",
        "timeout": "Longest wait for a reply",
        "verdict_labels": "Names of the judges' findings",
    },
}
"""Maps each group of codes, such as ``stop``, to a mapping from its codes to words."""


def words_for(group: str, code: str | None) -> str:
    """A code in words. A code that is not in `CODES` is returned with spaces in place of underscores."""
    words = CODES[group].get(code or "")
    return (code or "").replace("_", " ") if words is None else t(words)


CODE = re.compile(r"`([a-z][a-z0-9_]*)((?:[.:][\w-]+)*)`|(?<![\w`.])([a-z]+(?:_[a-z]+)+)(?![\w`=])|^(\w+)(?=: )")
"""A code in an error or a warning: a name between backticks, a name with underscores, or a first word with a colon."""


def in_words(detail: str) -> str:
    """The text of an error or a warning, with labels in place of settings, and `source_words` in place of sources.

    Other codes do not change. Such texts are in English.
    """
    with speaking("en"):
        return CODE.sub(_code_in_words, detail)


def _code_in_words(found: re.Match[str]) -> str:
    """The words for a match of `CODE`; the matched text if it names no setting and no source."""
    quoted, more, bare, first = found.groups()
    if name := CODES["setting"].get(quoted or bare or ""):
        return f"“{name}”"
    source = quoted or first or ""
    if source in CODES["source"]:
        words = source_words(f"{source}{more or ''}")
        return words[:1].upper() + words[1:] if first else words
    return found[0]


def source_words(name: str) -> str:
    """A source in words: ``chroma:facts`` is "the collection “facts” (by meaning)"."""
    kind, _, corpus = name.partition(":")
    how = words_for("source", kind)
    if kind in ("chroma", "bm25", "hybrid"):
        named = t("the collection “{name}” ({how})", name=corpus, how=how)
        return named if corpus else t("a collection ({how})", how=how)
    return how


NOT_SEARCHED = "The web was not searched."
STAND_IN_WARNINGS: tuple[tuple[str, str, str], ...] = (
    ("`web` was asked for; (.+) was read in its place, as .*", NOT_SEARCHED, "{0} was searched instead."),
    (
        r"`(.+?)` could not be searched; its fallback `.+?` was read in its place \((.+)\)\.",
        "Another source was searched instead.",
        "{0} could not be searched; {1} was searched instead.",
    ),
    (
        r"`(.+?)` was asked for without a corpus; (.+) was read in its place\..*",
        "No collection was searched.",
        "No collection was named, so {1} was searched instead.",
    ),
)
"""Warnings about sources that replaced other sources (`moot.nodes._steps.retrieving.fallback_warnings`).

Each entry has the pattern of a warning's text, and the words for it in a report: words in bold, and a sentence with
placeholders for the sources.
"""


def replaced_source_words(detail: str) -> tuple[str, str]:
    """A warning about a source that replaced another source, as words in bold and a sentence.

    If no pattern in `STAND_IN_WARNINGS` matches, the bold words are general, and the sentence is ``detail``.
    """
    for warned, lead, template in STAND_IN_WARNINGS:
        if found := re.fullmatch(warned, detail):
            sentence = t(template).format(*map(source_words, found.groups()))
            return t(lead), sentence[:1].upper() + sentence[1:]
    return words_for("warning", "stand_in"), detail


def model_words(name: str) -> str:
    """A model's name for readers: a description of the demonstration model, and the name of any other model."""
    return t("the built-in demonstration model") if name.partition(":")[0] == "embedded" else name
