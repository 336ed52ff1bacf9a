"""LangChain objects in settings: chat models, retrievers, vector stores, embedders that a program passes as they are.

Settings and documents contain the name of an object, such as ``object:ChatOpenAI(gpt-4o)``. In settings, the name is an
`ObjectName`, which holds the object. A text with such a name, as in a document or a saved state, holds nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable
from langchain_core.vectorstores import VectorStore
from moot.core.endpoint import OLLAMA_HOST, PROVIDERS, Endpoint, ollama_address
from moot.core.errors import UserError
from moot.core.lazy import imported
from moot.core.redaction import redact
from moot.nodes._vendors.catalogue import OBJECT, VENDORS, Structure
from moot.nodes._vendors.clients import OPTION_NAMES
from moot.retrievers._langchain_source import SEARCHABLE, ObjectName, searchable_kinds
from pydantic import BaseModel

LONGEST = 150
"""Maximum number of characters of an object's name after the colon; names in settings have at most 200."""


def object_name(held: Any) -> ObjectName:
    """The name of an object: its own ``name``, else its class, with its model or vector store if it has one."""
    inner = getattr(held, "model_name", None) or getattr(held, "model", None)
    if isinstance(store := getattr(held, "vectorstore", None), VectorStore):
        inner = type(store).__name__
    kind = type(held).__name__
    shown = getattr(held, "name", None) or (f"{kind}({inner})" if inner and isinstance(inner, str) else kind)
    name = ObjectName(f"{OBJECT}:{redact(' '.join(str(shown).split()))[:LONGEST]}")
    name.held = held
    return name


def model_or_name(value: Any, check: Callable[[Any], Any]) -> Any:
    """Validates a model in settings: a chat model becomes its `ObjectName`; ``check`` validates any other value."""
    return _named(value, check, (BaseChatModel,), "a chat model of LangChain (BaseChatModel)")


def source_or_name(value: Any, check: Callable[[Any], Any]) -> Any:
    """Validates a source in settings, as `model_or_name` does a model: one of `searchable_kinds`, or a name."""
    return _named(value, check, searchable_kinds(), f"a {SEARCHABLE}")


def embedder_or_name(value: Any, check: Callable[[Any], Any]) -> Any:
    """Validates an embedder in settings, as `model_or_name` does a model."""
    return _named(value, check, (Embeddings,), "an embedding model of LangChain (Embeddings)")


if TYPE_CHECKING:
    # A type checker accepts a name or an object. In settings, all values are texts: names.
    NameOrObject: TypeAlias = str | Any
else:
    NameOrObject = str


def _named(value: Any, check: Callable[[Any], Any], kinds: tuple[type, ...], wanted: str) -> Any:
    if isinstance(value, ObjectName):
        if value.held is None:
            return value  # of a document that is read (`recorded_names`)
        value = value.held
    if isinstance(value, kinds) and not isinstance(value, type):
        return object_name(value)
    is_foreign = isinstance(value, Runnable | VectorStore | Embeddings | type)
    if is_foreign or not isinstance(value, str | float | int | Mapping | Sequence | BaseModel | None):
        raise ValueError(f"an object must be {wanted}, not a {type(value).__name__}; set options in the object itself")
    if isinstance(value, str) and is_object(value):
        raise ValueError(
            f"{value[:LONGEST]} is an object of the Python program that named it so. Pass the object again; to resume "
            "elsewhere, in batches and on servers, name it as langchain:MODULE:ATTRIBUTE"
        )
    return check(value)


def with_names(value: Any) -> Any:
    """A value of settings, with the names of objects in place of the objects in it, at any depth."""
    if isinstance(value, Mapping):
        return {key: with_names(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [with_names(one) for one in value]
    is_one = not isinstance(value, type) and isinstance(value, (BaseChatModel, Embeddings, *searchable_kinds()))
    return object_name(value) if is_one else value


def recorded_names(value: Any) -> Any:
    """A value of a document's settings; the names of objects are accepted, as long as nobody asks for the objects."""
    if isinstance(value, Mapping):
        return {key: recorded_names(one) for key, one in value.items()}
    if isinstance(value, list):
        return [recorded_names(one) for one in value]
    return ObjectName(value) if isinstance(value, str) and is_object(value) else value


def is_object(name: str) -> bool:
    """Whether a name is that of an object that a program passed."""
    return name.startswith(f"{OBJECT}:")


def names_in(value: Any) -> Iterator[ObjectName]:
    """The names of objects in a value of settings, at any depth."""
    if isinstance(value, ObjectName):
        yield value
    elif isinstance(value, BaseModel | Mapping | tuple | list):
        fields = vars(value) if isinstance(value, BaseModel) else value
        for one in fields.values() if isinstance(fields, Mapping) else fields:
            yield from names_in(one)


# --- calls to chat models ---------------------------------------------------------------------------------------------


def structure_of(chat: BaseChatModel) -> tuple[Structure, bool]:
    """How an object's client gets a reply's schema, and whether it has a JSON mode: as its vendor's, else in words."""
    kinds = classes_of(chat)
    if getattr(chat, "use_responses_api", None):
        return "words", False
    vendor = next((vendor for vendor in VENDORS.values() if vendor.chat in kinds), None)
    if is_ollama(chat):
        return "response_format", True
    if vendor:
        return vendor.structure, vendor.json_mode
    is_openai = "langchain_openai:BaseChatOpenAI" in kinds or "moot:FakeChatModel" in kinds
    return ("extra_body", True) if is_openai else ("words", False)


def classes_of(chat: BaseChatModel) -> set[str]:
    """The classes of an object, each as the top-level package and the name."""
    return {f"{kind.__module__.partition('.')[0]}:{kind.__name__}" for kind in type(chat).__mro__}


def is_ollama(chat: BaseChatModel) -> bool:
    """Whether an object is a client of Ollama's own API."""
    return "langchain_ollama:ChatOllama" in classes_of(chat)


def endpoint_of(name: str, chat: BaseChatModel) -> Endpoint:
    """The endpoint of an object, for limits and messages; its address is the object's name if it is unknown."""
    if is_ollama(chat):
        host = getattr(chat, "base_url", None) or os.environ.get(OLLAMA_HOST) or "127.0.0.1"
        return Endpoint(ollama_address(str(host)), "not-needed", PROVIDERS["ollama"].key_variable, "Ollama's")
    client = getattr(chat, "root_async_client", None)
    address = getattr(client, "base_url", None) or getattr(chat, "base_url", None)
    return Endpoint(str(address) if address else name, "", api="the model's")


def with_options(name: str, chat: BaseChatModel, **wanted: Any) -> BaseChatModel:
    """A copy of an object with the given options that are not None; UserError if its class does not have one."""
    fields, update = type(chat).model_fields, dict[str, Any]()
    for option, value in wanted.items():
        if value is None:
            continue
        field = next((field for field in OPTION_NAMES[option] if field in fields), None)
        if field is None:
            raise UserError(
                f"{name} takes no `{option}`: leave out this setting"
                + (" and ceilings" * (option == "max_tokens"))
                + ", or choose another model.",
                kind="invalid_setting",
            )
        update[field] = value
    return chat.model_copy(update=update) if update else chat


def without_retries(chat: BaseChatModel) -> BaseChatModel:
    """A copy of an object of an OpenAI class without retries of its own, because moot retries; else the object."""
    root = getattr(chat, "root_async_client", None)
    if not isinstance(root, imported("openai").AsyncOpenAI):
        return chat
    quiet, update = root.with_options(max_retries=0), dict[str, Any]()
    if (sync := getattr(chat, "root_client", None)) is not None:
        quiet_sync = sync.with_options(max_retries=0)
        update |= {"root_client": quiet_sync, "client": quiet_sync.chat.completions}
    update |= {"root_async_client": quiet, "async_client": quiet.chat.completions, "max_retries": 0}
    # As for moot's own clients: so that the tokens of streamed replies are counted.
    update |= {"stream_usage": True} if getattr(chat, "stream_usage", True) is None else {}
    return chat.model_copy(update=update)


def retries_warning(name: ObjectName) -> str:
    """The warning that an object repeats failed requests itself; empty if it does not, or not for moot's calls."""
    chat = name.held
    if not isinstance(chat, BaseChatModel) or "max_retries" not in type(chat).model_fields:
        return ""
    if without_retries(chat) is not chat or getattr(chat, "max_retries", None) == 0:
        return ""
    return (
        f"{name} may repeat failed requests itself, and moot repeats them, too (`attempts`), so that there are more "
        "requests than calls show. Make the object with max_retries=0."
    )
