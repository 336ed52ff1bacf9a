"""The classes of faults, and their results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Result:
    """The results of one class of faults.

    Args:
        times: how often the fault was arranged.
        lost: what was lost, in words.
        wrong: what is not as it has to be; nothing if all is.
    """

    times: int
    lost: str = "nothing"
    wrong: str = ""


@dataclass(frozen=True)
class Fault:
    """A class of faults.

    Args:
        name: the class.
        done: what is done to moot.
        expected: what has to come of it.
        arrange: does it, in a new folder, so many times (quickly: fewer) as the flag says.
    """

    name: str
    done: str
    expected: str
    arrange: Callable[[Path, bool], Result]


def first_wrong(*checks: tuple[bool, str]) -> str:
    """The message of the first check that fails; empty if all hold."""
    return next((message[:500] for passed, message in checks if not passed), "")
