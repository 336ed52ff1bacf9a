"""Replies that are requested from models: their base class, replies that several steps share, and JSON schemas.

The other replies stand in the files of their steps.

Scripted endpoints and stored runs depend on the names of fields. The schemas of `reply_schema` follow the documented
rules of strict structured output: every field is required, no other field is allowed, and texts have no limits of
length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Annotated, Any, ClassVar, Concatenate, ParamSpec, TypeVar, cast

from moot.core.redaction import redact
from moot.nodes._models.reply_limits import REPLY_TOKENS
from moot.nodes._records.entries import ORIGIN, Task
from moot.nodes._texts.answers import ABSTENTION, read_answer
from moot.nodes._texts.thoughts import without_thoughts
from moot.nodes._texts.wrapped import BOXED, FINAL_LEAD, without_lead
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    create_model,
)

P = ParamSpec("P")
R = TypeVar("R")


class Reply(BaseModel):
    """A structured reply. Fields outside the schema are ignored."""

    model_config = ConfigDict(extra="ignore")
    most_tokens: ClassVar[int] = REPLY_TOKENS
    """The tokens that are reserved for such a reply, without thoughts, if the user sets no `max_tokens`."""

    @classmethod
    def from_text(cls, text: str) -> list[dict[str, Any]]:
        """Parses a text without JSON into objects of field values; none, unless a subclass accepts such texts."""
        return []

    @classmethod
    def from_plain_text(cls, text: str) -> list[dict[str, Any]]:
        """The same, for texts that are only accepted if no JSON was requested from the endpoint."""
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


def one_of_each(kind: type[Reply], count: int, noun: str = "entry") -> Any:
    """The type of a list with one reply for each ``index`` from 0 to ``count`` - 1, which sorts them by index."""

    def check_complete(given: list[Any]) -> list[Any]:
        found = sorted(one.index for one in given)
        if found != list(range(count)):
            each = f"one {noun} for each index from 0 to {count - 1}" if count else f"no {noun}"
            raise ValueError(f"needs {each}, not for {found}")
        return sorted(given, key=lambda one: one.index)

    place = Annotated[int, WithJsonSchema({"type": "integer", "minimum": 0, "maximum": max(0, count - 1)})]
    numbered = create_model(kind.__name__, __base__=kind, index=(place, ...))
    size: Any = {"minItems": count, "maxItems": count}
    return Annotated[list[numbered], AfterValidator(check_complete), Field(json_schema_extra=size)]  # type: ignore[valid-type]


class QueryReply(Reply):
    """A search query."""

    query: Text


class QueriesReply(Reply):
    """One or two search queries."""

    queries: Annotated[list[Text], Field(min_length=1, max_length=2)]


class PlainReply(Reply):
    """A reply with an answer that may be given in plain words, as the prompts of papers request it."""

    @classmethod
    def from_plain_text(cls, text: str) -> list[dict[str, Any]]:
        """Parses lines such as "Answer: B"; the whole text is the rationale, and a line "Confidence: 0.8" counts.

        Without such a line, the last sentence may be one, or have the answer in a LaTeX box or as a letter in brackets.
        """
        lines = [PLAIN_MARKS.sub("", line).strip() for line in text.splitlines()]
        final = [line for line in lines if FINAL_LEAD.match(line)]
        last = PLAIN_MARKS.sub("", SENTENCE_END.split(text.strip())[-1]).strip()
        closes = BOXED.search(last) or (not final and (FINAL_LEAD.match(last) or LETTER_IN_BRACKETS.fullmatch(last)))
        final += [last] if closes and last not in final else []
        answers = [without_lead(line, FINAL_LEAD).strip() for line in final]
        sure = [found for line in lines if (found := CONFIDENCE.fullmatch(line))]
        more = {"confidence": float(sure[-1][1]) / (100 if sure[-1][2] else 1)} if sure else {}
        return [{"answer": answer, "rationale": text.strip(), "citations": [], **more} for answer in answers]


PLAIN_MARKS = re.compile(r"^[\s>#*_-]+|[*_]+")
"""Signs of Markdown around and in a line."""
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
LETTER_IN_BRACKETS = re.compile(r"\([A-Z]\)\.?")
CONFIDENCE = re.compile(r"(?:my )?confidence(?: is|\s*[:=])\s*(\d{1,3}(?:\.\d{1,6})?)\s*(%)?\.?", re.IGNORECASE)
"""The line of a plain reply that gives its confidence."""


class AnswerReply(PlainReply):
    """An answer of the task with its reasons."""

    rationale: Text
    citations: list[Quote]
    answer: str


class SummaryReply(Reply):
    """A summary of a text."""

    summary: Text


def _scalar_as_text(value: Any) -> Any:
    """A number or a truth value as a text, spelled as in JSON; other values unchanged."""
    return json.dumps(value) if isinstance(value, bool | int | float) else value


def by_task(make: Callable[Concatenate[Task, P], R]) -> Callable[Concatenate[Task, P], R]:
    """A function that makes a class of replies from a task, which is made once for tasks of the same form."""
    made: Any = lru_cache(maxsize=256)(lambda form, *args, **options: make(json.loads(form), *args, **options))

    @wraps(make)
    def of_task(task: Task, /, *args: P.args, **options: P.kwargs) -> R:
        form = {key: value for key, value in task.items() if key not in ORIGIN}
        reply: R = made(json.dumps(form), *args, **options)
        return reply

    return of_task


@by_task
def answer_reply(
    task: Task, *, direct: bool = False, confidence: bool = False, may_abstain: bool = False
) -> type[AnswerReply]:
    """The class of replies whose ``answer`` is an answer of the task; if ``direct``, it comes before its reasons."""
    # A direct reply has the fields of `AnswerReply`, but its class is not a subclass of it.
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
    # The base is not `AnswerReply`, because the fields of that class would come before ``answer``.
    return cast(type[AnswerReply], create_model("AnswerReply", __base__=PlainReply, **fields))


def answer_type(task: Task, *, may_abstain: bool = False) -> Any:
    """The type of an answer of the task, for other classes of replies."""
    return answer_reply(task, may_abstain=may_abstain).model_fields["answer"].rebuild_annotation()


class ScoreReply(Reply):
    """The score of an answer."""

    score: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


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
        if name in ("evidence_id", "document"):
            return {"type": "string", "enum": list(evidence_ids)}
        if node["type"] == "string" and not {"enum", "pattern"} & set(node):
            return {**node, "maxLength": shorter.get(name, longest)}
        return node

    def tighten_list(node: dict[str, Any], name: str) -> dict[str, Any]:
        if name == "citations" and not evidence_ids:
            return {"type": "array", "items": {"type": "string"}, "maxItems": 0}
        item = tighten(node["items"], {"queries": "query", "documents": "document"}.get(name, ""))
        if "maxItems" in node and not node["maxItems"]:
            return {"type": "array", "items": {"type": "string"}, "maxItems": 0}
        if "maxItems" in node and "index" in item.get("properties", {}):
            numbered = [{**item["properties"], "index": {"const": i}} for i in range(node["maxItems"])]
            return {"type": "array", "prefixItems": [{**item, "properties": n} for n in numbered]}
        return {"minItems": 1, "maxItems": 3, **node, "items": item}

    return tighten(schema, "")
