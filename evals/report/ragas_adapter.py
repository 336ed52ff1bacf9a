"""RAGAS's own faithfulness and answer relevancy (ragas 0.4, the extra ``moot[ragas]``), for whoever wants its figures.

Debates are scored by `moot.nodes.steps.score`, which computes the same shares and means. This is the reference:

    llm = ragas.llms.llm_factory("gpt-4o-mini", client=openai.AsyncOpenAI())
    await ragas_faithfulness(claim, rationale, [piece["text"] for piece in evidence], llm)

What RAGAS gives is passed on as it is, also where ours differs on purpose: without statements NaN, without evidence or
answer a `ValueError` (ours: null); for an answer that its model calls noncommittal in every question 0 (ours: the mean,
as S1 has no such term).
RAGAS reports its use to its makers unless the environment says RAGAS_DO_NOT_TRACK=true before it is first used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from moot.core.errors import UserError
from moot.retrievers import Encoder

if TYPE_CHECKING:
    from ragas.embeddings.base import BaseRagasEmbedding
    from ragas.llms.base import InstructorBaseRagasLLM


async def ragas_faithfulness(
    claim: str, rationale: str, evidence_texts: Sequence[str], llm: InstructorBaseRagasLLM
) -> float:
    """F = supported statements / statements, as RAGAS computes it (S1 III takes the score from there): two calls.

    Args:
        claim: what the rationale is about.
        rationale: the reasons of an answer.
        evidence_texts: what the answer was written from, one text a piece.
        llm: RAGAS's model, made by ``ragas.llms.llm_factory`` with an asynchronous client.

    Returns:
        A share in [0, 1]; NaN where the model lists no statement or gives no verdict.

    Raises:
        UserError: ragas is not installed.
        ValueError: claim, rationale or evidence is empty; or the model is none of RAGAS's.
        Exception: whatever else ragas or the model's client raises, unchanged.
    """
    try:
        from ragas.metrics.collections import Faithfulness
    except ModuleNotFoundError as error:
        raise _missing(error) from error

    metric = Faithfulness(llm=llm)
    result = await metric.ascore(user_input=claim, response=rationale, retrieved_contexts=list(evidence_texts))
    return float(result.value)


async def ragas_answer_relevance(
    claim: str, answer: str, llm: InstructorBaseRagasLLM, encoder: Encoder, n: int = 3
) -> float:
    """AR = mean over n questions q_i of cos(e(c), e(q_i)), as RAGAS computes it (S1 III): n calls, one after the other.

    Args:
        claim: what was asked.
        answer: the answer with its reasons.
        llm: RAGAS's model, made by ``ragas.llms.llm_factory`` with an asynchronous client.
        encoder: e(), which makes the vectors; any of ours.
        n: how many questions.

    Returns:
        A mean of cosines in [-1, 1]; 0 where the model calls the answer noncommittal in every call, or writes no
        question at all. An empty question is left out of the mean.

    Raises:
        UserError: ragas is not installed; or the encoder needs something of the caller.
        WorldError: the encoder's endpoint failed.
        ValueError: claim or answer is empty; or the model is none of RAGAS's.
        Exception: whatever else ragas or the model's client raises, unchanged.
    """
    try:
        from ragas.metrics.collections import AnswerRelevancy
    except ModuleNotFoundError as error:
        raise _missing(error) from error

    metric = AnswerRelevancy(llm=llm, embeddings=_embedding(encoder), strictness=n)
    result = await metric.ascore(user_input=claim, response=answer)
    return float(result.value)


def _embedding(encoder: Encoder) -> BaseRagasEmbedding:
    """An encoder of ours as RAGAS takes it."""
    from ragas.embeddings.base import BaseRagasEmbedding

    class EncoderEmbedding(BaseRagasEmbedding):  # type: ignore[misc,unused-ignore]  # Any where ragas is missing
        def embed_text(self, text: str, **_: Any) -> list[float]:
            raise NotImplementedError("Encoders are asynchronous: use aembed_text.")

        async def aembed_text(self, text: str, **_: Any) -> list[float]:
            return (await encoder.embed([text]))[0]

        async def aembed_texts(self, texts: list[str], **_: Any) -> list[list[float]]:
            return await encoder.embed(texts)

    return EncoderEmbedding()


def _missing(error: ModuleNotFoundError) -> UserError:
    # The extra also holds back a release of langchain-community without which ragas is there but cannot be imported.
    return UserError(
        f"RAGAS's own scores need ragas, which cannot be imported ({error}): pip install 'moot[ragas]'",
        kind="missing_package",
    )
