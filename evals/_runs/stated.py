"""The tests that a user states, before or after a run: only these are made, corrected together, and shown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from moot.core.errors import UserError
from moot.core.files import why_unread
from moot.evals._stats.margins import Claim
from moot.evals._stats.measures import load_extra
from moot.nodes._runtime.settings import ModelName, problem_of
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

EACH, POOLED = "each", "pooled"
FIRST_ROUND, PRIOR, ALWAYS_OPEN = DERIVED = "first-round majority", "label prior", "always"
"""The kinds of controls that are derived from logs, without runs of their own."""


class StatedTest(BaseModel):
    """A test that a user states: two systems, where they are compared, and what is to be shown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    first: str = Field(description="The system's label.")
    second: str = Field(description="The label of the other system, or a kind of control of the first system.")
    first_model: ModelName | None = Field(default=None, description="The first system's model, if it has several.")
    second_model: ModelName | None = Field(default=None, description="The other system's model, if it has several.")
    benchmark: str = Field(
        default=EACH,
        description="each: one test on each benchmark; pooled: one test over all benchmarks, each with the same "
        "weight; or the name of a benchmark.",
    )
    claim: Claim = Field(
        default="different",
        description="What the test can show: different; equivalent: the difference is less than the margin; "
        "not_worse: the first system is worse by less than the margin.",
    )
    margin: float | None = Field(
        default=None, gt=0, lt=1, description="The margin, as a difference of scores, such as 0.05."
    )

    @model_validator(mode="after")
    def _check_margin(self) -> Self:
        if (self.margin is None) != (self.claim == "different"):
            raise ValueError("`margin` belongs to the claims equivalent and not_worse, which need it")
        return self


class StatedTests(BaseModel):
    """The tests in a file."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    tests: tuple[StatedTest, ...]


def read_tests(path: Path) -> tuple[StatedTest, ...]:
    """Read the tests under ``tests`` in a YAML file, such as a plan."""
    try:
        fields = load_extra("yaml").safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(why_unread(path, error), kind="missing_file") from error
    except (ValueError, load_extra("yaml").YAMLError) as error:
        raise UserError(f"{path} is not a YAML file: {' '.join(str(error).split())}.", kind="invalid_file") from error
    if not isinstance(fields, Mapping) or not fields.get("tests"):
        raise UserError(
            f"{path} states no tests. It needs `tests:`, a list such as: - {{first: tool_mad, second: rag}}",
            kind="invalid_file",
        )
    try:
        return StatedTests.model_validate(fields).tests
    except ValidationError as error:
        problems = "; ".join(dict.fromkeys(problem_of(StatedTests, e, "field") for e in error.errors()[:5]))
        raise UserError(f"{path}: {problems}", kind="invalid_file") from error
