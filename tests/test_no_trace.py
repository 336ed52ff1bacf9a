"""A test leaves no trace in its process: the second test here fails if the first one does."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from moot.core.errors import UserError
from moot.nodes._models.contexts import BYTES_PER_TOKEN, bytes_per_token, count_prompt
from moot.retrievers import open_retriever

MODEL = "openai:traced"


async def test_a_test_may_change_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.environ["MOOT_TRACED"] = "yes"
    count_prompt(MODEL, 100_000, 12_000)
    assert bytes_per_token(MODEL) != BYTES_PER_TOKEN
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="cannot be opened"):
        await open_retriever("langchain:own_missing:shelf")
    assert str(tmp_path) in sys.path


def test_the_next_test_sees_nothing_of_it() -> None:
    assert "MOOT_TRACED" not in os.environ
    assert bytes_per_token(MODEL) == BYTES_PER_TOKEN
    assert not [folder for folder in sys.path if "test_a_test_may_change" in folder]
