"""Worked examples in prompts: as many as requested, with answers in the form of the task."""

from __future__ import annotations

import re
from typing import Any

import pytest
from moot.core.errors import UserError
from moot.nodes._records.entries import Task
from moot.nodes._texts.answers import read_answer
from moot.nodes._texts.demonstrations import demonstrations
from moot.nodes._texts.task import TASKS, make_task

from tests.each import each

OPTIONS = ["iron", "gold", "tin", "lead"]
CHOICE_TASKS = [name for name, known in TASKS.items() if known.kind == "choice"]


def task_of(name: str) -> Task:
    return make_task(name, options=OPTIONS if name in CHOICE_TASKS else None)


def examples(task: Task, count: int, **options: Any) -> list[str]:
    """The texts of the examples. ``options`` are further arguments of `demonstrations`."""
    shown = demonstrations(task, count, **options)
    return re.findall(r"<example>\n(.*?)\n</example>", shown, re.DOTALL)


def answers_in(blocks: list[str]) -> list[str]:
    return [re.findall(r"^Answer: (.+)$", block, re.MULTILINE)[0] for block in blocks]


@each("steps", [False, True])
@each("name", [name for name in TASKS if name != "labels"])
def test_every_task_without_a_users_labels_has_at_least_two_examples(name: str, steps: bool) -> None:
    """With ``steps``, the reasons come before the answer."""
    task = task_of(name)
    for count in (1, 2):
        blocks = examples(task, count, steps=steps)
        assert len(blocks) == len(set(blocks)) == count
        for block, answer in zip(blocks, answers_in(blocks), strict=True):
            assert read_answer(task, answer) == answer  # the answer has the form of the task
            assert (block.index("Answer: ") > block.index("Reasons: ")) == steps
            assert ("\nA - " in block) == (name in CHOICE_TASKS)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fever", ["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"]),
        ("averitec", ["Supported", "Refuted", "Not Enough Evidence"]),
        ("check_covid", ["SUPPORT", "REFUTE", "NOTENOUGHINFO"]),
        ("scifact", ["SUPPORT", "CONTRADICT", "NOT ENOUGH INFO"]),
        ("hover", ["SUPPORTED", "NOT_SUPPORTED"]),
        ("faviq", ["SUPPORTS", "REFUTES"]),
        ("pubmedqa", ["yes", "no"]),
    ],
)
def test_answers_of_examples_are_labels_of_the_task(name: str, expected: list[str]) -> None:
    assert answers_in(examples(task_of(name), len(expected))) == expected


def test_the_text_is_empty_if_no_example_is_requested() -> None:
    assert demonstrations(make_task(), 0) == ""
    assert demonstrations(make_task(None, ["true", "false"]), 0) == ""


@pytest.mark.parametrize(
    ("task", "count", "available"),
    [
        (make_task("number"), 3, 2),
        (make_task("faviq"), 3, 2),
        (make_task("fever"), 4, 3),
        (make_task("labels", ["true", "false", "unproven"]), 1, 0),
        (make_task("labels", ["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"]), 1, 0),
        (make_task("labels", ["A", "B"]), 1, 0),
    ],
)
def test_the_error_for_too_many_examples_names_the_maximum(task: Task, count: int, available: int) -> None:
    with pytest.raises(
        UserError, match=rf"There are {available} demonstrations .*, not {count}.* at most {available}\."
    ) as raised:
        demonstrations(task, count)
    assert raised.value.kind == "invalid_setting"
