"""Faithfulness and answer relevancy as RAGAS itself computes them, to compare results with those of other work.

The extra ``moot[ragas]`` installs the package ragas, version 0.4. Debates score their answers by
`moot.nodes._steps.score`, which computes the same shares and means. The functions here call RAGAS itself.
`ragas_faithfulness` and `ragas_answer_relevance` score a single answer:

    llm = ragas.llms.llm_factory("gpt-4o-mini", client=openai.AsyncOpenAI())
    await ragas_faithfulness(claim, rationale, [piece["text"] for piece in evidence], llm)

Both return RAGAS's results unchanged. Moot's own scores differ on purpose in these cases:

- Without statements, RAGAS returns NaN; without evidence or answer, it raises a `ValueError`. Moot's score is null.
- If RAGAS's model calls the answer noncommittal in every call that writes a question, RAGAS returns 0. Moot's score is
  the mean, because Tool-MAD has no such rule.
- If the model writes no question, RAGAS returns 0. Moot's score is null.

The other functions are for the command `moot eval ragas`, which scores the verdicts in logs. In the command's tables,
the first and the third case are missing data. A noncommittal answer has RAGAS's 0.

RAGAS sends data about its use to its makers. To prevent this, set the environment variable RAGAS_DO_NOT_TRACK to
``true`` before RAGAS is first used.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moot.core.endpoint import Endpoint, Limits, sdk_options
from moot.core.errors import MootError, ReplyError, UserError
from moot.core.lazy import imported, install_step
from moot.core.limiter import limiter, with_retries
from moot.core.refusals import explain
from moot.evals._runs.log_files import UNREADABLE, find_logs, read_headers, without_superseded
from moot.evals._runs.logs import checked_document, damaged_error, samples_in
from moot.evals._stats.outcomes import Document
from moot.nodes._models.chat_models import open_chat_model
from moot.nodes._runtime.document import check_schema
from moot.nodes._texts.task import full_answer
from moot.nodes._texts.thoughts import without_thoughts
from moot.nodes._texts.verdict import MOST_REASONS, turns_by_reason, verdict_turns
from moot.retrievers import open_encoder
from moot.retrievers._encoders import Encoder
from moot.retrievers._evidence import clean
from moot.retrievers._excerpts import shown_text

if TYPE_CHECKING:
    from ragas.embeddings.base import BaseRagasEmbedding
    from ragas.llms.base import InstructorBaseRagasLLM

METRICS = {"faithfulness": "faithfulness", "answer_relevancy": "answer relevancy"}
"""The keys of the metrics, with the names of the metrics in tables."""
RAGAS_FIELDS = (
    *("status", "error", "graph", "claim", "task", "answer", "raw_verdict", "stop_reason", "rounds", "turns", "votes"),
    "evidence",
)
"""Fields of result documents that this module reads."""
LONGEST_REPLY = 4096
"""Maximum number of tokens of a reply. RAGAS's default of 1,024 would cut off the judgements of a long answer."""
TIMEOUT = 120.0
"""Seconds that a request may take."""
MOST_FAILURES = 10
"""Number of failed metrics in a row after which the measurement stops. Unusable replies do not count."""


async def ragas_faithfulness(
    claim: str, rationale: str, evidence_texts: Sequence[str], llm: InstructorBaseRagasLLM
) -> float:
    """Compute RAGAS's faithfulness: supported statements / statements (Tool-MAD, second version, section III). Returns
    a share in [0, 1]; NaN if the model lists no statement or gives no verdict.
    """
    check_installed()
    from ragas.metrics.collections import Faithfulness

    metric = Faithfulness(llm=llm)
    result = await metric.ascore(user_input=claim, response=rationale, retrieved_contexts=list(evidence_texts))
    return float(result.value)


async def ragas_answer_relevance(
    claim: str, answer: str, llm: InstructorBaseRagasLLM, encoder: Encoder, n: int = 3
) -> float:
    """Compute RAGAS's answer relevancy: the mean cosine of the claim and n questions (Tool-MAD, section III). NaN if a
    vector is zero.
    """
    check_installed()
    from ragas.metrics.collections import AnswerRelevancy

    metric = AnswerRelevancy(llm=llm, embeddings=_wrap_encoder(encoder), strictness=n)
    result = await metric.ascore(user_input=claim, response=answer)
    return float(result.value)


def _wrap_encoder(encoder: Encoder) -> BaseRagasEmbedding:
    """Wrap one of moot's encoders for RAGAS."""
    from ragas.embeddings.base import BaseRagasEmbedding

    class EncoderEmbedding(BaseRagasEmbedding):  # type: ignore[misc,unused-ignore]  # the base is Any without ragas
        def embed_text(self, text: str, **_: Any) -> list[float]:
            raise NotImplementedError("Encoders are asynchronous: use aembed_text.")

        async def aembed_text(self, text: str, **_: Any) -> list[float]:
            return (await encoder.embed([text]))[0]

        async def aembed_texts(self, texts: list[str], **_: Any) -> list[list[float]]:
            return await encoder.embed(texts)

    return EncoderEmbedding()


# --- over logs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AnsweredSample:
    """A sample's verdict as input for RAGAS."""

    system: str
    """The system's label, or the name of its graph if there is no label."""
    benchmark: str
    """The name of the benchmark; empty for a result document outside a log."""
    model: str | None
    """The system's model; None if there are several, or if it is unknown."""
    seed: int | None
    """The seed of the run; None if no seed was set, or if it is unknown."""
    file: str
    """The name of the file that the sample was read from."""
    id: str
    """The item's id; for a result document outside a log, the file's name without its ending."""
    claim: str
    """The claim or question; empty if there is no result document."""
    response: str
    """The verdict's answer with its reasons; empty if there is no verdict."""
    contexts: tuple[str, ...]
    """The texts of the evidence that was shown in the turns on which the verdict is based; empty if there is no
    verdict."""
    fault: str
    """Why there is no verdict; empty if there is one."""


@dataclass(frozen=True)
class MetricValue:
    """A sample's value of a metric.

    If ``value`` is None, ``reason`` says why, and ``failed`` says whether a call failed.
    """

    value: float | None
    reason: str = ""
    failed: bool = False


def read_answers(path: Path, limit: int | None = None) -> tuple[list[AnsweredSample], list[str]]:
    """Read the verdicts in a log, a folder of logs, or a result document."""
    if (document := _document_at(path)) is not None:
        known = _check_document(document, str(path))
        return [_make_sample(known, system=known["graph"], file=path.name, id=path.stem)], []
    headers, notes = read_headers(find_logs([path]))
    headers, left_out = without_superseded(headers)
    found: list[AnsweredSample] = []
    for header in headers:
        metadata, place = header.metadata, ""
        source = {
            "system": header.label or clean(str(metadata.get("graph") or "unknown system")),
            "benchmark": str(metadata["benchmark"]),
            "model": metadata.get("model"),
            "seed": metadata.get("seed"),
            "file": clean(header.path.name),
        }
        try:
            for sample, found_document in islice(samples_in(header), limit):
                place = f"{header.path}, sample {clean(str(sample.id))[:80]}"
                document = None if found_document is None else _check_document(found_document, place)
                fault = clean(str(sample.error.message)) if sample.error else "it did not finish"
                found.append(_make_sample(document, fault, id=clean(str(sample.id)), **source))
        except (*UNREADABLE, TypeError, AttributeError) as error:
            raise damaged_error(place or str(header.path), error) from error
    if not found:
        reasons = " ".join([*notes, *left_out]) or "There is no log in it."
        raise UserError(f"{path} contains no sample of a debate system. {reasons}", kind="missing_file")
    return found, [*notes, *left_out]


def _document_at(path: Path) -> Any:
    """The result document in a file; None if the file contains no result document."""
    if path.suffix != ".json" or not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and "turns" in content and "claim" in content else None


def _check_document(document: Any, place: str) -> Document:
    try:
        check_schema(document)
        return checked_document(document, RAGAS_FIELDS)
    except (LookupError, TypeError, ValueError) as error:
        raise damaged_error(place, error) from error


def _make_sample(document: Document | None, fault: str = "", **source: Any) -> AnsweredSample:
    """Make a sample from its result document; if there is no document, ``fault`` says why."""
    unknown: dict[str, Any] = {"benchmark": "", "model": None, "seed": None}
    if document is None:
        return AnsweredSample(
            **{**unknown, **source}, claim="", response="", contexts=(), fault=fault or "it has no document"
        )
    if document["error"]:
        fault = f"the debate failed: {document['error']['detail']}"
    elif document["status"] != "done":
        fault = f"the debate is {document['status']}"
    elif document["answer"] is None:
        fault = f"no verdict ({document['stop_reason']})"
    else:
        fault = ""
    if fault:
        return AnsweredSample(**{**unknown, **source}, claim=document["claim"], response="", contexts=(), fault=fault)
    plain_document = dict(document)
    shown = {id for turn in verdict_turns(plain_document) for id in turn.get("evidence_ids") or ()}
    reasons = [*turns_by_reason(plain_document)][:MOST_REASONS]
    return AnsweredSample(
        **{**unknown, **source},
        claim=document["claim"],
        response="\n".join([full_answer(document["task"], document["answer"]), *reasons]),
        contexts=tuple(shown_text(piece) for piece in document["evidence"] if piece["id"] in shown),
        fault="",
    )


async def measure(
    samples: Sequence[AnsweredSample],
    model: str,
    embedder: str,
    at_once: int,
    done: Callable[[int, dict[str, MetricValue]], None],
) -> None:
    """Compute both metrics of every sample.

    If a metric of a sample fails, only this value is missing. But an error that would affect other samples ends the
    measurement, as do `MOST_FAILURES` failed metrics in a row.
    """
    limits, gate, failures = Limits(timeout=TIMEOUT, max_concurrency=at_once), asyncio.Semaphore(at_once), 0

    async def compute_metric(metric: Awaitable[float]) -> MetricValue:
        nonlocal failures
        try:
            value = await metric
        except MootError as error:
            failures += not isinstance(error, ReplyError)
            affects_one_sample = (
                isinstance(error, ReplyError) or error.kind in ("bad_request", "too_long") or error.retryable
            )
            if not affects_one_sample or error.kind == "unreachable" or failures >= MOST_FAILURES:
                raise
            return MetricValue(None, error.detail, failed=True)
        failures = 0
        return MetricValue(None, "RAGAS found nothing to judge") if math.isnan(value) else MetricValue(value)

    async def measure_sample(index: int, sample: AnsweredSample, llm: InstructorBaseRagasLLM, encoder: Encoder) -> None:
        async with gate:
            if sample.fault:
                faithful = relevant = MetricValue(None, sample.fault)
            else:
                relevant = await compute_metric(_answer_relevancy(sample, llm, encoder))
                faithful = MetricValue(None, "no evidence")
                if sample.contexts:
                    metric = ragas_faithfulness(sample.claim, sample.response, sample.contexts, llm)
                    faithful = await compute_metric(metric)
            done(index, {"faithfulness": faithful, "answer_relevancy": relevant})

    encoder = await open_encoder(embedder, limits)
    async with _open_model(model, limits) as llm:
        tasks = [asyncio.ensure_future(measure_sample(n, sample, llm, encoder)) for n, sample in enumerate(samples)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _answer_relevancy(sample: AnsweredSample, llm: InstructorBaseRagasLLM, encoder: Encoder) -> float:
    """RAGAS's answer relevancy; if the model wrote no question, NaN in place of RAGAS's 0."""
    counting = _CountingEncoder(encoder)
    value = await ragas_answer_relevance(sample.claim, sample.response, llm, counting)
    return value if counting.texts else math.nan


class _CountingEncoder:
    """An encoder that counts the texts that it encodes."""

    def __init__(self, encoder: Encoder) -> None:
        self.name = encoder.name
        self.encoder = encoder
        self.texts = 0

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.texts += len(texts)
        return await self.encoder.embed(texts)

    def remember(self, texts: Sequence[str], vectors: Sequence[list[float]]) -> None:
        self.encoder.remember(texts, vectors)


@asynccontextmanager
async def _open_model(name: str, limits: Limits) -> AsyncIterator[InstructorBaseRagasLLM]:
    """Open RAGAS's model at one of moot's endpoints, with moot's retries, limits and errors."""
    chosen = await open_chat_model(name)
    if name.startswith("fake:"):
        raise UserError("RAGAS needs a real model: fake:SEED answers at random.", kind="unknown_model")
    check_installed()
    from ragas.llms import llm_factory
    from ragas.llms.base import InstructorBaseRagasLLM

    model, gate = name.partition(":")[2], limiter(chosen.endpoint.base_url)
    client = imported("openai").AsyncOpenAI(**await sdk_options(chosen.endpoint, limits.timeout))
    # if RAGAS cannot parse a reply, it tells the model the reason and asks once more, unless the reply was cut off
    plain: Any = llm_factory(model, client=client, max_tokens=LONGEST_REPLY, max_retries=1)
    plain.client.on("completion:response", _remove_thoughts)

    class LimitedLLM(InstructorBaseRagasLLM):  # type: ignore[misc,unused-ignore]  # the base is Any without ragas
        def generate(self, prompt: str, response_model: Any) -> Any:
            raise NotImplementedError("Use agenerate.")

        async def agenerate(self, prompt: str, response_model: Any) -> Any:
            async def attempt() -> Any:
                try:
                    async with asyncio.timeout(limits.timeout):
                        return await plain.agenerate(prompt, response_model)
                except Exception as error:
                    raise _convert_error(error, chosen.endpoint, name) from error

            return (await with_retries(attempt, limits, gate, name))[0]

    yield LimitedLLM()


def _remove_thoughts(response: Any) -> None:
    """Remove the model's thoughts from a chat completion, before RAGAS parses it."""
    for choice in response.choices:
        choice.message.content = without_thoughts(choice.message.content or "")


def _convert_error(error: Exception, endpoint: Endpoint, model: str) -> MootError:
    """Convert an exception of RAGAS's model to one of moot's errors."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, imported("openai").APIError | TimeoutError):
            return explain(cause, endpoint, model)
        cause = cause.__cause__
    is_cut = type(error).__name__ == "IncompleteOutputException"
    reason = "was cut off at the limit of its length" if is_cut else "is not in the form that RAGAS asks for"
    reply_error = ReplyError(
        f"RAGAS cannot read a reply of {model}: the reply {reason}.", "cut" if is_cut else "unparsed"
    )
    reply_error.retryable = False  # RAGAS has already repeated the call, unless the reply was cut off
    return reply_error


def check_installed() -> None:
    """Check that RAGAS can be imported."""
    try:
        imported("ragas.metrics.collections")
    except ImportError as error:
        # the extra also excludes a version of langchain-community with which ragas cannot be imported
        raise UserError(
            f"RAGAS's own scores need ragas, which cannot be imported ({error}): {install_step('ragas')}",
            kind="missing_package",
        ) from error
