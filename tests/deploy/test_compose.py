"""docker-compose.yml and the Dockerfile say only what is true, checked without Docker."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core import management

from routing.parent import options as proxy_options

PROJECT = Path(__file__).resolve().parent.parent.parent
DOCKERFILE = (PROJECT / "deploy" / "Dockerfile").read_text()
SERVICE_KEYS = {
    *("image", "build", "restart", "environment", "command", "depends_on", "ports", "volumes"),
    *("healthcheck", "stop_grace_period", "ulimits"),
}
CONDITIONS = {"service_healthy", "service_completed_successfully", "service_started"}
OURS = {"prepare", "web", "worker", "beat", "conductor", "proxy"}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())
    return loaded


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = compose["services"]
    return found


def test_all_parts_are_there(compose: dict[str, Any], services: dict[str, Any]) -> None:
    assert set(services) == OURS | {"postgres", "redis"}
    assert {key for key in compose if not key.startswith("x-")} == {"name", "services", "volumes"}


def test_services_use_known_keys_and_name_their_image(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        assert set(service) <= SERVICE_KEYS, name
        assert service["image"], name
        assert ("build" in service) == (name in OURS), name


def test_what_a_service_waits_for_exists_and_can_be_waited_for(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        for other, wanted in service.get("depends_on", {}).items():
            assert wanted["condition"] in CONDITIONS, name
            if wanted["condition"] == "service_healthy":
                assert "healthcheck" in services[other], (name, other)


def test_named_volumes_are_declared_and_none_is_left_over(
    compose: dict[str, Any], services: dict[str, dict[str, Any]]
) -> None:
    used = {volume.split(":")[0] for service in services.values() for volume in service.get("volumes", [])}
    assert used == set(compose["volumes"])


def test_ports_open_on_this_machine_only(services: dict[str, dict[str, Any]]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert sorted(ports) == ["127.0.0.1:8000:8000", "127.0.0.1:8080:8080"]


def test_secrets_have_no_default(services: dict[str, dict[str, Any]]) -> None:
    for name in OURS - {"proxy"}:
        assert services[name]["environment"]["SWITCHYARD_SECRET_KEY"].startswith("${SWITCHYARD_SECRET_KEY:?")
    assert services["postgres"]["environment"]["POSTGRES_PASSWORD"].startswith("${POSTGRES_PASSWORD:?")
    assert "SWITCHYARD_SECRET_KEY" not in services["proxy"]["environment"]


def test_every_setting_is_one_that_settings_read(services: dict[str, dict[str, Any]]) -> None:
    read = set(re.findall(r'"(SWITCHYARD_[A-Z_]+)"', (PROJECT / "controlplane" / "settings.py").read_text()))
    for name in OURS:
        assert set(services[name]["environment"]) <= read, name


def test_the_proxys_command_line_is_one_it_accepts(
    services: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = services["proxy"]
    monkeypatch.setenv("SWITCHYARD_REDIS_URL", proxy["environment"]["SWITCHYARD_REDIS_URL"])
    assert proxy["command"][:3] == ["python", "-m", "routing"]
    parsed = proxy_options.parse(proxy["command"][3:])
    assert (parsed.listen.port, parsed.workers) == (8080, 2)


def test_management_commands_exist(services: dict[str, dict[str, Any]]) -> None:
    text = " ".join(" ".join(service.get("command", [])) for service in services.values())
    named = set(re.findall(r"manage\.py (\w+)", text))
    assert named == {"migrate", "ensure_admin", "conductor"}
    folders = [Path(management.__file__).parent, PROJECT / "controlplane" / "management"]
    assert named <= {command for folder in folders for command in management.find_commands(str(folder))}


def test_the_image_is_made_from_files_that_exist(services: dict[str, dict[str, Any]]) -> None:
    build = services["web"]["build"]
    assert (PROJECT / build["context"] / build["dockerfile"]).is_file()
    copied = [line.split()[1:-1] for line in DOCKERFILE.splitlines() if line.startswith("COPY ")]
    for source in [name for line in copied for name in line]:
        assert (PROJECT / source).exists(), source


def test_the_image_holds_every_package_that_runs_in_it() -> None:
    for package in ("routing", "controlplane", "dashboard"):
        assert f"COPY {package} {package}\n" in DOCKERFILE
    assert "--require-hashes" in DOCKERFILE
