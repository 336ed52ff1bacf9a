"""Debates that are killed at random moments and finished by the same command; ``make faults`` kills more of them."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.faults.debates import SYSTEMS
from tests.faults.kills import Moment, by_resume, kill, moments


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kills")


@pytest.mark.parametrize("moment", [*moments(6, seed=1)], ids=lambda moment: f"{moment.system}-{moment.signal.name}")
def test_the_same_command_finishes_a_killed_debate(moment: Moment, folder: Path) -> None:
    assert kill(moment, folder).wrong == ""


def test_a_debate_that_is_killed_behind_its_gate_is_resumed_there(folder: Path) -> None:
    killed = kill(Moment("gated", signal.SIGKILL, 0.6, "calls"), folder, again=by_resume)
    assert killed.wrong == ""
    assert killed.before > len(SYSTEMS["gated"]["agents"])  # the gate's own calls were over
