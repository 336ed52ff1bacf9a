"""Workers of a queue encode a corpus and store it on a Chroma server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from moot.retrievers._corpus import read_manifest

from tests.chroma_server import running_chroma
from tests.cluster.experiment import QueueExperiment, new_experiment
from tests.cluster.postgres import Server, binaries, running_postgres
from tests.commands import moot
from tests.conftest import StartStub

pytest.importorskip("procrastinate", reason="the extra `queue` is not installed")
pytestmark = pytest.mark.skipif(binaries() is None, reason="no Postgres is installed (initdb is not found)")

ENCODER = "openai:stub-embedding"
PASSAGES = 2600  # six pieces


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_postgres() as found:
        yield found


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A file with the passages of a corpus."""
    path = tmp_path / "texts.jsonl"
    lines = (json.dumps({"id": str(i), "text": f"Entry {i} of the ledger.", "source": "a"}) for i in range(PASSAGES))
    path.write_text("\n".join(lines))
    return path


def start_indexing(experiment: QueueExperiment, texts: Path, name: str) -> subprocess.Popen[bytes]:
    return experiment.command("index", texts, "--corpus", name, "--embedder", ENCODER)


def test_a_corpus_is_completed_although_a_worker_is_killed(
    server: Server, start_stub: StartStub, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The corpus has the same digest as a corpus that was indexed without a queue."""
    stub = start_stub(latency_ms=100)
    (tmp_path / "chroma").mkdir()
    with (
        running_chroma(tmp_path / "chroma") as (url, _),
        new_experiment(tmp_path / "experiment", server, stub, at_once=2) as experiment,
    ):
        monkeypatch.setenv("MOOT_CHROMA_URL", url)
        experiment.env["MOOT_CHROMA_URL"] = url
        experiment.start_worker()
        experiment.start_worker()
        indexing = start_indexing(experiment, texts, "entries")
        experiment.wait(lambda: bool(experiment.ask("SELECT 1 FROM moot.rows WHERE status = 'running'")))
        experiment.workers[0].kill()
        assert indexing.wait() == 0, (experiment.folder / "log.txt").read_text()
        shared = read_manifest("entries")
        assert experiment.ask("SELECT count(*) FROM moot.rows") == [(0,)]
        moot("index", texts, "--corpus", "alone", "--embedder", ENCODER)
        alone = read_manifest("alone")
        assert shared is not None
        assert alone is not None
        assert (shared.passages, shared.complete, shared.digest) == (PASSAGES, True, alone.digest)


def test_indexing_fails_if_its_only_worker_cannot_store_passages(
    server: Server, start_stub: StartStub, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the missing variable. The same command succeeds after another worker has started."""
    monkeypatch.delenv("MOOT_CHROMA_URL", raising=False)
    (tmp_path / "chroma").mkdir()
    with (
        running_chroma(tmp_path / "chroma") as (url, _),
        new_experiment(tmp_path / "experiment", server, start_stub()) as experiment,
    ):
        unable = experiment.start_worker()  # without MOOT_CHROMA_URL
        experiment.env["MOOT_CHROMA_URL"] = url
        assert start_indexing(experiment, texts, "entries").wait() == 3
        log = " ".join((experiment.folder / "log.txt").read_text().split())
        assert "Set MOOT_CHROMA_URL in the environment of each worker. Fix this, then run the same command again" in log
        experiment.start_worker()
        experiment.wait(lambda: experiment.ask("SELECT count(*) FROM moot.workers")[0][0] == 2)
        assert start_indexing(experiment, texts, "entries").wait() == 0
        # If the first worker took pieces, it left them to the other worker and ended with exit code 2.
        assert unable.poll() in (None, 2)


def test_indexing_with_a_queue_needs_a_chroma_server(texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOOT_CHROMA_URL", raising=False)
    done = moot("index", texts, "--corpus", "entries", "--queue", "postgresql://moot@127.0.0.1:9/moot")
    assert done.returncode == 2
    assert "set MOOT_CHROMA_URL" in done.stderr
