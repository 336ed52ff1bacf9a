"""Writes the text on the end of a debate: the verdict with its citations, the cost, the warnings, and the control."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from moot.core.words import count_with_noun
from moot.nodes._models.equal_cost import BUDGET_NAMES
from moot.nodes._records.entries import GATE, Task, Turn
from moot.nodes._runtime.state import Equal
from moot.nodes._runtime.turns import on_page
from moot.nodes._steps.compare import WORDED_KINDS
from moot.nodes._steps.vote import majority
from moot.nodes._texts.answers import abstains, same_answer
from moot.nodes._texts.calibrated import calibration_basis, shown_confidence
from moot.nodes._texts.plans import asked_in_vain
from moot.nodes._texts.task import full_answer
from moot.nodes._texts.verdict import (
    MOST_REASONS,
    WARRANT_WORDS,
    caveat_in_words,
    caveats,
    citations_in_words,
    count_verdict_citations,
    turns_by_reason,
    verdict_citations,
    verdict_line,
    votes_in_short,
)
from moot.retrievers._evidence import clean
from moot.retrievers._normalise import WEB_SEARCHES
from moot.retrievers._search import NO_WEB_SEARCH
from moot.transcript.language import t
from moot.transcript.line import Line, format_duration, has_rounds, line, list_of, own_line

WARNINGS = "Warnings:"
"""The heading of the warnings."""
CONTRADICTED = "the answer with the greatest weight rests on one origin, and another origin contradicts it"
NO_MAJORITY = "no answer has the most votes"
WITHHELD = "the answer that was given is withheld"
ShownReasons = Mapping[str, Turn | None]
"""Maps each reason to the turn that was first shown with it, or to None if only the verdict shows the reason."""


def end(document: Mapping[str, Any], verdict: Iterator[Line]) -> Iterator[Line]:
    """The lines on how a debate ended: the verdict or its absence, the cost, the warnings, and the control.

    A debate that failed before its first reply has no lines on its warnings, and without calls none on its cost: they
    would hide the error.
    """
    done = document["status"] == "done"
    if done:
        yield from verdict
        yield from summary_lines(document)
    elif document["status"] == "interrupted":
        yield own_line("Interrupted: no verdict.", "failure")
    else:
        error = document["error"]
        yield own_line(f"No verdict ({error['kind']} at {error['where']}): {error['detail']}", "failure")
    failed = document["status"] == "failed"
    if document["calls"] or not failed:
        yield own_line(costs(document), "aside")
    if not failed or any(call.get("outcome") != "failed" for call in document["calls"]):
        yield from _warnings(document, without_caveats=done)
    yield from control_lines(document)


def summary_lines(document: Mapping[str, Any]) -> Iterator[Line]:
    """The summary for readers as one line, with the ids of its sources; no line without sentences."""
    sentences = (document.get("reader_summary") or {"sentences": []})["sentences"]
    cited = (dict.fromkeys(c["evidence_id"] for c in one["citations"]) for one in sentences)
    said = [f"{one['text']} [{', '.join(ids)}]" for one, ids in zip(sentences, cited, strict=True)]
    if said:
        yield line("", "summary", " ".join(said))


def verdict(document: Mapping[str, Any], shown: ShownReasons) -> Iterator[Line]:
    """The answer with its caveats, confidence, calibration, robustness, reasons, citations and dissents.

    Without a verdict, the lines only have the reason for that, and the caveats. An abstention has the same lines as a
    verdict. If origins of evidence were read one by one, a list of these origins comes first.
    """
    how = document["stop_reason"]
    abstained = abstains(document["task"], document["raw_verdict"])
    if answers := document["metrics"].get("origins"):
        numbered = ", ".join(f"{number} {one['origin']}" for number, one in enumerate(answers, 1))
        yield own_line(clean(f"Read one by one: {numbered}."), "")
    if document["answer"] is None and not abstained:
        yield from headline(document, f"Verdict: none, as {no_verdict_reason(document)} ({how})")
        return
    tie = f"; tied {tied_on(document)}, so the earliest answer counts" if is_tied(document) else ""
    no_answer = f"Verdict: none, as the evidence does not tell ({how}{tie})"
    yield from headline(document, no_answer if abstained else answer_text(document, f"{how}{tie}"))
    if votes := votes_in_short(document):
        sure = shown_confidence(document)
        found = "" if sure is None else f". Confidence {sure:.0%}, {calibration_basis(document)}"
        yield own_line(f"Votes: {votes}{found}.", "")
    if asked := asked_in_vain(document):
        yield own_line(asked, "")
    yield from calibration_lines(document)
    yield from robustness_lines(document)
    yield from reasons(document, shown)
    yield from citations(document)
    yield from dissents(document, shown)


def robustness_lines(document: Mapping[str, Any]) -> Iterator[Line]:
    """The result of the test of the verdict's robustness; no line if there was no test."""
    if found := document.get("robustness"):
        yield own_line(clean(found["said"]), "")


def dissents(document: Mapping[str, Any], shown: ShownReasons) -> Iterator[Line]:
    """The dissenting answers, each with its best argument and the argument's first quotes; then the changed answers."""
    for one in (document.get("dissent") or {"minority": []})["minority"]:
        if one["answer"] is not None:
            who = ", ".join(map(speaker, one["by"][:MOST_REASONS]))
            why = reason_or_reference(document, one["argument"], shown) if one["argument"] else "(no reason)"
            more = f" and {left} more" if (left := len(one["by"]) - MOST_REASONS) > 0 else ""
            yield line(who + more, "dissents", f"{one['answer']} - {why}")
            for quote in one["quotes"][:MOST_REASONS]:
                yield line("", "quotes", f'"{quote["quote"]}" [{quote["evidence_id"]}]')
    yield from changed_answers(document)


def changed_answers(document: Mapping[str, Any]) -> Iterator[Line]:
    """What the debate did, in a sentence, then each changed answer."""
    if glance := debate_in_words(document):
        yield own_line(glance, "")
    for change in (document.get("dissent") or {"changes": []})["changes"]:
        yield line(speaker(change), "changed", change_in_words(change, early=change["agent"] in gate_agents(document)))


def gate_agents(document: Mapping[str, Any]) -> set[str]:
    """The agents that answered before the debate; they answer again only to attack their own answers."""
    return {turn["agent"] for turn in document["turns"] if turn["phase"] == GATE}


def debate_in_words(document: Mapping[str, Any]) -> str:
    """What the debate did to the answers, in a sentence; empty if nobody answered again.

    ``The debate changed 2 of 4 later answers, 1 of them to the verdict.``
    """
    found = document.get("dissent") or {"changes": [], "asked_again": 0}
    asked, changes = found["asked_again"], found["changes"]
    if not asked:
        return ""
    changed: Any = {"changed": len(changes), "count": asked}
    others = any(turn["phase"] == GATE and turn["round"] > 0 for turn in document["turns"])
    if not others and any("leans" in turn for turn in document["turns"]):
        said = t("The debate changed {changed} of {count} later answers of the moderator", **changed)
    elif not others and any(turn["step"] == "critique" for turn in document["turns"]):
        said = t("The debate changed {changed} of {count} later positions of counsel and critic", **changed)
    else:
        said = t("The debate changed {changed} of {count} later answers", **changed)
    towards = [change["towards_verdict"] for change in changes]
    if not changes or None in towards:
        return f"{said}."
    if len(changes) == 1:
        which = t(", to the verdict") if towards[0] else t(", not to the verdict")
    elif sum(towards) in (0, len(changes)):
        which = t(", all of them to the verdict") if all(towards) else t(", none of them to the verdict")
    else:
        which = t(", {number} of them to the verdict", number=sum(towards))
    return f"{said}{which}."


def speaker(one: Mapping[str, Any]) -> str:
    """The name of the agent who gave an answer, with the number of the answer if it has one."""
    return f"{one['agent']} {one['number']}" if one.get("number") is not None else str(one["agent"])


def change_in_words(change: Mapping[str, Any], *, early: bool) -> str:
    """A changed answer: both answers, when, who had given the new answer before, and newly quoted evidence.

    ``early`` is whether the change was before the debate.
    """
    when = "before the debate" if early else f"in round {change['round']}"
    after = f", as {list_of(change['after'])} had said" if change["after"] else ""
    quoted = f", newly quoting {list_of(change['evidence_ids'])}" if change["evidence_ids"] else ""
    towards = {True: " (the verdict)", False: " (not the verdict)", None: ""}[change["towards_verdict"]]
    return f"{change['before']} to {change['answer']}{towards} {when}{after}{quoted}"


def calibration_lines(document: Mapping[str, Any]) -> Iterator[Line]:
    """The decision on a calibrated verdict, its prediction set, and the guarantee; no lines without a calibration."""
    if found := document.get("calibration"):
        labels = list_of(document["prediction_set"]) or "none of the labels"
        yield own_line(f"Decision: {document['decision']}. Prediction set: {labels}.", "finding")
        yield own_line(found["guarantee"], "aside")


def no_verdict_reason(document: Mapping[str, Any]) -> str:
    """Why a debate that is done has no verdict, as a clause."""
    metrics = document["metrics"] or {}
    if metrics.get("withheld"):
        return WITHHELD
    if metrics.get("undecided") == "contradicted":
        return CONTRADICTED
    if metrics.get("panel"):
        verdict, subject = document["raw_verdict"], document["task"]["subject"]
        return f"the panel finds the {subject} {verdict}, which is not one of the answers"
    return NO_MAJORITY


def answer_text(document: Mapping[str, Any], how: str) -> str:
    """The text of a verdict with an answer; ``how`` says how the debate was decided."""
    return f"Verdict: {full_answer(document['task'], document['answer'])} ({how})"


def headline(document: Mapping[str, Any], text: str) -> Iterator[Line]:
    """The line with the verdict, then the warnings that are shown with the verdict."""
    yield own_line(verdict_line(document, text), "outcome")
    for warned in caveats(document):
        yield own_line(clean(caveat_in_words(warned)), "caveat")


def tied_on(document: Mapping[str, Any]) -> Literal["votes", "scores"]:
    """What decides a debate in which nobody decides: votes, or the scores of answers over all rounds."""
    return "scores" if any(turn["step"] == "tally" for turn in document["turns"]) else "votes"


def is_tied(document: Mapping[str, Any]) -> bool:
    """Whether votes or scores alone decided, and several answers have the largest sum of weights, or the best score.

    The result is also true if there are votes, but no vote has an answer.
    """
    votes = document["votes"]
    for turn in document["turns"]:
        if turn["step"] == "tally":
            best = [one["score"] for one in turn["answer_scores"][:2]]
            return len(best) == 2 and best[0] == best[1]
    decided = ("judge", "summarise", "aggregate")
    if any(turn["step"] in decided or turn.get("preferred") for turn in document["turns"]):
        return False
    return bool(votes) and majority(votes, [vote.get("weight", 1.0) for vote in votes], "none") is None


def reasons(document: Mapping[str, Any], shown: ShownReasons) -> Iterator[Line]:
    """The first `MOST_REASONS` reasons of the agents who decided, or references to reasons (`reason_or_reference`).

    Each reason or reference is shown once, with all its agents. If there are further reasons, a last line has the
    number of turns that gave them.
    """
    given: dict[str, list[Turn]] = {}
    for reason, turns in turns_by_reason(dict(document)).items():
        given.setdefault(reason_or_reference(document, reason, shown), []).extend(turns)
    for reason, turns in [*given.items()][:MOST_REASONS]:
        yield line(*authors_and_action(turns), reason)
    if left := sum(len(turns) for turns in [*given.values()][MOST_REASONS:]):
        yield line("", "", f"and {left} more", "more")


def reason_or_reference(document: Mapping[str, Any], reason: str, shown: ShownReasons) -> str:
    """A reason, or a reference to its first occurrence if a turn was shown with this reason before."""
    if (turn := shown.get(clean(reason))) is None:
        return reason
    return f"(said in round {turn['round']})" if has_rounds(document["settings"]) else "(said above)"


def authors_and_action(turns: Sequence[Turn]) -> tuple[str, str]:
    """The agents who gave a reason, and the action ``because`` with the numbers of their answers, if there are any."""
    numbers = ", ".join(str(turn["number"]) for turn in turns if "number" in turn)
    return ", ".join(dict.fromkeys(turn["agent"] for turn in turns)), f"because {numbers}".strip()


def citations(document: Mapping[str, Any], by: str = "", most: int | None = None) -> Iterator[Line]:
    """The citations of the verdict, each with the result of its check; then the counts of the results.

    A verdict without citations has one line, which says so.
    """
    found = verdict_citations(dict(document), fabricated=True)
    known = {piece["id"]: piece for piece in document["evidence"]}
    for citation in found[:most]:
        yield line(by, "cites", format_citation(citation, known))
    if most is not None and len(found) > most:
        yield line("", "", f"and {len(found) - most} more", "more")
    if count_verdict_citations(dict(document))["total"]:
        yield own_line(citations_in_words(dict(document)), "")
    else:
        yield line(by, "cites", "nothing")


def format_citation(citation: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """A citation in words: the piece's id, title and place, the quote, and the result of the check.

    If the citation is fabricated, there is no title and no place.
    """
    check, id = check_result(citation, known), citation["evidence_id"]
    if citation["fabricated"]:
        return f'[{id[:80]}]: "{citation["quote"]}" ({check})'
    piece = known[id]
    where = f"{piece.get('url') or piece['source']}{on_page(piece)}"
    return f'[{id}] {piece["title"]} ({where}): "{citation["quote"]}" ({check})'


def check_result(citation: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """The result of the check of a citation, in words."""
    if citation["fabricated"]:
        return "fabricated: no such piece was shown"
    summary = "summary_of" in known.get(citation["evidence_id"], {})
    if citation["verified"]:
        bears = WARRANT_WORDS.get(citation.get("warrant"))
        return "found word for word" + " in a summary" * summary + (f"; {bears}" if bears else "")
    return f"not found in the {'summary' if summary else 'text'}"


def costs(document: Mapping[str, Any]) -> str:
    """A sentence on the usage of a debate.

    It has the number of paid tokens, of all calls and of rounds, the time, the models, and the sources of each agent.
    """
    usage, replayed = document["usage"], document["usage"].get("from_store") or {}
    prompt, reply, unknown = (
        usage[name] - replayed.get(name, 0) for name in ("prompt_tokens", "completion_tokens", "uncounted")
    )
    uncounted = f" ({count_with_noun(unknown, 'call')} uncounted)" if unknown else ""
    spent = f"{prompt:,} + {reply:,} tokens{uncounted}"
    spent += f" in {count_with_noun(usage['calls'], 'call')}{_free_calls(document)}"
    if has_rounds(document["settings"]):
        rounds = [debate["rounds"] for debate in document["debates"]] or [document["rounds"]]
        spent += f", {' + '.join(map(str, rounds))} round{'' if rounds == [1] else 's'}"
    models = ", ".join(sorted({m["model"] for m in document["models"].values()}))
    return f"{spent}, {format_duration(document['seconds'])}; {models or 'no model'}; {sources(document)}."


def _free_calls(document: Mapping[str, Any]) -> str:
    """The numbers of calls that cost nothing, in parentheses; empty if there are no such calls."""
    calls = document["calls"]
    replayed = sum(bool(call.get("from_store")) for call in calls)
    shared = sum(bool(call.get("shared")) and not call.get("from_store") for call in calls)
    stored = f"{replayed} of {len(calls)} replies were stored and cost nothing" if replayed else ""
    equal = f"{shared} of {len(calls)} calls were equal to others and were not sent" if shared else ""
    notes = "; ".join(filter(None, (stored, equal)))
    return f" ({notes})" if notes else ""


def sources(document: Mapping[str, Any]) -> str:
    """The sources that each agent read, as a phrase; ``no source`` if no agent read any."""
    read: dict[str, list[str]] = {}
    for reading in document["corpora"]:
        failed = " (failed)" if reading.get("failed") else ""
        read.setdefault(reading["agent"], []).append(f"{reading['retriever']}{_replacement_note(reading)}{failed}")
    return "; ".join(f"{agent} read {list_of(names)}" for agent, names in read.items()) or "no source"


def _replacement_note(reading: Mapping[str, Any]) -> str:
    """A note for an agent who was to search the web but read another source; empty for other readings."""
    fell_back = reading["requested"] == "web" and reading["retriever"] not in WEB_SEARCHES
    return f" (instead of the web: {NO_WEB_SEARCH})" if fell_back else ""


def _warnings(document: Mapping[str, Any], *, without_caveats: bool) -> Iterator[Line]:
    """The lines with the warnings, each warning once; the demonstration model's warning comes last.

    With ``without_caveats``, the warnings shown with the verdict are left out.
    """
    others = other_warnings(document, without_caveats=without_caveats)
    demo = [one["detail"] for one in document["warnings"] if one["kind"] == "demo_model" and not without_caveats]
    if others:
        yield own_line(WARNINGS, "caution")
    for text in others:
        yield own_line(text, "warning")
    for detail in dict.fromkeys(demo):
        yield own_line(detail, "caution")


def other_warnings(document: Mapping[str, Any], *, without_caveats: bool) -> list[str]:
    """All warnings in words, except the demonstration model's; a repeated warning appears once, with a count."""
    shown = {(one["kind"], one["detail"]) for one in caveats(document)} if without_caveats else set()
    others = [one for one in document["warnings"] if (one["kind"], one["detail"]) not in shown]
    given = Counter(f"{one['kind']} ({one['where']}): {one['detail']}" for one in others if one["kind"] != "demo_model")
    return [text + f" ({count} times)" * (count > 1) for text, count in given.items()]


def control_start(control: str, equal: Equal) -> Iterator[Line]:
    """The line that is shown when a control starts."""
    yield own_line(f"Running the control {_control_name(control)} at equal {BUDGET_NAMES[equal]} ...", "aside")


def control_lines(document: Mapping[str, Any]) -> Iterator[Line]:
    """The lines on a debate's control: the control's answer, its cost, and its usage relative to the debate's usage.

    There are no lines if no control was run.
    """
    if (beside := document.get("beside")) is None:
        return
    control, run, error = _control_name(beside["control"]), beside["document"], beside["error"]
    if run is None or run["status"] != "done":
        why = f" ({error['kind']}): {error['detail']}" if error else ": it was interrupted."
        yield own_line(f"The control {control} has no verdict{why}", "failure")
    else:
        yield own_line(
            f"The control {control}, at equal {BUDGET_NAMES[beside['equal']]}: {_compared_answer(document, run)}",
            "finding",
        )
    if run is not None:
        yield own_line(costs(run), "aside")
        yield own_line(f"Relative to the debate: {_relative_usage(beside)}.", "aside")


def _control_name(control: str) -> str:
    """The name of a control as it is displayed, e.g. ``self-consistency``."""
    return control.replace("_", "-")


def _compared_answer(document: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """A control's answer, and whether it equals the debate's answer. Two missing answers count as equal."""
    task, control_answer, debate_answer = document["task"], run["answer"], document["answer"]
    words = "none" if control_answer is None else full_answer(task, control_answer)
    if control_answer is None or debate_answer is None:
        return f"{words}, like the debate" if control_answer is debate_answer else f"{words}, unlike the debate"
    return f"{words}, {compared_words(task, control_answer, debate_answer)}"


def compared_words(task: Task, control_answer: str, debate_answer: str) -> str:
    """A phrase that says whether a control's answer equals its debate's answer.

    In tasks of `WORDED_KINDS`, different words may mean the same, so the phrase for different answers only says that
    the words differ.
    """
    if same_answer(task, control_answer, debate_answer):
        return "like the debate"
    return "in other words than the debate" if task["kind"] in WORDED_KINDS else "unlike the debate"


def _relative_usage(beside: Mapping[str, Any]) -> str:
    """A control's usage as multiples of its debate's usage. If the ratio of the costs is known, both follow in USD."""
    debate, control = beside["taken"]["debate"], beside["taken"]["control"]
    usd = f" (${control['usd']:.6f} of ${debate['usd']:.6f})" if beside["ratios"]["usd"] is not None else ""
    units = {"tokens": "tokens", "usd": "USD", "calls": "calls", "seconds": "seconds"}
    parts = [
        f"{unit} unknown"
        if (times := beside["ratios"][name]) is None
        else f"{unit} x{times:.2f}{usd * (name == 'usd')}"
        for name, unit in units.items()
    ]
    return ", ".join(parts)
