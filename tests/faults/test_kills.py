"""Debates that are killed at random moments and finished by the same command; ``make faults`` kills more of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.kills import Moment, kill, moments


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kills")


@pytest.mark.parametrize("moment", [*moments(5, seed=1)], ids=lambda moment: f"{moment.system}-{moment.signal.name}")
def test_the_same_command_finishes_a_killed_debate(moment: Moment, folder: Path) -> None:
    assert kill(moment, folder).wrong == ""
