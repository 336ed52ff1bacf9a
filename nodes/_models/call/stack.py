"""The way of a call to a model, put together from its layers."""

from __future__ import annotations

from typing import Literal

from moot.nodes._models.call.fitting import fitting
from moot.nodes._models.call.request import Asker, Layer, Way
from moot.nodes._models.call.reserving import reserving
from moot.nodes._models.call.reusing import reusing
from moot.nodes._models.call.seeding import seeding
from moot.nodes._models.call.sending import sending
from moot.nodes._models.call.waiting import waiting


def way_of(speaker: Asker, asking: Layer) -> Way:
    """The way of a speaker's request to its model, layer by layer; a layer that is off is not on it."""
    layers: list[Layer | Literal[False]] = [
        *speaker.around,  # changes that others make
        speaker.seed is not None and seeding,
        speaker.session.replies is not None and reusing,  # from the store, or to it
        asking,  # whether the reply is usable, and whether to ask again
        fitting,  # the prompt to the context
        speaker.budget.is_bounded and reserving,  # the budget
        waiting,  # for the endpoint, and repeating after failures
    ]
    way = sending(speaker)
    for layer in reversed(layers):
        if layer:
            way = layer(way, speaker)
    return way
