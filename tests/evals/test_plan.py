"""Plans: their runs (graphs x tasks x models x seeds), the controls of debates, and errors in a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from moot.core.errors import UserError
from moot.evals._runs.plan import Cell, make_cells, make_plan, read_plan

TASK = {"name": "fever", "data": "fever.jsonl"}


def cells(**fields: Any) -> list[Cell]:
    """The cells of a plan with these fields. By default, its task is FEVER."""
    return make_cells(make_plan({"tasks": [TASK], **fields}))


def test_a_plan_has_a_run_for_each_graph_task_model_and_seed(tmp_path: Path) -> None:
    """A run has only those settings of the plan that its graph has. A system's own settings override the plan's."""
    (tmp_path / "plan.yaml").write_text(
        """
        graphs:
          - tool_mad
          - {graph: proclaim, label: no switch, settings: {role_switch: false, max_rounds: 2}}
        tasks: {fever: data/fever.jsonl, hover: data/hover.jsonl}
        models: [openai:a, openai:b]
        seeds: [1, 2, 3]
        settings: {k: 5, questions: 2, max_rounds: 1}
        limit: 100
        """
    )
    found = make_cells(read_plan(tmp_path / "plan.yaml", {"seeds": [1, 2]}))
    assert len(found) == len({cell.key for cell in found}) == 2 * 2 * 2 * 2
    tool_mad, proclaim = (next(c for c in found if c.graph == graph) for graph in ("tool_mad", "proclaim"))
    assert tool_mad.settings == {"k": 5, "questions": 2, "max_rounds": 1, "model": "openai:a", "seed": 1}
    assert proclaim.settings == {"k": 5, "role_switch": False, "max_rounds": 2, "model": "openai:a", "seed": 1}
    assert (proclaim.system, proclaim.task.limit) == ("no switch", 100)
    assert tool_mad.task.data == tmp_path / "data" / "fever.jsonl"


def test_only_debates_have_controls() -> None:
    """Controls that read evidence need a debate that retrieves evidence. A plan can name the controls that it wants."""
    found = cells(graphs=["tool_mad", "society_of_minds", "rag"], models=["openai:a"], controls=True, settings={"k": 4})
    assert [cell.system for cell in found] == [
        *("tool_mad", "society_of_minds", "rag"),
        *("tool_mad retrieval once", "tool_mad retrieval none"),
        *("tool_mad self consistency", "tool_mad self correction", "tool_mad answers alone", "tool_mad single call"),
        *("tool_mad self consistency with evidence", "tool_mad self correction with evidence"),
        *("society_of_minds self consistency", "society_of_minds self correction", "society_of_minds answers alone"),
    ]
    single = next(cell for cell in found if cell.control == "single_call")
    assert (single.graph, single.settings, single.log_metadata()["of"]) == ("rag", {"model": "openai:a"}, "tool_mad")
    assert {cell.of.system for cell in found if cell.of} == {"tool_mad", "society_of_minds"}
    assert [cell.position for cell in found] == [0, 1, 2, *[0] * 8, 1, 1, 1]
    named = cells(graphs=["tool_mad"], models=["openai:a"], controls=["retrieval", "single_call"])
    assert [cell.system for cell in named][1:] == [
        "tool_mad retrieval once",
        "tool_mad retrieval none",
        "tool_mad single call",
    ]
    proclaim = cells(graphs=["proclaim"], models=["openai:a"], controls=["retrieval"])
    assert [cell.system for cell in proclaim][1:] == ["proclaim retrieval once", "proclaim retrieval none"]
    no_evidence = {"retrieval": "none"}
    assert len(cells(graphs=["tool_mad"], models=["openai:a"], settings=no_evidence, controls=["single_call"])) == 1


def test_the_plan_sets_the_budget_unit_of_self_consistency(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A budget in USD needs the price of the model. Other controls have no budget."""
    fields: dict[str, Any] = {"graphs": ["tool_mad"], "models": ["openai:priced"], "controls": True}
    (tmp_path / "prices.jsonl").write_text('{"model": "openai:priced", "input": 1, "output": 4}')
    with pytest.raises(UserError, match="The price of openai:priced is unknown.*equal: tokens"):
        cells(**fields, equal="usd")
    monkeypatch.setenv("MOOT_PRICES", str(tmp_path / "prices.jsonl"))
    budgets: list[dict[str, str]] = [{}, {"equal": "tokens"}, {"equal": "usd"}, {"equal": "calls"}]
    cells_by_unit = [cells(**fields, **budget) for budget in budgets]
    keys = [{cell.key for cell in found} for found in cells_by_unit]
    assert keys[0] == keys[1]
    units = [[cell.log_metadata().get("equal") for cell in found if cell.control] for found in cells_by_unit[1:]]
    assert units == [[equal, None, None, None, equal, None] for equal in ("tokens", "usd", "calls")]
    assert len(keys[1] - keys[2]) == len(keys[2] - keys[3]) == 2  # self-consistency with and without evidence
    assert "tool_mad self consistency at equal USD" in [cell.system for cell in cells_by_unit[2]]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"graphs": []}, "graphs: The list should have at least 1 item, not 0"),
        ({"graphs": ["tool_made"]}, "Did you mean tool_mad"),
        ({"graphs": ["rag"], "tasks": ["fevr"]}, "Did you mean fever"),
        ({"graphs": ["rag"], "settings": {"kk": 1}}, "None of the graphs has a setting 'kk'"),
        ({"graphs": [{"graph": "rag", "settings": {"k": 0}}]}, "k: "),
        ({"graphs": [{"graph": "rag", "setings": {}}]}, "setings"),
        ({"graphs": ["rag", {"graph": "rag", "label": "again"}]}, "more than once"),
        ({"graphs": ["rag", {"graph": "rag", "settings": {"k": 2}}]}, "several systems called 'rag'"),
        (
            {"graphs": ["rag"], "tasks": [TASK, {**TASK, "data": "other.jsonl"}]},
            "several files of the benchmark 'fever'",
        ),
        (
            {"graphs": [{"graph": "tool_mad", "settings": {"models": {"judge": "fake:2"}}}], "controls": True},
            "one model",
        ),
        ({"graphs": ["rag"], "models": ["gpt"]}, "models"),
        ({"graphs": ["rag"], "seeds": [1, 1]}, "more than once"),
        ({"graphs": ["rag"], "seeds": [-1]}, "seed"),
        ({"graphs": ["rag"], "budget": 3}, "There is no field 'budget'; known are attacked_sources, attacker, "),
        ({"graphs": ["rag"], "controls": ["selfconsistency"]}, "self_consistency"),
        ({"graphs": "rag"}, "graphs"),
        (
            {"graphs": ["rag"], "tasks": ["fevr"]},
            r"^(?!.*The list should have)tasks\.0\.name: there is no benchmark 'fevr'",
        ),
    ],
)
def test_errors_in_a_plan_are_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        cells(**fields)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graphs: [", "not a YAML"),
        ("tasks: 2020-13-45", "not a YAML"),
        ("- a\n- b", "is not a plan"),
        ("graphs: [rag]\nsettings: [1]", "settings is not a mapping"),
        ("graphs: [rag]", "tasks: this is missing"),
    ],
)
def test_a_missing_or_invalid_plan_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "plan.yaml").write_text(text)
    with pytest.raises(UserError, match=message):
        read_plan(tmp_path / "plan.yaml", {})
    with pytest.raises(UserError, match="There is no file"):
        read_plan(tmp_path / "elsewhere.yaml", {})


def test_a_systems_settings_override_the_plans_model_and_seed() -> None:
    own = {"graph": "rag", "settings": {"model": "fake:7", "seed": 5}}
    (found,) = cells(graphs=[own], models=["fake:1"], seeds=[1])
    assert (found.model, found.seed) == (found.settings["model"], found.settings["seed"]) == ("fake:7", 5)


def test_a_plans_sources_are_refused_for_systems_whose_speakers_have_retrievers() -> None:
    """The plan is accepted if it lists the speakers with their retrievers."""
    fields: dict[str, Any] = {"graphs": ["rag", "tool_mad"], "settings": {"sources": ["bm25:demo-news"]}}
    with pytest.raises(UserError, match="tool_mad does not read the plan's `sources`: each of its debaters"):
        cells(**fields)
    gated = fields | {"graphs": ["rag", "gated"]}
    with pytest.raises(UserError, match="gated does not read the plan's `sources`: each of its agents"):
        cells(**gated)
    debaters = [{"name": "news", "retriever": "bm25:demo-news"}, {"name": "plain", "retriever": None}]
    named = {"graph": "tool_mad", "settings": {"debaters": debaters}}
    rag, debate = cells(**fields | {"graphs": ["rag", named, "society_of_minds"]})[:2]
    assert rag.settings["sources"] == ["bm25:demo-news"]
    assert debate.settings["debaters"] == debaters
