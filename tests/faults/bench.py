"""The fault bench: a real proxy with a real Redis before real model servers, each behind a chaos proxy.

What each test does with it is the same: clients send requests, a fault comes and goes, and every failure that
a client saw is listed with its cause (:func:`listed`).
"""

import asyncio
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

from routing.contract.policy import Policy
from tests.faults.load import Result
from tests.faults.spans import BEFORE, latencies
from tests.ports import free_port, free_ports
from tests.proxy_process import ROOT, Proxy, Publisher, snapshot
from tests.system.stack import command_line, exchange

REPLICAS = 4
SETTLE_S = 20.0


class ChaosProxy:
    """A process of :mod:`tests.faults.chaos_proxy`. ``server``: its port or Unix socket."""

    def __init__(self, name: str, port: int, server: int | Path) -> None:
        self._name = name
        command = (sys.executable, "-m", "tests.faults.chaos_proxy", str(port), str(server))
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._acknowledged("pass")

    def _acknowledged(self, mode: str) -> None:
        assert self._process.stdout is not None
        said = self._process.stdout.readline().strip()
        assert said == mode, f"the chaos proxy of {self._name} said {said!r}"

    def mode(self, mode: str) -> None:
        """From now on."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{mode}\n")
        self._process.stdin.flush()
        self._acknowledged(mode)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


class Replica:
    """A model server and the chaos proxy before it, one process each. The fleet has the chaos proxy's URL."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.port, self.server_port = free_ports(2)
        self.url = f"http://127.0.0.1:{self.port}"
        self.executed = folder / f"{name}.executed"
        self.executed.touch()
        self.server = self._start_server()
        self._chaos = ChaosProxy(name, self.port, self.server_port)

    def _start_server(self) -> "subprocess.Popen[bytes]":
        arguments = (str(self.server_port), str(self.executed))
        return subprocess.Popen((sys.executable, "-m", "tests.faults.model_server", *arguments), cwd=ROOT)

    def mode(self, mode: str) -> None:
        """From now on (:mod:`tests.faults.chaos_proxy`)."""
        self._chaos.mode(mode)

    def kill(self) -> None:
        """As ``kill -9``: the server ends, and its port is closed."""
        self.server.kill()
        self.server.wait()
        self.mode("refuse")

    def restart(self) -> None:
        """After :meth:`kill`."""
        self.server = self._start_server()
        self.await_server()
        self.mode("pass")

    def await_server(self) -> None:
        """Until the server listens."""
        end = time.monotonic() + SETTLE_S
        while not listens(self.server_port):
            assert time.monotonic() < end, f"{self.name} does not listen"
            time.sleep(0.02)

    def signal(self, number: int) -> None:
        self.server.send_signal(number)

    def stop(self) -> None:
        with suppress(OSError):
            self.server.send_signal(signal.SIGCONT)
        self.server.kill()
        self.server.wait()
        self._chaos.stop()


class Bench:
    """One fleet named ``echo``. ``state``: the proxy's state directory."""

    def __init__(
        self,
        folder: Path,
        publisher: Publisher,
        redis_url: str,
        policy: Policy,
        workers: int = 1,
        state: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.replicas = [Replica(f"r{number}", folder) for number in range(REPLICAS)]
        self._folder, self._publisher, self._policy = folder, publisher, policy
        self._flags = ("--redis", redis_url, "--workers", str(workers))
        self._flags += ("--state-dir", str(state or folder / "state"))
        self._listen = f"127.0.0.1:{free_port()}"
        self._environment = environment
        self._proxies: list[Proxy] = []
        self.version = 0
        self.publish()
        self.start_proxy()

    def publish(self) -> None:
        """A new version of the table, with nothing else changed."""
        self.version += 1
        fields = {"protocol": "openai", "policy": self._policy}
        self._publisher.manifest(self.version, fleets={"echo": self.version})
        self._publisher.fleet(snapshot(self.version, self.replicas, **fields))  # type: ignore[arg-type]

    @property
    def proxy(self) -> Proxy:
        """The one that was started last."""
        return self._proxies[-1]

    def start_proxy(self) -> None:
        """Also again, after its master was killed: on the same port, with the same flags."""
        started = Proxy(self._folder, *self._flags, listen=self._listen, environment=self._environment)
        self._proxies.append(started)

    def ready(self) -> "Bench":
        self.proxy.ready()
        for replica in self.replicas:
            replica.await_server()
        return self

    def workers(self) -> list[int]:
        """Process ids of the workers that serve; none while the admin listener changes hands."""
        with suppress(OSError, HTTPException):
            return self.proxy.workers()
        return []

    def masters(self) -> list[int]:
        """Process ids of the masters of the proxy that was started last: after an upgrade there are more."""
        return [pid for pid in self.proxy.processes() if "-m routing " in command_line(pid)]

    def stop(self) -> None:
        for proxy in self._proxies:
            proxy.stop()
        for replica in self.replicas:
            replica.stop()

    def executed(self) -> Counter[str]:
        """How often each request was executed, on all servers together."""
        return Counter(line for one in self.replicas for line in one.executed.read_text().split())

    async def reasons(self, replica: Replica) -> str:
        """Why the replica gets no requests, in the proxy's words; empty: it does."""
        rows: dict[str, dict[str, Any]] = await asyncio.to_thread(self.proxy.replicas, "echo")
        row = rows[replica.name]
        return "" if row["eligible"] else "; ".join(row["reasons"])

    async def until_said(self, words: str, replica: Replica, limit_s: float) -> float:
        """Seconds until the proxy says this of the replica, whether that gets requests or not."""
        began = time.monotonic()
        while time.monotonic() - began < limit_s:
            rows: dict[str, dict[str, Any]] = await asyncio.to_thread(self.proxy.replicas, "echo")
            if any(words in reason for reason in rows[replica.name]["reasons"]):
                return time.monotonic() - began
            await asyncio.sleep(0.05)
        raise AssertionError(f"{replica.name} after {limit_s:g} s: {rows[replica.name]['reasons']}")

    async def until(self, condition: Callable[[str], bool], replica: Replica, limit_s: float) -> float:
        """Seconds until what the proxy says of the replica fulfils this; fails after the limit."""
        began, said = time.monotonic(), ""
        while time.monotonic() - began < limit_s:
            said = await self.reasons(replica)
            if condition(said):
                return time.monotonic() - began
            await asyncio.sleep(0.05)
        raise AssertionError(f"{replica.name} after {limit_s:g} s: {said or 'it gets requests'}")


def settled(admin_port: int) -> list[int]:
    """Process ids of a proxy's workers; none while a restart or an upgrade is under way, an old worker has
    something to finish, or the admin listener changes hands."""
    with suppress(OSError, HTTPException, ValueError):
        status = exchange(admin_port, "GET", "/status").json
        under_way = status["rolling_restart"]["under_way"] or status["upgrade"]["under_way"]
        serving = all(row["serving"] for row in status["workers"])
        if serving and not under_way and not status["leaving_workers"]:
            return [row["pid"] for row in status["workers"]]
    return []


def listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def failures(results: Iterable[Result]) -> list[Result]:
    return [result for result in results if not result.ok]


def unexcused(results: Iterable[Result]) -> list[Result]:
    """Failures that must not be: of requests that may be sent twice, where no response had begun."""
    return [result for result in failures(results) if result.kind != "unsafe" and not result.begun]


def listed(results: list[Result], faults: list[tuple[float, str]]) -> str:
    """Every failure that a client saw, with its cause and the fault during which it came, counted; and what
    requests took meanwhile. ``faults``: since when, and what."""
    lines: Counter[str] = Counter()
    for result in failures(results):
        fault = next((name for since, name in reversed(faults) if result.ended >= since), BEFORE)
        begun = ", begun" if result.begun else ""
        lines[f"{fault}: {result.kind}{begun}: {result.cause or f'status {result.status}, cut'}"] += 1
    told = [f"{count:5} {line}" for line, count in sorted(lines.items())]
    told += latencies(results, faults)
    return "\n".join([f"{len(results)} requests, {sum(lines.values())} failed", *told])


def executed_twice(bench: Bench, results: Iterable[Result]) -> list[str]:
    """Requests that may not be sent twice and were."""
    executed = bench.executed()
    return [one.id for one in results if one.kind == "unsafe" and executed[one.id] > 1]
