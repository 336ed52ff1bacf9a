"""The state of a debate: what nodes read, what they write, and the result document that it becomes.

All values are plain JSON, so that every checkpointer stores them. Nodes run at the same time: what several write is
merged by the reducers below. Keys that several states have are declared once, with their reducers, and inherited; one
stands twice only if its type differs, as for a key that a document always has and a step may lack.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired

from moot.core.errors import ErrorRecord
from moot.nodes.runtime.turns import KINDS, Dissent, OfItsStep, TurnFields, TurnKey
from moot.nodes.texts.chat import ChatMessage, merge_messages
from moot.nodes.texts.given import MOST_GIVEN, GivenText
from moot.nodes.texts.robustness import Robustness
from moot.nodes.trial.turns import KINDS as TRIAL_KINDS
from moot.nodes.trial.turns import TrialFields
from moot.retrievers.evidence import Evidence, merge_evidence
from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

SCHEMA_VERSION = "1.4"
LONGEST_SPEAKER = 200
"""Characters."""
OPENING = "open"
"""Where errors are that are found before a debate begins."""

Equal = Literal["tokens", "usd", "calls"]
"""In what a control is its debate's equal."""

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


# --- how writes are joined --------------------------------------------------------------------------------------------

OVERWRITE = "__overwrite__"


def anew(value: Any) -> dict[str, Any]:
    """Writes a value in place of what its key holds, not joined to it: LangGraph's `Overwrite`, as plain JSON."""
    return {OVERWRITE: value}


def written_values(update: Mapping[str, Any]) -> dict[str, Any]:
    """What a node wrote, with the values themselves where it wrote them `anew`."""
    return {
        key: value[OVERWRITE] if isinstance(value, dict) and set(value) == {OVERWRITE} else value
        for key, value in update.items()
    }


def place_of(turn: Turn) -> tuple[Any, ...]:
    """What tells a turn from every other of its debate."""
    return (turn["round"], turn["phase"], turn["agent"], turn["step"], turn.get("number"))


def merge_turns(old: list[Turn], new: list[Turn]) -> list[Turn]:
    """Turns in the order of their rounds; several writes to one turn are one turn, its scores joined.

    Args:
        old: the turns so far.
        new: turns, or parts of known ones.
    """
    merged: dict[tuple[Any, ...], Turn] = {}
    for turn in [*old, *new]:
        key = place_of(turn)
        known = merged.get(key)
        if known is None:
            merged[key] = turn
        elif known is not turn:
            scores = {**known.get("scores", {}), **turn.get("scores", {})}
            merged[key] = {**known, **turn, "scores": scores}
    return sorted(merged.values(), key=_place)  # stable: agents keep the order they were given in


def _place(of: Turn | RoundRecord) -> tuple[int, int]:
    return PHASES.index(of["phase"]) if of["phase"] in PHASES else len(PHASES), of["round"]


def recorded_round(round: int, phase: str = "primary", **found: Any) -> dict[str, Any]:
    """An update of the state with what was found after a round."""
    return {"round_log": [{"round": round, "phase": phase, **found}]}


def merge_rounds(old: list[RoundRecord], new: list[RoundRecord]) -> list[RoundRecord]:
    """Records in the order of their rounds; several writes to one are one."""
    merged: dict[tuple[str, int], Any] = {}
    for record in [*old, *new]:
        key = (record["phase"], record["round"])
        merged[key] = {**merged.get(key, {}), **record}
    return sorted(merged.values(), key=_place)


def merge_readings(old: list[Reading], new: list[Reading]) -> list[Reading]:
    """Each reading once."""
    result = list(old)
    result.extend(r for r in new if r not in result)
    return result


SAID_ONCE = ("stand_in", "evidence_cut")
"""Kinds of warnings that say the same in every round."""


def merge_warnings(old: list[Warned], new: list[Warned]) -> list[Warned]:
    """One list after the other, with what is said once in it once."""
    result = list(old)
    result.extend(w for i, w in enumerate(new) if w["kind"] not in SAID_ONCE or w not in [*old, *new[:i]])
    return result


def joined(old: list[Any], new: list[Any]) -> list[Any]:
    """One list after the other."""
    return [*old, *new]


def deepest(old: int, new: int) -> int:
    """The longer of two chains of dependent calls."""
    return max(old, new)


def first_error(old: ErrorRecord | None, new: ErrorRecord | None) -> ErrorRecord | None:
    """The error that came first in a debate; what its opening says holds, whatever was before: none, or its own."""
    return new if new is None or new["where"] == OPENING else old or new


# --- what is asked ----------------------------------------------------------------------------------------------------


def task_names() -> list[Any]:
    """The tasks, for those who choose among them."""
    from moot.nodes.texts.task import TASKS  # which needs this module

    return list(TASKS)


class Claimed(TypedDict):
    """A claim and what an answer is, as they are asked."""

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


class AskedWith(TypedDict):
    """What is read once, when a debate is opened."""

    claim_date: NotRequired[
        Annotated[
            str | None,
            Field(description="When the claim was said: a year, a month or a day.", examples=["2020-10-25"]),
        ]
    ]
    speaker: NotRequired[
        Annotated[
            str | None,
            Field(description="Who said the claim.", examples=["A spokesperson"], max_length=LONGEST_SPEAKER),
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


class ClaimInput(Claimed, AskedWith):
    """What a debate is about: a claim, or a person's last message in ``messages``; the claim where there are both."""

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


# --- what several states share ----------------------------------------------------------------------------------------


class Findings(TypedDict):
    """What was said and found so far."""

    turns: Annotated[
        list[Annotated[Turn, OfItsStep((*KINDS, *TRIAL_KINDS))]],
        Field(description="Who said what, in order."),
        merge_turns,
    ]
    evidence: Annotated[list[Evidence], Field(description="Every piece that was given or found, once."), merge_evidence]
    depth: Annotated[int, Field(description="The longest chain of calls in which each waited for the last."), deepest]
    error: Annotated[
        ErrorRecord | None,
        Field(title="Error", description="What went wrong, where, and what to do; null where nothing did."),
        first_error,
    ]


class StepUpdate(Findings):
    """What a step inside a debate (a debater's, a scorer's) hands to the debate that it belongs to."""

    corpora: Annotated[list[Reading], Field(description="Who read from which source."), merge_readings]
    calls: Annotated[list[Call], Field(description="Every exchange with a model."), joined]
    warnings: Annotated[list[Warned], Field(description="What went wrong without ending the debate."), merge_warnings]


class TrialUpdate(StepUpdate):
    """What a phase of a trial hands to the trial."""

    debates: Annotated[list[CourtDebate], Field(description="How each debate of a trial went."), joined]
    round_log: Annotated[
        list[RoundRecord],
        Field(description="By round, what was found after it: why another one was held."),
        merge_rounds,
    ]


class About(TypedDict):
    """The claim, once it is checked."""

    claim: Annotated[str, Field(description="What was debated.")]


class Budgeted(TypedDict):
    """What may still be spent, as `moot.nodes.runtime.budget` makes it."""

    budget: NotRequired[dict[str, Any] | None]


class Heard(TypedDict):
    """What was said to a speaker beside answers."""

    heard: NotRequired[list[Turn]]


class Handed(About):
    """What a debate hands to each of its steps."""

    task: Task
    settings: NotRequired[dict[str, Any]]


# --- a debate ---------------------------------------------------------------------------------------------------------


class Head(TypedDict):
    """How a document begins."""

    schema_version: Annotated[str, Field(description="The version of this document's form.")]
    id: Annotated[str, Field(description="The debate's id; empty in documents before 1.2.")]
    status: Annotated[Status, Field(description="How the debate ended; a failed one says why in `error`.")]
    graph: Annotated[str, Field(description="The debate system.")]


class Beside(TypedDict):
    """A control that was run after a debate, with as much as the debate took."""

    control: Annotated[str, Field(description="Which system.")]
    equal: Annotated[Equal, Field(description="In what it was to be the debate's equal.")]
    taken: Annotated[
        dict[str, dict[str, float | None]],
        Field(description="What `debate` and `control` took: tokens, usd, calls, seconds; null for what is not known."),
    ]
    ratios: Annotated[
        dict[str, float | None], Field(description="The same of the control as multiples of the debate's.")
    ]
    document: Annotated[
        dict[str, Any] | None, Field(description="Its own result document; null if it could not begin.")
    ]
    error: Annotated[ErrorRecord | None, Field(description="Why it has no verdict.")]


class Verdict(Head, About):
    """What a debate came to."""

    answer: Annotated[str | None, Field(description="The verdict; null where there is none.")]
    raw_verdict: Annotated[str | None, Field(description="The verdict as those who decided said it.")]
    confidence: Annotated[
        float | None,
        Field(
            description="How sure the verdict is, from 0 to 1; null where there is nothing to tell it from. How often "
            "such a verdict is right is known by `calibration` alone."
        ),
    ]
    confidence_parts: Annotated[dict[str, float | None] | None, Field(description="What the confidence is made of.")]
    confidence_from: Annotated[
        str | None,
        Field(description="What the confidence is from, as `2 of 3 votes`; why there is none where it is null."),
    ]
    prediction_set: Annotated[
        list[str] | None,
        Field(description="Labels among which the right one is, as often as `calibration` says; null without one."),
    ]
    decision: Annotated[
        Literal["act", "escalate"] | None,
        Field(
            title="Decision",
            description="Whether to act on the verdict or to have a person decide; null without a calibration.",
        ),
    ]
    calibration: Annotated[
        dict[str, Any] | None,
        Field(description="The calibration: its cases `n`, `alpha`, `least_confidence`, and its `guarantee` in words."),
    ]
    stop_reason: Annotated[StopReason | None, Field(description="Why the debate ended.")]
    rounds: Annotated[int, Field(description="Rounds that were held.")]
    scores: Annotated[dict[str, dict[str, float | None]], Field(description="By debater, its average scores.")]
    votes: Annotated[list[Vote], Field(description="Who gave which last answer.")]
    graphs: Annotated[
        list[dict[str, Any]],
        Field(description="By round, who heard whom and with which weight, where that changes."),
    ]
    dissent: Annotated[
        Dissent | None,
        Field(title="Dissent", description="Who did not give the verdict, and who changed; null if nobody answered."),
    ]
    robustness: Annotated[
        Robustness | None,
        Field(title="Robustness", description="What the verdict hangs on; null unless the setting was on."),
    ]
    metrics: Annotated[dict[str, Any], Field(description="What the system reports of itself.")]
    usage: Annotated[
        dict[str, Any],
        Field(
            description="Calls and tokens, in all and by role; `from_ledger` counts those of them that came from the "
            "ledger and cost nothing."
        ),
    ]
    seconds: Annotated[float, Field(description="How long the debate took, a person's replies included.")]
    settings: Annotated[
        dict[str, Any],
        Field(description="Those that held, the defaults included; of the prompts those alone that were edited."),
    ]
    models: Annotated[
        dict[str, Any],
        Field(description="By role, the model that was set, and the names that the endpoint gave."),
    ]
    messages: Annotated[
        list[ChatMessage],
        Field(description="The conversation, with the verdict as its last message; empty where there is none."),
        merge_messages,
    ]
    moot_version: Annotated[str, Field(description="The version of moot.")]
    started_at: Annotated[str, Field(description="When the debate began, in UTC.")]
    beside: Annotated[
        Beside | None,
        Field(
            title="Beside",
            description="A control that was run after the debate, at its cost; null if none was asked for.",
        ),
    ]


class CheckedQuote(TypedDict):
    """Words that stand in a piece of evidence, from ``start`` to ``end`` (exclusive) in code points."""

    evidence_id: str
    start: int
    end: int


class SummarySentence(TypedDict):
    """A sentence with the checked quotes that it rests on."""

    text: str
    citations: list[CheckedQuote]


class SummaryStance(CheckedQuote):
    """A checked quote with what it speaks for."""

    stance: Literal["for", "against", "neither"]


class ReaderSummary(TypedDict):
    """A finished debate for readers. ``dropped`` counts sentences that rest on no checked quote."""

    sentences: list[SummarySentence]
    stances: list[SummaryStance]
    not_found: list[str]
    would_change: list[str]
    dropped: int


class VerdictOutput(Verdict, TrialUpdate):
    """The result document: one JSON object with everything that happened in a debate."""

    task: Annotated[
        Task | None, Field(title="Task", description="What an answer is; null where the debate could not be opened.")
    ]


class ResultDocument(VerdictOutput):
    """The result document with what was added to it after its debate."""

    __pydantic_config__ = ConfigDict(title="VerdictOutput")  # type: ignore[misc]

    reader_summary: NotRequired[
        Annotated[
            ReaderSummary,
            Field(title="Summary for readers", description="The debate summed up for readers; see `reader_summary`."),
        ]
    ]


class DebateState(Verdict, TrialUpdate, AskedWith, Budgeted):
    """What the nodes of a debate may read: the input and the growing result document."""

    task: Any  # the name that was given at first, a `Task` once the debate is open
    opened: NotRequired[str]  # the claim of the last debate that was opened


# --- a step of one ----------------------------------------------------------------------------------------------------


class DebaterState(Handed, StepUpdate, Heard):
    """What the steps of one speaker in one round may read. Its turn is the only one in ``turns``.

    ``own`` is its own last answer, ``opponents`` the others' answers that it sees, ``cited`` the evidence that those
    cite: quotes are checked in it; it is not shown. ``pool`` is the shared evidence that it may select from, ``found``
    what was found before it looks for more, and ``heard`` what was said beside answers: summaries, reviews. ``groups``
    says whose answers are the same, ``retrieval`` what came of the search that fills the pool, ``why`` why another
    round is held.
    """

    debater: dict[str, Any]
    opponents: list[Turn]
    own: NotRequired[Turn | None]
    cited: NotRequired[list[Evidence]]
    pool: NotRequired[list[Evidence]]
    found: NotRequired[list[Evidence]]
    retrieval: NotRequired[str | None]
    groups: NotRequired[dict[str, int | None]]
    previous_query: str | None
    why: NotRequired[str]


class ScoreState(Handed, StepUpdate):
    """What scoring reads: one turn, and the evidence that it was written from."""

    metrics: dict[str, Any]


class TrialState(Handed, TrialUpdate, Budgeted, Heard):
    """What the steps of one phase of a trial may read: its negotiation, a debate in court, the panel.

    ``evidence`` is what the phase was given and what it finds; ``premises`` is what the claim rests on; ``budget`` is
    the phase's share of the debate's, where that has one. A step that one of several takes (a side, an arbiter of one
    piece, a judge) has its speaker in ``debater``, its turn in ``turns`` and what was said before in ``heard``.
    """

    phase: str
    debater: NotRequired[dict[str, Any]]
    premises: NotRequired[list[str]]
    rounds: NotRequired[int]
    stop_reason: NotRequired[StopReason | None]


class TrialInput(Handed, Findings):
    """What a phase of a trial is given by the trial itself."""
