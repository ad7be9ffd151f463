"""All of Switchyard as ``switchyard up`` starts it, before a fleet of replicas whose connections can be hurt.

The fleet ``echo`` is registered by the REST API. Its replicas are those of the fault bench
(:class:`tests.faults.bench.Replica`). :class:`tests.faults.load.Load` at :attr:`WholeStack.proxy_port` asks
it.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from controlplane.supervision import state_file
from controlplane.supervision.processes import started_on
from tests.faults.bench import REPLICAS, Replica
from tests.proxy_process import until
from tests.system.stack import START_LIMIT_S, Stack, command_line, is_running

FLEET = "echo"
READY_LIMIT_S = 60.0
ROLES = {
    "web": "web",
    "worker": "celery worker",
    "beat": "beat",
    "conductor": "conductor",
    "redis": "redis",
    "proxy": "proxy master",
}
"""Name of a program of ``up`` → role in :meth:`WholeStack.pids`."""


class WholeStack:
    """``stack`` is the running ``up``: its ports, its REST API and what it has said."""

    def __init__(self, folder: Path, *flags: str, workers: int = 2, replicas: int = REPLICAS) -> None:
        """``flags``: more flags of ``up``. ``workers``: of the proxy."""
        self.stack = Stack(folder, "--no-examples", "--workers", str(workers), *flags)
        self.replicas: list[Replica] = []
        try:
            self.replicas = [Replica(f"r{number}", folder) for number in range(replicas)]
        except BaseException:
            self.stop()
            raise

    def ready(self, policy: dict[str, Any] | None = None, **fleet: Any) -> "WholeStack":
        """Until each replica gets requests. ``policy`` and ``fleet``: fields of both, as the API has them."""
        self.stack.wait_until_up()
        for replica in self.replicas:
            replica.await_server()
        replicas = [{"name": replica.name, "url": replica.url} for replica in self.replicas]
        # Clients of the fault bench ask for paths that are no inference, too.
        body = {"name": FLEET, "protocol": "openai", "expose": "all", "replicas": replicas, **fleet}
        self.stack.api("POST", "/fleets", body)
        if policy:
            self.stack.api("PATCH", f"/fleets/{FLEET}/policy", policy)
        self.await_eligible()
        return self

    def await_eligible(self, limit_s: float = READY_LIMIT_S) -> None:
        """Until every worker of the proxy may pick every replica."""
        names = {replica.name for replica in self.replicas}
        until(lambda: self.eligible() == names, "all replicas get requests", limit_s)

    def eligible(self) -> set[str]:
        """Replicas that every worker of the proxy may pick; none while the proxy does not tell."""
        with suppress(OSError, KeyError, ValueError):
            return self.stack.eligible(FLEET)
        return set()

    @property
    def proxy_port(self) -> int:
        return self.stack.proxy_port

    def pids(self) -> dict[str, list[int]]:
        """Role → its processes, the oldest first: ``up``, those of :data:`ROLES`, and ``proxy worker``.

        After an upgrade there is more than one ``proxy master``: the former ones stay. Workers that leave,
        and those of a master that was killed, are among the workers.
        """
        state = state_file.read(self.stack.data)
        found = {"up": [self.stack.process.pid] if self.stack.process.poll() is None else []}
        found |= {role: [] for role in [*ROLES.values(), "proxy worker"]}
        for program in state.running():
            if program.name != "proxy":
                found[ROLES[program.name]].append(program.pid)
        for pid in sorted(started_on(self.stack.data)):
            command = f"{command_line(pid)} "
            for words, role in ("-m routing ", "proxy master"), ("-m routing.worker ", "proxy worker"):
                if words in command:
                    found[role].append(pid)
        return found

    def kill(self, role: str, number: int = signal.SIGKILL) -> list[int]:
        """Send a signal to the last process of the role; of the masters to the first, which the others
        follow. Returns the role's processes of before.
        """
        before = self.pids()[role]
        os.kill(before[0 if role == "proxy master" else -1], number)
        return before

    def await_another(self, role: str, before: list[int], limit_s: float = READY_LIMIT_S) -> None:
        """Until the role has a process that it did not have before."""
        until(lambda: set(self.pids()[role]) - set(before), f"another {role}", limit_s)

    def kill_up(self) -> None:
        """``up`` alone; what it has started runs on."""
        self.stack.process.kill()
        self.stack.process.wait()

    def start_up(self) -> None:
        """After :meth:`kill_up`, until everything is up again."""
        self.stack.start()
        until(
            lambda: "curl -s" in self.stack.said or self.stack.process.poll() is not None, "up", START_LIMIT_S
        )
        assert self.stack.process.poll() is None, self.stack.said

    def stop(self) -> None:
        """For the end of a test: whatever state it is in, nothing stays."""
        for pid in self.pids()["redis"]:
            with suppress(OSError):
                os.kill(pid, signal.SIGCONT)
        self.stack.stop()
        for pid in started_on(self.stack.data):
            if is_running(pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for replica in self.replicas:
            replica.stop()
