"""The application of `moot service`: that of `moot.web.app`, with users, quotas, and stores that processes share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from moot.core.errors import MootError, UserError
from moot.service.quotas import Quotas
from moot.service.stores import START_LOCK, shared_stores
from moot.service.usage import describe_usage
from moot.service.users import Users, read_users
from moot.web import app as page
from moot.web.caller import USERS, public_text
from moot.web.login import TOKEN, Callers, Login, callers_with_token
from starlette.middleware import Middleware


class Accounts(Users):
    """The users, as the page's log-in shows them."""

    def about(self, name: str) -> str:
        """As `Callers.about`: the user's name, and what the user has used, or why that is not known."""
        try:
            used = describe_usage(name)
        except MootError as error:
            used = f"Your usage is not known. {public_text(error)}"
        return f"You are {name}. {used}"


def read_callers() -> Callers | None:
    """The users that ``MOOT_USERS`` names, or the callers of ``MOOT_TOKEN``; None without both variables."""
    users, everybody = read_users(), callers_with_token()
    if users and everybody:
        raise UserError(f"{TOKEN} and {USERS} are both set: unset one of them.", kind="invalid_environment")
    return Accounts(users.by_name) if users else everybody


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Context manager: as `moot.web.app.lifespan`; lets the next process start."""
    START_LOCK.end()
    async with page.lifespan(app):
        yield


app = page.make_app(
    login=Middleware(Login, read_callers=read_callers), limits=[Quotas], stores=shared_stores, lifespan=lifespan
)
