"""The fields of turns, by the turns' step.

Fields form groups, which several steps may share. A `TurnKind` lists the groups of one kind of turn. Pydantic uses the
kinds to check the turns of result documents and to make the JSON schema of turns. The kinds of turns that only trials
have are in `moot.nodes._trial.turns`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired, Union

from pydantic import ConfigDict, Discriminator, Field, GetCoreSchemaHandler, Tag
from pydantic_core import CoreSchema
from typing_extensions import TypedDict, get_type_hints


class Citation(TypedDict):
    """A reference to a piece of evidence, with a quote.

    ``fabricated`` is true if no evidence with this id was shown, ``verified`` if the quote is in the evidence's stored
    text. ``start`` and ``end`` (exclusive) are the position of a verified quote in this text, in code points, else
    null. ``text_hash`` is ``sha256:`` and the digest of the text in UTF-8; null if the text is unknown.
    """

    evidence_id: str
    quote: str
    fabricated: bool
    verified: bool
    start: int | None
    end: int | None
    text_hash: str | None


class TurnKey(TypedDict):
    """The fields that identify a turn.

    If an agent takes a step several times in a round, ``number`` counts these turns from 1, for example its samples or
    its tool calls. In a person's review of one debater, ``number`` is the debater's position in the settings, from 1.
    """

    round: int
    phase: str
    agent: str
    step: str
    number: NotRequired[int]


# --- groups of fields -------------------------------------------------------------------------------------------------


class Role(TypedDict, total=False):
    """The role that takes the turn."""

    role: str


class StartFields(TypedDict, total=False):
    """The fields that a turn has from its start."""

    side: str | None
    query: str | None
    evidence_ids: list[str]
    scores: dict[str, Any]


class Outcome(TypedDict, total=False):
    """The outcome of a reply: ``ok``, or the reason why there is no usable reply."""

    outcome: str


class Reason(TypedDict, total=False):
    """The reason for a decision or a judgement."""

    reason: str | None


class AnswerFields(TypedDict, total=False):
    """An answer with its reasons."""

    answer: str | None
    rationale: str | None


class CitationFields(TypedDict, total=False):
    """The references of an answer to evidence."""

    citations: list[Citation]


class ConfidenceField(TypedDict, total=False):
    """A speaker's confidence."""

    confidence: float | None


class SearchOutcome(TypedDict, total=False):
    """The outcome of a search."""

    retrieval: Literal["ok", "empty", "failed"]


class SelectionFields(TypedDict, total=False):
    """The selected items of a pool, by number; ``dropped`` are numbers in the reply that no shown item has."""

    selected: list[int] | None
    dropped: list[int]


class Thought(TypedDict, total=False):
    """An agent's text besides its tool calls."""

    thought: str


class CalledTool(TypedDict, total=False):
    """The tool that was called."""

    tool: str


class AgreementReply(TypedDict, total=False):
    """The judge's reply on whether answers agree."""

    agree: bool | None


class TreatedAsAgreed(TypedDict, total=False):
    """Whether the debate treats the answers as agreed, after a judge's reply."""

    agreed: bool


class SummaryField(TypedDict, total=False):
    """A summary of a round."""

    summary: str | None


class ComparisonField(TypedDict, total=False):
    """Comparisons of an answer with other answers."""

    comparisons: list[dict[str, Any]]


class PreferredAnswer(TypedDict, total=False):
    """The answer that a moderator prefers; null for none."""

    preferred: str | None


class ReviewedAgent(TypedDict, total=False):
    """The agent whose answer a turn reviews."""

    reviewed: str


class CommentField(TypedDict, total=False):
    """The text of a review."""

    comment: str | None


class ScoreField(TypedDict, total=False):
    """The score of an answer."""

    score: float | None


class QuestionToPerson(TypedDict, total=False):
    """The question to a person."""

    about: str


class Proposal(TypedDict, total=False):
    """The proposal that a person reviewed."""

    proposed: dict[str, Any]


class ReplacedQueries(TypedDict, total=False):
    """The queries that a person wrote to replace proposed queries, by the name of the debater or the side."""

    queries: dict[str, str]


class Premises(TypedDict, total=False):
    """The premises of a claim."""

    premises: list[str] | None


class EvidenceChanges(TypedDict, total=False):
    """The ids of the evidence that a person struck and of the texts that the person added."""

    struck: list[str]
    added: list[str]


class RemarkField(TypedDict, total=False):
    """A person's remark; null if the person makes none."""

    remark: str | None


class QuestionOnVerdict(TypedDict, total=False):
    """A person's question about the verdict; null if the person accepts it."""

    question: str | None


class TurnFields(
    Role,
    StartFields,
    Outcome,
    Reason,
    AnswerFields,
    CitationFields,
    ConfidenceField,
    SearchOutcome,
    SelectionFields,
    Thought,
    CalledTool,
    AgreementReply,
    TreatedAsAgreed,
    SummaryField,
    ComparisonField,
    PreferredAnswer,
    ReviewedAgent,
    CommentField,
    ScoreField,
    QuestionToPerson,
    Proposal,
    ReplacedQueries,
    Premises,
    EvidenceChanges,
    RemarkField,
    QuestionOnVerdict,
    total=False,
):
    """All fields of turns, except the fields that only trials have."""


class NumberField(TypedDict):
    """The number of a turn that always has one; see `TurnKey`."""

    number: int


# --- steps ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TurnKind:
    """A kind of turn; a step may have several kinds of turns."""

    name: str  # in the JSON schema
    step: str
    about: str  # the description in the JSON schema
    always: tuple[type, ...]  # groups of fields that each of these turns has
    sometimes: tuple[type, ...] = ()  # groups of fields that these turns may have

    def typed(self) -> Any:
        """The kind as a TypedDict with the fields of `TurnKey` and of its groups; other fields are forbidden."""
        fields = get_type_hints(TurnKey, include_extras=True) | {"step": Literal[self.step]}
        for group in self.sometimes:
            fields |= {name: NotRequired[kind] for name, kind in get_type_hints(group).items()}
        for group in self.always:
            fields |= get_type_hints(group)
        return typed_dict(self.name, self.about, fields, "forbid")


def typed_dict(name: str, about: str, fields: Mapping[str, Any], extra: Literal["forbid", "ignore"]) -> Any:
    """A TypedDict with a description; ``extra`` tells Pydantic whether to forbid or to ignore other fields."""
    make: Any = TypedDict
    made = make(name, dict(fields))
    made.__doc__ = about
    made.__pydantic_config__ = ConfigDict(extra=extra)
    return made


START_FIELDS = (Role, StartFields)
ANSWER_WITH_OUTCOME = (*START_FIELDS, AnswerFields, Outcome)
OPTIONAL_IN_ANSWERS = (SearchOutcome, SelectionFields, Reason, Thought)
"""Groups of fields that an answer may have."""
PERSON_ASKED = (*START_FIELDS, NumberField, QuestionToPerson)

KINDS = (
    TurnKind(
        "Answer",
        "respond",
        "An answer.",
        (*ANSWER_WITH_OUTCOME, CitationFields),
        (*OPTIONAL_IN_ANSWERS, ConfidenceField),
    ),
    TurnKind("AnswerBegun", "respond", "A pending answer.", START_FIELDS, OPTIONAL_IN_ANSWERS),
    TurnKind("SharedRetrieval", "retrieve", "A search shared by all agents.", (*START_FIELDS, SearchOutcome)),
    TurnKind(
        "ToolCall",
        "act",
        "An agent's call of a tool.",
        (*START_FIELDS, NumberField, Thought, CalledTool),
        (SearchOutcome, Outcome),
    ),
    TurnKind("Comparison", "compare", "A model's comparison of an answer with other answers.", (Role, ComparisonField)),
    TurnKind(
        "Agreement",
        "agree",
        "A model's judgement of whether a round's answers agree.",
        (*START_FIELDS, AgreementReply, Reason, Outcome),
        (TreatedAsAgreed,),
    ),
    TurnKind(
        "Moderation",
        "moderate",
        "A moderator's preference after a round.",
        (*START_FIELDS, PreferredAnswer, Reason, Outcome),
    ),
    TurnKind(
        "Summary", "summarise", "A summary of a round, for the next round.", (*START_FIELDS, SummaryField, Outcome)
    ),
    TurnKind("FinalAnswer", "summarise", "A summariser's final answer.", ANSWER_WITH_OUTCOME),
    TurnKind("Judgement", "judge", "A judge's answer.", (*ANSWER_WITH_OUTCOME, CitationFields)),
    TurnKind(
        "Review",
        "review",
        "An agent's review of another agent's answer, with the reviewer's confidence from 1 to 10.",
        (*START_FIELDS, NumberField, ReviewedAgent, CommentField, ConfidenceField, Outcome),
    ),
    TurnKind(
        "PeerScore",
        "score",
        "An agent's score for another agent's answer.",
        (*START_FIELDS, NumberField, ReviewedAgent, ScoreField, Outcome),
    ),
    TurnKind(
        "QueriesReview", "review_queries", "A person's review of queries.", (*PERSON_ASKED, Proposal, ReplacedQueries)
    ),
    TurnKind(
        "PremisesReview", "review_premises", "A person's review of premises.", (*PERSON_ASKED, Proposal), (Premises,)
    ),
    TurnKind("EvidenceReview", "review_evidence", "A person's review of evidence.", (*PERSON_ASKED, EvidenceChanges)),
    TurnKind("Remark", "review_remark", "A person's remark before another round.", (*PERSON_ASKED, RemarkField)),
    TurnKind(
        "VerdictReview",
        "review_verdict",
        "A person's review of a verdict.",
        (*PERSON_ASKED, Proposal, QuestionOnVerdict),
    ),
)
"""The kinds of turns of all systems, except the kinds that only trials have."""


@dataclass(frozen=True)
class FieldsByStep:
    """Makes Pydantic check the fields of each turn by its step."""

    # A step without a kind, such as one of your own graph, may have any fields; known names must have their usual
    # types.
    kinds: Sequence[TurnKind] = field(hash=False)

    def __get_pydantic_core_schema__(self, turn: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The schema of a union, discriminated by step: the kinds, and turns of steps that have no kind."""
        steps = list(dict.fromkeys(kind.step for kind in self.kinds))
        unknown = Annotated[str, Field(json_schema_extra={"not": {"enum": steps}})]
        known = {name: NotRequired[kind] for name, kind in get_type_hints(turn).items()}
        fields = known | get_type_hints(TurnKey, include_extras=True) | {"step": unknown}
        other = typed_dict("OtherTurn", "A turn of a step that moot's systems do not have.", fields, "ignore")
        choices = [Annotated[other, Tag("")]]
        for step in steps:
            shapes = tuple(kind.typed() for kind in self.kinds if kind.step == step)
            choices.append(Annotated[Union[shapes], Tag(step)])  # noqa: UP007

        def step_of(found: Any) -> str:
            step = found.get("step") if isinstance(found, dict) else ""
            return step if step in steps else ""

        return handler.generate_schema(Annotated[Union[tuple(choices)], Discriminator(step_of)])  # noqa: UP007


# --- dissent ----------------------------------------------------------------------------------------------------------


class AnsweringAgent(TypedDict):
    """The agent that answered, and its model; ``number`` distinguishes samples of one agent, else it is null."""

    agent: str
    model: str | None
    number: int | None


class EvidenceQuote(TypedDict):
    """A quote from a piece of evidence."""

    evidence_id: str
    quote: str


class AnswerCount(TypedDict):
    """An answer, and the number of agents whose last answer it is; null stands for no answer.

    Each sample of an agent counts as a separate agent.
    """

    answer: str | None
    votes: int


class MinorityAnswer(TypedDict):
    """An answer, and the argument for it with the most verified quotes; if several have the most, the first of them.

    ``by`` are the agents with this answer; ``answer`` is null for agents without an answer. ``quotes`` are the verified
    quotes cited with the argument.
    """

    answer: str | None
    by: list[AnsweringAgent]
    argument: str | None
    quotes: list[EvidenceQuote]


class Change(AnsweringAgent):
    """An answer that differs from the same speaker's previous valid answer.

    ``before`` is the previous answer, and ``answer`` the new answer. ``after`` are the other agents whose last answer
    before ``round`` is the same as the new answer. ``evidence_ids`` are the ids of the evidence that the speaker
    quotes for the first time; only verified quotes count.
    """

    round: int
    before: str
    answer: str
    after: list[str]
    evidence_ids: list[str]


class Dissent(TypedDict):
    """The answers other than the verdict, and the changes of answers in a debate.

    ``votes`` counts each last answer, the most frequent first. ``minority`` are the last answers other than the
    verdict. ``changes`` has only changes of labels and numbers: free-text answers may differ but mean the same.
    """

    votes: list[AnswerCount]
    minority: list[MinorityAnswer]
    changes: list[Change]
