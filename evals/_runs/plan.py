"""The plan of an evaluation: graphs x tasks x models x seeds, from a YAML file or from options of the command line."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

from moot.core.errors import UserError
from moot.core.files import why_unread
from moot.evals._attacks.attack import MOST_PIECES, POISONED, Attack, files_digest
from moot.evals._benchmarks.catalogue import benchmark_names
from moot.evals._runs.controls import CONTROLS, Control, controls_of, is_debate, retrieval_variants
from moot.evals._runs.stated import DERIVED, EACH, FIRST_ROUND, POOLED, StatedTest
from moot.evals._stats.measures import load_extra
from moot.evals._stats.significance import Family
from moot.graphs import load_graph
from moot.graphs._registry import suggest
from moot.nodes._models.equal_cost import BUDGET_NAMES, shared_settings
from moot.nodes._models.prices import price_of, read_prices
from moot.nodes._runtime.settings import (
    EvidenceSettings,
    ModelName,
    Settings,
    checked_settings,
    problem_of,
    with_usual_model,
)
from moot.nodes._runtime.state import Equal
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

SPEAKER_SETTINGS = {"models", "agents", "debaters", "judges"}
"""Settings that can give single roles their own models."""


class System(BaseModel):
    """A debate system of a plan, with its own settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    graph: str = Field(description="The graph's name; `moot graphs` lists all graphs.")
    label: str = Field(default="", max_length=80, description="The system's label in reports; by default its graph.")
    settings: dict[str, Any] = Field(default={}, description="The system's own settings; see `moot settings GRAPH`.")


class PlannedBenchmark(BaseModel):
    """A benchmark of a plan, and the file or folder with its records."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="The benchmark's name; `moot eval tasks` lists all.")
    data: Path | None = Field(
        default=None, description="A file or folder in the published format; by default the records are from the Hub."
    )
    limit: int | None = Field(default=None, ge=1, description="Maximum number of items.")

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if name not in (known := benchmark_names()):
            raise ValueError(f"there is no benchmark {name!r}. {suggest(name, known)}")
        return name

    @field_validator("data")
    @classmethod
    def _make_absolute(cls, data: Path | None, info: ValidationInfo) -> Path | None:
        """Resolve a relative path against the folder in the validation context or, without one, the current folder."""
        return (info.context or Path()).absolute() / data.expanduser() if data else None


class Plan(BaseModel):
    """A plan of an evaluation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    graphs: tuple[System, ...] = Field(min_length=1, description="Debate systems: names of graphs, or objects.")
    tasks: tuple[PlannedBenchmark, ...] = Field(
        min_length=1, description="Benchmarks: names, objects, or one object that maps names to paths."
    )
    models: tuple[ModelName | None, ...] = Field(
        default=(None,), min_length=1, description="Models; each model has its own runs."
    )
    seeds: tuple[int | None, ...] = Field(
        default=(None,), min_length=1, description="Sampling seeds; each seed has its own runs."
    )
    settings: dict[str, Any] = Field(
        default={}, description="Settings for all systems; a system ignores those that it does not have."
    )
    limit: int | None = Field(default=None, ge=1, description="Maximum number of items of each benchmark.")
    sample_seed: int | None = Field(
        default=None, description="Seed that draws the items at random; by default the first items are taken."
    )
    judge: ModelName | None = Field(
        default=None, description="Model that grades free-text answers, and AVeriTeC's evidence."
    )
    judge_may_debate: bool = Field(
        default=False, description="Whether the judge may also speak in debates that it judges."
    )
    controls: bool | tuple[Control | Literal["retrieval"], ...] = Field(
        default=False,
        description="Controls and retrieval variants of each debate: all (true), none (false), or only the named ones.",
    )
    equal: Equal = Field(
        default="tokens",
        description="Unit of the budget shared by self-consistency and its debate: tokens, usd (list prices) or calls.",
    )

    attacks: tuple[Attack, ...] = Field(
        default=(), description="Attacks; a system runs again under each attack that applies."
    )
    pieces: int = Field(default=3, ge=1, le=MOST_PIECES, description="Number of poisoned passages in each search.")
    kept_back: bool = Field(default=False, description="Whether attackers use the held-out templates and passages.")
    attacker: ModelName | None = Field(
        default=None, description="The model that writes adaptive passages; by default the model of the debate."
    )
    attacked_sources: tuple[str, ...] = Field(
        default=(),
        description="The sources whose results an attack changes, such as web; by default all. A debate that searches "
        "none of them is not attacked, and counts as missing. A lying debater changes no source.",
    )
    family: Family = Field(
        default="report",
        description="Tests that Holm's correction covers together: all of a report, or those of a benchmark and model.",
    )
    tests: tuple[StatedTest, ...] = Field(
        default=(),
        description="The tests to make; by default each system against its controls and against the first system.",
    )

    @field_validator("graphs", mode="before")
    @classmethod
    def _read_graphs(cls, given: Any) -> Any:
        return (
            [{"graph": graph} if isinstance(graph, str) else graph for graph in given]
            if isinstance(given, list)
            else given
        )

    @field_validator("tasks", mode="before")
    @classmethod
    def _read_tasks(cls, given: Any) -> Any:
        if isinstance(given, Mapping):
            return [{"name": name, "data": data} for name, data in given.items()]
        return (
            [{"name": task} if isinstance(task, str) else task for task in given] if isinstance(given, list) else given
        )


@dataclass(frozen=True)
class Cell:
    """A run of one system on one benchmark with one model and seed; each cell has its own log.

    ``system`` is the system's label. ``of`` is the cell of the original system, if this cell is a control, a retrieval
    variant, or a system under attack. ``control`` is the name of the control; None if this cell is not a control.
    ``position`` is the index of the original system in the plan. ``equal`` is the unit of the budget that a control
    shares with its debate, if any. ``attack`` is None without an attack. Otherwise it has the attack's arguments for
    `moot.evals._attacks.solver.attacked`, and under ``texts`` a digest of the texts of all attacks.
    """

    system: str
    graph: str
    task: PlannedBenchmark
    settings: dict[str, Any] = field(hash=False)
    model: str | None = None
    seed: int | None = None
    control: Control | None = None
    of: Cell | None = None
    position: int = 0
    equal: Equal | None = None
    attack: Mapping[str, Any] | None = field(default=None, hash=False)

    @property
    def key(self) -> str:
        """A key that identifies this cell by its fields, except for the labels and the position."""
        identity: list[Any] = [
            self.graph,
            self.settings,
            self.control,
            self.of.key if self.of and self.control else None,
        ]
        identity += [self.task.name, str(self.task.data), self.task.limit]
        identity += [self.equal] if self.equal not in (None, "tokens") else []
        identity += [self.attack] if self.attack else []
        return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:16]

    def log_metadata(self) -> dict[str, Any]:
        """The cell's metadata in its log."""
        return {
            "key": self.key,
            "system": self.system,
            "graph": self.graph,
            "benchmark": self.task.name,
            "model": self.model,
            "seed": self.seed,
            "control": self.control or (self.system.removeprefix(f"{self.of.system} ") if self.of else None),
            "of": self.of.system if self.of else None,
            "position": self.position,
            "settings": self.settings,
            **({"equal": self.equal} if self.equal else {}),
            **({"attack": dict(self.attack)} if self.attack else {}),
        }


def read_plan(path: Path, given: Mapping[str, Any]) -> Plan:
    """Read a plan from a YAML file; fields in ``given`` take precedence.

    Paths of benchmarks in the file are relative to the file's folder; paths in ``given`` are relative to the current
    folder.

    Args:
        path: the file.
        given: fields of `Plan` that override the file's fields; ``settings`` override the file's settings key by key.

    Raises:
        UserError: the file cannot be read or is not a mapping in YAML; a field is missing, unknown or invalid (the
            error names it); or the extra `evals` is not installed.
    """
    try:
        fields = load_extra("yaml").safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(why_unread(path, error), kind="missing_file") from error
    except (ValueError, load_extra("yaml").YAMLError) as error:  # YAML raises ValueError for an impossible date
        raise UserError(f"{path} is not a YAML file: {' '.join(str(error).split())}.", kind="invalid_file") from error
    if not isinstance(fields, Mapping):
        raise UserError(f"{path} is not a plan, which needs at least graphs and tasks.", kind="invalid_file")
    settings = fields.get("settings") or {}
    if not isinstance(settings, Mapping):
        raise UserError(f"{path}: settings is not a mapping of names to values.", kind="invalid_file")
    values = {**fields, **given, "settings": {**settings, **(given.get("settings") or {})}}
    return make_plan(values, f"{path}: ", Path() if "tasks" in given else path.parent)


def make_plan(given: Mapping[str, Any], where: str = "", folder: Path | None = None) -> Plan:
    """Make a plan from plain values.

    Args:
        given: the fields of the plan.
        where: a prefix for error messages.
        folder: the folder that paths are relative to; None for the current folder.

    Raises:
        UserError: a field is missing, unknown, or invalid.
    """
    try:
        return Plan.model_validate(given, context=folder)
    except ValidationError as error:
        errors = error.errors()
        parts = {e["loc"][0] for e in errors if len(e["loc"]) > 1}
        # if an item of a list is invalid, Pydantic may also report that the list is too short
        errors = [e for e in errors if e["type"] != "too_short" or e["loc"][0] not in parts]
        problems = dict.fromkeys(problem_of(Plan, e, "field") for e in errors[:5])
        raise UserError(f"{where}{'; '.join(problems)}", kind="invalid_setting") from error


def make_cells(plan: Plan) -> list[Cell]:
    """All cells of a plan: the systems first, then retrieval variants, controls, and systems under attack."""
    known = {key for system in plan.graphs for key in load_graph(system.graph).settings.model_fields}
    if unknown := sorted(set(plan.settings) - known):
        raise UserError(f"None of the graphs has a setting {unknown[0]!r}.", kind="invalid_setting")
    cells = [
        replace(make_cell(plan, task, system, model, seed), position=position)
        for task, (position, system), model, seed in product(
            plan.tasks, enumerate(plan.graphs), plan.models, plan.seeds
        )
    ]
    keys = Counter(cell.key for cell in cells)
    if repeated := [cell.system for cell in cells if keys[cell.key] > 1]:
        raise UserError(
            f"The plan runs the same system more than once ({', '.join(dict.fromkeys(repeated))}): name each graph, "
            "model, seed and task once, or give the systems different settings.",
            kind="invalid_setting",
        )
    _check_unambiguous(cells)
    wanted = {*CONTROLS, "retrieval"} if plan.controls is True else set(plan.controls or ())
    varied = cells if "retrieval" in wanted else []
    variants = {
        new_cell.key: new_cell for cell in varied for new_cell in _retrieval_cells(cell) if new_cell.key not in keys
    }
    controls = [new_cell for cell in cells for new_cell in _control_cells(cell, wanted, plan.equal)]
    _check_tests(plan, [*cells, *variants.values(), *controls])
    return [
        *cells,
        *variants.values(),
        *controls,
        *(new_cell for cell in cells for new_cell in _attack_cells(cell, plan)),
    ]


def _check_tests(plan: Plan, cells: Sequence[Cell]) -> None:
    """Check that the plan runs the systems, models and benchmarks that its tests name."""
    labels, models = {cell.system for cell in cells}, {cell.model for cell in cells}
    places = {EACH, POOLED, *(task.name for task in plan.tasks)}
    for test in plan.tests:
        named = {test.first: labels, test.second: {*labels, *CONTROLS, *DERIVED, f"{test.first} {FIRST_ROUND}"}}
        unknown = [name for name, known in named.items() if name not in known]
        unknown += [model for model in (test.first_model, test.second_model) if model and model not in models]
        unknown += [test.benchmark] if test.benchmark not in places else []
        if unknown:
            known = [*labels, *filter(None, models), *places]
            raise UserError(
                f"tests: the plan does not run {unknown[0]!r}. {suggest(str(unknown[0]), known)}",
                kind="invalid_setting",
            )


def _check_unambiguous(cells: Sequence[Cell]) -> None:
    """Check that each label belongs to one system, and that each benchmark has one file."""
    for kind, part in (("systems called", "system"), ("files of the benchmark", "task")):
        groups: dict[str, set[str]] = {}
        for cell in cells:
            settings = {key: value for key, value in cell.settings.items() if key not in ("model", "seed")}
            name, content = (
                (cell.system, [cell.graph, settings]) if part == "system" else (cell.task.name, str(cell.task.data))
            )
            groups.setdefault(name, set()).add(json.dumps(content, sort_keys=True, default=str))
        if ambiguous := [name for name, different in groups.items() if len(different) > 1]:
            raise UserError(
                f"The plan has several {kind} {ambiguous[0]!r}: give each system its own label, and run each "
                "file of a benchmark in its own plan and folder.",
                kind="invalid_setting",
            )


def make_cell(plan: Plan, task: PlannedBenchmark, system: System, model: str | None, seed: int | None) -> Cell:
    """Make the cell of a system on a benchmark.

    The plan's settings are overridden by ``model`` and ``seed``, and these by the system's own settings. Settings of
    the plan that the graph does not have are left out.
    """
    settings_type = load_graph(system.graph).settings
    speakers = "sources" in plan.settings and setting_with_sources(settings_type)
    if speakers and speakers not in {**plan.settings, **system.settings}:
        raise UserError(
            f"{system.label or system.graph} does not read the plan's `sources`: each of its {speakers} has a "
            f"`retriever`. List its {speakers} in the system's settings or in the plan's.",
            kind="invalid_setting",
        )
    named = {key: value for key, value in (("model", model), ("seed", seed)) if value is not None}
    settings = {
        **{k: v for k, v in plan.settings.items() if k in settings_type.model_fields},
        **named,
        **system.settings,
    }
    if (model := with_usual_model(checked_settings(settings_type, settings, system.graph)).model) is not None:
        settings["model"] = model  # so that the logs have the model of MOOT_MODEL
    task = task.model_copy(update={"limit": min(filter(None, (task.limit, plan.limit)), default=None)})
    label = system.label.strip() or system.graph
    return Cell(label, system.graph, task, settings, settings.get("model"), settings.get("seed"))


def setting_with_sources(settings_type: type[Settings]) -> str | None:
    """The name of the setting that lists speakers, if the listed speakers have their own sources."""
    defaults = {} if "sources" in settings_type.model_fields else settings_type().model_dump(mode="json")
    return next(
        (
            key
            for key in SPEAKER_SETTINGS & defaults.keys()
            if any("retriever" in speaker for speaker in defaults[key] or ())
        ),
        None,
    )


def _retrieval_cells(cell: Cell) -> Iterable[Cell]:
    settings_type = load_graph(cell.graph).settings
    for name, settings in retrieval_variants(settings_type, cell.settings).items() if is_debate(settings_type) else ():
        yield replace(cell, system=f"{cell.system} {name}", settings=settings, of=cell)


def _attack_cells(cell: Cell, plan: Plan) -> Iterable[Cell]:
    """Copies of a cell, one for each attack of the plan that applies to the cell's system."""
    settings_type = load_graph(cell.graph).settings
    for attack in plan.attacks:
        applies = is_debate(settings_type) if attack == "lying_debater" else issubclass(settings_type, EvidenceSettings)
        if applies:
            arguments: dict[str, Any] = {"attack": attack, "kept_back": plan.kept_back, "texts": files_digest()}
            arguments |= {"pieces": plan.pieces} if attack in POISONED else {}
            arguments |= {"attacker": plan.attacker} if attack == "adaptive" and plan.attacker else {}
            if plan.attacked_sources and attack != "lying_debater":
                arguments["attacked_sources"] = list(plan.attacked_sources)
            yield replace(cell, system=f"{cell.system} under {attack.replace('_', ' ')}", of=cell, attack=arguments)


def _control_cells(cell: Cell, wanted: Collection[str], equal: Equal) -> Iterable[Cell]:
    names = [name for name in controls_of(load_graph(cell.graph).settings, cell.settings) if name in wanted]
    if names and cell.model is None and not SPEAKER_SETTINGS.isdisjoint(cell.settings):
        raise UserError(
            f"The controls of {cell.system} need one model. Name a model for the whole system (`models` in the plan), "
            "not only models of single roles.",
            kind="invalid_setting",
        )
    in_usd = equal == "usd" and cell.model is not None and any(CONTROLS[name].at_equal_cost for name in names)
    if in_usd and price_of(cell.model or "", read_prices()) is None:
        raise UserError(
            f"The price of {cell.model} is unknown, so the controls of {cell.system} cannot have an equal cost in USD: "
            "add the price to the file that MOOT_PRICES names, or set `equal: tokens` or `equal: calls`.",
            kind="invalid_setting",
        )
    for name in names:
        graph, budget = CONTROLS[name].graph, equal if CONTROLS[name].at_equal_cost else None
        settings = shared_settings(load_graph(graph).settings, cell.settings)
        label = f"{cell.system} {name.replace('_', ' ')}"
        label += "" if budget in (None, "tokens") else f" at equal {BUDGET_NAMES[equal]}"
        yield Cell(label, graph, cell.task, settings, cell.model, cell.seed, name, cell, cell.position, budget)
