"""Adaptive selection (MADKE 3.1.2, Eq. 2): a speaker selects the items of a shared evidence pool that it will use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, NotRequired

from langchain_core.language_models import BaseChatModel
from moot.core.errors import ReplyError
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._records.entries import Task, Turn
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import DebaterState
from moot.nodes._runtime.turns import Known, Said, Started
from moot.nodes._texts.replies import Reply
from moot.nodes._texts.show import show_claim, show_given, show_own_answer, show_pool
from moot.nodes._texts.task import wording
from moot.retrievers import Evidence
from pydantic import BeforeValidator, WithJsonSchema, create_model

PROMPT = "madke/select"


BRACKETS = re.compile(r"\[([\d\s,;]*)\]")
NEGATION = re.compile(r"\b(?:no|not|none|neither|nor|never|without)\b|n['’]t\b", re.IGNORECASE)
RANGE = re.compile(r"\d\s*[-–.]\s*\d")
NOT_FOUND = re.compile(
    r"\bno(?:t|ne|thing)?[ _]found\b|\bnone of (?:the|these) (?:items|passages)\b"
    r"|\bno (?:\w+ )?(?:items?|knowledge|evidence|passages?) (?:\w+ )?(?:helps?|helpful|found|relevant)\b"
    r"|^\W*(?:no|none|nothing|null|n/a)\W*$",
    re.IGNORECASE,
)
"""Phrases that say that no item helps, in replies that do not follow the schema."""


def _as_numbers(value: Any) -> Any:
    """A value such as "1 and 3" or "none found" as a list of numbers; others are returned unchanged."""
    if isinstance(value, list):
        if any(isinstance(item, bool | list) for item in value):
            # A validator of Pydantic, for which this is an invalid reply.
            raise ValueError("contains something that is not a number")
        read = [_as_numbers(item) for item in value]
        return [n for part in read for n in part] if all(isinstance(part, list) for part in read) else value
    if isinstance(value, int) and not isinstance(value, bool):
        return [value]
    if not isinstance(value, str):
        return value
    if NOT_FOUND.search(value) and not re.search(r"\d", value):
        return []
    words = re.findall(r"-?\d+|\w+", value.lower())
    numbers = [int(word) for word in words if word.lstrip("-").isdecimal() and len(word) < 10]
    plain = len(numbers) + sum(word in ("and", "item", "items", "number", "numbers") for word in words) == len(words)
    return numbers if plain and not RANGE.search(value) else value


class SelectReply(Reply):
    """The numbers of the items that help; may be empty."""

    reason: str = ""
    selected: Annotated[list[int], BeforeValidator(_as_numbers)]

    @classmethod
    def from_text(cls, text: str) -> list[dict[str, Any]]:
        """Parses numbers in square brackets, ``[]`` as the whole text, or a phrase which says that no item helps."""
        numbers = re.findall(r"\d{1,9}", " ".join(BRACKETS.findall(text)))
        if numbers:
            usable = not NEGATION.search(text)
        else:
            usable = text.strip() == "[]" or bool(NOT_FOUND.search(text) and not re.search(r"\d", text))
        return [{"selected": numbers, "reason": text[:500]}] if usable else []


@lru_cache(maxsize=256)
def select_reply(size: int, most: int) -> type[SelectReply]:
    """The class of replies that select at most ``most`` of ``size`` items; callers drop invalid and surplus numbers."""
    item = {"type": "integer", "minimum": 1, "maximum": size}
    schema = WithJsonSchema({"type": "array", "items": item, "minItems": 0, "maxItems": most})
    kind = Annotated[list[int], BeforeValidator(_as_numbers), schema]
    return create_model("SelectReply", __base__=SelectReply, selected=(kind, ...))


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
            run.record.warn("nothing_selected", f"{error.detail} The speaker goes on without evidence from the pool.")
            return {"turns": [{**turn, "selected": None, "dropped": [], "reason": None}]}
        if len(chosen.numbers) + len(chosen.dropped) < chosen.named_count:
            run.record.warn(
                "selection_cut", f"{chosen.named_count} items were named; the first {most} valid ones are used."
            )
        if chosen.dropped:
            dropped = ", ".join(map(str, chosen.dropped))
            run.record.warn(
                "unknown_selection",
                f"The selection names items that were not shown: {dropped}. The pool has {len(pool)} items.",
            )
        evidence = [pool[number - 1] for number in chosen.numbers]
        ids = [piece["id"] for piece in evidence]
        fields = {"selected": chosen.numbers, "dropped": chosen.dropped, "reason": chosen.reason}
        return {"turns": [{**turn, **fields, "evidence_ids": ids}], "evidence": evidence}

    return Node(step, prompts=(prompt,))
