"""The plan of an evaluation: graphs x tasks x models x seeds, from a small YAML file or from flags."""

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
from moot.evals._attacks.attack import MOST_PIECES, POISONED, Attack, files_digest
from moot.evals._benchmarks.catalogue import benchmark_names
from moot.evals._runs.controls import CONTROLS, Control, controls_of, is_debate, retrieval_variants
from moot.evals._stats.measures import package
from moot.evals._stats.significance import Family
from moot.graphs import load_graph
from moot.graphs._registry import suggest
from moot.nodes._models.equal_cost import BUDGET_NAMES, shared_settings
from moot.nodes._models.prices import price_of, read_prices
from moot.nodes._runtime.settings import EvidenceSettings, ModelName, Settings, checked_settings, problem_of
from moot.nodes._runtime.state import Equal
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

SPEAKERS = {"models", "agents", "debaters", "judges"}
"""Settings that may give a role its own model."""


class System(BaseModel):
    """A debate system with its own settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    graph: str = Field(description="See `moot graphs`.")
    label: str = Field(default="", max_length=80, description="Its label in reports; by default its graph.")
    settings: dict[str, Any] = Field(default={}, description="See `moot settings GRAPH`.")


class Benchmarked(BaseModel):
    """A benchmark and where its records are."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="A benchmark; see `moot eval tasks`.")
    data: Path | None = Field(default=None, description="A file or folder in the published format; without it the Hub.")
    limit: int | None = Field(default=None, ge=1, description="Maximum number of items.")

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in (known := benchmark_names()):
            raise ValueError(f"there is no benchmark {name!r}. {suggest(name, known)}")
        return name

    @field_validator("data")
    @classmethod
    def _whole(cls, data: Path | None, info: ValidationInfo) -> Path | None:
        """Read a path; the validation context is the folder that paths are relative to, if it is not the current
        one."""
        return (info.context or Path()).absolute() / data.expanduser() if data else None


class Plan(BaseModel):
    """An evaluation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    graphs: tuple[System, ...] = Field(min_length=1, description="Debate systems: names, or objects.")
    tasks: tuple[Benchmarked, ...] = Field(min_length=1, description="Benchmarks: names, objects, or name to path.")
    models: tuple[ModelName | None, ...] = Field(default=(None,), min_length=1, description="Models of all roles.")
    seeds: tuple[int | None, ...] = Field(default=(None,), min_length=1, description="Sampling seeds, one run each.")
    settings: dict[str, Any] = Field(default={}, description="Settings of every system that has them.")
    limit: int | None = Field(default=None, ge=1, description="Maximum number of items of each benchmark.")
    sample_seed: int | None = Field(
        default=None, description="Draws the items at random; by default the first are taken."
    )
    judge: ModelName | None = Field(default=None, description="A model that says whether answers in words are right.")
    judge_may_debate: bool = Field(
        default=False, description="Whether that model may also speak in debates that it judges."
    )
    controls: bool | tuple[Control | Literal["retrieval"], ...] = Field(
        default=False, description="Whether each debate's controls run beside it: all, or only the named ones."
    )
    equal: Equal = Field(
        default="tokens",
        description="Budget that self-consistency shares with its debate: tokens, usd (list prices) or calls.",
    )

    attacks: tuple[Attack, ...] = Field(default=(), description="Attacks under which each debate runs again.")
    pieces: int = Field(default=3, ge=1, le=MOST_PIECES, description="Number of poisoned passages in each search.")
    kept_back: bool = Field(
        default=False, description="Whether attackers use the templates and passages that are kept back for a check."
    )
    attacker: ModelName | None = Field(
        default=None, description="The model that writes adaptive passages; by default each debate's own."
    )
    family: Family = Field(
        default="report",
        description="Holm's correction is over all tests of a report, or over those of each benchmark.",
    )

    @field_validator("graphs", mode="before")
    @classmethod
    def _names(cls, given: Any) -> Any:
        return [{"graph": one} if isinstance(one, str) else one for one in given] if isinstance(given, list) else given

    @field_validator("tasks", mode="before")
    @classmethod
    def _places(cls, given: Any) -> Any:
        if isinstance(given, Mapping):
            return [{"name": name, "data": data} for name, data in given.items()]
        return [{"name": one} if isinstance(one, str) else one for one in given] if isinstance(given, list) else given


@dataclass(frozen=True)
class Cell:
    """One system on one benchmark with one model and seed: a log of its own.

    ``of`` is the cell whose control this one is, and ``control`` its kind (None for a retrieval variant).
    ``position`` is the place of its debate among the plan's systems. ``equal`` is the budget that a control shares with
    its debate, if any. ``attack`` is the attack under which the debate ``of`` runs again, if any: arguments of
    `moot.evals._attacks.solver.attacked`.
    """

    system: str
    graph: str
    task: Benchmarked
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
        """A key that identifies this cell, whatever its label."""
        said: list[Any] = [self.graph, self.settings, self.control, self.of.key if self.of and self.control else None]
        said += [self.task.name, str(self.task.data), self.task.limit]
        said += [self.equal] if self.equal not in (None, "tokens") else []
        said += [self.attack] if self.attack else []
        return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()[:16]

    def facts(self) -> dict[str, Any]:
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
    """Read a plan from a YAML file; paths are relative to its folder, and fields in ``given`` take precedence.

    Args:
        path: the file.
        given: fields of `Plan` that override the file's.

    Raises:
        UserError: no such file, not YAML, or not a plan, with the field and its fault.
    """
    try:
        said = package("yaml").safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).", kind="missing_file") from error
    except (UnicodeDecodeError, package("yaml").YAMLError) as error:
        raise UserError(f"{path} is not a YAML file: {' '.join(str(error).split())}.", kind="invalid_file") from error
    if not isinstance(said, Mapping):
        raise UserError(f"{path} does not contain a plan: graphs and tasks, at least.", kind="invalid_file")
    settings = {**(said.get("settings") or {}), **(given.get("settings") or {})}
    return make_plan({**said, **given, "settings": settings}, f"{path}: ", Path() if "tasks" in given else path.parent)


def make_plan(given: Mapping[str, Any], where: str = "", folder: Path | None = None) -> Plan:
    """Make a plan from plain values.

    Args:
        given: its fields.
        where: a prefix of error messages.
        folder: the folder that paths are relative to; None for the current one.

    Raises:
        UserError: a field is missing, unknown, or invalid.
    """
    try:
        return Plan.model_validate(given, context=folder)
    except ValidationError as error:
        wrong = error.errors()
        within = {e["loc"][0] for e in wrong if len(e["loc"]) > 1}
        # Pydantic also calls a list too short whose items are wrong
        wrong = [e for e in wrong if e["type"] != "too_short" or e["loc"][0] not in within]
        said = dict.fromkeys(problem_of(Plan, e, "field") for e in wrong[:5])
        raise UserError(f"{where}{'; '.join(said)}", kind="invalid_setting") from error


def cells_of(plan: Plan) -> list[Cell]:
    """All cells of a plan: the systems first, then their controls.

    Raises:
        UserError: an unknown graph or setting, a value out of its range, two identical systems, or a model without a
            price if its controls must cost the same in USD.
    """
    known = {key for system in plan.graphs for key in load_graph(system.graph).settings.model_fields}
    if unknown := sorted(set(plan.settings) - known):
        raise UserError(f"None of the graphs has a setting {unknown[0]!r}.", kind="invalid_setting")
    cells = [
        replace(cell_of(plan, task, system, model, seed), position=position)
        for task, (position, system), model, seed in product(
            plan.tasks, enumerate(plan.graphs), plan.models, plan.seeds
        )
    ]
    keys = Counter(cell.key for cell in cells)
    if again := [cell.system for cell in cells if keys[cell.key] > 1]:
        raise UserError(
            f"The plan runs the same more than once ({', '.join(dict.fromkeys(again))}): give each graph, model, seed "
            "and task once, or settings that differ.",
            kind="invalid_setting",
        )
    _check_told_apart(cells)
    wanted = {*CONTROLS, "retrieval"} if plan.controls is True else set(plan.controls or ())
    debates = cells if "retrieval" in wanted else []
    variants = {made.key: made for cell in debates for made in _variants(cell) if made.key not in keys}
    controls = [made for cell in cells for made in _controls(cell, wanted, plan.equal)]
    return [*cells, *variants.values(), *controls, *(made for cell in cells for made in _attacked(cell, plan))]


def _check_told_apart(cells: Sequence[Cell]) -> None:
    """Refuse two systems or files that reports would show under one name.

    Raises:
        UserError: two systems with one label, or two files of one benchmark.
    """
    for said, of in (("systems called", "system"), ("files of the benchmark", "task")):
        groups: dict[str, set[str]] = {}
        for cell in cells:
            own = {key: value for key, value in cell.settings.items() if key not in ("model", "seed")}
            name, differs = (
                (cell.system, [cell.graph, own]) if of == "system" else (cell.task.name, str(cell.task.data))
            )
            groups.setdefault(name, set()).add(json.dumps(differs, sort_keys=True, default=str))
        if several := [name for name, different in groups.items() if len(different) > 1]:
            raise UserError(
                f"The plan has several {said} {several[0]!r}: give systems labels of their own, and run files of one "
                "benchmark apart, into other folders.",
                kind="invalid_setting",
            )


def cell_of(plan: Plan, task: Benchmarked, system: System, model: str | None, seed: int | None) -> Cell:
    """Make the cell of a system on a benchmark; its own settings override the model and seed, and these the plan's
    settings.

    Raises:
        UserError: an unknown graph or setting, a value out of its range, or `sources` of a plan for a system whose
            speakers have their own sources.
    """
    kind = load_graph(system.graph).settings
    own = "sources" in plan.settings and speakers_with_sources(kind)
    if own and own not in {**plan.settings, **system.settings}:
        raise UserError(
            f"{system.label or system.graph} does not read the plan's `sources`: each of its {own} has a `retriever`. "
            f"Name its {own}, in its settings or the plan's.",
            kind="invalid_setting",
        )
    named = {key: value for key, value in (("model", model), ("seed", seed)) if value is not None}
    settings = {**{k: v for k, v in plan.settings.items() if k in kind.model_fields}, **named, **system.settings}
    checked_settings(kind, settings, system.graph)
    task = task.model_copy(update={"limit": min(filter(None, (task.limit, plan.limit)), default=None)})
    label = system.label.strip() or system.graph
    return Cell(label, system.graph, task, settings, settings.get("model"), settings.get("seed"))


def speakers_with_sources(kind: type[Settings]) -> str | None:
    """The setting that lists speakers with their own sources; None if a system has no such speakers."""
    plain = {} if "sources" in kind.model_fields else kind().model_dump(mode="json")
    return next((key for key in SPEAKERS & plain.keys() if any("retriever" in one for one in plain[key] or ())), None)


def _variants(cell: Cell) -> Iterable[Cell]:
    kind = load_graph(cell.graph).settings
    for name, settings in retrieval_variants(kind, cell.settings).items() if is_debate(kind) else ():
        yield replace(cell, system=f"{cell.system} {name}", settings=settings, of=cell)


def _attacked(cell: Cell, plan: Plan) -> Iterable[Cell]:
    """Copies of a cell under each attack that its system can be tested with."""
    kind = load_graph(cell.graph).settings
    for attack in plan.attacks:
        hits = is_debate(kind) if attack == "lying_debater" else issubclass(kind, EvidenceSettings)
        if hits:
            said: dict[str, Any] = {"attack": attack, "kept_back": plan.kept_back, "texts": files_digest()}
            said |= {"pieces": plan.pieces} if attack in POISONED else {}
            said |= {"attacker": plan.attacker} if attack == "adaptive" and plan.attacker else {}
            yield replace(cell, system=f"{cell.system} under {attack.replace('_', ' ')}", of=cell, attack=said)


def _controls(cell: Cell, wanted: Collection[str], equal: Equal) -> Iterable[Cell]:
    names = [name for name in controls_of(load_graph(cell.graph).settings, cell.settings) if name in wanted]
    if names and cell.model is None and not SPEAKERS.isdisjoint(cell.settings):
        raise UserError(
            f"The controls of {cell.system} need one model: name one under `models`, beside those of its single roles.",
            kind="invalid_setting",
        )
    costs = equal == "usd" and cell.model is not None and any(CONTROLS[name].at_cost for name in names)
    if costs and price_of(cell.model or "", read_prices()) is None:
        raise UserError(
            f"No price is known of {cell.model}, so the controls of {cell.system} cannot be its equals in USD: put its "
            "price into a file that MOOT_PRICES names, or take `equal: tokens` or `calls`.",
            kind="invalid_setting",
        )
    for name in names:
        graph, own = CONTROLS[name].graph, equal if CONTROLS[name].at_cost else None
        settings = shared_settings(load_graph(graph).settings, cell.settings)
        label = f"{cell.system} {name.replace('_', ' ')}"
        label += "" if own in (None, "tokens") else f" at equal {BUDGET_NAMES[equal]}"
        yield Cell(label, graph, cell.task, settings, cell.model, cell.seed, name, cell, cell.position, own)
