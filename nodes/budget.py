"""Budgets: what a debate may spend."""

from __future__ import annotations

from typing import Any

from moot.nodes.run import Node, Run
from moot.nodes.speaker import tokens_of
from moot.nodes.state import DebateState
from moot.retrievers.errors import UserError


def count_node() -> Node:
    """Checks that the tokens of all calls are known, where the setting ``budget`` bounds them. Reads: calls."""

    async def step(state: DebateState, run: Run) -> dict[str, Any]:
        answered = [call for call in state["calls"] if call["outcome"] != "failed"]
        if run.settings.budget is not None and not all(tokens_of([call]) for call in answered):
            raise UserError(
                "The endpoint does not say how many tokens a call took, so a budget cannot be kept. Unset `budget`.",
                kind="invalid_setting",
            )
        return {}

    return Node(step)
