"""``moot demo`` replays its recorded debates: its record fits the prompts, settings and sources of today."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest
from moot.cli.demo import CLAIMS, RECORDED, SETTINGS

from tests import demo
from tests.commands import moot
from tests.conftest import StartStub

RECORD = Path(__file__).parents[2] / "retrievers" / "demo" / "record.jsonl"
LINES = [json.loads(line) for line in RECORD.read_text(encoding="utf-8").splitlines()]
OPTIONS = [f"--set={name}={json.dumps(value)}" for name, value in {**SETTINGS, **RECORDED}.items()]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))


def test_the_demo_replays_its_debates_and_writes_their_reports(tmp_path: Path) -> None:
    """If this test fails after a change of prompts, settings or sources, the message says how to make a new record."""
    done = moot("demo", "--out", tmp_path / "reports")
    assert done.returncode == 0, done.stderr
    first, *_, last = done.stdout.strip().splitlines()
    assert all("come from a record" in text or "came from a record" in text for text in (first, last))
    agreed, changed, left_open = re.split(r"(?m)^\d of 3: ", done.stdout)[1:]
    assert "Verdict: " in agreed
    assert "(consensus)" in agreed
    assert "bears it out" in agreed
    assert "Round 2" not in agreed
    assert re.search(r"changed +\S+.* to (SUPPORTS|REFUTES) .*in round", changed)
    assert re.search(r"news +reads +.*, quoted by encyclopaedia\n", changed)
    assert "Verdict: NOT ENOUGH INFO" in left_open
    assert "so the debate searches on" in left_open
    found = re.findall(r"Citations: (\d+) verified, (\d+) unverified, (\d+) fabricated", done.stdout)
    assert len(found) == 3
    assert all(int(verified) and (unverified, fabricated) == ("0", "0") for verified, unverified, fabricated in found)
    calls = sum(map(int, re.findall(r"tokens in (\d+) calls", done.stdout)))
    assert calls == len(LINES)  # the record has no line of older debates
    for name, (claim, _) in CLAIMS.items():
        page = unescape((tmp_path / "reports" / f"{name}.html").read_text(encoding="utf-8"))
        assert claim in page
        assert "come from the record" in page
    assert not (tmp_path / "home").exists()


def test_a_request_that_is_not_in_the_record_is_an_error_that_says_what_to_do() -> None:
    claim, _ = CLAIMS["tallest-building"]
    done = moot("verify", claim, *OPTIONS)
    assert done.returncode == 0, done.stderr
    for words in (["The moon is made of cheese."], [claim, "--set", "k=3"], [claim, "--labels", "yes,no"]):
        done = moot("verify", words[0], *OPTIONS, *words[1:])
        assert done.returncode == 2
        assert "recorded:demo has no reply to this request" in done.stderr
        assert "name a model" in done.stderr
        assert "CONTRIBUTING.md" in done.stderr
    done = moot("verify", claim, *OPTIONS, "--model", "recorded:other", "--set", "model=recorded:other")
    assert (done.returncode, "recorded:demo, not recorded:other" in done.stderr) == (2, True)


async def test_a_record_is_made_from_an_endpoint(start_stub: StartStub, monkeypatch: pytest.MonkeyPatch) -> None:
    stub = start_stub([{"fields": {"answer": "SUPPORTS", "citations": []}}])
    monkeypatch.setenv("OPENAI_BASE_URL", stub.url)  # `record` sets it to an endpoint of its own
    lines = await demo.record(["Saffron is a spice."], dict.fromkeys(demo.ROLES, "stub"), stub.url)
    assert len(lines) == len(stub.calls())
    assert {"planner", "encyclopaedia", "news", "scorer"} == {line["role"] for line in lines}
    assert all(line["reply"] and line["messages"] and line["response_format"] and line["usage"] for line in lines)
