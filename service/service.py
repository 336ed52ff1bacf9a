"""``moot service``: runs one process of a server. Such a server may have any number of processes."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn, TypeVar
from uuid import uuid4

from moot.core.errors import UserError
from moot.core.lazy import import_extra, imported
from moot.service.config import DEFAULTS, environment, write_config
from moot.service.stores import START_LOCK
from moot.service.users import read_users
from moot.web.caller import DATABASE, USERS
from moot.web.serve import browser_url, check_free, check_installed, check_token, prepare

log = logging.getLogger(__name__)

T = TypeVar("T")
PACKAGES = ("aegra_api", "langgraph.checkpoint.postgres", "psycopg", "uvicorn")
"""Modules that the extra ``service`` installs."""


def run_service(host: str, port: int, at_once: int) -> None:
    """Runs one process of the service until it is interrupted."""
    check_packages()
    if not read_users():
        check_token(host, f"; or name users in {USERS}")
    check_free(host, port)
    os.environ.setdefault("LOG_LEVEL", DEFAULTS["LOG_LEVEL"])
    check_installed()
    prepare(host, studio=False)
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)  # otherwise, the pool logs each failed attempt to connect
    with TemporaryDirectory(prefix="moot-service-") as folder:
        os.environ |= environment(write_config(Path(folder)), at_once)
        app = imported("aegra_api.main").app  # the import reads Aegra's settings from the environment
        check_auth_is_ours()
        accept_runs_without_redis()
        keep_leases()
        restart_runs_after_postgres_outage()
        START_LOCK.begin(os.environ[DATABASE])
        load = f"runs at most {at_once} debates at once" if at_once else "runs no debates"
        print(f"Page: {browser_url(host, port)}/moot; this process {load}.", file=sys.stderr, flush=True)  # noqa: T201
        level = os.environ["LOG_LEVEL"].lower()
        imported("uvicorn").run(app, host=host, port=port, log_level=level, timeout_graceful_shutdown=3)


def check_packages() -> None:
    """Checks that the extra ``service`` is installed."""
    hint = "It needs Python 3.12 or later." if sys.version_info < (3, 12) else ""
    for name in PACKAGES:
        import_extra(name, "service", "The service", hint)


def check_auth_is_ours() -> None:
    """Checks that Aegra uses moot's authentication. Without authentication, Aegra treats all users as one."""
    if imported("aegra_api.core.auth_middleware").get_auth_instance() is not imported("moot.service.auth").auth:
        raise UserError(
            "Aegra could not load moot.service.auth: users would see each other's threads. Aegra's log says why "
            "(LOG_LEVEL=ERROR).",
            kind="invalid_environment",
        )


def accept_runs_without_redis() -> None:
    """Makes Aegra accept a run even if Redis reports an error, for example because Redis is unreachable.

    Aegra's workers later find the run in Postgres. Without this function, Aegra would report that the run failed,
    although a worker would run it later.
    """
    redis_error = imported("redis").RedisError
    executor = imported("aegra_api.services.executor").executor
    submit_to_redis = executor.submit

    async def submit(job: Any) -> None:
        try:
            await submit_to_redis(job)
        except redis_error as error:
            log.warning(
                "Redis reported an error (%s): run %s waits in Postgres.", type(error).__name__, job.identity.run_id
            )

    executor.submit = submit


def restart_runs_after_postgres_outage() -> None:
    """Makes Aegra restart a run that failed because Postgres was unreachable. Any worker may restart the run.

    Without this function, Aegra would record an error for the run as soon as Postgres is reachable again, even if
    the debate's verdict is already stored. A debate that has not started would then be in no list.

    With this function, the run has no recorded end. So Aegra restarts the run when the run's lease expires, at most
    ``BG_JOB_MAX_RETRIES`` times. The restarted debate uses its stored replies.
    """
    runs = imported("aegra_api.services.run_executor")
    for name in ("start_run", "finalize_run"):
        setattr(runs, name, release_run_on_outage(getattr(runs, name), lambda run, *_: run))
    runs._stream_graph = release_run_on_outage(runs._stream_graph, lambda job: job.identity.run_id)


def release_run_on_outage(step: Callable[..., Awaitable[T]], run_of: Callable[..., str]) -> Callable[..., Awaitable[T]]:
    """Wraps a step of a run, so that the run is released if Postgres is unreachable; see `release_run`."""

    async def run_step(*values: Any, **named: Any) -> T:
        try:
            return await step(*values, **named)
        except Exception as error:
            if not is_postgres_unreachable(error):
                raise
            run = run_of(*values)
            log.warning("Postgres is unreachable (%s): run %s will be restarted.", type(error).__name__, run)
            release_run(run)

    return run_step


def is_postgres_unreachable(error: BaseException | None) -> bool:
    """Whether an error of Aegra or a checkpointer means that Postgres is unreachable or closed a connection.

    Every `OSError` counts. An error also counts if its direct or indirect cause counts. False for None.
    """
    psycopg, asyncpg = imported("psycopg"), imported("asyncpg.exceptions")
    unreachable: tuple[type[Exception], ...] = (OSError, psycopg.OperationalError, asyncpg.PostgresConnectionError)
    # asyncpg raises these while Postgres stops or starts, or if the connection is closed during a query.
    unreachable += (asyncpg.OperatorInterventionError, asyncpg.InternalClientError)
    while error is not None and not (isinstance(error, unreachable) or getattr(error, "connection_invalidated", False)):
        error = error.__cause__  # SQLAlchemy wraps asyncpg's errors
    return error is not None


def keep_leases() -> None:
    """Makes Aegra keep the lease of a run until the run has ended, and start a run only if the worker's claim is valid.

    If a run is `running` but has no lease, no worker ever finds the run again. Without this function, three cases would
    lead to such a run:

    - The end of the run could not be recorded.
    - A worker froze, lost a run, and claimed the run again. The end of the worker's first claim released the lease of
      the second claim. So each claim gets a name of its own here.
    - A worker lost its claim while Postgres was unreachable, before the run was marked as started.
    """
    workers, runs = imported("aegra_api.services.worker_executor"), imported("aegra_api.services.run_executor")
    release, executor = workers._release_lease, imported("aegra_api.services.executor").executor
    execute = executor._execute_and_release
    own_claim: ContextVar[str] = ContextVar("own claim")

    async def release_after_end(run_id: str, claim: str) -> None:
        if await workers._is_run_terminal(run_id):
            await release(run_id, claim)

    async def execute_claimed(run_id: str, worker: str, semaphore: asyncio.Semaphore) -> None:
        own_claim.set(f"{worker}-{uuid4().hex}")
        await execute(run_id, own_claim.get(), semaphore)

    async def start_claimed(run_id: str, *, user_id: str) -> bool:
        if await workers._is_run_terminal(run_id):
            return False
        if await worker_claim_of(run_id) != own_claim.get():
            release_run(run_id)
        return True  # the claim has already marked the run as running

    workers._release_lease, runs.start_run = release_after_end, start_claimed
    executor._execute_and_release = execute_claimed


async def worker_claim_of(run_id: str) -> str | None:
    """The name of a worker's claim to a run; None if no worker has claimed the run, or if there is no such run."""
    orm, select = imported("aegra_api.core.orm"), imported("sqlalchemy").select
    async with orm._get_session_maker()() as session:
        claim: str | None = await session.scalar(select(orm.Run.claimed_by).where(orm.Run.run_id == run_id))
        return claim


def release_run(run_id: str) -> NoReturn:
    """Ends a run in this process without recording the end, so that a worker restarts the run.

    The worker may belong to any process, also to this one.

    """
    imported("aegra_api.services.run_executor")._lease_loss_cancellations.add(run_id)
    raise asyncio.CancelledError
