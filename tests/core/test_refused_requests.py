"""Errors in the literal words of many providers and servers (``refused.jsonl``): what moot makes of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from moot.core.endpoint import Endpoint
from moot.core.refusals import explain_status

LINES = (Path(__file__).parent / "refused.jsonl").read_text(encoding="utf-8").splitlines()
REMEDIES = {
    "authentication": "Check OPENAI_API_KEY.",
    "quota": "Check the account's billing.",
    "unknown_model": "Check its name.",
    "too_long": "Use a model with a longer context",
}
"""The end of an error, by its kind."""


@pytest.mark.parametrize("line", [*map(json.loads, LINES)], ids=lambda line: line["who"])
def test_an_error_in_the_words_of_a_provider_has_the_right_kind_and_remedy(line: Any) -> None:
    endpoint = Endpoint("http://h/v1", "x", "OPENAI_API_KEY")
    error = explain_status(line["status"], {}, line["body"], endpoint, "openai:m")
    assert error.kind == line["kind"]
    assert REMEDIES.get(error.kind, "") in error.detail
    assert error.retryable == (error.kind in ("rate_limited", "server_error", "unparsed"))


@pytest.mark.parametrize(
    ("body", "remedy"),
    [
        ({"error": 'model "qwen3:8b" not found, try pulling it first'}, "Fetch it: ollama pull qwen3:8b"),
        ({"error": "model 'qwen3:8b' not found"}, "Fetch it: ollama pull qwen3:8b"),
        ({"message": "model 'llama3.2' not found (status code: 404)"}, "Fetch it: ollama pull qwen3:8b"),
        ("404 page not found", "Check that Ollama is at this address."),
        ({"detail": "Not Found"}, "Check that Ollama is at this address."),
    ],
)
def test_only_ollama_is_told_to_pull_a_model(body: Any, remedy: str) -> None:
    endpoint = Endpoint("http://127.0.0.1:11434", "x", "OLLAMA_API_KEY", "Ollama's")
    assert remedy in explain_status(404, {}, body, endpoint, "ollama:qwen3:8b").detail
