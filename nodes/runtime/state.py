"""The state of a debate: what nodes read, what they write, and the result document that it becomes.

All values are plain JSON, so that every checkpointer stores them. Nodes run at the same time: reducers
(`moot.nodes.records.reducers`) merge what several write. Keys that several states have are declared once, with their
reducers, and inherited; one stands twice only if its type differs, as for a key that a document always has and a step
may lack.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from moot.core.errors import ErrorRecord
from moot.nodes.records.entries import Call, CourtDebate, Reading, RoundRecord, StopReason, Task, Turn, Vote, Warned
from moot.nodes.records.reducers import (
    deepest,
    first_error,
    joined,
    merge_readings,
    merge_rounds,
    merge_turns,
    merge_warnings,
)
from moot.nodes.runtime.turns import KINDS, Dissent, OfItsStep
from moot.nodes.texts.chat import ChatMessage, merge_messages
from moot.nodes.texts.given import MOST_GIVEN, GivenText
from moot.nodes.texts.robustness import Robustness
from moot.nodes.trial.turns import KINDS as TRIAL_KINDS
from moot.retrievers.evidence import Evidence, merge_evidence
from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

SCHEMA_VERSION = "1.4"
LONGEST_SPEAKER = 200
"""Characters."""

Equal = Literal["tokens", "usd", "calls"]
"""In what a control is its debate's equal."""

Status = Literal["done", "failed", "cancelled", "interrupted"]


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
