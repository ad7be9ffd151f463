"""Real model servers as processes, and a real proxy with its own prober before them."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Any

from bootstrap.servers import installed
from tests.ports import free_port
from tests.proxy_process import ROOT, Proxy, until
from tests.system.stack import Answer, Traffic, exchange

APPS = Path(__file__).parent / "apps"
START_LIMIT_S = 60.0
PROBE = {"period_s": 0.5, "timeout_s": 3, "rise": 1, "fall": 2}


class ModelServer(ABC):
    """One process group on a port of its own, which a test may stop and start again."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.port = free_port()
        self.gate = folder / f"{name}.gate"
        """Where the server waits for one, it loads its model once this file is there."""
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / f"{self.name}.log").read_text(errors="replace")

    @abstractmethod
    def command(self) -> list[str]:
        """What starts it."""

    def start(self) -> "ModelServer":
        environment = os.environ | {"GATE": str(self.gate), "PYTHONPATH": f"{APPS}:{ROOT}"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                cwd=self.folder,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    def stop(self, number: int = signal.SIGKILL) -> None:
        """Signal the whole group and wait for its end."""
        assert self.process is not None
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)
        try:
            self.process.wait(15)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def ask(self, path: str, body: object = None) -> Answer:
        """Past the proxy. A ``body`` makes it a POST."""
        return exchange(self.port, "GET" if body is None else "POST", path, body, {})

    def says(self, path: str) -> str:
        """Status and body, or what kept it from answering."""
        try:
            answer = self.ask(path)
        except (OSError, http.client.HTTPException) as error:
            return type(error).__name__
        return f"{answer.status} {answer.body.decode(errors='replace')}".strip()

    def until_it_says(self, path: str, words: str) -> None:
        def said() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.log
            return self.says(path).startswith(words)

        until(said, f"{self.name} says {words} to {path}", START_LIMIT_S)


class LlamaCpp(ModelServer):
    vocabulary = 4096

    def command(self) -> list[str]:
        app = str(APPS / "llama_cpp.py")
        return [sys.executable, app, str(self.port), str(self.folder), str(self.vocabulary)]


class MLServer(ModelServer):
    """Inference runs in the server's own process (``parallel_workers`` 0), to be light."""

    def command(self) -> list[str]:
        repository = self.folder / self.name
        repository.mkdir(exist_ok=True)
        ports = {"http_port": self.port, "grpc_port": free_port(), "metrics_endpoint": None}
        settings = {"host": "127.0.0.1", **ports, "debug": False, "parallel_workers": 0}
        (repository / "settings.json").write_text(json.dumps(settings))
        model = {
            "name": "digits",
            "implementation": "gated_sklearn.GatedSKLearn",
            "parameters": {"uri": str(repository / "model.joblib")},
        }
        (repository / "model-settings.json").write_text(json.dumps(model))
        return [str(servers_python().with_name("mlserver")), "start", str(repository)]


class LitServe(ModelServer):
    def command(self) -> list[str]:
        return [str(servers_python()), str(APPS / "lit_words.py"), str(self.port)]


def servers_python() -> Path:
    python = installed()
    assert python is not None
    return python


class Front:
    """A proxy on a fleet file, with the built-in prober: what a client of it sees, and what it says."""

    def __init__(self, folder: Path, fleets: list[dict[str, Any]]) -> None:
        file = folder / "fleets.yaml"
        file.write_text(json.dumps({"version": 1, "fleets": fleets}))
        self.proxy = Proxy(folder, "--fleets", str(file), "--workers", "1", "--probe").ready()

    def ask(self, path: str, body: object = None, **headers: str) -> Answer:
        return exchange(self.proxy.port, "GET" if body is None else "POST", path, body, headers)

    def until_health(self, fleet: str, replica: str, *wanted: str) -> dict[str, Any]:
        """Wait for this health in the proxy's own status, and give the replica's row."""

        def row() -> dict[str, Any] | None:
            found = self.proxy.replicas(fleet)[replica]
            fits = found["health"] in wanted and (found["eligible"] or "ready" not in wanted)
            return found if fits else None

        try:
            found = until(row, f"{replica} is {' or '.join(wanted)}", START_LIMIT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.proxy.replicas(fleet)}\n{self.proxy.log}") from None
        assert found is not None
        return found

    def stream(self, path: str, body: dict[str, Any]) -> "Stream":
        return Stream(self.proxy.port, path, body)

    def metric(self, name: str, fleet: str) -> int:
        start = f'switchyard_{name}{{fleet="{fleet}"}} '
        for line in self.proxy.admin("/metrics")[1].splitlines():
            if line.startswith(start):
                return int(float(line.removeprefix(start)))
        return 0


class Stream:
    """One answer of server-sent events, read as it comes."""

    def __init__(self, port: int, path: str, body: dict[str, Any]) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._connection.request(
            "POST", path, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"}
        )
        self._response = self._connection.getresponse()
        self.status = self._response.status
        self.replica = self._response.headers.get("x-switchyard-replica", "")
        self.events: list[str] = []
        self.cut = False

    def event(self) -> str | None:
        """The next one; ``None`` at the end, regular or not."""
        try:
            while line := self._response.readline():
                if line.startswith(b"data: "):
                    self.events.append(line[6:].decode().strip())
                    return self.events[-1]
        except (http.client.HTTPException, OSError):
            self.cut = True
        else:
            self.cut = self.events[-1:] != ["[DONE]"]
        self._connection.close()
        return None

    def leave(self) -> None:
        """Hang up in the middle."""
        self._response.close()
        self._connection.close()

    def to_the_end(self) -> "Stream":
        while self.event() is not None:
            pass
        return self


def b_answers_until_a_is_back(front: Front, traffic: Traffic, fleet: str, a: ModelServer) -> None:
    """``a`` of the replicas a and b was stopped: that is seen, b takes all, and a its part once started."""
    front.until_health(fleet, "a", "down")
    since = time.monotonic()
    traffic.wait_for(20, since)
    assert traffic.replicas(since) == {"b"}
    a.start()
    front.until_health(fleet, "a", "ready")
    since = time.monotonic()
    until(lambda: "a" in traffic.replicas(since), "a answers again")
