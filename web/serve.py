"""``moot serve``: the LangGraph development server, started in a new, empty folder."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
import webbrowser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from moot.core.errors import UserError
from moot.core.files import check_home
from moot.core.lazy import import_extra
from moot.graphs._registry import INSTALLED, descriptions, graph_path, installed_systems
from moot.web.caller import USERS
from moot.web.guard import is_known, lowercase_names
from moot.web.login import MIN_TOKEN_LENGTH, TOKEN, read_token

STUDIO = "https://smith.langchain.com"
ANYWHERE = ("0.0.0.0", "::")
"""Addresses that stand for all network interfaces of this machine."""
LOCAL = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Maps each address in `ANYWHERE` to the address at which this machine reaches the server."""
SHUTDOWN_SECONDS = 3
"""When the server stops, open requests have this many seconds to finish."""
WEBHOOKS = "LANGGRAPH_WEBHOOKS"
PATHS = ("MOOT_HOME", "MOOT_PRICES", USERS)
"""Environment variables that may contain a path relative to the current folder."""


def server_config() -> dict[str, Any]:
    """The server's configuration, used in place of ``langgraph.json``. It includes graphs of installed packages."""
    served = descriptions(others=True)
    graphs = {name: {"path": graph_path(name), "description": about} for name, about in served.items()}
    checkpointer = {"path": "moot.web.threads.checkpointer"}
    return {"graphs": graphs, "http": {"app": "moot.web.app:app"}, "checkpointer": checkpointer, "webhooks": webhooks()}


def webhooks() -> dict[str, Any]:
    """LangGraph's settings for callers' webhooks. By default, addresses in private networks are refused.

    If LangGraph's variable ``LANGGRAPH_WEBHOOKS`` is set, its value replaces the default.

    """
    try:
        value = json.loads(os.environ.get(WEBHOOKS) or '{"url": {"disable_private_ips": true, "require_https": false}}')
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise UserError(
            f'{WEBHOOKS} must be a JSON object, such as {{"url": {{"allowed_domains": ["hooks.example.org"]}}}}',
            kind="invalid_environment",
        )
    return value


def serve(host: str, port: int, at_once: int, *, studio: bool, open_browser: bool) -> None:
    """Runs the server until it is interrupted.

    Its working folder is new and empty, because the server unpickles files in that folder. The folder is removed when
    the server ends. If the server is killed, the next server removes the folder, except on Windows.

    """
    check_token(host)
    check_home("Debates")
    check_free(host, port)
    check_installed()
    run_server = import_extra("langgraph_api.cli", "server", "The server").run_server
    prepare(host, studio=studio)
    threading.Thread(target=announce, args=(host, port), kwargs={"open_browser": open_browser}, daemon=True).start()
    here = os.getcwd()
    sys.path.append(here)  # for the user's own sources; at the end, so that none of them shadows a package
    config = server_config()
    with TemporaryDirectory(prefix="moot-") as folder, contextlib.chdir(folder):
        run_server(
            host,
            port,
            n_jobs_per_worker=at_once,
            disable_persistence=True,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            **config,
        )


def check_token(host: str, more: str = "") -> None:
    """Checks that a server which other machines can reach requires a token."""
    if not read_token() and not is_local(host):
        raise UserError(
            f"Other machines can reach a server at {host}, and spend with its API keys: set {TOKEN} to a token of at "
            f"least {MIN_TOKEN_LENGTH} characters, which callers must send{more}. Make one with: openssl rand -hex 32",
            kind="invalid_environment",
        )


def is_local(host: str) -> bool:
    """Whether an address is reachable only from this machine."""
    return is_known(f"[{host}]" if ":" in host else host, ())


def check_free(host: str, port: int) -> None:
    """Checks that the port is free, because the server itself would silently take another port."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            advice = f"Is moot running there already? Choose another port: --port {port % 65535 + 1}"
            raise UserError(
                f"The server cannot listen at {host}, port {port} ({error.strerror}). "
                f"{advice if taken else 'Choose another port or address with --port or --host.'}",
                kind="invalid_setting",
            ) from error


def prepare(host: str, *, studio: bool) -> None:
    """Sets up this process before the server starts: its environment variables, its logs and its handler of SIGTERM."""
    # This slow import comes after the checks, so that the errors of the checks appear at once.
    from moot.nodes._runtime.tracing import set_langsmith_environment

    set_langsmith_environment()  # also for LangSmith clients that LangGraph's server creates
    hosts = {*lowercase_names("MOOT_ALLOWED_HOSTS"), *({host} if host not in ANYWHERE else ())}
    origins = {*lowercase_names("MOOT_ALLOWED_ORIGINS"), *({STUDIO} if studio else ())}
    os.environ |= {"MOOT_ALLOWED_HOSTS": ",".join(hosts), "MOOT_ALLOWED_ORIGINS": ",".join(origins)}
    os.environ |= {name: str(Path(os.environ[name]).absolute()) for name in PATHS if os.environ.get(name)}
    os.environ["LANGGRAPH_NO_VERSION_CHECK"] = "true"
    os.environ.setdefault("FORWARDED_ALLOW_IPS", "")  # uvicorn would believe X-Forwarded-For of every local program
    if os.environ.setdefault("LOG_LEVEL", "ERROR").upper() != "DEBUG":
        logging.disable(logging.DEBUG)  # also silences libraries that set their own level
    logging.getLogger("langgraph_api.cli").setLevel(logging.WARNING)  # hides LangGraph's announcement
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that the working folder is removed, as after Ctrl-C


def check_installed() -> None:
    """Prints a line for each installed debate system that cannot be imported. Such a system is not served."""
    for name in INSTALLED.conflicts():
        INSTALLED.check(name)
    for error in installed_systems()[1]:
        print(f"moot: not served: {error.detail}", file=sys.stderr)  # noqa: T201


def announce(host: str, port: int, *, open_browser: bool) -> None:
    """Waits until the server accepts connections. Then prints its addresses and, if wanted, opens its page."""
    while True:
        with contextlib.suppress(OSError), socket.create_connection((LOCAL.get(host, host), port)):
            break
        time.sleep(0.1)
    url = browser_url(host, port)
    print(announcement(url, host), file=sys.stderr, flush=True)  # noqa: T201
    if open_browser:
        webbrowser.open(f"{url}/moot")


def browser_url(host: str, port: int) -> str:
    """The server's address for a browser on this machine."""
    name = "localhost" if host in ANYWHERE else host
    return f"http://{f'[{name}]' if ':' in name else name}:{port}"


def announcement(url: str, host: str) -> str:
    """The message at the server's start: its addresses for a browser on this machine, and hints for callers."""
    studio = f"{STUDIO}/studio/?baseUrl={url}"
    lines = [f"Page:   {url}/moot", f"API:    {url}/docs", f"MCP:    {url}/mcp"]
    lines += [f"Studio: {studio}" if STUDIO in lowercase_names("MOOT_ALLOWED_ORIGINS") else "Studio: with --studio"]
    if os.environ.get(TOKEN):
        lines += [f"Requests need the token in {TOKEN}."]
    if host in ANYWHERE and not lowercase_names("MOOT_ALLOWED_HOSTS"):
        lines += [
            "The server refuses requests from other machines: set MOOT_ALLOWED_HOSTS to the name or address that they "
            "use."
        ]
    return "\n".join(lines)
