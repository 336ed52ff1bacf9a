"""``moot verify --beside``: runs a control after a debate, at the same cost as the debate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from moot.cli.resuming import DebateSetup
from moot.core.errors import MootError, UserError
from moot.graphs import DebateSystem, load_graph
from moot.nodes._models.equal_cost import BUDGET_NAMES, FullCost, ceiling_settings, full_cost, ratios, shared_settings
from moot.nodes._models.prices import price_of, read_prices
from moot.nodes._models.replies import StoreUse
from moot.nodes._models.seeds import derived_seed
from moot.nodes._runtime.settings import DEMONSTRATION, Settings, checked_settings
from moot.nodes._runtime.state import ControlRun, Equal

CONTROLS = ("self_consistency",)
"""Controls that can run after a debate."""
RunDebate = Callable[[DebateSystem, DebateSetup], dict[str, Any]]
"""Runs a debate of a system, and returns the result document."""


@dataclass(frozen=True)
class Control:
    """A control that runs after a debate. The limit of its cost is the cost of the debate, in the measure ``equal``."""

    name: str
    equal: Equal


def parse_control(name: str | None, equal: str | None, settings: Settings) -> Control | None:
    """The control that the command line names; None if it names none.

    Args:
        name: the name of the control; None for no control.
        equal: the measure of cost; None for tokens.
        settings: the debate's settings.

    Raises:
        UserError: there is no such control or measure; a measure is named without a control; the setting `model` is a
            demonstration model although roles have other models; or the measure is USD, and `model` has no price or
            the file of prices cannot be used.
    """
    if name is None:
        if equal is not None:
            raise UserError("--equal needs --beside, which names the control.", kind="invalid_setting")
        return None
    if name not in CONTROLS:
        raise UserError(f"--beside takes {', '.join(CONTROLS)}, not {name!r}.", kind="invalid_setting")
    for measure in BUDGET_NAMES:
        if measure == (equal or "tokens"):
            break
    else:
        raise UserError(f"--equal takes {', '.join(BUDGET_NAMES)}, not {equal!r}.", kind="invalid_setting")
    if settings.model is None:
        raise UserError(
            "The control uses only the model of the setting `model`, and not the models of single roles: name it with "
            "--model.",
            kind="missing_model",
        )
    if settings.own_model and settings.model.partition(":")[0] in DEMONSTRATION:
        raise UserError(
            f"The control uses only the model of the setting `model`, which is {settings.model}, and not the models of "
            "single roles. That model only demonstrates moot: name another one with --model.",
            kind="invalid_setting",
        )
    if measure == "usd" and price_of(settings.model, read_prices()) is None:
        raise UserError(
            f"No price is known for {settings.model}, so the cost in USD cannot be matched: add its price to the file "
            "that MOOT_PRICES names, or use --equal tokens or --equal calls.",
            kind="invalid_setting",
        )
    return Control(name, measure)


def run_control(
    control: Control,
    document: Mapping[str, Any],
    setup: DebateSetup,
    run_debate: RunDebate,
) -> ControlRun:
    """Runs a control at the same cost as a debate. A MootError of the control becomes the result's ``error``.

    Args:
        control: the control.
        document: the debate's document.
        setup: the debate's settings and use of the store.
        run_debate: runs the control on the debate's input.

    Raises:
        UserError: the file of prices cannot be used.
    """
    prices = read_prices()
    debate = full_cost(document["calls"], document["seconds"], prices)
    try:
        result = run_debate(load_graph(control.name), _control_setup(control, debate, setup))
    except MootError as error:
        return _control_result(control, debate, None, None) | {"error": error.record("beside")}
    return _control_result(control, debate, full_cost(result["calls"], result["seconds"], prices), result)


def _control_setup(control: Control, debate: FullCost, setup: DebateSetup) -> DebateSetup:
    kind = load_graph(control.name).settings
    own = shared_settings(kind, setup.settings.recorded()) | ceiling_settings(debate, control.equal)
    if setup.settings.seed is not None:
        own["seed"] = derived_seed(setup.settings.seed, "beside", control.name, control.equal)
    is_replay = setup.earlier is not None and setup.earlier.status == "done"
    return DebateSetup(
        checked_settings(kind, own), StoreUse("record" if is_replay else setup.use.mode, setup.use.adopt)
    )


def _control_result(
    control: Control, debate: FullCost, cost: FullCost | None, document: dict[str, Any] | None
) -> ControlRun:
    spent = {"debate": debate._asdict()} | ({"control": cost._asdict()} if cost else {})
    return {
        "control": control.name,
        "equal": control.equal,
        "taken": spent,
        "ratios": ratios(cost, debate) if cost else {},
        "document": document,
        "error": document["error"] if document else None,
    }
