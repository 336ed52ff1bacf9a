"""Tasks: what an answer is, and how a written answer is read as one."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

from moot.nodes.state import Task
from moot.prompts.load import LOOKALIKES
from moot.retrievers.errors import UserError
from moot.retrievers.evidence import clean

LONGEST_CLAIM = 4000
"""Characters."""

FEVER = {
    "SUPPORTS": "the evidence shows that the claim is true",
    "REFUTES": "the evidence shows that the claim is false",
    "NOT ENOUGH INFO": "the evidence settles the claim neither way",
}


def make_task(
    name: str | None = None, labels: Sequence[str] | None = None, options: Sequence[str] | None = None
) -> Task:
    """The task of a debate.

    Args:
        name: ``fever`` (FEVER's three labels), ``labels`` or ``choice``; by default what labels and options suggest.
        labels: the answers to choose from, for ``labels``.
        options: the options of a multiple-choice question, for ``choice``; the answers are their letters.

    Raises:
        UserError: an unknown task, or labels or options that do not fit it.
    """
    if any(isinstance(given, str) or not isinstance(given, Sequence | None) for given in (labels, options)):
        raise UserError("Labels and options are lists of texts.", kind="invalid_task")
    name = name or ("choice" if options else "labels" if labels else "fever")
    if name == "fever" and not labels and not options:
        return {"name": name, "kind": "labels", "labels": list(FEVER), "meanings": dict(FEVER)}
    if name == "labels" and labels and not options:
        return _checked({"name": name, "kind": "labels", "labels": list(labels), "meanings": {}}, labels)
    if name == "choice" and options and not labels:
        letters = list(string.ascii_uppercase[: len(options)])
        meanings = dict(zip(letters, options, strict=False))
        return _checked({"name": name, "kind": "labels", "labels": letters, "meanings": meanings}, options)
    raise UserError(
        f"The task {name!r} does not fit the input. Use `fever` without labels, `labels` with a list of labels, or "
        "`choice` with a list of options.",
        kind="invalid_task",
    )


def _checked(task: Task, texts: Sequence[str]) -> Task:
    if not all(isinstance(t, str) and t.strip() and len(t) <= 500 for t in texts):
        raise UserError("Labels and options are texts of 1 to 500 characters.", kind="invalid_task")
    if not 2 <= len(texts) <= len(string.ascii_uppercase):
        raise UserError(f"A task has 2 to 26 answers, not {len(texts)}.", kind="invalid_task")
    if not all(_folded(label) for label in task["labels"]):
        raise UserError("A label needs a letter or a digit.", kind="invalid_task")
    # Options are told apart by their letters: `AA` and `Aa`, or `[0, 1]` and `(0, 1)`, are two.
    read = _folded if task["name"] == "labels" else str.strip
    if len({read(t) for t in texts}) < len(texts):
        raise UserError("Two of the labels or options are the same.", kind="invalid_task")
    return task


def check_claim(claim: object) -> str:
    """The claim without the white space around it.

    Raises:
        UserError: no text, an empty one, one of more than 4,000 characters, or one that is no valid Unicode.
    """
    if not isinstance(claim, str) or not clean(claim):
        raise UserError("The claim is empty. Give one sentence that can be true or false.", kind="invalid_claim")
    if len(claim) > LONGEST_CLAIM:
        raise UserError(
            f"The claim has {len(claim):,} characters; at most {LONGEST_CLAIM:,} are taken. Give its core.",
            kind="invalid_claim",
        )
    if any("\ud800" <= character <= "\udfff" for character in claim):
        raise UserError(
            "The claim holds half a character (a lone surrogate), which cannot be sent.", kind="invalid_claim"
        )
    return claim.strip()


def _folded(text: str) -> str:
    return re.sub(r"[\s_-]+", " ", text.strip(string.whitespace + "\"'`*.[](){}")).casefold()


def read_label(task: Task, text: str) -> str | None:
    """The task's label that a text is, up to case, white space, underscores and the marks around it; else None.

    Nothing is guessed: a text that says more than the label is no label.
    """
    return next((label for label in task["labels"] if _folded(label) == _folded(text)), None)


def describe(task: Task) -> str:
    """The task's answers for a prompt, one a line."""
    lines = (f"{label} - {task['meanings'][label]}" if label in task["meanings"] else label for label in task["labels"])
    return "\n".join(f"  - {' '.join(line.split())}".translate(LOOKALIKES) for line in lines)
