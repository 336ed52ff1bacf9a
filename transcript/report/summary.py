"""Adds a summary for readers to a finished debate, with the graph `summarise_for_readers`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from moot.core.errors import BudgetExhausted, MootError, error_from_record
from moot.core.store import open_store
from moot.nodes._models.budget import SETTINGS
from moot.nodes._models.prices import paid_calls, read_prices
from moot.nodes._models.replies import DebateReplies, Mode, StoreUse, current_use
from moot.nodes._models.session import Session, with_session
from moot.nodes._models.spend import spent_by
from moot.nodes._runtime.document import models_used, usage
from moot.nodes._runtime.settings import DEMONSTRATION, REPORTER, Settings, checked_settings
from moot.nodes._steps.reader import checked_quotes

SHARED = tuple(name for name in Settings.model_fields if name not in ("models", "reader_summary", "embedder", "corpus"))
"""Settings that a summary takes from its debate."""
NOT_REAL = (*DEMONSTRATION, "recorded")
"""Providers of models whose texts mean nothing to readers."""


async def with_summary(document: Mapping[str, Any], settings: Mapping[str, Any], mode: Mode = "off") -> dict[str, Any]:
    """A document with a summary for readers under ``reader_summary``.

    The summary's calls, warnings, usage and models are added to those of the debate. If `summary_replies`
    returns stored replies, the summary's calls use them.

    Args:
        document: a finished debate. If it has no verdict or no checked quote, no call is made, and the summary is
            empty.
        settings: settings of `moot.graphs.summarise_for_readers`.
        mode: how stored replies are used; ignored inside `store_use`, or if ``MOOT_REPLIES`` is set.

    Raises:
        UserError, WorldError, ReplyError, BudgetExhausted: the summary failed.
    """
    from moot.graphs.summarise_for_readers import graph

    context: Any = checked_settings(cast(type[Settings], graph.context_schema), settings)
    session = Session(replies=await summary_replies(document["id"], current_use(mode)))
    state = await graph.ainvoke(cast(Any, {"document": dict(document)}), with_session(None, session), context=context)
    if state.get("error"):
        raise error_from_record(state["error"])
    calls = [*document["calls"], *(state.get("calls") or [])]
    return {
        **document,
        "reader_summary": state["reader_summary"],
        "calls": calls,
        "usage": {**document["usage"], **usage(calls)},
        "models": models_used(calls) if calls else document["models"],
        "warnings": [*document["warnings"], *(state.get("warnings") or [])],
    }


async def summary_replies(debate: str, use: StoreUse) -> DebateReplies | None:
    """The stored replies for the summary of a debate; None if none are used.

    None are used in the mode ``off`` or for a debate without an id. In the modes ``record`` and ``reuse``, they are
    used only if the store has the debate.

    Raises:
        UserError: the store cannot be used.
        WorldError: the disk is full or fails.
    """
    if use.mode == "off" or not debate:
        return None
    store = open_store()
    if use.mode == "replay":
        return DebateReplies(use.mode, store, use.id or debate)
    if await store.soon(store.run, debate) is None:
        return None
    return DebateReplies(use.mode, store, use.id or debate, earlier=await store.soon(store.replies, debate))


async def summarised(document: dict[str, Any], mode: Mode = "off") -> dict[str, Any]:
    """A debate's document with the summary that its setting ``reader_summary`` asks for.

    The document does not change if it `needs_summary` not.

    The summary may use what is left of the debate's ceilings. If the summary fails with a `MootError`, the document
    gets a warning with the cause.

    Args:
        document: the document at the end of the debate.
        mode: see `with_summary`.
    """
    if not needs_summary(document):
        return document
    try:
        return await with_summary(document, summary_settings(document), mode)
    except MootError as error:
        warned = {"kind": "no_reader_summary", "where": REPORTER, "detail": error.detail}
        return {**document, "warnings": [*document["warnings"], warned]}


def needs_summary(document: Mapping[str, Any]) -> bool:
    """Whether a debate is done and its setting asks for a summary that no model was asked to write yet.

    False without a checked quote, on which a sentence could rest, and if the role's model only demonstrates or repeats
    a record: its texts mean nothing to readers.
    """
    settings = document["settings"]
    chosen = settings.get("models", {}).get(REPORTER) or settings.get("model") or ""
    name = str(chosen["model"] if isinstance(chosen, Mapping) else chosen)
    failed = any(one["kind"] == "no_reader_summary" for one in document["warnings"])
    wanted = settings.get("reader_summary") and document["status"] == "done" and not failed
    if not wanted or "reader_summary" in document or name.partition(":")[0] in NOT_REAL:
        return False
    return bool(checked_quotes(document))


def summary_settings(document: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a debate's summary: the debate's own settings, with what is left of its ceilings.

    Args:
        document: the result document.

    Raises:
        UserError: the debate has a limit on its cost, and the file of prices cannot be read or is invalid.
        BudgetExhausted: nothing is left of a ceiling.
    """
    given = document["settings"]
    settings = {name: given[name] for name in SHARED if name in given}
    settings["models"] = {role: model for role, model in given.get("models", {}).items() if role == REPORTER}
    calls = paid_calls(document["calls"])
    prices = {} if given.get("max_cost") is None else read_prices()
    used = {**spent_by(calls, prices)._asdict(), "seconds": document["seconds"]}
    bounds = {name: given[setting] for name, setting in SETTINGS.items() if given.get(setting) is not None}
    left = {SETTINGS[name]: most - used[name] for name, most in bounds.items()}
    if used_up := [name for name, amount in left.items() if amount <= 0]:
        raise BudgetExhausted(f"`{used_up[0]}` was used up by the debate itself.")
    return settings | left
