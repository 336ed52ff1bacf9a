"""Writes the text of a debate from its result document: the rounds and the end of the debate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import Any

from moot.core.errors import UserError
from moot.graphs import load_graph
from moot.nodes._models.objects import recorded_names
from moot.nodes._records.entries import GATE
from moot.nodes._runtime.settings import checked_settings
from moot.retrievers._evidence import clean, given_evidence
from moot.transcript.end import end
from moot.transcript.kinds import words_of
from moot.transcript.line import Line, Section
from moot.transcript.trial import is_ruled_before_debates
from moot.transcript.words import Words, is_late

Document = Mapping[str, Any]


def unfit_error(why: str) -> UserError:
    """The error for a file that is not a result document."""
    return UserError(
        f"This is not a result document as `moot verify --out FILE` writes it: {why}.", kind="invalid_file"
    )


@contextmanager
def checked_parts() -> Iterator[None]:
    """Context manager that turns errors from missing or unexpected parts of a document into a UserError."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise unfit_error(f"its parts do not fit together ({type(error).__name__}: {str(error)[:100]})") from error


def settings_of(document: Document) -> Any:
    """The settings of a debate, as an object of the graph's settings class; with them, it can be debated anew."""
    return checked_settings(load_graph(document["graph"]).settings, document["settings"], document["graph"])


def settings_to_read(document: Document) -> Any:
    """The same settings, also if they name objects of the program that ran the debate; nothing can be run with them."""
    return settings_of({**document, "settings": recorded_names(document["settings"])})


def ending(document: Document) -> Section:
    """The section on how a debate ended."""
    return Section("Verdict", [*end(document, words_of(settings_to_read(document)).verdict(document))])


def round_sections(document: Document) -> list[Section]:
    """The sections of a debate's text, except the last section, which is `ending`. The debate may still be running.

    The list is empty if the document has no task, because the debate was not opened.
    """
    words = words_of(settings_to_read(document))
    if document["task"] is None:
        return []
    words.update(document)
    words.reasons = dict.fromkeys(verdict_reasons(document, words))
    heading, *about = words.opening(document, given_evidence(document["evidence"]))
    sections = [Section(heading.text, about)]

    def lines_under(heading: str | None) -> list[Line]:
        """Starts a section if ``heading`` is neither None nor the last heading. Returns the last section's lines."""
        if heading is not None and heading != sections[-1].heading:
            sections.append(Section(heading))
        return sections[-1].lines

    def add_turns(turns: Iterable[tuple[int, Any]]) -> None:
        for index, turn in turns:
            for said in words.parts(turn).values():
                section_lines = lines_under(words.heading(turn))
                section_lines += [replace(line, turn=index) for line in words.lines(turn, said)]

    pooled = [piece for piece in document["evidence"] if "pool" in piece]
    weighed = any(map(is_ruled_before_debates, document["evidence"]))
    followed = any(turn["phase"] != GATE for turn in document["turns"])
    records = {(record["phase"], record["round"]): record for record in document["round_log"]}
    outcome = [*words.weights(document["votes"]), *words.stop(document["stop_reason"])]
    for phase, spoken in groupby(enumerate(document["turns"]), lambda turn: turn[1]["phase"]):
        for number, turns in groupby(spoken, lambda turn: turn[1]["round"]):
            before_debate = phase == GATE and followed
            for entry in document["graphs"]:
                if entry["round"] == number and not before_debate:
                    lines_under(words.round_heading(number)).extend(words.hearing(entry))
                    sections[-1].graph = number
            spoken_now = list(turns)
            late = [turn for turn in spoken_now if is_late(turn[1])]
            searched = max((index for index, turn in enumerate(spoken_now, 1) if "pool" in turn[1]), default=0)
            add_turns(spoken_now[:searched])
            if pooled:
                sections[-1].lines += words.pools(pooled)
                pooled = []
            add_turns(turn for turn in spoken_now[searched:] if not is_late(turn[1]))
            if weighed:
                sections[-1].lines += words.rulings(document["evidence"])
                weighed = False
            if record := records.pop((phase, number), None):
                sections[-1].lines += words.after_round(record)
            if number == document["rounds"] and not before_debate:
                # The votes and the stop reason come before the deciding turns.
                sections[-1].lines += outcome
                outcome = []
            # A person's question comes before the decision that answers it.
            add_turns(sorted(late, key=lambda turn: not turn[1].get("question")))
        for entry in document["debates"]:
            if entry["phase"] == phase:
                sections[-1].lines += words.concurrent_debate_stop(entry)
    for record in records.values():
        sections[-1].lines += words.after_round(record)
    sections[-1].lines += outcome
    return sections


def verdict_reasons(document: Document, words: Words) -> list[str]:
    """The reasons of turns that the verdict shows in full; an empty list if the debate is not done."""
    if document["status"] != "done":
        return []
    shown: set[str] = set()
    panel = "panel" in document["metrics"]
    for line in words.verdict(document):
        if line.what != "dissents":
            shown.add(line.text)
        elif panel:  # without a panel, the rounds show the dissenters' reasons, and the verdict refers to them
            shown.add(line.text.partition(" - ")[2])
    reasons = [clean(turn.get("rationale") or turn.get("reason") or "") for turn in document["turns"]]
    return [reason for reason in reasons if reason in shown]
