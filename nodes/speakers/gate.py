"""Who answers before a debate, and which debate is held if that does not settle it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar, get_args

from moot.nodes.runtime.opening import Needs
from moot.nodes.runtime.settings import EvidenceSettings, Settings, ask_person, checked_settings
from moot.nodes.speakers.debaters import Debater
from moot.nodes.speakers.hand_over import SHARED_ROLES, named_once, needs_for
from moot.nodes.steps.retrieve import sources_of
from pydantic import AfterValidator, Field

Held = Literal[
    "tool_mad",
    "tool_mad_consistency",
    "madke",
    "proclaim",
    "standard_mad",
    "cortex_debate",
    "society_of_minds",
    "tit_for_tat",
    "reconcile",
    "chat_eval",
    "peer_review",
    "group_debate",
    "neighbor_debate",
]
"""Debates that a gate may stand before."""
OWN = {
    "agents",
    "models",
    "query_formulation",
    "retrieval",
    "ask_person",
    "reader_summary",
    "calibration",
    "robustness",
}
OWN |= {"budget", "max_cost", "max_calls", "max_seconds"}
"""Settings of the gate that the debate has not: ceilings hold for both together."""
S = TypeVar("S", bound=Settings)


def _named_once(agents: tuple[Debater, ...]) -> tuple[Debater, ...]:
    named_once((agent.name for agent in agents), SHARED_ROLES)
    return agents


class GateSettings(EvidenceSettings):
    """Settings of a gate before a debate."""

    agents: Annotated[tuple[Debater, ...], AfterValidator(_named_once)] = Field(
        (
            Debater(name="reader-1", retriever="chroma"),
            Debater(name="reader-2", retriever="web"),
            Debater(name="reader-3", retriever=("chroma", "web")),
        ),
        min_length=2,
        max_length=8,
        description="Who answers independently: two or more, each with its own retriever or none.",
    )
    query_formulation: bool = Field(True, description="Off: the claim itself is their query.")
    retrieval: Literal["once", "none"] = Field("once", description="none: they look for nothing.")
    min_verified: int = Field(
        1, ge=0, le=8, description="Fewest origins from which an answer that all give has a verified quote."
    )
    when: Literal["disputed", "never", "always"] = Field(
        "disputed",
        description="When the debate is held: if the gate does not settle the claim, never (then most answers decide), "
        "or always.",
    )
    debate: Held = Field("tool_mad", description="The system whose debate is held.")
    debate_settings: dict[str, Any] = Field(
        {},
        description="Settings of that debate. Those that both have are as they are set here, unless they stand there.",
    )
    ask_person: tuple[Literal["queries", "evidence"], ...] = ask_person()

    def of_debate(self, kind: type[S]) -> S:
        """The settings of the debate: what is set here of those that both have, then those meant for it alone.

        Its first round starts from the gate's evidence: who looks for evidence in every round does so from the second
        on, and a pool that is filled once is that evidence.

        Args:
            kind: the debate's settings.

        Raises:
            UserError: a setting that it does not have, or a value that it does not take.
        """
        fields = type(self).model_fields
        both = fields.keys() & kind.model_fields.keys() - OWN
        values = {name: getattr(self, name) for name in both if getattr(self, name) != fields[name].default}
        retrieval = kind.model_fields.get("retrieval")
        choices = get_args(retrieval.annotation) if retrieval else ()
        values |= {"retrieval": "later" if "later" in choices else "none"} if retrieval else {}
        values |= self.debate_settings
        roles = checked_settings(kind, values).roles() or set()
        models = {role: model for role, model in self.models.items() if role in roles}
        return checked_settings(kind, {"models": models, **values})


def gate_roles(settings: GateSettings, debate: Settings) -> set[str]:
    """Who may have a model of its own, before the debate and in it.

    Raises:
        ValueError: somebody of both has one name.
    """
    own, others = {agent.name for agent in settings.agents}, debate.roles() or set()
    if twice := sorted(own & others):
        raise ValueError(f"agents: {twice[0]!r} is somebody in {settings.debate}; give this one another name")
    return own | others | SHARED_ROLES


def gate_needs(settings: GateSettings, debate: Needs) -> Needs:
    """What the gate uses, and the debate if it may be held.

    Args:
        settings: the gate's.
        debate: what that uses.
    """
    found = [name for agent in settings.agents for name in sources_of(agent.model_dump())]
    found += settings.standing_in(name for agent in settings.agents for name in agent.fallback)
    own = {agent.name: agent.model for agent in settings.agents}
    gate = needs_for(settings, own, found if settings.retrieval == "once" else [])
    if settings.when == "never":
        return gate
    sources = list(dict.fromkeys((*gate.sources, *debate.sources)))
    return Needs(sources, {**gate.roles, **debate.roles}, debate.encoder, gate.summariser or debate.summariser)
