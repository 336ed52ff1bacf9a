"""``moot service``: one process of a server that has as many as are wanted."""

from __future__ import annotations

import os
import sys

from moot.core.errors import UserError
from moot.core.lazy import imported
from moot.core.own_folder import own_folder
from moot.web.caller import DATABASE
from moot.web.serve import ANYWHERE, check_free, check_token, prepare
from moot.web.service.config import environment, write_config
from moot.web.service.stores import STARTING

PACKAGES = ("aegra_api", "langgraph.checkpoint.postgres", "psycopg", "uvicorn")


def run_service(host: str, port: int, at_once: int) -> None:
    """Runs a process of the service until it is interrupted.

    Args:
        host: where it listens.
        port: where it listens.
        at_once: debates that it runs at the same time; 0 if it only answers, and leaves debates to other processes.

    Raises:
        UserError: the extra ``service`` is not installed, somebody listens there, or the environment lacks something.
    """
    check_packages()
    check_token(host, users=True)
    check_free(host, port)
    prepare(host, studio=False)
    with own_folder("moot-service-") as folder:
        os.environ |= environment(write_config(folder), at_once)
        app = imported("aegra_api.main").app  # reads its settings from the environment
        STARTING.begin(os.environ[DATABASE])
        doing = f"runs {at_once} debates at once" if at_once else "runs no debates"
        shown = "localhost" if host in ANYWHERE else host
        print(f"Page: http://{shown}:{port}/moot; this process {doing}.", file=sys.stderr, flush=True)  # noqa: T201
        level = os.environ["LOG_LEVEL"].lower()
        imported("uvicorn").run(app, host=host, port=port, log_level=level, timeout_graceful_shutdown=3)


def check_packages() -> None:
    """Makes sure that the extra ``service`` is installed.

    Raises:
        UserError: it is not.
    """
    try:
        for name in PACKAGES:
            imported(name)
    except ModuleNotFoundError as error:
        old = " It needs Python 3.12 or later." if sys.version_info < (3, 12) else ""
        raise UserError(
            f"The service needs the package {error.name}: pip install 'moot[service]'.{old}", kind="missing_package"
        ) from error
