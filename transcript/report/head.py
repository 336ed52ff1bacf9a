"""The head of a report: the verdict in plain words, the reasons, quotes for and against, and the dissents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from moot.core.words import count_with_noun
from moot.nodes._runtime.turns import Said
from moot.nodes._steps.compare import last_answers
from moot.nodes._texts.answers import abstains
from moot.nodes._texts.calibrated import calibration_basis
from moot.nodes._texts.task import full_answer
from moot.nodes._texts.verdict import (
    caveat_in_words,
    caveats,
    nothing_found,
    turns_by_reason,
    verdict_citations,
)
from moot.transcript.end import is_tied, no_verdict_reason
from moot.transcript.line import list_of
from moot.transcript.report.codes import (
    ANSWERS,
    FINDINGS,
    answer_kind,
    answer_word,
    in_words,
    replaced_source_words,
    source_words,
    words_for,
)
from moot.transcript.report.names import Names
from moot.transcript.report.sources import SourceQuote, Sources, plain, title_of
from moot.transcript.trial import panel_votes_in_words

OPPOSED = ("proclaim", "tit_for_tat")
"""Systems in which an agent is told to argue against the claim or against the other agent's answer."""
NO_EDITOR = "No editor has reviewed it."
NOT_MEASURED = f"Not calibrated: how often such a verdict is right has not been measured. {NO_EDITOR}"
STANCES = {
    "for": "What speaks for it",
    "against": "What speaks against it",
    "neither": "Quoted, but speaks for neither",
}
MOST_QUOTED = 3
"""Maximum number of quotes that are shown with a dissenting answer."""
SIDES = {"plaintiff": "sup", "defense": "ref"}
"""The kind of answer that a trial's side argues for."""


@dataclass
class Chip:
    """An answer as a chip, a small coloured label: its kind, which sets the colour, and its text."""

    kind: str
    word: str


@dataclass
class Verdict:
    """A debate's verdict: its kind, its text, how it was reached, and a note, for example on its calibration."""

    kind: str
    words: str
    backing: str
    note: str


@dataclass
class Group:
    """Quotes under a heading, each with the names of the agents who gave it.

    ``placeholder`` is shown if there are no quotes. ``on_paper`` is the number of quotes on the first printed page.
    """

    heading: str
    quotes: list[tuple[SourceQuote, str]] = field(default_factory=list)
    placeholder: str = ""
    on_paper: int = 0


def chip_of(document: Mapping[str, Any], answer: str | None) -> Chip:
    """An answer, of an agent or of the debate, as a chip."""
    kind = answer_kind(document["task"], answer)
    return Chip(kind, plain(answer_word(kind, answer)))


def verdict_chip(document: Mapping[str, Any]) -> Chip:
    """The debate's answer as a chip. The text says if the searches found nothing."""
    chip = chip_of(document, document["answer"])
    return Chip(chip.kind, chip.word + nothing_found_words(document))


def nothing_found_words(document: Mapping[str, Any]) -> str:
    """The words after a verdict if the debate's searches worked and found nothing, else an empty text."""
    words = nothing_found(document)
    return words and f" ({words})"


def said_chip(document: Mapping[str, Any], said: Said) -> Chip:
    """What a turn answers or finds, as a chip."""
    return finding_chip(said.answer) if said.kind == "verdict" else chip_of(document, said.answer)


def finding_chip(verdict: str | None) -> Chip:
    """The finding of a panel's judge as a chip. ``verdict`` is None if the judge gave no verdict."""
    return Chip(*FINDINGS.get(verdict or "", ("text", plain(verdict)) if verdict else ("non", "No verdict")))


def verdict_of(document: Mapping[str, Any], names: Names) -> Verdict:
    """The verdict in plain words, and how it was reached.

    The kind is ``non`` if the debate failed, was interrupted or came to no verdict. It is ``nee`` if the debate found
    that the evidence gives no answer.
    """
    if document["status"] != "done":
        return Verdict("non", ANSWERS["non"].verdict, _unfinished_backing(document), "The record has the turns so far.")
    task, answer = document["task"], document["answer"]
    if answer is None and abstains(task, document["raw_verdict"]):
        return Verdict(
            "nee",
            "The evidence gives no answer" + nothing_found_words(document),
            backing(document, names),
            robustness_note(document) + calibration_in_words(document),
        )
    if answer is None:
        panel = (document["metrics"] or {}).get("panel")
        reason = (
            f"the panel's verdict is not one of the answers: {panel_votes_in_words(document)}"
            if panel
            else no_verdict_reason(document)
        )
        return Verdict(
            "non", ANSWERS["non"].verdict, f"{reason[:1].upper()}{reason[1:]}.", calibration_in_words(document)
        )
    kind = answer_kind(task, answer)
    if kind == "text":
        words = f"“{plain(full_answer(task, answer))}”"
    else:
        quoted = any(one["verified"] for one in verdict_citations(dict(document)))
        known = ANSWERS[kind]
        words = known.closed_book if not document["evidence"] else known.verdict if quoted else known.unquoted
    return Verdict(
        kind,
        words + nothing_found_words(document),
        backing(document, names),
        robustness_note(document) + confidence(document) + calibration_in_words(document),
    )


def calibration_in_words(document: Mapping[str, Any]) -> str:
    """The decision, prediction set and guarantee of a calibrated verdict; `NOT_MEASURED` if it is not calibrated."""
    if not (found := document.get("calibration")):
        return NOT_MEASURED
    decision = {"act": "Act on it", "escalate": "Have a person decide"}[document["decision"]]
    labels = list_of([plain(label) for label in document["prediction_set"]]) or "none of the labels"
    basis = calibration_basis(document).capitalize()
    return f"{basis}. {decision}; prediction set: {labels}. {found['guarantee']} {NO_EDITOR}"


def _unfinished_backing(document: Mapping[str, Any]) -> str:
    spent = count_with_noun(document["usage"]["calls"], "call")
    if document["status"] == "failed":
        return f"The debate failed after {spent}: {plain(in_words(document['error']['detail']))}"
    return f"The debate was interrupted after {spent}, before it came to a verdict."


def confidence(document: Mapping[str, Any]) -> str:
    """A sentence on the system's confidence in its verdict; empty if the document has no confidence."""
    sure, basis = document["confidence"], document.get("confidence_from")
    if sure is None:
        return ""
    origin = f" ({plain(basis)})" if basis else ""
    return f"The raw confidence is {sure:.0%}{origin}. "


def robustness_note(document: Mapping[str, Any]) -> str:
    """The result of the tests of the verdict's robustness, in which agents were asked again.

    It is empty if no test was made, or if the verdict failed a test. `verdict_warnings` has the failed tests.
    """
    found = document.get("robustness")
    return f"Asked again: {_robustness_sentence(found)} " if found and found["holds"] is not False else ""


def _robustness_sentence(found: Mapping[str, Any]) -> str:
    """The result of the tests, as the continuation of a sentence."""
    sentence = plain(found["said"]).replace(" (robustness_calls)", "")
    return sentence[:1].lower() + sentence[1:]


def backing(document: Mapping[str, Any], names: Names) -> str:
    """How a finished debate reached its result: the votes or findings, the number of rounds, and who decided."""
    if panel := (document["metrics"] or {}).get("panel"):
        given = ", ".join(f"{count} found it {found.lower()}" for found, count in panel["verdicts"].items() if count)
        silent = panel["without_verdict"]
        why = (
            "; no judge refuted it, so it counts as not refuted"
            if _has_warning(document, "burden_of_refutation")
            else ""
        )
        more = f"; {list_of(map(names, silent))} gave no verdict" if silent else ""
        judges = count_with_noun(sum(panel["verdicts"].values()), "judge")
        return f"A panel of {judges} read the whole trial: {given}{why}{more}."
    votes, stop = document["votes"], document["stop_reason"]
    text = _votes_in_words(document, document["rounds"] if len(document["round_log"]) > 1 else 0)
    if judged := [turn for turn in document["turns"] if turn["step"] == "judge" and turn.get("answer") is not None]:
        verb = "decided"
        if votes and _is_unanimous(votes):
            verb = "agreed" if votes[0]["answer"] == judged[-1]["answer"] else "decided against them"
        if verb == "decided against them":
            text = f"{_all_of(votes)} answered {_quoted_answer(document, votes)}."
        how = f"{words_for('stop', stop)}, and a judge {verb}"
        return f"{text} {how[:1].upper()}{how[1:]}."
    if stop == "judge_preference":
        return f"{text} The moderator preferred this answer."
    more = " The votes are tied, so the earliest answer counts." if is_tied(document) else ""
    if any("weight" in vote for vote in votes) and len(votes) > 1:
        more += " Votes were weighed."
    if stop == "budget_exhausted":
        more += " It ended early, as a limit on calls, tokens, money or time was reached."
    return text + more


def _no_answer_words(votes: list[Any]) -> str:
    """Words for votes without a group. Such a vote has no answer, or an answer that does not count."""
    return "not counted" if any(vote["answer"] is not None for vote in votes) else "no answer"


def _votes_in_words(document: Mapping[str, Any], rounds: int) -> str:
    """The votes in words. If there are several votes and several ``rounds``, the text has the number of rounds."""
    votes = document["votes"]
    after = f" after {rounds} rounds" if rounds > 1 else ""
    if not votes:
        return f"Nobody voted{after}."
    if len(votes) == 1:
        return "One model gave this answer. Nobody checked it."
    groups: dict[Any, list[Any]] = {}
    for vote in votes:
        groups.setdefault(vote["group"], []).append(vote)
    if _is_unanimous(votes):
        return f"{_all_of(votes)} gave the same answer{after}."
    counts = [
        f"{len(same)} {_no_answer_words(same) if group is None else _quoted_answer(document, same)}"
        for group, same in groups.items()
    ]
    return f"Of {len(votes)} answers{after}: {list_of(counts)}."


def _is_unanimous(votes: list[Any]) -> bool:
    """Whether all votes are for the same answer; false if there are no votes or no answers."""
    return len({vote["group"] for vote in votes}) == 1 and votes[0]["group"] is not None


def _all_of(votes: list[Any]) -> str:
    return "Both debaters" if len(votes) == 2 else f"All {len(votes)}"


def _quoted_answer(document: Mapping[str, Any], same: list[Any]) -> str:
    return f"“{chip_of(document, same[0]['answer']).word}”"


def _has_warning(document: Mapping[str, Any], kind: str) -> bool:
    return any(one["kind"] == kind for one in document["warnings"])


def verdict_warnings(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The warnings that belong to the verdict, each as bold words and a sentence."""
    warnings = []
    for one in caveats(document):
        lead, sentence = words_for("warning", one["kind"]), plain(caveat_in_words(one))
        if one["kind"] == "retrieval_failed":
            sentence = failed_source_sentence(one)
        elif one["kind"] == "stand_in":
            lead, sentence = replaced_source_words(sentence)
        else:
            sentence = in_words(sentence)
        warnings.append((lead, sentence.removeprefix(lead).strip()))
    if (found := document.get("robustness")) and found["holds"] is False:
        warnings.append(("The verdict depends on one source.", f"Asked again, it {_robustness_sentence(found)}"))
    if is_one_sided(document):
        sentence = (
            "All chose their answer freely and chose the same. Nobody argued the other side, so its case may be weaker "
        )
        warnings.append(("One-sided debate.", f"{sentence}here than in the evidence."))
    return warnings


def failed_source_sentence(warning: Mapping[str, Any]) -> str:
    """A sentence that says which source could not be searched. The report's section "The record" has the cause."""
    name = source_words(str(warning["detail"]).partition(": ")[0])
    return f"{name[:1].upper()}{name[1:]} could not be searched."


def is_one_sided(document: Mapping[str, Any]) -> bool:
    """Whether there are at least two debaters, and all their answers are the same, either for or against the claim.

    False for a debate that is not done, and for systems in `OPPOSED`.
    """
    if document["graph"] in OPPOSED or document["status"] != "done":
        return False
    given = [turn for turn in document["turns"] if turn["step"] == "respond"]
    answers = {turn.get("answer") for turn in given}
    several = len({turn["agent"] for turn in given}) > 1
    return several and len(answers) == 1 and answer_kind(document["task"], *answers) in ("sup", "ref")


def reasons(document: Mapping[str, Any], names: Names) -> list[tuple[str, str]]:
    """The reasons of the agents who decided, as pairs of the authors' names and the reason."""
    return [
        (list_of(dict.fromkeys(names(turn["agent"]) for turn in turns)), reason)
        for reason, turns in turns_by_reason(dict(document)).items()
    ]


# --- for and against --------------------------------------------------------------------------------------------------


def groups_by_answer(document: Mapping[str, Any], sources: Sources, names: Names) -> list[Group]:
    """Quotes, grouped by the answers of the agents who gave them; in a trial, by the sides of the agents."""
    found: dict[tuple[str, str], Group] = {}
    for one in sources.quotes:
        quoting: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for turn in one.turns:
            quoting.setdefault(_side_or_answer(document, turn), []).append(turn)
        for key, turns in quoting.items():
            who = list_of(dict.fromkeys(names(turn.get("side") or turn["agent"]) for turn in turns))
            found.setdefault(key, Group(_quotes_heading(*key))).quotes.append((one, who))
    order = [*ANSWERS, "text", "side"]
    return [found[key] for key in sorted(found, key=lambda key: order.index(key[0]))]


def _side_or_answer(document: Mapping[str, Any], turn: Mapping[str, Any]) -> tuple[str, str]:
    """The kind of answer that a turn argues for, and a word.

    In a trial, the word is the turn's side; otherwise, it is the word of the answer.
    """
    if turn.get("side") in SIDES:
        return SIDES[turn["side"]], str(turn["side"])
    chip = chip_of(document, turn.get("answer"))
    return chip.kind, chip.word


def _quotes_heading(kind: str, word: str) -> str:
    if word in SIDES:
        return "Quoted by the side for the claim" if kind == "sup" else "Quoted by the side against the claim"
    return "Quoted without an answer" if kind == "non" else f"Quoted for “{word}”"


def groups_by_stance(summary: Mapping[str, Any], sources: Sources, names: Names) -> list[Group]:
    """Quotes, grouped by the stances that the summary gave them.

    Empty groups are left out, except ``for`` and ``against``.
    """
    stances = {(one["evidence_id"], one["start"], one["end"]): one["stance"] for one in summary["stances"]}
    groups = {stance: Group(heading) for stance, heading in STANCES.items()}
    unsorted = Group("Quoted, not sorted")
    for one in sources.quotes:
        stance = stances.get((one.id, one.start, one.end), "")
        groups.get(stance, unsorted).quotes.append((one, quoters(one, names)))
    for group in (groups["for"], groups["against"]):
        group.placeholder = "" if group.quotes else "Nothing was quoted."
    return [group for group in (*groups.values(), unsorted) if group.quotes or group.placeholder]


def quoters(one: SourceQuote, names: Names) -> str:
    """The names of the agents who gave a quote, as a list in words."""
    return list_of(map(names, one.who))


# --- the votes --------------------------------------------------------------------------------------------------------


def dissent(document: Mapping[str, Any], names: Names) -> tuple[str, list[tuple[Chip, str, str]]]:
    """The dissents: a text, and a list with the chip, the agent and the reason of each dissent.

    The text says how answers changed, or that there are no dissents; the text may be empty. The text and the list
    are both empty if there is no panel and there are fewer than two votes, or if the debate failed.
    """
    if document["status"] == "failed":
        return "", []
    panel = (document["metrics"] or {}).get("panel")
    if panel:
        other = [
            (finding_chip(one["verdict"]), names(one["agent"]), plain(one["reason"] or "")) for one in panel["dissent"]
        ]
        return ("" if other else "None: the judges found the same."), other
    votes, answer = document["votes"], document["answer"]
    if len(votes) < 2:
        return "", []
    ours = {vote["group"] for vote in votes if vote["answer"] == answer and answer is not None}
    against = [vote for vote in votes if vote["group"] not in ours or vote["group"] is None]
    last: dict[Any, Any] = {(turn["agent"], turn.get("number")): turn for turn in last_answers(document["turns"])}
    found = []
    for vote in against:
        turn = last.get((vote["agent"], vote.get("number")), {})
        quotes = [f" “{plain(c['quote'])}”" for c in turn.get("citations") or [] if c["verified"]]
        reason = plain(turn.get("rationale") or "") + (f" Quoted:{';'.join(quotes[:MOST_QUOTED])}." if quotes else "")
        found.append((chip_of(document, vote["answer"]), names(vote["agent"]), reason))
    changes = changes_in_words(document, names)
    if found:
        return changes, found
    given: dict[str, dict[Any, None]] = {}
    for turn in document["turns"]:
        if turn["step"] == "respond" and "number" not in turn:
            given.setdefault(turn["agent"], {})[chip_of(document, turn.get("answer")).word] = None
    if any(len(answers) > 1 for answers in given.values()):
        return f"None at the end. {changes}".strip(), []
    return "None: all gave this answer each time they were asked.", []


def changes_in_words(document: Mapping[str, Any], names: Names) -> str:
    """The changes of answers, each in a sentence. Titles of sources replace the ids of the sources."""
    titles = {piece["id"]: title_of(piece) for piece in document["evidence"]}
    sentences = []
    for one in (document.get("dissent") or {"changes": []})["changes"]:
        before, after = (chip_of(document, one[key]).word for key in ("before", "answer"))
        heard = f", as {list_of(map(names, one['after']))} had said" if one["after"] else ""
        new_quotes = [f"“{titles[id]}”" for id in one["evidence_ids"] if id in titles]
        quoted = f", now quoting {list_of(new_quotes)}" if new_quotes else ""
        sentences.append(
            f"{names(one['agent'])} changed from “{before}” to “{after}” in round {one['round']}{heard}{quoted}."
        )
    return " ".join(sentences)


def sides_of(groups: Iterable[Group]) -> tuple[list[Group], list[Group]]:
    """The groups that are placed side by side, and the groups below them.

    The first two groups are placed side by side. A single group is placed below.
    """
    listed = list(groups)
    return (listed[:2], listed[2:]) if len(listed) > 1 else ([], listed)
