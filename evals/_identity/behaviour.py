"""Each system's version, which changes only if the system's behaviour changes.

The version is a digest of scripted debates. It covers every request that the system sends to a deterministic model,
and the debates' results. A digest of the code would change with every comment, and then all runs would have to be paid
for again. A version number that is raised by hand would sometimes be forgotten. The digests are stored in
``behaviour.jsonl``. A test computes the digests again, and compares them with the stored ones.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources


@cache
def behaviours() -> dict[str, str]:
    """The digest of the behaviour of each of moot's own systems, by the name of the system's graph."""
    text = (resources.files("moot.evals._identity") / "behaviour.jsonl").read_text(encoding="utf-8")
    records = map(json.loads, text.splitlines())
    return {record["graph"]: record["behaviour"] for record in records}
