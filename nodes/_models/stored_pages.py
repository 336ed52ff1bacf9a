"""The web pages of one debate: each is read at most once, within limits, and kept in the store with the replies."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import cast

from moot.core.errors import MootError, WorldError
from moot.core.fingerprints import key_of
from moot.nodes._models.replies import DebateReplies
from moot.nodes._models.stored_sources import stored
from moot.retrievers._pages import SECONDS, Page, read_web_page

AT_ONCE = 40
"""Maximum number of pages that a debate reads at once: those of four searches, each of another website or two."""
MOST_PAGES = 300
"""Maximum number of pages that a debate fetches: a trial with ten documents per query fetches fewer."""
MOST_BYTES = 500 * 2**20
"""Maximum number of bytes of the pages that a debate fetches."""
MOST_SECONDS = SECONDS
"""Maximum time that a debate waits for pages, in seconds: as long as for one slow page."""
AGE = 86_400.0
"""A page that another debate of the same user has read in the last so many seconds is not fetched again."""


@dataclass
class DebatePages:
    """The pages of one run of a debate."""

    pages: dict[str, Page] = field(default_factory=dict)
    """The pages that were read, by the ids of their pieces of evidence."""
    faults: dict[str, str] = field(default_factory=dict)
    """Why pages are not shown, by their addresses; empty for pages that are."""
    _reading: dict[str, asyncio.Task[Page | MootError]] = field(default_factory=dict)
    _at_once: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    _fetched: int = 0
    _bytes: int = 0
    _waits: int = 0
    _since: float = 0.0
    _waited: float = 0.0

    def read(
        self, url: str, replies: DebateReplies | None, *, respect_robots: bool
    ) -> asyncio.Future[Page | MootError]:
        """The page at an address, or the reason why it cannot be read; a replay reads only the store."""
        if url not in self._reading:
            self._reading[url] = asyncio.create_task(self._find_or_fetch(url, replies, respect_robots))
        # The task goes on if a search that waits for it is cut off, because another search may wait, too.
        return asyncio.shield(self._reading[url])

    async def _find_or_fetch(self, url: str, replies: DebateReplies | None, respect_robots: bool) -> Page | MootError:
        if replies is None:
            return await self._fetch(url, respect_robots)
        key, about = key_of("page", {"url": url, "respect_robots": respect_robots}), {"url": url[:200]}
        try:
            if (found := await stored(replies, key, f"the page {url[:200]}")) is not None:
                return cast(Page, found)
        except WorldError as error:
            return error
        page: Page | MootError | None = None
        if not replies.reads_anew:
            page = await replies.store.soon(replies.store.recent, key, AGE, replies.id)
        page = page or await self._fetch(url, respect_robots)
        failed = isinstance(page, MootError)
        await replies.keep(
            "page", {key: page.record("") if isinstance(page, MootError) else page}, about, failed=failed
        )
        return page

    async def _fetch(self, url: str, respect_robots: bool) -> Page | MootError:
        async with self._at_once:
            if self._fetched >= MOST_PAGES or self._bytes >= MOST_BYTES:
                return WorldError(f"the debate has read {self._fetched} pages, the maximum", kind="page_not_read")
            if (left := self._seconds_left()) <= 0:
                detail = f"the debate has waited {MOST_SECONDS:.0f} seconds for pages, the maximum"
                return WorldError(detail, kind="page_not_read")
            self._fetched += 1
            self._since = self._since if self._waits else time.monotonic()
            self._waits += 1
            try:
                page = await read_web_page(url, respect_robots=respect_robots, seconds=min(left, SECONDS))
            except MootError as error:
                if error.kind == "invalid_environment":
                    raise
                return WorldError(error.detail, kind="page_not_read")
            finally:
                self._waits -= 1
                self._waited += 0.0 if self._waits else time.monotonic() - self._since
            self._bytes += page["bytes"]
            return page

    def _seconds_left(self) -> float:
        """How long the debate may still wait for pages; pages that are read at the same time count once."""
        return MOST_SECONDS - self._waited - (time.monotonic() - self._since if self._waits else 0.0)
