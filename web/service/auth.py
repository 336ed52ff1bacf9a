"""Aegra's authentication: `moot.web.login`, which stands before every route, has said in a header who asks."""

from __future__ import annotations

from typing import Any

from langgraph_sdk import Auth
from moot.web.login import ASKS

auth = Auth()


@auth.authenticate
async def authenticate(headers: dict[str, Any]) -> dict[str, Any]:
    """Who asks."""
    name = headers.get(ASKS)
    if not name:
        raise Auth.exceptions.HTTPException(status_code=401, detail="Nobody has said who asks.")
    return {"identity": name, "is_authenticated": True}
