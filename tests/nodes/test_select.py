"""Selecting from a pool of evidence: which numbers are kept, and how replies are read."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from moot.core.errors import ReplyError
from moot.nodes._models.reply_parsing import read_reply
from moot.nodes._steps.select import Selection, select_evidence, valid_numbers
from moot.nodes._texts.replies import reply_schema, select_reply
from moot.nodes._texts.task import make_task
from moot.retrievers import Evidence

from tests.each import each

CLAIM = "The bridge is closed."
FRAGMENTS = [*"[]{}<>-,.:\"' ", "0", "2", "14", "[3]", "no item helps", "not found", "item", '{"selected": ']
NUMBERS = st.lists(st.integers(-3, 12), max_size=12)


def pool(size: int) -> list[Evidence]:
    texts = [f"Text of item {i}." for i in range(1, size + 1)]
    return [{"id": f"ev-{t}", "title": t, "text": t, "source": "s", "retrievals": []} for t in texts]


async def select(*replies: str, size: int = 5, **options: Any) -> Selection:
    """Run a selection with a model that gives these replies in turn, and then again from the first."""
    return await select_evidence(CLAIM, make_task(), pool(size), FakeListChatModel(responses=list(replies)), **options)


def numbers_read(text: str, size: int = 5) -> list[int] | None:
    """The numbers that are read from a reply; None if the reply is unusable."""
    found, _, _ = read_reply(AIMessage(text), select_reply(size, 3))
    return found.selected if found else None


@given(NUMBERS, st.integers(0, 9), st.integers(0, 5))
def test_the_first_numbers_that_are_in_the_pool_are_kept(numbers: list[int], size: int, most: int) -> None:
    selected, dropped = valid_numbers(numbers, size, most)
    there = [n for n in numbers if n in range(1, size + 1)]
    assert len(selected) == min(most, len(set(there)))
    assert len(set(selected)) == len(selected)
    assert set(selected) <= set(there)
    for number in selected:  # every valid number before a kept number is kept
        assert set(there[: there.index(number)]) <= set(selected)
    assert selected == sorted(selected, key=there.index)
    assert (set(dropped), len(dropped)) == (set(numbers) - set(there), len(set(numbers) - set(there)))


@pytest.mark.parametrize(
    ("given", "selected", "dropped"),
    [
        ([9], [], [9]),
        ([], [], []),
        ([4, 2], [4, 2], []),
        ([1, 2, 3, 4, 5], [1, 2, 3], []),
        ([2, 2, 2, 2, 5], [2, 5], []),
        ([9, 1, 9, 0, -1, 5], [1, 5], [9, 0, -1]),
    ],
)
async def test_selected_numbers_outside_the_pool_are_recorded(
    given: list[int], selected: list[int], dropped: list[int]
) -> None:
    chosen = await select(json.dumps({"selected": given, "reason": "they do"}))
    assert chosen == Selection(selected, dropped, "they do", len(set(given)))


@each(
    ("text", "numbers"),
    [
        ('{"selected": [2, 4], "reason": "r"}', [2, 4]),
        ('{"reason": "r", "selected": []}', []),
        ('```json\n{"selected": ["2", "4"], "reason": "r"}\n```', [2, 4]),
        ('{"selected": "[No Found]", "reason": "r"}', []),
        ('{"selected": ["[No Found]"], "reason": "r"}', []),
        ('{"selected": "none", "reason": "r"}', []),
        ('{"selected": "[2], [4]", "reason": "r"}', [2, 4]),
        ("Items [2] and [4] help.", [2, 4]),
        ("[2] [9]", [2, 9]),
        ("[No Found]", []),
        ("[no found].", []),
        ("Not found.", []),
        ("None.", []),
        ("No item helps.", []),
        ("<think>Would [3] do? Hardly.</think>No item is helpful.", []),
        ("I would rather not.", None),
        ("Let me look at all five of them.", None),
        ('{"selected": [2, 4', None),
        ('{"selected": [2]} or {"selected": [4]}', None),
        ('{"selected": ["the first"], "reason": "r"}', None),
        ('{"selected": [1.5], "reason": "r"}', None),
        ('{"selected": [[1], [2]], "reason": "r"}', None),
        ('{"items": [1]}', None),
        ("", None),
    ],
)
def test_selections_are_read_in_many_wordings(text: str, numbers: list[int] | None) -> None:
    assert numbers_read(text) == numbers


@given(st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=8).map("".join))
def test_only_numbers_in_the_text_are_read(text: str) -> None:
    found = numbers_read(text)
    assert found is None or set(found) <= {int(n) for n in re.findall(r"\d+", text)}


async def test_an_unusable_reply_is_retried_once() -> None:
    assert (await select("Hm.", '{"selected": [3], "reason": ""}')).numbers == [3]
    with pytest.raises(ReplyError, match="no usable reply"):
        await select("Hm.", "Hm?", '{"selected": [3], "reason": ""}')


async def test_the_maximum_of_selected_items_is_a_setting() -> None:
    assert (await select('{"selected": [1, 2, 3, 4]}', most=1)).numbers == [1]
    assert (await select('{"selected": [6, 5, 4, 3, 2]}', size=6, most=4)).numbers == [6, 5, 4, 3]


def test_the_schema_allows_the_pools_numbers_and_an_empty_selection() -> None:
    schema = reply_schema(select_reply(5, 3))
    assert schema["properties"]["selected"] == {
        "type": "array",
        "items": {"type": "integer", "minimum": 1, "maximum": 5},
        "minItems": 0,
        "maxItems": 3,
    }
    assert set(schema["required"]) == {"selected", "reason"}


@pytest.mark.parametrize("text", ["[" + "1 " * 5000, "[" + "12" * 5000, "[1, " * 5000, "no " * 5000, "[" * 10_000])
def test_long_texts_are_read_quickly(text: str) -> None:
    assert numbers_read(text) is None  # a regular expression that backtracks would not end


@pytest.mark.parametrize("text", ["No, [2] does not help.", "[1] helps, [2] is not relevant.", "See [] and choose."])
def test_an_ambiguous_reply_is_not_read(text: str) -> None:
    assert numbers_read(text) is None
