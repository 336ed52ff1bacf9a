"""Debates over evidence that all share: the pool, and debaters who speak at once or in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, ClassVar, Literal

from langgraph.types import Send
from moot.nodes.records.entries import Turn
from moot.nodes.runtime.opening import Needs
from moot.nodes.runtime.settings import PoolSettings, SourcesSettings, ask_person
from moot.nodes.runtime.state import DebateState
from moot.nodes.speakers.hand_over import (
    SHARED_ROLES,
    Agent,
    declared,
    hand_over,
    named_once,
    needs_for,
    new_turn,
    numbered,
)
from moot.nodes.steps.compare import answers_of
from moot.retrievers.search import SCHOLARLY, resolve
from pydantic import AfterValidator, Field

POOL = "pool"
"""Who fills the evidence that all share; its role turns queries into keywords where a source wants them."""
POOL_ROLES = {POOL, "judge", "summariser"} | SHARED_ROLES
"""Roles that no debater over a shared pool may be called."""


def _free_names(debaters: tuple[Agent, ...]) -> tuple[Agent, ...]:
    named_once((d.name for d in debaters), POOL_ROLES)
    return debaters


class PoolDebateSettings(PoolSettings):
    """Settings of debates over evidence that all debaters share."""

    other_roles: ClassVar[frozenset[str]] = frozenset({"judge"})
    """Who else speaks."""

    debaters: Annotated[tuple[Agent, ...], numbered("debater"), AfterValidator(_free_names)] = Field(
        (Agent(name="debater-1"), Agent(name="debater-2")),
        min_length=2,
        max_length=50,
        description="Who debates: a list, or how many.",
    )
    max_rounds: int = Field(3, ge=1, le=20, description="Most rounds (T).")
    ask_person: tuple[Literal["evidence", "remark", "verdict"], ...] = ask_person()

    def roles(self) -> set[str]:
        """Who may have a model of its own."""
        return {d.name for d in self.debaters} | {POOL} | self.other_roles | SHARED_ROLES


def pool_needs(settings: PoolDebateSettings) -> Needs:
    """What a debate over shared evidence uses.

    Args:
        settings: who debates, and how.
    """
    speakers = {d.name: d.model for d in settings.debaters} | dict.fromkeys(settings.other_roles)
    sources = settings.opened()
    asked_by_keywords = any(resolve(name)[0] in SCHOLARLY for name in sources)
    return needs_for(settings, speakers | ({POOL: None} if asked_by_keywords else {}), sources)


def to_pool(state: DebateState, settings: SourcesSettings, name: str = POOL) -> Send:
    """The sources that all share are searched for the claim itself, in the name of ``name``.

    Args:
        state: the debate.
        settings: with the sources.
        name: who asks.
    """
    reader = {"name": name, "retriever": list(settings.sources), "fallback": list(settings.fallback)}
    return hand_over("retrieve", state, reader, new_turn(1, name, "retrieve"), evidence=[], found=state["evidence"])


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
    """Whether everybody has spoken in the last round.

    Args:
        state: the debate.
        settings: who debates.
    """
    return len(answers_of(state["turns"])) == len(settings.debaters)
