"""The web without a key: DuckDuckGo and other search engines, whose pages of results the package ddgs reads.

The package (https://github.com/deedy5/ddgs) belongs to the extra ``ddgs``. ``DDGS_PROXY`` sets a proxy for it.
"""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import Any

from moot.core.errors import UserError
from moot.core.lazy import imported, missing_package
from moot.retrievers._web import Source, WebResult, WebRetriever, call_within_limits

ENGINES = "duckduckgo,brave,mojeek"
"""The engines, each with an index of its own; all are asked until there are enough results.

ddgs's own choice begins with two encyclopaedias, which are no web search.
"""
SLOWEST = 15
"""Maximum number of seconds that an engine may take; the results of a slower one are left out."""
IS_INSTALLED = find_spec("ddgs") is not None
NOTHING = "No results found."
"""What ddgs says both if the engines found nothing and if they refused the search."""


class DdgsRetriever(WebRetriever):
    """Searches the web with ddgs, in a thread; the text of each result is an engine's snippet."""

    name = "ddgs"
    source = Source("DuckDuckGo (ddgs)", "https://duckduckgo.com", "")
    gives_snippets = True
    reads_operators = True
    longest_query = 400
    most_results = 20

    @classmethod
    def is_set_up(cls) -> bool:
        """Whether the package is installed."""
        return IS_INSTALLED

    @classmethod
    def not_set_up(cls) -> UserError:
        """The error that the package is not installed; blocking."""
        otherwise = "Or search `wikipedia`, which needs none."
        return missing_package(ModuleNotFoundError(name="ddgs"), "ddgs", "The source ddgs", otherwise)

    async def find(self, query: str, k: int) -> list[WebResult]:
        """The results that most engines have first."""

        async def call() -> list[dict[str, Any]]:
            return await asyncio.to_thread(self._search, query, k)

        rows = await call_within_limits(self.source, self.limits, call)
        return [WebResult(row["body"], row["title"], row["href"], row["href"]) for row in rows]

    def _search(self, query: str, k: int) -> list[dict[str, Any]]:
        """The results as ddgs returns them; blocking. Results without dates cannot be filtered by date."""
        ddgs, exceptions = imported("ddgs"), imported("ddgs.exceptions")
        seconds = max(1, min(SLOWEST, int(self.limits.timeout)))
        try:
            found: list[dict[str, Any]] = ddgs.DDGS(timeout=seconds).text(query, max_results=k, backend=ENGINES)
        except exceptions.TimeoutException as error:
            raise TimeoutError from error
        except exceptions.RatelimitException as error:
            raise self.source.failure("rate_limited", str(error)) from error
        except exceptions.DDGSException as error:
            if str(error) != NOTHING:
                raise self.source.failure("unreachable", str(error)) from error
            either = "no results: the search engines refused the search, or found nothing"
            raise self.source.failure("search_refused", either) from error
        return found
