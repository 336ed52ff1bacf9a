"""Declarations of speakers, and the `Send`s that run their turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langgraph.types import Send
from moot.nodes._models.chat_models import ModelChoice
from moot.nodes._records.entries import Turn
from moot.nodes._runtime.opening import Needs
from moot.nodes._runtime.settings import PLANNER, EvidenceSettings, InWords, Name, NamedModel, PlanSettings, Settings
from moot.nodes._runtime.state import DebateState
from moot.nodes._texts.given import inherited_plan
from moot.nodes._texts.plans import plan_of
from moot.nodes._texts.show import cited_ids, show_remarks
from moot.retrievers import Evidence
from moot.retrievers._evidence import active_evidence, given_evidence
from moot.retrievers._search import SCHOLARLY, resolve
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

SHARED_ROLES = {"equivalence", "source_summariser", "scorer", "reviewer"}
"""Roles of all systems, whose models are called only if the task, the sources or the settings need them."""


class Agent(InWords):
    """The declaration of one of several agents."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name = Field(
        default="", description="Its name, which is also its role in `models`; by default numbered, as agent-1."
    )
    model: NamedModel | ModelChoice | None = Field(default=None, description="Its model, if it differs from `model`.")
    seed: int | None = Field(
        default=None,
        ge=0,
        lt=2**31,
        description="Its sampling seed, if the endpoint accepts one; each call's own seed is derived from it.",
    )
    parameters: float | None = Field(
        default=None,
        ge=1e6,
        description="Number of parameters of its model (N), e.g. 7e9, for CortexDebate; by default from a table.",
    )
    tokens: float | None = Field(
        default=None,
        ge=1e6,
        description="Tokens that its model was pre-trained on (M), e.g. 1.5e13; by default from a table.",
    )
    persona: str | None = Field(
        default=None,
        min_length=1,
        max_length=1000,
        description="The persona that the agent adopts, e.g. a sceptical physician.",
    )


def number_speakers(prefix: str) -> Any:
    """A validator for a list or number of speakers, which names unnamed ones ``prefix-1``, ``prefix-2`` by position."""

    def add_names(given: Any) -> Any:
        if isinstance(given, int) and not isinstance(given, bool):
            given = [{}] * min(max(given, 0), 1000)
        return tuple(
            {**one, "name": one.get("name") or f"{prefix}-{i}"} if isinstance(one, Mapping) else one
            for i, one in enumerate(as_mappings(given, ", or a number"), 1)
        )

    return BeforeValidator(add_names)


def as_mappings(given: Any, other_form: str = "") -> list[Any]:
    """Speakers and models' names as mappings; other elements stay, because the field's type refuses them later."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise ValueError(f"expected a list of objects or of models' names{other_form}")
    plain = [one.model_dump(exclude_unset=True) if isinstance(one, BaseModel) else one for one in given]
    return [{"model": one} if isinstance(one, str) else one for one in plain]


def fixed_speakers(*names: str) -> Any:
    """A validator for speakers that must have these names, in this order.

    A speaker without a name gets the name for its position. The validator does not check the number of speakers; the
    field must do this.

    Args:
        names: the names.
    """

    def add_names(given: Any) -> Any:
        plain = as_mappings(given)
        if any(isinstance(o, Mapping) and o.get("name", n) != n for o, n in zip(plain, names, strict=False)):
            raise ValueError(f"the names must be {' and '.join(names)}, in this order")
        return tuple({**o, "name": n} if isinstance(o, Mapping) else o for o, n in zip(plain, names, strict=False)) + (
            tuple(plain[len(names) :])
        )

    return BeforeValidator(add_names)


def check_unique_names(names: Iterable[str], reserved: Iterable[str]) -> None:
    """Checks that speakers have unique names, none of which is reserved."""
    names = list(names)
    if set(reserved) & set(names) or len(set(names)) < len(names):
        raise ValueError(
            f"each speaker needs its own name, and these names are reserved: {', '.join(sorted(reserved))}; "
            f"given are {names}"
        )


def needs_for(
    settings: Settings,
    speakers: Mapping[str, str | ModelChoice | None],
    sources: Iterable[str] = (),
    *,
    encoder: bool = False,
) -> Needs:
    """The resources that speakers and sources need.

    Args:
        settings: the debate's settings.
        speakers: the model of each speaker, by the speaker's name; None for the model in the settings.
        sources: the names of the sources to open.
        encoder: whether a text encoder is needed.
    """
    sources, roles = list(sources), dict(speakers)
    if isinstance(settings, PlanSettings) and settings.plans:
        roles[PLANNER] = None
    if isinstance(settings, EvidenceSettings):
        roles |= {"scorer": None} if settings.assess else {}
        roles |= {"reviewer": None} if settings.second_opinion else {}
    scholarly = isinstance(settings, EvidenceSettings) and any(resolve(name)[0] in SCHOLARLY for name in sources)
    summariser = getattr(settings, "source_summaries", "none")
    if scholarly and summariser == "model":
        roles["source_summariser"] = None
    return Needs(sources, roles, encoder, summariser if scholarly and summariser not in ("model", "none") else None)


def send_turn(
    to: str,
    state: DebateState,
    speaker: Mapping[str, Any],
    turn: Turn,
    *,
    opponents: Sequence[Turn] = (),
    own: Turn | None = None,
    evidence: Sequence[Evidence] | None = None,
    pool: Sequence[Evidence] = (),
    **more: Any,
) -> Send:
    """Builds the `Send` that runs a speaker's turn at a node; by default, only the given evidence is shown."""
    evidence = given_evidence(state["evidence"]) if evidence is None else active_evidence(evidence)
    heard = [*opponents, *([own] if own else [])]
    cited, shown = cited_ids(heard), {piece["id"] for piece in evidence}
    keys = {
        "claim": state["claim"],
        "task": state["task"],
        "settings": state.get("settings", {}),
        "debater": {**speaker, **person_instructions(state)},
        "opponents": list(opponents),
        "own": own,
        "cited": [piece for piece in active_evidence(state["evidence"]) if piece["id"] in cited - shown],
        "evidence": list(evidence),
        "pool": [piece for piece in active_evidence(pool) if piece["id"] not in shown],
        "retrieval": next((turn.get("retrieval") for turn in state["turns"] if turn["step"] == "retrieve"), None),
        "turns": [turn | {"evidence_ids": [piece["id"] for piece in evidence]}],
        "depth": state["depth"],
        "plan": plan_of(state["turns"]) or inherited_plan(),
    }
    return Send(to, keys | more)


def person_instructions(state: DebateState) -> dict[str, Any]:
    """A person's remarks and questions (``told``), and the ids of the evidence that a person excluded (``struck``)."""
    struck = [piece["id"] for piece in state["evidence"] if piece.get("struck")]
    remarks = show_remarks(state["turns"])
    return ({"told": remarks} if remarks else {}) | ({"struck": struck} if struck else {})


def speaker_declaration(speaker: BaseModel) -> dict[str, Any]:
    """A speaker's declaration as plain JSON; options of its model that were not set are left out."""
    model = getattr(speaker, "model", None)
    plain = speaker.model_dump(mode="json")
    return plain | ({"model": model.model_dump(exclude_unset=True)} if isinstance(model, BaseModel) else {})
