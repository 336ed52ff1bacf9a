"""Reducers, which merge the parallel writes of several nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moot.core.errors import ErrorRecord
from moot.nodes._records.entries import PHASES, Reading, RoundRecord, Turn, Warned

OPENING = "open"
"""The node that opens a debate. It is the ``where`` of errors that occurred before the debate started."""
OVERWRITE = "__overwrite__"


def overwrite(value: Any) -> dict[str, Any]:
    """A write that replaces a key's value without the key's reducer: LangGraph's `Overwrite`, as plain JSON."""
    return {OVERWRITE: value}


def written_values(update: Mapping[str, Any]) -> dict[str, Any]:
    """A node's writes, with plain values in place of those that `overwrite` wrapped."""
    return {
        key: value[OVERWRITE] if isinstance(value, dict) and set(value) == {OVERWRITE} else value
        for key, value in update.items()
    }


def turn_key(turn: Turn) -> tuple[Any, ...]:
    """The key that identifies a turn in its debate."""
    return (turn["round"], turn["phase"], turn["agent"], turn["step"], turn.get("number"))


def merge_turns(old: list[Turn], new: list[Turn]) -> list[Turn]:
    """Merges turns with the same key, and their scores; returns the turns in the order of phases and rounds."""
    merged: dict[tuple[Any, ...], Turn] = {}
    for turn in [*old, *new]:
        key = turn_key(turn)
        known = merged.get(key)
        if known is None:
            merged[key] = turn
        elif known is not turn:
            scores = {**known.get("scores", {}), **turn.get("scores", {})}
            merged[key] = {**known, **turn, "scores": scores}
    return sorted(merged.values(), key=_phase_and_round)  # stable: turns of one phase and round keep their order


def _phase_and_round(entry: Turn | RoundRecord) -> tuple[int, int]:
    return PHASES.index(entry["phase"]) if entry["phase"] in PHASES else len(PHASES), entry["round"]


def recorded_round(round: int, phase: str = "primary", **found: Any) -> dict[str, Any]:
    """A state update with the record of a round."""
    return {"round_log": [{"round": round, "phase": phase, **found}]}


def merge_rounds(old: list[RoundRecord], new: list[RoundRecord]) -> list[RoundRecord]:
    """Merges records of the same round; returns the records in the order of phases and rounds."""
    merged: dict[tuple[str, int], Any] = {}
    for record in [*old, *new]:
        key = (record["phase"], record["round"])
        merged[key] = {**merged.get(key, {}), **record}
    return sorted(merged.values(), key=_phase_and_round)


def merge_readings(old: list[Reading], new: list[Reading]) -> list[Reading]:
    """Adds new entries to the log of the sources that were read, except entries that it already has."""
    result = list(old)
    result.extend(r for r in new if r not in result)
    return result


REPEATED_KINDS = ("stand_in", "evidence_cut")
"""Kinds of warnings that each round can bring again; equal warnings of these kinds are kept only once."""


def merge_warnings(old: list[Warned], new: list[Warned]) -> list[Warned]:
    """Adds new warnings to a list, but one of a kind in `REPEATED_KINDS` only if no equal one is there."""
    result = list(old)
    result.extend(w for i, w in enumerate(new) if w["kind"] not in REPEATED_KINDS or w not in [*old, *new[:i]])
    return result


def joined(old: list[Any], new: list[Any]) -> list[Any]:
    return [*old, *new]


def deepest(old: int, new: int) -> int:
    """The length of the longer of two chains of dependent calls."""
    return max(old, new)


def first_error(old: ErrorRecord | None, new: ErrorRecord | None) -> ErrorRecord | None:
    """The first error of a debate."""
    # At its start, a debate writes None or an error of `OPENING`, in place of an earlier debate's error on the thread.
    return new if new is None or new["where"] == OPENING else old or new
