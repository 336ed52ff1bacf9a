"""Cross-encoders: models that read two texts together and rate how similar the texts are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from moot.core.errors import MootError, UserError, WorldError
from moot.core.lazy import import_extra
from moot.retrievers._local_models import LocalModel, check_hub, load_in_thread


class CrossScorer(LocalModel):
    """A sentence-transformers CrossEncoder that runs in this process."""

    kind = "cross-encoder"

    def __init__(self, name: str, model: Any) -> None:
        super().__init__(name)
        self._model = model

    async def compare(self, text: str, others: Sequence[str]) -> list[float]:
        """The similarity of a text to each of the other texts; WorldError if one is not a finite number."""
        similarities = await self.run(self._predict, [(text, other) for other in others])
        if not all(map(math.isfinite, similarities)):
            raise WorldError(
                f"The cross-encoder {self.name} returned a value that is not a finite number.", kind="bad_response"
            )
        return similarities

    def _predict(self, pairs: list[tuple[str, str]]) -> list[float]:
        return [float(value) for value in self._model.predict(pairs, show_progress_bar=False)]


async def open_cross_encoder(name: str) -> CrossScorer:
    """The CrossEncoder with this name or in this folder; the last four models stay loaded."""
    return await load_in_thread(_load_cross, name, "reranker or cross_encoder")


@lru_cache(maxsize=4)
def _load_cross(name: str) -> CrossScorer:
    try:
        check_hub(name)
        model = import_extra("sentence_transformers", "encoders", "A cross-encoder").CrossEncoder(name, device="cpu")
        if model.num_labels != 1:
            raise UserError(
                f"{name!r} is no cross-encoder for moot: it does not return one value for two texts.",
                kind="unknown_encoder",
            )
        return CrossScorer(name, model)
    except MootError:
        raise
    except Exception as error:
        raise UserError(
            f"The cross-encoder {name!r} cannot be loaded ({type(error).__name__}). Give the name of a "
            "sentence-transformers CrossEncoder that is on this machine or can be downloaded, or a folder.",
            kind="unknown_encoder",
        ) from error
