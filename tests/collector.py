"""A local server with a part of LangSmith's API. It stores the runs and scores that the client uploads."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import zstandard
from requests_toolbelt import MultipartDecoder  # type: ignore[import-untyped]

PROJECT = "00000000-0000-4000-8000-000000000001"
"""The id that every project gets."""


class Collector(ThreadingHTTPServer):
    """The server, with the uploads that it has received.

    ``runs`` has the runs by id, ``feedback`` the scores, and ``raw`` the decompressed bodies of multipart uploads.
    ``posted`` has the last body that was sent to each other path.

    Args:
        mute: whether uploads are neither stored nor answered.
    """

    daemon_threads = True

    def __init__(self, *, mute: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.mute = mute
        self.ending = threading.Event()
        self.raw: list[bytes] = []
        self.posted: dict[str, Any] = {}
        self.encodings: set[str] = set()
        self.runs: dict[str, dict[str, Any]] = {}
        self.feedback: list[dict[str, Any]] = []
        self.received = threading.Condition()

    @property
    def url(self) -> str:
        """The server's address, for LANGSMITH_ENDPOINT."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that make a process send its traces here."""
        key = {"LANGSMITH_ENDPOINT": self.url, "LANGSMITH_API_KEY": "lsv2_pt_of_nobody", "LANGSMITH_PROJECT": "p"}
        return key | dict.fromkeys(("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"), "true")

    def take(self, headers: Mapping[str, str], body: bytes) -> None:
        """Store a multipart upload.

        Its parts are named ``post.ID``, ``patch.ID`` or ``feedback.ID``; a part with one field of a run has a name such
        as ``patch.ID.outputs``.
        """
        encoding = headers.get("Content-Encoding", "identity")
        if encoding == "zstd":
            body = zstandard.ZstdDecompressor().decompressobj().decompress(body)
        with self.received:
            self.encodings.add(encoding)
            self.raw.append(body)
            for part in MultipartDecoder(body, headers["Content-Type"]).parts:
                name = part.headers[b"Content-Disposition"].decode().split('name="')[1].split('"')[0]
                self._store_part(*name.split("."), given=json.loads(part.content))
            self.received.notify_all()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until a run was received and the condition holds; fail after 120 seconds.

        The condition is checked at first, and after each multipart upload.
        """
        with self.received:
            assert self.received.wait_for(lambda: self.runs and condition(), timeout=120)

    def _store_part(self, kind: str, id: str, field: str | None = None, *, given: Any) -> None:
        """Store a part of an upload: a score, a run, or a field of a run."""
        if kind == "feedback":
            self.feedback.append(given)
        else:
            run = self.runs.setdefault(id, {"tags": []})
            fields = {field: given} if field else {key: value for key, value in given.items() if value is not None}
            # The end of a run (patch) may arrive before its start (post). Then the values of the end stay.
            kept = {key: value for key, value in run.items() if value} if kind == "post" else {}
            run |= fields | kept


class Handler(BaseHTTPRequestHandler):
    """The part of LangSmith's API that its client uses."""

    server: Collector

    def do_GET(self) -> None:
        """Answer with the server's features, or with its only project."""
        features: dict[str, Any] = {"version": "0.12.0", "instance_flags": {"zstd_compression_enabled": True}}
        features["batch_ingest_config"] = {
            "use_multipart_endpoint": True,
            "size_limit": 100,
            "size_limit_bytes": 20_971_520,
            "scale_up_nthreads_limit": 16,
            "scale_up_qsize_trigger": 1000,
            "scale_down_nempty_trigger": 4,
        }
        project = {"id": PROJECT, "tenant_id": PROJECT, "reference_dataset_id": None, "start_time": "2026-01-01T00:00Z"}
        self._answer(features if self.path.startswith("/info") else [project])

    def do_POST(self) -> None:
        """Store an upload and answer. A mute collector does neither."""
        if self.server.mute:
            self.server.ending.wait()
            self.close_connection = True
            return
        length = self.headers["Content-Length"]
        body = self.rfile.read(int(length)) if length else self._chunks()
        if self.path == "/runs/multipart":
            self.server.take(self.headers, body)  # type: ignore[arg-type]
        elif self.path == "/feedback":
            self.server.feedback.append(json.loads(body))
        else:
            self.server.posted[self.path] = json.loads(body)
        self._answer({"path": self.path})

    def _chunks(self) -> bytes:
        """The body of a request that is sent in chunks."""
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _answer(self, what: Any) -> None:
        text = json.dumps(what).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Log no requests."""


@contextmanager
def collecting(*, mute: bool = False) -> Iterator[Collector]:
    """Context manager: runs a collector. If ``mute`` is true, it answers GET requests, but no uploads."""
    with Collector(mute=mute) as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        try:
            yield collector
        finally:
            collector.ending.set()
            collector.shutdown()
