"""The settings and resources of a gate: agents whose answers may make a debate unnecessary."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar, get_args

from moot.nodes._models.objects import with_names
from moot.nodes._runtime.opening import Needs
from moot.nodes._runtime.settings import PLANNER, PlanSettings, Settings, ask_person, by_preset, checked_settings
from moot.nodes._speakers.debaters import Debater
from moot.nodes._speakers.turns import SHARED_ROLES, check_unique_names, needs_for
from moot.nodes._steps.retrieving import sources_of
from pydantic import AfterValidator, Field

DebateAfterGate = Literal[
    "tool_mad",
    "tool_mad_consistency",
    "madke",
    "proclaim",
    "standard_mad",
    "madam_rag",
    "debate_cv",
    "free_mad",
    "cortex_debate",
    "society_of_minds",
    "tit_for_tat",
    "reconcile",
    "chat_eval",
    "peer_review",
    "group_debate",
    "neighbor_debate",
]
"""The systems whose debate may follow a gate."""
OWN_SETTINGS = {
    "agents",
    "models",
    "query_formulation",
    "retrieval",
    "ask_person",
    "reader_summary",
    "calibration",
    "robustness",
    "require_warrant",
    "second_opinion",
    "doubt_below",
}
OWN_SETTINGS |= {"budget", "max_cost", "max_calls", "max_seconds"}
"""The settings that the gate does not pass to the debate. Of `models`, the entries for the debate's roles are passed.

Ceilings are not passed, because the gate's ceilings already limit the gate and the debate together.
"""
S = TypeVar("S", bound=Settings)


def _check_names(agents: tuple[Debater, ...]) -> tuple[Debater, ...]:
    check_unique_names((agent.name for agent in agents), {PLANNER} | SHARED_ROLES)
    return agents


class GateSettings(PlanSettings):
    """Settings of a gate before a debate."""

    agents: Annotated[tuple[Debater, ...], AfterValidator(_check_names)] = Field(
        default=(
            Debater(name="reader-1", retriever="chroma"),
            Debater(name="reader-2", retriever="web"),
            Debater(name="reader-3", retriever=("chroma", "web")),
        ),
        min_length=2,
        max_length=8,
        description="The agents that answer independently: two or more, each with its own retriever or none.",
    )
    query_formulation: bool = Field(default=True, description="Off: the claim itself is the agents' query.")
    retrieval: Literal["once", "none"] = Field(default="once", description="none: the agents do not search.")
    min_verified: int = Field(
        default=1,
        ge=0,
        le=8,
        description="Minimum number of origins with a verified quote in answers that agree. If there are fewer, the "
        "gate does not settle the claim.",
    )
    trigger: Literal["differ", "unwarranted", "self_critique", "always", "never"] = Field(
        default="differ",
        description="When the debate follows. differ: if the answers differ, or have too few verified quotes; "
        "unwarranted: also if no quote of theirs bears the common answer out, as the role scorer finds; "
        "self_critique: also if an agent, asked once to attack its own answer, changes it; always: after every gate; "
        "never: not at all, and the answer of most agents is the verdict.",
    )
    open_continues: bool = by_preset(
        paper=False,
        practical=True,
        description="On: the debate also follows if all agents answer that the evidence does not settle the claim, "
        "unless `trigger` is never. Debaters that search in every round then search on.",
    )
    debate: DebateAfterGate = Field(default="tool_mad", description="The system of the debate that follows.")
    debate_settings: Annotated[dict[str, Any], AfterValidator(with_names)] = Field(
        default={},
        description="Settings of the debate that follows. Most settings that you change for the gate also apply to "
        "that debate, unless they are set here.",
    )
    ask_person: tuple[Literal["queries", "evidence"], ...] = ask_person()

    @property
    def searches(self) -> bool:
        """Whether the gate searches."""
        return self.retrieval == "once" and any(agent.retriever for agent in self.agents)

    def of_debate(self, kind: type[S]) -> S:
        """The settings of the debate: its defaults, overridden by settings of the gate, then by `debate_settings`.

        The gate passes a setting only if the debate also has it and the value differs from the gate's default under its
        preset. The settings in `OWN_SETTINGS` are not passed, except the models of the debate's roles.

        The debate's first round uses the gate's evidence. So debaters that search in every round start to search in the
        second round, and a pool that is filled once contains only the gate's evidence. The setting ``retrieval`` in
        `debate_settings` can change this.

        Args:
            kind: the class of the debate's settings.

        Raises:
            UserError: a setting is unknown, or a value is invalid.
        """
        usual = self.usual()
        # Of the settings in `OWN_SETTINGS`, only the models of the debate's roles are passed on.
        both = usual.keys() & kind.model_fields.keys() - OWN_SETTINGS - kind.without
        values = {name: getattr(self, name) for name in both if getattr(self, name) != usual[name]}
        retrieval = kind.model_fields.get("retrieval")
        choices = get_args(retrieval.annotation) if retrieval else ()
        # The debate's first round uses the gate's evidence: debaters search from the second on, pools not at all.
        values |= {"retrieval": "later" if "later" in choices else "none"} if retrieval else {}
        values |= self.debate_settings
        roles = checked_settings(kind, values).roles() or set()
        models = {role: model for role, model in self.models.items() if role in roles}
        return checked_settings(kind, {"models": models, **values})


def gate_roles(settings: GateSettings, debate: Settings) -> set[str]:
    """The roles that may have a model of their own, in the gate and in the debate.

    Args:
        settings: the gate's settings.
        debate: the debate's settings.

    Raises:
        ValueError: an agent of the gate has the same name as a role in the debate.
    """
    own, others = {agent.name for agent in settings.agents}, debate.roles() or set()
    if twice := sorted(own & others):
        raise ValueError(f"agents: {twice[0]!r} is also a role in {settings.debate}; choose another name")
    return own | others | {PLANNER} | SHARED_ROLES


def gate_needs(settings: GateSettings, debate: Needs) -> Needs:
    """The resources of the gate and, unless the setting ``trigger`` is ``never``, of the debate.

    Args:
        settings: the gate's settings.
        debate: the debate's resources.
    """
    found = [name for agent in settings.agents for name in sources_of(agent.model_dump())]
    found += [name for agent in settings.agents for name in agent.fallback]
    own = {agent.name: agent.model for agent in settings.agents}
    own |= {"scorer": None} if settings.trigger == "unwarranted" else {}
    gate = needs_for(settings, own, found if settings.retrieval == "once" else [])
    if settings.trigger == "never":
        return gate
    sources = list(dict.fromkeys((*gate.sources, *debate.sources)))
    return Needs(sources, {**gate.roles, **debate.roles}, debate.encoder, gate.summariser or debate.summariser)
