"""docker-compose.yml and the Dockerfile say only what is true, checked without Docker."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core import management

from controlplane.config.setting_docs import DECLARED
from routing.contract.address_rules import read_ports
from routing.master import options as proxy_options
from tests.deploy.services import COMPOSE, PROJECT, clean_environment, compose_services

DOCKERFILE = (PROJECT / "deploy" / "Dockerfile").read_text()
CHECK = [Path(sys.executable).parent / "check-jsonschema", "--builtin-schema", "vendor.compose-spec"]
SECRETS = {
    "SWITCHYARD_SECRET_KEY": "0123456789abcdef" * 4,
    "POSTGRES_PASSWORD": "x",
    "REDIS_CONTROL_PLANE_PASSWORD": "c",
    "REDIS_PROXY_PASSWORD": "p",
}
CONDITIONS = {"service_healthy", "service_completed_successfully", "service_started"}
CONTROL_PLANE = {"prepare", "web", "worker", "beat", "conductor"}
PROXIES = {"proxy-1", "proxy-2"}
OURS = CONTROL_PLANE | PROXIES
ADDRESSES = ("SWITCHYARD_OWN_PORTS", "SWITCHYARD_ALLOWED_ADDRESSES", "SWITCHYARD_DENIED_ADDRESSES")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return loaded


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = compose["services"]
    return found


def test_all_parts_are_there(compose: dict[str, Any], services: dict[str, Any]) -> None:
    assert set(services) == OURS | {"postgres", "redis"}
    assert {key for key in compose if not key.startswith("x-")} == {"name", "services", "networks", "volumes"}


def test_it_is_as_the_compose_specification_wants_it(tmp_path: Path) -> None:
    done = subprocess.run([*CHECK, COMPOSE], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    misspelt = tmp_path / "misspelt.yml"
    misspelt.write_text(COMPOSE.read_text().replace("start_period", "startperiod", 1))
    assert subprocess.run([*CHECK, misspelt], capture_output=True).returncode == 1


def test_services_name_their_image(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
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
    assert {name for name in used if not name.startswith("./")} == set(compose["volumes"])


def test_ports_open_on_this_machine_only(services: dict[str, dict[str, Any]]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert sorted(ports) == ["127.0.0.1:8000:8000", "127.0.0.1:8080:8080", "127.0.0.1:8090:8080"]


def test_secrets_have_no_default(services: dict[str, dict[str, Any]]) -> None:
    for name in CONTROL_PLANE:
        assert services[name]["environment"]["SWITCHYARD_SECRET_KEY"].startswith("${SWITCHYARD_SECRET_KEY:?")
    assert services["postgres"]["environment"]["POSTGRES_PASSWORD"].startswith("${POSTGRES_PASSWORD:?")
    for name in PROXIES:
        known = {"SWITCHYARD_REDIS_URL", "SWITCHYARD_SITE", *ADDRESSES}
        assert set(services[name]["environment"]) == known, "a proxy knows Redis and no secret"
        assert services[name]["environment"]["SWITCHYARD_REDIS_URL"].startswith(
            "redis://proxy:${REDIS_PROXY_"
        )
    assert "REDIS_PROXY" not in str([services[name]["environment"] for name in CONTROL_PLANE])


def test_every_process_judges_addresses_alike_and_knows_where_the_others_listen(
    services: dict[str, dict[str, Any]],
) -> None:
    environments = [services[name]["environment"] for name in OURS]
    assert len({tuple(each[name] for name in ADDRESSES) for each in environments}) == 1
    places = {(place.host, place.port) for place in read_ports(environments[0]["SWITCHYARD_OWN_PORTS"])}
    for name in PROXIES:
        assert {(name, 8080), (name, 8081)} <= places
    assert {(name, 9464) for name in set(CONTROL_PLANE) - {"prepare"}} | {("web", 8000)} <= places


def test_the_example_of_the_env_file_names_every_variable_and_holds_no_secret() -> None:
    named = set(re.findall(r"\$\{([A-Z_]+)", COMPOSE.read_text()))
    lines = (PROJECT / "deploy" / "compose.env.example").read_text().splitlines()
    example = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert set(example) == named
    for secret in SECRETS:
        assert not example[secret]
        assert f"${{{secret}:?" in COMPOSE.read_text()


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
    # Each knows where all of them listen.
    assert same == yaml.safe_load(yaml.safe_dump(second).replace("proxy-1", "proxy-2"))


@pytest.mark.parametrize(("token", "accepted"), [("", False), ("a-long-random-word", True)])
def test_metrics_are_for_other_machines_only_with_a_token(tmp_path: Path, token: str, accepted: bool) -> None:
    """Each process asks its own settings, so each is refused in the same words."""
    variables = {**SECRETS, "METRICS_HOST": "0.0.0.0", "SWITCHYARD_METRICS_TOKEN": token}
    given = compose_services(variables)["worker"]["environment"]
    assert given["SWITCHYARD_METRICS_LISTEN"] == "0.0.0.0:9464"
    environment = {**clean_environment(), **{key: value or "" for key, value in given.items()}}
    environment |= {"SWITCHYARD_DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "controlplane.settings"}
    command = [sys.executable, "-c", "from django.conf import settings; print(settings.METRICS_LISTEN)"]
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True)
    assert (done.returncode == 0) is accepted, done.stderr
    assert ("SWITCHYARD_METRICS_TOKEN" in done.stderr) is not accepted


def test_health_checks_ask_where_the_service_listens() -> None:
    """Also where its address is another; that each check passes is seen in test_running.py."""
    for name, service in compose_services({**SECRETS, "METRICS_HOST": "0.0.0.0"}).items():
        asked = re.search(
            r"http://127\.0\.0\.1:(\d+)", " ".join(service.get("healthcheck", {}).get("test", []))
        )
        listens = " ".join([*service.get("command", []), *map(str, service.get("environment", {}).values())])
        if asked:
            assert re.search(rf"0\.0\.0\.0(:| --port ){asked[1]}\b", listens), name
        assert (asked is None) == (name in ("prepare", "postgres", "redis"))


def test_every_setting_is_one_that_settings_read(services: dict[str, dict[str, Any]]) -> None:
    for name in OURS:
        assert set(services[name]["environment"]) <= {*DECLARED, "SWITCHYARD_SITE"}, name


def test_the_proxys_command_line_is_one_it_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = compose_services(SECRETS)["proxy-1"]
    for name, value in proxy["environment"].items():
        monkeypatch.setenv(name, value)
    assert proxy["command"][:4] == ["python", "-u", "-m", "routing"]
    parsed = proxy_options.parse(proxy["command"][4:])
    assert (parsed.listen.port, parsed.workers, parsed.site) == (8080, 2, "")
    monkeypatch.setenv("SWITCHYARD_SITE", "east")
    assert proxy_options.parse(proxy["command"][4:]).site == "east"


def test_management_commands_exist(services: dict[str, dict[str, Any]]) -> None:
    text = " ".join(" ".join(service.get("command", [])) for service in services.values())
    named = set(re.findall(r"manage\.py (\w+)", text))
    assert named == {"migrate", "ensure_admin", "conductor"}
    folders = [Path(management.__file__).parent, PROJECT / "controlplane" / "management"]
    assert named <= {command for folder in folders for command in management.find_commands(str(folder))}


def test_the_image_is_made_from_files_that_exist(services: dict[str, dict[str, Any]]) -> None:
    build = services["web"]["build"]
    assert (PROJECT / build["context"] / build["dockerfile"]).is_file()
    lines = [line for line in DOCKERFILE.splitlines() if line.startswith("COPY ") and "--from=" not in line]
    copied = [line.split()[1:-1] for line in lines]
    for source in [name for line in copied for name in line]:
        assert (PROJECT / source).exists(), source


def test_the_image_holds_every_package_that_runs_in_it() -> None:
    for package in ("routing", "controlplane", "dashboard"):
        assert f"COPY {package} {package}\n" in DOCKERFILE
    assert "--require-hashes" in DOCKERFILE
