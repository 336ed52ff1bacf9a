"""A fast validator for JSON schemas with many alternatives, such as the schema of turns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend


def one_of(validator: Any, branches: list[Any], instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Check that exactly one branch accepts the instance.

    This check does not collect the errors of each branch. Therefore it is faster than the check of jsonschema.
    """
    valid = sum(validator.evolve(schema=branch).is_valid(instance) for branch in branches)
    if valid != 1:
        yield ValidationError(f"{valid} of {len(branches)} alternatives are valid: {instance}")


Validator = extend(Draft202012Validator, {"oneOf": one_of})
