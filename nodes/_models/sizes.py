"""Sizes of widely used open models: parameters and tokens of pre-training, N and M in Eq. 3 of CortexDebate.

The table is ``model_sizes.jsonl``, with one model per line: ``family``, ``names`` (as hubs and servers spell them),
``parameters`` (with those of all experts), ``tokens`` (null if unpublished), ``source`` (the report or model card) and
sometimes ``note``. A tuned model has the values of its base model. A line also has ``context``, the maximum number of
tokens in a prompt and its reply, if the context is known and the same for all of these names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import resources
from typing import NamedTuple, NotRequired

from moot.core.endpoint import PROVIDERS
from typing_extensions import TypedDict

SUFFIX = re.compile(
    r"[-_.](?:instruct(?:-turbo|-lite)?|chat|it|hf|base|text|pt|sft|dpo|v\d(?:\.\d+)*"
    r"|gguf|gptq|awq|mlx|exl2|qat|bnb|quantized|dynamic|fp8|fp16|bf16|f16|int4|int8|w\da\d+|[48]bits?"
    r"|i?q\d(?:_(?:\d|k|nl|[smlx]{1,3}))*)$"
)
"""A suffix of a name that changes neither N nor M: the kind or release of tuning, a file format, a quantisation."""
DEFAULT = "latest"
"""The tag that Ollama adds to a name without a tag. The table has names with this tag, such as ``llama3.1:latest``."""
UNINFORMATIVE_TAG = "free"
"""A tag of models that a server offers at no charge; it says nothing about their size."""


class Size(NamedTuple):
    """The parameters of a model (N) and its tokens of pre-training (M); the tokens are None if unpublished."""

    parameters: float
    tokens: float | None


class Entry(TypedDict):
    """A line of the table."""

    family: str
    names: list[str]
    parameters: float
    tokens: float | None
    context: NotRequired[int]
    source: str
    note: NotRequired[str]


_TABLE = resources.files("moot.nodes._models") / "model_sizes.jsonl"
ENTRIES: tuple[Entry, ...] = tuple(map(json.loads, _TABLE.read_text(encoding="utf-8").splitlines()))
"""The table, read at import, because the event loop must not wait for a disk."""


def size_of(model: str) -> Size | None:
    """The size of a model (provider:name); None if the table does not list the model."""
    entry = entry_of(model)
    return Size(entry["parameters"], entry["tokens"]) if entry else None


def entry_of(model: str) -> Entry | None:
    """The line of the table for a model setting (see `size_of`); None if the table does not list the model."""
    return next((BY_NAME[name] for name in spellings(model) if name in BY_NAME), None)


def fold_name(name: str) -> str:
    """A model's name in lower case, without the path or owner before it."""
    return name.strip().lower().rpartition("/")[2]


BY_NAME = {fold_name(name): entry for entry in ENTRIES for name in entry["names"]}
"""The lines of the table, by normalised name (`fold_name`)."""


def spellings(model: str) -> Iterator[str]:
    """The normalised names under which the table may have the model of a setting, the most exact name first."""
    # A size in a name or a tag is never dropped, so that no model is confused with another model of its family.
    provider, _, rest = model.strip().partition(":")
    if provider not in (*PROVIDERS, "embedded", "fake"):
        provider, rest = "", model
    path, _, tag = rest.strip().lower().removeprefix("library/").partition(":")
    name = fold_name(path)
    tags = list(name_and_shorter_names(f"-{tag}")) if tag not in ("", DEFAULT, UNINFORMATIVE_TAG) else []
    if tags and tags[-1]:
        yield from (f"{name}:{given[1:]}" for given in tags)
    elif "/" in path:
        yield from name_and_shorter_names(name)
    elif provider == "ollama" or tag not in ("", UNINFORMATIVE_TAG):
        yield f"{name}:{DEFAULT}"
    else:
        yield from name_and_shorter_names(name)
        yield f"{name}:{DEFAULT}"


def name_and_shorter_names(name: str) -> Iterator[str]:
    """A name, then the name without its last `SUFFIX`, and so on."""
    yield name
    while match := SUFFIX.search(name):
        name = name[: match.start()]
        yield name
