"""The entries of a debate's lists: turns, calls, warnings, votes, readings, and records of rounds."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

Turn = dict[str, Any]
"""A speaker's contribution to a round, made in one step: a plain dict.

``round``, ``phase``, ``agent``, ``step`` and, if there is one, ``number`` identify the turn. The other fields depend on
the step; ``moot schema`` lists them. ``answer`` is null if there is no usable reply; ``outcome`` says why.
"""

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
"""The reasons why a debate ends."""

GATE = "gate"
"""The phase of the answers that decide whether a debate is needed."""
Side = Literal["plaintiff", "defense"]
"""A side of a trial."""
OPPOSITE: dict[str, Side] = {"plaintiff": "defense", "defense": "plaintiff"}
"""The opposite side of each side."""
PHASES = (GATE, "negotiation", "primary", "switched", "panel")
"""All phases in order: the gate before a debate, then the phases of a trial.

In a debate that is not a trial, all turns after the gate are in ``primary``.
"""
PERSON = "person"
"""The agent of turns in which a person reviewed something."""


class LeftOut(TypedDict):
    """The data that a prompt left out to fit into its model's context or under a ceiling.

    ``context`` is the number of tokens that the prompt and its reply may have: the model's context or, if fewer tokens
    are left under a ceiling, their number. ``evidence`` is the number of pieces of evidence left out, of
    ``of_evidence`` pieces in total. ``ids`` are the ids of the pieces left out, except ids that the prompt still cites.
    ``in_part`` is the number of pieces shown in part. ``rounds`` are the numbers of the rounds left out, of
    ``of_rounds`` rounds in total. ``said`` is the number of reasons and arguments shown in part, plus the number of
    elements other than evidence that were left out to fit under a ceiling.
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
    """Tokens that ceilings count for the requests of a call whose replies were lost or came too late.

    The requests may have used more tokens if their replies were limited by neither `max_tokens` nor a ceiling in tokens
    or USD.
    """

    prompt_tokens: int
    completion_tokens: int


class Call(TypedDict):
    """One exchange with a model, successful or not.

    Tokens are null if the endpoint does not count them. ``seconds`` includes waiting and retries. ``attempts`` is the
    number of requests. ``model`` is the setting, and ``reported_model`` the name that the endpoint gave.

    ``answer_probability`` is the product of the probabilities of the answer's tokens, in (0, 1], if the endpoint gave
    log-probabilities.

    ``cached_tokens`` counts those of ``prompt_tokens`` that the endpoint had in its cache of prompts, if it says so.

    ``from_store`` is true if an earlier run made the call and paid for it. ``shared`` is true if an equal call was
    sent at the same time; the entry of that call has the tokens. ``reserved`` has further tokens that ceilings count,
    because the endpoint may charge for replies that were lost or came too late. A reply is lost if the request timed
    out or its connection broke. It comes too late if `max_seconds` is used up before. Only calls under a ceiling have
    ``reserved``.
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
    cached_tokens: NotRequired[int]
    answer_probability: NotRequired[float]
    left_out: NotRequired[LeftOut]
    from_store: NotRequired[bool]
    shared: NotRequired[bool]
    reserved: NotRequired[Reserved]


class Warned(TypedDict):
    """A problem that did not end the debate."""

    kind: str
    where: str
    detail: str


class Vote(TypedDict):
    """An agent's answer as a vote.

    Votes with the same answer have the same number as ``group``. ``group`` is null if there is no answer. ``weight`` is
    the weight of the vote, if votes are weighted.
    """

    agent: str
    answer: str | None
    group: int | None
    number: NotRequired[int]
    confidence: NotRequired[float | None]
    weight: NotRequired[float]


LONGEST_SPEAKER = 200
"""Maximum number of characters of the name of a claim's speaker."""


class Task(TypedDict):
    """The form of an answer.

    If ``kind`` is labels, an answer is one of ``labels``. ``meanings`` explain the labels, and ``spellings`` are other
    ways to write them. The other kinds have no labels: an answer is a phrase, a number, or an expression in LaTeX.
    ``subject`` says whether the input is a claim or a question. ``claim_date`` and ``speaker`` say when and by whom the
    claim was made, and ``appeared_at`` is the address of the page on which it appeared, if this is known. With
    ``label_rules``, prompts for an answer say how to judge parts that are not covered, and reported speech.
    """

    name: str
    kind: Literal["labels", "short_answer", "number", "expression"]
    subject: Literal["claim", "question"]
    labels: list[str]
    meanings: dict[str, str]
    spellings: dict[str, str]
    claim_date: NotRequired[str]
    speaker: NotRequired[str]
    appeared_at: NotRequired[str]
    label_rules: NotRequired[bool]


ORIGIN = ("claim_date", "speaker", "appeared_at")
"""The keys of a task that say where a claim is from."""


class Reading(TypedDict):
    """A source that a debater searched.

    ``requested`` is the source's name in the settings. ``retriever`` is the name of the source that was searched under
    this name: for ``web`` e.g. ``wikipedia``. ``failed`` is true if the search failed.
    """

    agent: str
    requested: str
    retriever: str
    passages: int | None
    encoder: str | None
    failed: NotRequired[bool]


class CourtDebate(TypedDict):
    """One debate of a trial, with lists of values by round.

    For each round, ``reflection`` has each side's score of its own case (0 to 1), ``reflection_total`` the sum of both
    scores (null if one is unknown), and ``novelty`` the mean novelty of both sides' search results (null if no result's
    novelty is known). ``retrieval_ended`` has the reasons why sides ended their searches, by side. A side that could
    still search is not in it.
    """

    phase: str
    stop_reason: StopReason
    rounds: int
    reflection: dict[str, list[float | None]]
    reflection_total: list[float | None]
    novelty: list[float | None]
    retrieval_ended: dict[str, str]


class Searched(TypedDict):
    """A search by an agent: the texts that were searched for, the pieces found, and how many of them were new.

    A piece is new if no earlier round had found it, and it was not given. ``failed`` is true if a source could not be
    searched, and nothing was found.
    """

    agent: str
    round: int
    queries: list[str]
    found: int
    new: int
    failed: NotRequired[Literal[True]]


RoundReason = Literal[
    "agreed",
    "open",
    "disputed",
    "first_answers",
    "unverified",
    "unwarranted",
    "stable",
    "unstable",
    "no_agreement",
    "preferred",
    "no_preference",
    "changed",
    "unchanged",
    "decided",
    "undecided",
    "every_round",
    "single_pass",
    "min_rounds",
    "unresolved",
]


class RoundRecord(TypedDict):
    """The finding after a round, which decides whether another round follows.

    ``reason`` is the finding:

    - ``agreed``: all answers are the same, or a judge finds that they agree.
    - ``open``: all answers are that the evidence settles nothing (with `open_continues`). Another round follows if
      this round's searches found something new; `searches` has all searches so far. After a gate, the debate follows.
    - ``disputed``: the answers are not all the same.
    - ``first_answers``: first answers do not end the debate, even if all are the same.
    - ``unverified``: all answers of a gate are the same, but their verified quotes have too few origins.
    - ``unwarranted``: all answers of a gate are the same, but no verified quote bears them out.
    - ``stable``: all answers are the same, and all their scores reach the thresholds.
    - ``unstable``: all answers are the same, but some scores do not reach the thresholds.
    - ``no_agreement``: the answers differ, in a debate with a judge who compares them.
    - ``preferred``, ``no_preference``: the moderator prefers an answer, or none.
    - ``changed``, ``unchanged``: an agent changed its answer since the round before, or none did.
    - ``decided``, ``undecided``: the moderator finds that the debate can be decided, or that it cannot yet.
    - ``every_round``: nothing is checked, because answers and scores do not end this debate early.
    - ``single_pass``: nothing is checked, because there is only one pass.
    - ``min_rounds``: it is too early to stop a trial.
    - ``unresolved``: there is no reason to stop a trial.

    In the last round of a trial's debate, ``reason`` is the debate's ``stop_reason`` in ``debates``. The document's
    ``stop_reason`` is the reason for the end of the whole debate. ``votes`` are the answers by agent. ``scores`` are
    the scores by debater that were compared with the thresholds.
    """

    round: int
    phase: str
    reason: RoundReason | StopReason
    votes: NotRequired[list[Vote]]
    scores: NotRequired[dict[str, dict[str, float | None]]]
    searches: NotRequired[list[Searched]]
