"""Sandboxes for debates: a scripted endpoint, a home folder, and commands that run debates in processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from moot.core.store import FileStore, Reply

from tests.commands import COMMAND
from tests.conftest import CLAIM, StubEndpoint, running_stub

ROOT = Path(__file__).parents[2]
IN_PYTHON = (sys.executable, "-m", "tests.faults.in_python")
"""The start of the command line of a user's Python program, which calls a graph."""
SHELF = "langchain:tests.faults.sources:shelf"
READERS = [{"name": name, "retriever": SHELF} for name in ("rag", "search")]
SYSTEMS: dict[str, dict[str, Any]] = {
    "tool_mad": {"debaters": READERS, "max_rounds": 2},
    "proclaim": {"sources": [SHELF], "max_rounds": 2, "min_request_similarity": -1},
    "madke": {"sources": [SHELF], "max_rounds": 2},
    "cortex_debate": {"agents": 3, "max_rounds": 2, "evaluation": "self"},
    "gated": {
        "agents": [{"name": name, "retriever": SHELF} for name in ("one", "two")],
        "query_formulation": False,
        "trigger": "always",
        "debate_settings": {"debaters": READERS, "max_rounds": 2, "query_formulation": True},
    },
}
"""The settings of some systems. With these settings, debates read no index."""


def settings_of(system: str) -> dict[str, Any]:
    """The settings of a system's debate."""
    return {"embedder": "openai:stub-embedding", **SYSTEMS.get(system, {})}


def words_of(system: str, **settings: Any) -> list[str]:
    """The arguments of the command ``moot`` for a debate."""
    chosen = settings_of(system) | settings
    pairs = [part for key, value in chosen.items() for part in ("--set", f"{key}={json.dumps(value)}")]
    return ["verify", CLAIM, "--graph", system, "--model", "openai:stub", *pairs]


def stored_in(home: Path, claim: str = "") -> list[Reply]:
    """The stored replies in a home folder; with ``claim``, only those of debates whose input contains it."""
    if not (path := home / "store.sqlite").exists():
        return []
    with closing(FileStore(path)) as store:
        return [reply for run in store.runs(text=claim) for reply in store.replies(run.id).values()]


@dataclass
class Sandbox:
    """The environment of debates: an endpoint, a folder for files, and additional environment variables."""

    stub: StubEndpoint
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    process: ClassVar[Callable[..., subprocess.Popen[str]]] = subprocess.Popen
    """The function that starts processes. Tests replace it with a faster function."""

    @property
    def out(self) -> Path:
        """The path of a debate's result document."""
        return self.folder / "verdict.json"

    def start(self, *words: str, program: Sequence[str] = COMMAND, **options: Any) -> subprocess.Popen[str]:
        """Start a command of moot, or another program."""
        here = {"MOOT_HOME": str(self.folder / "home"), "OPENAI_BASE_URL": self.stub.url, "OPENAI_API_KEY": "sk-stub"}
        pipe = subprocess.PIPE
        return Sandbox.process(
            [*program, *words],
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            text=True,
            cwd=ROOT,
            env=os.environ | here | self.environment,
            **options,
        )

    def run(self, *words: str, **options: Any) -> Ended:
        """Run a command of moot, or another program, until it ends."""
        return self.end(self.start(*words, **options))

    def verify(self, system: str, *more: str, **settings: Any) -> Ended:
        """Run a debate with ``moot verify`` until it ends."""
        return self.run(*words_of(system, **settings), "--out", str(self.out), *more)

    def end(self, process: subprocess.Popen[str]) -> Ended:
        """Wait for the end of a command; return its exit code, output and document.

        The document is None if its file does not exist, and ``{"status": "cut"}`` if the file is not valid JSON.

        Raises:
            subprocess.TimeoutExpired: the command did not end within 300 seconds. It is killed.
        """
        try:
            stdout, errors = process.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        try:
            document = json.loads(self.out.read_text()) if self.out.exists() else None
        except json.JSONDecodeError:
            document = {"status": "cut"}
        return Ended(process.returncode, stdout, errors, document)

    def served(self, least: int = 0) -> int:
        """Wait for ``least`` requests, at most a second; return the number of requests that the endpoint received."""
        return int(self.stub.stats(served=least)["served"])

    def stored(self) -> list[Reply]:
        """The stored replies."""
        return stored_in(self.folder / "home")


@dataclass(frozen=True)
class Ended:
    """The exit code, the output and the document of a command that has ended."""

    code: int
    stdout: str
    errors: str
    document: dict[str, Any] | None

    @property
    def verdict(self) -> Any:
        """The status, the answer and the raw verdict of a debate."""
        document = self.document or {}
        return document.get("status"), document.get("answer"), document.get("raw_verdict")

    @property
    def error_kind(self) -> str | None:
        """The kind of the error in a debate's document; None if there is no error or no document."""
        error = (self.document or {}).get("error")
        return error["kind"] if error else None


@contextmanager
def sandbox(
    folder: Path, rules: Sequence[dict[str, Any]] = (), latency_ms: float = 0, **options: Any
) -> Iterator[Sandbox]:
    """Context manager: run an endpoint, and yield a sandbox for debates in a new folder."""
    folder.mkdir(parents=True)
    with running_stub(folder / "stub", list(rules), latency_ms, **options) as stub:
        yield Sandbox(stub, folder)
