"""The default confidence in a verdict, and the text that explains this confidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.nodes._records.entries import Vote
from moot.nodes._steps.vote import majority
from moot.nodes._texts.default_confidence import confidence_by_votes, confidence_of, vote_share
from moot.nodes._texts.task import make_task

FEVER, WORDS = make_task("fever"), make_task("hotpotqa")
S, R = "SUPPORTS", "REFUTES"


def votes(answers: Sequence[str | None], **more: Sequence[float]) -> list[Vote]:
    """Votes with these answers; equal answers are in one group. ``more`` adds fields, with one value per vote."""
    known = list(dict.fromkeys(answer for answer in answers if answer is not None))
    made: list[Any] = [
        {"agent": f"agent-{i}", "answer": answer, "group": None if answer is None else known.index(answer)}
        for i, answer in enumerate(answers, 1)
    ]
    for key, values in more.items():
        made = [{**vote, key: value} for vote, value in zip(made, values, strict=True)]
    return made


def confidence_after(
    answer: str | None, *rounds: Sequence[str | None], task: Any = FEVER, **known: Any
) -> dict[str, Any]:
    """The confidence in ``answer``, the verdict of a debate with these answers in its rounds.

    ``known`` has further keys of the state.
    """
    log = [{"round": i, "phase": "primary", "votes": votes(round_answers)} for i, round_answers in enumerate(rounds, 1)]
    unknown = dict.fromkeys(("confidence", "confidence_parts", "confidence_from"))
    return confidence_of({"task": task, "answer": answer, "round_log": log, **unknown, **known})


def test_confidence_is_the_winners_share_of_votes_with_an_answer() -> None:
    given = votes([S, R, None, S])
    assert vote_share(given, 0) == pytest.approx(2 / 3)
    assert confidence_by_votes(given, given[0]) == {
        "confidence": 0.666667,
        "confidence_parts": {"vote_share": 0.666667},
        "confidence_from": "2 of 3 votes; 1 without an answer",
    }


def test_confidence_is_the_winners_share_of_weight_if_votes_are_weighted() -> None:
    given = votes([S, R, R], weight=[1.0, 0.1, 0.5], confidence=[1.0, 0.4, 0.8])
    won = majority(given, [1.0, 0.1, 0.5])
    assert confidence_by_votes(given, won) == {
        "confidence": 0.625,  # 1 / (1 + 0.1 + 0.5)
        "confidence_parts": {"vote_share": 0.625, "stated": 1.0},
        "confidence_from": "1 of 1.6 in weight, 1 of 3 votes",
    }


@pytest.mark.parametrize("given", [votes([None]), votes([S, None], weight=[0.0, 1.0])])
def test_a_share_of_a_total_weight_of_zero_is_an_error(given: list[Vote]) -> None:
    """Votes without an answer do not count."""
    with pytest.raises(ValueError, match="all votes with an answer have weight 0"):
        vote_share(given, 0)


def test_confidence_is_the_share_of_answers_of_all_rounds_that_equal_the_verdict() -> None:
    """This is so if the system has not computed a confidence."""
    found = confidence_after(R, [S, S, R], [S, R, None], [R, R, S])
    assert found == {
        "confidence": 0.5,
        "confidence_parts": {"answer_share": 0.5},
        "confidence_from": "4 of 8 answers in 3 rounds",
    }
    assert confidence_after(S, [S, S])["confidence_from"] == "2 of 2 answers"
    # No debater gave the judge's verdict as an answer.
    assert confidence_after("NOT ENOUGH INFO", [S, R])["confidence"] == 0.0


def test_a_panels_confidence_is_kept_if_its_verdict_has_no_label() -> None:
    panel = {"confidence": 0.8, "confidence_parts": {"base": 0.7}, "confidence_from": "2 of 3 judges' votes"}
    assert confidence_after(None, **panel) == panel  # as if the task had no label for INCONCLUSIVE


@given(st.lists(st.sampled_from([S, R, None]), min_size=2, max_size=9), st.data())
def test_shares_of_all_answers_add_up_to_one(answers: list[str | None], data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.sampled_from([0.1, 0.3, 1.0]), min_size=len(answers), max_size=len(answers)))
    given = votes(answers, weight=weights)
    groups = {vote["group"] for vote in given} - {None}
    if groups:
        assert sum(vote_share(given, group) for group in groups if group is not None) == pytest.approx(1)
