"""The scripted endpoint for a benchmark. Every chat call takes the same time, and embeddings take none."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def scripted_endpoint(rules: list[dict[str, Any]], latency_ms: float, prompts: Path | None = None) -> Iterator[None]:
    """Run the endpoint with these rules, set OPENAI_BASE_URL to it, and give moot a new home folder.

    The earlier values of OPENAI_BASE_URL and MOOT_HOME are not restored when the context ends.

    Args:
        rules: the scripted replies.
        latency_ms: the duration of every chat call.
        prompts: a file for the requests, one JSON object per line; None for no file.
    """
    stub = str(Path(__file__).parents[1] / "stub_llm.py")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rules.json"
        path.write_text(json.dumps(rules))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        command = [sys.executable, stub, "--port", port, "--latency-ms", str(latency_ms), "--rules", str(path)]
        command += ["--prompts", str(prompts)] if prompts else []
        server = subprocess.Popen(command, stderr=subprocess.PIPE)
        try:
            assert server.stderr is not None
            server.stderr.readline()
            os.environ |= {"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "MOOT_HOME": folder}
            yield
        finally:
            server.terminate()
            server.wait()
