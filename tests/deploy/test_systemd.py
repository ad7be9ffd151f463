"""The systemd units are sound, confined, and start what docker-compose.yml starts."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.conftest import Image
from tests.deploy.services import PROJECT, UNITS, Adapter, Running, compose_services, unit_settings
from tests.needs import program
from tests.postgres import PostgresServer
from tests.proxy_process import until

SERVICES = sorted(path.name for path in UNITS.glob("*.service"))
RUNNING = [
    "switchyard-web",
    "switchyard-worker",
    "switchyard-beat",
    "switchyard-conductor",
    "switchyard-proxy",
]
SECRETS = {
    "SWITCHYARD_SECRET_KEY": "0123456789abcdef" * 4,
    "POSTGRES_PASSWORD": "x",
    "REDIS_CONTROL_PLANE_PASSWORD": "c",
    "REDIS_PROXY_PASSWORD": "p",
}


def analyze(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    program("systemd-analyze", "systemd")
    return subprocess.run(["systemd-analyze", *arguments], cwd=cwd, capture_output=True, text=True)


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units with this machine's interpreter and project: verify looks whether they exist."""
    for source in UNITS.iterdir():
        text = source.read_text().replace("/opt/switchyard/.venv/bin/python", sys.executable)
        (tmp_path / source.name).write_text(text.replace("/opt/switchyard", str(PROJECT)))
    return tmp_path


def test_systemd_finds_nothing_to_complain_of(units: Path) -> None:
    done = analyze("verify", *(f"./{path.name}" for path in sorted(units.iterdir())), cwd=units)
    assert (done.returncode, done.stderr.strip()) == (0, "")


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_is_confined(units: Path, name: str) -> None:
    """systemd's own measure, 0 (nothing allowed) to 10 (everything)."""
    done = analyze("security", "--offline=true", "--threshold=20", "--no-pager", f"./{name}", cwd=units)
    found = re.search(r"exposure level for \S+: ([0-9.]+)", done.stdout)
    assert found, done.stdout + done.stderr
    assert float(found[1]) <= 2.0


def test_the_proxy_knows_where_the_control_planes_own_files_are() -> None:
    """No replica's credential may lead there; its environment file holds Redis's address alone."""
    environment = unit_settings(UNITS / "switchyard-proxy.service")["Environment"]
    [data] = [line for line in environment if line.startswith("SWITCHYARD_DATA_DIR=")]
    for name in ("web", "worker", "beat", "conductor", "prepare"):
        [folder] = unit_settings(UNITS / f"switchyard-{name}.service")["StateDirectory"]
        assert data == f"SWITCHYARD_DATA_DIR=/var/lib/{folder}"


def test_the_target_starts_every_service() -> None:
    wanted = " ".join(unit_settings(UNITS / "switchyard.target")["Wants"]).split()
    assert sorted(wanted) == SERVICES


@pytest.mark.parametrize("name", RUNNING)
def test_what_dies_is_started_again_and_stops_in_order(name: str) -> None:
    settings = unit_settings(UNITS / f"{name}.service")
    assert settings["Restart"] == ["always"]
    assert settings["StartLimitIntervalSec"] == ["0"]
    # Of a proxy that was killed the workers serve on, until the one that is started next takes over.
    assert settings["KillMode"] == ["process" if name == "switchyard-proxy" else "mixed"]
    assert settings["User"] == ["switchyard"]


def test_the_containers_start_the_same_commands() -> None:
    services = compose_services(SECRETS)
    for name in ("web", "worker", "beat", "conductor"):
        unit = shlex.split(unit_settings(UNITS / f"switchyard-{name}.service")["ExecStart"][0])[1:]
        places = {"127.0.0.1": "0.0.0.0"}
        assert [places.get(word, word) for word in unit] == services[name]["command"][1:]


def test_no_two_processes_of_a_host_answer_on_one_port() -> None:
    text = "\n".join(path.read_text() for path in UNITS.iterdir())
    ports = re.findall(r"127\.0\.0\.1:(\d+)", text) + re.findall(r"--port (\d+)", text)
    assert len(ports) == len(set(ports)) == 7


@pytest.mark.long
@pytest.mark.system
@pytest.mark.timeout(240)
def test_each_exec_start_runs_and_is_well(
    units: Path, tmp_path: Path, built_image: Image, postgres_server: PostgresServer, redis_url: str
) -> None:
    """As ExecStart says, one after the other, with the environment that the unit and its file give."""
    places = {"/var/lib/switchyard-proxy": str(tmp_path / "proxy"), "/var/lib/switchyard": str(tmp_path)}
    adapter = Adapter(tmp_path, {"/opt/switchyard": str(PROJECT), **places})
    (tmp_path / "proxy").mkdir()
    given = {
        "SWITCHYARD_SECRET_KEY": SECRETS["SWITCHYARD_SECRET_KEY"],
        "SWITCHYARD_DATA_DIR": str(built_image.data),
        "SWITCHYARD_DATABASE_URL": postgres_server.create_database("systemd"),
        "SWITCHYARD_REDIS_URL": redis_url,
    }
    started: list[Running] = []
    try:
        migrate = adapter.unit(UNITS / "switchyard-prepare.service", given)
        prepare = Running(migrate, PROJECT, tmp_path)
        started.append(prepare)
        assert prepare.process.wait(60) == 0, prepare.said
        for name in RUNNING:
            service = adapter.unit(UNITS / f"{name}.service", given)
            own = "8081" if name == "switchyard-proxy" else unit_port(name)
            url = f"http://127.0.0.1:{adapter.port(name, own)}/readyz"
            check = [sys.executable, "-c", f"import urllib.request as u; u.urlopen('{url}', timeout=4)"]
            started.append(Running(service._replace(health=check), PROJECT, tmp_path))
        for running in started[1:]:
            until(running.is_well, f"{running.service.name} is well", 60)
        for running in reversed(started[1:]):
            assert running.stop() in (0, -15, 143), running.said
    finally:
        for running in started:
            running.kill()


def unit_port(name: str) -> str:
    settings: dict[str, Any] = unit_settings(UNITS / f"{name}.service")
    return str(settings["Environment"][0]).rpartition(":")[2]
