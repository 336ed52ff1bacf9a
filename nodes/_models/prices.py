"""The prices of models, and the cost of calls.

The table is ``prices.jsonl``, with one model per line: ``model`` (as settings name it, provider:name), ``input`` and
``output`` (USD for a million tokens of prompts and of replies), and optionally ``cached`` (USD for a million tokens of
prompts that the endpoint had in its cache), ``as_of`` (year and month), ``source`` and ``note``. A line may also have
``context``, which `moot.nodes._models.contexts` reads, and ``context_source``. The prices are list prices, without
discounts (for batches, say). Prices change, so check them before you rely on them. If ``MOOT_PRICES`` names a file in
the same form, this file overrides the prices of the models that it lists.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import NotRequired, cast

from moot.core.errors import UserError
from moot.nodes._models.step_record import tokens_of
from moot.nodes._records.entries import Call
from moot.nodes._runtime.settings import ModelName
from moot.nodes._vendors.catalogue import OBJECT, VENDORS
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from typing_extensions import TypedDict

MILLION = 1_000_000
DATED = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8})$")
"""The suffix of a dated snapshot's name."""


class Price(TypedDict):
    """USD for a million tokens of prompts (``input``), of prompts in the endpoint's cache, and of replies (``output``).

    Without ``cached``, tokens in the cache cost as much as others, which is the most that they can cost.
    """

    input: float
    output: float
    cached: NotRequired[float]


class Entry(BaseModel):
    """A line of a table of prices."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: ModelName
    input: float = Field(ge=0, le=MILLION)
    output: float = Field(ge=0, le=MILLION)
    cached: float | None = Field(default=None, ge=0, le=MILLION)
    as_of: str | None = None
    source: str | None = None
    context: int | None = Field(default=None, ge=1)
    context_source: str | None = None
    note: str | None = None


def read_prices(path: Path | None = None) -> dict[str, Price]:
    """Prices by model: moot's table, overridden by a file's (by default, if set, that of ``MOOT_PRICES``); blocking."""
    named = str(path or "") or os.environ.get("MOOT_PRICES", "").strip()
    return _shipped_prices() | (_read_file(Path(named)) if named else {})


@lru_cache(maxsize=1)
def _shipped_prices() -> dict[str, Price]:
    file = resources.files("moot.nodes._models") / "prices.jsonl"
    return _parse_prices(file.read_text(encoding="utf-8"), file.name)


def _read_file(file: Path) -> dict[str, Price]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        detail = f"There is no file of prices {file}. Check MOOT_PRICES or `--prices`."
        raise UserError(detail, kind="missing_file") from error
    except OSError as error:
        raise UserError(f"{file} cannot be read ({error.strerror}).", kind="invalid_file") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: not UTF-8 text. Save the file as UTF-8.", kind="invalid_file") from error
    return _parse_prices(text, file.name)


def _parse_prices(text: str, name: str) -> dict[str, Price]:
    """The prices in the lines of a table; ``name`` is the file's name in errors."""
    prices: dict[str, Price] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = Entry.model_validate_json(line)
        except ValidationError as error:
            raise _invalid_price_error(f"{name}, line {number}", error) from error
        if entry.model in prices:
            raise UserError(f"{name}, line {number}: {entry.model} has a price already.", kind="invalid_file")
        prices[entry.model] = {"input": entry.input, "output": entry.output}
        if entry.cached is not None:
            prices[entry.model]["cached"] = entry.cached
    return prices


def _invalid_price_error(where: str, error: ValidationError) -> UserError:
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"]))
    return UserError(
        f"{where}: {field + ': ' if field else ''}{first['msg']}. Each line is an object with model (provider:name), "
        "input and output (USD for a million tokens) and, if you like, cached, as_of, source, context, "
        "context_source, note.",
        kind="invalid_file",
    )


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """A model's price, for an unlisted dated snapshot that of the model without the date; None if it is not listed.

    An object such as ``object:ChatOpenAI(gpt-4o)`` has the price of ``openai:gpt-4o`` if none is listed for itself.
    """
    if (found := OBJECT_NAME.fullmatch(model)) and model not in prices:
        model = f"{PROVIDERS_OF_CLASSES.get(found[1], OBJECT)}:{found[2]}"
    return prices.get(model) or prices.get(DATED.sub("", model))


OBJECT_NAME = re.compile(rf"{OBJECT}:(\w+)\((.+)\)")
"""The name of an object that has none of its own: its class and its model."""
PROVIDERS_OF_CLASSES = {vendor.chat.partition(":")[2]: name for name, vendor in VENDORS.items()} | {
    "ChatOpenAI": "openai",
    "ChatOllama": "ollama",
}
"""The provider whose models the objects of a class call."""


def paid_calls(calls: Iterable[Call]) -> list[Call]:
    """The calls that a debate paid for, without calls with a stored reply and shared calls."""
    return [call for call in calls if not (call.get("from_store") or call.get("shared"))]


def calls_with_reserved_tokens(calls: Iterable[Call]) -> list[Call]:
    """The calls except shared ones; each call's tokens include those in ``reserved``."""
    return [_with_reserved_tokens(call) if "reserved" in call else call for call in calls if not call.get("shared")]


def _with_reserved_tokens(call: Call) -> Call:
    tokens = {name: (call.get(name) or 0) + most for name, most in call["reserved"].items()}  # type: ignore[operator]
    return cast(Call, {**call, **tokens})


def is_counted(call: Call) -> bool:
    """Whether the tokens of a call are known."""
    # A shared call used none. A failed or refused call without a count used none, unless it may be charged
    # (``reserved``).
    unanswered = call["outcome"] in ("failed", "refused") and not tokens_of([call])
    if (unanswered and "reserved" not in call) or call.get("shared"):
        return True
    return None not in (call["prompt_tokens"], call["completion_tokens"]) and tokens_of([call]) > 0


def cost_of(calls: Iterable[Call], prices: Mapping[str, Price]) -> float | None:
    """The cost of calls, in USD; None if the tokens (`is_counted`) or the price of any call are unknown."""
    # Charges for failed attempts before a successful one are not included.
    costs: list[float] = []
    for call in calls:
        price = price_of(call["model"], prices)
        if not is_counted(call) or (price is None and tokens_of([call])):
            return None
        if price:
            cached = call.get("cached_tokens") or 0
            costs += costs_of(call["prompt_tokens"] or 0, call["completion_tokens"] or 0, price, cached)
    return math.fsum(costs)


def costs_of(prompt_tokens: int, completion_tokens: int, price: Price, cached: int = 0) -> tuple[float, float]:
    """The cost of a prompt, of whose tokens some were ``cached``, and the cost of its reply, in USD."""
    known = min(cached, prompt_tokens)
    prompt = (prompt_tokens - known) * price["input"] + known * price.get("cached", price["input"])
    return prompt / MILLION, completion_tokens * price["output"] / MILLION
