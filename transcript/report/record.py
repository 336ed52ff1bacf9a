"""The record of a debate for readers: the answers in each round, why another round followed, and the texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from moot.core.words import count_with_noun
from moot.nodes._runtime.turns import Citation, Said, Score
from moot.nodes._steps.score import METRICS
from moot.retrievers._evidence import clean
from moot.transcript.document import round_sections
from moot.transcript.line import Line, list_of
from moot.transcript.report.codes import CODES, words_for
from moot.transcript.report.head import Chip, chip_of, said_chip
from moot.transcript.report.names import Names
from moot.transcript.report.sources import Sources, plain, title_of

MOST_ROWS = 8
"""Maximum number of agents with their own rows in the timeline. If there are more, each answer has a row instead."""

TextParts = list[tuple[str, int | None]]
"""A text in parts: each is a text and None, or an empty text and the number of a source."""


@dataclass
class Cell:
    """A cell of the timeline, with answers as chips.

    ``was`` is a text with the agent's previous answer if the answer changed. ``note`` is shown below the answers.
    """

    chips: list[Chip] = field(default_factory=list)
    was: str = ""
    note: str = ""


@dataclass
class Row:
    """A row of the timeline, with a cell for each column.

    ``who`` is an agent or an answer. ``about`` has facts about the agent.
    """

    who: str
    about: str
    cells: list[Cell]


@dataclass
class Timeline:
    """The answers by round.

    ``why`` has a text for each column: why the debate continued or ended. The text for the decision is empty.
    """

    columns: list[str]
    rows: list[Row]
    why: list[str]


@dataclass
class Item:
    """An action of a speaker: a label, and a text or a list of sources by number and title.

    ``bad`` marks a failure, a faulty quote or a low score.
    """

    label: str
    said: TextParts = field(default_factory=list)
    found: list[tuple[int, str]] = field(default_factory=list)
    bad: bool = False


@dataclass
class Card:
    """The actions and the answers of one speaker."""

    who: str
    chips: list[Chip] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)


@dataclass
class Part:
    """A round, or another part of a debate: its heading, a one-line summary, its cards, and moot's remarks on it."""

    heading: str
    summary_line: str
    cards: list[Card]
    notes: list[TextParts]


# --- who answered what ------------------------------------------------------------------------------------------------


Answers = list[tuple[Mapping[str, Any], Said]]
"""Turns with what each of them answers."""


def timeline(document: Mapping[str, Any], names: Names) -> Timeline | None:
    """The answers in each round, and why another round followed.

    Each agent has a row. If there are more than `MOST_ROWS` agents, or if an agent gave several samples, each answer
    has a row instead. Each decision has its own row.
    """
    said = [line for section in round_sections(document) for line in section.lines if line.said]
    told = [(document["turns"][line.turn], line.said) for line in said if line.turn is not None and line.said]
    answers = [(turn, one) for turn, one in told if one.kind == "answer"]
    decisions = [(turn, one) for turn, one in told if one.kind in ("decision", "verdict")]
    rounds = sorted({turn["round"] for turn, _ in answers})
    if len(answers) + len(decisions) < 2:
        return None
    columns = [f"Round {number}" for number in rounds] if len(rounds) > 1 else ["Answer"] * bool(rounds)
    speakers = list(dict.fromkeys(turn["agent"] for turn, _ in answers))
    many = len(speakers) > MOST_ROWS or len({turn.get("number") for turn, _ in answers}) > 1
    rows = _answer_rows(document, answers, rounds) if many else []
    missing = {(turn["agent"], turn["round"]): _unsupported_note(one.scores) for turn, one in told if one.scores}
    for agent in [] if many else speakers:
        given = {turn["round"]: one for turn, one in answers if turn["agent"] == agent}
        notes = {number: missing.get((agent, number), "") for number in rounds}
        rows.append(Row(names(agent), names.speaker_facts(agent), _cells(document, given, notes)))
    if decisions:
        columns.append("Decision")
        for row in rows:
            row.cells.append(Cell())
        for turn, one in decisions:
            decided = Cell([said_chip(document, one)], note=words_for("outcome", one.outcome))
            rows.append(Row(names(turn["agent"]), "", [*(Cell() for _ in rounds), decided]))
    why = [_why_next(document, number, names, last=number == rounds[-1]) for number in rounds]
    return Timeline(columns, rows, [*why, *[""] * (len(columns) - len(why))])


def _cells(document: Mapping[str, Any], given: Mapping[int, Said], notes: Mapping[int, str]) -> list[Cell]:
    """A cell for each round, from an agent's answers by round, and notes by round."""
    cells, previous = [], None
    for number, note in notes.items():
        if (said := given.get(number)) is None:
            cells.append(Cell(note="did not speak"))
            continue
        chip = said_chip(document, said)
        was = f"was {previous.word}" if previous and previous.kind != "non" and previous.word != chip.word else ""
        cells.append(Cell([chip], was, words_for("outcome", said.outcome) or note))
        previous = chip
    return cells


def _answer_rows(document: Mapping[str, Any], answers: Answers, rounds: list[int]) -> list[Row]:
    """A row for each answer, with its count in each round."""
    given: dict[str, dict[int, int]] = {}
    chips: dict[str, Chip] = {}
    for turn, said in answers:
        chip = said_chip(document, said)
        chips[chip.word] = chip
        counts = given.setdefault(chip.word, {})
        counts[turn["round"]] = counts.get(turn["round"], 0) + 1
    return [
        Row(
            f"“{word}”" if chips[word].kind == "text" else word,
            "",
            [
                Cell([chips[word]] if counts.get(number) else [], note=count_with_noun(counts.get(number, 0), "answer"))
                for number in rounds
            ],
        )
        for word, counts in given.items()
    ]


def _unsupported_note(scores: Iterable[Score]) -> str:
    holds = [one for score in scores for one in score.statements]
    return f"{holds.count(False)} of {len(holds)} statements not in its passages" if False in holds else ""


def _why_next(document: Mapping[str, Any], number: int, names: Names, *, last: bool) -> str:
    """Why another round followed, or why this was the last round; empty if the document does not tell."""
    record = next((one for one in document["round_log"] if one["round"] == number), None)
    reason = record["reason"] if record else None
    reasons = [words_for("round", reason)] if reason and reason not in CODES["stop"] else []
    if reason == "unstable" and record:
        low = _low_scores(document, record, names)
        reasons = [f"The answers agreed, but did not pass the checks{': ' if low else ''}{'; '.join(low)}"]
    if last and document["stop_reason"]:
        ended = f"It ended, as {words_for('stop', document['stop_reason'])}"
        same = reason in ("stable", "agreed", "single_pass", "preferred") or document["stop_reason"] == "single_pass"
        reasons = [ended] if same else [*reasons, ended]
    return ". ".join(reasons)


def _low_scores(document: Mapping[str, Any], record: Mapping[str, Any], names: Names) -> list[str]:
    """The scores of a round that are below their thresholds or not known."""
    found = []
    for agent, scores in (record.get("scores") or {}).items():
        for metric in METRICS:
            least, value = document["settings"].get(f"{metric}_threshold"), scores.get(metric)
            if metric in scores and least is not None and (value is None or value < least):
                score = "not known" if value is None else f"{value:.2f}"
                found.append(f"{names(agent)}, {words_for('score', metric).lower()} {score} (needed {least:.2f})")
    return found


# --- the texts of the debate ----------------------------------------------------------------------------------------


def parts(document: Mapping[str, Any], sources: Sources, names: Names) -> list[Part]:
    """The texts of a debate, in parts, with words in place of codes. Lines with the tone ``aside`` are left out."""
    found = []
    for number, section in enumerate(round_sections(document)):
        shown_lines = [one for one in section.lines if one.tone != "aside"]
        if not shown_lines:
            continue
        cards, notes, added = list[Card](), list[TextParts](), set[tuple[int | None, str]]()
        for one in shown_lines:
            if not one.who and one.turn is None:
                notes.append(sources.numbered(_without_codes(one.text, document, names)))
                continue
            who = names(one.who) if one.who else cards[-1].who if cards else ""
            if not cards or cards[-1].who != who:
                cards.append(Card(who))
            _add_line(document, one, cards[-1], added, sources, names)
        heading = section.heading if number else "Before the answers" if document["rounds"] else "What was said"
        found.append(Part(heading, _answers_line(cards), [card for card in cards if card.chips or card.items], notes))
    return found


def _answers_line(cards: Iterable[Card]) -> str:
    """The summary of a part in one line: the agents and their answers."""
    given: dict[str, dict[str, None]] = {}
    for card in cards:
        for chip in card.chips:
            given.setdefault(chip.word, {})[card.who] = None
    if len(given) == 1:
        [(word, who)] = given.items()
        return f"{'both' if len(who) == 2 else 'all' if len(who) > 2 else next(iter(who))}: {word}"
    return "; ".join(f"{list_of(who) if len(who) <= 4 else len(who)}: {word}" for word, who in given.items())


def _without_codes(text: str, document: Mapping[str, Any], names: Names) -> str:
    """A sentence that moot wrote, with words for readers in place of labels, codes and agents' names."""
    for label in (document["task"] or {}).get("labels") or []:
        chip = chip_of(document, label)
        if chip.kind != "text":
            text = re.sub(rf"(?<![\w-]){re.escape(label)}(?![\w-])", f"“{chip.word}”", text)
    for code, words in CODES["stop"].items():
        text = text.replace(f"The debate stops: {code}.", f"The debate ended: {words}.")
    return names.with_names(text)


def _add_line(
    document: Mapping[str, Any],
    one: Line,
    card: Card,
    added: set[tuple[int | None, str]],
    sources: Sources,
    names: Names,
) -> None:
    """Adds a line to its speaker's card. The search results of a turn are added once, as a list."""
    said = one.said
    if said is None:
        if one.turn is None:
            card.items.append(Item(_action_label(one.what), sources.numbered(one.text)))
    elif said.piece:
        if (one.turn, said.part) not in added:
            added.add((one.turn, said.part))
            known = [id for id in document["turns"][one.turn]["evidence_ids"] if id in sources.pieces]
            found = [(sources.numbers[id], title_of(sources.pieces[id])) for id in known]
            card.items.append(Item("Found", found=found))
    elif said.scores:
        card.items += map(_score_item, said.scores)
    elif said.kind in ("answer", "decision", "verdict"):
        _add_answer(document, said, card, sources)
    else:
        text = one.text
        if said.outcome:
            text = ": ".join(filter(None, (said.text, words_for("outcome", said.outcome))))
        card.items.append(Item(_action_label(said.verb), sources.numbered(text), bad=one.tone == "warning"))
    if said and not said.piece:
        card.items += _citation_items(said.citations, sources)


def _action_label(what: str) -> str:
    """A label for an action, with a number if it has one: ``premise 2`` is "Premise 2"."""
    verb, _, number = what.partition(" ")
    if what in CODES["does"]:
        return words_for("does", what)
    label = words_for("does", verb) + (f" {number}" if number.isdecimal() else "")
    return label[:1].upper() + label[1:]


def _add_answer(document: Mapping[str, Any], said: Said, card: Card, sources: Sources) -> None:
    """Adds an answer or a verdict to its speaker's card, as a chip and as an item with its reason."""
    verb, _, number = said.verb.partition(" ")
    label = f"Answer {number}" if number.isdecimal() else words_for("does", verb)
    if said.answer is None:
        card.chips.append(Chip("non", "No answer"))
        card.items.append(Item(label, [(words_for("outcome", said.outcome), None)], bad=True))
        return
    chip = said_chip(document, said)
    card.chips.append(chip)
    given = clean(said.reason or "") or "gave no reasons"
    if number.isdecimal():
        given = f"{chip.word}. {given}"
    card.items.append(Item(label, sources.numbered(given)))


def _citation_items(citations: Iterable[Citation], sources: Sources) -> list[Item]:
    """The quotes of a turn, each with its source and the result of its check."""
    items = []
    for citation in citations:
        number = sources.numbers.get(citation["evidence_id"])
        if citation["fabricated"] or number is None:
            invented = f"“{plain(citation['quote'])}”: names a source that the agent was not shown; not counted"
            items.append(Item("Quoted", [(invented, None)], bad=True))
        elif citation["verified"]:
            items.append(Item("Quoted", [(f"“{plain(citation['quote'])}”", None), ("", number)]))
        else:
            quoted: TextParts = [(f"“{plain(citation['quote'])}”", None), ("", number)]
            faulty = [*quoted, (": not in this source in these words", None)]
            items.append(Item("Quoted", faulty, bad=True))
    return items


def _score_item(score: Score) -> Item:
    """A score of an answer, with its threshold."""
    needed = f", needed {score.least:.2f}" if score.least is not None else ""
    value = "not known" if score.value is None else f"{score.value:.2f}"
    text = f"{words_for('score', score.name)} {value}{needed}"
    if score.statements:
        text = f"{sum(score.statements)} of {len(score.statements)} statements are in its passages"
    return Item(
        "Checked", [(text, None)], bad=score.least is not None and (score.value is None or score.value < score.least)
    )
