"""Schemas of a person's replies, one for each moment of a review. They validate the JSON that a client sends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from moot.core.errors import UserError
from moot.nodes._records.entries import PERSON
from moot.nodes._runtime.settings import Moment
from moot.nodes._texts.given import MOST_GIVEN, GivenText, check_given
from moot.retrievers import Evidence
from moot.retrievers._evidence import clean
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator


def _visible_text(text: str) -> str:
    if not (visible := clean(text)):
        raise ValueError("it has no visible text")
    return visible


Line = Annotated[str, StringConstraints(max_length=1000), AfterValidator(_visible_text)]
LongText = Annotated[str, StringConstraints(max_length=4000), AfterValidator(_visible_text)]


class PersonReply(BaseModel):
    """A reply that either accepts the proposal or changes it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    shape: ClassVar[str]
    """The form of a reply with changes."""

    accept: Literal[True] | None = None

    @model_validator(mode="after")
    def _check_accept_or_change(self) -> PersonReply:
        changes = {name for name in self.model_fields_set - {"accept"} if getattr(self, name)}
        if bool(changes) == bool(self.accept):
            raise ValueError("either accept the proposal, or change it")
        return self


class PersonQueries(PersonReply):
    """New queries. Each key is the name of the debater or side whose proposed query is replaced."""

    shape: ClassVar[str] = '{"queries": {name: query}}'
    queries: dict[str, Line] = {}


class PersonPremises(PersonReply):
    """Premises that replace the proposed ones."""

    shape: ClassVar[str] = '{"premises": [premise, ...]}'
    premises: Annotated[list[Line], Field(min_length=1, max_length=50)] | None = None


class PersonEvidence(PersonReply):
    """Ids of evidence to strike (to exclude from the debate), and texts to add as evidence."""

    shape: ClassVar[str] = '{"strike": [id, ...], "add": [{"text": ..., "title": ..., "source": ..., "url": ...}]}'
    strike: list[str] = Field(default=[], max_length=1000)
    add: list[GivenText] = Field(default=[], max_length=MOST_GIVEN)

    def pieces(self, round: int) -> list[Evidence]:
        """The added texts as evidence that a person gave in the round with this number; blocking."""
        given = check_given(list(self.add))
        return [
            {**piece, "retrievals": [{**piece["retrievals"][0], "round": round, "agent": PERSON}]} for piece in given
        ]


class PersonRemark(PersonReply):
    """A remark that the debaters must answer."""

    shape: ClassVar[str] = '{"remark": text}'
    remark: LongText | None = None


class PersonQuestion(PersonReply):
    """A question to the role that decides."""

    shape: ClassVar[str] = '{"question": text}'
    question: LongText | None = None


REPLIES: dict[Moment, type[PersonReply]] = {
    "queries": PersonQueries,
    "premises": PersonPremises,
    "evidence": PersonEvidence,
    "remark": PersonRemark,
    "verdict": PersonQuestion,
}
"""The schema of a reply at each moment."""


def check_person_reply(moment: Moment, given: Any, proposed: Mapping[str, Any]) -> PersonReply:
    """Validates a reply against the proposal, which true and None accept; blocking."""
    try:
        reply = REPLIES[moment].model_validate({"accept": True} if given is True or given is None else given)
    except ValidationError as error:
        raise _invalid_reply_error(moment, _problem_in_words(error.errors(include_url=False)[0])) from error
    if isinstance(reply, PersonQueries) and (unknown := sorted(set(reply.queries) - set(proposed["queries"]))):
        raise _invalid_reply_error(moment, f"no proposed query has the name {unknown[0]!r}")
    if isinstance(reply, PersonEvidence):
        known = {piece["id"] for piece in proposed["evidence"]}
        if strange := [id for id in reply.strike if id not in known]:
            raise _invalid_reply_error(moment, f"none of the pieces shown has the id {strange[0][:80]!r}")
        if any(text.get("id") for text in reply.add):
            raise _invalid_reply_error(moment, "leave out the `id` of an added text; moot assigns it")
        reply.pieces(0)
    return reply


def _problem_in_words(error: Any) -> str:
    place = ".".join(map(str, error["loc"]))
    return f"{place}: {error['msg']}" if place else str(error["msg"])


def _invalid_reply_error(moment: Moment, problem: str) -> UserError:
    problem = problem.replace("Value error, ", "")
    return UserError(
        f'The reply cannot be used: {problem}. It must be {{"accept": true}} to accept the proposal, or '
        f"{REPLIES[moment].shape}.",
        kind="invalid_reply",
    )
