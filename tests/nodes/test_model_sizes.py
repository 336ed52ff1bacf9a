"""The table of model sizes, and the search for a model's size by the name of the model."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hypothesis import given
from hypothesis import strategies as st
from moot.nodes._cortex.debating_graph import credibilities
from moot.nodes._models.chat_models import EMBEDDED
from moot.nodes._models.sizes import BY_NAME, ENTRIES, Size, entry_of, fold_name, size_of

from tests.each import each

FIELDS = {"family", "names", "parameters", "tokens", "source"}
LINES = (Path(__file__).parents[2] / "nodes" / "_models" / "model_sizes.jsonl").read_text(encoding="utf-8").splitlines()


@each("line", LINES)
def test_every_line_of_the_table_is_valid(line: str) -> None:
    entry: dict[str, Any] = json.loads(line)
    assert FIELDS <= set(entry) <= FIELDS | {"note", "context"}
    assert entry["family"]
    assert entry["names"]
    assert all(isinstance(n, str) and n == n.strip() and " " not in n for n in entry["names"])
    assert 1e7 < entry["parameters"] < 1e13  # plain counts, not billions
    assert entry["tokens"] is None or 1e11 <= entry["tokens"] < 1e14
    source = urlsplit(entry["source"])
    assert source.scheme == "https"
    assert source.netloc
    assert source.path.strip("/")
    assert entry.get("note") != ""


def test_no_name_occurs_twice_in_the_table() -> None:
    names = [fold_name(name) for entry in ENTRIES for name in entry["names"]]
    assert len(names) == len(set(names)) == len(BY_NAME)


@each("entry", ENTRIES)
def test_each_name_in_the_table_leads_to_its_entry(entry: Any) -> None:
    """A provider's prefix, capital letters and the suffix of a variant make no difference."""
    for name in entry["names"]:
        for setting in (name, f"openai:{name}", f"vllm:{name.upper()}", *([f"ollama:{name}"] if ":" in name else [])):
            assert entry_of(setting) == entry
        if not name.endswith(":latest"):
            suffixes = (
                "-instruct",
                "-chat-hf",
                "-it",
                "-instruct-q4_K_M",
                "-q8_0",
                "-Instruct-AWQ",
                "-instruct-v0.2-fp16",
            )
            assert all(entry_of(f"openai:{name}{suffix}") == entry for suffix in suffixes)


@each(
    ("model", "size"),
    [
        ("openai:Qwen/Qwen2.5-7B-Instruct", (7.61e9, 18e12)),
        ("ollama:llama3.2", (3.21e9, 9e12)),
        ("ollama:llama3.2:1b-instruct-fp16", (1.23e9, 9e12)),
        ("vllm:meta-llama/Llama-3.1-8B-Instruct", (8e9, 15e12)),
        ("vllm:meta-llama/Llama-3.1-405B-Instruct-FP8", (405e9, 15.6e12)),
        (EMBEDDED, (135e6, 2e12)),
        ("ollama:llama3", (8e9, 15e12)),
        ("ollama:llama3:instruct", (8e9, 15e12)),
        ("ollama:llama3:70b-instruct-q4_0", (70e9, 15e12)),
        ("openai:llama3.1:8b", (8e9, 15e12)),
        ("ollama:library/gemma2:27b", (27.23e9, 13e12)),
        ("ollama:qwen:7b", (7e9, 4e12)),  # this is Qwen1.5; the next row is Qwen
        ("vllm:Qwen/Qwen-7B-Chat", (7e9, 2.4e12)),
        ("ollama:deepseek-v2", (15.7e9, 5.7e12)),  # this is DeepSeek-V2-Lite; the next row is DeepSeek-V2
        ("vllm:deepseek-ai/DeepSeek-V2", (236e9, 8.1e12)),
        ("ollama:hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M", (3.21e9, 9e12)),
        ("openai:meta-llama/llama-3.3-70b-instruct:free", (70e9, 15e12)),
        ("openai:/models/Llama-3.1-8B-Instruct.Q4_K_M.gguf", (8e9, 15e12)),
        ("ollama:mistral", (7.3e9, None)),
        ("openai:mistralai/Mixtral-8x7B-Instruct-v0.1", (46.7e9, None)),
    ],
)
def test_the_size_of_a_model_is_found_by_its_name(model: str, size: tuple[float, float | None]) -> None:
    assert size_of(model) == size


@each(
    ("one", "other"),
    [
        ("ollama:llama3.1:8b", "ollama:llama3:8b"),
        ("ollama:qwen2.5:72b", "ollama:qwen2.5:7b"),
        ("ollama:qwen2.5:7b", "ollama:qwen2:7b"),
        ("vllm:google/gemma-2-2b-it", "vllm:google/gemma-2b-it"),
        ("vllm:HuggingFaceTB/SmolLM2-135M", "vllm:HuggingFaceTB/SmolLM-135M"),
        ("vllm:microsoft/phi-4", "vllm:microsoft/Phi-4-mini-instruct"),
        ("vllm:lmsys/vicuna-7b-v1.5", "vllm:lmsys/vicuna-7b-v1.3"),
    ],
)
def test_models_of_one_family_are_distinguished(one: str, other: str) -> None:
    first, second = entry_of(one), entry_of(other)
    assert first
    assert second
    assert first != second


@each(
    "model",
    [
        *("openai:gpt-4o-mini", "fake:1", "openai:", "", ":", "ollama:", "7b", "llama", "instruct", "openai:-instruct"),
        *(
            "ollama:llama3.1:7b",
            "ollama:llama3.2-vision",
            "ollama:qwen2.5-coder:7b",
            "ollama:qwen3:30b-a3b-thinking-2507",
        ),
        *("vllm:Qwen/Qwen2.5-7B-Instruct-1M", "vllm:Qwen/Qwen2.5-VL-7B-Instruct", "openai:qwen2.5-turbo"),
        *("ollama:deepseek-r1", "ollama:deepseek-r1:latest", "openai:deepseek-r1:latest", "ollama:deepseek-r1:7b"),
        *("vllm:deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "vllm:deepseek-ai/DeepSeek-V3.1"),
        *("vllm:lmsys/vicuna-7b-v1.1", "ollama:somebody/llama3.2", "openai:my-llama-3.1-8b", "openai:Qwen2.5-Instruct"),
    ],
)
def test_a_name_that_fits_no_entry_of_the_table_gives_no_size(model: str) -> None:
    assert size_of(model) is None


def test_the_models_of_the_cortex_debate_paper_are_in_the_table() -> None:
    """The numbers of training tokens of two of these models are unknown, so all credibilities are 1."""
    agents = {
        "Qwen": "openai:Qwen-2.5-7B-Instruct-Turbo",
        "Mistral": "openai:Mistral-7B-Instruct",
        "Typhoon": "openai:Typhoon-1.5-8B-Instruct",
        "Llama": "openai:Llama-3.1-8B-Instruct-Turbo",
        "Gemma": "openai:Gemma-2-9B-Instruct",
    }
    found = {agent: entry_of(model) for agent, model in agents.items()}
    assert all(entry and "CortexDebate" in entry.get("note", "") for entry in found.values())
    values, unknown = credibilities({agent: size_of(model) for agent, model in agents.items()})
    assert unknown == ["Mistral", "Typhoon"]
    assert set(values.values()) == {1.0}


def test_notes_in_the_table_mark_mixtures_of_experts() -> None:
    """This test recognises mixtures of experts by parts of their names."""
    mixtures = [e for e in ENTRIES if any(mark in e["names"][0].lower() for mark in ("8x", "moe", "-a3b", "17b-16e"))]
    assert len(mixtures) >= 5
    assert all("mixture of experts" in e.get("note", "") for e in mixtures)


def test_the_credibility_of_the_embedded_model_follows_from_its_size() -> None:
    size = size_of(EMBEDDED)
    assert isinstance(size, Size)
    assert size.tokens is not None
    assert math.isclose(credibilities({"a": size})[0]["a"], 0.39418, abs_tol=5e-6)


@given(st.text(max_size=60))
def test_any_text_gives_none_or_a_size_from_the_table(text: str) -> None:
    assert size_of(text) is None or size_of(text) in {(e["parameters"], e["tokens"]) for e in ENTRIES}
