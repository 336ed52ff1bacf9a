"""The option ``--database``, for commands that show or delete stored debates.

If it is given, these commands use the database of a service or of a queue, not this machine's folder.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from moot.core.store import Store

Database = Annotated[
    str | None,
    typer.Option(
        envvar="MOOT_DATABASE",
        metavar="postgresql://...",
        help="Use the Postgres of `moot service` or of a queue instead of this machine's folder.",
        show_envvar=False,
    ),
]
_store: ContextVar[Store | None] = ContextVar("database's store", default=None)


@contextmanager
def using_database(url: str | None) -> Iterator[None]:
    """Context in which the history and the store of replies are those of a database, if its address is given.

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
    from moot.web import debates
    from moot.web.documents import Documents

    with closing(Postgres(url, patience=0)) as postgres, closing(PostgresStore(postgres)) as store:
        postgres.check()
        text = f"From the database {postgres.name()} (MOOT_DATABASE or --database), not from this machine's folder:"
        print(text, file=sys.stderr, flush=True)  # noqa: T201
        token = _store.set(store)
        try:
            with debates.use_database(Documents(postgres)):
                yield
        finally:
            _store.reset(token)


def existing_store() -> Store | None:
    """The store of the database in use, else that of this machine; None if this machine has none."""
    if found := _store.get():
        return found
    from moot.core.store import open_store, store_path

    return open_store() if store_path().exists() else None
