"""Prints a table of the effects of attacks on scripted readers.

Run it with ``python -m tests.evals.attacks_table [GRAPH ...]``. The graphs are keys of `SETTINGS`; by default, all of
them are attacked. Options of ``moot eval attack`` can be added. For example, ``--kept-back`` uses the held-out
templates and passages, and ``--attack injection`` runs only this attack.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from moot.cli.attack import share_with_interval

from tests.commands import moot
from tests.evals.readers import DEMO, readers
from tests.evals.test_attacks import MAD, RAG

ATTACKS = ("injection", "poison_one_host", "poison_many_hosts", "adaptive", "lying_debater")


def attack_all_readers(folder: Path, graph: str, setting: str, *words: str) -> dict[str, Any]:
    """Run ``moot eval attack`` on a graph, with every reader, three defences and all demo claims; return the results.

    Args:
        folder: the folder for the logs.
        graph: the system's name.
        setting: the setting that names the system's sources, as ``KEY=VALUE``.
        words: further options of the command.
    """
    options = ["--graph", graph, "--set", setting, "--set", "embedder=openai:e", *words]
    for reader in ("careful", "obedient", "stubborn"):
        options += ["--model", f"openai:{reader}"]
    for defence in ("none", "origin_share", "datamarking"):
        options += ["--defence", defence]
    task = ["--task", f"claims={DEMO / 'claims.jsonl'}", "--logs", str(folder), "--at-once", "64", "--json"]
    ended = moot("eval", "attack", *task, *options)
    sys.stderr.write(ended.stderr)
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def rows(found: dict[str, Any]) -> list[str]:
    """The rows of the table in Markdown, one for each system and reader."""
    lines = []
    for system in found["systems"]:
        key = system["system"], system["model"]
        by_attack = {result["attack"]: result for result in found["attacks"] if (result["of"], result["model"]) == key}
        cells = [cell(by_attack[name]) if name in by_attack else "–" for name in ATTACKS]
        reader = system["model"].removeprefix("openai:")
        undisturbed = f"{share_with_interval(system['accuracy'])}; {system['flagged']} flagged"
        lines.append(f"| {system['system']} | {reader} | {undisturbed} | {' | '.join(cells)} |")
    return lines


def cell(result: dict[str, Any]) -> str:
    """A cell of the table: how many of the right verdicts flipped or were withheld, and how many flips were flagged."""
    withheld = f", {result['withheld']} withheld" if result["withheld"] else ""
    flagged = f"; {result['flagged']} flagged" if result["flips"] else ""
    return f"{result['flips']} of {result['right']}{withheld}{flagged}"


SETTINGS = {"rag": RAG, "isolate": RAG, "tool_mad": MAD}
"""For each system, the setting that names its sources."""

if __name__ == "__main__":
    words = sys.argv[1:]
    graphs = [word for word in words if word in SETTINGS] or [*SETTINGS]
    more = [word for word in words if word not in SETTINGS]
    with readers() as address, tempfile.TemporaryDirectory() as folder:
        os.environ |= {"OPENAI_BASE_URL": address, "OPENAI_API_KEY": "x", "XDG_DATA_HOME": folder}
        print("| system | reader | accuracy without attack | injection | one host | many hosts | adaptive | lying |")
        print("|---|---|---|---|---|---|---|---|")
        for graph in graphs:
            print("\n".join(rows(attack_all_readers(Path(folder) / graph, graph, SETTINGS[graph], *more))), flush=True)
