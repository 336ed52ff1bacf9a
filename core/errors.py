"""The classes of moot's errors.

MootError
    UserError    the caller can correct it: a setting, a key, the name of a model or a corpus (exit code 2)
    WorldError   an external cause: an endpoint, a network, a quota (exit code 3)
        ReplyError   a model answered, but the reply cannot be used
            BudgetExhausted  too little of a ceiling was left to call a model, or to await its reply

The text of each error names the problem, its cause and the remedy. It can be shown to users unchanged.
"""

from __future__ import annotations

import difflib
import re
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
"""Kinds of errors that the caller can correct. An error read from a document is a UserError if its kind is in this set.
"""

STOPS_BATCH = {
    "missing_key": "all rows would fail like this one",
    "authentication": "all rows would fail like this one",
    "missing_package": "all rows would fail like this one",
    "invalid_environment": "all rows would fail like this one",
    "unknown_provider": "all rows would fail like this one",
    "not_written": "nothing more can be written",
    "quota": "the endpoint takes no more calls",
}
"""Kinds of errors after which a batch starts no further debate, each with the reason."""

Outcome = Literal["unparsed", "refused", "cut", "empty", "unquoted"]


class ErrorRecord(TypedDict):
    """An error in a result document. ``where`` is its place in the debate; if ``retryable``, a retry may succeed."""

    kind: str
    where: str
    detail: str
    retryable: bool


NEAR, NEAR_WORDS = 0.75, 0.65
"""Minimum similarity (0 to 1) for a suggestion: of the two names, and of the words that differ in them."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A suggestion for an unknown name: "Did you mean X? "; empty if no known name is similar.

    Args:
        name: the name that was given.
        known: the valid names.
    """
    similar = difflib.get_close_matches(name, list(known), n=5, cutoff=NEAR)
    meant = next((other for other in similar if _is_misspelt(name, other)), None)
    return f"Did you mean {meant}? " if meant else ""


def _is_misspelt(name: str, known: str) -> bool:
    """Whether the words that differ in two names are similar: max_rounds is not a misspelt max_seconds."""
    words, others = (re.split(r"[_\W]+", text.lower()) for text in (name, known))
    for end in (0, -1):
        while words and others and words[end] == others[end]:
            words.pop(end)
            others.pop(end)
    rest, other = "_".join(words), "_".join(others)
    return rest == other or difflib.SequenceMatcher(None, rest, other).ratio() >= NEAR_WORDS


class MootError(Exception):
    """The base class of moot's errors.

    Args:
        detail: the error's text: the problem, its cause and the remedy.
        kind: a short stable name, e.g. ``missing_key``.
        retryable: whether the same call may succeed if it is repeated.
        retry_after: seconds that the server asked us to wait; None if it asked for no wait.
        may_cost: whether an endpoint may charge for the request, although its reply did not arrive or was unreadable.
    """

    exit_code = 3

    def __init__(
        self,
        detail: str,
        *,
        kind: str,
        retryable: bool = False,
        retry_after: float | None = None,
        may_cost: bool = False,
    ) -> None:
        super().__init__(redact(detail))
        self.kind = kind
        self.retryable = retryable
        self.retry_after = retry_after
        self.may_cost = may_cost
        self.where = ""
        self.attempts = 1

    @property
    def detail(self) -> str:
        """The error's text."""
        return str(self)

    def record(self, where: str) -> ErrorRecord:
        """The error as a result document stores it; ``where`` is its place, unless the error has one already."""
        return {"kind": self.kind, "where": self.where or where, "detail": self.detail, "retryable": self.retryable}


class UserError(MootError):
    """An error that the caller can correct; its kind is one of `USER_KINDS`."""

    exit_code = 2

    def __init__(self, detail: str, *, kind: str) -> None:
        if kind not in USER_KINDS:
            raise ValueError(f"{kind!r} is not in USER_KINDS")
        super().__init__(detail, kind=kind)


class WorldError(MootError):
    """An error with an external cause: an endpoint, a network, a quota."""


class ReplyError(WorldError):
    """A model gave no usable reply; ``kind`` is the outcome of its last reply."""

    def __init__(self, detail: str, outcome: Outcome) -> None:
        super().__init__(detail, kind=outcome, retryable=True)


class BudgetExhausted(ReplyError):  # noqa: N818 - names a state, not an error
    """A ceiling (`budget`, `max_cost`, `max_calls`, `max_seconds`) prevented or ended a call or a search.

    Too little was left to make the call, or to repeat a call whose reply was lost; or `max_seconds` was used up before
    the call or the search had ended.
    """

    def __init__(self, detail: str) -> None:
        WorldError.__init__(self, detail, kind=BUDGET_EXHAUSTED)


BUDGET_EXHAUSTED = "budget_exhausted"
"""The kind of `BudgetExhausted`, and the outcome of a turn if no model was called or its reply was not awaited."""


def copy_error(error: Exception) -> Exception:
    """A copy of a MootError, for one of several callers that raise it: each of them adds its own traceback.

    The copy has only the fields of the error's record (`MootError.record`). Other errors are returned unchanged.
    """
    return error_from_record(error.record("")) if isinstance(error, MootError) else error


def error_from_record(record: ErrorRecord) -> MootError:
    """The error whose record a result document contains."""
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
