"""Writes the settings of every graph as TypedDicts, so that type checkers know the keys of a dict of settings.

`contexts` is the text of ``graphs/contexts.py``. The keys, their types and their descriptions are those of the classes.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from importlib import import_module
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from moot import nodes
from moot.nodes._models.objects import embedder_or_name, model_or_name, source_or_name
from moot.nodes._runtime.settings import Settings
from pydantic import BaseModel, WrapValidator

HEAD = '''"""The settings of each graph as a TypedDict: with it, type checkers and editors know the keys of a context.

``context={"modle": ...}`` is then an error before the program runs. The keys mean what the fields of the classes mean:
`ToolMadContext` has those of `ToolMadSettings`, and a key for each prompt. For a debate of yours, name the context as
moot's graphs do: ``graph: CompiledDebate[RoundsSettings | RoundsSettingsDict] = builder.compile()``. This file is
generated from the classes, by ``make docs``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Literal, Required

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from moot.nodes import {names}
from typing_extensions import TypedDict
'''
LONGEST_LINE = 120
OBJECTS = {
    model_or_name: "str | BaseChatModel",
    source_or_name: "str | BaseRetriever | VectorStore",
    embedder_or_name: "str | Embeddings",
}
"""The types that settings accept in place of a name, by the function that validates them."""


def contexts(names: Sequence[str]) -> str:
    """The module's text: a class for each class of settings that graphs share, then one for each graph."""
    made: dict[str, str] = {}
    for name in names:
        graph = import_module(f"moot.graphs.{name}").graph
        title = "".join(word.capitalize() for word in name.split("_")) + "Context"
        own = graph.builder._kind
        shared = _widest(own.__mro__)
        made[title] = _typed_dict(title, graph.context_schema, f"Settings of the graph `{name}`.", shared, made)
    text = "\n\n".join(made.values())
    public = sorted(name for name in nodes.__all__ if f"{name} | {name}Dict" in text)
    return f"{HEAD.replace('{names}', ', '.join(public))}\n\n{text}"


def _widest(kinds: Sequence[type]) -> type[BaseModel]:
    """The class of `moot.nodes` with the most fields: a TypedDict can inherit a key from one class only."""
    shared = [kind for kind in kinds if issubclass(kind, Settings) and kind.__module__.startswith("moot.nodes.")]
    return max(shared, key=lambda kind: len(kind.model_fields))


def _typed_dict(
    title: str, kind: type[BaseModel], about: str, base: type[BaseModel] | None, made: dict[str, str]
) -> str:
    """The code of one class, with the keys that its base lacks; adds the classes that it names to ``made``."""
    above = f"{base.__name__}Dict" if base else "TypedDict"
    if base and above not in made:
        wider = _widest(base.__mro__[1:]) if base is not Settings else None
        made[above] = _typed_dict(above, base, f"The keys of `{base.__name__}`.", wider, made)
    hints = get_type_hints(kind, include_extras=True)
    keys = [name for name in kind.model_fields if name not in (base.model_fields if base else ())]
    lines = [f"class {title}({above}, total=False):", f'    """{about}"""']
    for name in keys:
        field = kind.model_fields[name]
        depends = issubclass(kind, Settings) and name in kind.defaults("paper")
        type_ = _text(hints[name], made) + (" | None" if depends else "")
        line = f"    {name}: {f'Required[{type_}]' if field.is_required() else type_}"
        if len(line) > LONGEST_LINE:  # a Literal with many values
            line = line.replace("[", "[\n        ", 1).replace(", ", ",\n        ").replace("]", ",\n    ]")
        lines += ["", line]
        lines += _docstring(field.description or "")
    return "\n".join(lines) + "\n"


def _docstring(text: str) -> Iterator[str]:
    text = text.replace("\\", "\\\\")
    if not text:
        return
    if len(text) < 110:
        yield f'    """{text}"""'
        return
    yield from textwrap.wrap(text, 116, initial_indent='    """', subsequent_indent="    ", break_on_hyphens=False)
    yield '    """'


def _text(type_: Any, made: dict[str, str]) -> str:
    """A type as code, in which every value that the settings accept has its place."""
    origin, arguments = get_origin(type_), get_args(type_)
    if origin is Annotated:
        wrapped = [one.func for one in arguments[1:] if isinstance(one, WrapValidator)]
        return OBJECTS[wrapped[0]] if wrapped else _text(arguments[0], made)
    if origin in (Union, UnionType):
        return " | ".join(dict.fromkeys(_text(one, made) for one in arguments))
    if origin is Literal:
        return f"Literal[{', '.join(json.dumps(one) if isinstance(one, str) else repr(one) for one in arguments)}]"
    if origin in (tuple, list):
        return f"Sequence[{_text(arguments[0], made)}]"
    if origin in (dict, Mapping):
        return f"Mapping[{', '.join(_text(one, made) for one in arguments)}]"
    if isinstance(type_, type) and issubclass(type_, BaseModel):
        name = f"{type_.__name__}Dict"
        if name not in made:
            made[name] = _typed_dict(name, type_, f"The keys of a `{type_.__name__}`.", None, made)
        return f"{type_.__name__} | {name}" if hasattr(nodes, type_.__name__) else name
    return {NoneType: "None", date: "date | str", Any: "Any"}.get(type_) or type_.__name__
