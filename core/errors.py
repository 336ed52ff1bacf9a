"""What can go wrong, as one tree.

MootError
    UserError    the caller can mend it: a setting, a key, a model's or a corpus's name (exit code 2)
    WorldError   the world has to: an endpoint, a network, a quota (exit code 3)
        ReplyError   a model answered, but with nothing that can be used
            BudgetExhausted  a model was not asked, as a ceiling leaves too little

Every error says what happened, why, and what to do, in one text that can be shown as it stands.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Literal, get_args

from moot.core.redaction import redact
from typing_extensions import TypedDict

USER_KINDS = frozenset(
    {
        "authentication",
        "bad_request",
        "corpus_mismatch",
        "damaged_corpus",
        "damaged_ledger",
        "debate_running",
        "empty_corpus",
        "invalid_claim",
        "invalid_corpus",
        "invalid_environment",
        "invalid_file",
        "invalid_given",
        "invalid_reply",
        "invalid_setting",
        "invalid_task",
        "missing_file",
        "missing_key",
        "missing_package",
        "missing_settings",
        "missing_state",
        "no_checkpointer",
        "quota",
        "replay_miss",
        "too_long",
        "unfinished_corpus",
        "unfit_task",
        "unknown_corpus",
        "unknown_debate",
        "unknown_encoder",
        "unknown_graph",
        "unknown_model",
        "unknown_preset",
        "unknown_provider",
        "unknown_retriever",
    }
)
"""Kinds of errors that the caller can mend; a stored error tells the two sides apart by its kind."""

ENDS_ALL = {
    "missing_key": "all rows would fail like this one",
    "authentication": "all rows would fail like this one",
    "missing_package": "all rows would fail like this one",
    "invalid_environment": "all rows would fail like this one",
    "unknown_provider": "all rows would fail like this one",
    "not_written": "nothing more can be written",
    "quota": "the endpoint takes no more calls",
}
"""Kinds of failures after which no further debate of a batch is begun, and why."""

Outcome = Literal["unparsed", "refused", "cut", "empty", "unquoted"]


class ErrorRecord(TypedDict):
    """An error in the result document: ``retryable`` says whether trying again can help."""

    kind: str
    where: str
    detail: str
    retryable: bool


def nearest(name: str, known: Iterable[str]) -> str:
    """What is said first to somebody who gave an unknown name: "Did you mean X? "; nothing if none is like it.

    Args:
        name: what was given.
        known: the names that there are.
    """
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.75)
    return f"Did you mean {near[0]}? " if near else ""


class MootError(Exception):
    """The root of the tree.

    Args:
        detail: what happened, why, and what to do.
        kind: a short stable name, e.g. ``missing_key``.
        retryable: whether the same call may succeed later.
        retry_after: seconds that the other side asked us to wait, where it did.
    """

    exit_code = 3

    def __init__(self, detail: str, *, kind: str, retryable: bool = False, retry_after: float | None = None) -> None:
        super().__init__(redact(detail))
        self.kind = kind
        self.retryable = retryable
        self.retry_after = retry_after
        self.where = ""
        self.attempts = 1

    @property
    def detail(self) -> str:
        """The error's text."""
        return str(self)

    def record(self, where: str) -> ErrorRecord:
        """The error as the result document stores it."""
        return {"kind": self.kind, "where": self.where or where, "detail": self.detail, "retryable": self.retryable}


class UserError(MootError):
    """Something that the caller can mend; its kind is one of `USER_KINDS`."""

    exit_code = 2

    def __init__(self, detail: str, *, kind: str) -> None:
        if kind not in USER_KINDS:
            raise ValueError(f"{kind!r} is not listed among the kinds of users' errors")
        super().__init__(detail, kind=kind)


class WorldError(MootError):
    """Something outside: an endpoint, a network, a quota."""


class ReplyError(WorldError):
    """A model answered twice without an answer that can be used; ``kind`` is the last reply's outcome."""

    def __init__(self, detail: str, outcome: Outcome) -> None:
        super().__init__(detail, kind=outcome, retryable=True)


class BudgetExhausted(ReplyError):  # noqa: N818 - what has happened to the budget
    """A call that was not made, as a ceiling (`budget`, `max_cost`, `max_calls`, `max_seconds`) leaves too little."""

    def __init__(self, detail: str) -> None:
        WorldError.__init__(self, detail, kind=BUDGET_EXHAUSTED)


BUDGET_EXHAUSTED = "budget_exhausted"
"""The kind of such an error, and the outcome of a turn whose speaker was not asked."""


def copied(error: Exception) -> Exception:
    """An error for each of several who wait for one thing: where it was raised is noted in each by itself."""
    return error_of(error.record("")) if isinstance(error, MootError) else error


def error_of(record: ErrorRecord) -> MootError:
    """The error that a result document stores."""
    kind, detail = record["kind"], record["detail"]
    if kind in USER_KINDS:
        error: MootError = UserError(detail, kind=kind)
    elif kind == BUDGET_EXHAUSTED:
        error = BudgetExhausted(detail)
    elif kind in get_args(Outcome):
        error = ReplyError(detail, kind)  # type: ignore[arg-type]
    else:
        error = WorldError(detail, kind=kind, retryable=record["retryable"])
    error.where = record["where"]
    return error
