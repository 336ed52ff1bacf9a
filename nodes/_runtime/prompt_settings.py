"""Prompts as settings. A graph's settings have a field for each prompt of its nodes; Studio can edit these fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from moot.nodes._runtime.settings import Settings
from moot.prompts._files import check_edited, placeholders, shipped
from pydantic import AfterValidator, Field, create_model

PROMPT_SUFFIX = "_prompt"
"""The suffix of the names of fields that hold prompts."""
LONGEST_PROMPT = 20_000
"""Maximum number of characters of an edited prompt."""


def with_prompts(kind: type[Settings], used: Mapping[str, Sequence[str]]) -> type[Settings]:
    """The class of a graph's settings with a field for each prompt, such as ``judge_prompt`` for ``tool_mad/judge``."""
    names = {field_of(name): name for name in used}
    if len(names) < len(used):
        raise ValueError(f"two of these prompts would have the same field: {', '.join(used)}")
    fields: dict[str, Any] = {field: _prompt_field(name, used[name]) for field, name in names.items()}
    # A graph with this class also accepts an instance of ``kind`` itself, and then uses the shipped prompts.
    made = create_model(kind.__name__, __base__=kind, __module__=kind.__module__, __doc__=kind.__doc__, **fields)
    made.prompts = names
    return made


def field_of(prompt: str) -> str:
    """The name of the field for a prompt in the settings, such as ``judge_prompt`` for ``tool_mad/judge``."""
    return prompt.rpartition("/")[2] + PROMPT_SUFFIX


def _prompt_field(name: str, nodes: Sequence[str]) -> Any:
    text = shipped(name)
    names = " ".join(f"{{{name}}}" for name in sorted(placeholders(text)))
    field = Field(
        default=text,
        max_length=LONGEST_PROMPT,
        description=f"The prompt {name}: instructions, a line ---, then data. All placeholders of the data are "
        f"needed. Placeholders: {names}.",
        json_schema_extra={"langgraph_type": "prompt", "langgraph_nodes": list(nodes)},
    )
    return (Annotated[str, AfterValidator(partial(check_edited, name))], field)
