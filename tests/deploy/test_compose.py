"""docker-compose.yml and the Dockerfile say only what is true, checked without Docker."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core import management

from controlplane.declared import DECLARED
from routing.parent import options as proxy_options

PROJECT = Path(__file__).resolve().parent.parent.parent
COMPOSE = PROJECT / "docker-compose.yml"
DOCKERFILE = (PROJECT / "deploy" / "Dockerfile").read_text()
SERVICE_KEYS = {
    *("image", "build", "restart", "environment", "command", "depends_on", "ports", "volumes"),
    *("healthcheck", "stop_grace_period", "ulimits", "init", "read_only", "tmpfs", "cap_drop"),
    *("security_opt", "networks", "logging"),
}
CONDITIONS = {"service_healthy", "service_completed_successfully", "service_started"}
CONTROL_PLANE = {"prepare", "web", "worker", "beat", "conductor"}
PROXIES = {"proxy-1", "proxy-2"}
OURS = CONTROL_PLANE | PROXIES


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
    assert {key for key in compose if not key.startswith("x-")} == {"name", "services", "networks", "volumes"}


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
    assert sorted(ports) == ["127.0.0.1:8000:8000", "127.0.0.1:8080:8080", "127.0.0.1:8090:8080"]


def test_secrets_have_no_default(services: dict[str, dict[str, Any]]) -> None:
    for name in CONTROL_PLANE:
        assert services[name]["environment"]["SWITCHYARD_SECRET_KEY"].startswith("${SWITCHYARD_SECRET_KEY:?")
    assert services["postgres"]["environment"]["POSTGRES_PASSWORD"].startswith("${POSTGRES_PASSWORD:?")
    for name in PROXIES:
        assert set(services[name]["environment"]) == {"SWITCHYARD_REDIS_URL"}, (
            "a proxy knows Redis and no secret"
        )


def test_the_example_of_the_env_file_names_every_variable_and_holds_no_secret() -> None:
    named = set(re.findall(r"\$\{([A-Z_]+)", COMPOSE.read_text()))
    lines = (PROJECT / "deploy" / "compose.env.example").read_text().splitlines()
    example = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert set(example) == named
    assert not example["SWITCHYARD_SECRET_KEY"]
    assert not example["POSTGRES_PASSWORD"]


def test_our_containers_run_with_nothing_that_they_do_not_need(services: dict[str, dict[str, Any]]) -> None:
    for name in OURS:
        service = services[name]
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["tmpfs"] == ["/tmp"], name


def test_everything_that_stays_up_is_started_again_and_says_how_it_is(
    services: dict[str, dict[str, Any]],
) -> None:
    for name, service in services.items():
        assert service["restart"] == ("no" if name == "prepare" else "unless-stopped"), name
        assert ("healthcheck" in service) == (name != "prepare"), name


def test_database_and_redis_are_on_a_network_without_a_way_out(
    compose: dict[str, Any], services: dict[str, dict[str, Any]]
) -> None:
    assert compose["networks"]["data"] == {"internal": True}
    for name in ("postgres", "redis"):
        assert services[name]["networks"] == ["data"]
        assert "ports" not in services[name]


def test_two_proxies_differ_in_name_port_and_volume_alone(services: dict[str, dict[str, Any]]) -> None:
    first, second = (services[name] for name in sorted(PROXIES))
    assert first["volumes"] != second["volumes"]
    same = yaml.safe_load(
        yaml.safe_dump(first).replace("proxy-1", "proxy-2").replace("8080:8080", "8090:8080")
    )
    assert same == yaml.safe_load(yaml.safe_dump(second))


def test_every_setting_is_one_that_settings_read(services: dict[str, dict[str, Any]]) -> None:
    for name in OURS:
        assert set(services[name]["environment"]) <= set(DECLARED), name


def test_the_proxys_command_line_is_one_it_accepts(
    services: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = services["proxy-1"]
    monkeypatch.setenv("SWITCHYARD_REDIS_URL", proxy["environment"]["SWITCHYARD_REDIS_URL"])
    assert proxy["command"][:4] == ["python", "-u", "-m", "routing"]
    parsed = proxy_options.parse(proxy["command"][4:])
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
