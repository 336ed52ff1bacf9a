"""Cross-encoders: models that read two texts together and rate their likeness."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

from moot.core.errors import UserError, WorldError
from moot.core.lazy import imported
from moot.retrievers.encoders import check_hub, loading
from moot.retrievers.listed import check_model


class CrossScorer:
    """A sentence-transformers CrossEncoder in this process: it reads two texts together and rates their likeness."""

    def __init__(self, name: str, model: Any) -> None:
        self.name = name
        self._model = model
        self._worker = ThreadPoolExecutor(1, "cross-encoder")

    async def compare(self, text: str, others: Sequence[str]) -> list[float]:
        """How alike a text is to each of the others.

        Raises:
            WorldError: the model failed, or gave a value that is no finite number.
        """
        loop = asyncio.get_running_loop()
        try:
            rated = await loop.run_in_executor(self._worker, self._predict, [(text, other) for other in others])
        except (RuntimeError, ValueError, IndexError) as error:
            problem = f"The cross-encoder {self.name} failed ({type(error).__name__}: {error})."
            raise WorldError(problem, kind="bad_response") from error
        if not all(map(math.isfinite, rated)):
            raise WorldError(f"The cross-encoder {self.name} gave a value that is no number.", kind="bad_response")
        return rated

    def _predict(self, pairs: list[tuple[str, str]]) -> list[float]:
        return [float(value) for value in self._model.predict(pairs, show_progress_bar=False)]


async def open_cross_encoder(name: str) -> CrossScorer:
    """The CrossEncoder of that name (or in that folder), loaded once per process.

    Raises:
        UserError: it cannot be loaded, or a server does not list it.
    """

    check_model(name, "reranker or cross_encoder")

    def load() -> CrossScorer:
        with loading:
            return _load_cross(name)

    return await asyncio.to_thread(load)


@lru_cache(maxsize=4)
def _load_cross(name: str) -> CrossScorer:
    kind = imported("sentence_transformers").CrossEncoder
    try:
        if not Path(name).exists():
            check_hub(name)
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
