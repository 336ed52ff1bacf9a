"""The results of calls in the form in which the ledger returns them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moot.core.errors import UserError
from moot.core.ledger.records import Entry, Key
from moot.core.ledger.values import unpack


@dataclass(frozen=True, slots=True)
class StoredCall:
    """The stored result of a call."""

    value: Any  # plain JSON; for an embedding, a list of vectors or, if it failed, the record of its error
    about: Mapping[str, Any]  # a description of the call, such as its role and its model
    debate: str  # the id of the debate that made the call


def is_stored_as_json(key: Key, value: Any) -> bool:
    """Whether the value of a call is stored as JSON, as all are but the vectors of an embedding."""
    return key.kind != "embedding" or isinstance(value, Mapping)


def stored_call(entry: Entry) -> StoredCall:
    try:
        return StoredCall(unpack(entry.value), entry.about, entry.debate)
    except ValueError as error:
        raise UserError(
            f"A stored call of the debate {entry.debate} is damaged ({error}). Remove the debate with `moot ledger "
            f"delete {entry.debate}`, or use `--ledger off`.",
            kind="damaged_ledger",
        ) from error
