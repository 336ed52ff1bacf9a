"""Adaptive selection (MADKE 3.1.2, Eq. 2): a speaker selects the items of a shared evidence pool that it will use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any, NotRequired

from langchain_core.language_models import BaseChatModel
from moot.core.errors import ReplyError
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._records.entries import Task, Turn
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import DebaterState
from moot.nodes._runtime.turns import Known, Said, Started
from moot.nodes._texts.replies import select_reply
from moot.nodes._texts.show import show_claim, show_given, show_own_answer, show_pool
from moot.nodes._texts.task import wording
from moot.retrievers import Evidence

PROMPT = "madke/select"


class SelectionFields(Started):
    """The selected items of a pool, by number; ``dropped`` are numbers in the reply that no shown item has."""

    selected: NotRequired[list[int] | None]
    dropped: NotRequired[list[int]]
    reason: NotRequired[str | None]


def tell_selection(turn: Turn, known: Known) -> Iterator[Said]:
    """The pieces that a turn selects from the pool."""
    if "selected" not in turn:
        return
    if turn["selected"] is None:
        yield Said("selected", "selects", "nothing: its reply could not be used", kind="failure")
        return
    chosen = "; ".join(known.titles(turn["evidence_ids"])) if turn["selected"] else "nothing"
    dropped = ", ".join(map(str, turn.get("dropped") or []))
    yield Said("selected", "selects", chosen + f" (there is no item {dropped})" * bool(dropped), turn["reason"])


@dataclass(frozen=True)
class Selection:
    """A speaker's selection from a pool."""

    numbers: list[int]  # of the selected items, from 1
    dropped: list[int]  # in the reply, but of no item, or of one that the prompt left out
    reason: str
    named_count: int  # of different numbers in the reply


def valid_numbers(given: Sequence[int], size: int, most: int) -> tuple[list[int], list[int]]:
    """The first ``most`` valid numbers of a reply, from 1 to ``size``, and all invalid ones, each number once."""
    numbers = list(dict.fromkeys(given))
    return [n for n in numbers if 1 <= n <= size][:most], [n for n in numbers if not 1 <= n <= size]


async def select_evidence(
    claim: str,
    task: Task,
    pool: Sequence[Evidence],
    model: Speaker | BaseChatModel,
    *,
    evidence: Sequence[Evidence] = (),
    own: Turn | None = None,
    most: int = 3,
    prompt: str = PROMPT,
) -> Selection:
    """Asks a speaker to select the most helpful items of a pool, or none: one call."""
    speaker = as_speaker(model, "debater")
    values = wording(task) | {
        "name": speaker.role,
        "claim": show_claim(claim, task),
        "given": show_given(evidence),
        "pool": show_pool(pool),
        "own": show_own_answer(own),
        "most": str(most),
    }
    reply = await speaker.ask(prompt, values, select_reply(len(pool), most))
    kept = [number for number in reply.selected if not _was_left_out(number, pool, speaker.not_shown)]
    numbers, dropped = valid_numbers(kept, len(pool), most)
    dropped += [number for number in dict.fromkeys(reply.selected) if number not in kept]
    return Selection(numbers, dropped, reply.reason, len(set(reply.selected)))


def _was_left_out(number: int, pool: Sequence[Evidence], not_shown: Set[str]) -> bool:
    return 1 <= number <= len(pool) and pool[number - 1]["id"] in not_shown


def select_node(prompt: str = PROMPT, most: int = 3) -> Node:
    """Writes a speaker's selection into the speaker's turn, and adds the selected items to the speaker's evidence.

    Reads: claim, task, debater, turns and, if present, own, evidence, pool. If the pool is empty, nothing is selected
    and no call is made.

    A number that no item has, or whose item the prompt left out, is dropped, with a warning. There is also a warning
    if the reply names more than ``most`` valid items. If no reply is usable, or a ceiling leaves too little for the
    call, the speaker continues without a selection. Then ``selected`` is null, and there is a warning.

    Args:
        prompt: the prompt's name.
        most: maximum number of items to select.
    """

    async def step(state: DebaterState, run: NodeContext) -> dict[str, Any]:
        turn, pool = state["turns"][0], state.get("pool") or []
        context: dict[str, Any] = {"evidence": state.get("evidence") or [], "own": state.get("own")}
        if not pool:
            return {"turns": [{**turn, "selected": [], "dropped": [], "reason": None}]}
        speaker = await run.speaker_of(state["debater"])
        try:
            chosen = await select_evidence(
                state["claim"], state["task"], pool, speaker, **context, most=most, prompt=prompt
            )
        except ReplyError as error:
            run.ledger.warn("nothing_selected", f"{error.detail} The speaker goes on without evidence from the pool.")
            return {"turns": [{**turn, "selected": None, "dropped": [], "reason": None}]}
        if len(chosen.numbers) + len(chosen.dropped) < chosen.named_count:
            run.ledger.warn(
                "selection_cut", f"{chosen.named_count} items were named; the first {most} valid ones are used."
            )
        if chosen.dropped:
            dropped = ", ".join(map(str, chosen.dropped))
            run.ledger.warn(
                "unknown_selection",
                f"The selection names items that were not shown: {dropped}. The pool has {len(pool)} items.",
            )
        evidence = [pool[number - 1] for number in chosen.numbers]
        ids = [piece["id"] for piece in evidence]
        fields = {"selected": chosen.numbers, "dropped": chosen.dropped, "reason": chosen.reason}
        return {"turns": [{**turn, **fields, "evidence_ids": ids}], "evidence": evidence}

    return Node(step, prompts=(prompt,))
