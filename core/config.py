"""Defaults for settings, from a configuration file and from environment variables, which override the file.

The configuration file is ``config.toml`` in ``$MOOT_HOME``, else in the user's configuration folder. Values that look
like secrets are refused. `load_env_file` loads environment variables from a `.env` file.
"""

from __future__ import annotations

import json
import math
import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moot.core.errors import UserError, did_you_mean
from moot.core.files import why_unread, write_atomically, write_error
from moot.core.home import private_folder
from moot.core.redaction import KEY_NAME, SHAPES


@dataclass(frozen=True)
class Key:
    """A key of the configuration: its environment variable, its description, and the type of its value."""

    variable: str
    about: str
    kind: type = str


KEYS = {
    "model": Key("MOOT_MODEL", "Model of all roles, as provider:name."),
    "graph": Key("MOOT_GRAPH", "The debate system."),
    "embedder": Key("MOOT_EMBEDDER", "Text encoder."),
    "corpus": Key("MOOT_CORPUS", "The corpus to read."),
    "budget": Key("MOOT_BUDGET", "Maximum number of tokens of a debate.", int),
    "max_cost": Key("MOOT_MAX_COST", "Maximum cost of a debate, in USD.", float),
    "max_calls": Key("MOOT_MAX_CALLS", "Maximum number of calls to models in a debate.", int),
    "max_seconds": Key("MOOT_MAX_SECONDS", "Maximum time of a debate, in seconds.", float),
    "editor": Key("MOOT_EDITOR", "The person who decides about checks on this machine (`moot review`)."),
    "scale": Key("MOOT_SCALE", "A file with the steps of your rating scale (`moot review`)."),
    "replies": Key("MOOT_REPLIES", "How stored replies are used: record, reuse, replay, off."),
    "env_file": Key("MOOT_ENV_FILE", "A file of environment variables, such as keys, that is read at the start."),
}
SETTINGS = ("model", "embedder", "corpus", "budget", "max_cost", "max_calls", "max_seconds")
"""The keys that are settings of every debate."""
SECRET = (
    "{what} looks like a secret, and moot never stores secrets in its own files: set it in the environment, or in a "
    ".env file that `moot --env-file FILE` or `moot config set env_file FILE` names."
)


AUTO = "auto"
"""The value of ``--model`` that takes the first model which can be used on this machine."""
AUTO_IS_TYPED = "`auto` must be typed: --model auto, in verify, batch, claims, report and serve."


@dataclass(frozen=True)
class Value:
    """A value and its source: an environment variable, the path of the configuration file, or "default" if not set."""

    value: Any
    source: str


def config_file() -> Path:
    """The path of the configuration file; it need not exist."""
    if home := os.environ.get("MOOT_HOME"):
        return Path(home) / "config.toml"
    from platformdirs import user_config_path

    return user_config_path("moot") / "config.toml"


def read_config() -> dict[str, Any]:
    """The values in the configuration file, each checked (`checked_value`); empty if there is no file; blocking."""
    file = config_file()
    try:
        stored = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UserError(f"{file} cannot be read ({error.strerror}).", kind="invalid_file") from error
    except ValueError as error:
        raise UserError(f"{file} is not valid TOML ({error}). Correct or delete it.", kind="invalid_file") from error
    try:
        return {name: checked_value(name, value) for name, value in stored.items()}
    except UserError as error:
        raise UserError(f"{file}: {error.detail}", kind=error.kind) from error


def checked_value(name: str, value: Any) -> Any:
    """The value, converted to the type of its key; refused if the key is unknown, or either looks like a secret."""
    if name not in KEYS:
        if KEY_NAME.fullmatch(name):
            raise UserError(SECRET.format(what=name), kind="invalid_setting")
        raise UserError(
            f"There is no setting {name!r}. {did_you_mean(name, KEYS)}Known: {', '.join(KEYS)}. Other settings are "
            "given with --set.",
            kind="invalid_setting",
        )
    if isinstance(value, str) and any(shape.search(value) for shape in SHAPES):
        raise UserError(SECRET.format(what=f"The value of {name}"), kind="invalid_setting")
    kind = KEYS[name].kind
    try:
        is_fraction = kind is int and isinstance(value, float) and not value.is_integer()
        if is_fraction or isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError
        found = kind(value)
        if kind is float and not math.isfinite(found):
            raise ValueError
    except (ValueError, OverflowError) as error:
        wanted = {int: "a whole number", float: "a number", str: "a text"}[kind]
        raise UserError(f"{name} must be {wanted}, not {value!r}.", kind="invalid_setting") from error
    if found == "":
        raise UserError(f"{name} is empty. To unset it: moot config unset {name}", kind="invalid_setting")
    return found


def write_config(values: dict[str, Any]) -> Path:
    """Replaces the configuration file, without the keys that are left out, and returns its path; blocking."""
    file = config_file()
    for name, value in values.items():
        checked_value(name, value)
    texts = {name: json.dumps(value, ensure_ascii=False) for name, value in values.items()}
    lines = [f"{name} = {text}\n".replace("\x7f", "\\u007f") for name, text in texts.items()]  # TOML forbids DEL
    try:
        private_folder(file.parent)
    except OSError as error:
        raise UserError(f"{file.parent} cannot be created ({error.strerror}).", kind="invalid_environment") from error
    try:
        write_atomically(file, "".join(lines), private=True)
    except OSError as error:
        raise write_error(file, error) from error
    return file


def values() -> Iterator[tuple[str, Value]]:
    """Every key with its value and the value's source; the value is None if the key is not set; blocking."""
    stored, file = read_config(), config_file()
    for name, key in KEYS.items():
        if text := os.environ.get(key.variable, "").strip():
            try:
                yield name, Value(checked_value(name, text), key.variable)
            except UserError as error:
                raise UserError(f"{key.variable}: {error.detail}", kind="invalid_environment") from error
        elif name in stored:
            yield name, Value(stored[name], str(file))
        else:
            yield name, Value(None, "default")


def value_of(name: str) -> Any:
    """The value of a key; None if it is not set; blocking."""
    return dict(values())[name].value


def operators_model() -> str | None:
    """The model of the environment variable MOOT_MODEL, the default of every debate; None if it is not set."""
    return os.environ.get(KEYS["model"].variable, "").strip() or None


def usual_settings() -> dict[str, Any]:
    """The debate settings that are set in the file or in the environment; blocking."""
    return {name: found.value for name, found in values() if name in SETTINGS and found.value is not None}


def load_env_file(named: Path | None) -> None:
    """Loads the file of environment variables that is named here, in MOOT_ENV_FILE or in the configuration;
    blocking.
    """
    configured = os.environ.get(KEYS["env_file"].variable, "").strip() or (
        None if named else read_config().get("env_file")
    )
    path = named or (Path(configured).expanduser() if configured else None)
    if path is None:
        return
    from dotenv import load_dotenv

    try:
        with path.open(encoding="utf-8-sig") as lines:
            # Variables that are already set keep their values.
            load_dotenv(stream=lines, override=False)
    except (OSError, UnicodeDecodeError) as error:
        why = why_unread(path, error) if isinstance(error, OSError) else f"{path} is not UTF-8 text."
        raise UserError(f"The file of environment variables: {why}", kind="missing_file") from error
