"""One thread imports chromadb while another thread serialises. ``make faults`` runs more of these races."""

from __future__ import annotations

from tests.import_race import races


def test_serialising_during_an_import_of_chromadb_causes_no_error() -> None:
    assert list(races(3)) == ["", "", ""]
