"""How a reply with a schema is requested from a model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from moot.core.errors import UserError
from moot.nodes._models.chat_models import ChatModel, StructuredOutput
from moot.nodes._texts.replies import Reply, reply_schema, tight_schema
from moot.nodes._vendors.catalogue import Structure


def reply_request(
    model: ChatModel, how: StructuredOutput, reply: type[Reply], evidence_ids: Sequence[str]
) -> dict[str, Any]:
    """The options of a call that request a reply, which may cite these ids; empty if only the prompt can request it."""
    if how == "text":
        return {}
    if how == "json_object":
        if not model.json_mode:
            raise UserError(
                f"{model.name} cannot be asked for JSON without a schema: set `structured_output` to json_schema or "
                "text.",
                kind="invalid_setting",
            )
        return reply_options(model.structure, {"type": "json_object"})
    if model.tight:
        wanted = response_format(reply, tight_schema(reply, evidence_ids, model.longest_text))
    else:
        wanted = own_response_format(reply)
    return reply_options(model.structure, wanted)


def schema_in_words(model: ChatModel, how: StructuredOutput, reply: type[Reply]) -> str:
    """The request for a reply that is added to the prompt; empty if the endpoint gets the schema."""
    if how == "json_schema" and model.structure != "words":
        return ""
    return f"\n\nReply with one JSON object and nothing else. Its schema:\n{json.dumps(reply_schema(reply))}"


def response_format(reply: type[Reply], schema: dict[str, Any]) -> dict[str, Any]:
    """The response format that requests a reply by its JSON schema."""
    return {"type": "json_schema", "json_schema": {"name": reply.__name__, "strict": True, "schema": schema}}


@lru_cache(maxsize=256)
def own_response_format(reply: type[Reply]) -> dict[str, Any]:
    """The response format with a reply's unchanged schema; all calls share it, so callers must not change it."""
    return response_format(reply, reply_schema(reply))


def reply_options(structure: Structure, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The options that request a format (``response_format`` of OpenAI); empty if only the prompt can request it."""
    if structure == "words":
        return {}
    if structure == "response_format":
        return {"response_format": wanted}
    if structure == "google":
        schema = wanted.get("json_schema", {}).get("schema")
        return {"response_mime_type": "application/json"} | ({"response_json_schema": schema} if schema else {})
    # With the option response_format, a client with the structure extra_body would raise an error for a cut-off reply.
    return {"extra_body": {"response_format": wanted}}
