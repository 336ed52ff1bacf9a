"""Logs of debates: one line for the start of each run of a debate, and one line for its end.

If ``LOG_JSON`` is on, all log lines of the process are JSON. LangGraph's server reads ``LOG_JSON`` and ``LOG_LEVEL``
itself.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from langchain_core.runnables.config import var_child_runnable_config
from moot.core.errors import MootError, UserError
from moot.core.lazy import imported
from moot.core.redaction import redact
from moot.core.telemetry.switch import missing_telemetry_package

log = logging.getLogger("moot.debates")

YES = ("1", "true", "yes", "on")
"""The values of ``LOG_JSON`` that turn JSON logs on, in upper or lower case."""


def log_json() -> None:
    """Makes this process write its logs as lines of JSON to standard error, if ``LOG_JSON`` is one of `YES`."""
    if os.environ.get("LOG_JSON", "").strip().lower() not in YES:
        return
    try:
        structlog = imported("structlog")
    except ModuleNotFoundError as error:
        raise missing_telemetry_package(error) from error
    level = os.environ.get("LOG_LEVEL", "").strip().upper() or "INFO"
    if level not in logging.getLevelNamesMapping():
        raise UserError(f"LOG_LEVEL is {level!r}; use DEBUG, INFO, WARNING or ERROR.", kind="invalid_environment")
    before = [
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        hide_environment_keys,
    ]
    after = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, structlog.processors.JSONRenderer()]
    handler = logging.StreamHandler()
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=before, processors=after))
    handler.addFilter(DebateIdFilter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    hide_requests()


def hide_environment_keys(_: Any, __: str, line: dict[str, Any]) -> dict[str, Any]:
    """A structlog processor that removes the values of the environment's API keys from the texts of a log line."""
    return {name: redact(value) if isinstance(value, str) else value for name, value in line.items()}


def hide_requests() -> None:
    """Stops the line that the HTTP clients log for each request, with its address."""
    for name in ("httpx", "httpx2"):  # openai may use either
        logging.getLogger(name).setLevel(logging.WARNING)


class DebateIdFilter(logging.Filter):
    """A logging filter that adds the id of the running node's debate to log records; it drops no record."""

    @classmethod
    def add_to_handlers(cls) -> None:
        """Adds the filter to each handler of the root logger that lacks it, such as a server's handler."""
        hide_requests()
        for handler in logging.getLogger().handlers:
            if not any(isinstance(one, cls) for one in handler.filters):
                handler.addFilter(cls())

    def filter(self, record: logging.LogRecord) -> bool:
        """Adds the id of the running debate, if there is one, to a record without an id; always returns True."""
        if not hasattr(record, "debate"):
            from moot.nodes._models.session import session_in  # not at the top, because `session` imports this module

            session = session_in(var_child_runnable_config.get())
            if session is not None and session.id:
                record.debate = session.id
        return True


def log_start(id: str, graph: str, *, resumed: bool) -> None:
    log.info("debate goes on" if resumed else "debate begun", extra={"debate": id, "graph": graph})


def log_end(
    id: str, graph: str, status: str, seconds: float, document: Mapping[str, Any] | None, error: BaseException | None
) -> None:
    """Logs how a run of a debate ended, without text of the debate: at WARNING if the debate failed, else at INFO."""
    level = logging.WARNING if status == "failed" else logging.INFO
    # Without handlers, as in a command, Python would print the message without its fields.
    if not (log.isEnabledFor(level) and log.hasHandlers()):
        return
    fields: dict[str, Any] = {"debate": id, "graph": graph, "status": status, "seconds": round(seconds, 3)}
    if document:
        used, fault = document["usage"], document["error"]
        fields |= {"stop_reason": document["stop_reason"], "rounds": document["rounds"], "calls": used["calls"]}
        fields |= {"input_tokens": used["prompt_tokens"], "output_tokens": used["completion_tokens"]}
        fields |= {"error": fault["kind"]} if fault else {}
    elif error is not None:
        fields["error"] = error.kind if isinstance(error, MootError) else type(error).__name__
    log.log(level, "debate ended", extra=fields)
