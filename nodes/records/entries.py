"""What a debate's lists are made of: turns, calls, warnings, votes, readings, and what was found after each round."""

from __future__ import annotations

from typing import Literal, NotRequired

from moot.nodes.runtime.turns import TurnFields, TurnKey
from moot.nodes.trial.turns import TrialFields
from typing_extensions import TypedDict

StopReason = Literal[
    "consensus",
    "stable_consensus",
    "max_rounds",
    "reflection_plateau",
    "critic_resolved",
    "novelty_exhausted",
    "judicial_signal",
    "judge_preference",
    "budget_exhausted",
    "single_pass",
]

GATE = "gate"
"""The phase of answers that say whether a debate is held."""
PHASES = (GATE, "negotiation", "primary", "switched", "panel")
"""Phases of a trial, in their order, and what comes before a debate; other debates are all ``primary``."""
PERSON = "person"
"""The agent of turns in which a person who reads the debate reviewed something."""


class Turn(TurnKey, TurnFields, TrialFields, total=False):
    """What one speaker did in one round. ``moot schema`` says which of its fields the turns of each step have.

    ``answer`` is null where no valid answer came (``outcome`` says why).
    """


class LeftOut(TypedDict):
    """What a prompt did not hold, as it would have been too long for its model.

    ``context`` is the most tokens that the model takes, ``evidence`` the pieces that were left out, of ``of_evidence``,
    ``ids`` theirs if nothing else in the prompt names them, ``in_part`` the pieces that were shown in part; ``rounds``
    are the numbers of the rounds that were left out, of ``of_rounds``; ``said`` is how many reasons and arguments were
    shown in part.
    """

    context: int
    evidence: int
    in_part: int
    of_evidence: int
    ids: list[str]
    rounds: list[int]
    of_rounds: int
    said: int


class Call(TypedDict):
    """One exchange with a model, whatever came of it.

    Tokens are null where the endpoint does not count them; ``seconds`` includes waiting and retries; ``attempts`` is
    the number of requests; ``model`` is the setting and ``reported_model`` the name that the endpoint gave.
    ``from_ledger``: an earlier run made it and paid for it. ``shared``: another call asked the same at the same time,
    was sent, and has the tokens.
    """

    node: str
    role: str
    agent: str | None
    phase: str
    round: int
    model: str
    reported_model: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float
    attempts: int
    outcome: str
    detail: NotRequired[str]
    number: NotRequired[int]
    left_out: NotRequired[LeftOut]
    from_ledger: NotRequired[bool]
    shared: NotRequired[bool]


class Warned(TypedDict):
    """Something that went wrong without ending the debate."""

    kind: str
    where: str
    detail: str


class Vote(TypedDict):
    """Who answered what. Votes of one ``group`` are the same answer; it is null where there is no answer.

    ``weight`` is what a vote counted where votes do not count alike.
    """

    agent: str
    answer: str | None
    group: int | None
    number: NotRequired[int]
    confidence: NotRequired[float | None]
    weight: NotRequired[float]


class Task(TypedDict):
    """What an answer is.

    ``kind`` labels: exactly one of ``labels``, each explained by ``meanings``; ``spellings`` are other ways to write
    one. The other kinds have no labels: a phrase, a number, an expression in LaTeX. ``subject`` is what is put;
    ``claim_date`` and ``speaker`` say when and by whom it was said, if that is known.
    """

    name: str
    kind: Literal["labels", "short_answer", "number", "expression"]
    subject: Literal["claim", "question"]
    labels: list[str]
    meanings: dict[str, str]
    spellings: dict[str, str]
    claim_date: NotRequired[str]
    speaker: NotRequired[str]


class Reading(TypedDict):
    """What a debater read from: the source's name in the settings, and the one that was really used.

    ``failed`` is true where that source could not answer.
    """

    agent: str
    requested: str
    retriever: str
    passages: int | None
    encoder: str | None
    failed: NotRequired[bool]


class CourtDebate(TypedDict):
    """How one debate of a trial went, round by round.

    ``reflection`` holds each side's score of its own case (0 to 1) and ``reflection_total`` their sums, null where one
    is not known; ``novelty`` the mean novelty of what both sides found, null where they found nothing;
    ``retrieval_ended`` why a side's search ended before the debate did.
    """

    phase: str
    stop_reason: StopReason
    rounds: int
    reflection: dict[str, list[float | None]]
    reflection_total: list[float | None]
    novelty: list[float | None]
    retrieval_ended: dict[str, str]


RoundReason = Literal[
    "agreed",
    "disputed",
    "first_answers",
    "unverified",
    "stable",
    "unstable",
    "no_agreement",
    "preferred",
    "no_preference",
    "every_round",
    "single_pass",
    "min_rounds",
    "unresolved",
]


class RoundRecord(TypedDict):
    """What was found after a round, which decides whether another one is held.

    ``reason`` is that finding. All answers are the same or not (``agreed``, ``disputed``; ``first_answers`` that are
    the same end no debate, ``unverified`` ones of a gate neither); where scores gate an agreement, every score reaches
    its threshold or not (``stable``, ``unstable``). The judge finds ``no_agreement``. The moderator prefers an answer
    or none (``preferred``, ``no_preference``). Nothing is looked for, as ``every_round`` is held, or as there are no
    rounds (``single_pass``). In a trial, before ``min_rounds`` nothing stops a debate; then no reason to stop holds
    (``unresolved``), or one does, that of ``debates``. Why the last round was the last is the document's
    ``stop_reason``.

    ``votes`` are who answered what; ``scores``, by debater, those that an agreement was held against.
    """

    round: int
    phase: str
    reason: RoundReason | StopReason
    votes: NotRequired[list[Vote]]
    scores: NotRequired[dict[str, dict[str, float | None]]]
