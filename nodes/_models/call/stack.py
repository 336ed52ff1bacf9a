"""The layers of a call to a model, put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moot.core.lazy import imported
from moot.core.telemetry.switch import telemetry
from moot.nodes._models.call.fitting import fitting
from moot.nodes._models.call.request import Ask, Layer
from moot.nodes._models.call.reserving import reserving
from moot.nodes._models.call.reusing import reusing
from moot.nodes._models.call.seeding import seeding
from moot.nodes._models.call.sending import sending
from moot.nodes._models.call.waiting import waiting

if TYPE_CHECKING:
    from moot.nodes._models.speaker import Speaker


def stack(asking: Layer, speaker: Speaker) -> Ask:
    """The way of a speaker's request to its model, from the inside outwards; a layer that is off is not in it."""
    # A request is sent; waits for its endpoint and is repeated after failures; is observed by telemetry; stays within
    # the ceilings; fits the context; is repeated with a reason if its reply is unusable (``asking``); is answered from
    # the ledger if possible; has seeds; and is changed by what is wrapped around the speaker.
    ask = waiting(sending(speaker), speaker)
    if telemetry():
        ask = imported("moot.nodes._telemetry.observed").observing(ask, speaker)
    if speaker.ceilings.bounded:
        ask = reserving(ask, speaker)
    ask = asking(fitting(ask, speaker), speaker)
    if speaker.session.debate_ledger:
        ask = reusing(ask, speaker)
    if speaker.seed is not None:
        ask = seeding(ask, speaker)
    for layer in speaker.around:
        ask = layer(ask, speaker)
    return ask
