"""``moot config``: shows and sets defaults, such as the model of debates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from moot.core.config import KEYS, checked_value, config_file, read_config, value_of, values, write_config
from moot.core.errors import UserError

config = typer.Typer(
    help="Show and set defaults, such as the model, the corpus and the ceilings of a debate. Options override "
    "environment variables, which override the configuration file.",
)


@config.callback(invoke_without_command=True)
def show_config(context: typer.Context) -> None:
    """Show all values if no command is given."""
    if context.invoked_subcommand is None:
        show()


@config.command()
def show() -> None:
    """Show every key with its value and the source of the value."""
    from moot.cli.tables import show as print_table
    from rich.table import Table

    table = Table("key", "value", "from", "meaning", box=None)
    for name, found in values():
        value = "-" if found.value is None else str(found.value)
        table.add_row(name, value, found.source, f"{KEYS[name].about} ({KEYS[name].variable})")
    print_table(table)


@config.command("set")
def set_command(
    key: Annotated[str, typer.Argument(help=f"One of {', '.join(KEYS)}.", autocompletion=lambda: [*KEYS])],
    value: Annotated[str, typer.Argument(help="The value to set.")],
) -> None:
    """Write a value to the configuration file."""
    found = checked_value(key, value)
    if key == "model":
        from moot.cli.models import check_model_name
        from moot.nodes._vendors.catalogue import unavailable_reason

        check_model_name(found)
        if missing := unavailable_reason(found.partition(":")[0]):
            typer.echo(f"moot: {missing}", err=True)
    if key == "graph":
        from moot.graphs import load_graph

        load_graph(found)
    if key == "env_file":
        found = str(Path(found).expanduser().absolute())
    typer.echo(f"{key} = {found} in {write_config({**read_config(), key: found})}")


@config.command()
def get(
    key: Annotated[str, typer.Argument(help="The key whose value is printed.", autocompletion=lambda: [*KEYS])],
) -> None:
    """Print a value and nothing else; if it is not set, print nothing and exit with code 1."""
    if key not in KEYS:
        checked_value(key, "1")  # raises, because there is no such key
    value = value_of(key)
    if value is None:
        raise typer.Exit(1)
    typer.echo(value)


@config.command()
def unset(
    key: Annotated[
        str, typer.Argument(help="The key to remove from the configuration file.", autocompletion=lambda: [*KEYS])
    ],
) -> None:
    """Remove a value from the configuration file."""
    content = read_config()
    if key not in content:
        checked_value(key, "1")  # raises if there is no such key
        raise UserError(f"{config_file()} sets no {key}.", kind="invalid_setting")
    del content[key]
    typer.echo(f"{key} is no longer set in {write_config(content)}")


@config.command()
def path() -> None:
    """Print the path of the configuration file, even if the file does not exist yet."""
    typer.echo(str(config_file()))
