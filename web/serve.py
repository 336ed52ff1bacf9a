"""``moot serve``: the LangGraph development server, from a folder that nobody else has written to."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
import urllib.request
import webbrowser
from pathlib import Path
from typing import Any

from moot.core.errors import UserError
from moot.core.files import check_home
from moot.core.lazy import imported
from moot.core.own_folder import own_folder
from moot.graphs import DESCRIPTIONS, OTHER_GRAPHS
from moot.web.caller import USERS
from moot.web.guard import is_known, listed
from moot.web.login import FEWEST, TOKEN, read_token
from moot.web.service.users import read_users

STUDIO = "https://smith.langchain.com"
ANYWHERE = ("0.0.0.0", "::")
PATIENCE = 3
"""Seconds that those who are being answered have when the server stops."""
WEBHOOKS = "LANGGRAPH_WEBHOOKS"
PATHS = ("MOOT_HOME", "MOOT_PRICES", USERS)
"""Environment variables that may name a folder or file from here."""


def server_config() -> dict[str, Any]:
    """What ``langgraph.json`` says, for the server that is started without one."""
    served = DESCRIPTIONS | OTHER_GRAPHS
    graphs = {n: {"path": f"moot.graphs.{n}:graph", "description": about} for n, about in served.items()}
    kept = {"path": "moot.web.threads.checkpointer"}
    return {"graphs": graphs, "http": {"app": "moot.web.app:app"}, "checkpointer": kept, "webhooks": webhooks()}


def webhooks() -> dict[str, Any]:
    """Where a caller's ``webhook`` may have the server post to: nowhere in a private network.

    ``LANGGRAPH_WEBHOOKS``, LangGraph's own variable, says otherwise.

    Raises:
        UserError: it is no JSON object.
    """
    try:
        said = json.loads(os.environ.get(WEBHOOKS) or '{"url": {"disable_private_ips": true, "require_https": false}}')
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise UserError(
            f'{WEBHOOKS} is a JSON object: {{"url": {{"allowed_domains": ["hooks.example.org"]}}}}',
            kind="invalid_environment",
        )
    return said


def serve(host: str, port: int, at_once: int, *, studio: bool, opened: bool) -> None:
    """Runs the server until it is interrupted.

    Its folder is new and removed at the end, or if it is killed at the next start: the server unpickles what it finds
    in the folder that it starts from.

    Args:
        host: where it listens.
        port: where it listens.
        at_once: debates that run at the same time.
        studio: whether LangGraph Studio may ask it, too.
        opened: whether the local page is opened in a browser.

    Raises:
        UserError: the server's packages are missing, somebody listens there, others could without a token, or debates
            cannot be kept.
    """
    check_token(host)
    check_home("Debates", "debates")
    check_free(host, port)
    try:
        run_server = imported("langgraph_api.cli").run_server
    except ModuleNotFoundError as error:
        raise UserError(
            f'The server needs the package {error.name}: pip install "moot[server]".', kind="missing_package"
        ) from error
    prepare(host, studio=studio)
    url = f"http://{f'[{host}]' if ':' in host else 'localhost' if host in ANYWHERE else host}:{port}"
    print(announcement(url, host), file=sys.stderr, flush=True)  # noqa: T201
    if opened:
        threading.Thread(target=open_page, args=(url,), daemon=True).start()
    here = os.getcwd()
    sys.path.append(here)  # for sources of your own; last, so that no file there takes a package's place
    config = server_config()
    with own_folder("moot-") as folder, contextlib.chdir(folder):
        run_server(
            host,
            port,
            n_jobs_per_worker=at_once,
            disable_persistence=True,
            timeout_graceful_shutdown=PATIENCE,
            **config,
        )


def check_token(host: str, *, users: bool = False) -> None:
    """Makes sure that whoever reaches the server from elsewhere has to have a token.

    Args:
        host: where it listens.
        users: whether the server can have users with tokens of their own.

    Raises:
        UserError: others can reach it, and it has none; or its token is no good.
    """
    if not read_token() and not is_local(host) and not (users and read_users()):
        more = f"; or name users in {USERS}" * users
        raise UserError(
            f"Others can reach a server at {host}, and use the keys that it has: set {TOKEN} to a token of at least "
            f"{FEWEST} characters, which they have to know{more}. Make one with: openssl rand -hex 32",
            kind="invalid_environment",
        )


def is_local(host: str) -> bool:
    """Whether only this machine reaches an address."""
    return is_known(f"[{host}]" if ":" in host else host, ())


def check_free(host: str, port: int) -> None:
    """Makes sure that nobody listens there; the server itself would quietly take another port.

    Raises:
        UserError: somebody does, or there is no such address here.
    """
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise UserError(
                f"The server cannot listen at {host}, port {port} ({error.strerror}). Choose another with --port or "
                "--host.",
                kind="invalid_setting",
            ) from error


def prepare(host: str, *, studio: bool) -> None:
    """Sets up this process: who may ask the server, no calls home, and paths that hold in another folder."""
    from moot.nodes.runtime.tracing import send_in_time  # not at the top: what is refused before is refused at once

    send_in_time()  # LangGraph's server has clients of its own
    hosts = {*listed("MOOT_ALLOWED_HOSTS"), *({host} if host not in ANYWHERE else ())}
    origins = {*listed("MOOT_ALLOWED_ORIGINS"), *({STUDIO} if studio else ())}
    os.environ |= {"MOOT_ALLOWED_HOSTS": ",".join(hosts), "MOOT_ALLOWED_ORIGINS": ",".join(origins)}
    os.environ |= {name: str(Path(os.environ[name]).absolute()) for name in PATHS if os.environ.get(name)}
    os.environ["LANGGRAPH_NO_VERSION_CHECK"] = "true"
    if os.environ.setdefault("LOG_LEVEL", "ERROR").upper() != "DEBUG":
        logging.disable(logging.DEBUG)  # libraries that set a level of their own
    logging.getLogger("langgraph_api.cli").setLevel(logging.WARNING)  # it would announce itself beside us
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that the folder goes, as with Ctrl-C


def announcement(url: str, host: str) -> str:
    """What is said when the server starts: its address as a browser here names it, and where it listens."""
    studio = f"{STUDIO}/studio/?baseUrl={url}"
    lines = [f"Page:   {url}/moot", f"API:    {url}/docs", f"MCP:    {url}/mcp"]
    lines += [f"Studio: {studio}" if STUDIO in listed("MOOT_ALLOWED_ORIGINS") else "Studio: with --studio"]
    if os.environ.get(TOKEN):
        lines += [f"Whoever asks it needs the token in {TOKEN}."]
    if host in ANYWHERE and not listed("MOOT_ALLOWED_HOSTS"):
        lines += ["From other machines it refuses all: set MOOT_ALLOWED_HOSTS to the name or address that they use."]
    return "\n".join(lines)


def open_page(url: str) -> None:
    """Opens the local page once the server answers."""
    while True:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/ok"):
            break
        time.sleep(0.2)
    webbrowser.open(f"{url}/moot")
