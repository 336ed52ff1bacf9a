"""The option ``--database``, for commands that show or delete stored debates.

If it is given, these commands use the database of a service or of a queue, not this machine's folder.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Annotated

import typer

Database = Annotated[
    str | None,
    typer.Option(
        envvar="MOOT_DATABASE",
        metavar="postgresql://...",
        help="Use the Postgres of `moot service` or of a queue instead of this machine's folder.",
        show_envvar=False,
    ),
]


@contextmanager
def using_database(url: str | None) -> Iterator[None]:
    """Context in which the store is that of a database, if its address is given.

    A message on standard error then names the database. Anyone who has the address can read and delete the debates of
    all users.

    Args:
        url: the database's address; None or empty for this machine's folder.

    Raises:
        UserError: the address is wrong, the extra ``queue`` is not installed, or the database refuses access or has no
            tables of this version of moot.
        WorldError: the database cannot be reached.
    """
    if not url:
        yield
        return
    from moot.core.postgres.connection import Postgres
    from moot.core.postgres.store import PostgresStore
    from moot.core.store import use_store

    with closing(Postgres(url, patience=0)) as postgres, closing(PostgresStore(postgres)) as store:
        postgres.check()
        text = f"From the database {postgres.name()} (MOOT_DATABASE or --database), not from this machine's folder:"
        print(text, file=sys.stderr, flush=True)  # noqa: T201
        use_store(store)  # until it is closed
        yield
