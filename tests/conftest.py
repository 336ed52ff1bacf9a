"""Fixtures for all tests, such as scripted endpoints and a home folder.

This module also sets the order of the tests, and their distribution over the test workers.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from moot.core.endpoint import close_clients
from moot.nodes._models.contexts import forget_contexts
from moot.nodes._models.reply_limits import forget_replies
from moot.nodes._runtime.settings import Settings, SourcesSettings
from moot.nodes._speakers.debaters import DebaterSettings
from moot.nodes._speakers.gate import GateSettings

from tests.forked import AT_START, end_fork_servers

if TYPE_CHECKING:
    from tests.serving import Server

LIVE = {name: os.environ.pop(name) for name in list(os.environ) if name.endswith(("_API_KEY", "_BASE_URL"))}
"""The machine's API keys and base URLs, removed from the environment. Only tests marked live use them."""
os.environ |= {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false", "HF_HUB_OFFLINE": "1"}
# A debate without a corpus reads Wikipedia. In a process without pytest-socket, too, it must not be reached.
os.environ["WIKIPEDIA_BASE_URL"] = "http://127.0.0.1:9"
# The package ddgs is installed for its own tests; it needs no key, and must not search the web in others.
os.environ["MOOT_WEB_SEARCH"] = "searxng,tavily,serper,brave"
# The test workers share the cores: encoders with several threads would spin while they wait for a core.
os.environ["OMP_NUM_THREADS"] = "1"
# Tests that a shell script starts in the background ignore SIGINT, and so do their processes. Undo this.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline: imports make the first example slow, and machines may be busy. Each run tries other examples.
settings.register_profile("moot", deadline=None, max_examples=30)
settings.load_profile("moot")

UNSTORED_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}
"""Variables for a process on a full disk. With them, Python stores no bytecode.

An incomplete bytecode file would break later imports.
"""

STUB = Path(__file__).parent / "stub_llm.py"
SHARED = Path(__file__).parents[2] / "shared"


FIRST = (
    "frozen/test_frozen.py",
    "evals/test_recomputed.py",  # and with it all files of TOGETHER["study"]
    "retrievers/test_corpus.py",  # and with it all files of TOGETHER["encoder"]
    "web/test_api.py",  # and with it all files of TOGETHER["server"]
    "evals/test_runs.py",  # and with it all files of TOGETHER["evaluations"]
    "cli/test_batch.py",
    "cli/test_batch_kills.py",
    "web/test_browser.py",
    "web/test_table.py",
    "test_packaging.py",
    "telemetry/test_commands.py",
    "installed/test_tutorial.py",
    "evals/test_shards.py",
    "cluster/test_workers.py",
    "web/test_batches.py",
    "telemetry/test_server.py",
    "cli/test_models.py",
    "faults/test_kills.py",
    "web/test_quality.py",
    "cluster/test_cluster.py",
)
"""Files and groups that take long, longest first.

If such a file started last, its worker would run alone at the end.
"""
EARLY = ("evals", "graphs", "web", "retrievers", "cli")
"""Folders whose files take long."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests: first the files in `FIRST`, then the folders in `EARLY`, and ``nodes`` last.

    The tests of a file stay together. The tests do not start if two tests have the same id.
    """
    tests = Path(__file__).parent

    def position(item: pytest.Item) -> tuple[int, int]:
        file, folder = item.path.relative_to(tests).as_posix(), item.path.parent.name
        first = FIRST.index(file) if file in FIRST else len(FIRST)
        return first, EARLY.index(folder) if folder in EARLY else len(EARLY) + (folder == "nodes")

    items.sort(key=position)
    assert len({item.nodeid for item in items}) == len(items), "xdist runs only one of several tests with the same id"


TOGETHER = {
    "server": ("test_server.py test_server_person.py web/test_api.py web/test_checks.py web/test_guard.py"),
    "encoder": (
        "claims/test_command.py cli/test_cli.py embedded/test_embedded.py evals/test_identity.py "
        "evals/test_own_claims.py evals/test_ragas.py evals/test_ragas_parity.py graphs/test_abstaining.py "
        "graphs/test_fallback_sources.py graphs/test_origin_share.py graphs/test_domains.py graphs/test_react.py "
        "graphs/test_session.py graphs/test_sources.py graphs/test_tasks.py graphs/test_tool_mad.py "
        "nodes/test_answer_relevance.py retrievers/test_chroma_server.py retrievers/test_corpus.py "
        "retrievers/test_corpus_refusals.py retrievers/test_cross_encoder.py retrievers/test_demo.py "
        "retrievers/test_documents.py retrievers/test_encoder_cache.py retrievers/test_encoders.py "
        "retrievers/test_excerpts.py retrievers/test_fetch.py retrievers/test_hybrid.py retrievers/test_search.py "
        "test_docs_programs.py test_readme.py test_state_keys.py transcript/test_verdict.py"
    ),
    "study": (
        "evals/test_comparison.py evals/test_comparison_runs.py evals/test_findings.py evals/test_papers.py "
        "evals/test_recomputed.py evals/test_report.py evals/test_stated_tests.py"
    ),
    "evaluations": "evals/test_recovery.py evals/test_run_ceilings.py evals/test_runs.py",
}
"""Groups of files that share a resource that is slow to start, so one worker runs all files of a group.

The resources: a server; the built-in encoder (seven seconds of processor time) with the demo corpora; scipy and
statsmodels; and the process that forks evaluations.
"""
GROUP_OF_FILE = {f"tests/{file}": group for group, files in TOGETHER.items() for file in files.split()}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist loadfile``, give all files of a group in `TOGETHER` to one test worker.

    The workers share the systems of the frozen debates, which would be the longest file.
    """
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return nodeid if file.startswith("tests/frozen/") else GROUP_OF_FILE.get(file, file)

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


gc.disable()  # until all tests are imported


def pytest_collection_finish() -> None:
    """Turn on garbage collection, but rarely, because tests then take less time. `gc.freeze` exempts the modules."""
    gc.enable()
    gc.set_threshold(200_000)
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home folder for all tests of a test worker, so that the user's own folder is not changed.

    The demo corpora are built only once in the home folder.
    """
    folder = tmp_path_factory.mktemp("home")
    os.environ["MOOT_HOME"] = str(folder)
    return folder


@dataclass
class StubEndpoint:
    """A running scripted endpoint. ``url`` ends in /v1; ``folder`` has its rules and logs."""

    url: str
    folder: Path

    def calls(self) -> list[dict[str, Any]]:
        """The records of all calls that have ended, in the order of their ends."""
        return self._lines("calls.jsonl")

    def prompts(self, model: str = "") -> list[str]:
        """The prompts sent to models whose names contain ``model``, one string per request."""
        sent = [p for p in self._lines("prompts.jsonl") if model in p["model"]]
        return ["\n".join(m["content"] or "" for m in p["messages"]) for p in sent]

    def requests(self) -> list[dict[str, Any]]:
        """Every chat request, with its ``model``, ``messages``, ``seed`` and other fields."""
        return self._lines("prompts.jsonl")

    def stats(self, **least: int) -> dict[str, Any]:
        """The counters, such as ``served`` (calls that have begun) and ``logged`` (calls that have ended).

        With ``served=3``, the endpoint answers when three calls have begun, but after a second at the latest. So tests
        that wait for calls need few requests.
        """
        wanted = "&".join(f"{name}={number}" for name, number in least.items())
        with urllib.request.urlopen(f"{self.url.removesuffix('/v1')}/stub/stats?{wanted}") as reply:
            counters: dict[str, Any] = json.load(reply)
            return counters

    def _lines(self, name: str) -> list[dict[str, Any]]:
        self.stats()  # makes the endpoint write its logs to disk
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


StartStub = Callable[..., StubEndpoint]


def free_port() -> int:
    """A loopback port that no process uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@cache
def _endpoints() -> subprocess.Popen[str]:
    """The process that serves all scripted endpoints of this session. It is started once, because its start is slow."""
    command = [sys.executable, str(STUB), "--many"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _open_or_close_endpoint(order: list[str] | int) -> int:
    """Open an endpoint with these options, or close the endpoint at a port; return the port."""
    process = _endpoints()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(order) + "\n")
    process.stdin.flush()
    return int(process.stdout.readline())


@pytest.fixture(scope="session", autouse=True)
def _record_environment_and_end_processes() -> Iterator[None]:
    """Record the environment for forked processes. After the last test, end the processes that all tests share."""
    AT_START.update(os.environ)
    yield
    if _endpoints.cache_info().currsize:
        with _endpoints() as process:
            process.kill()
    end_fork_servers()


@contextmanager
def running_stub(
    folder: Path, rules: list[dict[str, Any]] | None = None, latency_ms: float = 0, **options: Any
) -> Iterator[StubEndpoint]:
    """Context manager: runs a scripted endpoint with its files in a new folder.

    ``options`` are further options of ``stub_llm.py``.
    """
    folder.mkdir()
    (folder / "rules.json").write_text(json.dumps(rules or []))
    more = [part for key, value in options.items() for part in (f"--{key.replace('_', '-')}", str(value))]
    files = {"--rules": "rules.json", "--log": "calls.jsonl", "--prompts": "prompts.jsonl"}
    of_files = [part for flag, name in files.items() for part in (flag, str(folder / name))]
    port = _open_or_close_endpoint(["--latency-ms", str(latency_ms), *more, *of_files])
    try:
        yield StubEndpoint(f"http://127.0.0.1:{port}/v1", folder)
    finally:
        _open_or_close_endpoint(port)


@pytest.fixture
def start_stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StartStub]:
    """A function that starts a scripted endpoint, and sets OPENAI_BASE_URL to its address.

    Its arguments are those of `running_stub` except the folder.
    """
    with ExitStack() as running:
        count = itertools.count()

        def start(rules: list[dict[str, Any]] | None = None, *, latency_ms: float = 0, **options: Any) -> StubEndpoint:
            folder = tmp_path / f"stub{next(count)}"
            stub = running.enter_context(running_stub(folder, rules, latency_ms, **options))
            monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
            return stub

        yield start


@pytest.fixture(autouse=True)
def _fail_if_the_server_is_imported() -> Iterator[None]:
    """Fail a test that imports langgraph_api. In all later tests, moot would treat this process as a server."""
    before = "langgraph_api" in sys.modules
    yield
    assert before or "langgraph_api" not in sys.modules, "this test imported langgraph_api: run it in a new process"


@pytest.fixture(autouse=True)
def _leave_no_trace() -> Iterator[None]:
    """Undo what a test, or a command in its process, changed: variables, paths, and what moot learnt."""
    before, path = dict(os.environ), list(sys.path)
    yield
    sys.path[:] = path  # a source of LangChain's adds the current folder
    if os.environ != before:
        os.environ.clear()
        os.environ.update(before)
    forget_contexts()
    forget_replies()


@pytest.fixture(autouse=True)
async def _close_clients() -> AsyncIterator[None]:
    """Close the HTTP clients that a test has opened in its event loop."""
    yield
    await close_clients()


ROLES = ("rag", "search", "scorer", "judge")
MODELS = {role: f"openai:stub-{role}" for role in ROLES}
"""A model name for each role of Tool-MAD, so that a rule can match one role."""

DEMO = ("chroma:demo-encyclopaedia", "bm25:demo-news")
"""The demo corpora. Debates on a user's own model read them only if the settings name them."""
READERS = [{"name": name, "retriever": source} for name, source in zip(ROLES, DEMO, strict=False)]
"""Tool-MAD's debaters. Each reads one demo corpus."""


def reading_demo(settings: type[Settings]) -> dict[str, Any]:
    """The settings with which a debate system reads the demo corpora; empty if the system reads no sources."""
    if issubclass(settings, DebaterSettings):
        return {"debaters": READERS}
    if issubclass(settings, GateSettings):
        agents = [{"name": f"reader-{i}", "retriever": name} for i, name in enumerate([*DEMO, DEMO[0]], 1)]
        return {"agents": agents, "debate_settings": {"debaters": READERS}}
    return {"sources": DEMO} if issubclass(settings, SourcesSettings) else {}


def says(role: str, answer: str, times: int | None = None, **fields: Any) -> dict[str, Any]:
    """A rule for a debater or the judge: its model gives this answer, at most ``times`` times (None: always).

    The rule does not apply to prompts that ask for queries. ``fields`` are further fields of the reply.
    """
    rule = {"model": f"stub-{role}$", "match": "your `answer`", "fields": {"answer": answer, "citations": [], **fields}}
    return rule | ({"times": times} if times else {})


def supports(supported: list[bool], topic: str = "") -> list[dict[str, Any]]:
    """A list with one rule, for the scorer.

    Args:
        supported: for each statement of the scored text, whether it is supported.
        topic: the topic of the scorer's three questions. If it is empty, the rule sets no questions.
    """
    verdicts = [{"index": i, "reason": "stated", "supported": found} for i, found in enumerate(supported)]
    fields = {"statements": [f"Statement {i}." for i in range(len(supported))], "verdicts": verdicts}
    questions = {"questions": [f"Is it true that {topic}?"] * 3} if topic else {}
    return [{"model": "stub-scorer", "fields": fields | questions}]


CLAIM = "The platypus is a mammal that lays eggs."


@pytest.fixture
def sockets_of_mcp() -> Iterator[None]:
    """For tests with a client of MCP over HTTP, which may end without having closed all its connections.

    They are collected here: otherwise they would be the fault of the test that runs when Python collects them.
    """
    yield
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real ``langgraph dev`` with a scripted endpoint, shared by all tests of a test worker.

    Its home folder has no corpora at first.
    """
    from tests.serving import langgraph_dev

    folder = tmp_path_factory.mktemp("server")
    slow = {"model": "stub-slow", "delay_ms": 600_000}
    with running_stub(
        folder / "stub", [slow, says("rag", "SUPPORTS"), says("search", "SUPPORTS"), *supports([True, True], CLAIM)]
    ) as stub:
        yield from langgraph_dev(folder / "server", stub)
