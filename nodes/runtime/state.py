"""The state of a debate: what nodes read, what they write, and the result document that it becomes.

All values are plain JSON, so that every checkpointer stores them. Nodes run at the same time: what several write is
merged by the reducers below. For each of them None means: begin anew, as the next debate on a thread does. Evidence
that is given with a claim follows a None.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from moot.core.errors import ErrorRecord
from moot.nodes.texts.chat import ChatMessage, merge_messages
from moot.nodes.texts.given import MOST_GIVEN, GivenText
from moot.retrievers.evidence import Evidence, merge_evidence
from pydantic import Field
from typing_extensions import TypedDict

SCHEMA_VERSION = "1.0"
OPENING = "open"
"""Where errors are that are found before a debate begins."""

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
Status = Literal["done", "failed", "cancelled", "interrupted"]
PHASES = ("negotiation", "primary", "switched", "panel")
"""Phases of a trial, in their order; other debates are all ``primary``."""
PERSON = "person"
"""The agent of turns in which a person who reads the debate reviewed something."""


class Citation(TypedDict):
    """What an answer rests on.

    ``fabricated`` is true where the id was not among what the writer was shown, ``verified`` where the quote stands in
    the evidence's stored text: from ``start`` to before ``end``, in code points (else null). ``text_hash`` names that
    text: ``sha256:`` and the digest of its UTF-8, null where it is not known.
    """

    evidence_id: str
    quote: str
    fabricated: bool
    verified: bool
    start: int | None
    end: int | None
    text_hash: str | None


class TurnKey(TypedDict):
    """What tells one turn from another.

    ``number`` counts, from 1, where an agent takes a step several times in a round: its samples, its tool calls.
    """

    round: int
    phase: str
    agent: str
    step: str
    number: NotRequired[int]


class Turn(TurnKey):
    """What one speaker did in one round. ``answer`` is null where no valid answer came (``outcome`` says why)."""

    side: NotRequired[str | None]
    role: NotRequired[str]
    query: NotRequired[str | None]
    evidence_ids: NotRequired[list[str]]
    retrieval: NotRequired[Literal["ok", "empty", "failed"]]
    answer: NotRequired[str | None]
    rationale: NotRequired[str | None]
    citations: NotRequired[list[Citation]]
    confidence: NotRequired[float | None]
    outcome: NotRequired[str]
    scores: NotRequired[dict[str, Any]]
    comparisons: NotRequired[list[dict[str, Any]]]
    selected: NotRequired[list[int] | None]
    dropped: NotRequired[list[int]]
    reason: NotRequired[str | None]
    agree: NotRequired[bool | None]
    summary: NotRequired[str | None]
    thought: NotRequired[str]
    tool: NotRequired[str]
    reviewed: NotRequired[str]
    comment: NotRequired[str | None]
    score: NotRequired[float | None]
    preferred: NotRequired[str | None]
    pool: NotRequired[str]
    premises: NotRequired[list[str] | None]
    supporting_query: NotRequired[str | None]
    challenging_query: NotRequired[str | None]
    challenges: NotRequired[list[dict[str, str]] | None]
    relevance: NotRequired[float | None]
    credibility: NotRequired[float | None]
    gap: NotRequired[str | None]
    formulated: NotRequired[str | None]
    joined: NotRequired[list[str]]
    ended: NotRequired[str | None]
    argument: NotRequired[str | None]
    needed: NotRequired[bool | None]
    expertise: NotRequired[str | None]
    granted: NotRequired[bool | None]
    testimony: NotRequired[str | None]
    logic: NotRequired[float | None]
    novelty: NotRequired[float | None]
    rebuttal: NotRequired[float | None]
    flaws: NotRequired[list[str] | None]
    discovery_need: NotRequired[str | None]
    refined_stance: NotRequired[str | None]
    plaintiff: NotRequired[dict[str, Any] | None]
    defense: NotRequired[dict[str, Any] | None]
    unresolved_premises: NotRequired[list[str] | None]
    recommendations: NotRequired[dict[str, list[str]] | None]
    debate_resolved: NotRequired[bool | None]
    close: NotRequired[bool | None]
    plaintiff_counsel: NotRequired[float | None]
    defense_counsel: NotRequired[float | None]
    overall: NotRequired[float | None]
    contradictions: NotRequired[list[str] | None]
    evidence_strength: NotRequired[float | None]
    argument_validity: NotRequired[float | None]
    scientific_reliability: NotRequired[float | None]
    verdict: NotRequired[str | None]
    about: NotRequired[str]
    proposed: NotRequired[dict[str, Any]]
    queries: NotRequired[dict[str, str]]
    struck: NotRequired[list[str]]
    added: NotRequired[list[str]]
    remark: NotRequired[str | None]
    question: NotRequired[str | None]


class Call(TypedDict):
    """One exchange with a model, whatever came of it.

    Tokens are null where the endpoint does not count them; ``seconds`` includes waiting and retries; ``attempts`` is
    the number of requests; ``model`` is the setting and ``reported_model`` the name that the endpoint gave.
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
    one. The other kinds have no labels: a phrase, a number, an expression in LaTeX. ``subject`` is what is put.
    """

    name: str
    kind: Literal["labels", "short_answer", "number", "expression"]
    subject: Literal["claim", "question"]
    labels: list[str]
    meanings: dict[str, str]
    spellings: dict[str, str]


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
    the same end no debate); where scores gate an agreement, every score reaches its threshold or not (``stable``,
    ``unstable``). The judge finds ``no_agreement``. The moderator prefers an answer or none (``preferred``,
    ``no_preference``). Nothing is looked for, as ``every_round`` is held, or as there are no rounds (``single_pass``).
    In a trial, before ``min_rounds`` nothing stops a debate; then no reason to stop holds (``unresolved``), or one
    does, that of ``debates``. Why the last round was the last is the document's ``stop_reason``.

    ``votes`` are who answered what; ``scores``, by debater, those that an agreement was held against.
    """

    round: int
    phase: str
    reason: RoundReason | StopReason
    votes: NotRequired[list[Vote]]
    scores: NotRequired[dict[str, dict[str, float | None]]]


def recorded_round(round: int, phase: str = "primary", **found: Any) -> dict[str, Any]:
    """An update of the state with what was found after a round."""
    return {"round_log": [{"round": round, "phase": phase, **found}]}


def merge_rounds(old: list[RoundRecord] | None, new: list[RoundRecord] | None) -> list[RoundRecord]:
    """Records in the order of their rounds; several writes to one are one."""
    if new is None:
        return []
    merged: dict[tuple[str, int], Any] = {}
    for record in [*(old or ()), *new]:
        key = (record["phase"], record["round"])
        merged[key] = {**merged.get(key, {}), **record}
    return sorted(merged.values(), key=_place)


class Usage(TypedDict):
    """Tokens and calls. ``uncounted`` is the number of calls whose tokens the endpoint did not give."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    uncounted: int


def place_of(turn: Turn) -> tuple[Any, ...]:
    """What tells a turn from every other of its debate."""
    return (turn["round"], turn["phase"], turn["agent"], turn["step"], turn.get("number"))


def merge_turns(old: list[Turn] | None, new: list[Turn] | None) -> list[Turn]:
    """Turns in the order of their rounds; several writes to one turn are one turn, its scores joined.

    Args:
        old: the turns so far.
        new: turns, or parts of known ones; None begins anew.
    """
    if new is None:
        return []
    merged: dict[tuple[Any, ...], Turn] = {}
    for turn in [*(old or ()), *new]:
        key = place_of(turn)
        known = merged.get(key)
        if known is None:
            merged[key] = turn
        else:
            scores = {**known.get("scores", {}), **turn.get("scores", {})}
            merged[key] = {**known, **turn, "scores": scores}
    return sorted(merged.values(), key=_place)  # stable: agents keep the order they were given in


def _place(of: Turn | RoundRecord) -> tuple[int, int]:
    return PHASES.index(of["phase"]) if of["phase"] in PHASES else len(PHASES), of["round"]


def merge_readings(old: list[Reading] | None, new: list[Reading] | None) -> list[Reading]:
    """Each reading once."""
    if new is None:
        return []
    result = list(old or ())
    result.extend(r for r in new if r not in result)
    return result


def joined(old: list[Any] | None, new: list[Any] | None) -> list[Any]:
    """One list after the other."""
    return [] if new is None else [*(old or ()), *new]


def deepest(old: int | None, new: int | None) -> int:
    """The longer of two chains of dependent calls."""
    return 0 if new is None else max(old or 0, new)


def first_error(old: ErrorRecord | None, new: ErrorRecord | None) -> ErrorRecord | None:
    """The error that came first in a debate; one of its opening is the first, whatever was before."""
    return new if new is None or new["where"] == OPENING else old or new


def task_names() -> list[Any]:
    """The tasks, for those who choose among them."""
    from moot.nodes.texts.task import TASKS  # which needs this module

    return list(TASKS)


class ClaimInput(TypedDict):
    """What a debate is about: a claim, or a person's last message in ``messages``; the claim where there are both."""

    claim: NotRequired[
        Annotated[
            str,
            Field(
                description="The claim to check, or the question to answer.",
                examples=["The platypus is a mammal that lays eggs."],
                min_length=1,
                max_length=4000,
            ),
        ]
    ]
    task: NotRequired[
        Annotated[
            str | None,
            Field(
                description="What an answer is: labels or choice (of your own), short_answer, number, expression, or a "
                "benchmark's name. By default what labels and options suggest, else fever.",
                json_schema_extra=lambda schema: schema.update(examples=task_names()),
            ),
        ]
    ]
    labels: NotRequired[
        Annotated[
            list[str] | dict[str, str] | None,
            Field(description="For `labels`: the answers to choose from, or an object that explains each."),
        ]
    ]
    options: NotRequired[
        Annotated[list[str] | None, Field(description="For `choice`: the options; answers are letters, from A.")]
    ]
    given: NotRequired[
        Annotated[
            list[GivenText] | None,
            Field(
                description="Texts that everybody who answers is shown, beside what is found.",
                examples=[[{"text": "Bees were kept in Egypt 4,500 years ago.", "title": "Beekeeping"}]],
                max_length=MOST_GIVEN,
            ),
        ]
    ]

    messages: NotRequired[
        Annotated[
            list[ChatMessage] | None,
            Field(
                description="For chats, in place of `claim`: a conversation, whose last message by a person is the "
                "claim. The verdict is its next message.",
                examples=[[{"role": "user", "content": "The platypus is a mammal that lays eggs."}]],
                json_schema_extra={"langgraph_type": "messages"},
            ),
        ]
    ]


class VerdictOutput(TypedDict):
    """The result document: one JSON object with everything that happened in a debate."""

    schema_version: Annotated[str, Field(description="The version of this document's form.")]
    status: Annotated[Status, Field(description="How the debate ended; a failed one says why in `error`.")]
    error: Annotated[
        ErrorRecord | None,
        Field(title="Error", description="What went wrong, where, and what to do; null where nothing did."),
    ]
    graph: Annotated[str, Field(description="The debate system.")]
    claim: Annotated[str, Field(description="What was debated.")]
    task: Annotated[
        Task | None, Field(title="Task", description="What an answer is; null where the debate could not be opened.")
    ]
    answer: Annotated[str | None, Field(description="The verdict; null where there is none.")]
    raw_verdict: Annotated[str | None, Field(description="The verdict as those who decided said it.")]
    confidence: Annotated[
        float | None,
        Field(description="How sure the verdict is, from 0 to 1; null where the system has no such measure."),
    ]
    confidence_parts: Annotated[dict[str, float | None] | None, Field(description="What the confidence is made of.")]
    stop_reason: Annotated[StopReason | None, Field(description="Why the debate ended.")]
    rounds: Annotated[int, Field(description="Rounds that were held.")]
    turns: Annotated[list[Turn], Field(description="Who said what, in order.")]
    evidence: Annotated[list[Evidence], Field(description="Every piece that was given or found, once.")]
    scores: Annotated[dict[str, dict[str, float | None]], Field(description="By debater, its average scores.")]
    votes: Annotated[list[Vote], Field(description="Who gave which last answer.")]
    graphs: Annotated[
        list[dict[str, Any]],
        Field(description="By round, who heard whom and with which weight, where that changes."),
    ]
    debates: Annotated[list[CourtDebate], Field(description="How each debate of a trial went.")]
    round_log: NotRequired[  # documents of 0.1.0 have none
        Annotated[list[RoundRecord], Field(description="By round, what was found after it: why another one was held.")]
    ]
    metrics: Annotated[dict[str, Any], Field(description="What the system reports of itself.")]
    calls: Annotated[list[Call], Field(description="Every exchange with a model.")]
    usage: Annotated[dict[str, Any], Field(description="Calls and tokens, in all and by role.")]
    depth: Annotated[int, Field(description="The longest chain of calls in which each waited for the last.")]
    seconds: Annotated[float, Field(description="How long the debate took, a person's replies included.")]
    settings: Annotated[
        dict[str, Any],
        Field(description="Those that held, the defaults included; of the prompts those alone that were edited."),
    ]
    models: Annotated[
        dict[str, Any],
        Field(description="By role, the model that was set, and the names that the endpoint gave."),
    ]
    corpora: Annotated[list[Reading], Field(description="Who read from which source.")]
    warnings: Annotated[list[Warned], Field(description="What went wrong without ending the debate.")]
    messages: Annotated[
        list[ChatMessage],
        Field(description="The conversation, with the verdict as its last message; empty where there is none."),
    ]
    moot_version: Annotated[str, Field(description="The version of moot.")]
    started_at: Annotated[str, Field(description="When the debate began, in UTC.")]


class DebateState(TypedDict):
    """What the nodes of a debate may read: the input and the growing result document."""

    claim: str
    opened: NotRequired[str]  # the claim of the last debate that was opened
    messages: Annotated[list[ChatMessage], merge_messages]
    task: Any  # the name that was given at first, a `Task` once the debate is open
    labels: NotRequired[list[str] | dict[str, str] | None]
    options: NotRequired[list[str] | None]
    given: NotRequired[list[GivenText] | None]
    budget: NotRequired[dict[str, Any] | None]  # as `moot.nodes.runtime.budget` makes it
    schema_version: str
    status: Status
    error: Annotated[ErrorRecord | None, first_error]
    graph: str
    answer: str | None
    raw_verdict: str | None
    confidence: float | None
    confidence_parts: dict[str, float | None] | None
    stop_reason: StopReason | None
    rounds: int
    turns: Annotated[list[Turn], merge_turns]
    evidence: Annotated[list[Evidence], merge_evidence]
    scores: dict[str, dict[str, float | None]]
    votes: list[Vote]
    graphs: list[dict[str, Any]]
    debates: Annotated[list[CourtDebate], joined]
    round_log: Annotated[list[RoundRecord], merge_rounds]
    metrics: dict[str, Any]
    calls: Annotated[list[Call], joined]
    usage: dict[str, Any]
    depth: Annotated[int, deepest]
    seconds: float
    settings: dict[str, Any]
    models: dict[str, Any]
    corpora: Annotated[list[Reading], merge_readings]
    warnings: Annotated[list[Warned], joined]
    moot_version: str
    started_at: str


class StepUpdate(TypedDict, total=False):
    """What a step inside a debate (a debater's, a scorer's) hands to the debate that it belongs to."""

    turns: Annotated[list[Turn], merge_turns]
    evidence: Annotated[list[Evidence], merge_evidence]
    corpora: Annotated[list[Reading], merge_readings]
    calls: Annotated[list[Call], joined]
    warnings: Annotated[list[Warned], joined]
    depth: Annotated[int, deepest]
    error: Annotated[ErrorRecord | None, first_error]


class DebaterState(TypedDict):
    """What the steps of one speaker in one round may read. Its turn is the only one in ``turns``.

    ``own`` is its own last answer, ``opponents`` the others' answers that it sees, ``cited`` the evidence that those
    cite: quotes are checked in it; it is not shown. ``pool`` is the shared evidence that it may select from, and
    ``heard`` what was said beside answers: summaries, reviews. ``groups`` says whose answers are the same,
    ``retrieval`` what came of the search that fills the pool.
    """

    claim: str
    task: Task
    settings: NotRequired[dict[str, Any]]
    debater: dict[str, Any]
    opponents: list[Turn]
    own: NotRequired[Turn | None]
    cited: NotRequired[list[Evidence]]
    pool: NotRequired[list[Evidence]]
    heard: NotRequired[list[Turn]]
    retrieval: NotRequired[str | None]
    groups: NotRequired[dict[str, int | None]]
    previous_query: str | None
    turns: Annotated[list[Turn], merge_turns]
    evidence: Annotated[list[Evidence], merge_evidence]
    corpora: Annotated[list[Reading], merge_readings]
    calls: Annotated[list[Call], joined]
    warnings: Annotated[list[Warned], joined]
    depth: Annotated[int, deepest]
    error: Annotated[ErrorRecord | None, first_error]


class ScoreState(TypedDict):
    """What scoring reads: one turn, and the evidence that it was written from."""

    claim: str
    task: Task
    settings: NotRequired[dict[str, Any]]
    metrics: dict[str, Any]
    turns: Annotated[list[Turn], merge_turns]
    evidence: Annotated[list[Evidence], merge_evidence]
    calls: Annotated[list[Call], joined]
    warnings: Annotated[list[Warned], joined]
    depth: Annotated[int, deepest]
    error: Annotated[ErrorRecord | None, first_error]


class TrialState(TypedDict):
    """What the steps of one phase of a trial may read: its negotiation, a debate in court, the panel.

    ``evidence`` is what the phase was given and what it finds; ``premises`` is what the claim rests on; ``budget`` is
    the phase's share of the debate's, where that has one. A step that one of several takes (a side, an arbiter of one
    piece, a judge) has its speaker in ``debater``, its turn in ``turns`` and what was said before in ``heard``.
    """

    claim: str
    task: Task
    settings: NotRequired[dict[str, Any]]
    phase: str
    debater: NotRequired[dict[str, Any]]
    premises: NotRequired[list[str]]
    heard: NotRequired[list[Turn]]
    rounds: NotRequired[int]
    budget: NotRequired[dict[str, Any] | None]
    stop_reason: NotRequired[StopReason | None]
    debates: Annotated[list[CourtDebate], joined]
    round_log: Annotated[list[RoundRecord], merge_rounds]
    turns: Annotated[list[Turn], merge_turns]
    evidence: Annotated[list[Evidence], merge_evidence]
    corpora: Annotated[list[Reading], merge_readings]
    calls: Annotated[list[Call], joined]
    warnings: Annotated[list[Warned], joined]
    depth: Annotated[int, deepest]
    error: Annotated[ErrorRecord | None, first_error]


class TrialInput(TypedDict):
    """What a phase of a trial is given by the trial itself."""

    claim: str
    task: Task
    settings: NotRequired[dict[str, Any]]
    turns: Annotated[list[Turn], merge_turns]
    evidence: Annotated[list[Evidence], merge_evidence]
    depth: Annotated[int, deepest]
    error: Annotated[ErrorRecord | None, first_error]


class TrialUpdate(StepUpdate, total=False):
    """What a phase of a trial hands to the trial."""

    debates: Annotated[list[CourtDebate], joined]
    round_log: Annotated[list[RoundRecord], merge_rounds]
