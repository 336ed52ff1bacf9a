"""Summarisation models, which are opened by name and run in this process."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from moot.core.errors import MootError, UserError, WorldError
from moot.core.lazy import import_extra, imported
from moot.retrievers._local_models import LocalModel, check_hub, load_in_thread


class Summariser(LocalModel):
    """A transformers model that turns a text into a shorter text, such as DistilBART."""

    kind = "summarisation model"

    def __init__(self, name: str, tokenizer: Any, model: Any) -> None:
        super().__init__(name)
        self._tokenizer = tokenizer
        self._model = model

    async def summarise(self, text: str) -> str:
        """A summary, as long as the model's settings allow, of as much of the text as the model can read."""
        summary = (await self.run(self._generate, text)).strip()
        if not summary:
            raise WorldError(f"The summarisation model {self.name} returned an empty summary.", kind="bad_response")
        return summary

    def _generate(self, text: str) -> str:
        tokens = self._tokenizer([text], truncation=True, return_token_type_ids=False, return_tensors="pt")
        with imported("torch").inference_mode():
            output = self._model.generate(**tokens, do_sample=False)
        summary: str = self._tokenizer.batch_decode(output, skip_special_tokens=True)[0]
        return summary


async def open_summariser(name: str) -> Summariser:
    """The summarisation model with this name, or in this folder; the two models used last stay loaded."""
    return await load_in_thread(_load, name, "source_summaries")


@lru_cache(maxsize=2)
def _load(name: str) -> Summariser:
    try:
        check_hub(name)
        transformers = import_extra("transformers", "encoders", "A summarisation model")
        tokenizer = transformers.AutoTokenizer.from_pretrained(name)
        return Summariser(name, tokenizer, transformers.AutoModelForSeq2SeqLM.from_pretrained(name).eval())
    except MootError:
        raise
    except Exception as error:
        raise UserError(
            f"The summarisation model {name!r} cannot be loaded ({type(error).__name__}). Give the name of a "
            "transformers sequence-to-sequence model that is on this machine or can be downloaded, or a folder; or set "
            "source_summaries to model or none.",
            kind="unknown_model",
        ) from error
