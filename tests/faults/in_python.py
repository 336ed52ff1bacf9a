"""A program that calls a graph from Python. Its argument is a JSON object with the parameters of `main`.

The program runs a debate for each claim, all at once, with the store's ``mode``. It writes the list of documents to
the file ``out``. If there is only one claim, it writes the document without a list.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from moot.graphs import load_graph
from moot.nodes._models.replies import StoreUse, store_use


async def main(graph: str, settings: dict[str, Any], claims: list[str], mode: Any, out: str) -> None:
    """Run the debates."""
    system = load_graph(graph)
    context = system.settings.model_validate(settings)
    with store_use(StoreUse(mode)):
        documents = await asyncio.gather(*(system.graph.ainvoke({"claim": c}, context=context) for c in claims))
    Path(out).write_text(json.dumps(documents[0] if len(documents) == 1 else documents))


if __name__ == "__main__":
    asyncio.run(main(**json.loads(sys.argv[1])))
