"""The models that can be used here: `moot models`, the question which model to use, and ``--model auto``.

A port of this machine may belong to another user. So moot only looks whether it is open, and sends nothing to it
before the person chooses it, or types ``--model auto`` or ``moot models``.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import typer
from moot.cli.parameters import AsJson
from moot.core.config import AUTO, AUTO_IS_TYPED
from moot.core.errors import UserError, WorldError
from moot.core.redaction import redact

if TYPE_CHECKING:
    import aiohttp
    from moot.nodes._models.prices import Price

T = TypeVar("T")
NO = ("", "n", "no")
"""Lines, in lower case, with which a person chooses nothing."""
SECONDS = 1.0
"""Time limit for a connection to a server of this machine, and for its list of models."""
LARGEST = 2**20
"""Maximum number of bytes of a server's list of models."""
LONGEST_NAME = 180
"""Maximum number of characters of a model's name without its provider."""
SHOWN = 40
"""Maximum number of models of a server that are shown."""
OTHER_KINDS = re.compile(r"embed|rerank|minilm|\bbge-|whisper", re.IGNORECASE)
"""Names of models that servers list, but that write no replies: encoders, rerankers, transcribers."""


@dataclass(frozen=True)
class Choice:
    """A server of this machine whose port is open, or a provider whose key is set.

    Args:
        provider: the provider, as in provider:name.
        title: the provider's name in messages.
        place: the server's address without its path, or the name of the variable with the key.
        example: one of the provider's models, as provider:name; empty for a server, which lists its models itself.
    """

    provider: str
    title: str
    place: str
    example: str = ""

    def __str__(self) -> str:
        return f"{self.example}, with {self.place}" if self.example else f"{self.title} at {self.place}"


def choices_here() -> tuple[list[Choice], list[str]]:
    """What can be used here: first servers of this machine, then keys, each in the catalogue's order. Blocking.

    Nothing is sent. The second list has a sentence for each other provider that the environment sets up.
    """
    from moot.core.endpoint import PROVIDERS, address_of, find_endpoint, is_loopback
    from moot.nodes._vendors.catalogue import VENDORS, providers_here

    servers, keys, notes = [], [], []
    for one in providers_here():
        provider, title = one["provider"], one["title"]
        if provider == "embedded":
            continue
        known, vendor = PROVIDERS.get(provider), VENDORS.get(provider)
        of_keys = (known.key_variable,) if known else vendor.keys if vendor else ()
        others = (known.base_url_variable,) if known else (*vendor.needs, *vendor.addresses) if vendor else ()
        are_set = [name for name in (*of_keys, *others) if os.environ.get(name, "").strip()]
        if one["why_not"]:
            notes += [f"{are_set[0]} is set, but: {one['why_not']}"] if are_set else []
        elif known and (endpoint := find_endpoint(provider)).base_url.rstrip("/") != PROVIDERS["openai"].base_url:
            if not is_loopback(endpoint.base_url):
                notes.append(f"{provider}:NAME is at {redact(endpoint.display_url)} ({address_of(known)[1]}).")
            elif is_open(endpoint.base_url):
                title = known.base_url_variable if provider == "openai" else title
                servers.append(Choice(provider, title, urlsplit(endpoint.display_url).netloc))
        elif vendor and (vendor.needs or not vendor.keys):
            notes.append(f"{title} is {provider}:{'DEPLOYMENT' if vendor.needs else 'NAME'}.")
        else:
            keys.append(Choice(provider, title, are_set[0], one["example"]))
    return [*servers, *keys], notes


def is_open(url: str) -> bool:
    """Whether something listens at the port of an address of this machine. Blocking."""
    parts = urlsplit(url)
    with contextlib.suppress(OSError):
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname, port), SECONDS).close()
        return True
    return False


# --- a server's own list ----------------------------------------------------------------------------------------------


def lists_of(servers: Sequence[Choice], *, with_key: bool) -> list[list[str] | WorldError]:
    """The models that each server lists, as provider:name, or the error why there are none. Blocking.

    Args:
        servers: servers of this machine.
        with_key: whether a server gets its key, if the environment has one.
    """
    import asyncio

    import aiohttp

    async def ask_all() -> list[Any]:
        limit = aiohttp.ClientTimeout(total=SECONDS)
        async with aiohttp.ClientSession(timeout=limit, auto_decompress=False) as session:  # it uses no proxy
            asked = (_ask_for_list(session, server, with_key=with_key) for server in servers)
            return await asyncio.gather(*asked, return_exceptions=True)

    found = asyncio.run(ask_all()) if servers else []
    if unexpected := next((one for one in found if not isinstance(one, list | WorldError)), None):
        raise unexpected
    return found


async def _ask_for_list(session: aiohttp.ClientSession, server: Choice, *, with_key: bool) -> list[str]:
    import aiohttp
    from moot.core.endpoint import find_endpoint

    endpoint = find_endpoint(server.provider)
    address = endpoint.base_url if with_key else endpoint.display_url
    headers = {"Accept-Encoding": "identity"}
    if with_key and os.environ.get(endpoint.key_variable, "").strip():
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
    content = b""
    try:
        is_ollama = server.provider == "ollama"
        address = address.rstrip("/")
        path = f"{address.removesuffix('/v1').removesuffix('/api')}/api/tags" if is_ollama else f"{address}/models"
        async with session.get(path, headers=headers, allow_redirects=False) as reply:
            if reply.status != 200:
                if reply.status in (401, 403):
                    key = endpoint.key_variable
                    refused = "Authorization" in headers
                    why = f"it refused the key of {key}" if refused else f"it wants a key (set {key})"
                    why += "" if with_key else ", and `moot models` sends none"
                    raise WorldError(f"{why} (HTTP {reply.status})", kind="authentication")
                raise WorldError(f"no list of models (HTTP {reply.status})", kind="bad_response")
            async for part in reply.content.iter_any():
                content += part
                if len(content) > LARGEST:
                    raise ValueError
        names = model_names(content)
    except TimeoutError as error:
        raise WorldError(f"no list of models within {SECONDS:g} s", kind="timeout") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise WorldError("no list of models", kind="bad_response") from error
    if not names:
        raise WorldError("it has no models" if server.provider != "ollama" else NO_OLLAMA_MODEL, kind="bad_response")
    return [f"{server.provider}:{name}" for name in names]


NO_OLLAMA_MODEL = "it has no models; get one with: ollama pull qwen3:8b"


def model_names(content: bytes) -> list[str]:
    """The names in a list of models of an OpenAI-compatible server or of Ollama, in its order.

    Names that cannot be shown as they are, names with a key of the environment, and those of `OTHER_KINDS` are left
    out. Models that Ollama has elsewhere come last, because prompts leave this machine for them.

    Raises:
        ValueError: this is no list of models.
    """
    try:
        found = json.loads(content)
    except RecursionError as error:
        raise ValueError from error
    listed = found.get("data", found.get("models", 0)) if isinstance(found, dict) else 0  # 0: neither
    if not isinstance(listed, list | None):
        raise ValueError
    models = [one for one in listed or [] if isinstance(one, dict)]
    models.sort(key=lambda one: bool(one.get("remote_host")))
    names = [one.get("id") or one.get("name") for one in models]
    return [*dict.fromkeys(name for name in names if isinstance(name, str) and _is_usable(name))]


def _is_usable(name: str) -> bool:
    is_plain = name.isprintable() and name.strip() == name and 0 < len(name) <= LONGEST_NAME
    return is_plain and not OTHER_KINDS.search(name) and redact(name) == name


# --- the question at a terminal ---------------------------------------------------------------------------------------


def at_terminal() -> bool:
    """Whether a person can be asked: standard input, output and error are a terminal."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def read_line(prompt: str) -> str:
    """Asks at the terminal and returns the line, without the spaces around it; empty if the input has ended."""
    with contextlib.suppress(ImportError):  # on Windows, whose terminal edits lines itself
        import readline  # noqa: F401  # so that arrow keys edit the line
    try:
        return input(prompt).strip()
    except EOFError:
        say("")
        return ""


def say(text: str) -> None:
    """Prints a line for the person on standard error."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def ask_claim() -> str:
    """The claim that a person at a terminal types; empty if nobody can be asked, or the person typed none."""
    return read_line("Which claim should be checked? ") if at_terminal() else ""


def with_model(make: Callable[[], T], named: dict[str, Any], ask: Callable[[Callable[[], str]], str]) -> T:
    """The result of ``make``. If that fails because no model is named, a person at a terminal is asked for the model.

    Args:
        make: a function that reads ``named``.
        named: the settings that the command line names; the chosen model is added.
        ask: calls the function that asks the person, such as `Stop.ask`.

    Raises:
        UserError: as ``make``, or as `ask_model`.
    """
    try:
        return make()
    except UserError as error:
        if error.kind != "missing_model" or not at_terminal():
            raise
    named["model"] = ask(ask_model)
    return make()


def name_for_server(model: str | None) -> None:
    """Sets MOOT_MODEL to a model; if it is None and no model is named, to the one that a person at a terminal chooses.

    Raises:
        UserError: the model's name is not valid, or the configuration cannot be read.
    """
    from moot.core.callers import CALLED_MODELS, names_in_variable
    from moot.core.config import KEYS, value_of

    if model is None and value_of("model") is None and not names_in_variable(CALLED_MODELS):
        try:
            model = ask_model() if at_terminal() else None
        except UserError as error:
            if error.kind != "missing_model":
                raise
        if model is None:
            say("moot: no model is named yet. The page says how to name one.")
    if model is not None:
        check_model_name(model)
        os.environ[KEYS["model"].variable] = model


NOTHING_HERE = (
    "No model is named, and neither a server of models nor a key was found here. Install Ollama (https://ollama.com), "
    "then: ollama pull qwen3:8b"
)
NONE_CHOSEN = "Nothing was checked. To name a model: --model provider:name, for example --model ollama:qwen3:8b"


def ask_model() -> str:
    """Shows what can be used here and asks for the model.

    Raises:
        UserError: there is nothing, or the person chose none.
    """
    choices, notes = choices_here()
    if not choices:
        for note in notes:
            say(f"moot: {note}")
        raise UserError(NONE_CHOSEN if notes else NOTHING_HERE, kind="missing_model")
    say("No model is named. This was found here:")
    for number, choice in enumerate(choices, 1):
        say(f"  {number}  {choice}{in_words(choice.example) if choice.example else ''}")
    for note in notes:
        say(f"     {note}")
    if not choices[0].example:  # servers come first
        say("So far moot only looked which ports are open. On a shared machine, a port may be another user's.")
    question = "Use it? Type y (or 1), n" if len(choices) == 1 else "Which one? Type its number"
    while (line := read_line(f"{question} or a model as provider:name (Enter: none): ")).lower() not in NO:
        try:
            chosen = pick(choices, line)
            model = _named_model(line, choices) if chosen is None else chosen.example or _ask_model_of(chosen)
        except (UserError, WorldError) as error:
            say(error.detail)
            continue
        if model:
            say(f"moot: the model is {model}. To make it permanent: moot config set model {shlex.quote(model)}")
            return model
    raise UserError(NONE_CHOSEN, kind="missing_model")


def pick(options: Sequence[T], line: str) -> T | None:
    """The option whose number a person typed; a single option is also picked by ``y``. None for any other text."""
    if line.lower() in ("y", "yes") and len(options) == 1:
        return options[0]
    number = int(line) if line.isascii() and line.isdecimal() and len(line) < 6 else 0
    return options[number - 1] if 0 < number <= len(options) else None


def _named_model(line: str, choices: Sequence[Choice]) -> str:
    try:
        if ":" not in line:
            raise UserError(f"{line[:40]!r} is neither a number of the list nor provider:name.", kind="unknown_model")
        check_model_name(line)
    except UserError as error:
        if choices[0].example or "Did you mean" in error.detail:
            raise
        why = error.detail.partition(" Known:")[0]
        raise UserError(f"{why} Did you mean {choices[0].provider}:{line[:40]}?", kind=error.kind) from error
    from moot.nodes._vendors.catalogue import unavailable_reason

    if missing := unavailable_reason(line.partition(":")[0]):
        raise UserError(missing, kind="missing_key")
    return line


def check_model_name(name: str) -> None:
    """Checks that a model is named provider:name, and that its provider is known.

    Raises:
        UserError: it is not.
    """
    from moot.nodes._vendors.catalogue import check_provider, meant_model

    if ":" not in name:
        hint = f" {AUTO_IS_TYPED}" if name == AUTO else ""
        text = f"A model is named provider:name, not {name!r}, e.g. {meant_model(name) or 'openai:gpt-4o-mini'}.{hint}"
        raise UserError(text, kind="invalid_setting")
    check_provider(name)


def _ask_model_of(server: Choice) -> str | None:
    """The model that the person chooses of a server's list; a single one is taken. None if the person chose none."""
    (found,) = lists_of([server], with_key=True)
    if isinstance(found, WorldError):
        raise WorldError(f"{server}: {found.detail}.", kind=found.kind)
    if len(found) == 1:
        say(f"{server} has one model.")
        return found[0]
    say(f"Models of {server}:")
    for number, name in enumerate(found[:SHOWN], 1):
        say(f"  {number:>2}  {name.partition(':')[2]}{in_words(name)}")
    if len(found) > SHOWN:
        say(f"      and {len(found) - SHOWN} more, which you can name")
    while (line := read_line("Which one? Type its number or its name (Enter: none): ")).lower() not in NO:
        by_name = [name for name in found if line in (name, name.partition(":")[2])]
        if chosen := next(iter(by_name), None) or pick(found, line):
            return chosen
        say(f"{line[:40]!r} is not in the list.")
    return None


def in_words(model: str) -> str:
    """A model's price and context in words, in parentheses; empty if both are unknown."""
    price, context = facts_of(model)
    known = [f"USD {price['input']:g} / {price['output']:g} for 1M tokens"] if price else []
    known += [f"context {context:,}"] if context else []
    return f"  ({'; '.join(known)})" if known else ""


def facts_of(model: str) -> tuple[Price | None, int | None]:
    """A model's price, and its context in tokens; None for what is not known."""
    from moot.nodes._models.contexts import listed_context
    from moot.nodes._models.prices import price_of, read_prices

    return price_of(model, read_prices()), listed_context(model)


# --- `--model auto` and `moot models` ---------------------------------------------------------------------------------


def typed_model(context: typer.Context, model: str | None) -> str | None:
    """The value of ``--model``. For ``auto``, the first model that can be used here, which is said on standard error.

    Servers of this machine come before keys, and of the keys only those whose example has a price.

    Raises:
        UserError: nothing can be used.
    """
    if model != AUTO or context.resilient_parsing:
        return model
    from moot.nodes._models.chat_models import missing_model_error
    from moot.nodes._models.prices import read_prices

    choices, notes = choices_here()
    prices, passed, refused = read_prices(), [], []
    for choice in choices:
        (found,) = [[choice.example]] if choice.example else lists_of([choice], with_key=True)
        if isinstance(found, WorldError):
            passed.append(f"{choice}: {found.detail}")
            refused += [passed[-1]] if found.kind == "authentication" else []
        elif not choice.example or choice.example in prices:
            why = f" Passed over: {'; '.join(passed)}." if passed else ""
            say(f"moot: --model auto takes {found[0]} ({choice.place}).{why}")
            return found[0]
        else:
            passed.append(f"{choice}: its price is not known")
    if refused:
        raise UserError(f"--model auto found no model. {'; '.join(refused)}.", kind="missing_model")
    looked = "".join(f" {text}" for text in (*(f"{one}." for one in passed), *notes))
    raise UserError(
        f"--model auto found no model: no server on this machine, and no key of a priced model.{looked} "
        f"{missing_model_error().detail}",
        kind="missing_model",
    )


def models(as_json: AsJson = False) -> None:
    """List the models that can be used here, with their prices and contexts.

    Servers on this machine are asked for their lists. Nothing else is sent to them.
    """
    from moot.nodes._models.chat_models import EMBEDDED

    rows, notes = usable_models()
    if as_json:
        print(json.dumps(rows, ensure_ascii=False, indent=2))  # noqa: T201
    elif rows:
        _print_models(rows)
    for note in notes:
        say(f"moot: {note}")
    if all(row["name"] == EMBEDDED for row in rows) and not notes:
        say(
            "moot: neither a server on this machine nor a key was found. Start one (for example: ollama run qwen3:8b), "
            "or set a key (for example OPENAI_API_KEY)."
        )
    elif not as_json:
        say("To use one: --model NAME. To use it from now on: moot config set model NAME")
        if any(row["name"].startswith("ollama:") for row in rows):
            say("For a larger context than Ollama gives a model: --set context_tokens=NUMBER")


def usable_models() -> tuple[list[dict[str, Any]], list[str]]:
    """A row for each model that can be used here, and notes on what cannot. Blocking."""
    from moot.nodes._models.chat_models import EMBEDDED
    from moot.nodes._models.prices import read_prices
    from moot.nodes._vendors.catalogue import unavailable_reason

    choices, notes = choices_here()
    servers = [choice for choice in choices if not choice.example]
    if servers:
        say(f"moot: asked for lists of models: {', '.join(map(str, servers))}.")
    lists = dict(zip(servers, lists_of(servers, with_key=False), strict=True))
    named: list[tuple[str, str]] = []
    for choice in choices:
        found = lists.get(choice)
        if isinstance(found, WorldError):
            notes.append(f"{choice}: {found.detail}.")
        elif found:
            named += [(name, str(choice)) for name in found[:SHOWN]]
            notes += [f"{choice} has {len(found) - SHOWN} more models."] if len(found) > SHOWN else []
        else:
            priced = [name for name in read_prices() if name.startswith(f"{choice.provider}:")]
            named += [(name, choice.place) for name in priced or [choice.example]]
    if not unavailable_reason("embedded"):
        named.append((EMBEDDED, "built in; its verdicts have no meaning"))
    rows = []
    for name, source in named:
        price, context = facts_of(name)
        costs = {"input": price and price["input"], "output": price and price["output"]}
        rows.append({"name": name, "from": source, **costs, "context": context})
    return rows, notes


def _print_models(rows: Sequence[dict[str, Any]]) -> None:
    from moot.cli.tables import show
    from rich.table import Table
    from rich.text import Text

    table = Table("model", "from", "USD for 1M tokens\n(prompts / replies)", "context\n(tokens)", box=None)
    for row in rows:
        price = "" if row["input"] is None else f"{row['input']:g} / {row['output']:g}"
        context = f"{row['context']:,}" if row["context"] else ""
        table.add_row(Text(row["name"], style="bold", overflow="fold"), Text(row["from"]), price, context)
    show(table)
