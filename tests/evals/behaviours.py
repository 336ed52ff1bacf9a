"""Computes a digest of each system's behaviour in scripted debates.

``python -m tests.evals.behaviours`` writes the digests of all systems to ``behaviour.jsonl``; with ``--new``, it
computes only missing digests. The model gives the same answer to the same prompt (``fake:``). The encoder hashes words,
and the sources are demo corpora. A digest covers the result of each debate, the parameters of each model, and the
prompt, the tools and the reply's schema of each request.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any
from unittest.mock import patch

from langchain_core.callbacks import AsyncCallbackHandler
from moot.evals._identity.behaviour import behaviours
from moot.evals._identity.parts import digest
from moot.graphs import DESCRIPTIONS, load_graph
from moot.nodes._models.chat_models import open_chat_model
from moot.nodes._runtime import node
from moot.retrievers._encoders import VectorCache

from tests.conftest import reading_demo

CLAIMS: list[dict[str, Any]] = [
    {"claim": "The kilogram is defined by a metal cylinder.", "claim_date": "2020-10-25", "speaker": "Ada"},
    {"claim": "Does saffron help against colds?", "task": "pubmedqa", "given": [{"text": "Saffron was given to ten."}]},
    {"claim": "Which one?", "options": ["Oxygen", "Neon", "Argon"], "task": "mmlu_pro"},
    {"claim": "Who was it?", "task": "hotpotqa"},
]
PARAMETERS = ("temperature", "max_tokens", "seed")
OUTCOME = ("status", "answer", "raw_verdict", "confidence", "stop_reason", "rounds")
DIMENSIONS = 32


class HashEncoder(VectorCache):
    """An encoder that gives the same vectors on every machine. Texts that share words have similar vectors."""

    name = "hash"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        counts = [0.0] * DIMENSIONS
        for word in text.lower().split() or [""]:
            counts[hashlib.sha256(word.encode()).digest()[0] % DIMENSIONS] += 1
        length = sum(count * count for count in counts) ** 0.5
        return [count / length for count in counts]


class RequestRecorder(AsyncCallbackHandler):
    """A callback that records the prompt, the reply's schema and the tools of each request."""

    def __init__(self) -> None:
        self.recorded: list[Any] = []

    async def on_chat_model_start(self, serialized: Any, messages: Any, **more: Any) -> None:
        asked = [[message.type, message.content] for message in messages[0]]
        parameters = more.get("invocation_params") or {}
        self.recorded.append([asked, parameters.get("extra_body"), parameters.get("tools")])


async def behaviour_of(name: str) -> str:
    """The digest of a system's behaviour.

    The digest changes if the requests to chat models change, or if the same replies lead to a different result. The
    order of the requests does not matter.
    """
    system, opened = load_graph(name), []

    async def open_and_record(model: str, **options: Any) -> Any:
        opened.append([model, *(options.get(key) for key in PARAMETERS)])
        return await open_chat_model(model, **options)

    async def open_hash_encoder(*_: Any) -> HashEncoder:
        return HashEncoder()

    sources = reading_demo(system.settings)
    behaviour: list[Any] = []
    with patch.object(node, "open_chat_model", open_and_record), patch.object(node, "open_encoder", open_hash_encoder):
        for seed in (1, 2):
            values = json.loads(json.dumps(sources).replace("chroma:demo-encyclopaedia", "bm25:demo-encyclopaedia"))
            settings = system.settings.model_validate({"model": f"fake:{seed}", **values})
            for claim in CLAIMS:
                requests = RequestRecorder()
                opened.clear()
                document = await system.graph.ainvoke(claim, context=settings, config={"callbacks": [requests]})
                outcome = [document[key] for key in OUTCOME]
                error = (document["error"] or {}).get("kind")
                behaviour.append(
                    [outcome, error, *(sorted(map(json.dumps, part)) for part in (opened, requests.recorded))]
                )
    return digest(behaviour)


def main(known: Mapping[str, str]) -> None:
    """Write the digests of all systems to ``behaviour.jsonl``.

    Args:
        known: digests that are not computed again, by system.
    """
    found = {name: known.get(name) or asyncio.run(behaviour_of(name)) for name in DESCRIPTIONS}
    lines = [json.dumps({"graph": name, "behaviour": digest}) for name, digest in found.items()]
    Path(str(resources.files("moot.evals._identity") / "behaviour.jsonl")).write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main(behaviours() if sys.argv[1:] == ["--new"] else {})
