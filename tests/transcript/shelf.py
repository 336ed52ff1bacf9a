"""Three sources: one finds a text, one finds nothing, and one is down."""

from __future__ import annotations

from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

TEXT = "Platypuses lay leathery eggs."


class Shelf(BaseRetriever):
    """A source that finds the text ``holds`` for each query.

    It finds nothing if the text is empty. If the text is None, a search raises ConnectionError.
    """

    holds: str | None = TEXT

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        if self.holds is None:
            raise ConnectionError("the shelf is locked")
        return [Document(self.holds, metadata={"title": "Eggs", "source": "Shelf"})] if self.holds else []


shelf, empty, down = Shelf(), Shelf(holds=""), Shelf(holds=None)
