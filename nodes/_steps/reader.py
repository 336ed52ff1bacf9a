"""A summary of a finished debate for readers: sentences based on checked quotes, and the stances of quotes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired

from langchain_core.language_models import BaseChatModel
from moot.core.errors import ErrorRecord
from moot.nodes._models.reply_limits import LONG_REPLY_TOKENS
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._records.entries import Call, Turn, Warned
from moot.nodes._runtime.ceilings import open_budget
from moot.nodes._runtime.node import Node, NodeContext, choose_model
from moot.nodes._runtime.settings import REPORTER
from moot.nodes._runtime.state import CheckedQuote, ReaderSummary
from moot.nodes._steps.compare import answers_of
from moot.nodes._texts.plans import queries_of
from moot.nodes._texts.replies import Reply, Text
from moot.nodes._texts.show import show_claim, show_evidence
from moot.nodes._texts.task import full_answer
from moot.nodes._texts.verdict import turns_by_reason, verdict_citations
from moot.prompts._files import as_data, join_blocks
from moot.retrievers._evidence import clean
from typing_extensions import TypedDict

SUMMARY = "reader/summary"
"""The name of the prompt for the summary."""
MOST_QUOTES = 40
"""Maximum number of quotes in the prompt; the verdict's quotes come first."""
MOST_ITEMS = 6
"""Maximum number of entries that are used from each list of a reply, except from ``stances``."""
FIGURE = re.compile(r"\d+(?:[.,]\d+)*")
"""A number in digits."""
GROUPED = re.compile(r"(?<=\d)[,\s](?=\d{3}(?!\d))")
"""A separator of thousands."""


class Sentence(Reply):
    """A sentence, and the numbers of the quotes that support it."""

    text: Text
    quotes: list[int]


class QuoteStance(Reply):
    """Whether a quote supports the claim or, if the debate has a question, the verdict's answer."""

    quote: int  # its number
    stance: Literal["for", "against", "neither"]


class ReaderReply(Reply):
    """A summary of a debate for readers."""

    most_tokens = LONG_REPLY_TOKENS
    sentences: list[Sentence]
    stances: list[QuoteStance]
    not_found: list[Text]
    would_change: list[Text]


class ReaderInput(TypedDict):
    """The result document to summarise."""

    document: dict[str, Any]


class ReaderState(ReaderInput):
    """The state of the steps: ``reply`` is the model's reply, ``quotes`` the quotes in its prompt, in order."""

    quotes: NotRequired[list[CheckedQuote]]
    reply: NotRequired[dict[str, Any] | None]
    reader_summary: NotRequired[ReaderSummary]
    calls: NotRequired[list[Call]]
    warnings: NotRequired[list[Warned]]
    depth: NotRequired[int]
    error: NotRequired[ErrorRecord | None]


def checked_quotes(document: Mapping[str, Any]) -> list[CheckedQuote]:
    """The verified quotes of a debate, the verdict's quotes first, without quotes contained in longer ones."""
    known = {piece["id"] for piece in document["evidence"]}
    every = (c for turn in document["turns"] for c in turn.get("citations") or [])
    found = {
        (c["evidence_id"], c["start"], c["end"]): None
        for c in (*verdict_citations(dict(document)), *every)
        if c["verified"] and c["evidence_id"] in known
    }
    return [
        {"evidence_id": id, "start": start, "end": end}
        for id, start, end in found
        if not any(i == id and s <= start and end <= e and (s, e) != (start, end) for i, s, e in found)
    ]


async def summarise_debate(
    document: Mapping[str, Any], quotes: Sequence[CheckedQuote], model: Speaker | BaseChatModel, prompt: str = SUMMARY
) -> ReaderReply:
    """Asks a model, in one call, to summarise a finished debate for readers."""
    return await as_speaker(model, REPORTER).ask(prompt, placeholder_values(document, quotes), ReaderReply)


def placeholder_values(document: Mapping[str, Any], quotes: Sequence[CheckedQuote]) -> dict[str, str]:
    task, pieces = document["task"], {piece["id"]: piece for piece in document["evidence"]}
    numbered = (
        as_data("quote", pieces[q["evidence_id"]]["text"][q["start"] : q["end"]], number=str(n), of=q["evidence_id"])
        for n, q in enumerate(quotes, 1)
    )
    queries = dict.fromkeys(clean(query) for turn in document["turns"] for query in queries_of(turn))
    reasons = turns_by_reason(dict(document))
    verdict = document["answer"] or document["raw_verdict"]
    others = dict.fromkeys(
        clean(turn["rationale"] or "") for turn in answers_against_verdict(document) if turn.get("rationale")
    )
    quoted = {q["evidence_id"] for q in quotes}
    return {
        "subject": task["subject"],
        "work_of": f"a {task['subject']}",
        "in_favour": "the claim is true" if task["subject"] == "claim" else "the verdict's answer is right",
        "claim": show_claim(document["claim"], task),
        "verdict": as_data("verdict", full_answer(task, verdict) if document["answer"] else str(verdict)),
        "quotes": join_blocks(numbered, empty="(none)"),
        "evidence": show_evidence([piece for piece in document["evidence"] if piece["id"] in quoted]),
        "queries": join_blocks((as_data("query", query) for query in queries), empty="(nothing)"),
        "reasons": join_blocks((as_data("reasons", reason) for reason in reasons), empty="(not said)"),
        "others": join_blocks((as_data("reasons", reason) for reason in others), empty="(nobody)"),
    }


def answers_against_verdict(document: Mapping[str, Any]) -> list[Turn]:
    """The answers that differ from the verdict: of all rounds if answers are labels, else of the last round."""
    given = [turn for turn in document["turns"] if turn["step"] == "respond" and turn.get("answer") is not None]
    verdict = document["answer"] or document["raw_verdict"]  # an abstention is only in the raw verdict
    if document["task"]["kind"] == "labels":
        return [turn for turn in given if turn["answer"] != verdict]
    same = {vote["group"] for vote in document["votes"] if vote["answer"] == verdict}
    others = {vote["agent"] for vote in document["votes"] if same and vote["group"] not in same}
    return [turn for turn in answers_of(given) if turn["agent"] in others]


def supported_summary(document: Mapping[str, Any], quotes: Sequence[CheckedQuote], reply: ReaderReply) -> ReaderSummary:
    """A reply's summary without unsupported sentences, and without stances of quotes that were not shown."""
    texts = {piece["id"]: piece for piece in document["evidence"]}
    summary: ReaderSummary = {"sentences": [], "stances": [], "not_found": [], "would_change": [], "dropped": 0}
    for sentence in reply.sentences[:MOST_ITEMS]:
        named = list(dict.fromkeys(sentence.quotes))
        cited = [quotes[number - 1] for number in named if 0 < number <= len(quotes)]
        passages = [document["claim"], document["task"].get("claim_date") or ""]
        for quote in cited:
            piece = texts[quote["evidence_id"]]
            passages += [piece["title"], piece["text"], piece.get("published") or ""]
        # A sentence needs quotes, all of them shown, and its figures must be in the claim or in what it quotes.
        if cited and len(cited) == len(named) and figures(sentence.text) <= figures(*passages):
            summary["sentences"].append({"text": clean(sentence.text), "citations": cited})
        else:
            summary["dropped"] += 1
    summary["dropped"] += len(reply.sentences[MOST_ITEMS:])
    stances: dict[int, Any] = {}
    for given in reply.stances:
        if 0 < given.quote <= len(quotes):
            stances.setdefault(given.quote, given.stance)
    summary["stances"] = [{**quotes[number - 1], "stance": stance} for number, stance in sorted(stances.items())]
    summary["not_found"] = [clean(one) for one in reply.not_found[:MOST_ITEMS]]
    summary["would_change"] = [clean(one) for one in reply.would_change[:MOST_ITEMS]]
    return summary


def figures(*texts: str) -> set[str]:
    """The numbers in digits in these texts, normalised for comparison: ``1,200`` and ``1 200`` are ``1200``."""
    return {found for text in texts for found in FIGURE.findall(GROUPED.sub("", text))}


def read_debate_node() -> Node:
    """Requests a summary of the debate from the role ``reporter``, if there is a verdict and a checked quote.

    Reads: document. A debate that is not done gets no summary. Without a summary, ``reply`` is null.
    """

    async def step(state: ReaderState, run: NodeContext) -> dict[str, Any]:
        document = state["document"]
        quotes = checked_quotes(document)[:MOST_QUOTES]
        if not quotes or document["status"] != "done" or not (document["answer"] or document["raw_verdict"]):
            return {"quotes": [], "reply": None}
        await open_budget(run.settings, {choose_model(run.settings, REPORTER).model}, [], run.budget)
        reply = await summarise_debate(document, quotes, await run.speaker(REPORTER))
        return {"quotes": quotes, "reply": reply.model_dump(mode="json")}

    return Node(step, prompts=(SUMMARY,))


def keep_supported_node() -> Node:
    """Writes the reply's summary without its unsupported sentences, as `supported_summary` returns it.

    Reads: document, quotes, reply. If the reply is null, the summary is empty.
    """

    async def step(state: ReaderState, run: NodeContext) -> dict[str, Any]:
        reply = state["reply"] or {"sentences": [], "stances": [], "not_found": [], "would_change": []}
        found = supported_summary(state["document"], state["quotes"], ReaderReply.model_validate(reply))
        return {"reader_summary": found}

    return Node(step)
