"""Turns: what a speaker contributes in one step. Each step's file declares its turns, and how they are told.

A turn is a plain dict. A step's file declares the fields of its turns as TypedDicts, and registers them together with
the function that tells them:

    class Greeting(Started):
        \"\"\"A greeting.\"\"\"

        step: Literal["greet"]
        words: str | None
        outcome: str

    @tells(Greeting)
    def tell_greeting(turn: Turn, known: Known) -> Iterator[Said]:
        if turn["words"] is None:
            yield Said("words", "greets", outcome=turn["outcome"])
        else:
            yield Said("words", "greets", turn["words"])

Nothing else knows these fields: the JSON schema of documents, the terminal, the page and the reports use the registry.
A new turn is made with `new_turn`. A turn that grows has a class for each stage, as `AnswerBegun` and `Answer`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin

from moot.core.errors import WorldError
from moot.nodes._models.step_record import StepRecord, record_failed_call
from moot.nodes._records.entries import Reading, Task, Turn
from moot.nodes._texts.replies import Reply
from pydantic import ConfigDict, Discriminator, Field, GetCoreSchemaHandler, Tag
from pydantic_core import CoreSchema
from typing_extensions import TypedDict, get_type_hints

Bearing = Literal["entails", "contradicts", "neither"]
"""What a passage does for an answer: it bears the answer out, speaks against it, or does not bear on it."""


class Citation(TypedDict):
    """A reference to a piece of evidence, with a quote.

    ``fabricated`` is true if no evidence with this id was shown, ``verified`` if the quote is in the evidence's stored
    text. ``start`` and ``end`` (exclusive) are the position of a verified quote in this text, in code points, else
    null. ``text_hash`` is ``sha256:`` and the digest of the text in UTF-8; null if the text is unknown. ``warrant``
    says whether the quote's passage bears out the answer that cites it (see `assess`); null if nobody assessed it.
    """

    evidence_id: str
    quote: str
    fabricated: bool
    verified: bool
    start: int | None
    end: int | None
    text_hash: str | None
    warrant: Bearing | None


Search = Literal["ok", "empty", "failed"]
"""The outcome of a search."""


# --- fields that many turns have --------------------------------------------------------------------------------------


class TurnBase(TypedDict):
    """With ``step``, and ``number`` if it has one, these fields identify a turn.

    If an agent takes a step several times in a round, ``number`` counts these turns from 1, for example its samples or
    its tool calls. Every turn may have a ``number``; a class names it if all its turns have one.
    """

    round: int
    phase: str
    agent: str


class Started(TurnBase):
    """The fields of a turn that `new_turn` makes. ``role`` is the role that takes the turn."""

    role: str
    side: str | None
    query: str | None
    evidence_ids: list[str]
    scores: dict[str, Any]


def new_turn(
    round: int,
    agent: str,
    step: str = "respond",
    number: int | None = None,
    *,
    phase: str = "primary",
    side: str | None = None,
) -> Turn:
    """A new turn, with the fields that a turn has from its start.

    Args:
        round: the round's number, from 1; 0 before the first round.
        agent: the agent whose turn it is.
        step: the name of the step.
        number: the number of the turn, from 1, if an agent takes the step several times in a round; else None.
        phase: the phase in a debate with several phases (a trial, or a debate behind a gate); else ``primary``.
        side: in a trial, the side for which the agent speaks; else None.
    """
    turn: Turn = {"round": round, "phase": phase, "agent": agent, "step": step}
    turn |= {"role": agent, "side": side, "query": None, "evidence_ids": [], "scores": {}}
    return turn if number is None else {**turn, "number": number}


async def with_reply(turn: Turn, kind: type[Reply], call: Awaitable[Reply], record: StepRecord) -> Turn:
    """The turn with a reply's fields, which are null if an external cause or a ceiling prevents a usable reply."""
    try:
        reply = await call
    except WorldError as error:
        return {**turn, **dict.fromkeys(kind.model_fields), "outcome": record_failed_call(error, record)}
    return {**turn, **reply.model_dump(), "outcome": "ok"}


# --- how turns are told -----------------------------------------------------------------------------------------------

Kind = Literal["", "answer", "decision", "verdict", "finding", "statement", "person", "failure"]
"""The kind of what is said; empty for anything else.

- ``answer``: a debater's answer.
- ``decision``: an answer that decides the debate.
- ``verdict``: the finding of a judge of a panel.
- ``finding``: a result of a comparison or of a moderator or critic.
- ``statement``: an argument or a testimony.
- ``person``: an action of a person.
- ``failure``: something that failed.
"""


@dataclass(frozen=True)
class Score:
    """A score, None if unknown, and its threshold, if it has one. ``statements`` says of each statement if it holds."""

    name: str
    value: float | None
    least: float | None = None
    statements: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Said:
    """One thing that a turn says, as plain data. The terminal, the page and the reports give it their own form.

    A turn grows while its speaker works, and is told again each time: ``part`` names what is told, which is shown once.
    ``who`` is the turn's agent if empty. ``outcome`` says why there is no usable reply; it follows the text. ``answer``
    is an answer, a verdict or a preference. ``piece`` is the id of a piece of evidence that a search found.
    """

    part: str
    verb: str
    text: str = ""
    reason: str | None = None
    kind: Kind = ""
    who: str = ""
    outcome: str = ""
    answer: str | None = None
    piece: str = ""
    citations: tuple[Citation, ...] = ()
    scores: tuple[Score, ...] = ()


@dataclass
class Known:
    """What is known of a debate while its turns are told: its settings, claim and task, its evidence by id, and the
    sources that were read."""

    settings: Any
    claim: str = ""
    task: Task | None = None
    pieces: dict[str, Any] = field(default_factory=dict)
    corpora: list[Reading] = field(default_factory=list)

    def titles(self, ids: list[str]) -> list[str]:
        """The titles of the pieces with these ids, without unknown pieces."""
        return [titled(self.pieces[id]) for id in ids if id in self.pieces]


def titled(piece: Mapping[str, Any]) -> str:
    """A piece of evidence as its title, its page if it has one, and its id. The source replaces an empty title."""
    return f"{piece['title'] or piece['source']}{on_page(piece)} [{piece['id']}]"


def piece_in_words(id: str, known: Known, *, shown: bool) -> str:
    """A piece that an agent names: its title and id, or only its id if the agent was not shown it."""
    return titled(known.pieces[id]) if shown and id in known.pieces else f"{id[:80]} (no such piece was shown)"


def on_page(piece: Mapping[str, Any]) -> str:
    """The page of a piece of evidence, e.g. ``, page 3``, to follow its title or source; empty without a page."""
    return f", page {piece['page']}" if piece.get("page") else ""


def numbered(verb: str, turn: Turn) -> str:
    """A verb, followed by the turn's number if it has one."""
    return f"{verb} {turn['number']}" if "number" in turn else verb


def outcome_of(turn: Turn) -> str:
    """Why a turn has no usable reply; ``unparsed`` if the turn does not tell."""
    return str(turn.get("outcome") or "unparsed")


Tell = Callable[[Turn, Known], Iterator[Said]]


@dataclass(frozen=True)
class TurnKind:
    """A kind of turn and how it is told; see `tells`."""

    fields: type
    tell: Tell
    headed: bool
    late: bool

    def fits(self, turn: Turn) -> bool:
        """Whether the turn has all fields that this kind needs, and no others than it may have."""
        needed, every = _field_names(self.fields)
        return needed <= {*turn} <= every

    def resembles(self, turn: Turn) -> bool:
        """Whether the turn has all fields that this kind needs, or no others than it may have."""
        needed, every = _field_names(self.fields)
        return needed <= {*turn} or {*turn} <= every


KINDS: dict[str, list[TurnKind]] = {}
"""The kinds of turns by step. Two files may have steps with the same name, such as the judge and the panel."""
FOLDERS = ("_react", "_steps", "_trial")


def tells(*kinds: type, headed: bool = True, late: bool = False) -> Callable[[Tell], Tell]:
    """Registers kinds of turns (TypedDicts, whose docstrings describe them), and the function that tells them."""

    # If not ``headed``, such a turn stays under the last heading, whatever its round. If ``late``, it is told after the
    # votes of its round.
    def register(tell: Tell) -> Tell:
        for kind in kinds:
            KINDS.setdefault(step_of(kind), []).append(TurnKind(kind, tell, headed, late))
        return tell

    return register


@lru_cache(maxsize=1)
def all_kinds() -> dict[str, list[TurnKind]]:
    """The kinds of turns of all steps of moot, and of the steps that other packages have registered."""
    for folder in FOLDERS:
        package = import_module(f"moot.nodes.{folder}")
        for found in pkgutil.iter_modules(package.__path__):
            import_module(f"{package.__name__}.{found.name}")
    return KINDS


def kind_of(turn: Turn) -> TurnKind | None:
    """The kind of a turn; None if no registered step has such turns."""
    if found := next((kind for kind in KINDS.get(turn["step"], ()) if kind.fits(turn)), None):
        return found
    same = all_kinds().get(turn["step"], [])
    return next((kind for fits in (TurnKind.fits, TurnKind.resembles) for kind in same if fits(kind, turn)), None)


# --- the JSON schema --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _fields(kind: type) -> dict[str, Any]:
    """The fields of a kind of turn with their types; a field that a turn may lack is `NotRequired`."""
    return {"number": NotRequired[int], **get_type_hints(kind, include_extras=True)}


@lru_cache(maxsize=256)
def _field_names(kind: type) -> tuple[set[str], set[str]]:
    fields = _fields(kind)
    return {name for name, hint in fields.items() if get_origin(hint) is not NotRequired}, {*fields}


def step_of(kind: type) -> str:
    """The name of the step that has this kind of turn."""
    name: str = get_args(_fields(kind)["step"])[0]
    return name


def _typed_dict(name: str, about: str | None, fields: Mapping[str, Any], extra: Literal["forbid", "ignore"]) -> Any:
    """A TypedDict with a description; ``extra`` tells Pydantic whether to forbid or to ignore other fields."""
    make: Any = TypedDict
    made = make(name, dict(fields))
    made.__doc__ = about
    made.__pydantic_config__ = ConfigDict(extra=extra)
    return made


@dataclass(frozen=True)
class FieldsByStep:
    """Makes Pydantic check the fields of each turn by its step."""

    # A step that is not registered, such as one of your own graph, may have any fields; known names must have their
    # usual types.

    def __get_pydantic_core_schema__(self, turn: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The schema of a union, discriminated by step: the registered kinds, and turns of other steps."""
        steps = {name: [kind.fields for kind in same] for name, same in sorted(all_kinds().items())}
        hints = [get_type_hints(kind) for kinds in steps.values() for kind in kinds]
        fields: dict[str, Any] = {name: NotRequired[hint] for known in hints for name, hint in known.items()}
        unknown = Annotated[str, Field(json_schema_extra={"not": {"enum": [*steps]}})]
        fields |= get_type_hints(TurnBase) | {"step": unknown, "number": NotRequired[int]}
        other = _typed_dict("OtherTurn", "A turn of a step that moot's systems do not have.", fields, "ignore")
        choices = [Annotated[other, Tag("")]]
        for name, kinds in steps.items():
            shapes = tuple(_typed_dict(kind.__name__, kind.__doc__, _fields(kind), "forbid") for kind in kinds)
            choices.append(Annotated[Union[shapes], Tag(name)])  # noqa: UP007

        def step_name(found: Any) -> str:
            name = found.get("step") if isinstance(found, dict) else ""
            return name if isinstance(name, str) and name in steps else ""

        return handler.generate_schema(Annotated[Union[tuple(choices)], Discriminator(step_name)])  # noqa: UP007
