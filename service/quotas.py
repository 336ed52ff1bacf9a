"""Limits for the users of the service: their quotas for 24 hours, and the corpora that they may read."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any
from uuid import uuid4

from langgraph_sdk.client import LangGraphClient
from moot.core.errors import UserError, WorldError
from moot.graphs import load_graph
from moot.graphs._registry import graph_names
from moot.nodes._models.budget import debates_within
from moot.nodes._models.prices import price_of, read_prices
from moot.nodes._runtime.settings import checked_settings, with_usual_model
from moot.service.usage import count_debate, reserved_ceilings, uncount_debate, usage
from moot.service.users import User, read_users
from moot.web.caller import caller_client, public_text, readable_corpora
from moot.web.checks import RUN_ROUTES, graph_and_settings, replay, settings_in
from moot.web.guard import is_own
from moot.web.idempotency import START_ROUTE
from moot.web.kept import colleagues, current_user, may_approve
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MISSING_ROUTES = {
    r"/runs/batch": "This server starts one run per request: POST /runs once for each run.",
    r"(/threads/[^/]+)?/runs/crons(/.*)?": "This server has no schedules: POST /runs when it is time.",
    r"/moot/api/batches(/.*)?": "This server takes no batches here: use `moot batch FILE --queue` and `moot worker`.",
}
"""Maps patterns of routes to messages. A service refuses these routes, because quotas would not count their runs."""
CORPUS_FIELDS = ("context", "config", "values")
"""Parts of a request that may name a corpus. A command may also name a corpus; see `command_values`."""
STATE = re.compile(r"/threads/[^/]+/state")
SUMMARY = re.compile(r"/moot/api/debates/[^/]+/summary")
SEARCHES = ("chroma", "bm25", "hybrid")
"""Kinds of sources that name a corpus, as ``KIND:CORPUS``."""


async def check_prices(body: Any, client: LangGraphClient) -> None:
    """Refuses a request if one of its models has no known price.

    If a new debate has no model in its settings, the model of MOOT_MODEL is checked.

    """
    if not isinstance(body, Mapping):
        return
    named = body.get("assistant_id")
    graph, own = await graph_and_settings(named, client) if isinstance(named, str) else ("", {})
    settings = {**own, **{key: value for one, _ in settings_in(body) for key, value in one.items()}}
    if body.get("input") is not None and graph in graph_names(others=True):
        kind = load_graph(graph, others=True).settings
        known = {key: value for key, value in settings.items() if key in kind.model_fields}
        settings = with_usual_model(checked_settings(kind, known, graph)).model_dump()
    prices = await asyncio.to_thread(read_prices)
    unknown = {
        model
        for model in models_in([settings, body.get("values"), *command_values(body)])
        if price_of(model, prices) is None
    }
    if unknown:
        raise UserError(
            f"No price is known for {', '.join(sorted(unknown))}, and your quota is in USD. Name a model with a price, "
            "or ask the administrator of this server to add the price (MOOT_PRICES), or to limit your debates or "
            "tokens in place of USD (debates_a_day, tokens_a_day).",
            kind="invalid_setting",
        )


def models_in(settings: Any) -> Iterator[str]:
    """The models that settings name for all roles, for single roles and for single debaters."""
    if isinstance(settings, Mapping):
        roles = settings.get("models")
        named = [settings.get("model"), *(roles.values() if isinstance(roles, Mapping) else ())]
        yield from (one for one in named if isinstance(one, str))
        settings = [*settings.values()]
    for one in settings if isinstance(settings, list | tuple) else ():
        yield from models_in(one)


def command_values(body: Mapping[str, Any]) -> list[Any]:
    """The values that a request's command writes into the state or sends to nodes."""
    command = body.get("command")
    return [command.get("goto"), command.get("update")] if isinstance(command, Mapping) else []


def check_corpora(body: Any, user: User) -> None:
    """Checks that the user may read every corpus that a request names in its settings or its values for the state.

    Values are checked, because a resumed debate reads its settings from its state, and a `Send` can name a source.

    """
    if user.corpora is None:
        return
    for one in body if isinstance(body, list) else [body]:
        params = one if isinstance(one, Mapping) else {}
        named = {*corpora_in([*(params.get(part) for part in CORPUS_FIELDS), *command_values(params)])}
        if forbidden := sorted(named - {*user.corpora}):
            raise UserError(f"You may not read the corpus {forbidden[0][:80]!r}.", kind="unknown_corpus")


def corpora_in(settings: Any) -> Iterator[str]:
    """The corpora that settings name, as ``corpus`` or in a source such as ``bm25:CORPUS``."""
    if isinstance(settings, list):
        for one in settings:
            yield from corpora_in(one)
    elif isinstance(settings, Mapping):
        if isinstance(name := settings.get("corpus"), str):
            yield name
        for one in settings.values():
            yield from corpora_in(one)
    elif isinstance(settings, str):
        kind, _, name = settings.partition(":")
        if kind in SEARCHES and name:
            yield name


class Quotas:
    """Middleware that refuses requests beyond a quota, for a forbidden corpus, or to `MISSING_ROUTES`.

    If the user has a quota in USD, it also refuses models without a price.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.users = read_users()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on or refuses it."""
        if scope["type"] != "http" or is_own(scope):
            return await self.app(scope, receive, send)
        path, person = scope["path"].rstrip("/"), current_user.get()
        if fault := next((message for route, message in MISSING_ROUTES.items() if re.fullmatch(route, path)), ""):
            return await JSONResponse({"detail": fault, "kind": "not_here"}, 501)(scope, receive, send)
        user = self.users.by_name[person] if self.users and person else None
        readable_corpora.set(user.corpora if user else None)
        if self.users and person and user:
            may_approve.set(user.approves)
            colleagues.set(self.users.colleagues_of(person))
        is_limited = RUN_ROUTES.search(path) or STATE.match(path) or SUMMARY.fullmatch(path)
        if person is None or user is None or scope["method"] not in ("POST", "PATCH", "PUT") or not is_limited:
            return await self.app(scope, receive, send)
        content = await Request(scope, receive).body()
        receive = replay(content, receive)
        body = json.loads(content or "null")
        counted = None
        try:
            check_corpora(body, user)
            if user.usd_a_day is not None:
                await check_prices(body, caller_client(scope))
            if starts_debate(path, body):
                counted = await asyncio.to_thread(count_debate, person, user)
            elif SUMMARY.fullmatch(path):
                return await self._summarise(person, scope, receive, send)
            elif START_ROUTE.fullmatch(path):
                (await asyncio.to_thread(usage, person)).check(user)
        except UserError as error:
            status = 429 if error.kind == "quota" else 422
            return await JSONResponse({"detail": error.detail, "kind": error.kind}, status)(scope, receive, send)
        except WorldError as error:
            return await JSONResponse({"detail": public_text(error), "kind": error.kind}, 503)(scope, receive, send)
        return await self.app(scope, receive, send if counted is None else uncount_if_refused(counted, send))

    async def _summarise(self, person: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request for a summary on, which runs within a reservation."""
        async with reserved_ceilings(f"summary {uuid4().hex}", person, {}) as reserved:
            with debates_within(reserved) if reserved else nullcontext():
                await self.app(scope, receive, send)


def starts_debate(path: str, body: Any) -> bool:
    """Whether a request starts a debate or a branch of a debate; false if it only continues the thread."""
    if not START_ROUTE.fullmatch(path) or not isinstance(body, Mapping):
        return False
    command = body.get("command")
    branching = isinstance(command, Mapping) and (command.get("goto") or command.get("update"))
    return body.get("input") is not None or bool(branching or body.get("checkpoint") or body.get("checkpoint_id"))


def uncount_if_refused(number: int, send: Send) -> Send:
    """Wraps ``send``, to remove a debate from its user's count if the server refuses the debate."""

    async def forward(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] >= 400:
            await asyncio.to_thread(uncount_debate, number)
        await send(message)

    return forward
