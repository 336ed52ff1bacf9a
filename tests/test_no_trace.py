"""A test leaves no trace in its process: the second test here fails if the first one does."""

from __future__ import annotations

import os

from moot.nodes._models.contexts import BYTES_PER_TOKEN, bytes_per_token, count_prompt

MODEL = "openai:traced"


def test_a_test_may_change_its_process() -> None:
    os.environ["MOOT_TRACED"] = "yes"
    count_prompt(MODEL, 100_000, 12_000)
    assert bytes_per_token(MODEL) != BYTES_PER_TOKEN


def test_the_next_test_sees_nothing_of_it() -> None:
    assert "MOOT_TRACED" not in os.environ
    assert bytes_per_token(MODEL) == BYTES_PER_TOKEN
