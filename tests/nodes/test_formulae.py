"""Tool-MAD's scores and their averages, the stability of an answer, and the agreement of answers."""

from __future__ import annotations

import asyncio
from itertools import cycle, permutations
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from moot.nodes._records.entries import Turn, Vote
from moot.nodes._steps.compare import agreed_answer, answers_of, average_scores, group_answers
from moot.nodes._steps.score import answer_is_stable, faithfulness_score, mean_cosine
from moot.nodes._texts.task import make_task

from tests.each import each

THRESHOLDS = {"faithfulness": 0.7, "answer_relevance": 0.8}


def turn(agent: str, answer: str | None, round: int = 1, **more: Any) -> Turn:
    made: Any = {"round": round, "phase": "primary", "agent": agent, "step": "respond", "answer": answer, **more}
    return made  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("supported", "score"),
    [([], None), ([False], 0.0), ([True], 1.0), ([True, True, False, True], 0.75), ([True, False, False], 1 / 3)],
)
def test_faithfulness_is_the_share_of_supported_statements(supported: list[bool], score: float | None) -> None:
    assert faithfulness_score(supported) == score


@pytest.mark.parametrize(
    ("claim", "questions", "score"),
    [
        ([1, 0], [], None),
        ([1, 0], [[5, 0]], 1.0),  # the length of a vector does not matter
        ([3, 4], [[4, 3]], 24 / 25),  # (12 + 12) / (5 * 5)
        ([1, 0], [[3, 4], [0, 2], [-1, 0]], (0.6 + 0 - 1) / 3),
        ([2, 0], [[1, 0], [1, 0], [3, 4]], (1 + 1 + 0.6) / 3),
    ],
)
def test_answer_relevance_is_the_mean_cosine_of_claim_and_questions(
    claim: list[float], questions: list[list[float]], score: float | None
) -> None:
    assert mean_cosine(claim, questions) == (None if score is None else pytest.approx(score))


@pytest.mark.parametrize(
    ("claim", "questions"),
    [([0, 0], [[1, 0]]), ([1, 0], [[1, 0], [0, 0]]), ([float("nan"), 1], [[1, 0]]), ([1, 0], [[float("inf"), 0]])],
)
def test_vectors_that_are_zero_or_not_finite_are_refused(claim: list[float], questions: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="zero or not finite"):
        mean_cosine(claim, questions)


@each(
    ("faithfulness", "relevance", "has_evidence", "stable"),
    [
        (0.7, 0.8, True, True),  # both thresholds met exactly
        (0.6999, 0.8, True, False),
        (0.7, 0.7999, True, False),
        (1.0, 1.0, True, True),
        (None, 1.0, True, False),
        (1.0, None, True, False),
        (None, None, True, False),
        (0.0, 1.0, True, False),
        (None, 0.8, False, True),  # without evidence, only answer relevance counts
        (None, 0.7999, False, False),
        (0.0, 0.8, False, True),
        (1.0, None, False, False),
    ],
)
def test_an_answer_is_stable_if_its_scores_reach_their_thresholds(
    faithfulness: float | None, relevance: float | None, has_evidence: bool, stable: bool
) -> None:
    """Without evidence, faithfulness does not count."""
    scores = {"faithfulness": faithfulness, "answer_relevance": relevance}
    assert answer_is_stable(scores, **THRESHOLDS, has_evidence=has_evidence) is stable


@pytest.mark.parametrize(
    ("answers", "agreed"),
    [
        ([], None),
        (["YES"], "YES"),
        (["YES", "YES", "YES"], "YES"),
        (["YES", "NO"], None),
        (["YES", None], None),
        ([None, "YES"], None),
        ([None], None),
        ([None, None], None),  # missing answers are no consensus
    ],
)
def test_agents_agree_only_if_all_of_them_give_the_same_answer(answers: list[str | None], agreed: str | None) -> None:
    groups, _ = asyncio.run(group_answers("?", make_task(labels=["YES", "NO"]), answers))
    votes: list[Vote] = [
        {"agent": f"d{i}", "answer": a, "group": g} for i, (a, g) in enumerate(zip(answers, groups, strict=True))
    ]
    assert agreed_answer(votes) == agreed


@pytest.mark.parametrize("task", ["gsm8k", "short_answer"])
@pytest.mark.parametrize("answers", [*permutations(("212", "212 km", "212 miles"))])
async def test_answers_with_different_units_are_never_grouped(task: str, answers: tuple[str, ...]) -> None:
    """This holds even if the model says that all answers mean the same."""
    model = GenericFakeChatModel(messages=cycle(['{"same": true, "reason": "As I read them."}']))
    groups, _ = await group_answers("How far is it?", make_task(task), answers, model)
    group_of = dict(zip(answers, groups, strict=True))
    assert group_of["212"] == 0  # an answer without a unit fits the first group
    assert {group_of["212 km"], group_of["212 miles"]} == {0, 1}


def test_the_answers_of_a_round_do_not_include_the_judges_verdict() -> None:
    """By default, `answers_of` returns the answers of the last round."""
    judge = turn("judge", "NO", 2)
    judge["step"] = "judge"
    turns = [turn("a", "YES"), turn("b", "NO"), turn("a", "NO", 2), turn("b", "NO", 2), judge]
    assert [(t["agent"], t["answer"]) for t in answers_of(turns)] == [("a", "NO"), ("b", "NO")]
    assert [(t["agent"], t["answer"]) for t in answers_of(turns, 1)] == [("a", "YES"), ("b", "NO")]
    assert answers_of([]) == []


def test_the_scores_of_each_debater_are_averaged_over_all_rounds() -> None:
    """Scores in the judge's turn do not count."""

    def scores(faithfulness: float | None, relevance: float | None) -> dict[str, Any]:
        return {"scores": {"faithfulness": faithfulness, "answer_relevance": relevance, "questions": ["?"]}}

    turns = [
        turn("a", "YES", 1, **scores(1.0, 0.9)),
        turn("b", "NO", 1, **scores(None, 0.4)),
        turn("a", "YES", 2, **scores(0.5, None)),
        turn("b", "NO", 2),
        turn("a", None, 3, **scores(None, 0.3)),
        turn("judge", "YES", 3, **scores(1.0, 1.0)),
    ]
    turns[-1]["step"] = "judge"
    assert average_scores(turns) == {
        "a": {"faithfulness": 0.75, "answer_relevance": pytest.approx(0.6)},
        "b": {"faithfulness": None, "answer_relevance": 0.4},
    }
    assert average_scores([]) == {}
