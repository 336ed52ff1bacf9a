"""Shards of a plan: killed ones continue, and a comparison reads them as one run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspect_ai.dataset import MemoryDataset, Sample
from moot.core.errors import UserError
from moot.evals._report.write import as_document, compare
from moot.evals._runs.logs import read_runs
from moot.evals._runs.shards import Shard, folder_of, read_shard

from tests.commands import moot_process
from tests.conftest import StartStub
from tests.evals.made_logs import debate, write_log
from tests.evals.test_runs import AT_ONCE, command, run_and_stop
from tests.evals.test_solver import claims, says

VARYING = ("created", "log", "seconds", "relative_seconds", "versions")
"""Columns that differ between two runs of one plan."""


def tables(logs: Path) -> str:
    """All tables of a comparison of logs as JSON, without what differs between two runs of a plan."""
    (study,) = as_document(compare([logs]))["studies"]

    def stable(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: stable(one) for key, one in value.items() if key not in VARYING}
        return [stable(one) for one in value] if isinstance(value, list) else value

    return json.dumps(stable(study["tables"]), indent=1)


def test_a_killed_shard_continues_and_the_shards_compare_as_one_run(start_stub: StartStub, tmp_path: Path) -> None:
    stub = start_stub([says("REFUTES", "Claim [CFKN]"), says("SUPPORTS")], latency_ms=50)
    count = 10
    data = claims(tmp_path / "fever.jsonl", *["SUPPORTS", "REFUTES"] * (count // 2))
    line = [*command(tmp_path, data), "--graph", "society_of_minds"]
    assert run_and_stop(stub, [*line, "--shard", "2/3"], 6, signal.SIGKILL) == -signal.SIGKILL
    for number in (1, 2, 3):
        done = moot_process(*line[3:], "--shard", f"{number}/3", "--json")
        assert done.returncode == 0, done.stderr
        records = json.loads(done.stdout)["logs"]
        assert [record["samples"] for record in records] == [4 if number == 1 else 3] * 2
        assert all(f"shard-{number}-of-3" in record["log"] for record in records)
    calls = 7 * count  # one of one system, and those of three agents in two rounds
    assert calls <= len(stub.prompts()) <= calls + 6 * AT_ONCE
    whole = tmp_path / "whole"
    done = moot_process(*line[3:], "--logs", str(whole))
    assert done.returncode == 0, done.stderr
    assert tables(tmp_path / "logs") == tables(whole)
    for logs, shard in ((tmp_path / "logs", None), (tmp_path / "logs", Shard(1, 2)), (whole, Shard(1, 2))):
        with pytest.raises(UserError, match="another folder with --logs"):
            folder_of(logs, shard)


def write_shard(folder: Path, number: int, of: int, ids: list[str], key: str = "k") -> None:
    gold = dict.fromkeys(ids, "SUPPORTS")
    facts: dict[str, Any] = {"system": "a", "key": key, "shard": {"number": number, "of": of, "items": 6}}
    write_log(folder, f"{number}-of-{of}", {id: debate("SUPPORTS") for id in ids}, gold, **facts)


def test_missing_shards_are_items_that_were_not_run(tmp_path: Path) -> None:
    write_shard(tmp_path, 3, 3, ["2", "5"])
    write_shard(tmp_path, 1, 3, ["0", "3"])
    ((run,), _) = read_runs([tmp_path], lambda calls: 0.0)
    assert [observation.id for observation in run.observations] == ["0", "2", "3", "5"]
    assert (run.planned_count, run.notes[-1]) == (6, "of 3 shards, these are missing: 2")


def test_shards_of_two_divisions_are_not_mixed(tmp_path: Path) -> None:
    write_shard(tmp_path, 1, 3, ["0", "3"])
    write_shard(tmp_path, 1, 2, ["0", "2", "4"])
    with pytest.raises(UserError, match="in 2 and in 3 shards"):
        read_runs([tmp_path], lambda calls: 0.0)


@given(st.integers(0, 50), st.integers(1, 60))
def test_each_item_is_in_one_shard(count: int, of: int) -> None:
    items = MemoryDataset([Sample(input="", id=i) for i in range(count)])
    parts = [[sample.id for sample in Shard(number, of).part_of(items)] for number in range(1, of + 1)]
    assert {id for part in parts for id in part} == {*range(count)}
    assert sum(map(len, parts)) == count
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0", "1/10001", "-1/3"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="write NUMBER/OF"):
        read_shard(text)
    assert read_shard("3/16") == Shard(3, 16)


def program(folder: Path, name: str, line: str) -> None:
    """A program on the path that runs a line of sh."""
    (folder / name).write_text(f"#!/bin/sh\nexec {line}\n")
    (folder / name).chmod(0o755)


def test_the_script_for_slurm_runs_shards_each_with_a_server(tmp_path: Path) -> None:
    """Two tasks of a job array at once; in vLLM's place, each starts the scripted endpoint."""
    script, path = Path(__file__).parents[2] / "examples" / "slurm.sh", tmp_path / "bin"
    path.mkdir()
    program(path, "moot", f"""{sys.executable} -c 'from moot.cli.main import run; run()' "$@" """)
    stub = Path(__file__).parents[1] / "stub_llm.py"
    program(path, "vllm", f"""{sys.executable} {stub} --port "$6" """)  # serve MODEL --host HOST --port PORT
    data = claims(tmp_path / "fever.jsonl", *["SUPPORTS", "REFUTES"] * 4)
    plan = {"graphs": ["standard_prompting"], "tasks": {"fever": data}, "models": ["vllm:stub"]}
    (tmp_path / "plan.yaml").write_text(json.dumps(plan))  # JSON is YAML
    environment = {key: value for key, value in os.environ.items() if key != "VLLM_BASE_URL"}
    environment |= {"PATH": f"{path}:{os.environ['PATH']}", "SLURM_ARRAY_TASK_COUNT": "2", "AT_ONCE": "4"}
    line = ["bash", str(script), "plan.yaml", "logs"]
    tasks = [
        subprocess.Popen(line, cwd=tmp_path, env={**environment, "SLURM_ARRAY_TASK_ID": str(number)})
        for number in (1, 2)
    ]
    assert [task.wait() for task in tasks] == [0, 0]
    ((run,), notes) = read_runs([tmp_path / "logs"], lambda calls: 0.0)
    assert (len(run.observations), run.planned_count, run.status, notes) == (8, 8, "success", [])
