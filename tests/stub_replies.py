"""Replies of the scripted endpoint: texts, filled templates, JSON that satisfies a schema, and embeddings."""
from __future__ import annotations

import hashlib
import json
import random
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

EMBEDDING_DIM = 384
REF = re.compile(r"\(ref ([0-9a-f]{8})\)")
LABEL_FIELD = re.compile(r"label|verdict|stance|answer|decision|prediction|vote", re.I)
FRACTION_FIELD = re.compile(r"score|confiden|prob|weight|faithful|relevan|certainty|ratio", re.I)
FILLER = (
    "The retrieved passages address the central entity of the claim.",
    "Two independent sources give the same figure and the same date.",
    "One passage is older than the claim and cannot settle it alone.",
    "The opposing argument does not engage with the strongest source.",
    "No passage contradicts the causal reading directly.",
    "The wording of the claim is stronger than the wording of the evidence.",
)


class Draw:
    """A stream of random choices. The same key gives the same choices."""

    def __init__(self, *key: str) -> None:
        digest = hashlib.blake2b("\x1f".join(key).encode(), digest_size=16).digest()
        self.ref = digest[:4].hex()
        self._rng = random.Random(digest)

    def pick(self, items):
        return items[self._rng.randrange(len(items))]

    def uniform(self, low: float, high: float) -> float:
        return round(self._rng.uniform(low, high), 3)

    def integer(self, low: int, high: int) -> int:
        return self._rng.randint(low, high)


@dataclass
class Rule:
    """One entry of a rules file; see the docstring of stub_llm.py.

    ``around`` is the text around a reply that is JSON: "{reply}" is the reply, and "{draft}" is the reply with the
    fields of ``draft`` in place of its own.
    """

    match: str = ""
    model: str = ""
    times: int | None = None
    reply: str | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    around: str = "{reply}"
    draft: dict[str, Any] = field(default_factory=dict)
    finish: str = ""
    status: int = 0
    retry_after: str = ""
    raw: str | None = None
    drop: bool = False
    delay_ms: float = 0.0

    def __post_init__(self) -> None:
        self._search = re.compile(self.match, re.S).search

    def fits(self, prompt: str) -> bool:
        """Whether the rule applies to this prompt; the caller has compared the models."""
        return self.times != 0 and bool(self._search(prompt))

    def written(self, value: Any) -> str:
        """The reply that consists of a JSON value, with the rule's fields and the text around."""
        reply = with_fields(value, self.fields)
        draft = json.dumps(with_fields(reply, self.draft))
        return self.around.replace("{draft}", draft).replace("{reply}", json.dumps(reply))


NO_RULE = Rule()


def with_fields(value: Any, fields: dict[str, Any]) -> Any:
    """A copy of a JSON value with the given fields in place of the properties of the same names, at any depth."""
    if isinstance(value, dict):
        return {k: fields[k] if k in fields else with_fields(v, fields) for k, v in value.items()}
    return [with_fields(v, fields) for v in value] if isinstance(value, list) else value


@dataclass
class Writer:
    """Writes texts, fills templates, and makes objects that satisfy a JSON schema."""

    labels: list[str]
    reply_chars: int
    trace: bool

    def mark(self, draw: Draw) -> str:
        return f" (ref {draw.ref})" if self.trace else ""

    def sentences(self, draw: Draw, chars: int) -> str:
        parts: list[str] = []
        while chars > 0:
            parts.append(draw.pick(FILLER))
            chars -= len(parts[-1])
        return " ".join(parts)

    def text(self, draw: Draw) -> str:
        body = self.sentences(draw, self.reply_chars)
        return f"{body} Therefore, the answer is [{draw.pick(self.labels)}].{self.mark(draw)}"

    def scripted(self, reply: str, draw: Draw) -> str:
        def fill(match: re.Match) -> str:
            name, _, options = match.group(1).partition(":")
            if name == "label":
                return draw.pick(self.labels)
            if name == "score":
                return str(draw.uniform(0.5, 1.0))
            if name == "pick":
                return draw.pick(options.split("|"))
            return self.sentences(draw, self.reply_chars) + self.mark(draw)

        return re.sub(r"\{(label|score|text|pick:[^{}]*)\}", fill, reply)

    def from_schema(self, schema: Any, draw: Draw, root: dict | None = None,
                    name: str = "", depth: int = 0) -> Any:
        """A value that satisfies a JSON schema. Less common keywords, such as ``pattern``, are ignored."""
        root = schema if root is None else root
        if not isinstance(schema, dict):  # true / false schemas
            return self.sentences(draw, 20)
        if "$ref" in schema:
            target: Any = root
            for part in schema["$ref"].lstrip("#/").split("/"):
                target = target[part.replace("~1", "/").replace("~0", "~")]
            return self.from_schema(target, draw, root, name, depth + 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return draw.pick(schema["enum"])
        if "allOf" in schema:
            merged: dict = {k: v for k, v in schema.items() if k != "allOf"}
            for part in schema["allOf"]:
                while "$ref" in part:
                    key = part["$ref"].rsplit("/", 1)[-1]
                    part = (root.get("$defs") or root.get("definitions") or {})[key]
                merged = {**part, **merged,
                          "properties": {**part.get("properties", {}), **merged.get("properties", {})},
                          "required": [*part.get("required", []), *merged.get("required", [])]}
            return self.from_schema(merged, draw, root, name, depth)
        for union in ("anyOf", "oneOf"):
            if union in schema:
                options = [s for s in schema[union] if s.get("type") != "null"] or schema[union]
                # Beyond depth 6, prefer null, a string or a number, so that recursive schemas end.
                leaf = [s for s in schema[union] if s.get("type") in ("null", "string", "number")]
                return self.from_schema(leaf[0] if depth > 6 and leaf else options[0],
                                        draw, root, name, depth + 1)
        kind = schema.get("type", "object" if "properties" in schema else "string")
        if isinstance(kind, list):
            kind = next((k for k in kind if k != "null"), "null")
        if kind == "object":
            wanted = schema.get("properties", {})
            if depth > 6:
                wanted = {k: wanted[k] for k in schema.get("required", []) if k in wanted}
            return {k: self.from_schema(v, draw, root, k, depth + 1) for k, v in wanted.items()}
        if kind == "array":
            low = schema.get("minItems", 0)
            high = schema.get("maxItems", max(low, 3))
            count = low if depth > 6 else draw.integer(max(low, min(2, high)), high)
            return [self.from_schema(schema.get("items", {}), draw, root, name, depth + 1)
                    for _ in range(count)]
        if kind == "boolean":
            return draw.pick([True, False])
        if kind == "null":
            return None
        if kind in ("number", "integer"):
            return self.number(schema, kind, draw, name)
        return self.string(schema, draw, name)

    def number(self, schema: dict, kind: str, draw: Draw, name: str) -> float | int:
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        high = schema.get("maximum", schema.get("exclusiveMaximum"))
        if kind == "integer":
            low = 0 if low is None else low + ("exclusiveMinimum" in schema)
            high = low + 10 if high is None else high - ("exclusiveMaximum" in schema)
            return draw.integer(int(low), int(high))
        if low is None and high is None and FRACTION_FIELD.search(name):
            low, high = 0.5, 1.0
        low = 0.0 if low is None else low
        high = low + 1.0 if high is None else high
        return draw.uniform(low + (high - low) * 0.05, high - (high - low) * 0.05)

    def string(self, schema: dict, draw: Draw, name: str) -> str:
        if schema.get("format") == "date-time":
            return "2024-01-01T00:00:00Z"
        if schema.get("format") == "date":
            return "2024-01-01"
        if LABEL_FIELD.fullmatch(name):
            return draw.pick(self.labels)
        limit = schema.get("maxLength", self.reply_chars)
        text = self.sentences(draw, min(limit, self.reply_chars) // 2) + self.mark(draw)
        return text[:limit].ljust(schema.get("minLength", 0), ".")

    def json_object(self, prompt: str, draw: Draw) -> dict:
        """A reply in the mode json_object. Its keys are those in the prompt's JSON, by default `answer`."""
        keys = dict.fromkeys(re.findall(r'"([A-Za-z_][\w ]{0,40})"\s*:', prompt)) or {"answer": 0}
        return {k: self.from_schema({"type": "number"} if FRACTION_FIELD.search(k) else
                                    {"type": "string"}, draw, {}, k) for k in keys}


def embed(text: str) -> list[float]:
    """A unit vector by signed feature hashing of words: texts that share many words have similar vectors."""
    vector = [0.0] * EMBEDDING_DIM
    for word in re.findall(r"\w+", text.lower()) or [""]:
        place, sign = hash_word(word)
        vector[place] += sign
    norm = sum(x * x for x in vector) ** 0.5 or 1.0
    return [x / norm for x in vector]


@lru_cache(20_000)
def hash_word(word: str) -> tuple[int, float]:
    """The dimension and the sign of a word in a vector."""
    digest = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big")
    return digest % EMBEDDING_DIM, 1.0 if digest >> 63 else -1.0


def flatten(messages: list[dict]) -> str:
    """The texts and tool arguments of messages in their order, joined by line breaks."""
    out: list[str] = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            content = "\n".join(p.get("text", "") for p in content if isinstance(p, dict))
        out.append(content or "")
        for call in message.get("tool_calls") or []:
            out.append(call.get("function", {}).get("arguments", ""))
    return "\n".join(out)
