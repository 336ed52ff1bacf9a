"""What is read of a document. Nothing here is imported but Python's own modules: the children begin with it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Part:
    """A text of a document, and where it stands.

    Args:
        text: paragraphs, with an empty line between two.
        page: the page it stands on, from 1; None if the document has no pages.
        heading: the nearest heading above it, if there is one.
        about: of a row of a table, the columns whose names mean something: id, title, source, url, published.
    """

    text: str
    page: int | None = None
    heading: str = ""
    about: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Parsed:
    """A document as it was read.

    Args:
        kind: ``pdf``, ``html``, ``docx``, ``csv``, ``md`` or ``txt``, by its content.
        title: its own title; an empty text if it has none.
        parts: its texts in their order; those of a table are its rows.
        published: the day that the document itself names, in ISO form.
        pages: how many pages it has; 0 if it has none.
        notes: sentences on what was not read, or how.
    """

    kind: str
    title: str
    parts: list[Part]
    published: str | None = None
    pages: int = 0
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def of_json(cls, values: dict[str, Any]) -> Parsed:
        """The document that `as_json` gave."""
        return cls(**{**values, "parts": [Part(**part) for part in values["parts"]]})


class Unreadable(Exception):  # noqa: N818 - what a document is
    """A document that cannot be read: why, and what to do, as it follows its name and a colon."""
