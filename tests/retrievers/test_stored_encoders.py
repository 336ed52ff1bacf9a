"""A collection whose description names an encoder is refused before Chroma's client builds the encoder.

The encoder could be any model of a hub, with code that runs when it is loaded (CVE-2026-45829, CVE-2026-45833).
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from moot.core.lazy import imported
from moot.retrievers import UserError, index_passages, open_retriever

from tests.chroma_server import running_chroma

from .quick import numbered_passages

pytestmark = pytest.mark.usefixtures("empty_home", "quick_encoder")

CODE_FROM_A_HUB = {"model_name": "someone/model", "device": "cpu", "kwargs": {"trust_remote_code": True}}
ENCODER = {
    "type": "known",
    "name": "sentence_transformer",
    "config": CODE_FROM_A_HUB | {"normalize_embeddings": False},
}


@pytest.fixture
async def built(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[Any]]:
    """The configurations from which Chroma's client built an encoder during a test. There must be none."""
    configurations: list[Any] = []
    kind = imported("chromadb.utils.embedding_functions").known_embedding_functions["sentence_transformer"]
    monkeypatch.setattr(kind, "build_from_config", staticmethod(configurations.append))
    yield configurations
    assert configurations == []


async def refusals() -> list[str]:
    """The kinds of errors when the corpus `cases` is searched, and when passages are added."""
    kinds = []
    for use in (lambda: open_retriever("chroma:cases"), lambda: index_passages("cases", numbered_passages(0, 20))):
        with pytest.raises(UserError) as caught:
            await use()
        assert "names an encoder" in caught.value.detail
        kinds.append(caught.value.kind)
    return kinds


async def test_an_encoder_that_another_program_stored_on_the_server_is_not_built(
    built: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_chroma(tmp_path) as (url, _):
        monkeypatch.setenv("MOOT_CHROMA_URL", url)
        await index_passages("cases", numbered_passages(0, 10))
        collections = f"{url}/api/v2/tenants/default_tenant/databases/default_database/collections"
        with urllib.request.urlopen(f"{collections}/cases") as reply:
            stored = json.load(reply)
        urllib.request.urlopen(urllib.request.Request(f"{collections}/cases", method="DELETE")).close()
        again = {"name": "cases", "metadata": stored["metadata"], "configuration": {"embedding_function": ENCODER}}
        request = urllib.request.Request(collections, json.dumps(again).encode(), {"Content-Type": "application/json"})
        urllib.request.urlopen(request).close()
        assert await refusals() == ["damaged_corpus"] * 2


async def test_an_encoder_in_the_folder_of_a_corpus_is_not_built(built: list[Any], empty_home: Path) -> None:
    await index_passages("cases", numbered_passages(0, 10))
    settings = imported("chromadb.config").Settings(anonymized_telemetry=False)
    client = imported("chromadb").PersistentClient(str(empty_home / "corpora" / "cases" / "chroma"), settings)
    client.delete_collection("cases")
    client.create_collection("cases", configuration={"embedding_function": named_encoder()}, embedding_function=None)
    built.clear()  # Chroma also builds an encoder when it stores it
    assert await refusals() == ["damaged_corpus"] * 2


def named_encoder() -> Any:
    """An encoder of Chroma's that is stored by its name; it loads nothing."""
    kind = imported("chromadb.utils.embedding_functions").known_embedding_functions["sentence_transformer"]
    encoder = kind.__new__(kind)
    vars(encoder).update(CODE_FROM_A_HUB, normalize_embeddings=False, models={})
    return encoder
