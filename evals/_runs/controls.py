"""Controls: the baselines that a debate must beat to be worth its cost.

The controls run after a debate on the same samples, and read figures from its log (`moot.evals._runs.reference`):

- `self_consistency`: chains of thought and a vote, for at most as many tokens, USD or calls as the debate used on the
  same sample;
- `self_correction`: a single agent that answers as often as a debater did, and revises its own answer;
- `answers_alone`: as many agents as the debate had, each of which does the same, and hears nobody;
  their vote is the verdict. So the debate differs from it only in what its speakers tell each other and search for;
- `single_call`: one call that reads the evidence in the debate's result;
- `self_consistency_with_evidence` and `self_correction_with_evidence`: the first two controls, but they read the
  evidence in the debate's result. They show whether a debate wins only because of its evidence.

If a debate has no outcome on a sample, this sample is missing data for the debate's controls. If the debate's cost on
a sample, in the unit of the budget, is unknown or 0, the sample is missing data for the self-consistency controls.

A retrieval variant is the debate's system with another setting of retrieval. Further controls are derived from logs,
and need no call (`moot.evals._report.comparison`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from inspect_ai.solver import Solver, TaskState, solver
from moot.core.errors import UserError
from moot.evals._runs.reference import Reference, References
from moot.evals._runs.solver import (
    DebateFailed,
    Question,
    debate_solver,
    refuse_fact_checks,
    run_debate,
    settings_for_sample,
)
from moot.graphs import load_graph
from moot.nodes._models.equal_cost import ceiling_settings
from moot.nodes._runtime.settings import EvidenceSettings, Settings, checked_settings
from moot.nodes._runtime.state import Equal

Control = Literal[
    "self_consistency",
    "self_correction",
    "answers_alone",
    "single_call",
    "self_consistency_with_evidence",
    "self_correction_with_evidence",
]


@dataclass(frozen=True)
class MatchedControl:
    """A control: its graph, and a function that computes its settings for one sample.

    ``reads_evidence``: whether the control reads the debate's evidence. ``at_equal_cost``: whether the control's budget
    is the debate's cost.
    """

    graph: str
    settings: Callable[[Reference, Equal], dict[str, Any]]
    reads_evidence: bool = False
    at_equal_cost: bool = False


def _same_cost_settings(debate: Reference, equal: Equal) -> dict[str, Any]:
    return ceiling_settings(debate.cost, equal)


def _same_answers_settings(debate: Reference, equal: Equal) -> dict[str, Any]:
    return {"agents": 1, "max_rounds": debate.answers}


def _alone_settings(debate: Reference, equal: Equal) -> dict[str, Any]:
    return {"agents": debate.agents, "max_rounds": debate.answers, "hear": "nobody"}


CONTROLS: dict[Control, MatchedControl] = {
    "self_consistency": MatchedControl("self_consistency", _same_cost_settings, at_equal_cost=True),
    "self_correction": MatchedControl("society_of_minds", _same_answers_settings),
    "answers_alone": MatchedControl("society_of_minds", _alone_settings),
    "single_call": MatchedControl("rag", lambda debate, equal: {"retrieval": "none"}, reads_evidence=True),
    "self_consistency_with_evidence": MatchedControl(
        "self_consistency", _same_cost_settings, reads_evidence=True, at_equal_cost=True
    ),
    "self_correction_with_evidence": MatchedControl("society_of_minds", _same_answers_settings, reads_evidence=True),
}


def is_debate(system: type[Settings]) -> bool:
    """Whether a system is a debate. A system with a setting for its number of rounds is a debate."""
    return not {"max_rounds", "rounds"}.isdisjoint(system.model_fields)


def controls_of(system: type[Settings], settings: Mapping[str, Any]) -> list[Control]:
    """The names of a system's controls; none if the system is not a debate."""
    if not is_debate(system):
        return []
    searches = settings.get("retrieval") != "none" and settings.get("sources", True)
    finds = searches and issubclass(system, EvidenceSettings)
    return [name for name, control in CONTROLS.items() if finds or not control.reads_evidence]


def retrieval_variants(system: type[Settings], settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings of each retrieval variant of a system, by the variant's name.

    There is a variant for each retrieval mode of the system (none, once, every round), except the chosen mode. The mode
    ``later``, which retrieves in every round but the first, has no variant. A system with sources and the setting
    ``progressive_retrieval`` has the variant ``retrieval none`` and, if the setting is True, also ``retrieval once``.
    """
    if "retrieval" in system.model_fields:
        field: Any = system.model_fields["retrieval"]
        chosen = settings.get("retrieval", field.default)
        modes = [mode for mode in field.annotation.__args__ if mode not in (chosen, "later")]
        return {f"retrieval {mode.replace('_', ' ')}": {**settings, "retrieval": mode} for mode in modes}
    if "progressive_retrieval" in system.model_fields and settings.get("sources", True):
        once = {"retrieval once": {**settings, "progressive_retrieval": False}}
        none = {"retrieval none": {**settings, "sources": []}}
        return {**(once if settings.get("progressive_retrieval", True) else {}), **none}
    return {}


def matched_debate(
    name: Control, debate: Reference, equal: Equal, settings: Mapping[str, Any], question: Question
) -> tuple[Settings, Question]:
    """A control's settings and question on a sample: with the debate's budget, rounds or evidence."""
    matched = CONTROLS[name]
    chosen = checked_settings(load_graph(matched.graph).settings, {**settings, **matched.settings(debate, equal)})
    evidence = {"given": debate.evidence} if matched.reads_evidence and debate.evidence else {}
    return chosen, {**question, **evidence}


@solver(name="control")
def control(name: Control, logs: str, of: str, run: str = "", equal: Equal = "tokens", **settings: Any) -> Solver:
    """The solver of a control, for a debate that has already run on the same samples."""
    matched = CONTROLS[name]
    system = load_graph(matched.graph)
    refuse_fact_checks(system, checked_settings(system.settings, settings, matched.graph))
    debates = References(logs, of)

    async def run_sample(question: Question, sample: TaskState) -> dict[str, Any]:
        debate = await debates.for_sample(sample.sample_id)
        if debate is None:
            raise DebateFailed("unknown_budget: the debate itself has no outcome on this sample")
        try:
            chosen, asked = matched_debate(name, debate, equal, settings, question)
        except UserError as error:
            raise DebateFailed(f"unknown_budget: {error.detail}") from error
        return await run_debate(system, asked, settings_for_sample(chosen, sample, name, of, equal, settings))

    return debate_solver(run_sample)
