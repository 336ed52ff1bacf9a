"""A server loads only listed and default encoders, cross-encoders and summarisers; the command line loads any."""

from __future__ import annotations

import pytest
from moot.core.callers import check_model, serving_callers
from moot.core.errors import UserError
from moot.retrievers import open_encoder
from moot.retrievers._cross_encoders import open_cross_encoder
from moot.retrievers._summariser import open_summariser


async def test_a_server_loads_only_listed_and_default_models(monkeypatch: pytest.MonkeyPatch) -> None:
    # On the command line, the user may name any model, so moot tries to load this model.
    with pytest.raises(UserError, match="cannot be loaded"):
        await open_encoder("/nowhere")
    with serving_callers({}):
        for open_model in (open_encoder, open_cross_encoder, open_summariser):
            with pytest.raises(
                UserError, match=r"does not load '/nowhere' .* It loads all-MiniLM-L6-v2, cross-encoder/"
            ):
                await open_model("/nowhere")
        monkeypatch.setenv("MOOT_EMBEDDERS", " /nowhere , other/model")
        with pytest.raises(UserError, match="The encoder '/nowhere' cannot be loaded"):
            await open_encoder("/nowhere")
        for name in ("other/model", "all-MiniLM-L6-v2"):
            check_model(name, "embedder")
