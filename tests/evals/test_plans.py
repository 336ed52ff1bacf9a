"""Each plan of a paper's table or figure can run on made-up items, and is listed on the page of plans."""

from __future__ import annotations

import asyncio
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from moot.core.lazy import imported
from moot.evals._runs import run_plan as running
from moot.evals._runs.plan import Cell, Plan, make_cells, make_plan, read_plan

from tests.conftest import StartStub
from tests.evals.plan_data import write_plan_data

ROOT = Path(__file__).parents[2]
PLANS = sorted((ROOT / "plans").glob("*.yaml"))
PAGE = ROOT / "docs" / "howto" / "plans.md"
SOURCE = re.compile(r"(chroma|bm25|hybrid):[\w-]+|wikipedia|tavily|serper|openalex")
ENCODER = "openai:stub-embedding"
each_plan = pytest.mark.parametrize("file", PLANS, ids=lambda file: file.name)


class ConstantCrossEncoder:
    """A cross-encoder that rates all pairs equally."""

    name = "constant"

    async def compare(self, text: str, others: Sequence[str]) -> list[float]:
        return [0.5 for _ in others]


async def open_constant_encoder(name: str) -> ConstantCrossEncoder:
    return ConstantCrossEncoder()


def with_local_parts(value: Any, models: dict[str, str]) -> Any:
    """A plan's values with local models and sources. Each model's replacement is added to ``models``."""
    if isinstance(value, Mapping):
        return {key: with_local_parts(one, models) for key, one in value.items()}
    if isinstance(value, list):
        return [with_local_parts(one, models) for one in value]
    if not isinstance(value, str):
        return value
    if value.startswith(("openai:", "vllm:")):
        return models.setdefault(value, f"fake:{len(models)}")
    if SOURCE.fullmatch(value):
        return "bm25:demo-encyclopaedia" if "wikipedia" in value else "bm25:demo-news"
    return value


ITEMS = 1
"""Number of items of each benchmark in a plan. All records of a benchmark's file are read, even if fewer are used."""


@cache
def written_plan(file: Path) -> Any:
    """The values in a plan's file."""
    return imported("yaml").safe_load(file.read_text(encoding="utf-8"))


def local_plan(file: Path, folder: Path) -> Plan:
    """A plan with local models and sources, on `ITEMS` items of each benchmark in this folder."""
    plan = with_local_parts(written_plan(file), {})
    plan["settings"] = plan.get("settings", {}) | {"embedder": ENCODER, "structured_output": "json_schema"}
    plan["tasks"] = [task | {"limit": ITEMS} for task in plan["tasks"]]
    return make_plan(plan | {"limit": ITEMS}, folder=folder)


def system_of(cell: Cell) -> str:
    """A cell's graph and settings, without the model and the seed."""
    return json.dumps([cell.graph, {k: v for k, v in cell.settings.items() if k not in ("model", "seed")}], default=str)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with made-up items of all benchmarks in the plans."""
    folder = tmp_path_factory.mktemp("plans")
    write_plan_data(folder / "data")
    return folder


@pytest.fixture(scope="session")
def cells_to_check(folder: Path) -> dict[Path, list[Cell]]:
    """For each plan, the cells that `preflight` checks.

    Over all plans, each pair of a system and a benchmark is checked once.
    """
    found: dict[Path, list[Cell]] = {}
    known: set[tuple[str, str]] = set()
    for file in PLANS:
        cells = {(system_of(cell), cell.task.name): cell for cell in make_cells(local_plan(file, folder))}
        found[file] = [cell for pair, cell in cells.items() if pair not in known]
        known |= cells.keys()
    return found


@each_plan
def test_a_plan_passes_the_checks_before_its_first_run(
    start_stub: StartStub,
    folder: Path,
    cells_to_check: dict[Path, list[Cell]],
    monkeypatch: pytest.MonkeyPatch,
    file: Path,
) -> None:
    """Every setting is valid, every benchmark is read, and every system accepts every benchmark."""
    start_stub()
    monkeypatch.setattr("moot.nodes._cortex.weigh.open_cross_encoder", open_constant_encoder)
    plan = local_plan(file, folder)
    cells = make_cells(plan)
    assert len(make_cells(read_plan(file, {}))) == len(cells)
    items = {task: running.make_task(task, plan) for task in dict.fromkeys(cell.task for cell in cells)}
    asyncio.run(running.preflight(cells_to_check[file], items, plan.judge))


@each_plan
def test_a_plan_file_begins_with_the_paper_the_keys_the_cost_and_the_command(file: Path) -> None:
    before, _, _ = file.read_text(encoding="utf-8").partition("\n\n")
    comments = " ".join(line.removeprefix("# ") for line in before.splitlines())
    assert comments.startswith("A first study" if file.stem == "first-study" else file.stem[:2].upper())
    assert re.search(rf"Keys: .+ About [\d,]+ calls\. moot eval run plans/{re.escape(file.name)} ", comments)


def test_the_page_of_plans_lists_exactly_the_plan_files() -> None:
    listed = re.findall(r"`(s\d-[\w-]+|first-study)`", PAGE.read_text(encoding="utf-8"))
    assert set(listed) == {file.stem for file in PLANS}


@pytest.mark.parametrize(("system", "step", "calls"), [("rag", "answer", 87), ("tool_mad", "respond", 178)])
def test_the_readers_of_the_first_study_say_again_what_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, step: str, calls: int
) -> None:
    """Its claims are their publishers', so here they are made up; a reply is found by its debate and its step."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "plans"))
    with zipfile.ZipFile(ROOT / "plans" / "first-study.zip") as archive:
        archive.extractall("plans/first-study")
    ids = json.loads((ROOT / "plans" / "first-study.ids.json").read_text(encoding="utf-8"))
    for name, records in {
        "averitec": [{"claim": f"Claim a{place} holds."} for place in range(len(ids["averitec"]))],
        "check_covid": [{"id": id, "claim": f"Claim {id} holds."} for id in ids["check_covid"]],
    }.items():
        Path("plans/data", name).mkdir(parents=True)
        Path("plans/data", name, f"{name}.jsonl").write_text("\n".join(map(json.dumps, records)))
    plan = read_plan(Path(f"plans/first-study/{system}.yaml"), {})
    assert {cell.model for cell in make_cells(plan)} == {f"langchain:first_study_reader:{system}"}
    reader = getattr(imported("first_study_reader"), system)
    assert sum(len(replies) for steps in reader.debates.values() for replies in steps.values()) == calls
    assert len(reader.debates) == 30
    agent = "agent-1" if system == "rag" else "search"
    about = {"agent": agent, "node": step, "round": 1}
    said = json.loads(reader.invoke("The claim: Claim a100 \n holds.", {"metadata": about}).text)
    assert said["citations"]
    with pytest.raises(ValueError, match="no reply was recorded for the step 'search: judge, round 9'"):
        reader.invoke("Claim a100 holds.", {"metadata": {"agent": "search", "node": "judge", "round": 9}})
    with pytest.raises(ValueError, match="about no claim of the study"):
        reader.invoke("Claim z holds.", {"metadata": about})
