"""Summarisation models in this process, by name."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

from moot.core.errors import UserError, WorldError
from moot.core.lazy import imported
from moot.retrievers.encoders import check_hub, loading
from moot.retrievers.listed import check_model


class Summariser:
    """A transformers model that turns a text into a shorter one, e.g. DistilBART."""

    def __init__(self, name: str, tokenizer: Any, model: Any) -> None:
        self.name = name
        self._tokenizer = tokenizer
        self._model = model
        self._worker = ThreadPoolExecutor(1, "summariser")

    async def summarise(self, text: str) -> str:
        """The text's summary, as long as the model makes it; of a long text what the model can read.

        Raises:
            WorldError: the model gave nothing, or failed.
        """
        try:
            summary = await asyncio.get_running_loop().run_in_executor(self._worker, self._generate, text)
        except (RuntimeError, ValueError, IndexError) as error:
            problem = f"The summarisation model {self.name} failed ({type(error).__name__}: {error})."
            raise WorldError(problem, kind="bad_response") from error
        if not summary.strip():
            raise WorldError(f"The summarisation model {self.name} gave an empty summary.", kind="bad_response")
        return summary.strip()

    def _generate(self, text: str) -> str:
        tokens = self._tokenizer([text], truncation=True, return_token_type_ids=False, return_tensors="pt")
        with imported("torch").inference_mode():
            made = self._model.generate(**tokens, do_sample=False)
        summary: str = self._tokenizer.batch_decode(made, skip_special_tokens=True)[0]
        return summary


async def open_summariser(name: str) -> Summariser:
    """The summarisation model of that name (or in that folder), loaded once per process.

    Raises:
        UserError: it cannot be loaded, or a server does not list it.
    """
    check_model(name, "source_summaries")

    def load() -> Summariser:
        with loading:
            return _load(name)

    return await asyncio.to_thread(load)


@lru_cache(maxsize=2)
def _load(name: str) -> Summariser:
    try:
        if not Path(name).exists():
            check_hub(name)
        transformers = imported("transformers")
        tokenizer = transformers.AutoTokenizer.from_pretrained(name)
        return Summariser(name, tokenizer, transformers.AutoModelForSeq2SeqLM.from_pretrained(name).eval())
    except Exception as error:
        raise UserError(
            f"The summarisation model {name!r} cannot be loaded ({type(error).__name__}). Give the name of a "
            "transformers sequence-to-sequence model that is on this machine or can be downloaded, or a folder; or set "
            "source_summaries to model or none.",
            kind="unknown_model",
        ) from error
