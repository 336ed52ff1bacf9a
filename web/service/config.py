"""What Aegra is told: its configuration as a folder of files, and its settings in the environment.

Aegra finds graphs by files alone, so each graph has a file that imports it. A path into the package itself would load
a second copy of the module.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from moot.core.errors import UserError
from moot.core.files import write_whole
from moot.graphs import DESCRIPTIONS, OTHER_GRAPHS
from moot.web.caller import DATABASE
from moot.web.guard import listed

REDIS = "REDIS_URL"
FILE = "aegra.json"
MINUTES = 30 * 24 * 60
"""How long a thread is kept after it has last changed."""
USUAL = {
    "CRON_ENABLED": "false",  # what a schedule starts, no quota sees
    "FF_V2_EVENT_STREAMING": "false",  # nor what its commands start
    "LEASE_DURATION_SECONDS": "12",
    "HEARTBEAT_INTERVAL_SECONDS": "5",
    "REAPER_INTERVAL_SECONDS": "5",
    "WORKER_DRAIN_TIMEOUT": "3",
    "LOG_LEVEL": "WARNING",
    "LOG_VERBOSITY": "standard",
}
"""Aegra's settings that may be set otherwise: a killed worker's debates go on elsewhere after 12 to 17 seconds."""


def write_config(folder: Path) -> Path:
    """Writes Aegra's configuration.

    Args:
        folder: where it is written; made if it is not there.

    Returns:
        The file that ``AEGRA_CONFIG`` names.

    Raises:
        UserError: the folder cannot be written.
    """
    graphs = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, about in (DESCRIPTIONS | OTHER_GRAPHS).items():
            (folder / f"{name}.py").write_text(f"from moot.graphs.{name} import graph as graph\n", encoding="utf-8")
            graphs[name] = {"path": f"./{name}.py:graph", "description": about}
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error.strerror}).", kind="invalid_environment") from error
    config: dict[str, Any] = {
        "graphs": graphs,
        "http": {"app": "moot.web.app:app", "cors": {"allow_origins": sorted(listed("MOOT_ALLOWED_ORIGINS"))}},
        "auth": {"path": "moot.web.service.auth:auth"},
        # A debate that is begun again goes through its kept calls: the ledger has them, each checkpoint would be waste.
        "checkpointer": {"durability": "exit", "ttl": {"strategy": "delete", "default_ttl": MINUTES}},
    }
    write_whole(folder / FILE, json.dumps(config, indent=2) + "\n")
    return folder / FILE


def environment(config: Path, at_once: int) -> dict[str, str]:
    """Aegra's settings, as environment variables.

    Args:
        config: as `write_config` returns it.
        at_once: debates that run in this process at the same time; 0 for none.

    Raises:
        UserError: ``MOOT_DATABASE`` or ``REDIS_URL`` names nothing that can be used.
    """
    return {
        **{name: os.environ.get(name) or usual for name, usual in USUAL.items()},
        "AEGRA_CONFIG": str(config),
        "DATABASE_URL": address(DATABASE, ("postgresql", "postgres"), "postgresql://user:password@host:5432/database"),
        "REDIS_URL": address(REDIS, ("redis", "rediss", "unix"), "redis://host:6379/0"),
        "REDIS_BROKER_ENABLED": "true",
        "WORKER_COUNT": "1" if at_once else "0",
        "N_JOBS_PER_WORKER": str(at_once or 1),
    }


def address(variable: str, schemes: tuple[str, ...], example: str) -> str:
    """The address that an environment variable holds.

    Raises:
        UserError: it holds none of these kinds.
    """
    said = os.environ.get(variable, "").strip()
    if urlsplit(said).scheme not in schemes:
        problem = "is not set" if not said else f"does not begin with {schemes[0]}://"
        raise UserError(f"{variable} {problem}. It is an address such as {example}.", kind="invalid_environment")
    return said
