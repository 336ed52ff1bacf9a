"""A source that kills its process if a query contains "Deadly", and never answers a query that contains "Endless"."""

from __future__ import annotations

import os
import signal
import threading

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever


class _Shelf(BaseRetriever):
    def _get_relevant_documents(self, query: str, **_: object) -> list[Document]:
        if "Deadly" in query:
            os.kill(os.getpid(), signal.SIGKILL)
        if "Endless" in query:
            threading.Event().wait()
        return [Document("Otters sleep in water.")]


shelf = _Shelf()
