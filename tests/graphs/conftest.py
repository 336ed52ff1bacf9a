"""A fixture that checks the turns of every debate in these tests against their schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from moot.nodes._runtime.state import VerdictOutput
from moot.nodes._runtime.tracing import add_outcome
from pydantic import TypeAdapter
from typing_extensions import get_type_hints

TURNS: TypeAdapter[Any] = TypeAdapter(get_type_hints(VerdictOutput, include_extras=True)["turns"])


@pytest.fixture(scope="module", autouse=True)
def turns_have_the_fields_of_their_steps() -> Iterator[None]:
    """Check a debate's turns when its outcome is added to the trace."""

    def check_and_add_outcome(document: Mapping[str, Any]) -> None:
        turns = TURNS.validate_python(document["turns"], strict=True)
        assert turns == document["turns"]
        add_outcome(document)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("moot.nodes._runtime.opening.add_outcome", check_and_add_outcome)
        yield
