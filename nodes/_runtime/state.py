"""The state of a debate: the keys that nodes read and write, and the result document made of them.

All values are plain JSON, so that every checkpointer can store them. Nodes may run at the same time: reducers
(`moot.nodes._records.reducers`) merge parallel writes. A key's reducer is declared in one class, from which states
inherit the key. The key may be declared again without a reducer, for example for the input, where it may be missing.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from moot.core.errors import ErrorRecord
from moot.nodes._records.entries import (
    LONGEST_SPEAKER,
    Call,
    CourtDebate,
    Reading,
    RoundRecord,
    Searched,
    StopReason,
    Task,
    Turn,
    Vote,
    Warned,
)
from moot.nodes._records.reducers import (
    deepest,
    first_error,
    joined,
    merge_readings,
    merge_rounds,
    merge_turns,
    merge_warnings,
)
from moot.nodes._runtime.turns import FieldsByStep
from moot.nodes._texts.chat import ChatMessage, ChatMessages, merge_messages
from moot.nodes._texts.dissent import Dissent
from moot.nodes._texts.given import MOST_GIVEN, GivenText
from moot.nodes._texts.robustness_checks import Robustness
from moot.nodes._texts.task import TASKS
from moot.retrievers._evidence import Evidence, merge_evidence
from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

SCHEMA_VERSION = "1.4"

Equal = Literal["tokens", "usd", "calls"]
"""The quantities that can limit a control: the control may spend as much of the chosen one as its debate spent."""

Status = Literal["done", "failed", "cancelled", "interrupted"]


# --- the input --------------------------------------------------------------------------------------------------------


class ClaimFields(TypedDict):
    """A claim and the form of its answer, as given by the user."""

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
                description="Form of the answer: labels or choice (your own), short_answer, number, expression, or a "
                "benchmark's name. Default: choice if there are options, labels if there are labels, else fever.",
                examples=list(TASKS),
            ),
        ]
    ]


class OpeningInput(TypedDict):
    """Input that is read once, when a debate is opened."""

    claim_date: NotRequired[
        Annotated[
            str | None,
            Field(description="When the claim was made: a year, a month or a day.", examples=["2020-10-25"]),
        ]
    ]
    speaker: NotRequired[
        Annotated[
            str | None,
            Field(description="Who made the claim.", examples=["A spokesperson"], max_length=LONGEST_SPEAKER),
        ]
    ]
    appeared_at: NotRequired[
        Annotated[
            str | None,
            Field(
                description="The address of the page on which the claim appeared. By default, this page, its site and "
                "near-copies are no evidence (setting `claim_page`).",
                examples=["https://example.org/story"],
            ),
        ]
    ]
    labels: NotRequired[
        Annotated[
            list[str] | dict[str, str] | None,
            Field(description="For the task `labels`: the possible answers, or an object that explains each of them."),
        ]
    ]
    options: NotRequired[
        Annotated[
            list[str] | None, Field(description="For the task `choice`: the options; answers are letters, from A.")
        ]
    ]
    given: NotRequired[
        Annotated[
            list[GivenText] | None,
            Field(
                description="Texts that all answering roles are shown, in addition to the evidence found.",
                examples=[[{"text": "Bees were kept in Egypt 4,500 years ago.", "title": "Beekeeping"}]],
                max_length=MOST_GIVEN,
            ),
        ]
    ]


class ClaimInput(ClaimFields, OpeningInput):
    """The input of a debate: a claim, or the last message by a person in ``messages``. The claim has priority."""

    messages: NotRequired[
        Annotated[
            ChatMessages | None,
            Field(
                description="For chats, instead of `claim`: a conversation, whose last message by a person is the "
                "claim. The verdict becomes the next message.",
                examples=[[{"role": "user", "content": "The platypus is a mammal that lays eggs."}]],
                json_schema_extra={"langgraph_type": "messages"},
            ),
        ]
    ]


# --- keys of several states -------------------------------------------------------------------------------------------


class Findings(TypedDict):
    """The turns, the evidence, the depth and the error of a debate so far."""

    turns: Annotated[
        list[Annotated[Turn, FieldsByStep()]],
        Field(description="The turns, in the order of phases and rounds."),
        merge_turns,
    ]
    evidence: Annotated[
        list[Evidence], Field(description="Every piece of evidence, given or found, once."), merge_evidence
    ]
    depth: Annotated[int, Field(description="The longest chain of calls that depend on each other."), deepest]
    error: Annotated[
        ErrorRecord | None,
        Field(
            title="Error",
            description="The error that ended the debate, its place and the remedy; else null.",
        ),
        first_error,
    ]


class StepUpdate(Findings):
    """The update of a debate by one of its steps, such as a debater's turn or a score."""

    corpora: Annotated[list[Reading], Field(description="The sources that each agent read."), merge_readings]
    calls: Annotated[list[Call], Field(description="Every call to a model."), joined]
    warnings: Annotated[list[Warned], Field(description="Problems that did not end the debate."), merge_warnings]


class TrialUpdate(StepUpdate):
    """The update of a trial by one of its phases."""

    debates: Annotated[list[CourtDebate], Field(description="The course of each debate of a trial."), joined]
    round_log: Annotated[
        list[RoundRecord],
        Field(description="The finding after each round: why another round followed, or why none did."),
        merge_rounds,
    ]


class CheckedClaim(TypedDict):
    """The claim after it was checked, when the debate was opened."""

    claim: Annotated[str, Field(description="The claim or the question that was debated.")]


class WithBudget(TypedDict):
    """The debate's ceilings, as `moot.nodes._runtime.ceilings.open_budget` returns them; None without ceilings."""

    budget: NotRequired[dict[str, Any] | None]


class HeardTexts(TypedDict):
    """Turns whose texts a speaker sees in addition to answers, such as reviews."""

    heard: NotRequired[list[Turn]]


class StepInput(CheckedClaim):
    """The keys that a debate passes to each of its steps."""

    task: Task
    settings: NotRequired[dict[str, Any]]


# --- a debate ---------------------------------------------------------------------------------------------------------


class DocumentHead(TypedDict):
    """The first keys of a result document."""

    schema_version: Annotated[str, Field(description="The version of this document's schema.")]
    id: Annotated[str, Field(description="The debate's id.")]
    status: Annotated[
        Status, Field(description="How the debate ended. `interrupted`: it has not ended. `failed`: see `error`.")
    ]
    graph: Annotated[str, Field(description="The debate system.")]


class ControlRun(TypedDict):
    """A control that was run after a debate, with the debate's cost as a ceiling."""

    control: Annotated[str, Field(description="The control's system.")]
    equal: Annotated[
        Equal, Field(description="The limited quantity: the control may spend as much of it as the debate did.")
    ]
    taken: Annotated[
        dict[str, dict[str, float | None]],
        Field(description="The costs of `debate` and of `control`: tokens, usd, calls, seconds; null if unknown."),
    ]
    ratios: Annotated[
        dict[str, float | None], Field(description="The control's costs as multiples of the debate's; null if unknown.")
    ]
    document: Annotated[
        dict[str, Any] | None, Field(description="The control's result document; null if it could not start.")
    ]
    error: Annotated[ErrorRecord | None, Field(description="The error of a control without a verdict.")]


class Verdict(DocumentHead, CheckedClaim):
    """The outcome of a debate, with its settings and its costs."""

    answer: Annotated[
        str | None, Field(description="The verdict; null if there is none, or if the verdict is an abstention.")
    ]
    raw_verdict: Annotated[str | None, Field(description="The verdict as the roles that decided worded it.")]
    confidence: Annotated[
        float | None,
        Field(
            description="How sure the verdict is, from 0 to 1; null if there is no basis for a confidence. How often "
            "such a verdict is right is known only with `calibration`."
        ),
    ]
    confidence_parts: Annotated[dict[str, float | None] | None, Field(description="The parts of the confidence.")]
    confidence_from: Annotated[
        str | None,
        Field(description="The basis of the confidence, such as `2 of 3 votes`; without a confidence, the reason."),
    ]
    prediction_set: Annotated[
        list[str] | None,
        Field(description="Labels that include the right one as often as `calibration` states; null without it."),
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
        Field(
            description="The calibration: the number of cases `n`, `alpha`, `least_confidence`, its `guarantee`, its "
            "`features`, and the `confidence` that is computed from them."
        ),
    ]
    stop_reason: Annotated[StopReason | None, Field(description="Why the debate ended.")]
    rounds: Annotated[int, Field(description="The number of rounds.")]
    scores: Annotated[dict[str, dict[str, float | None]], Field(description="Average scores, by debater.")]
    votes: Annotated[list[Vote], Field(description="The last answers of all agents.")]
    graphs: Annotated[
        list[dict[str, Any]],
        Field(description="Which agents saw which others in each round, and the weights; only CortexDebate fills it."),
    ]
    dissent: Annotated[
        Dissent | None,
        Field(title="Dissent", description="Answers other than the verdict, and changed answers; null without turns."),
    ]
    robustness: Annotated[
        Robustness | None,
        Field(title="Robustness", description="Evidence that the verdict depends on; null if not measured."),
    ]
    metrics: Annotated[dict[str, Any], Field(description="The system's own measures.")]
    usage: Annotated[
        dict[str, Any],
        Field(
            description="Calls and tokens, in total and by role; `from_store` counts calls with stored "
            "replies, which cost nothing."
        ),
    ]
    seconds: Annotated[float, Field(description="The debate's duration, including waits for a person.")]
    settings: Annotated[
        dict[str, Any],
        Field(description="The settings of the run, including defaults; of the prompts, only those that were edited."),
    ]
    models: Annotated[
        dict[str, Any],
        Field(description="For each role, the model in the settings and the names that the endpoint reported."),
    ]
    messages: Annotated[
        list[ChatMessage],
        Field(description="The conversation, with the verdict as its last message; empty if there is no conversation."),
        merge_messages,
    ]
    moot_version: Annotated[str, Field(description="The version of moot that ran the debate.")]
    started_at: Annotated[str, Field(description="When the debate began, in UTC.")]
    beside: Annotated[
        ControlRun | None,
        Field(
            title="Beside",
            description="A control that was run after the debate; null if none was requested.",
        ),
    ]


class CheckedQuote(TypedDict):
    """A quote that was found in a piece of evidence, from ``start`` to ``end`` (exclusive), in code points."""

    evidence_id: str
    start: int
    end: int


class SummarySentence(TypedDict):
    """A sentence with the checked quotes that support it."""

    text: str
    citations: list[CheckedQuote]


class SummaryStance(CheckedQuote):
    """A checked quote, and whether it supports the claim or, if the debate has a question, the verdict's answer."""

    stance: Literal["for", "against", "neither"]


class ReaderSummary(TypedDict):
    """A summary of a finished debate for readers. ``dropped`` counts the sentences of the model that were left out.

    ``not_found`` lists what the debate looked for in vain. ``would_change`` lists findings that would change the
    verdict.
    """

    sentences: list[SummarySentence]
    stances: list[SummaryStance]
    not_found: list[str]
    would_change: list[str]
    dropped: int


class VerdictOutput(Verdict, TrialUpdate):
    """The result document: one JSON object with the verdict and the course of a debate."""

    task: Annotated[
        Task | None, Field(title="Task", description="The form of the answer; null if the debate could not be opened.")
    ]


class Replaced(TypedDict):
    """The document of which another one is a new version.

    ``check`` is the id of the first debate of the check, ``document`` that of the replaced document in the store, and
    ``answer`` its answer.
    """

    check: str
    document: str
    answer: str | None


class ResultDocument(VerdictOutput):
    """The result document, with the summary for readers if one was written after the debate."""

    __pydantic_config__ = ConfigDict(title="VerdictOutput")  # type: ignore[misc]

    reader_summary: NotRequired[
        Annotated[
            ReaderSummary,
            Field(title="Summary for readers", description="The debate's summary for readers; see `reader_summary`."),
        ]
    ]
    replaces: NotRequired[
        Annotated[
            Replaced,
            Field(
                title="Replaces", description="The document of which this is a new version, as `moot recheck` makes it."
            ),
        ]
    ]


class DebateState(Verdict, TrialUpdate, OpeningInput, WithBudget):
    """The keys that a debate's nodes may read: the input and the growing result document."""

    task: Any  # the name in the input; a `Task` once the debate is opened
    opened: NotRequired[str]  # the claim of the thread's last opened debate


# --- a step -----------------------------------------------------------------------------------------------------------


class DebaterState(StepInput, StepUpdate, HeardTexts):
    """The keys that the steps of one speaker in one round may read. ``turns`` contains only the speaker's own turn.

    ``own`` is the speaker's last answer. ``opponents`` are the other answers that the speaker sees. ``cited`` is the
    evidence that ``own`` and ``opponents`` cite, without the pieces in ``evidence``; it is not shown and serves only to
    check quotes. ``pool`` is the shared evidence from which the speaker may select. ``retrieval`` is the outcome of the
    search for the pool or, if debaters search only once, of the speaker's search. ``found`` is the debate's evidence
    before the speaker's search. ``heard`` are turns with other texts, such as summaries and reviews. ``groups`` has,
    for each agent, the number of its group of equal answers. ``why`` is the reason for another round. ``asked`` are the
    debate's searches so far, and ``plan`` is the turn with the plan of the first search.
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
    asked: NotRequired[list[Searched]]
    plan: NotRequired[Turn | None]


class ScoreState(StepInput, StepUpdate):
    """The input of a scoring step: one turn, its evidence, and the debate's ``metrics`` so far."""

    metrics: dict[str, Any]


class TrialState(StepInput, TrialUpdate, WithBudget, HeardTexts):
    """The keys that the steps of one phase of a trial may read: the negotiation, a debate in court, the panel.

    ``evidence`` was given to the phase or found in it. ``premises`` are the premises of the claim. ``budget`` are the
    trial's ceilings. If a step has several speakers (sides, judges, or arbiters that each rule on one piece), each
    speaker has its own state: the speaker in ``debater``, its turn in ``turns``, earlier statements in ``heard``.
    """

    phase: str
    debater: NotRequired[dict[str, Any]]
    premises: NotRequired[list[str]]
    rounds: NotRequired[int]
    stop_reason: NotRequired[StopReason | None]


class TrialInput(StepInput, Findings):
    """The input of a phase of a trial."""
