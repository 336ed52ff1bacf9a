"""Aegra's configuration: a folder of files, and settings in environment variables.

Aegra finds graphs only by file, so each graph has a file that imports it. A path into the package itself would load a
second copy of the module.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from moot.core.errors import UserError
from moot.core.files import write_atomically, write_error
from moot.graphs._registry import descriptions
from moot.web.caller import DATABASE
from moot.web.guard import lowercase_names

REDIS = "REDIS_URL"
FILE = "aegra.json"
GRAPH_FILE = "from moot.graphs import load_graph\n\ngraph = load_graph({!r}, others=True).graph\n"
THREAD_MINUTES = 30 * 24 * 60
"""A thread is removed this many minutes after its last change."""
DEFAULTS = {
    "CRON_ENABLED": "false",  # off, because quotas would not count the runs of schedules
    "FF_V2_EVENT_STREAMING": "false",  # off, because quotas would not count the runs that its commands start
    "LEASE_DURATION_SECONDS": "12",
    "HEARTBEAT_INTERVAL_SECONDS": "3",  # so that no lease expires if Postgres is unreachable for a few seconds
    "REAPER_INTERVAL_SECONDS": "5",
    "STUCK_PENDING_THRESHOLD_SECONDS": "15",  # for runs that Redis did not accept or has lost
    "WORKER_DRAIN_TIMEOUT": "3",
    "LOG_LEVEL": "WARNING",
    "LOG_VERBOSITY": "standard",
}
"""Our defaults for Aegra's settings. The debates of a killed worker continue elsewhere after 12 to 17 seconds. If
Redis loses a run before the run has started, the run is found after 15 to 20 seconds."""


def write_config(folder: Path) -> Path:
    """Writes Aegra's configuration to a folder; returns the path for ``AEGRA_CONFIG``."""
    graphs = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, about in descriptions(others=True).items():
            (folder / f"{name}.py").write_text(GRAPH_FILE.format(name), encoding="utf-8")
            graphs[name] = {"path": f"./{name}.py:graph", "description": about}
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error.strerror}).", kind="invalid_environment") from error
    origins = sorted(lowercase_names("MOOT_ALLOWED_ORIGINS"))
    config: dict[str, Any] = {
        "graphs": graphs,
        "http": {"app": "moot.service.app:app", "cors": {"allow_origins": origins}},
        "auth": {"path": "moot.service.auth:auth"},
        # A restarted debate finds its replies in the store, so frequent checkpoints would be wasted.
        "checkpointer": {"durability": "exit", "ttl": {"strategy": "delete", "default_ttl": THREAD_MINUTES}},
    }
    try:
        write_atomically(folder / FILE, json.dumps(config, indent=2) + "\n")
    except OSError as error:
        raise write_error(folder / FILE, error) from error
    return folder / FILE


def environment(config: Path, at_once: int) -> dict[str, str]:
    """Aegra's settings, as environment variables."""
    return {
        **{name: os.environ.get(name) or default for name, default in DEFAULTS.items()},
        "AEGRA_CONFIG": str(config),
        "DATABASE_URL": address(DATABASE, ("postgresql", "postgres"), "postgresql://user:password@host:5432/database"),
        "REDIS_URL": address(REDIS, ("redis", "rediss", "unix"), "redis://host:6379/0"),
        "REDIS_BROKER_ENABLED": "true",
        "WORKER_COUNT": "1" if at_once else "0",
        "N_JOBS_PER_WORKER": str(at_once or 1),
    }


def address(variable: str, schemes: tuple[str, ...], example: str) -> str:
    """The address in an environment variable."""
    url = os.environ.get(variable, "").strip()
    scheme, separator, _ = url.partition("://")
    if not separator or scheme.lower() not in schemes:
        problem = "is not set" if not url else f"does not begin with {schemes[0]}://"
        raise UserError(f"{variable} {problem}. It must be an address such as {example}.", kind="invalid_environment")
    return url
