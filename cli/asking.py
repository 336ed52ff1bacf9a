"""Functions for the options that ``moot verify`` and ``moot batch`` share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

Command = TypeVar("Command", bound=Callable[..., Any])


def with_options_of(other: Callable[..., Any], *, left_out: tuple[str, ...]) -> Callable[[Command], Command]:
    """A decorator that adds the parameters of another typer command; the command gets their values in ``**options``.

    Args:
        other: the command whose arguments and options are added.
        left_out: the names of the parameters of ``other`` that are not added.
    """

    def add_options(command: Command) -> Command:
        own = {name: one for name, one in inspect.signature(command).parameters.items() if name != "options"}
        shared = {name: one for name, one in inspect.signature(other).parameters.items() if name not in left_out}
        hints = get_type_hints(other, include_extras=True) | get_type_hints(command, include_extras=True)
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [one.replace(kind=keyword, annotation=hints[name]) for name, one in {**own, **shared}.items()]
        vars(command)["__signature__"] = inspect.Signature(parameters)
        command.__annotations__ = {one.name: hints[one.name] for one in parameters} | {"return": None}
        return command

    return add_options


def input_from_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The input of a debate, except the claim, from the command's options.

    Args:
        options: the command's options, by the names of their parameters.

    Raises:
        UserError: the labels cannot be parsed, or a file or address of given texts cannot be used.
        WorldError: a web page of given texts cannot be fetched.
    """
    from moot.cli.options import parse_labels
    from moot.nodes._records.entries import ORIGIN
    from moot.nodes._texts.given_files import read_given

    debate_input = {"task": options["task"], "labels": parse_labels(options["labels"])}
    debate_input |= {"options": options["option"], **{key: options[key] for key in ORIGIN}}
    debate_input["given"] = [text for path in options["given"] or [] for text in read_given(path)]
    return debate_input


def check_given(given: Iterable[str]) -> None:
    """Checks, before a person is asked for anything, that the files of given texts exist.

    Raises:
        UserError: a file does not exist.
    """
    from moot.core.files import check_exists
    from moot.retrievers._archives import is_url

    for path in given:
        if not is_url(path):
            check_exists(Path(path))


def named_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are given by options such as ``--model``. Settings given by ``--set`` are not included.

    Raises:
        UserError: a file of sites or of their labels cannot be used.
    """
    from moot.cli.options import read_site_labels, read_sites

    moments = None if options.get("ask") is None else [moment.strip() for moment in options["ask"].split(",")]
    file = options.get("calibration")
    named = {**{key: options[key] for key in ("preset", "model", "corpus")}, "ask_person": moments}
    named["calibration"] = None if file is None else str(file)
    named |= {key: options[key] and read_sites(options[key]) for key in ("sites_only", "sites_never")}
    named["site_labels"] = options["site_labels"] and read_site_labels(options["site_labels"])
    return {name: value for name, value in named.items() if value is not None}
