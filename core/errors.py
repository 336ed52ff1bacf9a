"""The classes of moot's errors.

MootError
    UserError    the caller can correct it: a setting, a key, the name of a model or a corpus (exit code 2)
    WorldError   an external cause: an endpoint, a network, a disk (exit code 3)
        ReplyError   a model gave no usable reply
            BudgetExhausted  a ceiling prevented or ended a call, a search or another step

The text of an error names the problem and, if they are known, its cause and the remedy. It can be shown to users
unchanged.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any, Literal, get_args

from moot.core.redaction import redact
from typing_extensions import TypedDict

USER_KINDS = frozenset(
    {
        "authentication",
        "bad_request",
        "corpus_mismatch",
        "damaged_corpus",
        "damaged_store",
        "damaged_weights",
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
        "missing_model",
        "missing_package",
        "missing_settings",
        "missing_state",
        "no_checkpointer",
        "not_allowed",
        "quota",
        "replay_miss",
        "review_conflict",
        "too_large",
        "too_long",
        "unfinished_corpus",
        "unfit_task",
        "unknown_corpus",
        "unknown_debate",
        "unknown_encoder",
        "unknown_graph",
        "unknown_model",
        "unknown_provider",
        "unknown_retriever",
    }
)
"""Kinds of errors that the caller can correct. An error read from a document is a UserError if its kind is in this set.
"""

STOPS_BATCH = {
    "missing_key": "all rows would fail like this one",
    "missing_model": "all rows would fail like this one",
    "authentication": "all rows would fail like this one",
    "missing_package": "all rows would fail like this one",
    "invalid_environment": "all rows would fail like this one",
    "unknown_model": "all rows would fail like this one",
    "unknown_provider": "all rows would fail like this one",
    "not_written": "nothing more can be written",
    "quota": "the endpoint takes no more calls",
}
"""Kinds of errors after which a batch starts no further debate, each with the reason."""

SOURCE_OUTAGE = "retrieval_failed"
"""The kind of the error of a debate whose sources could not be searched."""
MOST_OUTAGES = 3
"""A batch starts no further debate if this many debates in succession end with a `SOURCE_OUTAGE`, or if so many could
not reach an endpoint."""

Outcome = Literal["unparsed", "refused", "cut", "empty", "unquoted"]
"""The outcome of a reply that cannot be used; it is also the kind of a `ReplyError`."""


class ErrorRecord(TypedDict):
    """An error as a result document stores it.

    ``where`` is the error's place in the debate. ``retryable`` tells whether a retry may succeed.
    """

    kind: str
    where: str
    detail: str
    retryable: bool


NAME_SIMILARITY, WORD_SIMILARITY = 0.75, 0.65
"""A known name is suggested only if these similarities (0 to 1) to the given name are reached.

The first compares the whole names, the second the words in which they differ.
"""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The sentence "Did you mean X? ", with a space at its end; empty if no known name is similar."""
    name = str(name)  # an input of a program may be anything
    similar = difflib.get_close_matches(name, list(known), n=5, cutoff=NAME_SIMILARITY)
    meant = next((other for other in similar if _is_misspelling(name, other)), None)
    return f"Did you mean {meant}? " if meant else ""


def _is_misspelling(name: str, known: str) -> bool:
    """Whether a name may be a misspelling of a known name: the words in which they differ must be similar."""
    words, others = (re.split(r"[_\W]+", text.lower()) for text in (name, known))
    # Equal words at both ends do not count, so that max_rounds is no misspelling of max_seconds.
    for end in (0, -1):
        while words and others and words[end] == others[end]:
            words.pop(end)
            others.pop(end)
    rest, other = "_".join(words), "_".join(others)
    return rest == other or difflib.SequenceMatcher(None, rest, other).ratio() >= WORD_SIMILARITY


class OutageCount:
    """Counts the debates of a batch that were ended by an outage of their sources, in succession."""

    def __init__(self) -> None:
        self._count = 0

    def stop_reason(self, outage: bool | None) -> str:
        """Counts a debate that has ended, and returns why the batch starts no further debate; empty if it may go on."""
        # None: no search succeeded, or there was none, and no outage ended the debate. It does not count.
        if outage is not None:
            self._count = self._count + 1 if outage else 0
        if self._count < MOST_OUTAGES or not outage:
            return ""
        return f"the sources of {MOST_OUTAGES} rows in succession could not be searched"


class MootError(Exception):
    """The base class of moot's errors.

    Args:
        detail: the error's text (see the module). Secrets from the environment in this text, such as API keys, are
            replaced.
        kind: a short stable name, e.g. ``missing_key``.
        retryable: whether the same call may succeed if it is repeated.
        retry_after: seconds that the server asked us to wait; None if it asked for no wait.
        may_cost: whether an endpoint may charge for the request, although the reply was lost or unreadable.

    Attributes:
        document: the result document of the debate that the error ended, up to the error, if the error was raised by a
            debate with the setting ``on_failure=raise``; else None.
    """

    exit_code = 3
    document: dict[str, Any] | None = None

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
        """The error's place in the debate, in words: agent, node and round. Empty as long as the place is unknown."""
        self.attempts = 1
        """The number of requests that were sent for the failed call; 1 until they are counted."""

    @property
    def detail(self) -> str:
        """The error's text."""
        return str(self)

    def model_dump(self) -> dict[str, str]:
        """The error as LangGraph's server sends it, which hides the text of an exception without this method."""
        return {"error": type(self).__name__, "message": self.detail}

    def record(self, where: str) -> ErrorRecord:
        """The error as a result document stores it.

        Args:
            where: the error's place in the debate. It is ignored if the error already has a place.
        """
        return {"kind": self.kind, "where": self.where or where, "detail": self.detail, "retryable": self.retryable}


class UserError(MootError):
    """An error that the caller can correct.

    Args:
        detail: see `MootError`.
        kind: one of `USER_KINDS`.

    Raises:
        ValueError: the kind is not in `USER_KINDS`.
    """

    exit_code = 2

    def __init__(self, detail: str, *, kind: str) -> None:
        if kind not in USER_KINDS:
            raise ValueError(f"{kind!r} is not in USER_KINDS")
        super().__init__(detail, kind=kind)


class WorldError(MootError):
    """An error with an external cause: an endpoint, a network, a disk."""


class ReplyError(WorldError):
    """One or several models gave no usable reply.

    Args:
        detail: see `MootError`.
        outcome: the error's kind. It is the outcome of the model's last reply. If the replies of several models have
            different outcomes, it is ``unparsed``.
        retryable: see `MootError`.
    """

    def __init__(self, detail: str, outcome: Outcome, *, retryable: bool = True) -> None:
        super().__init__(detail, kind=outcome, retryable=retryable)


class BudgetExhausted(ReplyError):  # noqa: N818 - names a state, not an error
    """A ceiling (`budget`, `max_cost`, `max_calls` or `max_seconds`) prevented or ended a call or another step."""

    def __init__(self, detail: str) -> None:
        WorldError.__init__(self, detail, kind=BUDGET_EXHAUSTED)


BUDGET_EXHAUSTED = "budget_exhausted"
"""The kind of `BudgetExhausted`.

It is also the outcome of a turn if a ceiling prevented the call of the model, or ended the wait for the model's reply.
"""


def copy_error(error: Exception) -> Exception:
    """A copy of a MootError, with the fields of its record; an error of another class is returned itself."""
    # Callers that raise the same error raise copies of it, because raising an error adds a traceback to it.
    return error_from_record(error.record("")) if isinstance(error, MootError) else error


def error_from_record(record: ErrorRecord) -> MootError:
    """The error that a record describes; its class follows from the record's kind."""
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
