"""Debates over shared evidence (a pool), with debaters that speak in parallel or one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from langgraph.types import Send
from moot.nodes._models.chat_models import ModelChoice
from moot.nodes._records.entries import Turn
from moot.nodes._runtime.opening import Needs
from moot.nodes._runtime.settings import PLANNER, PoolSettings, SourcesSettings, ask_person
from moot.nodes._runtime.state import DebateState
from moot.nodes._runtime.turns import new_turn
from moot.nodes._speakers.single import AGENT, SingleReaderSettings
from moot.nodes._speakers.turns import (
    SHARED_ROLES,
    Agent,
    check_unique_names,
    needs_for,
    number_speakers,
    send_turn,
    speaker_declaration,
)
from moot.nodes._steps.compare import answers_of
from moot.nodes._texts.plans import planned_search
from moot.retrievers._search import SCHOLARLY, resolve
from pydantic import AfterValidator, Field

POOL = "pool"
"""The role that searches for the shared evidence. Its model is called only if a source needs keywords."""
POOL_ROLES = {POOL, PLANNER, "judge", "summariser"} | SHARED_ROLES
"""Names that a debater over a shared pool may not have, because they belong to other roles."""


def _check_names(debaters: tuple[Agent, ...]) -> tuple[Agent, ...]:
    check_unique_names((d.name for d in debaters), POOL_ROLES)
    return debaters


class PoolDebateSettings(PoolSettings):
    """Settings of debates over evidence that all debaters share."""

    other_roles: ClassVar[frozenset[str]] = frozenset({"judge"})
    """The roles that speak besides the debaters."""

    debaters: Annotated[tuple[Agent, ...], number_speakers("debater"), AfterValidator(_check_names)] = Field(
        default=(Agent(name="debater-1"), Agent(name="debater-2")),
        min_length=2,
        max_length=50,
        description="The debaters: a list, or their number.",
    )
    max_rounds: int = Field(default=3, ge=1, le=20, description="Maximum number of rounds.")
    ask_person: tuple[Literal["evidence", "remark", "verdict"], ...] = ask_person()

    def roles(self) -> set[str]:
        return {d.name for d in self.debaters} | {POOL, PLANNER} | self.other_roles | SHARED_ROLES


def pool_needs(settings: PoolDebateSettings) -> Needs:
    """The resources that a debate over shared evidence needs.

    The role `POOL` needs a model only if a source that may be searched is scholarly.

    Args:
        settings: the debate's settings.
    """
    speakers = {d.name: d.model for d in settings.debaters} | dict.fromkeys(settings.other_roles)
    return pool_needs_for(settings, speakers)


def pool_needs_for(settings: SourcesSettings, speakers: Mapping[str, str | ModelChoice | None]) -> Needs:
    """The resources of speakers over shared evidence, as for `pool_needs`.

    Args:
        settings: the debate's settings.
        speakers: the model of each speaker, by the speaker's name; None for the model in the settings.
    """
    sources = settings.sources_to_open()
    needs_keywords = any(resolve(name)[0] in SCHOLARLY for name in sources)
    return needs_for(settings, dict(speakers) | ({POOL: None} if needs_keywords else {}), sources)


def to_pool(state: DebateState, settings: SourcesSettings) -> Send:
    """Builds the `Send` that searches the shared sources: for the claim itself and, with a plan, for its queries.

    The search is a turn of the only agent or, in a debate, of the role ``pool``.

    Args:
        state: the debate's state.
        settings: settings with ``sources``.
    """
    name = AGENT if isinstance(settings, SingleReaderSettings) else POOL
    reader = {"name": name, "retriever": list(settings.sources), "fallback": list(settings.fallback)}
    turn = new_turn(1, name, "retrieve") | planned_search(state["claim"], state["turns"])
    return send_turn("retrieve", state, reader, turn, evidence=[], found=state["evidence"])


def latest_answers(state: DebateState, names: Iterable[str]) -> list[Turn]:
    """The latest turn of the step ``respond`` of each speaker who has such a turn, in the order of the names."""
    last = {turn["agent"]: turn for turn in state["turns"] if turn["step"] == "respond"}  # the latest turn remains
    return [last[name] for name in names if name in last]


def visible_answers(state: DebateState, names: Sequence[str], round: int, two_rounds: bool) -> list[Turn]:
    """Each speaker's latest answer or, with ``two_rounds``, all answers of ``round`` and of the round before it."""
    if not two_rounds:
        return latest_answers(state, names)
    given = [t for t in state["turns"] if t["step"] == "respond" and t["agent"] in names]
    return [t for t in given if t["round"] >= round - 1]


def next_round_and_speakers(
    turns: Sequence[Turn], names: Sequence[str], in_turn: Callable[[int], bool]
) -> tuple[int, list[str]]:
    """The next speakers' round and their names: one if its speakers speak ``in_turn``, else all who have not spoken."""
    last = answers_of(turns)
    spoken = {turn["agent"] for turn in last}
    round = last[0]["round"] if last else 0
    waiting = [name for name in names if name not in spoken]
    if round == 0 or not waiting:
        round, waiting = round + 1, list(names)
    return round, waiting[:1] if in_turn(round) else waiting


def to_next_speakers(
    to: str,
    state: DebateState,
    debaters: Sequence[Agent],
    in_turn: Callable[[int], bool],
    two_rounds: bool = False,
    **shown: Any,
) -> list[Send]:
    """Builds the `Send`s of the debaters who speak next, each with its own and the others' latest answers.

    Args:
        to: the node that runs their turns.
        state: the debate's state.
        debaters: all debaters, in their order.
        in_turn: takes a round's number; returns whether its debaters speak one after the other. If they do, a debater
            also hears the answers that others gave earlier in the same round.
        two_rounds: whether a debater hears all answers of the other debaters in this round and the previous round. If
            not, a debater hears only the latest answer of each other debater.
        shown: ``evidence`` (the pieces that the debaters are shown) or ``pool`` (the pieces from which they select).
    """
    names = [d.name for d in debaters]
    round, speakers = next_round_and_speakers(state["turns"], names, in_turn)
    sends = []
    for debater in debaters:
        if debater.name in speakers:
            others = visible_answers(state, [name for name in names if name != debater.name], round, two_rounds)
            own = next(iter(latest_answers(state, [debater.name])), None)
            turn = new_turn(round, debater.name)
            sends.append(send_turn(to, state, speaker_declaration(debater), turn, opponents=others, own=own, **shown))
    return sends


def round_is_over(state: DebateState, settings: PoolDebateSettings) -> bool:
    """Whether all debaters have spoken in the current round. A turn without a usable answer also counts.

    Args:
        state: the debate's state.
        settings: the debate's settings.
    """
    return len(answers_of(state["turns"])) == len(settings.debaters)
