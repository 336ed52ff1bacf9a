"""Selections from a pool of evidence: the numbers that are kept, and the replies that can be read."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from moot.nodes._models.reply_parsing import read_reply
from moot.nodes._steps.select import Selection, select_evidence, select_reply
from moot.nodes._texts.task import make_task
from moot.retrievers import Evidence

from tests.each import each

CLAIM = "The bridge is closed."
FRAGMENTS = [*"[]{}<>-,.:\"' ", "0", "2", "14", "[3]", "no item helps", "not found", "item", '{"selected": ']


def pool(size: int) -> list[Evidence]:
    texts = [f"Text of item {i}." for i in range(1, size + 1)]
    return [{"id": f"ev-{t}", "title": t, "text": t, "source": "s", "retrievals": []} for t in texts]


async def select(*replies: str, size: int = 5, **options: Any) -> Selection:
    """Run a selection with a model that gives these replies in turn, and then begins again with the first reply."""
    return await select_evidence(CLAIM, make_task(), pool(size), FakeListChatModel(responses=list(replies)), **options)


def numbers_read(text: str, size: int = 5) -> list[int] | None:
    """The numbers that are read from a reply; None if the reply is unusable."""
    found, _, _ = read_reply(AIMessage(text), select_reply(size, 3))
    return found.selected if found else None


@pytest.mark.parametrize(
    ("named", "selected", "dropped"),
    [
        ([9], [], [9]),
        ([], [], []),
        ([4, 2], [4, 2], []),
        ([1, 2, 3, 4, 5], [1, 2, 3], []),
        ([2, 2, 2, 2, 5], [2, 5], []),
        ([9, 1, 9, 0, -1, 5], [1, 5], [9, 0, -1]),
    ],
)
async def test_selected_numbers_outside_the_pool_are_recorded_as_dropped(
    named: list[int], selected: list[int], dropped: list[int]
) -> None:
    """By default, at most three different numbers are selected."""
    chosen = await select(json.dumps({"selected": named, "reason": "they do"}))
    assert chosen == Selection(selected, dropped, "they do", len(set(named)))


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
        ("Would [3] do? Hardly.\n</think>\n[2]", [2]),
        ("[THINK]Would [3] do?[/THINK]I would rather not.", None),
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
def test_a_selection_can_be_read_in_many_wordings(text: str, numbers: list[int] | None) -> None:
    """A reply without a clear selection is refused."""
    assert numbers_read(text) == numbers


@given(st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=8).map("".join))
def test_only_numbers_in_the_text_are_read(text: str) -> None:
    found = numbers_read(text)
    assert found is None or set(found) <= {int(n) for n in re.findall(r"\d+", text)}


@pytest.mark.parametrize("text", ["[" + "1 " * 5000, "[" + "12" * 5000, "[1, " * 5000, "no " * 5000, "[" * 10_000])
def test_a_long_text_without_a_selection_is_refused_quickly(text: str) -> None:
    """A regular expression with exponential backtracking would not end."""
    assert numbers_read(text) is None
