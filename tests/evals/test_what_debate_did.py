"""What debate did to the answers: worked examples of the functions and tables."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from moot.evals import changes, drift, minorities, right_by_round
from moot.evals._report.effects import changes_table, effects_table
from moot.evals._stats.changes import Changes, Minority, anyone_right, split

from tests.evals.made_logs import debate
from tests.evals.made_study import DEBATE, GOLD, N, R, S, records, study, value

approx: Any = pytest.approx


def test_changes_are_those_of_speakers_who_answered_in_both_rounds() -> None:
    before = {"a": True, "b": True, "c": False, "d": False, "gone": True}
    after = {"a": True, "b": False, "c": True, "d": False, "new": True}
    assert changes(before, after) == Changes(wrong_to_right=1, right_to_wrong=1, stayed_right=1, stayed_wrong=1)


def test_drift_is_the_gain_of_the_speakers_of_the_first_round() -> None:
    assert drift([{"a": True, "b": False}, {"a": True, "b": True}]) == 0.5
    assert drift([{"a": True, "b": True}, {"a": False}]) == -0.5  # b has left with its right answer
    assert drift([{"a": True}]) == 0
    assert drift([]) is None


def test_the_mean_drift_of_a_debate_that_copies_answers_at_random_is_zero() -> None:
    """Each speaker takes over the answer of a speaker drawn at random: correctness is a martingale."""
    names = "abc"
    for first in product((False, True), repeat=3):
        start = dict(zip(names, first, strict=True))
        ends = [dict(zip(names, copied, strict=True)) for copied in product(first, repeat=3)]
        assert sum(drift([start, end]) or 0 for end in ends) == approx(0)


def test_a_minority_is_at_most_half_of_the_speakers() -> None:
    outvoted = [{"a": True, "b": False, "c": False}, {"a": False, "b": False, "c": False}]
    assert minorities(outvoted) == Minority(right=1, gave_in=1, wrong=0, corrected=0)
    assert minorities([{"a": False, "b": True, "c": True}, dict.fromkeys("abc", True)]) == Minority(0, 0, 1, 1)
    assert minorities([{"a": True, "b": False}, {"a": True, "b": False}]) == Minority(1, 0, 1, 0)
    assert minorities([dict.fromkeys("abc", True), dict.fromkeys("abc", False)]) == Minority(0, 0, 0, 0)


def test_an_oracle_takes_any_right_answer_of_any_round() -> None:
    assert anyone_right([{"a": True}, {"a": False}]) is True
    assert anyone_right([{"a": False}]) is False
    assert anyone_right([]) is None
    assert [split([{"a": True, "b": last}]) for last in (True, False)] == [False, True]


def test_the_rounds_of_a_document_leave_out_the_answers_before_a_gate() -> None:
    document = debate(S, [S, R], [S, None])
    gate = [{**turn, "round": 0, "phase": "gate", "agent": "reader-1"} for turn in document["turns"][:1]]
    rounds = right_by_round(document | {"turns": [*gate, *document["turns"]]}, lambda answer: answer == S)
    assert rounds == ({"agent-1": True, "agent-2": False}, {"agent-1": True, "agent-2": False})


def test_tables_of_what_debate_did_by_hand(tmp_path: Path) -> None:
    """`DEBATE` has a second round on items 2 and 5 (and a third on 5); item 6 failed."""
    made = study(tmp_path, a=(DEBATE, {}))
    table = changes_table(made)
    assert table is not None
    # Item 2: RSR becomes SSS, and S is right. Item 5: SRS becomes RRS, then RRR, and R is right.
    assert [row[1:9] for row in table.rows] == [
        ("speakers", "1 to 2", 6, 3, 0, 2, 1, 0.5),
        ("speakers", "2 to 3", 3, 1, 0, 2, 0, approx(1 / 3)),
        ("the majority", "1 to 2", 2, 2, 0, 0, 0, 1.0),
        ("the majority", "2 to 3", 1, 0, 0, 1, 0, 0.0),
        ("the majority", "last to verdict", 7, 0, 1, 6, 0, approx(-1 / 7)),
    ]
    row = records(effects_table(made))["a"]
    assert (row["debates"], value(row["first"]), value(row["verdict"])) == (7, approx(5 / 7), approx(6 / 7))
    assert value(row["drift"]) == approx((2 / 3 + 2 / 3) / 7)
    assert row["drift_p"] == approx(0.5)  # two items drift, both upwards: 2 / 2^2
    # In right minorities: one answer of item 2, and one in the first round of item 5. In wrong ones: one of item 5.
    assert (row["right_minority"], value(row["gave_in"]), value(row["corrected"])) == (2, 0.0, 1.0)
    assert (value(row["oracle"]), value(row["oracle_gap"])) == (1.0, approx(1 / 7))


def test_systems_without_rounds_are_left_out(tmp_path: Path) -> None:
    made = study(tmp_path, a=({id: debate(label, [label, label]) for id, label in GOLD.items()}, {}))
    assert (effects_table(made), changes_table(made)) == (None, None)


def test_whether_the_judge_and_the_gate_followed_the_better_side(tmp_path: Path) -> None:
    def judged(verdict: str, *rounds: list[str], gate: dict[str, Any] | None = None) -> dict[str, Any]:
        document = debate(verdict, *rounds)
        judge = {**document["turns"][0], "agent": "judge", "step": "judge"}
        metrics = document["metrics"] | ({"gate": gate} if gate else {})
        return document | {"turns": [*document["turns"], judge], "metrics": metrics}

    closed = {"answers": {"r1": S, "r2": S}, "passed": True}
    opened = {"answers": {"r1": R, "r2": N}, "passed": False}
    documents = {
        "1": judged(S, [S, R], [S, R], gate=opened),  # the judge took the right side; most readers were wrong
        "2": judged(R, [S, R], [S, R], gate=opened),  # the judge took the wrong side
        "3": judged(S, [R, S], [S, S]),  # nothing to judge: both are right
        "4": debate(S, metrics=debate(S)["metrics"] | {"gate": closed}),  # passed, and wrong
    }
    made = study(tmp_path, a=(documents, {"gold": {id: GOLD[id] for id in documents}}))
    row = records(effects_table(made))["a"]
    assert (value(row["judge"]), row["judged"]) == (0.5, 2)
    assert (value(row["gate"]), value(row["opened"]), value(row["rescued"]), row["gated"]) == (0.0, 1.0, 0.5, 3)
