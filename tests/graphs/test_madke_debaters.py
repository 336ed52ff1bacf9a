"""MADKE's debaters: their declarations, names and models."""

from __future__ import annotations

from typing import Any

import pytest
from moot.graphs.madke import MadkeSettings
from moot.nodes._models.step_record import StepRecord
from moot.nodes._runtime.node import NodeContext
from moot.nodes._speakers.turns import speaker_declaration


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ([{"name": "anna"}, {"name": "anna"}], "its own name"),
        ([{"name": "debater-2"}, {}], "its own name"),
        *(([{"name": "anna"}, {"name": role}], f"{role}") for role in ("judge", "summariser", "equivalence", "pool")),
        (1, "at least 2"),
        (0, "at least 2"),
        (-3, "at least 2"),
        (10**12, "at most 50"),
        (True, "expected a list"),
        ("3", "expected a list"),
        ([{"name": "Anna Lee"}, {}], "match pattern"),
        ([{"retriever": "bm25"}, {}], "not permitted"),
    ],
)
def test_invalid_debaters_are_refused(given: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as refused:
        MadkeSettings.model_validate({"debaters": given})
    assert "debaters" in str(refused.value)


def test_the_models_setting_accepts_only_roles_of_the_debate() -> None:
    models = {"debater-3": "fake:1", "judge": "fake:2", "summariser": "fake:3"}
    assert MadkeSettings.model_validate({"debaters": 3, "models": models}).models == models
    with pytest.raises(ValueError, match="no role 'debater-3'"):
        MadkeSettings.model_validate({"models": models})


@pytest.mark.parametrize(
    ("own", "models", "temperature", "model"),
    [
        (None, {}, 0.5, "default"),
        ("openai:own", {}, 0.5, "own"),
        ({"model": "openai:own"}, {}, 0.5, "own"),
        ({"model": "openai:own", "temperature": 0.9}, {}, 0.9, "own"),
        ({"model": "openai:own", "temperature": None}, {}, None, "own"),
        ({"model": "openai:own", "temperature": 0.9}, {"debater-1": "openai:role"}, 0.5, "role"),
    ],
)
async def test_the_models_setting_replaces_a_debaters_own_model(
    monkeypatch: pytest.MonkeyPatch, own: Any, models: dict[str, Any], temperature: float | None, model: str
) -> None:
    """A model that sets no temperature has the temperature of the debate. The debater keeps its seed."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    given = {"model": "openai:default", "debaters": [{"model": own, "seed": 3}, {}], "models": models}
    settings = MadkeSettings.model_validate(given)
    speaker = await NodeContext(settings, StepRecord()).speaker_of(speaker_declaration(settings.debaters[0]))
    chat: Any = speaker.model.chat
    assert (chat.temperature, chat.model_name, speaker.seed) == (temperature, model, 3)
