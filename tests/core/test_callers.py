"""What callers of a server may name: models behind endpoints. The table of attacks (tests/security) has the rest."""

from __future__ import annotations

import pytest
from moot.core.callers import check_embedder, serves_callers, serving_callers
from moot.core.errors import UserError
from moot.nodes._models.chat_models import open_chat_model
from moot.nodes._vendors.catalogue import check_callers_model

UNSET = ("MOOT_MODELS", "OLLAMA_BASE_URL", "OLLAMA_API_KEY", "VLLM_BASE_URL", "VLLM_API_KEY")


@pytest.fixture(autouse=True)
def no_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset the variables that list models or set up providers without a required key."""
    for name in UNSET:
        monkeypatch.delenv(name, raising=False)


def is_allowed(model: str) -> bool:
    """Whether callers may name a chat model. Encoders have the same rule."""
    try:
        check_callers_model(model)
    except UserError:
        return False
    return True


@pytest.mark.parametrize(
    ("listed", "allowed", "refused"),
    [
        ("", "openai:a fake:1 embedded:x anthropic:a", "ollama:a vllm:a bedrock_converse:a google_vertexai:a"),
        ("ollama:a, openai:b", "ollama:a openai:b fake:1 embedded:x", "ollama:b openai:a anthropic:a"),
        ("vllm:*", "vllm:a vllm:*", "openai:a ollama:a"),
        (" , ", "openai:a", "ollama:a"),
    ],
)
def test_callers_name_listed_models_or_those_of_providers_that_are_set_up(
    monkeypatch: pytest.MonkeyPatch, listed: str, allowed: str, refused: str
) -> None:
    monkeypatch.setenv("MOOT_MODELS", listed)
    names = allowed.split() + refused.split()
    with serving_callers({}):
        assert [name for name in names if is_allowed(name)] == allowed.split()
        monkeypatch.setenv("OLLAMA_BASE_URL", "http://127.0.0.1:1/v1")
        assert is_allowed("ollama:z") == (not listed.strip(" ,"))
    assert all(map(is_allowed, names))


def test_an_embedder_of_a_module_must_be_listed_as_other_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving_callers({}):
        with pytest.raises(UserError, match="'langchain:shop:letters' is not listed by this server"):
            check_embedder("langchain:shop:letters")
        monkeypatch.setenv("MOOT_LANGCHAIN_SOURCES", "shop:letters")
        check_embedder("langchain:shop:letters")


async def test_the_operators_default_models_count_as_listed_and_the_debate_checks_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not serves_callers()
    with serving_callers({"model": "ollama:usual", "embedder": "vllm:usual", "corpus": "vllm:corpus"}):
        check_callers_model("ollama:usual")
        check_embedder("vllm:usual")
        for name in ("vllm:corpus", "ollama:other"):
            with pytest.raises(UserError, match=f"does not call '{name}'"):
                await open_chat_model(name)
    with serving_callers({}, any_model=True):
        check_callers_model("bedrock_converse:a")
        monkeypatch.setenv("MOOT_MODELS", "openai:a")
        with pytest.raises(UserError, match="It calls only openai:a"):
            check_callers_model("bedrock_converse:a")
