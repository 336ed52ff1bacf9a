"""Turns: which step has which fields.

Fields form groups that several steps share. A `Kind` lists the groups of a step's turns: turns of
result documents are checked by kinds, and the JSON schema is made from them. A trial's kinds are in
`moot.nodes._trial.turns`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired, Union

from pydantic import ConfigDict, Discriminator, Field, GetCoreSchemaHandler, Tag
from pydantic_core import CoreSchema
from typing_extensions import TypedDict, get_type_hints


class Citation(TypedDict):
    """A reference of an answer to its evidence.

    ``fabricated`` is true if the id was not among the evidence shown, ``verified`` if the quote is in
    the evidence's stored text: from ``start`` to before ``end``, in code points (else null). ``text_hash`` names that
    text: ``sha256:`` and the digest of its UTF-8, null if unknown.
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

    ``number`` counts from 1 if an agent takes a step several times in a round: its samples, its tool calls.
    """

    round: int
    phase: str
    agent: str
    step: str
    number: NotRequired[int]


# --- groups of fields -------------------------------------------------------------------------------------------------


class Role(TypedDict, total=False):
    """Whose model spoke."""

    role: str


class Begun(TypedDict, total=False):
    """The fields that a turn has from its start."""

    side: str | None
    query: str | None
    evidence_ids: list[str]
    scores: dict[str, Any]


class Outcome(TypedDict, total=False):
    """The outcome of a reply: ``ok``, or why it is unusable; its fields are null then."""

    outcome: str


class Reason(TypedDict, total=False):
    """Why."""

    reason: str | None


class Answering(TypedDict, total=False):
    """An answer with its reasons."""

    answer: str | None
    rationale: str | None


class Citing(TypedDict, total=False):
    """The evidence for an answer."""

    citations: list[Citation]


class Sure(TypedDict, total=False):
    """A confidence."""

    confidence: float | None


class Searched(TypedDict, total=False):
    """The outcome of a search."""

    retrieval: Literal["ok", "empty", "failed"]


class Selected(TypedDict, total=False):
    """The selected items of a pool, by number, and selected numbers without an item."""

    selected: list[int] | None
    dropped: list[int]


class Thought(TypedDict, total=False):
    """An agent's text besides its tool calls."""

    thought: str


class Called(TypedDict, total=False):
    """The tool that was called."""

    tool: str


class Agreed(TypedDict, total=False):
    """The judge's reply on whether answers agree."""

    agree: bool | None


class TakenAs(TypedDict, total=False):
    """The debate's reading of a judge's reply: whether it continues as if answers agreed."""

    agreed: bool


class SummedUp(TypedDict, total=False):
    """A summary of a round."""

    summary: str | None


class Compared(TypedDict, total=False):
    """Comparisons of an answer with others."""

    comparisons: list[dict[str, Any]]


class Preferred(TypedDict, total=False):
    """The answer that a moderator prefers; null for none."""

    preferred: str | None


class OfAnother(TypedDict, total=False):
    """The agent whose answer a turn is about."""

    reviewed: str


class Commented(TypedDict, total=False):
    """A review."""

    comment: str | None


class Scored(TypedDict, total=False):
    """Scores of an answer."""

    score: float | None


class About(TypedDict, total=False):
    """The question to a person."""

    about: str


class Proposed(TypedDict, total=False):
    """The proposal shown to a person."""

    proposed: dict[str, Any]


class Replaced(TypedDict, total=False):
    """A person's replacements of queries."""

    queries: dict[str, str]


class Premises(TypedDict, total=False):
    """The premises of a claim."""

    premises: list[str] | None


class StruckAndAdded(TypedDict, total=False):
    """The pieces of evidence that a person struck and added."""

    struck: list[str]
    added: list[str]


class Remarked(TypedDict, total=False):
    """A person's remark."""

    remark: str | None


class Questioned(TypedDict, total=False):
    """A person's question about the verdict."""

    question: str | None


class TurnFields(
    Role,
    Begun,
    Outcome,
    Reason,
    Answering,
    Citing,
    Sure,
    Searched,
    Selected,
    Thought,
    Called,
    Agreed,
    TakenAs,
    SummedUp,
    Compared,
    Preferred,
    OfAnother,
    Commented,
    Scored,
    About,
    Proposed,
    Replaced,
    Premises,
    StruckAndAdded,
    Remarked,
    Questioned,
    total=False,
):
    """The fields of all steps except a trial's own."""


class Numbered(TypedDict):
    """The turn's number, if it always has one."""

    number: int


# --- steps ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """The turns of one step; if a step has several kinds, a turn is one of them.

    Attributes:
        name: its name in the JSON schema.
        step: their step.
        about: their description.
        always: groups of fields that every turn has.
        sometimes: optional groups of fields.
    """

    name: str
    step: str
    about: str
    always: tuple[type, ...]
    sometimes: tuple[type, ...] = ()

    def typed(self) -> Any:
        """The kind as a TypedDict without further fields."""
        fields = get_type_hints(TurnKey, include_extras=True) | {"step": Literal[self.step]}
        for group in self.sometimes:
            fields |= {name: NotRequired[of] for name, of in get_type_hints(group).items()}
        for group in self.always:
            fields |= get_type_hints(group)
        return typed_dict(self.name, self.about, fields, "forbid")


def typed_dict(name: str, about: str, fields: Mapping[str, Any], extra: Literal["forbid", "ignore"]) -> Any:
    """A TypedDict for Pydantic."""
    make: Any = TypedDict
    made = make(name, dict(fields))
    made.__doc__ = about
    made.__pydantic_config__ = ConfigDict(extra=extra)
    return made


BEGUN = (Role, Begun)
ANSWERED = (*BEGUN, Answering, Outcome)
BEFORE = (Searched, Selected, Reason, Thought)
"""Optional groups of an answer."""
PERSON_ASKED = (*BEGUN, Numbered, About)

KINDS = (
    Kind("Answer", "respond", "An answer.", (*ANSWERED, Citing), (*BEFORE, Sure)),
    Kind("AnswerBegun", "respond", "A pending answer.", BEGUN, BEFORE),
    Kind("SharedRetrieval", "retrieve", "A search shared by all agents.", (*BEGUN, Searched)),
    Kind("ToolCall", "act", "A tool that an agent called.", (*BEGUN, Numbered, Thought, Called), (Searched, Outcome)),
    Kind("Comparison", "compare", "A model's comparison of an answer with others.", (Role, Compared)),
    Kind(
        "Agreement",
        "agree",
        "A model's judgement of whether a round's answers agree.",
        (*BEGUN, Agreed, Reason, Outcome),
        (TakenAs,),
    ),
    Kind("Moderation", "moderate", "A moderator's preference after a round.", (*BEGUN, Preferred, Reason, Outcome)),
    Kind("Summary", "summarise", "A summary of a round, for the next one.", (*BEGUN, SummedUp, Outcome)),
    Kind("FinalAnswer", "summarise", "The result of the last answers.", ANSWERED),
    Kind("Judgement", "judge", "A judge's answer.", (*ANSWERED, Citing)),
    Kind(
        "Review",
        "review",
        "An agent's review of another's answer, and its confidence, from 1 to 10.",
        (*BEGUN, Numbered, OfAnother, Commented, Sure, Outcome),
    ),
    Kind("PeerScore", "score", "An agent's score of another's answer.", (*BEGUN, Numbered, OfAnother, Scored, Outcome)),
    Kind("QueriesReview", "review_queries", "A person's review of queries.", (*PERSON_ASKED, Proposed, Replaced)),
    Kind("PremisesReview", "review_premises", "A person's review of premises.", (*PERSON_ASKED, Proposed), (Premises,)),
    Kind("EvidenceReview", "review_evidence", "A person's review of evidence.", (*PERSON_ASKED, StruckAndAdded)),
    Kind("Remark", "review_remark", "A person's remark before another round.", (*PERSON_ASKED, Remarked)),
    Kind("VerdictReview", "review_verdict", "A question on a verdict.", (*PERSON_ASKED, Proposed, Questioned)),
)
"""The steps of all systems except a trial's own."""


@dataclass(frozen=True)
class OfItsStep:
    """Tells Pydantic which fields the turns of each step have.

    Other steps, such as those of your own graphs, may have any fields; fields with known names have the
    same types as elsewhere.
    """

    kinds: Sequence[Kind] = field(hash=False)

    def __get_pydantic_core_schema__(self, turn: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The kinds, discriminated by their step."""
        steps = list(dict.fromkeys(kind.step for kind in self.kinds))
        unknown = Annotated[str, Field(json_schema_extra={"not": {"enum": steps}})]
        known = {name: NotRequired[of] for name, of in get_type_hints(turn).items()}
        fields = known | get_type_hints(TurnKey, include_extras=True) | {"step": unknown}
        other = typed_dict("OtherTurn", "A turn of another system's step.", fields, "ignore")
        choices = [Annotated[other, Tag("")]]
        for step in steps:
            of = tuple(kind.typed() for kind in self.kinds if kind.step == step)
            choices.append(Annotated[Union[of], Tag(step)])  # noqa: UP007

        def step_of(found: Any) -> str:
            step = found.get("step") if isinstance(found, dict) else ""
            return step if step in steps else ""

        return handler.generate_schema(Annotated[Union[tuple(choices)], Discriminator(step_of)])  # noqa: UP007


# --- dissent ----------------------------------------------------------------------------------------------------------


class Speaking(TypedDict):
    """The agent that answered, and its model; ``number`` tells samples of one agent apart."""

    agent: str
    model: str | None
    number: int | None


class QuoteOf(TypedDict):
    """A quote from a piece of evidence."""

    evidence_id: str
    quote: str


class Counted(TypedDict):
    """The number of agents with each last answer; null stands for no answer."""

    answer: str | None
    votes: int


class MinorityAnswer(TypedDict):
    """An answer with its best argument: the one with most verified quotes, among equals the first.

    ``quotes`` are these quotes. ``answer`` is null for agents without an answer.
    """

    answer: str | None
    by: list[Speaking]
    argument: str | None
    quotes: list[QuoteOf]


class Change(Speaking):
    """An answer that differs from the same speaker's last one.

    ``after`` names the agents that gave the new answer before; ``evidence_ids`` are the pieces that it quotes
    for the first time; unverified quotes do not count.
    """

    round: int
    before: str
    answer: str
    after: list[str]
    evidence_ids: list[str]


class Dissent(TypedDict):
    """``votes`` count each last answer, most first; ``minority`` are the other answers; ``changes``
    are changes of labels and numbers: answers in words may differ but mean the same."""

    votes: list[Counted]
    minority: list[MinorityAnswer]
    changes: list[Change]
