"""Worked examples in prompts, with answers in the form of the task."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import resources
from typing import Any

from moot.core.errors import UserError
from moot.nodes._records.entries import Task
from moot.nodes._runtime.state import DebaterState
from moot.nodes._texts.answers import read_answer
from moot.nodes._texts.labels import COMPROMISED, FALSE, NOT_TRUE, OPEN, TRUE
from moot.nodes._texts.task import make_task
from moot.prompts import as_data

MEANINGS = {"true": (TRUE,), "false": (FALSE, NOT_TRUE, COMPROMISED), "open": (OPEN,)}
"""For each outcome of an example about a claim, the meanings that a task's label for this outcome may have."""

_FILE = resources.files("moot.prompts") / "demonstrations.jsonl"
EXAMPLES: tuple[dict[str, Any], ...] = tuple(map(json.loads, _FILE.read_text(encoding="utf-8").splitlines()))
"""The worked examples of all tasks, read at import, so that the event loop never waits for the disk."""


def demonstrations(task: Task, count: int, *, steps: bool = False) -> str:
    """Worked examples for a task, as a text for a prompt; with ``steps``, the reasoning comes before the answer."""
    if not count:
        return ""
    blocks = [block for one in EXAMPLES if (block := _example_text(one, task, steps))]
    if len(blocks) < count:
        raise UserError(
            f"There are {len(blocks)} demonstrations for the task {task['name']!r}, not {count}. "
            f"Set `demonstrations` to at most {len(blocks)}.",
            kind="invalid_setting",
        )
    return "\n".join(["Examples of how others were answered:", *blocks[:count]])


def _example_text(example: dict[str, Any], task: Task, steps: bool) -> str:
    """The text of an example, with an answer in the form of the task; empty if the example does not fit the task."""
    if example["kind"] != _example_kind(task):
        return ""
    answer_task = make_task("choice", options=example["options"]) if "options" in example else task
    if (outcome := example["outcome"]) in MEANINGS:
        answer = next((label for label, meaning in task["meanings"].items() if meaning in MEANINGS[outcome]), None)
    else:
        answer = read_answer(answer_task, outcome)
    if answer is None:
        return ""
    meanings = answer_task["meanings"] if "options" in example else {}
    options = [f"{label} - {option}" for label, option in meanings.items()]
    reasons = example["steps" if steps else "short"]
    lines = [f"Reasons: {reasons}", f"Answer: {answer}"] if steps else [f"Answer: {answer}", f"Reasons: {reasons}"]
    return as_data("example", "\n".join([example["text"], *options, *lines]))


def _example_kind(task: Task) -> str:
    """The kind of the examples that fit a task; empty for tasks with the user's own labels."""
    if task["kind"] != "labels":
        return task["kind"]
    if task["name"] == "pubmedqa":
        return "yes_no"
    if task["name"] == "labels":
        return ""
    return "choice" if task["labels"][:2] == ["A", "B"] else "claim"


def check_demonstrations(settings: Any, task: Task) -> None:
    """Raises a UserError if a task has fewer worked examples than the settings ask for, before any call.

    Args:
        settings: settings with ``demonstrations``.
        task: the form of an answer.
    """
    demonstrations(task, settings.demonstrations)


def demonstrations_placeholder(*, steps: bool = False) -> Callable[[DebaterState, Any], dict[str, str]]:
    """Makes a function that returns the value of the placeholder ``demonstrations``.

    The function takes a state and settings. The setting ``demonstrations`` is the number of examples.

    Args:
        steps: as for `demonstrations`.
    """

    def values(state: DebaterState, settings: Any) -> dict[str, str]:
        return {"demonstrations": demonstrations(state["task"], settings.demonstrations, steps=steps)}

    return values
