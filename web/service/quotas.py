"""What each user of the service may have debated in 24 hours, and which corpora they may read."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from moot.core.errors import UserError, WorldError
from moot.core.postgres.connection import Postgres
from moot.web.caller import DATABASE, asking
from moot.web.checks import ASKING, replay
from moot.web.guard import is_own
from moot.web.once import BEGINS
from moot.web.service.users import User, read_users
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

NOT_HERE = {
    "/runs/batch": "This server begins one run at a time: POST /runs, once for each.",
    "/moot/api/batches": "This server takes no batches on the page: `moot batch FILE --queue` has workers do them.",
}
"""What the page and LangGraph's server have, and this one does not."""
SEARCHES = ("chroma", "bm25", "hybrid")
DAY = "now() - interval '1 day'"


@dataclass(frozen=True)
class Spending:
    """What a user had in the last 24 hours: debates asked for, tokens, USD, and how many debates of unknown price."""

    debates: int
    tokens: int
    usd: float
    unpriced: int


def spending(person: str) -> Spending:
    """What a user had in the last 24 hours. Blocking.

    Raises:
        UserError, WorldError: the database cannot be used.
    """

    def job(cursor: Any) -> Spending:
        cursor.execute(f"SELECT count(*) FROM moot.asked WHERE person = %s AND at > {DAY}", (person,))
        debates = int(cursor.fetchone()[0])
        cursor.execute(
            "SELECT coalesce(sum(tokens), 0), coalesce(sum(usd), 0), count(*) FILTER (WHERE usd IS NULL) "
            f"FROM moot.documents WHERE person = %s AND written > {DAY}",
            (person,),
        )
        tokens, usd, unpriced = cursor.fetchone()
        return Spending(debates, int(tokens), float(usd), int(unpriced))

    return _postgres(os.environ[DATABASE]).do(job, 10)


@lru_cache(maxsize=1)
def _postgres(url: str) -> Postgres:
    return Postgres(url)


def check_quota(person: str, user: User) -> int:
    """Counts a debate that a user asks for; the number under which it is counted. Blocking.

    Raises:
        UserError: the user has had what they may have.
    """
    had = spending(person)
    if user.debates_a_day is not None and had.debates >= user.debates_a_day:
        raise _used_up(f"{had.debates} debates in 24 hours, and may have {user.debates_a_day}")
    if user.usd_a_day is not None and had.unpriced:
        raise _used_up(
            "a limit in USD, and debates in the last 24 hours whose price is not known: give their models' prices to "
            "the server (MOOT_PRICES)"
        )
    if user.usd_a_day is not None and had.usd >= user.usd_a_day:
        raise _used_up(f"spent ${had.usd:,.2f} in 24 hours, and may spend ${user.usd_a_day:,.2f}")
    query = "INSERT INTO moot.asked (person) VALUES (%s) RETURNING id"
    return int(_postgres(os.environ[DATABASE]).do(lambda cursor: cursor.execute(query, (person,)).fetchone()[0], 10))


def take_back(number: int) -> None:
    """A debate that was counted did not begin. Blocking."""
    query = "DELETE FROM moot.asked WHERE id = %s"
    _postgres(os.environ[DATABASE]).do(lambda cursor: cursor.execute(query, (number,)), 10)


def _used_up(what: str) -> UserError:
    return UserError(f"You had {what}. Ask whoever runs this server for more.", kind="quota")


def check_corpora(body: Any, user: User) -> None:
    """Refuses settings that read a corpus which is not for a user: of runs, and of assistants.

    Raises:
        UserError: they do.
    """
    if user.corpora is None:
        return
    for one in body if isinstance(body, list) else [body]:
        named = {*corpora_in([one.get("context"), one.get("config")])} if isinstance(one, Mapping) else set()
        if others := sorted(named - {*user.corpora}):
            raise UserError(f"The corpus {others[0][:80]!r} is not for you.", kind="unknown_corpus")


def corpora_in(settings: Any) -> Iterator[str]:
    """The corpora that settings name."""
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


def readable(corpora: list[str]) -> list[str]:
    """Those of some corpora that whoever asks may read. Blocking."""
    users = read_users() if asking.get() else None
    mine = users.by_name[asking.get() or ""].corpora if users else None
    return corpora if mine is None else [name for name in corpora if name in mine]


def told(person: str) -> str:
    """What a user had, in a sentence. Blocking."""
    had = spending(person)
    more = f", and {had.unpriced} of unknown price" * bool(had.unpriced)
    return f"In the last 24 hours: {had.debates:,} debates, {had.tokens:,} tokens, ${had.usd:,.2f}{more}."


class Quotas:
    """Middleware that refuses what a user may not have, or what this server has not, with a sentence.

    Without ``MOOT_DATABASE`` it lets everything through.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.is_service = bool(os.environ.get(DATABASE))
        self.users = read_users() if self.is_service else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on or refuses it."""
        if not self.is_service or scope["type"] != "http" or is_own(scope):
            return await self.app(scope, receive, send)
        path, person = scope["path"].rstrip("/"), asking.get()
        if fault := next(
            (said for begin, said in NOT_HERE.items() if path == begin or path.startswith(f"{begin}/")), ""
        ):
            return await JSONResponse({"detail": fault, "kind": "not_here"}, 501)(scope, receive, send)
        user = self.users.by_name[person] if self.users and person else None
        if person is None or user is None or scope["method"] not in ("POST", "PATCH", "PUT") or not ASKING.search(path):
            return await self.app(scope, receive, send)
        content = await Request(scope, receive).body()
        receive = replay(content, receive)
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            body = None  # the server says so itself
        try:
            check_corpora(body, user)
            counted = await asyncio.to_thread(check_quota, person, user) if begins(path, body) else None
        except UserError as error:
            status = 429 if error.kind == "quota" else 422
            return await JSONResponse({"detail": error.detail, "kind": error.kind}, status)(scope, receive, send)
        except WorldError as error:
            return await JSONResponse({"detail": error.detail, "kind": error.kind}, 503)(scope, receive, send)
        return await self.app(scope, receive, send if counted is None else counting(counted, send))


def begins(path: str, body: Any) -> bool:
    """Whether a request begins a debate."""
    return bool(BEGINS.fullmatch(path)) and isinstance(body, Mapping) and body.get("input") is not None


def counting(number: int, send: Send) -> Send:
    """Sends an answer; if the server refused the debate, it counts for nothing."""

    async def counted(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] >= 400:
            await asyncio.to_thread(take_back, number)
        await send(message)

    return counted
