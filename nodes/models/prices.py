"""What model calls cost: a table of prices by model, and the cost of calls by it.

The table is ``prices.jsonl``, one model a line: ``model`` (as settings name it, provider:name), ``input`` and
``output`` (USD for a million tokens of prompts and of replies), and beside these ``as_of`` (year and month), ``source``
and ``note``; ``context`` is read by `moot.nodes.models.contexts`, and has a source of its own. These are list prices,
without discounts (for cached prompts, say); they change, so check those that you rely on. A file of yours in the same
form, named in ``MOOT_PRICES``, has the last word on the models that it names.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path

from moot.core.errors import UserError
from moot.nodes.models.ledger import tokens_of
from moot.nodes.records.entries import Call
from moot.nodes.runtime.settings import ModelName
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from typing_extensions import TypedDict

MILLION = 1_000_000
DATED = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8})$")
"""What a dated snapshot's name ends in."""


class Price(TypedDict):
    """USD for a million tokens: ``input`` of prompts, ``output`` of replies."""

    input: float
    output: float


class Entry(BaseModel):
    """A line of a table of prices."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: ModelName
    input: float = Field(ge=0, le=MILLION)
    output: float = Field(ge=0, le=MILLION)
    as_of: str | None = None
    source: str | None = None
    context: int | None = Field(None, ge=1)
    context_source: str | None = None
    note: str | None = None


def read_prices(path: Path | None = None) -> dict[str, Price]:
    """Prices by model: the table that comes with moot, with the entries of a file over it. Blocking.

    Args:
        path: the file; by default the one that the environment variable ``MOOT_PRICES`` names, if any.

    Raises:
        UserError: the file cannot be read, or a line of it is no price.
    """
    named = str(path or "") or os.environ.get("MOOT_PRICES", "").strip()
    return _shipped() | (_own(Path(named)) if named else {})


@lru_cache(maxsize=1)
def _shipped() -> dict[str, Price]:
    return _parsed((resources.files("moot.nodes.models") / "prices.jsonl").read_text(encoding="utf-8"), "prices.jsonl")


def _own(file: Path) -> dict[str, Price]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise UserError(f"There is no file {file} to read prices from: MOOT_PRICES.", kind="missing_file") from error
    except OSError as error:
        raise UserError(f"{file} cannot be read ({error.strerror}).", kind="invalid_file") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: not UTF-8 text. Save the file as UTF-8.", kind="invalid_file") from error
    return _parsed(text, file.name)


def _parsed(text: str, name: str) -> dict[str, Price]:
    """The prices of a table's lines; ``name`` is the file's in errors."""
    prices: dict[str, Price] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = Entry.model_validate_json(line)
        except ValidationError as error:
            raise _no_price(f"{name}, line {number}", error) from error
        if entry.model in prices:
            raise UserError(f"{name}, line {number}: {entry.model} has a price already.", kind="invalid_file")
        prices[entry.model] = {"input": entry.input, "output": entry.output}
    return prices


def _no_price(where: str, error: ValidationError) -> UserError:
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"]))
    return UserError(
        f"{where}: {field + ': ' if field else ''}{first['msg']}. Each line is an object with model (provider:name), "
        "input and output (USD for a million tokens) and, if you like, as_of, source, note.",
        kind="invalid_file",
    )


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """A model's price, a dated snapshot's by default that of its model without the date; None where there is none."""
    return prices.get(model) or prices.get(DATED.sub("", model))


def paid(calls: Iterable[Call]) -> list[Call]:
    """A debate's calls but for those that cost nothing: their reply came from the ledger or from an equal call."""
    return [call for call in calls if not (call.get("from_ledger") or call.get("shared"))]


def is_counted(call: Call) -> bool:
    """Whether the tokens of a call are known; one that failed without any, or was sent as another's, has none."""
    if (call["outcome"] == "failed" and not tokens_of([call])) or call.get("shared"):
        return True
    return None not in (call["prompt_tokens"], call["completion_tokens"]) and tokens_of([call]) > 0


def cost_of(calls: Iterable[Call], prices: Mapping[str, Price]) -> float | None:
    """What calls cost, in USD; None where any of them has tokens or a price that is not known.

    A call that failed counts as nothing, unless tokens of it are known. What an endpoint charges for attempts that
    failed before a call succeeded is not known to us.

    Args:
        calls: as the result document records them.
        prices: as `read_prices` gives them.
    """
    costs = [_cost(call, price_of(call["model"], prices)) for call in calls]
    known = [cost for cost in costs if cost is not None]
    return math.fsum(known) / MILLION if len(known) == len(costs) else None


def _cost(call: Call, price: Price | None) -> float | None:
    """A call's cost, in millionths of a USD."""
    if not is_counted(call):
        return None
    if not tokens_of([call]):
        return 0.0
    if price is None:
        return None
    return sum(_parts(call["prompt_tokens"] or 0, call["completion_tokens"] or 0, price))


def costs_of(prompt_tokens: int, completion_tokens: int, price: Price) -> tuple[float, float]:
    """What a prompt and its reply cost, in USD."""
    prompt, reply = _parts(prompt_tokens, completion_tokens, price)
    return prompt / MILLION, reply / MILLION


def _parts(prompt_tokens: int, completion_tokens: int, price: Price) -> tuple[float, float]:
    return prompt_tokens * price["input"], completion_tokens * price["output"]
