"""Each plan of a paper's table or figure runs on made-up items, and is listed on the page of plans."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.log import EvalSample
from moot.core.lazy import imported
from moot.evals._runs import run_plan as running
from moot.evals._runs.plan import Cell, Plan, make_cells, make_plan, read_plan
from moot.evals._runs.run_plan import Limits, run_plan
from moot.evals._runs.solver import document_in
from moot.graphs import load_graph

from tests.conftest import StartStub
from tests.evals.plan_data import write_plan_data

ROOT = Path(__file__).parents[2]
PLANS = sorted((ROOT / "plans").iterdir())
PAGE = ROOT / "docs" / "howto" / "plans.md"
SOURCE = re.compile(r"(chroma|bm25|hybrid):\w+|wikipedia|tavily|serper|openalex")
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
"""Number of items of each benchmark in a run. All records of a benchmark's file are read, even if fewer are run."""


@cache
def written_plan(file: Path) -> Any:
    """The values in a plan's file."""
    return imported("yaml").safe_load(file.read_text(encoding="utf-8"))


def has_rounds(system: Any) -> bool:
    """Whether a system of a plan has the setting `max_rounds`."""
    graph = system if isinstance(system, str) else system["graph"]
    return "max_rounds" in load_graph(graph).settings.model_fields


def local_plan(file: Path, folder: Path) -> Plan:
    """A plan with local models and sources, on `ITEMS` items of each benchmark in this folder.

    Debates have at most two rounds if the file does not set `max_rounds`. If it sets `switched_rounds`,
    this value becomes 2.
    """
    plan = with_local_parts(written_plan(file), {})
    short = {"max_rounds": 2} if any(has_rounds(one) for one in plan["graphs"]) else {}
    plan["settings"] = short | plan.get("settings", {}) | {"embedder": ENCODER, "structured_output": "json_schema"}
    plan["settings"] |= {"switched_rounds": 2} if "switched_rounds" in plan["settings"] else {}
    plan["tasks"] = [task | {"limit": ITEMS} for task in plan["tasks"]]
    return make_plan(plan | {"limit": ITEMS}, folder=folder)


def facets(cell: Cell) -> set[tuple[str, Any]]:
    """The system, the benchmark and the model of a cell."""
    return {("system", cell.system), ("benchmark", cell.task.name), ("model", cell.model)}


def covering_cells(cells: Sequence[Cell]) -> list[Cell]:
    """Cells in which every system, benchmark and model occurs at least once."""
    missing = {facet for cell in cells for facet in facets(cell)}
    covering: list[Cell] = []
    while missing:
        covering.append(max(cells, key=lambda cell: len(facets(cell) & missing)))
        missing -= facets(covering[-1])
    return covering


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
def cells_to_run(folder: Path) -> dict[Path, list[Cell]]:
    """For each plan, the cells that are run: those of its `covering_cells` whose system is in no earlier plan.

    If there is no such cell, one cell is run.
    """
    found: dict[Path, list[Cell]] = {}
    known: set[str] = set()
    for file in PLANS:
        cells = covering_cells(make_cells(local_plan(file, folder)))
        found[file] = [cell for cell in cells if system_of(cell) not in known] or cells[:1]
        known |= {system_of(cell) for cell in cells}
    return found


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
def test_a_plan_runs_on_one_item_of_each_benchmark(
    start_stub: StartStub,
    tmp_path: Path,
    folder: Path,
    cells_to_run: dict[Path, list[Cell]],
    cells_to_check: dict[Path, list[Cell]],
    monkeypatch: pytest.MonkeyPatch,
    file: Path,
) -> None:
    """All pairs of a system and a benchmark are checked, but only some cells are run."""
    start_stub()
    monkeypatch.setattr("moot.nodes._cortex.weigh.open_cross_encoder", open_constant_encoder)
    plan = local_plan(file, folder)
    cells = make_cells(plan)
    assert len(make_cells(read_plan(file, {}))) == len(cells)  # every setting is valid
    items = {task: running.make_task(task, plan) for task in dict.fromkeys(cell.task for cell in cells)}
    asyncio.run(running.preflight(cells_to_check[file], items, plan.judge))  # every system accepts every benchmark
    monkeypatch.setattr(running, "make_cells", lambda plan: cells_to_run[file])
    ended: list[EvalSample] = []
    logs = run_plan(plan, tmp_path / "logs", Limits(32), lambda total, held: ended.append)
    assert [log.status for log in logs] == ["success"] * len(cells_to_run[file]), [sample.error for sample in ended]
    assert [log.results.total_samples for log in logs if log.results] == [ITEMS] * len(logs)
    documents = [document_in(sample) or {} for sample in ended]
    assert [document.get("status") for document in documents] == ["done"] * ITEMS * len(logs)


@each_plan
def test_a_plan_file_begins_with_the_paper_the_keys_the_cost_and_the_command(file: Path) -> None:
    before, _, _ = file.read_text(encoding="utf-8").partition("\n\n")
    comments = " ".join(line.removeprefix("# ") for line in before.splitlines())
    assert comments.startswith(file.stem[:2].upper())
    assert re.search(rf"Keys: .+ About [\d,]+ calls\. moot eval run plans/{re.escape(file.name)} ", comments)


def test_the_page_of_plans_lists_exactly_the_plan_files() -> None:
    listed = re.findall(r"`(s\d-[\w-]+)`", PAGE.read_text(encoding="utf-8"))
    assert set(listed) == {file.stem for file in PLANS}
