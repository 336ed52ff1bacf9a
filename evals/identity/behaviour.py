"""Each system's version: it changes if what the system does changes, and with nothing else.

It is a digest of scripted debates: of every request that the system makes of a model that answers the same way for
the same prompt, and of what the debates come to. A digest of the code would change with a comment or another name for
a variable, and each time all runs would have to be paid for again; a number would have to be thought of. The digests
are kept in ``behaviour.jsonl``, and a test compares them with the code.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources


@cache
def behaviours() -> dict[str, str]:
    """By system, what tells its behaviour from that of other versions of moot."""
    text = (resources.files("moot.evals.identity") / "behaviour.jsonl").read_text(encoding="utf-8")
    records = map(json.loads, text.splitlines())
    return {record["graph"]: record["behaviour"] for record in records}
