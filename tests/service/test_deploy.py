"""What ``deploy/`` says agrees with itself, and with what there is."""

from __future__ import annotations

import re

from moot.web.service.users import User
from typer.main import get_command

from tests.service.running import DEPLOY, OURS, compose

MODES = ("read_only", "cap_drop", "security_opt", "restart")


def test_every_variable_is_explained() -> None:
    asked = {*re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text())}
    explained = {*re.findall(r"^(\w+)=", (DEPLOY / ".env.example").read_text(), re.MULTILINE)}
    assert asked == explained


def test_our_processes_write_nowhere_and_run_as_nobody_in_particular() -> None:
    for name in OURS:
        said = compose()[name]
        assert all(said.get(mode) for mode in MODES), name
        assert "user" not in said
    assert re.search(r"^USER 10001:10001$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert all(":" in said["image"] and not said["image"].endswith(":latest") for said in compose().values())


def test_the_commands_are_ours() -> None:
    from moot.cli.main import app

    known = {flag for one in get_command(app).commands["service"].params for flag in one.opts}  # type: ignore[attr-defined]
    for name in OURS[:3]:
        program, command, *words = compose()[name]["command"]
        assert (program, command) == ("moot", "service")
        assert {word for word in words if word.startswith("--")} <= known


def test_the_example_of_a_user_has_what_a_user_has() -> None:
    from moot.core.lazy import imported

    [said] = imported("tomllib").loads((DEPLOY / "users.example.toml").read_text()).values()
    assert {*said} == {*User.__dataclass_fields__}
