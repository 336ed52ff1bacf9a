"""A dry run of a plan: what it is expected to take, without a key, a network or a corpus."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from moot.cli.dry_run import within_ceilings
from moot.core.errors import UserError
from moot.evals._runs.dry_run import BYTES_PER_TOKEN, DryRun, Expected, Pass
from moot.evals._runs.plan import make_plan
from moot.evals._runs.run_plan import Limits

from tests.commands import moot
from tests.conftest import READERS, StartStub
from tests.evals.test_runs import run
from tests.evals.test_solver import claims, says

MODEL = "openai:gpt-4o-mini"


def expected(tmp_path: Path, **fields: Any) -> dict[str, Expected]:
    data = claims(tmp_path / "fever.jsonl", "SUPPORTS", "REFUTES", "SUPPORTS")
    dry = DryRun(make_plan({"tasks": {"fever": data}, "models": [MODEL], **fields}), 2)
    return {one.system: one for one in asyncio.run(dry.expected())}


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")


def test_the_rehearsed_prompts_are_those_of_the_run(start_stub: StartStub, tmp_path: Path) -> None:
    fields: dict[str, Any] = {"graphs": ["standard_prompting", "chain_of_thought"], "seeds": [1, 2]}
    found = expected(tmp_path, **fields)
    stub = start_stub([says("SUPPORTS")])
    run(tmp_path, tasks={"fever": str(tmp_path / "fever.jsonl")}, **fields)
    sent = sum(len(prompt) for prompt in stub.prompts()) / BYTES_PER_TOKEN
    both = [one.most for one in found.values()]
    assert [one.calls for one in both] == [6, 6]  # three items, two seeds
    assert len(stub.prompts()) == 12
    prompts = sum(one.prompt_tokens for one in both)
    assert sent < prompts < 2 * sent  # with the schemas of the replies
    assert all(one.usd is not None and one.usd > 0 for one in both)
    assert all(120 < one.reply_tokens / one.calls < 180 for one in both)


def test_debates_range_from_agreement_to_all_rounds(tmp_path: Path) -> None:
    """Sources that need a key, a corpus that does not exist and an encoder behind an endpoint are stood in for."""
    tool_mad = {"graph": "tool_mad", "settings": {"debaters": READERS, "embedder": "openai:none", "corpus": "none"}}
    found = expected(tmp_path, graphs=[tool_mad, "rag"], controls=["self_consistency"], equal="usd")
    debate, control = found["tool_mad"], found["tool_mad self consistency at equal USD"]
    assert debate.least.calls < debate.most.calls
    assert debate.least.usd is not None
    assert debate.most.usd is not None
    assert control.most.usd is not None
    assert 0 < control.most.usd <= debate.most.usd
    assert found["rag"].most.prompt_tokens > 3 * 250  # one passage and more


def test_replies_in_plain_text_have_the_stated_length_too(tmp_path: Path) -> None:
    found = expected(tmp_path, graphs=["standard_prompting"], settings={"structured_output": "text"})
    took = found["standard_prompting"].most
    assert took.calls == 3
    assert 80 < took.reply_tokens / took.calls < 180


def test_a_system_that_cannot_be_rehearsed_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="tool_mad"):
        expected(tmp_path, graphs=[{"graph": "tool_mad", "settings": {"calibration": str(tmp_path / "none.json")}}])


def test_the_command_prints_amounts_and_what_a_ceiling_can_find(tmp_path: Path) -> None:
    data = claims(tmp_path / "fever.jsonl", *["SUPPORTS", "REFUTES"] * 100)
    options: list[Any] = [
        "eval",
        "run",
        "--graph",
        "standard_prompting",
        "--graph",
        "society_of_minds",
        "--task",
        f"fever={data}",
    ]
    options += ["--model", MODEL, "--limit", 200, "--dry-run", "--at-once", 4, "--max-calls", 700]
    done = moot(*options, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    calls = [row["most"]["calls"] for row in document["systems"]]
    assert calls == [200, 1200]
    assert document["total"]["most"]["calls"] == 1400
    fits, items, advice = document["within_ceilings"]
    assert "50%" in fits
    assert items.startswith("fever: 100 of 200 items (--limit 100).")
    assert "--limit" in advice
    assert not (tmp_path / "logs").exists()


def test_a_ceiling_in_usd_needs_prices() -> None:
    took = Pass(10, 1000, 100, None, 5)
    found = [Expected("a", "fever", "openai:none", 10, 10, took, took)]
    most = {"calls": 10.0, "prompt_tokens": 1000.0, "reply_tokens": 100.0, "usd": None, "hours": 1.0}
    assert "MOOT_PRICES" in within_ceilings(found, most, Limits(max_cost=1))[0]
    assert "enough for all items" in within_ceilings(found, most, Limits(budget=2000))[0]
    assert "not one of 10 items" in within_ceilings(found, most, Limits(max_calls=0))[1]
    assert within_ceilings(found, most, Limits()) == []


def test_the_judge_of_evidence_is_counted(tmp_path: Path) -> None:
    """A debate on AVeriTeC takes a call more with a judge, and none without gold questions."""
    asked = [{"question": "Who?", "answers": [{"answer": "Ann"}]}]
    records = [{"claim": f"Claim {n}.", "label": "Supported", "questions": asked} for n in range(3)]
    file = tmp_path / "averitec.jsonl"
    plan = {"graphs": ["standard_prompting"], "tasks": {"averitec": str(file)}, "models": [MODEL]}
    counts = []
    for gold, judge in ((asked, None), (asked, "openai:gpt-4o"), ([], "openai:gpt-4o")):
        file.write_text("\n".join(json.dumps(record | {"questions": gold}) for record in records))
        (one,) = asyncio.run(DryRun(make_plan(plan | ({"judge": judge} if judge else {})), 1).expected())
        counts.append(one.most.calls)
    assert counts == [3, 6, 3]


def test_a_dry_run_tells_of_items_that_no_system_can_tell_apart(tmp_path: Path) -> None:
    rows = [
        {"claim": claim, "label": label} for claim, label in (("A.", "Supported"), ("A.", "Refuted"), ("B.", "Refuted"))
    ]
    (tmp_path / "dev.json").write_text(json.dumps(rows))
    options = ("--graph", "standard_prompting", "--model", MODEL, "--task", f"averitec={tmp_path / 'dev.json'}")
    document = json.loads(moot("eval", "run", *options, "--dry-run", "--json").stdout)
    assert document["conflicting"] == {"averitec": {"Supported": ["0"], "Refuted": ["1"]}}
    note = document["notes"][0]  # the other names missing data of METEOR
    assert note.startswith("AVeriTeC: 2 of 3 items also occur in this benchmark with another right answer")
