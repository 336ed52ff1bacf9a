"""The record of a debate for readers: the answers in each round, why another round followed, and the texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from moot.nodes._records.entries import GATE
from moot.nodes._runtime.turns import Citation, Said, Score
from moot.nodes._steps.score import METRICS
from moot.nodes._texts.verdict import WARRANT_WORDS
from moot.retrievers._evidence import clean
from moot.transcript.language import in_clauses, listed, t
from moot.transcript.line import Line, Section
from moot.transcript.report.codes import CODES, words_for
from moot.transcript.report.head import Chip, in_reader_words, said_chip
from moot.transcript.report.names import Names
from moot.transcript.report.sentences import translated
from moot.transcript.report.sources import Sources, plain, title_of
from moot.transcript.words import vote_words

ROUND_END = re.compile(r"Round \d+: |The consensus is not stable|The debate stops: |The rounds are used up")
"""The beginning of a line on the end of a round."""
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

    ``why`` has a text for each column: why the debate continued or ended. The text for the decision is empty. The first
    columns are those of ``rounds``, the numbers of their rounds; a gate's own rounds and its debate's may share one.
    """

    columns: list[str]
    rounds: list[int]
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


class Note(NamedTuple):
    """A remark of moot on a round, with the language of its text."""

    language: str
    said: TextParts


@dataclass
class Part:
    """A round, or another part of a debate: its heading, a one-line summary, its cards, and moot's remarks on it.

    ``round`` is the number of the round; 0 for other parts.
    """

    heading: str
    round: int
    summary_line: str
    cards: list[Card]
    notes: list[Note]


# --- who answered what ------------------------------------------------------------------------------------------------


Answers = list[tuple[Mapping[str, Any], Said]]
"""Turns with what each of them answers."""


def timeline(document: Mapping[str, Any], sections: Iterable[Section], names: Names) -> Timeline | None:
    """The answers in each round, and why another round followed.

    Each agent has a row. If there are more than `MOST_ROWS` agents, or if an agent gave several samples, each answer
    has a row instead. Each decision has its own row.
    """
    said = [line for section in sections for line in section.lines if line.said]
    told = [(document["turns"][line.turn], line.said) for line in said if line.turn is not None and line.said]
    answers = [(turn, one) for turn, one in told if one.kind == "answer"]
    decisions = [(turn, one) for turn, one in told if one.kind in ("decision", "verdict")]
    rounds = sorted({_column(turn) for turn, _ in answers})
    if len(answers) + len(decisions) < 2:
        return None
    columns = [_column_name(*one) for one in rounds] if len(rounds) > 1 else [t("Answer")] * bool(rounds)
    speakers = list(dict.fromkeys(turn["agent"] for turn, _ in answers))
    many = len(speakers) > MOST_ROWS or len({turn.get("number") for turn, _ in answers}) > 1
    rows = _answer_rows(document, answers, rounds) if many else []
    missing = {(turn["agent"], _column(turn)): _unsupported_note(one.scores) for turn, one in told if one.scores}
    for agent in [] if many else speakers:
        given = {_column(turn): one for turn, one in answers if turn["agent"] == agent}
        notes = {number: missing.get((agent, number), "") for number in rounds}
        rows.append(Row(names(agent), names.speaker_facts(agent), _cells(document, given, notes)))
    if decisions:
        columns.append(t("Decision"))
        for row in rows:
            row.cells.append(Cell())
        for turn, one in decisions:
            decided = Cell([said_chip(document, one)], note=words_for("outcome", one.outcome))
            rows.append(Row(names(turn["agent"]), "", [*(Cell() for _ in rounds), decided]))
    why = [_why_next(document, number, names, last=number == rounds[-1]) for number in rounds]
    return Timeline(columns, [number for _, number in rounds], rows, [*why, *[""] * (len(columns) - len(why))])


Column = tuple[bool, int]
"""A column of a timeline: whether it is of the debate, not of the answers before it, and the number of the round."""


def _column(entry: Mapping[str, Any]) -> Column:
    """The column of a turn, or of the record of a round."""
    return entry["phase"] != GATE, entry["round"]


def _column_name(in_debate: bool, round: int) -> str:
    if in_debate:
        return t("Round {number}", number=round)
    return t("After its own attack") if round else t("First answers")


def _cells(document: Mapping[str, Any], given: Mapping[Column, Said], notes: Mapping[Column, str]) -> list[Cell]:
    """A cell for each round, from an agent's answers by round, and notes by round."""
    cells, previous = [], None
    for number, note in notes.items():
        if (said := given.get(number)) is None:
            cells.append(Cell(note=t("did not speak")))
            continue
        chip = said_chip(document, said)
        was = ""
        if previous and previous.kind != "non" and previous.word != chip.word:
            was = t("was {answer}", answer=previous.word)
        cells.append(Cell([chip], was, words_for("outcome", said.outcome) or note))
        previous = chip
    return cells


def _answer_rows(document: Mapping[str, Any], answers: Answers, rounds: list[Column]) -> list[Row]:
    """A row for each answer, with its count in each round."""
    given: dict[str, dict[Column, int]] = {}
    chips: dict[str, Chip] = {}
    for turn, said in answers:
        chip = said_chip(document, said)
        chips[chip.word] = chip
        counts = given.setdefault(chip.word, {})
        counts[_column(turn)] = counts.get(_column(turn), 0) + 1
    return [
        Row(
            t("“{answer}”", answer=word) if chips[word].kind == "text" else word,
            "",
            [
                Cell([chips[word]] * bool(counts.get(number)), note=t("{count} answers", count=counts.get(number, 0)))
                for number in rounds
            ],
        )
        for word, counts in given.items()
    ]


def _unsupported_note(scores: Iterable[Score]) -> str:
    holds = [one for score in scores for one in score.statements]
    if False not in holds:
        return ""
    return t("{part} of {whole} statements not in its passages", part=holds.count(False), whole=len(holds))


def _why_next(document: Mapping[str, Any], column: Column, names: Names, *, last: bool) -> str:
    """Why another round followed, or why this was the last round; empty if the document does not tell."""
    record = next((one for one in document["round_log"] if _column(one) == column), None)
    reason = record["reason"] if record else None
    reasons = [words_for("round", reason)] if reason and reason not in CODES["stop"] else []
    answers = [vote["answer"] for vote in (record or {}).get("votes", [])]
    if reason == "disputed" and None in answers and len({*answers}) <= 2:
        reasons = [t("Not everybody gave an answer")]
    if reason == "unstable" and record:
        low = _low_scores(document, record, names)
        told = t("The answers agreed, but did not pass the checks")
        reasons = [t("{name}: {text}", name=told, text=in_clauses(low)) if low else told]
    if last and document["stop_reason"] and (reason, document["stop_reason"]) != ("unchanged", "consensus"):
        ended = t("It ended: {reason}", reason=words_for("stop", document["stop_reason"]))
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
                score = t("not known") if value is None else f"{value:.2f}"
                needed = t("needed {least}", least=f"{least:.2f}")
                what = f"{names(agent)}, {words_for('score', metric)}"
                found.append(t("{name}: {text}", name=what, text=f"{score} ({needed})"))
    return found


# --- the texts of the debate ----------------------------------------------------------------------------------------


def parts(document: Mapping[str, Any], sections: Iterable[Section], sources: Sources, names: Names) -> list[Part]:
    """The texts of a debate, in parts, with words in place of codes.

    Lines with the tone ``aside`` are left out, and those on votes and on what followed, which the timeline has.
    """
    votes = tuple(f": {clean(vote_words(one['votes']))}." for one in document["round_log"] if one.get("votes"))
    found = []
    for number, section in enumerate(sections):
        shown_lines = [one for one in section.lines if one.tone != "aside" and not (votes and _ends_round(one, votes))]
        if not shown_lines:
            continue
        cards, notes, added = list[Card](), list[Note](), set[tuple[int | None, str]]()
        for one in shown_lines:
            if not one.who and one.turn is None:
                told, language = in_reader_words(document, one.text, names)
                notes.append(Note(language, sources.numbered(told)))
                continue
            who = names(one.who) if one.who else cards[-1].who if cards else ""
            if not cards or cards[-1].who != who:
                cards.append(Card(who))
            _add_line(document, one, cards[-1], added, sources, names)
        heading = _heading(section.heading)
        if not number:
            heading = t("Before the answers") if document["rounds"] else t("What was said")
        in_round = re.fullmatch(r"Round (\d+)", section.heading)
        shown_cards = [card for card in cards if card.chips or card.items]
        found.append(Part(heading, int(in_round[1]) if in_round else 0, _answers_line(cards), shown_cards, notes))
    return found


def _ends_round(line: Line, votes: tuple[str, ...]) -> bool:
    """Whether moot's own line tells the votes of a round, why another one follows, or why the debate stops."""
    is_own = line.turn is None and not line.who
    return is_own and (line.text.endswith(votes) or ROUND_END.match(line.text) is not None)


def _heading(heading: str) -> str:
    """A section's heading in the current language; one that is not known as it is."""
    number = re.search(r"\d+", heading)
    return t(heading.replace(number[0], "{number}", 1), number=number[0]) if number else t(heading)


def _answers_line(cards: Iterable[Card]) -> str:
    """The summary of a part in one line: the agents and their answers."""
    given: dict[str, dict[str, None]] = {}
    for card in cards:
        for chip in card.chips:
            given.setdefault(chip.word, {})[card.who] = None
    if len(given) == 1:
        [(word, who)] = given.items()
        all_of_them = t("both") if len(who) == 2 else t("all") if len(who) > 2 else next(iter(who))
        return t("{name}: {text}", name=all_of_them, text=word)
    return in_clauses(
        t("{name}: {text}", name=listed(who) if len(who) <= 4 else len(who), text=word) for word, who in given.items()
    )


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
            turn = document["turns"][one.turn]
            quoted = turn.get("quoted_by") or {}
            shown = [id for id in turn["evidence_ids"] if id in sources.pieces]
            ids = [id for id in shown if (id in quoted) == (said.part == "passages")]
            found = [(sources.numbers[id], title_of(sources.pieces[id])) for id in ids]
            card.items.append(Item(words_for("does", said.verb.partition(" ")[0]), found=found))
    elif said.scores:
        card.items += map(_score_item, said.scores)
    elif said.kind in ("answer", "decision", "verdict"):
        _add_answer(document, said, card, sources)
    else:
        text = one.text
        if said.outcome:
            text = ": ".join(filter(None, (said.text, words_for("outcome", said.outcome))))
        what, separator, why = text.partition(" - ")
        text = f"{translated(what) or what}{separator}{translated(why) or why}"
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
    label = t("Answer {number}", number=number) if number.isdecimal() else words_for("does", verb)
    if said.answer is None:
        card.chips.append(Chip("non", t("No answer")))
        card.items.append(Item(label, [(words_for("outcome", said.outcome), None)], bad=True))
        return
    chip = said_chip(document, said)
    card.chips.append(chip)
    given = clean(said.reason or "") or t("gave no reasons")
    if number.isdecimal():
        given = f"{chip.word}. {given}"
    card.items.append(Item(label, sources.numbered(given)))


def _citation_items(citations: Iterable[Citation], sources: Sources) -> list[Item]:
    """The quotes of a turn, each with its source and the result of its check."""
    items: list[Item] = []
    for citation in citations:
        number = sources.numbers.get(citation["evidence_id"])
        quote = t("“{answer}”", answer=plain(citation["quote"]))
        if citation["fabricated"] or number is None:
            invented = t(
                "{name}: {text}", name=quote, text=t("names a source that the agent was not shown; not counted")
            )
            items.append(Item(t("Quoted"), [(invented, None)], bad=True))
        elif citation["verified"]:
            bears = WARRANT_WORDS.get(citation.get("warrant"))
            does: TextParts = [(t("{name}: {text}", name="", text=t(bears)), None)] if bears else []
            said = [(quote, None), ("", number), *does]
            items.append(Item(t("Quoted"), said, bad=citation.get("warrant") == "contradicts"))
        else:
            why = t("{name}: {text}", name="", text=t("not in this source in these words"))
            faulty: TextParts = [(quote, None), ("", number), (why, None)]
            items.append(Item(t("Quoted"), faulty, bad=True))
    return items


def _score_item(score: Score) -> Item:
    """A score of an answer, with its threshold."""
    needed = f", {t('needed {least}', least=f'{score.least:.2f}')}" if score.least is not None else ""
    value = t("not known") if score.value is None else f"{score.value:.2f}"
    text = t("{name}: {text}", name=words_for("score", score.name), text=f"{value}{needed}")
    if score.statements:
        whole = len(score.statements)
        text = t("{part} of {whole} statements are in its passages", part=sum(score.statements), whole=whole)
    return Item(
        t("Checked"), [(text, None)], bad=score.least is not None and (score.value is None or score.value < score.least)
    )
