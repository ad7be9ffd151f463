"""Services of docker-compose.yml and of the systemd units, run as plain processes of this machine."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from controlplane.supervision.processes import descendants
from tests.proxy_process import free_port

PROJECT = Path(__file__).resolve().parent.parent.parent
COMPOSE = PROJECT / "docker-compose.yml"
UNITS = PROJECT / "deploy" / "systemd"
VARIABLE = re.compile(r"\$\{([A-Z_]+)(?::([-?])([^}]*))?\}")


def interpolated(text: str, variables: Mapping[str, str]) -> str:
    """As Docker Compose does it: ``${NAME:-default}`` and ``${NAME:?error}``."""

    def value(found: re.Match[str]) -> str:
        name, kind, rest = found.groups()
        if kind == "?" and not variables.get(name):
            raise KeyError(f"{name}: {rest}")
        return variables.get(name) or (rest if kind == "-" else "")

    return VARIABLE.sub(value, text)


def compose_services(variables: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    loaded: dict[str, Any] = yaml.safe_load(interpolated(COMPOSE.read_text(), variables))
    services: dict[str, dict[str, Any]] = loaded["services"]
    return services


class Service(NamedTuple):
    name: str
    command: list[str]
    environment: dict[str, str]
    health: list[str]
    """A command that succeeds when the service is well; empty: nothing says so."""
    stop_s: float


class Adapter:
    """What differs here: the interpreter, ports, places and the two servers."""

    def __init__(self, folder: Path, replacements: Mapping[str, str]) -> None:
        self.folder = folder
        self.replacements = replacements
        self.ports: dict[tuple[str, str], int] = {}

    def port(self, service: str, port: str) -> int:
        """The free port that stands for a service's own one; each container has all ports to itself."""
        return self.ports.setdefault((service, port), free_port())

    def adapted(self, service: str, text: str) -> str:
        text = text.replace("0.0.0.0", "127.0.0.1").replace("/tmp/", f"{self.folder}/{service}-")
        for old, new in self.replacements.items():
            text = text.replace(old, new)
        text = re.sub(r"(127\.0\.0\.1:)(\d{4})\b", lambda m: m[1] + str(self.port(service, m[2])), text)
        return str(self.port(service, text)) if re.fullmatch(r"8\d\d\d", text) else text

    def command(self, service: str, words: list[str]) -> list[str]:
        adapted = [self.adapted(service, word) for word in words]
        return [
            re.sub(r"(^|&& )(?:\S*/)?python ", rf"\1{sys.executable} ", word) if " " in word else word
            for word in ([sys.executable, *adapted[1:]] if Path(words[0]).name == "python" else adapted)
        ]

    def compose(self, name: str, described: Mapping[str, Any]) -> Service:
        given = {key: "" if value is None else str(value) for key, value in described["environment"].items()}
        environment = {key: self.adapted(name, value) for key, value in given.items()}
        health = described.get("healthcheck", {}).get("test", ["CMD"])
        assert health[0] == "CMD"
        stop_s = float(described.get("stop_grace_period", "10s").removesuffix("s"))
        command = self.command(name, described["command"])
        return Service(
            name, command, environment, self.command(name, health[1:]) if health[1:] else [], stop_s
        )

    def unit(self, file: Path, environment_file: Mapping[str, str]) -> Service:
        settings = unit_settings(file)
        name = file.stem
        own = dict(
            pair.split("=", 1) for line in settings.get("Environment", []) for pair in shlex.split(line)
        )
        environment = {**environment_file, **{key: self.adapted(name, value) for key, value in own.items()}}
        command = self.command(name, shlex.split(settings["ExecStart"][0]))
        stop_s = float(settings.get("TimeoutStopSec", ["90"])[0])
        return Service(name, command, environment, [], stop_s)


def unit_settings(file: Path) -> dict[str, list[str]]:
    """Key → its values, of all sections."""
    found: dict[str, list[str]] = {}
    for line in file.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, value = line.split("=", 1)
            found.setdefault(key, []).append(value)
    return found


class Running:
    """A started service; ``said`` is all that it printed."""

    def __init__(self, service: Service, cwd: Path, folder: Path) -> None:
        self.service = service
        self.log = folder / f"{service.name}.log"
        self.environment = {**clean_environment(), **service.environment}
        self.cwd = cwd
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                service.command, cwd=cwd, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )

    @property
    def said(self) -> str:
        return self.log.read_text()

    def is_well(self) -> bool:
        """What the health check says. A service that has ended fails the test."""
        assert self.process.poll() is None, f"{self.service.name} ended:\n{self.said}"
        check = subprocess.run(self.service.health, cwd=self.cwd, env=self.environment, capture_output=True)
        return check.returncode == 0

    def stop(self) -> int:
        """SIGTERM to the first process alone, as Docker and the units' ``KillMode`` do; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(self.service.stop_s)

    def kill(self) -> None:
        """With all below it: workers of a proxy would outlive their master."""
        if self.process.poll() is None:
            below = descendants(self.process.pid)
            os.killpg(self.process.pid, signal.SIGKILL)
            for pid in below:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()


def clean_environment() -> dict[str, str]:
    dropped = ("SWITCHYARD_", "DJANGO_", "PYTEST_")
    return {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
