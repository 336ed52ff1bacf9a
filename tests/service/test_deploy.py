"""The files of ``deploy/`` agree with each other and with the code."""

from __future__ import annotations

import re

from moot.core.endpoint import PROVIDERS
from moot.core.lazy import imported
from moot.nodes._models.prices import read_prices
from moot.service.users import User
from moot.web.serve import PATHS
from typer.main import get_command

from tests.service.running import DEPLOY, OURS, PRICES, compose

DOCS = DEPLOY.parent / "docs"
SOURCES = [
    file for folder in ("core", "nodes", "retrievers", "web", "cli") for file in (DEPLOY.parent / folder).rglob("*.py")
]
HOME = "MOOT_HOME"
NOT_SET = {"MOOT_TOKEN"}
"""The variable in docs/howto/service.md that the service in ``compose.yaml`` does not use."""
FOREIGN_VARIABLES = {"FORWARDED_ALLOW_IPS", "BG_JOB_TIMEOUT_SECS", "AEGRA_THREAD_TTL"}
"""Variables that only uvicorn and Aegra read."""

MODES = ("read_only", "cap_drop", "security_opt", "restart")


def test_env_example_lists_the_variables_of_the_service() -> None:
    """``.env.example`` lists the variables in compose.yaml, and those in the guide that compose.yaml does not set.

    Each listed variable is read by compose.yaml, moot, uvicorn or Aegra.
    """
    in_compose = {*re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text())}
    listed = {*re.findall(r"^(?:# )?(\w+)=", (DEPLOY / ".env.example").read_text(), re.MULTILINE)}
    assert in_compose <= listed
    guide = (DOCS / "howto/service.md").read_text()
    in_guide = {*re.findall(r"`([A-Z]+_[A-Z_]+)`", guide)} - NOT_SET
    assert in_guide <= listed | {*compose()["page"]["environment"]}
    read = {*re.findall(r"\b[A-Z]+_[A-Z_]+\b", "".join(file.read_text() for file in SOURCES))}
    read |= {provider.base_url_variable for provider in PROVIDERS.values()}
    assert listed - in_compose <= read | FOREIGN_VARIABLES


def test_each_process_gets_its_variables_and_files() -> None:
    compose_file = imported("yaml").safe_load((DEPLOY / "compose.yaml").read_text())
    for name in (*OURS[:3], "batch-worker"):
        service = compose()[name]
        assert service["env_file"] == [{"path": ".env", "required": False}]
        mounted = {f"/run/secrets/{one}" for one in service["secrets"]} | {f"/{one}" for one in service["configs"]}
        assert {service["environment"][variable] for variable in PATHS if variable != HOME} == mounted
        assert {*service["secrets"]} <= {*compose_file["secrets"]}
        assert {*service["configs"]} <= {*compose_file["configs"]}
    assert f" {HOME}=/tmp/" in (DEPLOY / "Dockerfile").read_text()
    assert read_prices(PRICES)


def test_our_containers_are_read_only_and_run_without_privileges() -> None:
    """Every image has a tag other than ``latest``."""
    for name in (*OURS, "batch-worker"):
        service = compose()[name]
        assert all(service.get(mode) for mode in MODES), name
        assert "user" not in service
    assert re.search(r"^USER 10001:10001$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert all(":" in one["image"] and not one["image"].endswith(":latest") for one in compose().values())


def test_the_services_run_known_commands_and_options_of_moot() -> None:
    from moot.cli.main import app

    commands = get_command(app).commands  # type: ignore[attr-defined]
    known = {name: {flag for one in commands[name].params for flag in one.opts} for name in ("service", "worker")}
    for name in (*OURS[:3], "batch-worker"):
        program, command, *words = compose()[name]["command"]
        assert (program, command) == ("moot", "worker" if name == "batch-worker" else "service")
        assert {word for word in words if word.startswith("--")} <= known[command]


def test_prometheus_reaches_each_process_at_its_port() -> None:
    jobs = imported("yaml").safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"]
    [ours, queue] = ([target for one in job["static_configs"] for target in one["targets"]] for job in jobs)
    for name, _, port in (target.partition(":") for target in ours):
        service = compose()[name]
        assert service["command"][2:6] == ["--host", "0.0.0.0", "--port", port]
        assert name in service["environment"]["MOOT_ALLOWED_HOSTS"].split(",")
    assert {target.partition(":")[0] for target in ours} == {*OURS[:3]}
    assert queue == ["batch-worker:9464"]
    assert compose()["batch-worker"]["environment"]["OTEL_EXPORTER_PROMETHEUS_HOST"] == "0.0.0.0"


def test_the_example_user_has_all_fields() -> None:
    [user] = imported("tomllib").loads((DEPLOY / "users.example.toml").read_text()).values()
    assert {*user} == {*User.__dataclass_fields__}
