"""The end of a debate in words: the verdict with its citations, what it cost, and what went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from moot.nodes.models.equal_cost import SAID
from moot.nodes.records.entries import Task, Turn
from moot.nodes.runtime.state import Equal
from moot.nodes.steps.compare import IN_WORDS
from moot.nodes.steps.vote import majority
from moot.nodes.texts.answers import abstains, same_answer
from moot.nodes.texts.calibrated import backed
from moot.nodes.texts.task import full_answer
from moot.nodes.texts.verdict import (
    MOST_REASONS,
    caveat_in_words,
    caveats,
    citations_in_words,
    count_verdict_citations,
    reasons_by_who,
    verdict_citations,
    verdict_line,
)
from moot.retrievers.evidence import clean
from moot.transcript.line import Line, counted, has_rounds, line, list_of, on_page, say

WARNINGS = "Warnings:"
"""What stands above warnings."""
Said = Mapping[str, Turn | None]
"""Reasons that were said before, each with the turn that gave it first."""


def end(document: Mapping[str, Any], verdict: Iterator[Line]) -> Iterator[Line]:
    """How a debate ended.

    Args:
        document: the result.
        verdict: what is said of the verdict of a debate that is done.
    """
    done = document["status"] == "done"
    if done:
        yield from verdict
    elif document["status"] == "interrupted":
        yield say("Interrupted: no verdict.", "failure")
    else:
        error = document["error"]
        yield say(f"No verdict ({error['kind']} at {error['where']}): {error['detail']}", "failure")
    yield say(costs(document), "aside")
    yield from _warnings(document, told=done)
    yield from lines_beside(document)


def verdict(document: Mapping[str, Any], said: Said) -> Iterator[Line]:
    """The answer, what is to be known of it, why it was given, and what it cites.

    Args:
        document: the result.
        said: reasons that were said before; these are not said again.
    """
    how = document["stop_reason"]
    untold = abstains(document["task"], document["raw_verdict"])
    if read := document["metrics"].get("origins"):
        numbered = ", ".join(f"{number} {of['origin']}" for number, of in enumerate(read, 1))
        yield say(clean(f"Read one by one: {numbered}."), "")
    if document["answer"] is None and not untold:
        yield from headline(document, f"Verdict: none, as {why_none(document)} ({how})")
        return
    tie = "; of equal votes the earliest holds" if tied(document) else ""
    said_it = f"Verdict: none, as the evidence does not tell ({how}{tie})"
    yield from headline(document, said_it if untold else answer(document, f"{how}{tie}"))
    if (sure := document["confidence"]) is not None:
        yield say(f"Confidence {sure:.2f}, {backed(document)}: {clean(document['confidence_from'] or '')}", "")
    yield from decided(document)
    yield from hangs_on(document)
    yield from reasons(document, said)
    yield from citations(document)
    yield from dissents(document, said)


def hangs_on(document: Mapping[str, Any]) -> Iterator[Line]:
    """What the verdict hangs on, if that was asked."""
    if found := document.get("robustness"):
        yield say(clean(found["said"]), "")


def dissents(document: Mapping[str, Any], said: Said) -> Iterator[Line]:
    """Who did not give the verdict, each answer with its best argument; and who changed an answer after what."""
    found = document.get("dissent") or {"minority": [], "changes": []}
    for one in found["minority"]:
        if one["answer"] is not None:
            who = ", ".join(map(speaker, one["by"][:MOST_REASONS]))
            why = where_said(document, one["argument"], said) if one["argument"] else "(no reason)"
            more = f" and {left} more" if (left := len(one["by"]) - MOST_REASONS) > 0 else ""
            yield line(who + more, "dissents", f"{one['answer']} - {why}")
            for quote in one["quotes"][:MOST_REASONS]:
                yield line("", "quotes", f'"{quote["quote"]}" [{quote["evidence_id"]}]')
    for change in found["changes"]:
        yield line(speaker(change), "changed", changed(change))


def speaker(one: Mapping[str, Any]) -> str:
    """Who spoke, with the number of the sample if there are several."""
    return f"{one['agent']} {one['number']}" if one.get("number") is not None else str(one["agent"])


def changed(change: Mapping[str, Any]) -> str:
    """A change of an answer in words: from what to what, in which round, after whom, and what it quotes anew."""
    after = f", as {list_of(change['after'])} had said" if change["after"] else ""
    anew = f", newly quoting {list_of(change['evidence_ids'])}" if change["evidence_ids"] else ""
    return f"{change['before']} to {change['answer']} in round {change['round']}{after}{anew}"


def decided(document: Mapping[str, Any]) -> Iterator[Line]:
    """What a calibration says of the verdict, with what it promises."""
    if found := document.get("calibration"):
        labels = list_of(document["prediction_set"]) or "none of the labels"
        yield say(f"Decision: {document['decision']}. Prediction set: {labels}.", "finding")
        yield say(found["guarantee"], "aside")


def why_none(document: Mapping[str, Any]) -> str:
    """Why a debate that is done has no verdict."""
    contradicted = document["metrics"].get("undecided") == "contradicted"
    return (
        "the answer of most weight rests on one origin, which another contradicts"
        if contradicted
        else "no answer has most votes"
    )


def answer(document: Mapping[str, Any], how: str) -> str:
    """The answer, and how it came about."""
    return f"Verdict: {full_answer(document['task'], document['answer'])} ({how})"


def headline(document: Mapping[str, Any], said: str) -> Iterator[Line]:
    """A verdict's own line, and under it the warnings that are told beside it."""
    yield say(verdict_line(document, said), "outcome")
    for warned in caveats(document):
        yield say(clean(caveat_in_words(warned)), "caveat")


def tied(document: Mapping[str, Any]) -> bool:
    """Whether votes alone decided, and several answers have most of them."""
    votes = document["votes"]
    if any(turn["step"] in ("judge", "summarise") or turn.get("preferred") for turn in document["turns"]):
        return False
    return bool(votes) and majority(votes, [vote.get("weight", 1.0) for vote in votes], "none") is None


def reasons(document: Mapping[str, Any], said: Said) -> Iterator[Line]:
    """Why those who decided did so: each reason once, by all who gave it in the same words."""
    given: dict[str, list[Turn]] = {}
    for reason, turns in reasons_by_who(dict(document)).items():
        given.setdefault(where_said(document, reason, said), []).extend(turns)
    for reason, turns in [*given.items()][:MOST_REASONS]:
        yield line(*by(turns), reason)
    if left := sum(len(turns) for turns in [*given.values()][MOST_REASONS:]):
        yield line("", "", f"and {left} more", "more")


def where_said(document: Mapping[str, Any], reason: str, said: Said) -> str:
    """A reason, or where it was said already."""
    if (turn := said.get(clean(reason))) is None:
        return reason
    return f"(said in round {turn['round']})" if has_rounds(document["settings"]) else "(said above)"


def by(turns: Sequence[Turn]) -> tuple[str, str]:
    """Who gave a reason, and by which of its answers if it gave several."""
    numbers = ", ".join(str(turn["number"]) for turn in turns if "number" in turn)
    return ", ".join(dict.fromkeys(turn["agent"] for turn in turns)), f"because {numbers}".strip()


def citations(document: Mapping[str, Any], by: str = "", most: int | None = None) -> Iterator[Line]:
    """What the verdict cites, each with its check, and how many citations of which kind it has.

    Args:
        document: the result.
        by: who cited, if that is not who decided.
        most: citations that are given; None for all.
    """
    found = verdict_citations(dict(document), fabricated=True)
    known = {piece["id"]: piece for piece in document["evidence"]}
    for citation in found[:most]:
        yield line(by, "cites", cited(citation, known))
    if most is not None and len(found) > most:
        yield line("", "", f"and {len(found) - most} more", "more")
    if count_verdict_citations(dict(document))["total"]:
        yield say(citations_in_words(dict(document)), "")
    else:
        yield line(by, "cites", "nothing")


def cited(citation: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """A citation: the piece of evidence by its id, the quote, and whether it stands there."""
    check, id = checked(citation, known), citation["evidence_id"]
    if citation["fabricated"]:
        return f'[{id[:80]}]: "{citation["quote"]}" ({check})'
    piece = known[id]
    where = f"{piece.get('url') or piece['source']}{on_page(piece)}"
    return f'[{id}] {piece["title"]} ({where}): "{citation["quote"]}" ({check})'


def checked(citation: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """What a citation's check found.

    Args:
        citation: any turn's.
        known: the pieces of evidence by their ids.
    """
    if citation["fabricated"]:
        return "fabricated: no such piece was shown"
    summary = "summary_of" in known.get(citation["evidence_id"], {})
    if citation["verified"]:
        return "found word for word" + " in a summary" * summary
    return f"not found in the {'summary' if summary else 'text'}"


def costs(document: Mapping[str, Any]) -> str:
    """Tokens that were paid for, calls, rounds, time; models; and who read what."""
    usage, held = document["usage"], document["usage"].get("from_ledger") or {}
    prompt, reply, unknown = (
        usage[name] - held.get(name, 0) for name in ("prompt_tokens", "completion_tokens", "uncounted")
    )
    spent = f"{prompt:,} + {reply:,} tokens{f' ({unknown} calls uncounted)' if unknown else ''}"
    spent += f" in {counted(usage['calls'], 'call')}{_free(document)}"
    if has_rounds(document["settings"]):
        held = [debate["rounds"] for debate in document["debates"]] or [document["rounds"]]
        spent += f", {' + '.join(map(str, held))} round{'' if held == [1] else 's'}"
    models = ", ".join(sorted({m["model"] for m in document["models"].values()}))
    return f"{spent}, {document['seconds']:.1f} s; {models or 'no model'}; {sources(document)}."


def _free(document: Mapping[str, Any]) -> str:
    """Which calls cost nothing, if any."""
    calls = document["calls"]
    kept = sum(bool(call.get("from_ledger")) for call in calls)
    shared = sum(bool(call.get("shared")) and not call.get("from_ledger") for call in calls)
    ledger = f"{kept} of {len(calls)} calls came from the ledger and cost nothing" if kept else ""
    equal = f"{shared} of {len(calls)} calls were equal to others and were not sent" if shared else ""
    said = "; ".join(filter(None, (ledger, equal)))
    return f" ({said})" if said else ""


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


def _warnings(document: Mapping[str, Any], *, told: bool) -> Iterator[Line]:
    """Each warning once, without those told beside the verdict; of a debate without one the demonstration's is last."""
    times = other_warnings(document, told=told)
    demo = [one["detail"] for one in document["warnings"] if one["kind"] == "demo_model" and not told]
    if times:
        yield say(WARNINGS, "caution")
    for text, count in times.items():
        yield say(text + f" ({count} times)" * (count > 1), "warning")
    for detail in dict.fromkeys(demo):
        yield say(detail, "caution")


def other_warnings(document: Mapping[str, Any], *, told: bool) -> Mapping[str, int]:
    """Warnings in words, with how often each was given.

    Args:
        document: the result, or as much of it as there is.
        told: whether some stand beside the verdict; these are left out.
    """
    beside = {(one["kind"], one["detail"]) for one in caveats(document)} if told else set()
    others = [one for one in document["warnings"] if (one["kind"], one["detail"]) not in beside]
    return Counter(f"{one['kind']} ({one['where']}): {one['detail']}" for one in others if one["kind"] != "demo_model")


def beside_begins(control: str, equal: Equal) -> Iterator[Line]:
    """What is said when a control begins."""
    yield say(f"Beside it, {_named(control)} at equal {SAID[equal]} ...", "aside")


def lines_beside(document: Mapping[str, Any]) -> Iterator[Line]:
    """The control that was run after a debate: its verdict, what it cost, and that by what the debate cost."""
    if (told := document.get("beside")) is None:
        return
    control, held, error = _named(told["control"]), told["document"], told["error"]
    if held is None or held["status"] != "done":
        why = f" ({error['kind']}): {error['detail']}" if error else ": it was interrupted."
        yield say(f"No verdict of {control} beside it{why}", "failure")
    else:
        yield say(f"{control} beside it, at equal {SAID[told['equal']]}: {_compared(document, held)}", "finding")
    if held is not None:
        yield say(costs(held), "aside")
        yield say(f"By what the debate took: {_multiples(told)}.", "aside")


def _named(control: str) -> str:
    return control.replace("_", "-")


def _compared(document: Mapping[str, Any], held: Mapping[str, Any]) -> str:
    """A control's answer, and whether it is the debate's."""
    task, own, its = document["task"], held["answer"], document["answer"]
    said = "none" if own is None else full_answer(task, own)
    if own is None or its is None:
        return f"{said}, as the debate" if own is its else f"{said}, unlike the debate"
    return f"{said}, {compared_words(task, own, its)}"


def compared_words(task: Task, own: str, its: str) -> str:
    """Whether a control's answer is its debate's, in words."""
    if same_answer(task, own, its):
        return "as the debate"
    return "in other words than the debate" if task["kind"] in IN_WORDS else "unlike the debate"


def _multiples(told: Mapping[str, Any]) -> str:
    """What a control took as multiples of what its debate took, with both amounts in USD."""
    debate, own = told["taken"]["debate"], told["taken"]["control"]
    usd = f" (${own['usd']:.6f} of ${debate['usd']:.6f})" if told["ratios"]["usd"] is not None else ""
    named = {"tokens": "tokens", "usd": "USD", "calls": "calls", "seconds": "seconds"}
    parts = [
        f"{said} unknown" if (times := told["ratios"][name]) is None else f"{said} x{times:.2f}{usd * (name == 'usd')}"
        for name, said in named.items()
    ]
    return ", ".join(parts)
