"""Translates errors of endpoints into MootErrors that name the remedy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from moot.core.endpoint import Endpoint, ErrorInReply, causes_of, is_loopback, without_user
from moot.core.errors import MootError, ReplyError, UserError, WorldError
from moot.core.lazy import imported
from moot.core.redaction import redact
from moot.core.refusal_words import error_code, error_text, error_words, meaning_of

LATEST_RETRY = 1e9
"""The longest wait, in seconds (32 years). Longer waits are reduced to it, because clocks and databases have limits."""


def retry_after_seconds(value: str | None) -> float | None:
    """The wait in seconds that a Retry-After header (seconds or an HTTP date) asks for; None if it cannot be read."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
        except (ValueError, OverflowError):  # OverflowError: a year or an offset of many digits
            return None
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)  # "-0000": the time is in UTC
        seconds = (zoned - datetime.now(UTC)).total_seconds()
    return min(max(0.0, seconds), LATEST_RETRY) if math.isfinite(seconds) else None


def explain(error: BaseException, endpoint: Endpoint, model: str) -> MootError:
    """The MootError for an exception of a model's client, by its HTTP status or, without one, by its class."""
    openai = imported("openai")
    if isinstance(error, openai.APIStatusError):
        return explain_status(error.status_code, error.response.headers, error.body, endpoint, model)
    if isinstance(error, openai.APIError) and not isinstance(error, openai.APIConnectionError):
        return explain_error(error.body, {}, endpoint, model, begun=True)  # an event in a stream
    if type(error) is ValueError and error.args and isinstance(error.args[0], dict):
        return explain_error(error.args[0], {}, endpoint, model)  # ChatOpenAI: the error in a reply with status 200
    if type(error).__module__.startswith("ollama.") and getattr(error, "status_code", None) == -1:
        return explain_error({"message": str(error).partition(" (status")[0]}, {}, endpoint, model, begun=True)
    causes = causes_of(error)
    if reported := next((cause for cause in causes if isinstance(cause, ErrorInReply)), None):
        return explain_error(reported.body, {}, endpoint, model)
    # openai's client raises a timeout for nearly each error of aiohttp, so only aiohttp's own class counts.
    own = [cause for cause in causes if type(cause).__module__.startswith("aiohttp.")]
    return (None if own else _explain_response(causes, endpoint, model)) or _explain_classes(
        own or causes, endpoint, model
    )


def _explain_response(causes: Iterable[BaseException], endpoint: Endpoint, model: str) -> MootError | None:
    """The MootError for the HTTP response of the first cause that has one with an error; None if there is none."""
    for cause in causes:
        response = getattr(cause, "response", None)
        body = getattr(cause, "body", None)
        reason = body["error"] if isinstance(body, dict) and isinstance(body.get("error"), dict) else body or str(cause)
        if isinstance(response, dict):  # an error of botocore
            meta = response.get("ResponseMetadata") or {}
            status, headers, found = meta.get("HTTPStatusCode"), meta.get("HTTPHeaders") or {}, response.get("Error")
            reason = (
                {"message": found.get("Message"), "code": found.get("Code")} if isinstance(found, dict) else str(cause)
            )
        else:
            headers = getattr(response, "headers", None) or {}
            status = getattr(cause, "status_code", None) or getattr(response, "status_code", None)
            status = status or getattr(cause, "code", None)
        if type(status) is int and 300 <= status < 600:
            return explain_status(status, headers, reason, endpoint, model)
        if status == 200 and body:  # an error in a stream that began with success
            return explain_error(reason, headers, endpoint, model)
    return None


def _explain_classes(causes: Sequence[BaseException], endpoint: Endpoint, model: str) -> MootError:
    """The MootError that the class names of an exception and of its causes select."""
    names = {kind.__name__ for one in causes for kind in type(one).__mro__}
    if any("Timeout" in name for name in names):
        return too_slow(endpoint, model)
    if "ClientPayloadError" in names:
        return broken_off(endpoint)
    if names & {"ClientResponseError", "DecodingError"} and "ClientHttpProxyError" not in names:
        return unreadable(endpoint, model, f"it is not valid HTTP: {_shown(causes[-1])}")
    if any("Connect" in name or name in ("TransportError", "NetworkError", "ClientHttpProxyError") for name in names):
        cause = causes[-1].__cause__ or causes[-1]
        shown = ConnectionError(f"through a proxy: {cause}") if any("Proxy" in name for name in names) else cause
        return unreachable(endpoint, shown, may_cost=not _never_connected(causes))
    if type(causes[0]) is ValueError and meaning_of(str(causes[0])) == "refused":  # as Azure's client says it
        refused = ReplyError(
            f"{endpoint.display_url} refused a reply for {model}: {causes[0]}.", "refused", retryable=False
        )
        refused.may_cost = True
        return refused
    if "://" not in endpoint.base_url:  # an object of the program, without an address
        why = f"{type(causes[0]).__name__}: {_shown(causes[0])}"
        detail = f"{endpoint.display_url} failed ({why}). Test it on its own."
        return WorldError(detail, kind="bad_response", retryable=True, may_cost=True)
    # Only langchain-openai's own error for an error in the answer quotes the endpoint; others quote parts of a reply.
    words = f": {_shown(causes[0])}" if type(causes[0]) is ValueError else ""
    return unreadable(endpoint, model, f"{type(causes[0]).__name__}{words}")


def _shown(error: BaseException) -> str:
    """The first words of an exception's text, on one line and without keys."""
    return redact(" ".join(str(error).split()))[:200]


def _never_connected(causes: Iterable[BaseException]) -> bool:
    """Whether the classes of an error and its causes show that a client could not connect to the endpoint."""
    return any(name in kind.__name__ for cause in causes for kind in type(cause).__mro__ for name in NOT_CONNECTED)


NOT_CONNECTED = (
    *("ConnectError", "ConnectTimeout", "ConnectorError", "EndpointConnectionError", "ConnectionRefused"),
    "ProxyError",
)
"""Parts of the names of errors of HTTP clients that could not open a connection."""


def too_slow(endpoint: Endpoint, model: str) -> WorldError:
    """The error for a request that timed out."""
    return WorldError(
        f"{endpoint.display_url} did not answer for {model} in time. Try again, or raise the setting `timeout`.",
        kind="timeout",
        retryable=True,
        may_cost=True,
    )


def broken_off(endpoint: Endpoint) -> WorldError:
    """The error for a connection that was closed before the end of an answer."""
    return WorldError(
        f"{endpoint.display_url} closed the connection before its answer was complete. See the log of the server.",
        kind="unreachable",
        retryable=True,
        may_cost=True,
    )


def unreachable(endpoint: Endpoint, error: BaseException, *, may_cost: bool = False) -> WorldError:
    """The error for a request without an answer; ``may_cost`` if it may have arrived, so that it may be charged."""
    return WorldError(
        f"{endpoint.display_url} could not be reached ({error}). {_remedy(endpoint)}",
        kind="unreachable",
        retryable=True,
        may_cost=may_cost,
    )


def _remedy(endpoint: Endpoint) -> str:
    """What to do if an endpoint cannot be reached."""
    if is_loopback(endpoint.base_url):
        if endpoint.is_ollama:
            return "Start Ollama: ollama serve"
        return "Start the server there. Check the address, too."
    return "Check the network. Check the address, too, if it is your own."


def unreadable(endpoint: Endpoint, model: str, why: str, retryable: bool = True) -> WorldError:
    """The error for an answer that does not follow the API, ends early or is too long; ``why`` says so in words."""
    api = f"{endpoint.api} API" if endpoint.api else "an OpenAI-compatible API (it usually ends in /v1)"
    return WorldError(
        f"{endpoint.display_url} sent an answer for {model} that cannot be read ({why}). Check that the address is "
        f"{api}.",
        kind="bad_response",
        retryable=retryable,
        may_cost=True,
    )


def ended_with_error(endpoint: Endpoint, model: str) -> WorldError:
    """The error for a reply whose finish reason is an error of which the endpoint says nothing."""
    return WorldError(
        f"{endpoint.display_url} ended its reply for {model} with an error. Try again later.",
        kind="server_error",
        retryable=True,
        may_cost=True,
    )


def explain_status(status: int, headers: Any, body: Any, endpoint: Endpoint, model: str) -> MootError:
    """The MootError for an HTTP error or a redirect; ``body`` is the fields or text of the error in the answer."""
    at, message = endpoint.display_url, quoted_message(body)
    if status < 400:
        to = without_user(headers.get("location", "nowhere").partition("?")[0])[:200]
        return WorldError(
            f"{at} answered with a redirect (HTTP {status} to {to}), and redirects are not followed. Check the "
            "address; the new address may be right.",
            kind="bad_response",
        )
    if (error := explain_words(status, body, endpoint, model)) is not None:
        return error
    if status in (401, 403):
        return wrong_key(status, body, endpoint, model)
    if status == 404:
        return unknown_model(status, body, endpoint, model)
    if status == 402:
        return used_up(status, body, endpoint)
    if status == 429:
        wait = retry_after_seconds(headers.get("retry-after"))
        asked = "" if wait is None else f", retry after {wait:.0f} s"
        return WorldError(
            f"{at} is receiving too many requests for {model} (HTTP 429{asked}{message}). "
            "Try again later, or lower `max_concurrency` or `requests_per_minute`.",
            kind="rate_limited",
            retryable=True,
            retry_after=wait,
        )
    if status in (408, 409) or status >= 500:
        return WorldError(
            f"{at} failed while answering for {model} (HTTP {status}{message}). Try again later.",
            kind="server_error",
            retryable=True,
            retry_after=retry_after_seconds(headers.get("retry-after")),
            may_cost=status in GATEWAY_TIMEOUTS,
        )
    return not_accepted(status, body, endpoint, model, MAY_NOT_SUPPORT)


MAY_NOT_SUPPORT = (
    "The model may not support a setting: change `structured_output`, set `temperature` to null, or lower `max_tokens`."
)


def explain_words(status: int, body: Any, endpoint: Endpoint, model: str) -> MootError | None:
    """The MootError for an error whose words are in the table of `moot.core.refusal_words`; None for any other."""
    at, said = endpoint.display_url, f"(HTTP {status}{quoted_message(body)})"
    meaning = meaning_of(error_words(body))
    if meaning == "too_long" or status == 413:
        return UserError(
            f"{at} refused the prompt for {model} as too long {said}. Use a model with a longer context, a smaller "
            "`k`, or shorter passages.",
            kind="too_long",
        )
    if meaning == "refused":
        return ReplyError(f"{at} refused the prompt for {model} {said}.", "refused", retryable=False)
    if meaning == "no_room":
        return ReplyError(f"{at} had no room for the reply of {model} {said}. Raise `max_tokens`.", "cut")
    if meaning == "sampled":
        return WorldError(
            f"{model} wrote a reply that {at} did not accept {said}. Try again, or change `structured_output`.",
            kind="unparsed",
            retryable=True,
            may_cost=True,
        )
    if meaning == "quota":
        return used_up(status, body, endpoint)
    if meaning == "key" and status in (200, 400):
        return wrong_key(status, body, endpoint, model)
    if meaning == "unknown_model" and status in (200, 400, 403, 404, 422):
        return unknown_model(status, body, endpoint, model)
    if meaning == "unsupported":
        return not_accepted(status, body, endpoint, model, MAY_NOT_SUPPORT)
    if status not in (200, 400, 422):
        return None
    if meaning == "reply_limit":
        return not_accepted(status, body, endpoint, model, "Lower `max_tokens`.")
    if meaning == "schema":
        return not_accepted(
            status,
            body,
            endpoint,
            model,
            "The endpoint does not accept the schema of the reply: set `structured_output` to json_object or text.",
        )
    return None


def unknown_model(status: int, body: Any, endpoint: Endpoint, model: str) -> UserError:
    """The error for a model that an endpoint does not have."""
    at, message, advice = endpoint.display_url, quoted_message(body), "Check its name."
    is_known = meaning_of(error_words(body)) == "unknown_model"
    if endpoint.is_ollama and is_known:
        advice = f"Fetch it: ollama pull {model.partition(':')[2]}"
    elif endpoint.is_ollama:
        advice = "Check that Ollama is at this address. Any other OpenAI-compatible server is openai:NAME."
    elif not (is_known or endpoint.api or urlsplit(at).path.strip("/")):
        advice = "Check the address: it usually ends in /v1."
    return UserError(f"{at} does not know the model {model} (HTTP {status}{message}). {advice}", kind="unknown_model")


def used_up(status: int, body: Any, endpoint: Endpoint) -> UserError:
    """The error for an account that has no money or quota left."""
    return UserError(
        f"The quota at {endpoint.display_url} is used up (HTTP {status}{quoted_message(body)}). Check the account's "
        "billing.",
        kind="quota",
    )


def not_accepted(status: int, body: Any, endpoint: Endpoint, model: str, advice: str) -> UserError:
    """The error for a request that an endpoint does not accept, with what to do."""
    return UserError(
        f"{endpoint.display_url} did not accept the request for {model} (HTTP {status}{quoted_message(body)}). "
        f"{advice}",
        kind="bad_request",
    )


def wrong_key(status: int, body: Any, endpoint: Endpoint, model: str) -> UserError:
    """The error for a key that an endpoint does not accept."""
    advice = f"Check {endpoint.key_variable}." if endpoint.key_variable else "Check its key."
    said = f"(HTTP {status}{quoted_message(body)})"
    return UserError(f"{endpoint.display_url} refused the key for {model} {said}. {advice}", kind="authentication")


def explain_error(body: Any, headers: Any, endpoint: Endpoint, model: str, *, begun: bool = False) -> MootError:
    """The MootError for an error in an answer with HTTP status 200; ``begun`` if a part of the reply came before."""
    code = error_code(body)
    if len(code) == 3 and code[0] in "45" and code.isdecimal():
        error = explain_status(int(code), headers, body, endpoint, model)
        error.may_cost = error.may_cost or begun or int(code) >= 500
        return error
    if (known := explain_words(200, body, endpoint, model)) is not None:
        return known
    words = quoted_message(body).rstrip(".")
    return WorldError(
        f"{endpoint.display_url} answered for {model} with an error instead of a reply{words}. Try again later; if it "
        "happens again, check the model's name and the endpoint.",
        kind="bad_response",
        retryable=True,
        may_cost=True,
    )


GATEWAY_TIMEOUTS = (504, 524)
"""HTTP statuses of gateways that did not wait for the model's reply."""
LONGEST_QUOTE = 400
"""Maximum number of characters of an endpoint's words in an error."""


def quoted_message(body: Any) -> str:
    """A colon and the shortened words of an error (fields or text); empty if it has none."""
    text = redact(error_text(body))[:LONGEST_QUOTE]
    return f": {text}" if text else ""
