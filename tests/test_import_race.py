"""Threads that import chromadb and serialise at the same time; ``make faults`` runs more of these races."""

from __future__ import annotations

from tests.import_race import races


def test_no_thread_fails_if_one_imports_while_another_serialises() -> None:
    assert list(races(3)) == ["", "", ""]
