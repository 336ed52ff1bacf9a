"""Two sources that print `ASKED` to stderr, then block for ten minutes: one a thread, the other the event loop."""

from __future__ import annotations

import sys
import time
from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

ASKED = "the source is asked"


class InThread(BaseRetriever):
    """A source that blocks a thread."""

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        print(ASKED, file=sys.stderr, flush=True)
        time.sleep(600)
        return []


class InLoop(InThread):
    """A source that blocks the event loop."""

    async def _aget_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        return self._get_relevant_documents(query)


in_thread, in_loop = InThread(), InLoop()
