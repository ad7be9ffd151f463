"""The stack of one run of ``up``: its processes, from the first check to the end of the last."""

import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

from controlplane.supervision import ports, processes, programs, startup_checks, supervisord
from controlplane.supervision.environment import OWN_REDIS
from controlplane.supervision.errors import UpError
from controlplane.supervision.options import UpOptions
from controlplane.supervision.restart_events import RestartEvents

RUNNING_LOCK = "up.lock"
STOP_S = 8.0
"""Time for an orderly stop; what is left then is killed."""


class StopRequested(BaseException):
    """A signal asked to stop."""


class RunningStack:
    """Everything that runs: ``start``, ``wait_until_ready``, ``watch``, and ``stop`` whatever happens."""

    def __init__(self, options: UpOptions, data: Path, redis_url: str, say: Callable[[str], None]) -> None:
        self.options = options
        self.data = data
        self.redis_url = redis_url
        self.say = say
        self.logs = data / "logs"
        self.supervisor: subprocess.Popen[bytes] | None = None
        self.restarts = RestartEvents(self.logs / "supervisor.log")

    def check(self) -> None:
        """Raise :class:`UpError` for whatever would make the start fail half-way."""
        if self.options.is_public and not os.environ.get("SWITCHYARD_ALLOWED_HOSTS"):
            raise UpError(
                f"--host {self.options.host} opens the dashboard to other machines: "
                "set SWITCHYARD_ALLOWED_HOSTS to the names it will be reached by."
            )
        ports.refuse_taken(programs.ports(self.options))

    def start(self) -> None:
        """Start the supervisor with all programs; returns at once."""
        processes.adopt_orphans()
        self.make_folders()
        self.restarts.skip_to_end()
        running = programs.programs(self.options, self.data, self.redis_url)
        configuration = self.data / "supervisord.conf"
        supervisord.write_configuration(configuration, running, self.logs)
        self.supervisor = supervisord.start(configuration, self.logs)

    def make_folders(self) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)
        if socket := self.own_redis_socket:
            # The proxy's copy of the table is for times without Redis. This Redis will be up in a moment,
            # and the copy would have the proxy trust replicas of the last run that are not loaded yet.
            shutil.rmtree(self.data / "proxy", ignore_errors=True)
            socket.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.data / "proxy").mkdir(exist_ok=True)

    @property
    def own_redis_socket(self) -> Path | None:
        return Path(urlsplit(self.redis_url).path) if os.environ.get(OWN_REDIS) else None

    def wait_for_redis(self) -> None:
        """Before anything is written: what is written is published at once."""
        if socket := self.own_redis_socket:
            startup_checks.wait_for([startup_checks.redis(str(socket))], self.check_alive, self.say)
        elif problem := startup_checks.named_redis_problem(self.redis_url):
            self.say(problem)

    def wait_until_ready(self) -> None:
        startup_checks.wait_for(startup_checks.steps(self.options), self.check_alive, self.say)

    def check_alive(self) -> None:
        if self.supervisor is None or self.supervisor.poll() is not None:
            raise UpError(f"The supervisor ended unexpectedly; see {self.logs}/supervisor.log.")

    def watch(self, *periodic_tasks: Callable[[], None]) -> None:
        """Return never: tell about restarts until a signal or the supervisor's death ends it.

        Twice a second the periodic tasks are done, which raise nothing.
        """
        while True:
            self.check_alive()
            assert self.supervisor is not None
            processes.reap(keep=self.supervisor.pid)
            for line in self.restarts.read():
                self.say(line)
            for task in periodic_tasks:
                task()
            time.sleep(0.5)

    def stop(self) -> bool:
        """End everything within 10 s; whether nothing is left."""
        if self.supervisor is None:
            return True
        if self.supervisor.poll() is None:
            self.supervisor.send_signal(signal.SIGTERM)
            try:
                self.supervisor.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.say("some processes are slow to stop; they are killed now")
        left = processes.end_descendants(grace_s=0.5)
        self.remove_socket()
        return not left

    def remove_socket(self) -> None:
        """Take away our Redis's socket, and its folder where that one lies outside the data folder."""
        if socket := self.own_redis_socket:
            socket.unlink(missing_ok=True)
            if not socket.is_relative_to(self.data):
                with suppress(OSError):
                    socket.parent.rmdir()


@contextmanager
def only_one_on(data: Path) -> Iterator[None]:
    """Hold the data folder for this run; raises :class:`UpError` while another run holds it."""
    with (data / RUNNING_LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UpError(
                f"Switchyard is already running on {data}: "
                "stop it first, or use another folder with --data-dir."
            ) from None
        yield


@contextmanager
def stop_signals() -> Iterator[None]:
    """Inside, the first SIGINT, SIGTERM or SIGHUP raises StopRequested once; later ones are ignored."""

    def request(number: int, _: FrameType | None) -> None:
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        raise StopRequested(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, request)
    yield
