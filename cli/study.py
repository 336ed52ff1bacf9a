"""``moot eval archive`` and ``moot eval replay``: a study in one file, and what it gives on another machine."""

from __future__ import annotations

from pathlib import Path

from moot.cli.compare import compare_logs
from moot.cli.database import using_database
from moot.core.store import existing_store
from moot.core.words import count_with_noun
from moot.evals._runs.study import archive_study, replay_study, unpack_study
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

SHOWN = 10
"""Maximum number of debates of one kind that are named."""


def archive(logs: Path, out: Path, database: str | None) -> None:
    """Writes the archive of a study, and prints what it contains.

    Raises:
        UserError, WorldError: as `archive_study`.
    """
    with using_database(database):
        found = archive_study(logs, out, existing_store())
    kept = found.debates - found.without_replies
    print(  # noqa: T201
        f"Wrote {out}: {count_with_noun(found.logs, 'log')}, and the replies of {kept:,} of "
        f"{count_with_noun(found.debates, 'debate')}."
    )
    if found.without_replies:
        print(  # noqa: T201
            "Debates without stored replies cannot be replayed; their results are in the logs. To store replies, run "
            "the evaluation with MOOT_REPLIES=record."
        )


def replay(file: Path, out: Path) -> int:
    """Replays a study, and writes its report; the exit code is 3 if a debate was not replayed to the same result.

    Raises:
        UserError, WorldError: as `unpack_study`, `replay_study` and `compare_logs`.
    """
    console = Console(stderr=True)
    about = unpack_study(file, out)
    total = sum(name.startswith("replies/") for name in about.files)
    with Progress(BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console) as bars:
        bar = bars.add_task("", total=total)
        found = replay_study(out, about, lambda: bars.advance(bar))
    compare_logs([out / "logs"], out=out / "report", against=None, tests=None, prices=None, audit=None, as_json=False)
    same = f"{found.same:,} of {count_with_noun(total, 'debate')} with stored replies gave the same result again."
    console.print(same, highlight=False)
    for title, names in (("different", found.different), ("not replayed", found.not_replayed)):
        for name in names[:SHOWN]:
            console.print(f"{title}: {name}", markup=False, highlight=False)
        if len(names) > SHOWN:
            console.print(f"{title}: {len(names) - SHOWN:,} more", highlight=False)
    return 3 if found.different or found.not_replayed else 0
