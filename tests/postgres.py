"""A real PostgreSQL for tests: a server of its own in a folder of its own, on a Unix socket."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tests import keeper

INSTALL = "apt-get install postgresql"
ABSENT = f"There is no PostgreSQL here: {INSTALL} enables these tests"
SPEED = (
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "listen_addresses=",
    "max_connections=60",
)
UNPRIVILEGED = ("postgres", "nobody")


def binaries() -> Path | None:
    """The folder of the newest server that is installed (Debian's place), or of the one on PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda each: int(each.parts[4]))
    on_path = shutil.which("initdb")
    if found:
        return found[-1].parent
    return Path(on_path).resolve().parent if on_path else None


class PostgresServer:
    """``start`` makes an empty cluster and waits until it answers; ``stop`` leaves nothing behind.

    The server refuses to run as root: there it runs as another user, who owns its folder.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sy-pg-", dir="/tmp"))
        self.process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "switchyard") -> str:
        return f"postgresql://switchyard@/{database}?host={self.folder}"

    def start(self, limit_s: float = 30.0) -> None:
        programs = binaries()
        assert programs is not None, ABSENT
        options: dict[str, Any] = {}
        if os.getuid() == 0:
            user = _unprivileged()
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            options = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        data = self.folder / "data"
        make = [str(programs / "initdb"), "--pgdata", str(data), "--username=switchyard", "--auth=trust"]
        make += ["--no-sync", "--encoding=UTF8", "--locale=C"]
        subprocess.run(make, check=True, cwd=self.folder, stdout=subprocess.DEVNULL, **options)
        serve = [str(programs / "postgres"), "-D", str(data), "-k", str(self.folder)]
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [*serve, *(word for setting in SPEED for word in ("-c", setting))],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                preexec_fn=keeper.ends_with_its_parent(signal.SIGQUIT),  # an immediate stop
                **options,
            )
        self._wait(limit_s)

    def _wait(self, limit_s: float) -> None:
        import psycopg

        until = time.monotonic() + limit_s
        while True:
            try:
                psycopg.connect(self.url("postgres")).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)

    def create_database(self, name: str) -> str:
        """The URL of a new empty one."""
        import psycopg

        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(name)))
        return self.url(name)

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)  # "fast": cuts connections, then ends in order
            self.process.wait(20)
            self.process = None
        shutil.rmtree(self.folder, ignore_errors=True)


def _unprivileged() -> pwd.struct_passwd:
    known = {user.pw_name: user for user in pwd.getpwall()}
    return next(known[name] for name in UNPRIVILEGED if name in known)
