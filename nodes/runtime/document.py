"""Result documents of earlier versions, brought up to date: whoever reads a document reads it through this."""

from __future__ import annotations

from typing import Any

from moot.nodes.runtime.state import SCHEMA_VERSION

SINCE: dict[str, dict[str, Any]] = {"1.0": {"messages": []}}
"""By the version of a document's form, the keys that it may lack, with what they hold then."""


def upgraded(found: Any) -> Any:
    """A result document in this version's form; anything else as it is.

    Args:
        found: plain JSON that may be a document.
    """
    version = found.get("schema_version") if isinstance(found, dict) else None
    if not isinstance(version, str) or version not in SINCE:
        return found
    return {**SINCE[version], **found, "schema_version": SCHEMA_VERSION}
