"""A validator for JSON schemas with many alternatives, such as the schema of turns. It is faster than the one of jsonschema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend


def one_of(validator: Any, branches: list[Any], instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Check that the instance is valid under exactly one branch. The errors of the branches are not collected."""
    valid = sum(validator.evolve(schema=branch).is_valid(instance) for branch in branches)
    if valid != 1:
        yield ValidationError(f"{valid} of {len(branches)} alternatives are valid: {instance}")


Validator = extend(Draft202012Validator, {"oneOf": one_of})
