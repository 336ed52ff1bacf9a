"""Results of calls as the ledger returns them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moot.core.errors import UserError
from moot.core.ledger.records import Entry, Key
from moot.core.ledger.values import unpack


@dataclass(frozen=True, slots=True)
class StoredCall:
    """The stored result of a call.

    Args:
        value: a JSON value; for an embedding, a list of vectors.
        about: the role and the model of the call.
        debate: the id of the debate that made the call.
    """

    value: Any
    about: Mapping[str, Any]
    debate: str


def is_json(key: Key, value: Any) -> bool:
    """Whether a value is stored as JSON: all values except vectors. The value of a failed embedding is its error."""
    return key.kind != "embedding" or isinstance(value, Mapping)


def stored_call(entry: Entry) -> StoredCall:
    """The stored result in an entry.

    Raises:
        UserError: the entry's value is damaged.
    """
    try:
        return StoredCall(unpack(entry.value), entry.about, entry.debate)
    except ValueError as error:
        raise UserError(
            f"A stored call of the debate {entry.debate} is damaged ({error}). Remove the debate with `moot ledger "
            f"delete {entry.debate}`, or use `--ledger off`.",
            kind="damaged_ledger",
        ) from error
