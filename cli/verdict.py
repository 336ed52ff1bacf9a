"""The end of a debate on the screen: the verdict with its citations, what it cost, and what went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from moot.cli.screen import Screen, counted, has_rounds, list_of, numbered
from moot.nodes.texts.task import full_answer
from moot.nodes.texts.verdict import verdict_citations, verdict_turns

ShowVerdict = Callable[[Screen, Mapping[str, Any]], None]
MOST_REASONS = 5
"""Reasons that are printed; those who agree may be many."""


def show_end(screen: Screen, document: Mapping[str, Any], show_verdict: ShowVerdict | None = None) -> None:
    """Prints how a debate ended.

    Args:
        screen: where.
        document: the result.
        show_verdict: prints the verdict of a debate that is done, in place of the answer with its reasons.
    """
    if document["status"] == "done":
        (show_verdict or _verdict)(screen, document)
    elif document["status"] == "interrupted":
        screen.say("Interrupted: no verdict.", "bold red")
    else:
        error = document["error"]
        screen.say(f"No verdict ({error['kind']} at {error['where']}): {error['detail']}", "bold red")
    screen.say(costs(document), "dim")
    _warnings(screen, document["warnings"])


def _verdict(screen: Screen, document: Mapping[str, Any]) -> None:
    how = document["stop_reason"]
    if document["answer"] is None:
        screen.say(f"Verdict: none, as no answer has most votes ({how})", "bold green")
        return
    show_answer(screen, document, how)
    show_reasons(screen, document)
    if not show_citations(screen, document):
        screen.line("", "cites", "nothing")


def show_answer(screen: Screen, document: Mapping[str, Any], how: str) -> None:
    """The answer, and how it came about."""
    screen.say(f"Verdict: {full_answer(document['task'], document['answer'])} ({how})", "bold green")


def show_reasons(screen: Screen, document: Mapping[str, Any]) -> None:
    """Why those who decided did so."""
    turns = verdict_turns(dict(document))
    for turn in turns[:MOST_REASONS]:
        screen.line(turn["agent"], numbered("because", turn), turn.get("rationale") or turn.get("reason") or "")
    if len(turns) > MOST_REASONS:
        screen.line("", "", f"and {len(turns) - MOST_REASONS} more")


def show_citations(screen: Screen, document: Mapping[str, Any], by: str = "", most: int | None = None) -> bool:
    """What the verdict cites; whether it cites anything.

    Args:
        screen: where.
        document: the result.
        by: who cited it, where that is not who decided.
        most: citations that are printed; None for all.
    """
    citations = verdict_citations(dict(document))
    known = {piece["id"]: piece for piece in document["evidence"]}
    for citation in citations[:most]:
        screen.line(by, "cites", cited(citation, known[citation["evidence_id"]]))
    if most is not None and len(citations) > most:
        screen.line("", "", f"and {len(citations) - most} more")
    return bool(citations)


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
    fell_back = reading["requested"] == "web" and reading["retriever"].startswith("bm25:")
    return " (in place of the web: neither TAVILY_API_KEY nor SERPER_API_KEY is set)" if fell_back else ""


def _warnings(screen: Screen, warnings: list[dict[str, str]]) -> None:
    """Each warning once, that of the demonstration model last."""
    times = Counter(f"{w['kind']} ({w['where']}): {w['detail']}" for w in warnings if w["kind"] != "demo_model")
    if times:
        screen.say("Warnings:", "yellow")
    for text, count in times.items():
        screen.say(text + f" ({count} times)" * (count > 1), "yellow", 2)
    for warned in warnings:
        if warned["kind"] == "demo_model":
            screen.say(warned["detail"], "yellow")
