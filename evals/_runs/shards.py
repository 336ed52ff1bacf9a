"""Shards of a plan: parts of its items, each run by its own process into its own folder, and compared as one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moot.core.errors import UserError

if TYPE_CHECKING:
    from inspect_ai.dataset import Dataset

FOLDER = re.compile(r"shard-(\d+)-of-(\d+)")
"""The names of the folders of shards."""
MOST_SHARDS = 10_000


@dataclass(frozen=True)
class Shard:
    """Every ``of``-th item of each benchmark, beginning with item ``number``, which counts from 1.

    A shard has all systems of the plan and their controls, so it depends on no other shard.
    """

    number: int
    of: int

    @property
    def folder(self) -> str:
        """The name of the folder of its logs."""
        return f"shard-{self.number}-of-{self.of}"

    def part_of(self, items: Dataset) -> Dataset:
        """The shard's items, in their order."""
        return items[self.number - 1 :: self.of]

    def note(self, items: Dataset) -> dict[str, Any]:
        """What a log notes about the shard; ``items``: those of all shards."""
        return {"number": self.number, "of": self.of, "items": len(items)}


def read_shard(text: str) -> Shard:
    """The shard that a text such as ``3/16`` names."""
    found = re.fullmatch(r"(\d{1,5})/(\d{1,5})", text.strip())
    number, of = map(int, found.groups()) if found else (0, 0)
    if not 1 <= number <= of <= MOST_SHARDS:
        raise UserError(
            f"--shard {text[:40]} is not a shard: write NUMBER/OF, such as 3/16, with a number from 1 to OF, and OF up "
            f"to {MOST_SHARDS:,}.",
            kind="invalid_setting",
        )
    return Shard(number, of)


def folder_of(logs: Path, shard: Shard | None) -> Path:
    """The folder of a run's logs."""
    kinds = {found[2] for path in logs.glob("shard-*-of-*") if (found := FOLDER.fullmatch(path.name))}
    others = kinds - ({str(shard.of)} if shard else set())
    if others:
        raise UserError(
            f"{logs} has shards of a run in {' and in '.join(sorted(others))} parts. Continue with `--shard NUMBER/"
            f"{min(others)}`, or name another folder with --logs.",
            kind="invalid_setting",
        )
    if shard and any(logs.glob("*.eval")):
        raise UserError(
            f"{logs} has logs of a run without --shard. Continue without it, or name another folder with --logs.",
            kind="invalid_setting",
        )
    return logs / shard.folder if shard else logs


def missing_shards(numbers: Sequence[int], of: int) -> str:
    """The shards that are missing, in words; empty if none is."""
    missing = sorted({*range(1, of + 1)} - {*numbers})
    if not missing:
        return ""
    listed = ", ".join(map(str, missing[:10])) + (f" and {len(missing) - 10} more" if len(missing) > 10 else "")
    return f"of {of} shards, these are missing: {listed}"
