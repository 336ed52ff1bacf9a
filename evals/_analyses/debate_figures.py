"""Figures of single debates that the papers report.

They are computed as soon as a result document is read, so that no document stays in memory.

- Tool-MAD, second version, figures 10 and 11: the scores of right and wrong answers.
- Tool-MAD, first version, figure 4: whether the judge takes the answer with the higher score.
- CortexDebate, table 3: viewpoint collisions and correct revisions.
- CortexDebate, table 4: each agent's accuracy and number of debates.
- CortexDebate, table 7: the length of each agent's prompts.
- CortexDebate, table 8: consensus after each round.

`moot.evals._stats.changes` has the figures of what debate did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from moot.evals._stats.changes import Round, split
from moot.evals._stats.debate_measures import context_tokens, correct_revisions, viewpoint_collisions
from moot.nodes._cortex.measures import debates
from moot.nodes._records.entries import GATE
from moot.nodes._steps.compare import agreed_answer
from moot.nodes._steps.score import METRICS
from moot.nodes._texts.answers import same_answer

Document = Mapping[str, Any]
Right = Callable[[str], bool]
"""A function that returns whether an answer is right."""


class AgentAnswer(NamedTuple):
    """An agent's answer in a round: whether it is right, and its scores by name (`METRICS`).

    ``right`` is None if the agent gave no readable answer.
    """

    round: int
    agent: str
    right: bool | None
    scores: Mapping[str, float | None]


class JudgeChoice(NamedTuple):
    """A judge's choice between two answers with different scores.

    ``took_higher``: whether the judge took the answer with the higher score. ``right``: whether the answer with the
    higher score is right. ``other_right``: whether the answer with the lower score is right.
    """

    took_higher: bool
    right: bool
    other_right: bool


class GateChoice(NamedTuple):
    """Whether a gate let its readers' common answer pass, and what was right.

    ``first_right``: whether most readers' answers are right. ``right``: whether the verdict is right, which is that of
    the debate if the gate did not let the answer pass.
    """

    passed: bool
    first_right: bool
    right: bool


class DebateFigures(NamedTuple):
    """The figures of one debate.

    `moot.evals._stats.debate_measures` explains the measures of CortexDebate: DN, DVC and CVR. They need a round of
    debate after the first answers. For a debate without such a round, and for other systems, ``debates`` is empty, and
    ``collisions`` and ``revisions`` are None.
    """

    answers: tuple[AgentAnswer, ...]
    """Every agent's answers, from `agent_answers`."""
    agreed: Mapping[int, bool]
    """For each round in which several agents voted, whether all these agents gave the same answer."""
    judge_choices: Mapping[str, JudgeChoice]
    """The judge's choice by kind of score, from `judge_choices`."""
    debates: Mapping[str, int]
    """Each agent's number of debates (DN)."""
    collisions: int | None
    """The number of viewpoint collisions (DVC)."""
    revisions: int | None
    """The number of correct revisions (CVR)."""
    rounds: tuple[Round, ...]
    """Whether each speaker was right in each round, without a gate's answers (`right_by_round`)."""
    judge_right: bool | None
    """Whether the judge's verdict is right, if a judge decided between right and wrong last answers; else None."""
    gate: GateChoice | None
    """What the gate did; None without a gate."""
    context: Mapping[str, float | None]
    """The mean length of each agent's prompts over the rounds, in tokens; None for an agent without a known length."""


def compute_debate_figures(document: Document, right: Right) -> DebateFigures:
    """Compute the figures of a debate."""
    sparse = bool(document["graphs"])
    rounds, answer = right_by_round(document, right), document["answer"]
    verdict_right = answer is not None and right(answer)
    judged = any(turn["step"] == "judge" for turn in document["turns"]) and not document["debates"]
    return DebateFigures(
        answers=agent_answers(document, right),
        agreed={round: agreed_answer(votes) is not None for round, votes in votes_by_round(document).items()},
        judge_choices=judge_choices(document, right),
        debates=debates(document) if sparse else {},
        collisions=viewpoint_collisions(document) if sparse else None,
        revisions=correct_revisions(document, right) if sparse else None,
        rounds=rounds,
        judge_right=verdict_right if judged and split(rounds) else None,
        gate=gate_choice(document, right, verdict_right),
        context=context_tokens(document),
    )


def right_by_round(document: Document, right: Right) -> tuple[Round, ...]:
    """Whether each speaker was right in each round of a debate, for `changes`, `drift` and `minorities`.

    Args:
        document: the result document of a debate whose speakers answer in rounds.
        right: returns whether an answer is right.

    Returns:
        For each round, in order, whether each speaker's answer is right, by the speaker's name. Of several answers in a
        round, the last counts. The answers before a gate are left out. Empty if no speaker answered.
    """
    rounds: dict[int, dict[str, bool]] = {}
    for turn in document["turns"]:
        if turn["step"] == "respond" and turn["phase"] != GATE:
            answer = turn.get("answer")
            rounds.setdefault(turn["round"], {})[turn["agent"]] = answer is not None and right(answer)
    return tuple(rounds[number] for number in sorted(rounds))


def gate_choice(document: Document, right: Right, verdict_right: bool) -> GateChoice | None:
    """What a debate's gate did; None without a gate."""
    record = document["metrics"].get("gate")
    if not record:
        return None
    given = [answer is not None and right(answer) for answer in record["answers"].values()]
    return GateChoice(record["passed"], 2 * sum(given) > len(given), verdict_right)


def votes_by_round(document: Document) -> dict[int, list[Any]]:
    """The votes of each round in which several agents voted, in the order of the rounds."""
    votes = {record["round"]: record.get("votes") or [] for record in document["round_log"]}
    return {round: given for round, given in votes.items() if len({vote["agent"] for vote in given}) > 1}


def agent_answers(document: Document, right: Right) -> tuple[AgentAnswer, ...]:
    """Every agent's answers in every round, in the order of the turns; an agent may have several samples in a round."""
    given = [turn for turn in document["turns"] if turn["step"] == "respond"]
    return tuple(
        AgentAnswer(
            turn["round"],
            turn["agent"],
            None if (answer := turn.get("answer")) is None else right(answer),
            {name: value for name, value in (turn.get("scores") or {}).items() if name in METRICS},
        )
        for turn in given
    )


def judge_choices(document: Document, right: Right) -> dict[str, JudgeChoice]:
    """The judge's choice between two debaters' last answers, by kind of score (Tool-MAD, first version, figure 4).

    An answer's score is its debater's average score over all rounds. A kind of score is left out if a debater's average
    is unknown, or if both averages are equal.

    The result is empty unless a judge spoke, there is a verdict, and there are exactly two debaters, whose last answers
    are readable and differ. The result is also empty for a trial.
    """
    if not any(turn["step"] == "judge" for turn in document["turns"]) or document["debates"]:
        return {}
    last = {turn["agent"]: turn.get("answer") for turn in document["turns"] if turn["step"] == "respond"}
    if len(last) != 2 or None in last.values() or document["answer"] is None:
        return {}
    (agent, answer), (other_agent, other_answer) = last.items()
    task = document["task"]
    if same_answer(task, str(answer), str(other_answer)):
        return {}
    found = {}
    for name in METRICS:
        score, other_score = (document["scores"].get(speaker, {}).get(name) for speaker in (agent, other_agent))
        if score is not None and other_score is not None and score != other_score:
            answers = (str(answer), str(other_answer))
            high, low = answers if score > other_score else answers[::-1]
            found[name] = JudgeChoice(same_answer(task, high, document["answer"]), right(high), right(low))
    return found


def consensus_by_round(figures: Sequence[DebateFigures]) -> dict[int, float]:
    """The share of debates in consensus after each round, in [0, 1] (CortexDebate, table 8).

    A debate that has ended keeps its last state in later rounds. Before its first vote, a debate is not in consensus.
    Debates without a vote of several agents do not count; the result is empty if no debate counts.
    """
    agreements = [debate.agreed for debate in figures if debate.agreed]
    rounds = sorted({round for agreed in agreements for round in agreed})

    def in_consensus(agreed: Mapping[int, bool], round: int) -> bool:
        rounds_so_far = [number for number in agreed if number <= round]
        return agreed[max(rounds_so_far)] if rounds_so_far else False

    return {round: sum(in_consensus(agreed, round) for agreed in agreements) / len(agreements) for round in rounds}
