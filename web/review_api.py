"""The review of a check as a small JSON API for the page: what was decided, what may be done now, and decisions."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from moot.core.config import value_of
from moot.core.errors import UserError
from moot.core.reviews import FROM, Decision, as_plain, history_of, house_scale
from moot.core.store import open_store
from moot.transcript.document import checked_parts
from moot.transcript.report.head import verdict_chip, warnings_of_verdict
from moot.transcript.report.names import Names
from moot.transcript.report.reviewed import rating_chip, written_summary
from moot.transcript.report.sources import sources_of
from moot.web import debates
from moot.web.caller import body_of, caller_client, parse_json
from moot.web.kept import current_user, may_approve
from moot.web.reviews import FOR_APPROVERS, decide
from moot.web.table import find_debate
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

LARGEST = 100_000
"""Maximum size of a decision in bytes."""


async def show_review(request: Request) -> Any:
    """The review of a check: see `_described`."""
    stem = await _found(request)
    return await run_in_threadpool(_described, stem)


async def change_review(request: Request) -> Any:
    """Adds a decision to a check's history, and returns the review.

    The body has the ``action``, ``based_on`` (the number of entries that the person has seen) and the fields that
    changed (`moot.core.reviews.Decision`). If there are more entries, nothing is added (status 409).
    """
    stem = await _found(request)
    body = parse_json(await body_of(request, LARGEST))
    form = '{"action": "save", "based_on": 0, "rating": "...", ...}'
    if not isinstance(body, dict) or not isinstance(body.get("action"), str) or type(body.get("based_on")) is not int:
        raise UserError(f"The body must have this form: {form}.", kind="bad_request")
    change: Any = {name: value for name, value in body.items() if name not in ("action", "based_on")}
    await run_in_threadpool(decide, stem, body["action"], change, based_on=body["based_on"])
    return await run_in_threadpool(_described, stem)


async def _found(request: Request) -> str:
    stem, _ = await find_debate(request.path_params["id"], caller_client(request.scope))
    if stem is None:
        raise UserError("This debate has no document yet, so there is nothing to review.", kind="missing_file")
    return stem


def _described(stem: str) -> dict[str, Any]:
    """A check's history and what may be done now, for the panel; a damaged history is a ``fault``. Blocking."""
    document, scale = debates.load(stem), house_scale()
    with checked_parts():
        chip = verdict_chip(document)
        warned = [one._asdict() for one in warnings_of_verdict(document, Names(document))]
        numbers = sources_of(document).numbers
    steps = [
        {"rating": step.rating, "about": step.about, "chip": asdict(rating_chip(step.rating, scale))}
        for step in scale.steps
    ]
    found: dict[str, Any] = {
        "person": current_user.get() or value_of("editor"),
        "may_approve": may_approve.get(),
        "machine": {"chip": asdict(chip), "summary": written_summary(document)},
        "warnings": warned,
        "passages": numbers,
        "scale": steps,
        "today": f"{datetime.now(UTC):%Y-%m-%d}",
        "has_ended": document["status"] == "done",
    }
    try:
        history = history_of(open_store(), debates.check_of(stem))
    except UserError as error:
        if error.kind != "damaged_store":
            raise
        return {**found, "fault": error.detail, "stage": "damaged", "number": 0, "history": [], "actions": []}
    last = history.last or Decision()
    words = last.model_dump(mode="json", include={*Decision.model_fields} - {"note", "to_readers"})
    if is_of_other := history.written is not None and history.written.document != stem:
        words["acknowledged"] = []  # they were warnings of another version
    return {
        **found,
        "fault": "",
        "stage": history.stage,
        "number": len(history),
        "other_version": history.settled is not None and history.settled.document != stem,
        "other_words": is_of_other,
        "words": words,
        "history": as_plain(history),
        "actions": [
            action
            for action, stages in FROM.items()
            if action != "recheck"  # which has a route of its own
            and history.stage in stages
            and (may_approve.get() or action not in FOR_APPROVERS)
        ],
    }
