"""The end of a debate in words: the verdict with its citations, what it cost, and what went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from moot.nodes.texts.answers import abstains
from moot.nodes.texts.task import full_answer
from moot.nodes.texts.verdict import verdict_citations, verdict_turns
from moot.transcript.line import Line, counted, has_rounds, line, list_of, numbered, say

MOST_REASONS = 5
"""Reasons that are given; those who agree may be many."""


def end(document: Mapping[str, Any], verdict: Iterator[Line]) -> Iterator[Line]:
    """How a debate ended.

    Args:
        document: the result.
        verdict: what is said of the verdict of a debate that is done.
    """
    if document["status"] == "done":
        yield from verdict
    elif document["status"] == "interrupted":
        yield say("Interrupted: no verdict.", "failure")
    else:
        error = document["error"]
        yield say(f"No verdict ({error['kind']} at {error['where']}): {error['detail']}", "failure")
    yield say(costs(document), "aside")
    yield from _warnings(document["warnings"])


def verdict(document: Mapping[str, Any]) -> Iterator[Line]:
    """The answer, why it was given, and what it cites."""
    how = document["stop_reason"]
    if abstains(document["task"], document["raw_verdict"]):
        yield say(f"Verdict: none, as the evidence does not tell ({how})", "outcome")
        yield from reasons(document)
        yield from citations(document)
        return
    if document["answer"] is None:
        yield say(f"Verdict: none, as no answer has most votes ({how})", "outcome")
        return
    yield answer(document, how)
    yield from reasons(document)
    yield from citations(document)


def answer(document: Mapping[str, Any], how: str) -> Line:
    """The answer, and how it came about."""
    return say(f"Verdict: {full_answer(document['task'], document['answer'])} ({how})", "outcome")


def reasons(document: Mapping[str, Any]) -> Iterator[Line]:
    """Why those who decided did so."""
    turns = verdict_turns(dict(document))
    for turn in turns[:MOST_REASONS]:
        yield line(turn["agent"], numbered("because", turn), turn.get("rationale") or turn.get("reason") or "")
    if len(turns) > MOST_REASONS:
        yield line("", "", f"and {len(turns) - MOST_REASONS} more", "more")


def citations(document: Mapping[str, Any], by: str = "", most: int | None = None) -> Iterator[Line]:
    """What the verdict cites.

    Args:
        document: the result.
        by: who cited it, where that is not who decided.
        most: citations that are given; None for all.
    """
    found = verdict_citations(dict(document))
    known = {piece["id"]: piece for piece in document["evidence"]}
    for citation in found[:most]:
        yield line(by, "cites", cited(citation, known[citation["evidence_id"]]))
    if not found:
        yield line(by, "cites", "nothing")
    if most is not None and len(found) > most:
        yield line("", "", f"and {len(found) - most} more", "more")


def cited(citation: Mapping[str, Any], piece: Mapping[str, Any]) -> str:
    """A citation: the piece, the quote, and whether it stands there."""
    at = piece.get("url") or piece["source"]
    summary = "summary_of" in piece
    found = "found word for word" + " in a summary" * summary
    found = found if citation["verified"] else f"not found in the {'summary' if summary else 'text'}"
    return f'[{piece["id"]}] {piece["title"]} ({at}): "{citation["quote"]}" ({found})'


def costs(document: Mapping[str, Any]) -> str:
    """Tokens, calls, rounds, time; models; and who read what."""
    usage = document["usage"]
    uncounted = f" ({usage['uncounted']} calls uncounted)" if usage["uncounted"] else ""
    spent = f"{usage['prompt_tokens']:,} + {usage['completion_tokens']:,} tokens{uncounted}"
    spent += f" in {counted(usage['calls'], 'call')}"
    if has_rounds(document["settings"]):
        held = [debate["rounds"] for debate in document["debates"]] or [document["rounds"]]
        spent += f", {' + '.join(map(str, held))} round{'' if held == [1] else 's'}"
    models = ", ".join(sorted({m["model"] for m in document["models"].values()}))
    return f"{spent}, {document['seconds']:.1f} s; {models or 'no model'}; {sources(document)}."


def sources(document: Mapping[str, Any]) -> str:
    """Who read what."""
    read: dict[str, list[str]] = {}
    for reading in document["corpora"]:
        failed = " (failed)" if reading.get("failed") else ""
        read.setdefault(reading["agent"], []).append(f"{reading['retriever']}{_instead(reading)}{failed}")
    return "; ".join(f"{agent} read {list_of(names)}" for agent, names in read.items()) or "no source"


def _instead(reading: Mapping[str, Any]) -> str:
    """Why a debater did not read the web, where that is what it asked for."""
    fell_back = reading["requested"] == "web" and reading["retriever"] not in ("tavily", "serper")
    return " (in place of the web: neither TAVILY_API_KEY nor SERPER_API_KEY is set)" if fell_back else ""


def _warnings(warnings: list[dict[str, str]]) -> Iterator[Line]:
    """Each warning once, that of the demonstration model last."""
    times = Counter(f"{w['kind']} ({w['where']}): {w['detail']}" for w in warnings if w["kind"] != "demo_model")
    if times:
        yield say("Warnings:", "caution")
    for text, count in times.items():
        yield say(text + f" ({count} times)" * (count > 1), "warning")
    for warned in warnings:
        if warned["kind"] == "demo_model":
            yield say(warned["detail"], "caution")
