"""The entries of a debate's lists: turns, calls, warnings, votes, readings, and records of rounds."""

from __future__ import annotations

from typing import Literal, NotRequired

from moot.nodes._runtime.turns import TurnFields, TurnKey
from moot.nodes._trial.turns import TrialFields
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
"""The phase of the answers that decide whether a debate is needed."""
PHASES = (GATE, "negotiation", "primary", "switched", "panel")
"""All phases, in order: of the gate before a debate, then of a trial. Turns of other debates are in ``primary``."""
PERSON = "person"
"""The agent of turns in which a person reviewed something."""


class Turn(TurnKey, TurnFields, TrialFields, total=False):
    """The contribution of one speaker to one round. ``moot schema`` lists the fields of each step's turns.

    ``answer`` is null if there is no valid answer (``outcome`` says why).
    """


class LeftOut(TypedDict):
    """The data that a prompt left out to fit into its model's context.

    ``context`` is the model's context in tokens. ``evidence`` of ``of_evidence`` pieces were left out; ``ids`` are
    their ids, unless the prompt names them elsewhere; ``in_part`` pieces were shown in part. ``rounds`` are the numbers
    of the rounds that were left out, among ``of_rounds`` rounds. ``said`` is the number of reasons and arguments that
    were shown in part or left out.
    """

    context: int
    evidence: int
    in_part: int
    of_evidence: int
    ids: list[str]
    rounds: list[int]
    of_rounds: int
    said: int


class Reserved(TypedDict):
    """The tokens that ceilings count for the requests of a call whose replies were lost or not awaited.

    The requests may have used more tokens if they were sent without `max_tokens`. This happens if neither `max_tokens`
    nor a ceiling in tokens or USD is set.
    """

    prompt_tokens: int
    completion_tokens: int


class Call(TypedDict):
    """One exchange with a model, successful or not.

    Tokens are null if the endpoint does not count them; ``seconds`` includes waiting and retries; ``attempts`` is
    the number of requests; ``model`` is the setting and ``reported_model`` the name that the endpoint gave.
    ``from_ledger``: an earlier run made the call and paid for it. ``shared``: an equal call was sent at the same time,
    and its entry has the tokens. ``reserved``: tokens that ceilings count besides, because replies of the call were
    lost (the request timed out, or its connection broke) or not awaited (`max_seconds` was used up): the endpoint may
    charge for them. Only calls under a ceiling have it.
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
    reserved: NotRequired[Reserved]


class Warned(TypedDict):
    """A problem that did not end the debate."""

    kind: str
    where: str
    detail: str


class Vote(TypedDict):
    """An agent's answer as a vote. Votes with the same answer have the same ``group``, null without an answer.

    ``weight`` is the weight of the vote, if votes are weighted.
    """

    agent: str
    answer: str | None
    group: int | None
    number: NotRequired[int]
    confidence: NotRequired[float | None]
    weight: NotRequired[float]


class Task(TypedDict):
    """The form of an answer.

    If ``kind`` is labels, an answer is one of ``labels``; ``meanings`` explain them, and ``spellings`` are other ways
    to write them. The other kinds have no labels: a phrase, a number, an expression in LaTeX. ``subject`` is claim or
    question. ``claim_date`` and ``speaker`` say when and by whom the claim was made, if known.
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
    """A source that a debater read: its name in the settings, and the source that was used.

    ``failed`` is true if the source failed.
    """

    agent: str
    requested: str
    retriever: str
    passages: int | None
    encoder: str | None
    failed: NotRequired[bool]


class CourtDebate(TypedDict):
    """One debate of a trial, with lists of values by round.

    ``reflection`` contains each side's score of its own case (0 to 1), ``reflection_total`` the sums of both, null if
    one is unknown; ``novelty`` the mean novelty of both sides' results, null without results;
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
    """The finding after a round. It decides whether another round follows.

    ``reason`` is that finding:

    - ``agreed``, ``disputed``: all answers are the same, or not.
    - ``first_answers``: all answers are the same, but first answers do not end the debate.
    - ``unverified``: all answers of a gate are the same, but without verified quotes they do not end the debate.
    - ``stable``, ``unstable``: all answers are the same; all their scores reach their thresholds, or some do not.
    - ``no_agreement``: the judge finds no agreement.
    - ``preferred``, ``no_preference``: the moderator prefers an answer, or none.
    - ``every_round``, ``single_pass``: nothing is checked, because there are always all rounds, or only one pass.
    - ``min_rounds``, ``unresolved``: it is too early to stop a trial, or there is no reason to stop it. In the last
      round of a trial's debate, ``reason`` is the debate's ``stop_reason`` in ``debates``.

    The document's ``stop_reason`` is the reason for the end of the whole debate. ``votes`` are the answers by agent;
    ``scores`` are the scores that were compared with the thresholds, by debater.
    """

    round: int
    phase: str
    reason: RoundReason | StopReason
    votes: NotRequired[list[Vote]]
    scores: NotRequired[dict[str, dict[str, float | None]]]
