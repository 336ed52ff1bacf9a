"""The budget for the steps of one part of a text: a part starts only if the budget covers all its steps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from moot.core.errors import BudgetExhausted
from moot.nodes._models.budget import Budget
from moot.nodes._models.call.fitting import reply_limit
from moot.nodes._models.contexts import BYTES_PER_TOKEN, weight_of
from moot.nodes._models.speaker import Speaker
from moot.nodes._models.spend import PlannedCall
from moot.nodes._models.structured import own_response_format
from moot.nodes._runtime.node import NodeContext
from moot.nodes._texts.replies import Reply


def plan_call(
    speaker: Speaker, prompt: str, values: Mapping[str, str], reply: type[Reply], quotes: int = 0
) -> PlannedCall:
    """The planned call of a step, with its estimated size; ``quotes`` are further tokens that its prompt will have."""
    schema = json.dumps(own_response_format(reply))
    size = sum(map(weight_of, (*speaker.filled(prompt, values), schema))) + int(quotes * BYTES_PER_TOKEN)
    return PlannedCall(speaker.role, prompt, speaker.model.name, size, reply_limit(speaker.model))


async def begin_part(run: NodeContext, part: int, calls: list[PlannedCall]) -> Budget:
    """Reserves the cost of a part's steps; waits while other parts run, because they may release budget."""
    of_part, of_run = Budget(parent=run.budget), run.budget
    budget: dict[str, Any] = {"prices": of_run.prices, "kept": [asdict(call) for call in calls]}
    was_refused = of_run.refused
    while True:
        try:
            await of_part.begin(budget)
        except BudgetExhausted:
            if not run.session.parts:
                raise
            of_run.refused = was_refused
            await of_run.wait_for_change()
        else:
            run.session.parts[part] = of_part
            return of_part


def end_part(run: NodeContext, part: int) -> None:
    """Ends a part that has ceilings of its own: releases its unused budget for other parts."""
    if budget := run.session.parts.pop(part, None):
        budget.release_held()


def budget_of(run: NodeContext, part: int) -> Budget:
    """The ceilings for the steps of a part; those of the run if the part has none of its own."""
    return run.session.parts.get(part, run.budget)
