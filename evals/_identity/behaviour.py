"""Each system's version, which changes only if the system's behaviour changes.

It is a digest of scripted debates: of every request that the system sends to a deterministic model, and of the debates'
results. A digest of the code would change with a comment or a renamed variable, and all runs would have to be paid for
again; a version number could be forgotten. The digests are stored in ``behaviour.jsonl``, and a test compares them
with the code.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources


@cache
def behaviours() -> dict[str, str]:
    """The digest of each system's behaviour. It differs between versions of moot if the behaviour differs."""
    text = (resources.files("moot.evals._identity") / "behaviour.jsonl").read_text(encoding="utf-8")
    records = map(json.loads, text.splitlines())
    return {record["graph"]: record["behaviour"] for record in records}
