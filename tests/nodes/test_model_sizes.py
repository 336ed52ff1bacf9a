"""The table of model sizes, and the search for a model's size by the name of the model."""

from __future__ import annotations

from moot.nodes._models.chat_models import EMBEDDED
from moot.nodes._models.sizes import entry_of, size_of

from tests.each import each


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
