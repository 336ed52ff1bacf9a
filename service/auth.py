"""Aegra's authentication: reads the user's name from a header that `moot.web.login` sets before every route."""

from __future__ import annotations

from typing import Any

from langgraph_sdk import Auth
from moot.web.login import USER_HEADER

auth = Auth()


@auth.authenticate
async def authenticate(headers: dict[str, Any]) -> dict[str, Any]:
    """Authenticates the user named in the header."""
    name = headers.get(USER_HEADER)
    if not name:
        raise Auth.exceptions.HTTPException(status_code=401, detail="The request names no user.")
    return {"identity": name, "is_authenticated": True}
