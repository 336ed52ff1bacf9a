"""The pieces of evidence of a debate, by their ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from moot.core.errors import UserError
from moot.retrievers import Evidence


class Pieces(dict[str, Evidence]):
    """Pieces of evidence by their ids. Another id, which a turn names, is an error that says what to do."""

    def __init__(self, evidence: Iterable[Evidence]) -> None:
        super().__init__((piece["id"], piece) for piece in evidence)

    def __missing__(self, id: str) -> NoReturn:
        raise UserError(
            f"A turn was shown the piece of evidence {id!r}, which the state's `evidence` lacks. Whoever replaces the "
            "evidence of a debate must keep the pieces that its turns name (`evidence_ids`), or go back to the "
            "checkpoint before the first of these turns.",
            kind="missing_state",
        )
