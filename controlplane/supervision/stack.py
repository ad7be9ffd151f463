"""The stack of one run of ``up``: its processes, from the first check to the end of the last."""

import os
import resource
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from controlplane.config import private_folder
from controlplane.supervision import ports, processes, programs, proxy_state, startup_checks
from controlplane.supervision.environment import OWN_REDIS
from controlplane.supervision.errors import UpError
from controlplane.supervision.options import UpOptions
from controlplane.supervision.supervisor import Supervisor

DATA_NAMES = ("db.sqlite3*", "secret_key", "*.key", "up.*", "logs", "models", "proxy", "redis", "static")
"""What Switchyard keeps in a data folder; nothing else there is touched."""
WANTED_FILES = 65_536
"""Open files (connections) that the proxy may have where the system allows as many."""


class RunningStack:
    """Everything that runs: ``check``, ``take_over``, ``start``, ``wait_until_ready``, ``watch``, and then
    ``stop``, whatever happens."""

    def __init__(self, options: UpOptions, data: Path, redis_url: str, say: Callable[[str], None]) -> None:
        self.options = options
        self.data = data
        self.redis_url = redis_url
        self.say = say
        self.logs = data / "logs"
        self.supervisor: Supervisor | None = None

    def check(self) -> None:
        """Raise :class:`UpError` for whatever would make the start fail half-way."""
        if self.options.is_public and not os.environ.get("SWITCHYARD_ALLOWED_HOSTS"):
            raise UpError(
                f"--host {self.options.host} opens the dashboard to other machines: "
                "set SWITCHYARD_ALLOWED_HOSTS to the names it will be reached by."
            )

    def take_over(self, is_hasty: Callable[[], bool]) -> None:
        """Adopt what a killed ``up`` has left. Raises :class:`UpError` for a port that is not free."""
        wanted = programs.programs(self.options, self.data, self.redis_url)
        self.supervisor = Supervisor(wanted, self.data, self.logs)
        self.supervisor.take_over(is_hasty, self.say)
        try:
            ports.refuse_taken(programs.ports(self.options), self._have_their_ports())
        except UpError as error:
            # What was adopted goes on, for a start that finds its ports.
            self.supervisor = None
            if not processes.started_on(self.data):
                raise
            left = "A killed start has left processes on this data folder: `switchyard down` stops them."
            raise UpError(f"{error} {left}") from None

    def _have_their_ports(self) -> set[str]:
        """Workers of a killed proxy serve on: the proxy that is started takes their port over."""
        return self.adopted | ({"proxy"} if processes.started_on(self.data) else set())

    @property
    def adopted(self) -> set[str]:
        """Names of the programs that an earlier start has left."""
        return set() if self.supervisor is None else self.supervisor.adopted

    def start(self) -> None:
        """Start all programs that do not run yet; returns at once."""
        assert self.supervisor is not None
        self.make_folders()
        raise_file_limit()
        self.supervisor.start()

    def make_folders(self) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)
        if socket := self.own_redis_socket:
            if "proxy" not in self.adopted and (notice := proxy_state.prepare(self.data / "proxy")):
                self.say(notice)
            make_private(socket.parent)
        (self.data / "proxy").mkdir(exist_ok=True)

    @property
    def own_redis_socket(self) -> Path | None:
        return Path(urlsplit(self.redis_url).path) if os.environ.get(OWN_REDIS) else None

    def wait_for_redis(self) -> None:
        """Before anything is written: what is written is published at once."""
        if socket := self.own_redis_socket:
            startup_checks.wait_for([startup_checks.redis(str(socket))], self.tell, self.say)
        elif problem := startup_checks.named_redis_problem(self.redis_url):
            self.say(problem)

    def wait_until_ready(self) -> None:
        startup_checks.wait_for(startup_checks.steps(self.options), self.tell, self.say)

    def tell(self) -> None:
        """Say what the supervisor has to tell."""
        while self.supervisor is not None and self.supervisor.news:
            self.say(self.supervisor.news.popleft())

    def send_to_proxy(self, number: int) -> None:
        """A signal for the proxy: a rolling restart or a live upgrade."""
        if self.supervisor is not None:
            self.supervisor.send("proxy", number)

    def watch(self, *periodic_tasks: Callable[[], None]) -> None:
        """Return never: tell about restarts until a signal ends it.

        Twice a second the periodic tasks are done, which raise nothing.
        """
        while True:
            self.tell()
            for task in periodic_tasks:
                task()
            time.sleep(0.5)

    def stop(self, is_hasty: Callable[[], bool], leave_adopted: bool = False) -> bool:
        """End everything, the proxy once its requests are done; whether nothing is left.

        ``leave_adopted``: the start has failed, and what an earlier one has left is to go on.
        """
        if self.supervisor is None:
            return True
        spare = frozenset(self.adopted if leave_adopted else ())
        left = self.supervisor.stop(is_hasty, self.say, spare)
        self.tell()
        if not spare:
            remove_socket(self.own_redis_socket, self.data)
        return not left


def raise_file_limit() -> None:
    """Of open files (``ulimit -n``), for this process and those that it starts: as many as this user may
    have, up to WANTED_FILES."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, WANTED_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def make_private(folder: Path) -> None:
    """Raises :class:`UpError` where somebody else can reach the folder of a socket."""
    try:
        private_folder.make(folder)
    except private_folder.NotPrivate as error:
        raise UpError(str(error)) from None


def close_to_others(data: Path, say: Callable[[str], None]) -> None:
    """From now on what this process and its children make is for this user alone, and so is what is there."""
    os.umask(private_folder.UMASK)
    if opened := private_folder.close(data, DATA_NAMES):
        say(f"closed to other users of this machine: {len(opened)} files and folders in {data}")


def remove_socket(socket: Path | None, data: Path) -> None:
    """Take away our Redis's socket, and its folder where that one lies outside the data folder."""
    if socket is None:
        return
    with suppress(OSError):
        socket.unlink(missing_ok=True)
    if not socket.is_relative_to(data):
        with suppress(OSError):
            socket.parent.rmdir()
