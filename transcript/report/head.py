"""The head of a report: the verdict in plain words, the reasons, quotes for and against, and the dissents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from moot.nodes._runtime.turns import Said
from moot.nodes._texts.answers import abstains
from moot.nodes._texts.calibrated import shown_confidence
from moot.nodes._texts.dissent import is_uncounted, last_turns
from moot.nodes._texts.task import full_answer
from moot.nodes._texts.verdict import (
    caveat_in_words,
    caveats,
    nothing_found,
    side_borne_out,
    turns_by_reason,
    verdict_citations,
)
from moot.transcript.end import debate_in_words, gate_agents, is_tied, no_verdict_reason, tied_on
from moot.transcript.language import current_language, listed, speaking, t
from moot.transcript.report.codes import (
    ANSWERS,
    CODES,
    FINDINGS,
    answer_kind,
    answer_word,
    in_words,
    replaced_source_words,
    source_words,
    words_for,
)
from moot.transcript.report.names import ADDRESS, Names
from moot.transcript.report.sentences import translated
from moot.transcript.report.sources import SourceQuote, Sources, plain, title_of
from moot.transcript.trial import panel_votes_in_words

OPPOSED = ("proclaim", "tit_for_tat", "debate_cv")
"""Systems in which an agent is told to argue against the claim or against the other agent's answer."""
STOPS = re.compile(r"The debate stops: (\w+)\.")
NO_EDITOR = "No editor has reviewed it."
NOT_MEASURED = "Not calibrated: how often such a verdict is right has not been measured."
STANCES = {
    "for": "What speaks for it",
    "against": "What speaks against it",
    "neither": "Context",
}
DECIDED_BY = {
    "aggregate": "An aggregator decided from them.",
    "tally": "The answer with the highest score over all rounds counts.",
}
"""How an answer was found from the votes, by the step that did it."""
DECISIONS = {"act": "Act on it", "escalate": "Have a person decide"}
ONE_SIDED = (
    "All chose their answer freely and chose the same. Nobody argued the other side, so its case may be weaker here "
    "than in the evidence."
)
MOST_QUOTED = 3
"""Maximum number of quotes that are shown with a dissenting answer."""
SIDES = {"plaintiff": "sup", "defense": "ref", "affirmative": "sup", "negative": "ref"}
"""The kind of answer that a fixed side argues for."""


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
    """Quotes under a heading.

    ``placeholder`` is shown if there are no quotes. ``on_paper`` is the number of quotes on the first printed page.
    """

    heading: str
    quotes: list[SourceQuote] = field(default_factory=list)
    placeholder: str = ""
    on_paper: int = 0


def chip_of(document: Mapping[str, Any], answer: str | None) -> Chip:
    """An answer, of an agent or of the debate, as a chip. The letter of an option has the option's text."""
    task = document["task"]
    kind = answer_kind(task, answer)
    return Chip(kind, plain(answer_word(kind, full_answer(task, answer) if answer and kind == "text" else answer)))


def in_reader_words(document: Mapping[str, Any], text: str, names: Names) -> tuple[str, str]:
    """A sentence of moot with words for readers in place of labels, codes and agents' names, and its language.

    The language is English for sentences that moot has only in English.
    """
    if (stop := STOPS.fullmatch(text)) and stop[1] in CODES["stop"]:
        return f"{t('It ended: {reason}', reason=words_for('stop', stop[1]))}.", current_language()
    labels = (document["task"] or {}).get("labels") or []
    found = translated(text, labels)
    language = "en" if found is None else current_language()
    told = in_words(text) if found is None else found
    with speaking(language):
        chips = {label: chip_of(document, label) for label in labels}
        words = {label: t("“{answer}”", answer=chip.word) for label, chip in chips.items() if chip.kind != "text"}
    known = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    word = rf"{ADDRESS}|(?<![\w-])('?)({known})\1(?![\w-])"
    told = re.sub(word, lambda found: words.get(found[2], found[0]), told)
    return names.with_names(told), language


def verdict_chip(document: Mapping[str, Any]) -> Chip:
    """The debate's answer as a chip. The text says if the searches found nothing."""
    chip = chip_of(document, document["answer"])
    return Chip(chip.kind, chip.word + nothing_found_words(document))


def nothing_found_words(document: Mapping[str, Any]) -> str:
    """The words after a verdict if the debate's searches worked and found nothing, else an empty text."""
    words = nothing_found(document)
    return words and f" ({t(words)})"


def said_chip(document: Mapping[str, Any], said: Said) -> Chip:
    """What a turn answers or finds, as a chip."""
    return finding_chip(said.answer) if said.kind == "verdict" else chip_of(document, said.answer)


def finding_chip(verdict: str | None) -> Chip:
    """The finding of a panel's judge as a chip. ``verdict`` is None if the judge gave no verdict."""
    if verdict and verdict in FINDINGS:
        kind, word = FINDINGS[verdict]
        return Chip(kind, t(word))
    return Chip("text", plain(verdict)) if verdict else Chip("non", t("No verdict"))


def verdict_of(document: Mapping[str, Any], names: Names) -> Verdict:
    """The verdict in plain words, and how it was reached.

    The kind is ``non`` if the debate failed, was interrupted or came to no verdict. It is ``nee`` if the debate found
    that the evidence gives no answer.
    """
    if document["status"] != "done":
        so_far = t("The record has the turns so far.")
        return Verdict("non", t("No verdict"), _unfinished_backing(document), so_far)
    task, answer = document["task"], document["answer"]
    if answer is None and abstains(task, document["raw_verdict"]):
        return Verdict(
            "nee",
            t("The evidence gives no answer") + nothing_found_words(document),
            backing(document, names),
            confidence(document) + robustness_note(document) + calibration_in_words(document),
        )
    if answer is None:
        metrics = document["metrics"] or {}
        reason = (
            t("the panel's verdict is not one of the answers: {votes}", votes=panel_votes_in_words(document))
            if metrics.get("panel") and not metrics.get("withheld")
            else t(no_verdict_reason(document))
        )
        return Verdict("non", t("No verdict"), f"{reason[:1].upper()}{reason[1:]}.", calibration_in_words(document))
    kind = answer_kind(task, answer)
    if kind == "text":
        words = t("“{answer}”", answer=plain(full_answer(task, answer)))
    else:
        quoted = any(one["verified"] for one in verdict_citations(dict(document)))
        known = ANSWERS[kind]
        basis = known.closed_book if not document["evidence"] else known.verdict if quoted else known.unquoted
        words = t(basis)
    return Verdict(
        kind,
        words + nothing_found_words(document),
        backing(document, names),
        confidence(document) + robustness_note(document) + calibration_in_words(document),
    )


def calibration_in_words(document: Mapping[str, Any]) -> str:
    """The decision, prediction set and guarantee of a calibrated verdict; `NOT_MEASURED` if it is not calibrated."""
    if not (found := document.get("calibration")):
        return t(NOT_MEASURED)
    decided = DECISIONS[document["decision"]]
    labels = listed([plain(label) for label in document["prediction_set"]]) or t("none of the labels")
    basis = t("Calibrated on {count} cases.", count=found["n"])
    said = t("{decision}; prediction set: {labels}.", decision=t(decided), labels=labels)
    return f"{basis} {said} {translated(found['guarantee']) or found['guarantee']}"


def _unfinished_backing(document: Mapping[str, Any]) -> str:
    spent = document["usage"]["calls"]
    if document["status"] == "failed":
        why = plain(in_words(document["error"]["detail"]))
        return t("The debate failed after {count} calls: {why}", count=spent, why=why)
    return t("The debate was interrupted after {count} calls, before it came to a verdict.", count=spent)


def confidence(document: Mapping[str, Any]) -> str:
    """A sentence on the confidence in the verdict, with a space; empty unless it was calibrated."""
    sure = shown_confidence(document)
    return "" if sure is None else f"{t('The confidence is {percent}%.', percent=round(100 * sure))} "


def robustness_note(document: Mapping[str, Any]) -> str:
    """The result of the tests of the verdict's robustness, in which agents were asked again.

    It is empty if no test was made, or if the verdict failed a test: `verdict_warnings` has the failed tests.
    """
    found = document.get("robustness")
    return f"{robustness_in_words(document)} " if found and found["holds"] is not False else ""


def robustness_in_words(document: Mapping[str, Any]) -> str:
    """The result of the tests of the verdict's robustness."""
    said = plain(document["robustness"]["said"])
    result = translated(said, (document["task"] or {}).get("labels") or ())
    if result is None:
        result = said[:1].lower() + said[1:].replace(" (robustness_calls)", "")
    return t("Asked again: {result}", result=result)


def backing(document: Mapping[str, Any], names: Names) -> str:
    """How a finished debate reached its result: the votes or findings, the number of rounds, and who decided."""
    if panel := (document["metrics"] or {}).get("panel"):
        found = {finding_chip(verdict).word: count for verdict, count in panel["verdicts"].items() if count}
        given = [t("{count} found it “{finding}”", count=count, finding=word) for word, count in found.items()]
        silent = panel["without_verdict"]
        if _has_warning(document, "burden_of_refutation"):
            given.append(t("no judge refuted it, so it counts as not refuted"))
        if silent:
            given.append(t("no verdict from {names}", names=listed(map(names, silent))))
        judges = sum(panel["verdicts"].values())
        said = t("A panel of {count} judges read the whole trial: {given}.", count=judges, given="; ".join(given))
        return " ".join(filter(None, (said, debate_in_words(document))))
    return " ".join(filter(None, (_how_decided(document, names), debate_in_words(document))))


def _how_decided(document: Mapping[str, Any], names: Names) -> str:
    """The votes, the number of rounds, and who decided, without a panel."""
    votes, stop = document["votes"], document["stop_reason"]
    judged = [turn for turn in document["turns"] if turn["step"] == "judge" and turn.get("answer") is not None]
    if judged and not votes:
        after = t(" after {count} rounds", count=document["rounds"])
        return t("{name} decided{after}.", name=names(judged[-1]["agent"]), after=after)
    text = _votes_in_words(document, document["rounds"] if len(document["round_log"]) > 1 else 0)
    if judged:
        verb = t("a judge decided")
        if votes and _is_unanimous(votes):
            verb = t("a judge agreed")
            if votes[0]["answer"] != judged[-1]["answer"]:
                verb, answer = t("a judge decided against them"), _quoted_answer(document, votes)
                text = t("Both debaters answered {answer}.", answer=answer)
                if len(votes) != 2:
                    text = t("All {count} answered {answer}.", count=len(votes), answer=answer)
        how = t("{reason}, and {decided}.", reason=words_for("stop", stop), decided=verb)
        return f"{text} {how[:1].upper()}{how[1:]}"
    more = [text]
    if stop == "judge_preference":
        return f"{text} {t('The moderator preferred this answer.')}"
    steps = {turn["step"] for turn in document["turns"]}
    more += [t(words) for step, words in DECIDED_BY.items() if step in steps][:1]
    if is_tied(document) and tied_on(document) == "votes":
        more.append(t("The votes are tied, so the earliest answer counts."))
    elif is_tied(document):
        more.append(t("The scores are tied, so the earliest answer counts."))
    if any("weight" in vote for vote in votes) and len(votes) > 1:
        more.append(t("Votes were weighed."))
    if stop == "budget_exhausted":
        more.append(t("It ended early, as a limit on calls, tokens, money or time was reached."))
    return " ".join(more)


def _no_answer_words(votes: list[Any]) -> str:
    """Words for votes without a group. Such a vote has no answer, or an answer that does not count."""
    return t("not counted") if any(vote["answer"] is not None for vote in votes) else t("no answer")


def _votes_in_words(document: Mapping[str, Any], rounds: int) -> str:
    """The votes in words. If there are several votes and several ``rounds``, the text has the number of rounds."""
    votes = document["votes"]
    after = t(" after {count} rounds", count=rounds) if rounds > 1 else ""
    if not votes:
        return t("Nobody voted{after}.", after=after)
    if len(votes) == 1 and not any(turn["step"] == "aggregate" for turn in document["turns"]):
        return t("One model gave this answer. Nobody checked it.")
    groups: dict[Any, list[Any]] = {}
    for vote in votes:
        groups.setdefault(vote["group"], []).append(vote)
    if len(votes) > 1 and _is_unanimous(votes):
        if len(votes) == 2:
            return t("Both debaters gave the same answer{after}.", after=after)
        return t("All {count} gave the same answer{after}.", count=len(votes), after=after)
    counts = [
        f"{len(same)} {_no_answer_words(same) if group is None else _quoted_answer(document, same)}"
        for group, same in groups.items()
    ]
    return t("Of {count} answers{after}: {counts}.", count=len(votes), after=after, counts=listed(counts))


def _is_unanimous(votes: list[Any]) -> bool:
    """Whether all votes are for the same answer; false if there are no votes or no answers."""
    return len({vote["group"] for vote in votes}) == 1 and votes[0]["group"] is not None


def _quoted_answer(document: Mapping[str, Any], same: list[Any]) -> str:
    return t("“{answer}”", answer=chip_of(document, same[0]["answer"]).word)


def _has_warning(document: Mapping[str, Any], kind: str) -> bool:
    return any(one["kind"] == kind for one in document["warnings"])


class VerdictWarning(NamedTuple):
    """A warning that belongs to the verdict: its kind, bold words, and a sentence."""

    kind: str
    lead: str
    said: str


def verdict_warnings(document: Mapping[str, Any], names: Names) -> list[tuple[str, str]]:
    """The warnings that belong to the verdict, each as bold words and a sentence; see `warnings_of_verdict`."""
    return [(one.lead, one.said) for one in warnings_of_verdict(document, names)]


def warnings_of_verdict(document: Mapping[str, Any], names: Names) -> list[VerdictWarning]:
    """The warnings that belong to the verdict.

    A sentence that is only known in English is left out in other languages; the appendix has it.
    """
    warnings = []
    for one in caveats(document):
        lead, sentence = words_for("warning", one["kind"]), caveat_sentence(document, one, names)
        if one["kind"] == "stand_in":
            lead, sentence = replaced_source_words(plain(caveat_in_words(one)))
        warnings.append(VerdictWarning(one["kind"], lead, sentence.removeprefix(lead).strip()))
    if (found := document.get("robustness")) and found["holds"] is False:
        said = robustness_in_words(document)
        warnings.append(VerdictWarning("one_source", t("The verdict depends on one source."), said))
    if is_one_sided(document):
        warnings.append(VerdictWarning("one_sided", t("One-sided debate."), t(ONE_SIDED)))
    return warnings


def caveat_sentence(document: Mapping[str, Any], warning: Any, names: Names) -> str:
    """The sentence of a warning that belongs to the verdict; empty if it is only known in another language."""
    if warning["kind"] == "retrieval_failed":
        return failed_source_sentence(warning)
    sentence, language = in_reader_words(document, plain(caveat_in_words(warning)), names)
    return sentence if language == current_language() else ""


def failed_source_sentence(warning: Mapping[str, Any]) -> str:
    """A sentence that says which source could not be searched. The report's section "The record" has the cause."""
    name = source_words(str(warning["detail"]).partition(": ")[0])
    return t("{source} could not be searched.", source=f"{name[:1].upper()}{name[1:]}")


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
        (listed(dict.fromkeys(names(turn["agent"]) for turn in turns)), reason)
        for reason, turns in turns_by_reason(dict(document)).items()
    ]


# --- for and against --------------------------------------------------------------------------------------------------


def groups_by_answer(document: Mapping[str, Any], sources: Sources) -> list[Group]:
    """Quotes, grouped by the answers of the agents who gave them; if two sides debate, by the side they bear out."""
    found: dict[tuple[str, str], Group] = {}
    for one in sources.quotes:
        given: dict[tuple[str, str], list[tuple[Mapping[str, Any], str | None]]] = {}
        for turn, bears in one.given:
            given.setdefault(_side_or_answer(document, turn, bears), []).append((turn, bears))
        for key, turns in given.items():  # of each group only what its own answers make of the quote
            found.setdefault(key, Group(_quotes_heading(*key))).quotes.append(replace(one, given=turns))
    order = [*ANSWERS, "text", "side"]
    return [found[key] for key in sorted(found, key=lambda key: order.index(key[0]))]


def _side_or_answer(document: Mapping[str, Any], turn: Mapping[str, Any], bears: str | None) -> tuple[str, str]:
    """The kind of answer that a turn's quote stands for, and the answer's word; no word if it stands for a side."""
    if (side := side_borne_out(turn, bears)) in SIDES:
        return SIDES[side], ""
    chip = chip_of(document, turn.get("answer"))
    if chip.kind in ("sup", "ref") and any(one.get("side") in SIDES for one in document["turns"]):
        other = {"sup": "ref", "ref": "sup"}[chip.kind]
        return (other if bears == "contradicts" else chip.kind), ""
    return chip.kind, chip.word


def _quotes_heading(kind: str, word: str) -> str:
    if not word:
        return t("Quoted for the claim") if kind == "sup" else t("Quoted against the claim")
    return t("Quoted without an answer") if kind == "non" else t("Quoted for “{answer}”", answer=word)


def groups_by_stance(summary: Mapping[str, Any], sources: Sources) -> tuple[list[Group], Group]:
    """Quotes, grouped by the stances that the summary gave them; then those that speak for neither: the context.

    Empty groups are left out, except ``for``, ``against`` and the context.
    """
    stances = {(one["evidence_id"], one["start"], one["end"]): one["stance"] for one in summary["stances"]}
    groups = {stance: Group(t(heading)) for stance, heading in STANCES.items()}
    unsorted = Group(t("Quoted, not sorted"))
    for one in sources.quotes:
        stance = stances.get((one.id, one.start, one.end), "")
        groups.get(stance, unsorted).quotes.append(one)
    for group in (groups["for"], groups["against"]):
        group.placeholder = "" if group.quotes else t("Nothing was quoted.")
    return [groups["for"], groups["against"], *([unsorted] if unsorted.quotes else [])], groups["neither"]


# --- the votes --------------------------------------------------------------------------------------------------------


def dissent(document: Mapping[str, Any], names: Names) -> tuple[str, list[tuple[Chip, str, str]]]:
    """The dissents: a text, and a list with the chip, the agent and the reason of each dissent.

    The text says how answers changed, or that there are no dissents; the text may be empty. The text and the list
    are both empty if the debate failed or did not end. Who gave no answer does not dissent.
    """
    if document["status"] == "failed" or document["dissent"] is None:
        return "", []
    panel = (document["metrics"] or {}).get("panel")
    changes = changes_in_words(document, names)
    if panel:
        other = [
            (finding_chip(one["verdict"]), names(one["agent"]), plain(one["reason"] or "")) for one in panel["dissent"]
        ]
        alike = "" if other else t("None: the judges found the same.")
        return " ".join(filter(None, (alike, changes))), other
    votes = document["votes"]
    minority = {
        (one["agent"], one["number"]): group["answer"]
        for group in document["dissent"]["minority"]
        if group["answer"] is not None
        for one in group["by"]
    }
    voted = [key for vote in votes if (key := (vote["agent"], vote.get("number"))) in minority]
    last = last_turns(turn for turn in document["turns"] if turn["step"] == "respond")
    found = []
    for key in dict.fromkeys([*voted, *minority]):  # without votes, a debate followed
        turn = last[key]
        quotes = [t("“{answer}”", answer=plain(c["quote"])) for c in turn.get("citations") or [] if c["verified"]]
        reason = plain(turn.get("rationale") or "")
        reason += t(" Quoted: {quotes}.", quotes="; ".join(quotes[:MOST_QUOTED])) if quotes else ""
        found.append((chip_of(document, turn.get("answer")), names(key[0]), reason))
    if found or len(votes) < 2 or document["metrics"].get("withheld") or any(vote["answer"] is None for vote in votes):
        return changes, found
    given: dict[str, dict[Any, None]] = {}
    for turn in document["turns"]:
        if turn["step"] == "respond" and "number" not in turn:
            given.setdefault(turn["agent"], {})[chip_of(document, turn.get("answer")).word] = None
    if any(len(answers) > 1 for answers in given.values()):
        return f"{t('None at the end.')} {changes}".strip(), []
    if any(map(is_uncounted, votes)):
        return t("None: what the others read leaves it open."), []
    return t("None: all gave this answer each time they were asked."), []


TRIAL_PARTIES = ("plaintiff", "defense", "critic")
"""Those whose positions in a trial may change; the answers are the panel's verdicts."""


def changes_in_words(document: Mapping[str, Any], names: Names) -> str:
    """The changes of answers, each in a sentence. Titles of sources replace the ids of the sources."""
    titles = {piece["id"]: title_of(piece) for piece in document["evidence"]}
    in_trial = bool((document["metrics"] or {}).get("panel"))
    early = gate_agents(document)
    sentences = []
    for one in (document.get("dissent") or {"changes": []})["changes"]:
        positions = in_trial and one["agent"] in TRIAL_PARTIES
        before, after = (
            (finding_chip(one[key]) if positions else chip_of(document, one[key])).word for key in ("before", "answer")
        )
        heard = t(", as {names} had said", names=listed(map(names, one["after"]))) if one["after"] else ""
        new_quotes = [t("“{answer}”", answer=titles[id]) for id in one["evidence_ids"] if id in titles]
        quoted = t(", now quoting {titles}", titles=listed(new_quotes)) if new_quotes else ""
        towards = {True: t(", the verdict"), False: t(", not the verdict"), None: ""}[one["towards_verdict"]]
        both = {"name": names(one["agent"]), "before": before, "after": after}
        if one["agent"] in early:
            changed = t("Before the debate, {name} changed from “{before}” to “{after}”", **both)
        else:
            changed = t("In round {round}, {name} changed from “{before}” to “{after}”", **both, round=one["round"])
        sentences.append(f"{changed}{towards}{heard}{quoted}.")
    return " ".join(sentences)


def sides_of(groups: Iterable[Group]) -> tuple[list[Group], list[Group]]:
    """The groups that are placed side by side, and the groups below them.

    The first two groups are placed side by side. A single group is placed below.
    """
    listed = list(groups)
    return (listed[:2], listed[2:]) if len(listed) > 1 else ([], listed)
