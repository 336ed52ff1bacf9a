"""Who speaks in a round, and what each speaker is handed: the `Send`s that conditional edges return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

from langgraph.types import Send
from moot.nodes.agree import answers_of
from moot.nodes.debate import Needs
from moot.nodes.models import ModelChoice
from moot.nodes.settings import EvidenceSettings, ModelName, Name, Settings, SourcesSettings
from moot.nodes.show import cited_ids
from moot.nodes.state import DebateState, Turn
from moot.retrievers import Evidence
from moot.retrievers.search import SCHOLARLY, resolve
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

AGENT = "agent-1"
"""The one who speaks in a system of a single agent."""
POOL = "pool"
"""Who fills the evidence that all share; its role turns queries into keywords where a source wants them."""
SHARED_ROLES = {"equivalence", "source_summariser"}
"""Roles that any system may have, where its task or its sources want them."""
POOL_ROLES = {POOL, "judge", "summariser"} | SHARED_ROLES
"""Roles that no debater over a shared pool may be called."""


class Agent(BaseModel):
    """One of several agents."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name = Field("", description="Its name, which is also its role in `models`; by default its number's.")
    model: ModelName | ModelChoice | None = Field(None, description="Its model, where it differs from `model`.")
    seed: int | None = Field(None, ge=0, lt=2**31, description="Its sampling seed, where the endpoint takes one.")
    parameters: float | None = Field(
        None,
        gt=0,
        description="Its model's parameters (N), for CortexDebate; by default from the table that is shipped.",
    )
    tokens: float | None = Field(
        None, gt=0, description="Tokens that its model was pre-trained on (M), as for `parameters`."
    )
    persona: str | None = Field(
        None, min_length=1, max_length=1000, description="Whom it speaks as, e.g. a sceptical physician."
    )


def numbered(prefix: str) -> Any:
    """A validator that takes a number for a list of so many, and names those without a name: ``prefix-1``, ..."""

    def named(given: Any) -> Any:
        if isinstance(given, int) and not isinstance(given, bool):
            given = [{}] * min(max(given, 0), 1000)
        if not isinstance(given, Sequence) or isinstance(given, str):
            return given
        plain = [one.model_dump(exclude_unset=True) if isinstance(one, BaseModel) else one for one in given]
        return tuple(
            {**one, "name": one.get("name") or f"{prefix}-{i}"} if isinstance(one, Mapping) else one
            for i, one in enumerate(plain, 1)
        )

    return BeforeValidator(named)


def called(*names: str) -> Any:
    """A validator for speakers whose names are given, in this order; a mapping may leave its name out."""

    def named(given: Any) -> Any:
        if not isinstance(given, Sequence) or isinstance(given, str):
            return given
        plain = [one.model_dump(exclude_unset=True) if isinstance(one, BaseModel) else one for one in given]
        if any(isinstance(o, Mapping) and o.get("name", n) != n for o, n in zip(plain, names, strict=False)):
            raise ValueError(f"their names are {' and '.join(names)}, in this order")
        return tuple({**o, "name": n} if isinstance(o, Mapping) else o for o, n in zip(plain, names, strict=False)) + (
            tuple(plain[len(names) :])
        )

    return BeforeValidator(named)


def named_once(names: Iterable[str], reserved: Iterable[str]) -> None:
    """Checks that speakers have names of their own.

    Raises:
        ValueError: two have the same, or one has the name of another role.
    """
    names = list(names)
    if set(reserved) & set(names) or len(set(names)) < len(names):
        raise ValueError(f"each needs a name of its own, and not {', '.join(sorted(reserved))}: {names}")


class SingleAgentSettings(Settings):
    """Settings of systems with one agent that looks for nothing."""

    demonstrations: int = Field(0, ge=0, le=3, description="Worked examples that the prompt shows before the question.")

    def roles(self) -> set[str]:
        """Who may have a model of its own."""
        return {AGENT} | SHARED_ROLES


class SingleReaderSettings(SourcesSettings):
    """Settings of systems with one agent that reads evidence."""

    def roles(self) -> set[str]:
        """Who may have a model of its own."""
        return {AGENT} | SHARED_ROLES


def _free_names(debaters: tuple[Agent, ...]) -> tuple[Agent, ...]:
    named_once((d.name for d in debaters), POOL_ROLES)
    return debaters


class PoolDebateSettings(SourcesSettings):
    """Settings of debates over evidence that all debaters share."""

    debaters: Annotated[tuple[Agent, ...], numbered("debater"), AfterValidator(_free_names)] = Field(
        (Agent(name="debater-1"), Agent(name="debater-2")),
        min_length=2,
        max_length=50,
        description="Who debates: a list, or how many.",
    )
    max_rounds: int = Field(3, ge=1, le=20, description="Most rounds (T).")

    def roles(self) -> set[str]:
        """Who may have a model of its own."""
        return {d.name for d in self.debaters} | POOL_ROLES


# --- what they need -------------------------------------------------------------------------------------------------


def needs_for(
    settings: Settings,
    speakers: Mapping[str, str | ModelChoice | None],
    sources: Iterable[str] = (),
    *,
    encoder: bool = False,
) -> Needs:
    """What these speakers use, and what these sources want beside them."""
    sources, roles = list(sources), dict(speakers)
    scholarly = isinstance(settings, EvidenceSettings) and any(resolve(name)[0] in SCHOLARLY for name in sources)
    how = getattr(settings, "source_summaries", "none")
    if scholarly and how == "model":
        roles["source_summariser"] = None
    return Needs(sources, roles, encoder, how if scholarly and how not in ("model", "none") else None)


def single_needs(settings: Settings) -> Needs:
    """What a system with one agent uses."""
    shared = (*settings.sources, *settings.fallback) if isinstance(settings, SourcesSettings) else ()
    return needs_for(settings, {AGENT: None}, shared)


def pool_needs(settings: PoolDebateSettings, *roles: str) -> Needs:
    """What a debate over shared evidence uses, with these further roles."""
    speakers = {d.name: d.model for d in settings.debaters} | dict.fromkeys(roles)
    return needs_for(settings, speakers, (*settings.sources, *settings.fallback))


# --- what they are handed -------------------------------------------------------------------------------------------


def new_turn(round: int, agent: str, step: str = "respond", number: int | None = None) -> Turn:
    """A turn that has just begun."""
    turn: Turn = {"round": round, "phase": "primary", "agent": agent, "step": step}
    turn |= {"role": agent, "side": None, "query": None, "evidence_ids": [], "scores": {}}
    return turn if number is None else {**turn, "number": number}


def hand_over(
    to: str,
    state: DebateState,
    speaker: Mapping[str, Any],
    turn: Turn,
    *,
    opponents: Sequence[Turn] = (),
    own: Turn | None = None,
    evidence: Sequence[Evidence] = (),
    pool: Sequence[Evidence] = (),
    **more: Any,
) -> Send:
    """One speaker goes to the node ``to`` with a new turn and what it may see.

    Args:
        to: the node.
        state: the debate.
        speaker: an element of the list that declares who speaks, as a mapping; at least its name.
        turn: the turn that it takes.
        opponents: others' answers that it sees.
        own: its own last answer.
        evidence: what it is shown.
        pool: what it may select from.
        more: what the node reads beyond that.
    """
    heard = [*opponents, *([own] if own else [])]
    cited, shown = cited_ids(heard), {piece["id"] for piece in evidence}
    handed = {
        "claim": state["claim"],
        "task": state["task"],
        "debater": dict(speaker),
        "opponents": list(opponents),
        "own": own,
        "cited": [piece for piece in state["evidence"] if piece["id"] in cited - shown],
        "evidence": list(evidence),
        "pool": list(pool),
        "turns": [turn | {"evidence_ids": [piece["id"] for piece in evidence]}],
        "depth": state["depth"],
    }
    return Send(to, handed | more)


def declared(speaker: BaseModel) -> dict[str, Any]:
    """An element of the list that declares who speaks, as plain JSON; of its model only what was set."""
    model = getattr(speaker, "model", None)
    plain = speaker.model_dump(mode="json")
    return plain | ({"model": model.model_dump(exclude_unset=True)} if isinstance(model, BaseModel) else {})


def latest(state: DebateState, names: Iterable[str]) -> list[Turn]:
    """Each speaker's latest answer, in the order of the names; those who have not spoken yet are left out."""
    said = {turn["agent"]: turn for turn in state["turns"] if turn["step"] == "respond"}  # turns are in order
    return [said[name] for name in names if name in said]


def spoken(state: DebateState, names: Sequence[str], round: int, also_before: bool) -> list[Turn]:
    """Each speaker's latest answer; or all answers of a round and of the one before it, in their order."""
    if not also_before:
        return latest(state, names)
    given = [t for t in state["turns"] if t["step"] == "respond" and t["agent"] in names]
    return [t for t in given if t["round"] >= round - 1]


def to_pool(state: DebateState, settings: SourcesSettings, name: str = POOL) -> Send | str:
    """The sources that all share are searched for the claim itself, in the name of ``name``."""
    if state["error"]:
        return "close"
    reader = {"name": name, "retriever": list(settings.sources), "fallback": list(settings.fallback)}
    return hand_over("retrieve", state, reader, new_turn(1, name, "retrieve"))


def to_agent(state: DebateState) -> Send | str:
    """The single agent answers, from all evidence that there is."""
    if state["error"]:
        return "close"
    return hand_over("answer", state, {"name": AGENT}, new_turn(1, AGENT), evidence=state["evidence"])


def next_up(turns: Sequence[Turn], names: Sequence[str], in_turn: Callable[[int], bool]) -> tuple[int, list[str]]:
    """The round, and who speaks next in it, all at the same time.

    Args:
        turns: the debate so far.
        names: all speakers, in their order.
        in_turn: whether those of a round speak one after the other.
    """
    last = answers_of(turns)
    spoken = {turn["agent"] for turn in last}
    round = last[0]["round"] if last else 0
    left = [name for name in names if name not in spoken]
    if round == 0 or not left:
        round, left = round + 1, list(names)
    return round, left[:1] if in_turn(round) else left


def talk(
    to: str,
    state: DebateState,
    debaters: Sequence[Agent],
    in_turn: Callable[[int], bool],
    also_before: bool = False,
    **shown: Any,
) -> list[Send]:
    """The debaters who speak next, each with its own and the others' latest answers.

    Args:
        to: the node.
        state: the debate.
        debaters: who debates.
        in_turn: whether those of a round speak one after the other, and so hear what was said in it.
        also_before: they hear what was said in it beside the answers of the round before, not in place of those.
        shown: ``evidence`` or ``pool``.
    """
    names = [d.name for d in debaters]
    round, speakers = next_up(state["turns"], names, in_turn)
    sends = []
    for debater in debaters:
        if debater.name in speakers:
            others = spoken(state, [name for name in names if name != debater.name], round, also_before)
            own = next(iter(latest(state, [debater.name])), None)
            turn = new_turn(round, debater.name)
            sends.append(hand_over(to, state, declared(debater), turn, opponents=others, own=own, **shown))
    return sends


def round_is_over(state: DebateState, settings: PoolDebateSettings) -> bool:
    """Whether everybody has spoken in the last round."""
    return len(answers_of(state["turns"])) == len(settings.debaters)
