"""``moot batch`` and single checks while the only source is down, and after it is up again."""

from __future__ import annotations

import csv
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote_plus, urlsplit

import pytest

from tests.commands import moot
from tests.conftest import StartStub
from tests.retrievers.vendors import WIKIPEDIA

SETTINGS = ('sources=["wikipedia"]', "attempts=1", "plan=false")  # planned queries may find something
RAG = ("--graph", "rag", "--model", "openai:stub", *(word for one in SETTINGS for word in ("--set", one)))


class Encyclopaedia(ThreadingHTTPServer):
    """A Wikipedia on this machine. Searches for texts that contain the word ``down`` fail; empty for no failures."""

    down = ""
    finds = True


class Answer(BaseHTTPRequestHandler):
    server: Encyclopaedia

    def do_GET(self) -> None:
        words = parse_qs(urlsplit(self.path).query)
        fails = self.server.down and self.server.down in unquote_plus(str(words))
        [found] = WIKIPEDIA.found.values()
        self.send_response(503 if fails else 200)
        self.send_header("retry-after", "0")
        self.end_headers()
        self.wfile.write((found if self.server.finds else WIKIPEDIA.nothing).encode())

    def log_message(self, format: str, *values: object) -> None:
        """Prints nothing."""


@pytest.fixture(autouse=True)
def wikipedia(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start_stub: StartStub) -> Iterator[Encyclopaedia]:
    with Encyclopaedia(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("WIKIPEDIA_BASE_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
        start_stub([{"fields": {"answer": "NOT ENOUGH INFO", "citations": []}}])
        yield server
        server.shutdown()


def write_claims(folder: Path, claims: list[str]) -> Path:
    (folder / "claims.csv").write_text("claim\n" + "\n".join(claims))
    return folder / "claims.csv"


def statuses(folder: Path) -> list[str]:
    """The statuses of a batch's rows, in the order of the table."""
    with (folder / "table.csv").open(encoding="utf-8-sig", newline="") as file:
        return [row["status"] for row in csv.DictReader(file)]


def test_rows_of_a_system_that_does_not_search_do_not_interrupt_a_succession_of_outages(
    tmp_path: Path, wikipedia: Encyclopaedia
) -> None:
    wikipedia.down = "otter"
    claims = write_claims(tmp_path, [f"The otter {number} swims." for number in range(12)])
    systems = ("--graphs", "rag,chain_of_thought", "--model", "openai:stub", "--set", "attempts=1", "--at-once", 1)
    done = moot("batch", claims, "--out", tmp_path / "out", *systems)
    assert (done.returncode, "the sources of 3 rows in succession" in done.stdout.replace("\n", " ")) == (3, True)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_batch_stops_after_three_outages_in_succession_and_then_continues(
    workers: int, tmp_path: Path, wikipedia: Encyclopaedia
) -> None:
    wikipedia.down = "otter"
    claims = write_claims(tmp_path, [f"The otter {number} swims." for number in range(12)])
    words = ("batch", claims, "--out", tmp_path / "out", *RAG, "--at-once", 1, "--workers", workers)
    done = moot(*words)
    assert done.returncode == 3
    said = done.stdout.replace("\n", " ")
    assert "No further row was started: the sources of 3 rows in succession could not be searched." in said
    assert "`wikipedia` could not be searched" in said
    assert "The same command continues with the rows that are not done" in said
    found = statuses(tmp_path / "out")
    assert {*found} == {"failed", "not begun"}
    assert 3 <= found.count("failed") <= 2 + workers
    wikipedia.down = ""
    done = moot(*words)
    assert (done.returncode, {*statuses(tmp_path / "out")}) == (0, {"done"}), done.stdout
    assert "12 of 12 rows are done" in done.stdout


def test_outages_that_are_not_in_succession_do_not_stop_a_batch(tmp_path: Path, wikipedia: Encyclopaedia) -> None:
    wikipedia.down = "badger"
    animals = ["badger", "badger", "otter", "badger", "badger", "otter"]
    claims = write_claims(tmp_path, [f"The {animal} {number} swims." for number, animal in enumerate(animals)])
    done = moot("batch", claims, "--out", tmp_path / "out", *RAG, "--at-once", 1)
    assert (done.returncode, "succession" in done.stdout) == (3, False)
    assert statuses(tmp_path / "out") == ["failed" if animal == "badger" else "done" for animal in animals]


def test_a_claim_that_could_not_be_checked_has_no_verdict_anywhere(tmp_path: Path, wikipedia: Encyclopaedia) -> None:
    wikipedia.down = "otter"
    file = tmp_path / "otter.json"
    done = moot("verify", *RAG, "The otter swims.", "--out", file)
    assert done.returncode == 3
    assert "could not be searched" in done.stdout + done.stderr
    [listed] = json.loads(moot("list", "--json").stdout)
    assert (listed["status"], listed["answer"]) == ("failed", None)
    texts = [done.stdout, moot("list").stdout, moot("show", listed["id"]).stdout]
    for kind in ("html", "md"):
        assert moot("report", file, "--out", tmp_path / f"otter.{kind}").returncode == 0
        texts.append((tmp_path / f"otter.{kind}").read_text("utf-8"))
    said = "\n".join(texts).replace("answers: SUPPORTS, REFUTES, NOT ENOUGH INFO", "")
    assert ("NOT ENOUGH INFO" in said, "Not enough" in said, "No verdict" in said) == (False, False, True)
    review = ("--claimreview", "--unreviewed", "--publisher", "News", "--url", "https://news.test/1")
    assert moot("report", file, *review, "--out", tmp_path / "review.json").returncode == 2
    assert not (tmp_path / "review.json").exists()


def test_each_verdict_line_says_that_the_searches_found_nothing(tmp_path: Path, wikipedia: Encyclopaedia) -> None:
    wikipedia.finds = False
    file, claims = tmp_path / "otter.json", write_claims(tmp_path, ["The otter swims.", "The otter dives."])
    done = moot("verify", *RAG, "The otter swims.", "--out", file)
    [line] = [line for line in done.stdout.splitlines() if line.startswith("Verdict:")]
    assert (done.returncode, "nothing found" in line) == (0, True)
    for kind in ("html", "md"):
        assert moot("report", file, "--out", tmp_path / f"otter.{kind}").returncode == 0
        assert "(nothing found)" in (tmp_path / f"otter.{kind}").read_text("utf-8").replace("\\", "")
    done = moot("batch", claims, "--out", tmp_path / "out", *RAG)
    assert done.stdout.count("(nothing found)") == 2
    with (tmp_path / "out" / "table.csv").open(encoding="utf-8-sig", newline="") as table:
        assert [row["evidence"] for row in csv.DictReader(table)] == ["nothing found"] * 2
    assert moot("list").stdout.count("(nothing found)") == 3
    review = ("--claimreview", "--unreviewed", "--publisher", "News", "--url", "https://news.test/1")
    assert moot("report", file, *review, "--out", tmp_path / "review.json").returncode == 0
    rating = json.loads((tmp_path / "review.json").read_text("utf-8"))["reviewRating"]
    assert rating["alternateName"].endswith(" (nothing found)")
    wikipedia.finds = True
    assert "nothing found" not in moot("verify", *RAG, "The otter swims.").stdout
