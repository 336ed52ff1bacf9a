"""Threads that import chromadb and serialise at the same time; ``make faults`` runs more of these races."""

from __future__ import annotations

from tests.import_race import races


def test_threads_that_import_numpy_at_the_same_time_do_not_break_it() -> None:
    assert list(races(3)) == ["", "", ""]
