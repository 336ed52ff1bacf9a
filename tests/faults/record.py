"""The classes of faults, and their results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Result:
    """The results of one class of faults.

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
        cause: causes the fault in a new folder; the flag asks for fewer repetitions.
    """

    name: str
    description: str
    expected: str
    cause: Callable[[Path, bool], Result]


def first_failed(*checks: tuple[bool, str]) -> str:
    """The message of the first check that fails; empty if all hold."""
    return next((message[:500] for passed, message in checks if not passed), "")
