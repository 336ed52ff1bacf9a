"""Adaptive selection (S4 3.1.2, Eq. 2): which items of a shared pool of evidence a speaker wants to use."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from moot.core.errors import ReplyError
from moot.nodes.models.speaker import Speaker, as_speaker
from moot.nodes.records.entries import Task, Turn
from moot.nodes.runtime.node import Node, Run
from moot.nodes.runtime.state import DebaterState
from moot.nodes.texts.replies import select_reply
from moot.nodes.texts.show import show_claim, show_given, show_own, show_pool
from moot.nodes.texts.task import wording
from moot.retrievers import Evidence

PROMPT = "madke/select"


@dataclass(frozen=True)
class Selection:
    """What was selected of a pool: numbers from 1, those that no item has, why, and how many were named."""

    numbers: list[int]
    dropped: list[int]
    reason: str
    named: int


def valid_numbers(given: Sequence[int], size: int, most: int) -> tuple[list[int], list[int]]:
    """Which of the numbers that a reply names are those of items of a pool.

    Args:
        given: the numbers, from 1.
        size: how many items the pool has.
        most: how many hold at most.

    Returns:
        The first ``most`` that items have, each once; and those that no item has.
    """
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
    """The items of a pool that help a speaker, or none of them.

    Args:
        claim: what is debated.
        task: what an answer is.
        pool: the items, numbered from 1 in this order.
        model: who selects.
        evidence: what the speaker has before it already; of that it is shown what was given with the claim.
        own: the speaker's own last answer.
        most: how many may be selected; of more the first hold.
        prompt: the prompt's name.

    Raises:
        UserError, WorldError, ReplyError: the call failed, or no reply could be used.
    """
    speaker = as_speaker(model, "debater")
    values = wording(task) | {
        "name": speaker.role,
        "claim": show_claim(claim, task),
        "given": show_given(evidence),
        "pool": show_pool(pool),
        "own": show_own(own),
        "most": str(most),
    }
    reply = await speaker.ask(prompt, values, select_reply(len(pool), most))
    shown = [number for number in reply.selected if not _is_left_out(number, pool, speaker.not_shown)]
    numbers, dropped = valid_numbers(shown, len(pool), most)
    dropped += [number for number in dict.fromkeys(reply.selected) if number not in shown]
    return Selection(numbers, dropped, reply.reason, len(set(reply.selected)))


def _is_left_out(number: int, pool: Sequence[Evidence], not_shown: Set[str]) -> bool:
    return 1 <= number <= len(pool) and pool[number - 1]["id"] in not_shown


def select_node(prompt: str = PROMPT, most: int = 3) -> Node:
    """Writes what the speaker selects into its turn, and hands it that evidence.

    Reads: claim, task, debater, own, evidence, pool, turns. Numbers that no item has are dropped, with a warning. Where
    the model gives no usable reply, the speaker goes on without a selection; ``selected`` is null then.

    Args:
        prompt: the prompt's name.
        most: how many items may be selected.
    """

    async def step(state: DebaterState, run: Run) -> dict[str, Any]:
        turn, pool = state["turns"][0], state.get("pool") or []
        shown: dict[str, Any] = {"evidence": state.get("evidence") or [], "own": state.get("own")}
        if not pool:
            return {"turns": [{**turn, "selected": [], "dropped": [], "reason": None}]}
        speaker = await run.speaker_of(state["debater"])
        try:
            chosen = await select_evidence(
                state["claim"], state["task"], pool, speaker, **shown, most=most, prompt=prompt
            )
        except ReplyError as error:
            run.ledger.warn("nothing_selected", f"{error.detail} No evidence was used in its place.")
            return {"turns": [{**turn, "selected": None, "dropped": [], "reason": None}]}
        if len(chosen.numbers) + len(chosen.dropped) < chosen.named:
            run.ledger.warn("selection_cut", f"{chosen.named} items were named; the first {most} of the pool's hold.")
        if chosen.dropped:
            unknown = ", ".join(map(str, chosen.dropped))
            run.ledger.warn(
                "unknown_selection", f"The pool has no item {unknown} that was shown; its items are 1 to {len(pool)}."
            )
        evidence = [pool[number - 1] for number in chosen.numbers]
        ids = [piece["id"] for piece in evidence]
        said = {"selected": chosen.numbers, "dropped": chosen.dropped, "reason": chosen.reason}
        return {"turns": [{**turn, **said, "evidence_ids": ids}], "evidence": evidence}

    return Node(step, prompts=(prompt,))
