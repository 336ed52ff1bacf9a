"""Turns: which step has which fields.

Fields stand in groups, as several steps share some. A `Kind` says which groups the turns of a step have: turns of
result documents are checked by these, and the JSON schema is made of them. A trial's are in `moot.nodes.trial.turns`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired, Union

from pydantic import ConfigDict, Discriminator, Field, GetCoreSchemaHandler, Tag
from pydantic_core import CoreSchema
from typing_extensions import TypedDict, get_type_hints


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


# --- groups of fields -------------------------------------------------------------------------------------------------


class Role(TypedDict, total=False):
    """Whose model spoke."""

    role: str


class Begun(TypedDict, total=False):
    """What a turn has from its beginning on."""

    side: str | None
    query: str | None
    evidence_ids: list[str]
    scores: dict[str, Any]


class Outcome(TypedDict, total=False):
    """What became of a reply: ``ok``, or why there is none that can be used; what it would have said is null then."""

    outcome: str


class Reason(TypedDict, total=False):
    """Why."""

    reason: str | None


class Answering(TypedDict, total=False):
    """An answer with its reasons."""

    answer: str | None
    rationale: str | None


class Citing(TypedDict, total=False):
    """The evidence that something rests on."""

    citations: list[Citation]


class Sure(TypedDict, total=False):
    """How sure somebody is."""

    confidence: float | None


class Searched(TypedDict, total=False):
    """What came of a search."""

    retrieval: Literal["ok", "empty", "failed"]


class Selected(TypedDict, total=False):
    """The items of a pool that were selected, by their numbers, and the numbers that none has."""

    selected: list[int] | None
    dropped: list[int]


class Thought(TypedDict, total=False):
    """What an agent with tools said beside calling them."""

    thought: str


class Called(TypedDict, total=False):
    """The tool that was called."""

    tool: str


class Agreed(TypedDict, total=False):
    """Whether answers agree, as the judge replied."""

    agree: bool | None


class TakenAs(TypedDict, total=False):
    """What the debate made of a judge's reply: whether it goes on as one whose answers agree."""

    agreed: bool


class SummedUp(TypedDict, total=False):
    """A round in short."""

    summary: str | None


class Compared(TypedDict, total=False):
    """Checks of whether an answer means the same as others."""

    comparisons: list[dict[str, Any]]


class Preferred(TypedDict, total=False):
    """The answer that a moderator prefers; null for none."""

    preferred: str | None


class OfAnother(TypedDict, total=False):
    """Whose answer something is said of."""

    reviewed: str


class Commented(TypedDict, total=False):
    """A review."""

    comment: str | None


class Scored(TypedDict, total=False):
    """What an answer is worth."""

    score: float | None


class About(TypedDict, total=False):
    """What a person was asked."""

    about: str


class Proposed(TypedDict, total=False):
    """What a person was shown."""

    proposed: dict[str, Any]


class Replaced(TypedDict, total=False):
    """Queries that a person put in place of others."""

    queries: dict[str, str]


class Premises(TypedDict, total=False):
    """What a claim rests on."""

    premises: list[str] | None


class StruckAndAdded(TypedDict, total=False):
    """The pieces that a person struck and added."""

    struck: list[str]
    added: list[str]


class Remarked(TypedDict, total=False):
    """What a person remarked."""

    remark: str | None


class Questioned(TypedDict, total=False):
    """What a person asked of the verdict."""

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
    """The fields of all steps but a trial's own."""


class Numbered(TypedDict):
    """The turn's number, where it always has one."""

    number: int


# --- steps ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """The turns of one step; where a step has several kinds, a turn is one of these.

    Attributes:
        name: in the JSON schema.
        step: that they have.
        about: what they are.
        always: groups of fields that each of them has.
        sometimes: groups of fields that they may have.
    """

    name: str
    step: str
    about: str
    always: tuple[type, ...]
    sometimes: tuple[type, ...] = ()

    def typed(self) -> Any:
        """The kind as a TypedDict, without other fields."""
        fields = get_type_hints(TurnKey, include_extras=True) | {"step": Literal[self.step]}
        for group in self.sometimes:
            fields |= {name: NotRequired[of] for name, of in get_type_hints(group).items()}
        for group in self.always:
            fields |= get_type_hints(group)
        return typed_dict(self.name, self.about, fields, "forbid")


def typed_dict(name: str, about: str, fields: Mapping[str, Any], extra: Literal["forbid", "ignore"]) -> Any:
    """A TypedDict, as Pydantic is to take it."""
    make: Any = TypedDict
    made = make(name, dict(fields))
    made.__doc__ = about
    made.__pydantic_config__ = ConfigDict(extra=extra)
    return made


BEGUN = (Role, Begun)
ANSWERED = (*BEGUN, Answering, Outcome)
BEFORE = (Searched, Selected, Reason, Thought)
"""What may come before an answer."""
PERSON_ASKED = (*BEGUN, Numbered, About)

KINDS = (
    Kind("Answer", "respond", "An answer.", (*ANSWERED, Citing), (*BEFORE, Sure)),
    Kind("AnswerBegun", "respond", "An answer that was not given yet.", BEGUN, BEFORE),
    Kind("SharedRetrieval", "retrieve", "A search that all share.", (*BEGUN, Searched)),
    Kind("ToolCall", "act", "A tool that an agent called.", (*BEGUN, Numbered, Thought, Called), (Searched, Outcome)),
    Kind("Comparison", "compare", "How an answer compares with others, by a model.", (Role, Compared)),
    Kind(
        "Agreement",
        "agree",
        "Whether a round's answers agree, by a model.",
        (*BEGUN, Agreed, Reason, Outcome),
        (TakenAs,),
    ),
    Kind("Moderation", "moderate", "What a moderator prefers after a round.", (*BEGUN, Preferred, Reason, Outcome)),
    Kind("Summary", "summarise", "A round in short, for the next one.", (*BEGUN, SummedUp, Outcome)),
    Kind("FinalAnswer", "summarise", "What the last answers come to.", ANSWERED),
    Kind("Judgement", "judge", "A judge's answer.", (*ANSWERED, Citing)),
    Kind(
        "Review",
        "review",
        "What an agent says of another's answer, and how sure it is, from 1 to 10.",
        (*BEGUN, Numbered, OfAnother, Commented, Sure, Outcome),
    ),
    Kind("PeerScore", "score", "What another's answer is worth.", (*BEGUN, Numbered, OfAnother, Scored, Outcome)),
    Kind("QueriesReview", "review_queries", "A person on queries.", (*PERSON_ASKED, Proposed, Replaced)),
    Kind("PremisesReview", "review_premises", "A person on premises.", (*PERSON_ASKED, Proposed), (Premises,)),
    Kind("EvidenceReview", "review_evidence", "A person on evidence.", (*PERSON_ASKED, StruckAndAdded)),
    Kind("Remark", "review_remark", "A person before another round.", (*PERSON_ASKED, Remarked)),
    Kind("VerdictReview", "review_verdict", "A person on a verdict.", (*PERSON_ASKED, Proposed, Questioned)),
)
"""The steps of all systems but a trial's own."""


@dataclass(frozen=True)
class OfItsStep:
    """Says of a turn's type, to Pydantic, which fields the turns of each step have.

    A step that is none of these, as graphs of one's own may have, has any fields; those of the known names have the
    types that they have elsewhere.
    """

    kinds: Sequence[Kind] = field(hash=False)

    def __get_pydantic_core_schema__(self, turn: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The kinds, told apart by their steps."""
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
    """Who answered, by which model; ``number`` tells samples of one agent apart."""

    agent: str
    model: str | None
    number: int | None


class QuoteOf(TypedDict):
    """Words that stand in a piece of evidence."""

    evidence_id: str
    quote: str


class Counted(TypedDict):
    """How many gave an answer last; null for those who gave none."""

    answer: str | None
    votes: int


class MinorityAnswer(TypedDict):
    """An answer with the best argument for it: that with most quotes which stand in their sources, of equals the first.

    ``quotes`` are those. ``answer`` is null for those who gave none.
    """

    answer: str | None
    by: list[Speaking]
    argument: str | None
    quotes: list[QuoteOf]


class Change(Speaking):
    """An answer that differs from the same speaker's last one.

    ``after`` names who had given the new answer before, ``evidence_ids`` what the new answer quotes, and what its
    speaker had not quoted before; quotes that do not stand in their sources do not count.
    """

    round: int
    before: str
    answer: str
    after: list[str]
    evidence_ids: list[str]


class Dissent(TypedDict):
    """``votes`` are how many gave each last answer, most first; ``minority`` who did not give the verdict; ``changes``
    are those of labels and numbers: answers in words may differ and be the same."""

    votes: list[Counted]
    minority: list[MinorityAnswer]
    changes: list[Change]
