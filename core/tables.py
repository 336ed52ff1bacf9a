"""The tables of the store, in SQLite and in Postgres."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import CreateIndex, CreateTable

tables = sa.MetaData()
# The names in the database have a prefix, because Aegra has a table `runs`, in a Postgres perhaps in the same schema.
runs = sa.Table(
    "stored_runs",
    tables,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("fingerprint", sa.Text, nullable=False, index=True),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("graph", sa.Text, nullable=False),
    sa.Column("input", sa.Text, nullable=False),
    sa.Column("settings", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("started", sa.Float(53), nullable=False, index=True),
    sa.Column("updated", sa.Float(53), nullable=False, index=True),
    sa.Column("owner", sa.Text),
    sa.Column("claim", sa.BigInteger, nullable=False),
    sa.Column("pid", sa.BigInteger),
    sa.Column("document", sa.Text),
    sa.Column("note", sa.Text),
    sa.Column("idempotency_key", sa.Text, unique=True),
    sa.Column("person", sa.Text, index=True),
    sa.Column("thread", sa.Text, index=True),
    sa.Column("server_run", sa.Text),
    sa.Column("replaces", sa.Text),
)
replies = sa.Table(
    "stored_replies",
    tables,
    sa.Column("run", sa.Text, sa.ForeignKey("stored_runs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("key", sa.Text, primary_key=True, index=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("about", sa.Text, nullable=False),
    sa.Column("value", sa.LargeBinary),
    sa.Column("failed", sa.Boolean, nullable=False),
    *(
        sa.Column(f"{of}_{name}", sa.Float(53), nullable=False)
        for of in ("paid", "sent")
        for name in ("tokens", "usd", "calls")
    ),
    sa.Column("created", sa.Float(53), nullable=False),
)
documents = sa.Table(
    "documents",
    tables,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("debate", sa.Text, nullable=False, index=True),
    # The id of the first debate of a check, of which this is a new version; else that of the debate.
    sa.Column("of_check", sa.Text, nullable=False, index=True),
    sa.Column("person", sa.Text),
    sa.Column("run", sa.Text),
    sa.Column("thread", sa.Text, index=True),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("entry", sa.Text, nullable=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
    sa.Column("written", sa.Float(53), nullable=False),
    sa.Index("documents_of_person", "person", "id"),
)
spent = sa.Table(
    "spent",
    tables,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("person", sa.Text, nullable=False),
    sa.Column("tokens", sa.Float(53), nullable=False),
    sa.Column("usd", sa.Float(53)),
    sa.Column("at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Index("spent_by", "person", "at"),
)
"""What users with quotas have spent; a record stays if the debate's document is deleted."""


reviews = sa.Table(
    "reviews",
    tables,
    sa.Column("debate", sa.Text, primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True),
    sa.Column("stage", sa.Text, nullable=False, index=True),
    sa.Column("look_again", sa.Text, index=True),
    sa.Column("entry", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)
"""What editors decided about checks: rows are only added."""
batches = sa.Table(
    "batches",
    tables,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("file", sa.Text, nullable=False),
    sa.Column("mode", sa.Text, nullable=False),
    sa.Column("made", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("until", sa.Float(53), nullable=False),
    sa.Column("stopped", sa.Text, nullable=False, server_default=""),
    sa.Column("page", sa.Text),
    sa.Column("owner", sa.Text),
)
IS_RUNNING, IS_WAITING = sa.text("status = 'running'"), sa.text("status = 'waiting'")
rows = sa.Table(
    "rows",
    tables,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("batch", sa.Text, sa.ForeignKey("batches.id", ondelete="CASCADE"), nullable=False),
    sa.Column("turn", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("id", sa.Text, nullable=False, server_default=""),
    sa.Column("claim", sa.Text, nullable=False, server_default=""),
    sa.Column("label", sa.Text),
    sa.Column("claims_group", sa.Text),
    sa.Column("name", sa.Text, nullable=False, server_default=""),
    sa.Column("file", sa.Text, nullable=False, server_default=""),
    sa.Column("system", sa.Text, nullable=False, server_default=""),
    sa.Column("job", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False, server_default="waiting"),
    sa.Column("outcome", sa.Text),
    # What only a queue needs.
    sa.Column("document", sa.LargeBinary),
    *(sa.Column(name, sa.Float(53), nullable=False, server_default="0") for name in ("tokens", "usd", "calls")),
    sa.Column("worker", sa.BigInteger),
    sa.Column("losses", sa.Integer, nullable=False, server_default="0"),
    sa.Column("queued", sa.BigInteger),
    sa.Column("touched", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("collected", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Index("rows_of_batch", "batch", "status"),
    sa.Index("rows_in_order", "batch", "turn", "number"),
    sa.Index("rows_by_file", "batch", "file"),
    sa.Index("rows_by_name", "batch", "turn", sa.func.lower(sa.text("name"))),
    sa.Index("rows_running", "worker", postgresql_where=IS_RUNNING, sqlite_where=IS_RUNNING),
    sa.Index("rows_waiting", "touched", postgresql_where=IS_WAITING, sqlite_where=IS_WAITING),
)
keys = sa.Table(
    "idempotency_keys",
    tables,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("fingerprint", sa.Text, nullable=False),
    sa.Column("thread", sa.Text, nullable=False),
    sa.Column("run", sa.Text),
    sa.Column("taken", sa.Float(53), nullable=False),
)


def definitions(dialect: Dialect) -> Iterator[str]:
    """The SQL statements that create the tables."""
    for table in tables.sorted_tables:
        yield str(CreateTable(table).compile(dialect=dialect))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            yield str(CreateIndex(index).compile(dialect=dialect))
