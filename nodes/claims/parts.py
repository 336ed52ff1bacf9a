"""What the steps of a part may spend: a part is begun only if all of them can be paid, so that what is read is used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from moot.core.errors import BudgetExhausted
from moot.nodes.models.ceilings import REPLY, Asked, Ceilings, recorded
from moot.nodes.models.contexts import BYTES_PER_TOKEN, weight_of
from moot.nodes.models.fitting import most_tokens
from moot.nodes.models.speaker import Speaker, own_response_format
from moot.nodes.runtime.node import Run
from moot.nodes.texts.replies import Reply


def least(speaker: Speaker, prompt: str, values: Mapping[str, str], reply: type[Reply], quotes: int = 0) -> Asked:
    """The call of a step, as far as it is known before the part is begun.

    Args:
        speaker: who is asked.
        prompt: the prompt's name.
        values: what fills its placeholders.
        reply: what is asked for.
        quotes: tokens of quotes that it is shown, at most.
    """
    schema = json.dumps(own_response_format(reply))
    size = sum(map(weight_of, (*speaker.filled(prompt, values), schema))) + int(quotes * BYTES_PER_TOKEN)
    return Asked(speaker.role, prompt, speaker.model.name, size, most_tokens(speaker.model) or REPLY)


async def begin_part(run: Run, part: int, kept: list[Asked]) -> Ceilings:
    """The ceilings of a part, which keep back what its steps take; waits as long as other parts may leave some.

    Args:
        run: of its first step.
        part: where it begins.
        kept: the calls of its steps.

    Raises:
        BudgetExhausted: the ceilings leave too little for all of them.
    """
    own, whole = Ceilings(parent=run.ceilings), run.ceilings
    budget: dict[str, Any] = {"prices": whole.prices, "kept": [recorded(asked) for asked in kept]}
    before = whole.refused
    while True:
        try:
            await own.begin(budget)
        except BudgetExhausted:
            own.end()
            if not run.session.parts:
                raise
            whole.refused = before
            await whole.changed()
        else:
            run.session.parts[part] = own
            return own


def end_part(run: Run, part: int) -> None:
    """A part is over: what it did not take is free for others."""
    if own := run.session.parts.pop(part, None):
        own.end()


def ceilings_of(run: Run, part: int) -> Ceilings:
    """What the steps of a part may spend."""
    return run.session.parts.get(part, run.ceilings)
