"""The kinds of replies that are requested from models: a Pydantic model of each kind, and its JSON schema.

Scripted endpoints and stored runs depend on the names of fields. The schemas of `reply_schema` follow the documented
rules of strict structured output: every field is required, no other field is allowed, and texts have no limits of
length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, cast

from moot.core.redaction import redact
from moot.nodes._records.entries import Task
from moot.nodes._texts.answers import ABSTENTION, read_answer, same_answer
from moot.nodes._texts.thoughts import without_thoughts
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    create_model,
    model_validator,
)


class Reply(BaseModel):
    """A structured reply. Fields outside the schema are ignored."""

    model_config = ConfigDict(extra="ignore")

    @classmethod
    def from_text(cls, text: str) -> list[dict[str, Any]]:
        """Parses a text without JSON into objects of field values; none, unless a subclass accepts such texts."""
        return []


def _not_empty(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text.strip()


Text = Annotated[str, AfterValidator(_not_empty)]


class Quote(Reply):
    """A citation of an answer: a quote from a piece of evidence."""

    evidence_id: str
    quote: str


class QueryReply(Reply):
    """A search query."""

    query: Text


class AnswerReply(Reply):
    """An answer of the task with its reasons."""

    rationale: Text
    citations: list[Quote]
    answer: str


class KeywordsReply(Reply):
    """Keywords for a scholarly source."""

    keywords: Annotated[list[Text], Field(min_length=1)]


class SummaryReply(Reply):
    """A summary of a text."""

    summary: Text


class StatementsReply(Reply):
    """The statements that an answer makes; may be empty."""

    statements: list[Text]


class StatementVerdict(Reply):
    """Whether one statement, numbered from 0, can be inferred from the evidence."""

    index: int
    reason: str
    supported: bool


class VerdictsReply(Reply):
    """One verdict for each statement."""

    verdicts: list[StatementVerdict]


class QuestionsReply(Reply):
    """Questions that an answer would fit."""

    questions: list[Text]
    noncommittal: Annotated[bool | None, WithJsonSchema({"type": "boolean"})]  # None if the model does not say

    @model_validator(mode="before")
    @classmethod
    def _default_noncommittal(cls, given: Any) -> Any:
        return {"noncommittal": None, **given} if isinstance(given, dict) else given


def _scalar_as_text(value: Any) -> Any:
    """A number or a truth value as a text, spelled as in JSON; other values unchanged."""
    return json.dumps(value) if isinstance(value, bool | int | float) else value


def answer_reply(
    task: Task, *, direct: bool = False, confidence: bool = False, may_abstain: bool = False
) -> type[AnswerReply]:
    """The class of replies whose ``answer`` is an answer of the task; if ``direct``, it comes before its reasons."""
    # A direct reply has the fields of `AnswerReply`, but its class is not a subclass of it.
    return _answer_reply(_reply_key(task), direct, confidence, may_abstain)


def _reply_key(task: Task) -> str:
    """The cache key of a reply class: the task as JSON, without the claim's speaker and date."""
    return json.dumps({key: value for key, value in task.items() if key not in ("claim_date", "speaker")})


@lru_cache(maxsize=256)
def _answer_reply(task_json: str, direct: bool, confidence: bool, may_abstain: bool = False) -> type[AnswerReply]:
    task: Task = json.loads(task_json)
    a_kind = "an expression" if task["kind"] == "expression" else f"a {task['kind'].replace('_', ' ')}"
    wanted = f"one of {task['labels']}" if task["labels"] else a_kind

    def read(text: str) -> str:
        found = read_answer(task, without_thoughts(text), may_abstain=may_abstain)
        if found is None:
            raise ValueError(f"is {redact(text)[:80]!r}, not {wanted}")
        return found

    schema: dict[str, Any] = {"type": "string"}
    if task["labels"]:
        schema["enum"] = task["labels"] + [ABSTENTION] * may_abstain
    elif task["kind"] == "number":
        number = r"-?[0-9]+([.,/][0-9]+)*"
        schema["pattern"] = rf"^({number}|\({ABSTENTION[1:-1]}\))$" if may_abstain else f"^{number}$"
    kind = Annotated[str, BeforeValidator(_scalar_as_text), AfterValidator(read), WithJsonSchema(schema)]
    fields: dict[str, Any] = {"answer": (kind, ...)}
    if confidence:
        fields["confidence"] = (Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)], ...)
    if not direct:
        return create_model("AnswerReply", __base__=AnswerReply, **fields)
    fields |= {"rationale": (Text, ...), "citations": (list[Quote], ...)}
    # The base is `Reply`, because the fields of `AnswerReply` would come before ``answer``.
    return cast(type[AnswerReply], create_model("AnswerReply", __base__=Reply, **fields))


class AgreeReply(Reply):
    """Whether all answers agree."""

    reason: str
    agree: bool


class FinalReply(Reply):
    """The final answer of a debate."""

    rationale: Text
    answer: str


def final_reply(task: Task, given: Sequence[str] = ()) -> type[FinalReply]:
    """The class of the final reply, whose ``answer`` must equal a given one (`same_answer`), if any is given."""
    return _final_reply(_reply_key(task), tuple(dict.fromkeys(given)))


@lru_cache(maxsize=256)
def _final_reply(task_json: str, given: tuple[str, ...]) -> type[FinalReply]:
    task: Task = json.loads(task_json)
    answer: Any = (
        _answer_reply(task_json, False, False, ABSTENTION in given).model_fields["answer"].rebuild_annotation()
    )

    def check_given(text: str) -> str:
        if given and not any(same_answer(task, one, text) for one in given):
            raise ValueError(f"is {redact(text)[:80]!r}, which nobody answered; choose among {list(given)}")
        return text

    narrowed = [WithJsonSchema({"type": "string", "enum": list(given)})] if given else []
    kind: Any = Annotated[answer, AfterValidator(check_given), *narrowed]
    return create_model("FinalReply", __base__=FinalReply, answer=(kind, ...))


BRACKETS = re.compile(r"\[([\d\s,;]*)\]")
NEGATION = re.compile(r"\b(?:no|not|none|neither|nor|never|without)\b|n['’]t\b", re.IGNORECASE)
RANGE = re.compile(r"\d\s*[-–.]\s*\d")
NOT_FOUND = re.compile(
    r"\bno(?:t|ne|thing)?[ _]found\b|\bnone of (?:the|these) (?:items|passages)\b"
    r"|\bno (?:\w+ )?(?:items?|knowledge|evidence|passages?) (?:\w+ )?(?:helps?|helpful|found|relevant)\b"
    r"|^\W*(?:no|none|nothing|null|n/a)\W*$",
    re.IGNORECASE,
)
"""Phrases that say that no item helps, in replies that do not follow the schema."""


def _as_numbers(value: Any) -> Any:
    """A value such as "1 and 3" or "none found" as a list of numbers; others are returned unchanged."""
    if isinstance(value, list):
        if any(isinstance(item, bool | list) for item in value):
            # A validator of Pydantic, for which this is an invalid reply.
            raise ValueError("contains something that is not a number")
        read = [_as_numbers(item) for item in value]
        return [n for part in read for n in part] if all(isinstance(part, list) for part in read) else value
    if isinstance(value, int) and not isinstance(value, bool):
        return [value]
    if not isinstance(value, str):
        return value
    if NOT_FOUND.search(value) and not re.search(r"\d", value):
        return []
    words = re.findall(r"-?\d+|\w+", value.lower())
    numbers = [int(word) for word in words if word.lstrip("-").isdecimal() and len(word) < 10]
    plain = len(numbers) + sum(word in ("and", "item", "items", "number", "numbers") for word in words) == len(words)
    return numbers if plain and not RANGE.search(value) else value


class SelectReply(Reply):
    """The numbers of the items that help; may be empty."""

    reason: str = ""
    selected: Annotated[list[int], BeforeValidator(_as_numbers)]

    @classmethod
    def from_text(cls, text: str) -> list[dict[str, Any]]:
        """Parses numbers in square brackets, ``[]`` as the whole text, or a phrase which says that no item helps."""
        numbers = re.findall(r"\d{1,9}", " ".join(BRACKETS.findall(text)))
        if numbers:
            usable = not NEGATION.search(text)
        else:
            usable = text.strip() == "[]" or bool(NOT_FOUND.search(text) and not re.search(r"\d", text))
        return [{"selected": numbers, "reason": text[:500]}] if usable else []


@lru_cache(maxsize=256)
def select_reply(size: int, most: int) -> type[SelectReply]:
    """The class of replies that select at most ``most`` of ``size`` items; callers drop invalid and surplus numbers."""
    item = {"type": "integer", "minimum": 1, "maximum": size}
    schema = WithJsonSchema({"type": "array", "items": item, "minItems": 0, "maxItems": most})
    kind = Annotated[list[int], BeforeValidator(_as_numbers), schema]
    return create_model("SelectReply", __base__=SelectReply, selected=(kind, ...))


class ReviewReply(Reply):
    """A reviewer's comment on an answer, and the reviewer's confidence in this comment."""

    comment: Text
    confidence: Annotated[float, Field(ge=1, le=10, allow_inf_nan=False)]


class ScoreReply(Reply):
    """The score of an answer."""

    score: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class ModeratorReply(Reply):
    """The answer that a moderator prefers, or none yet."""

    reason: str
    preferred: str | None


@lru_cache(maxsize=256)
def _moderator_reply(task_json: str) -> type[ModeratorReply]:
    answer: Any = _answer_reply(task_json, False, False).model_fields["answer"].rebuild_annotation()

    def read_none(value: Any) -> Any:
        """None if the value is a spelling of "none" but not a valid answer of the task; other values unchanged."""
        is_none = isinstance(value, str) and value.strip().lower() in ("", "none", "null")
        return None if is_none and read_answer(json.loads(task_json), value) is None else value

    kind: Any = Annotated[answer | None, BeforeValidator(read_none)]
    return create_model("ModeratorReply", __base__=ModeratorReply, preferred=(kind, ...))


def moderator_reply(task: Task) -> type[ModeratorReply]:
    """The class of replies that prefer one of the task's answers or no answer."""
    return _moderator_reply(_reply_key(task))


class SameReply(Reply):
    """Whether two answers mean the same."""

    reason: str
    same: bool


@lru_cache(maxsize=64)
def verdicts_reply(count: int) -> type[VerdictsReply]:
    """The class of replies with exactly one verdict for each of ``count`` statements, sorted by index."""

    def check_complete(verdicts: list[StatementVerdict]) -> list[StatementVerdict]:
        given = sorted(v.index for v in verdicts)
        if given != list(range(count)):
            raise ValueError(f"needs one verdict for each index from 0 to {count - 1}, not for {given}")
        return sorted(verdicts, key=lambda v: v.index)

    place = Annotated[int, WithJsonSchema({"type": "integer", "minimum": 0, "maximum": count - 1})]
    numbered = create_model("StatementVerdict", __base__=StatementVerdict, index=(place, ...))
    size = {"minItems": count, "maxItems": count}
    kind = Annotated[list[numbered], AfterValidator(check_complete), Field(json_schema_extra=size)]  # type: ignore[valid-type]
    return create_model("VerdictsReply", __base__=VerdictsReply, verdicts=(kind, ...))


@lru_cache(maxsize=64)
def questions_reply(count: int) -> type[QuestionsReply]:
    """The class of replies with exactly ``count`` questions."""
    kind = Annotated[list[Text], Field(min_length=count, max_length=count)]
    return create_model("QuestionsReply", __base__=QuestionsReply, questions=(kind, ...))


@lru_cache(maxsize=256)
def _schema_text(reply: type[Reply]) -> str:
    return json.dumps(_strict_schema(reply.model_json_schema()))


def reply_schema(reply: type[Reply]) -> dict[str, Any]:
    """A class's JSON schema, by the rules of strict structured output, without titles and descriptions."""
    schema: dict[str, Any] = json.loads(_schema_text(reply))
    return schema


def _strict_schema(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    needed = {k: v for k, v in node.items() if not (k in ("title", "default", "description") and isinstance(v, str))}
    result = {k: _strict_schema(v) for k, v in needed.items()}
    if "properties" in result:
        result["required"] = list(result["properties"])
        result["additionalProperties"] = False
    return result


def tight_schema(reply: type[Reply], evidence_ids: Sequence[str], longest: int) -> dict[str, Any]:
    """A class's JSON schema with more limits, for endpoints that turn schemas into grammars, such as llama.cpp."""
    schema = reply_schema(reply)
    parts = schema.pop("$defs", {})
    shorter = {"quote": 60, "reason": 40, "query": 100, "answer": 60}

    # The grammar forces a weak model to end its texts and lists, to give one verdict per index in order, and to cite
    # only evidence that it was shown.
    def tighten(node: dict[str, Any], name: str) -> dict[str, Any]:
        node = parts[node["$ref"].rsplit("/", 1)[-1]] if "$ref" in node else node
        if "anyOf" in node:
            return {"anyOf": [tighten(option, name) for option in node["anyOf"]]}
        if node["type"] == "number" and {"minimum", "maximum"} <= set(node):
            # The values are listed, because grammars ignore bounds.
            low, high = node["minimum"], node["maximum"]
            return {"enum": [round(low + (high - low) * i / 20, 2) for i in range(21)]}
        if node["type"] == "object":
            return {**node, "properties": {k: tighten(v, k) for k, v in node["properties"].items()}}
        if node["type"] == "array":
            return tighten_list(node, name)
        if name == "evidence_id":
            return {"type": "string", "enum": list(evidence_ids)}
        if node["type"] == "string" and not {"enum", "pattern"} & set(node):
            return {**node, "maxLength": shorter.get(name, longest)}
        return node

    def tighten_list(node: dict[str, Any], name: str) -> dict[str, Any]:
        if name == "citations" and not evidence_ids:
            return {"type": "array", "items": {"type": "string"}, "maxItems": 0}
        item = tighten(node["items"], "")
        if name == "verdicts":
            numbered = [{**item["properties"], "index": {"const": i}} for i in range(node["maxItems"])]
            return {"type": "array", "prefixItems": [{**item, "properties": n} for n in numbered]}
        return {"minItems": 1, "maxItems": 3, **node, "items": item}

    return tighten(schema, "")
