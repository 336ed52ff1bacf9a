"""One search of each real source on the web.

A source that needs a key is searched if its key is set. The other sources are searched if MOOT_LIVE is 1:
``MOOT_LIVE=1 SERPER_API_KEY=... pytest tests/live``.
"""

from __future__ import annotations

import os

import pytest
from moot.core.endpoint import Limits
from moot.retrievers import open_retriever
from moot.retrievers._search import ONLINE, WEB

from tests.conftest import LIVE

pytestmark = [pytest.mark.live, pytest.mark.enable_socket]


@pytest.mark.parametrize("name", ONLINE)
async def test_a_real_search_finds_evidence(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources of papers return only papers that were published before the given date."""
    variable = WEB[name].source.key_variable
    if WEB[name].needs_key and variable not in LIVE:
        pytest.skip(f"{variable} is not set")
    if not WEB[name].needs_key and os.environ.get("MOOT_LIVE") != "1":
        pytest.skip("MOOT_LIVE is not 1")
    for key, value in LIVE.items():
        monkeypatch.setenv(key, value)
    retriever = await open_retriever(name, limits=Limits(timeout=30), published_before="2024-01-01")
    found = await retriever.search("gravitational waves", 3)
    assert 1 <= len(found) <= 3
    for piece in found:
        assert piece["text"]
        assert piece["url"].startswith("http")
        if name in ("openalex", "pubmed", "arxiv"):
            assert piece["published"] < "2024"
