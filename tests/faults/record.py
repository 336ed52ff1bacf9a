"""A class of faults, and the result of causing these faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Result:
    """The result of one class of faults.

    Args:
        times: how often the fault was caused.
        lost: the loss, in words.
        wrong: the first deviation from the expected result; empty if there is none.
    """

    times: int
    lost: str = "nothing"
    wrong: str = ""


@dataclass(frozen=True)
class Fault:
    """A class of faults.

    Args:
        name: the name of the class.
        description: the fault, in words.
        expected: the expected result, in words.
        cause: a function that causes the faults. Its arguments are the path of a folder that does not exist yet, and
            whether to cause fewer faults.
    """

    name: str
    description: str
    expected: str
    cause: Callable[[Path, bool], Result]


def first_failed(*checks: tuple[bool, str]) -> str:
    """The first 500 characters of the message of the first failed check; empty if no check failed."""
    return next((message[:500] or "a check failed without a message" for passed, message in checks if not passed), "")
