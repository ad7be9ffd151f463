"""The supervisor: supervisord with a configuration made for this start, and no control socket.

It restarts what dies, keeps a rotated log file for each program, and stops group after group.
"""

import os
import resource
import shlex
import subprocess
import sys
from pathlib import Path

from controlplane.supervision import parent_death_signal
from controlplane.supervision.environment import PROJECT
from controlplane.supervision.programs import Group, Program

LOG_BYTES = 5_000_000
OLD_LOGS = 2
WANTED_FILES = 65_536
"""Open files (connections) that the proxy may have where the system allows as many."""


def write_configuration(file: Path, programs: list[Program], logs: Path) -> None:
    """Write supervisord's configuration for these programs; their logs go to ``logs``."""
    lines = [head(file, logs)]
    lines += [program_section(program, logs) for program in programs]
    for group in Group:
        names = ",".join(program.name for program in programs if program.group is group)
        if names:
            lines.append(f"[group:{group.name.lower()}]\nprograms={names}\npriority={group.value}\n")
    file.write_text("\n".join(lines))


def head(file: Path, logs: Path) -> str:
    return f"""[supervisord]
nodaemon=true
silent=true
logfile={escaped(logs / "supervisor.log")}
logfile_maxbytes={LOG_BYTES}
logfile_backups={OLD_LOGS}
pidfile={escaped(file.with_suffix(".pid"))}
minfds={open_files()}
"""


def program_section(program: Program, logs: Path) -> str:
    shim = [sys.executable, "-S", "-E", parent_death_signal.__file__, str(program.nice)]
    environment = ""
    if program.metrics_port is not None:
        environment = f'environment=SWITCHYARD_METRICS_LISTEN="127.0.0.1:{program.metrics_port}"\n'
    return f"""[program:{program.name}]
command={escaped(shlex.join([*shim, *program.command]))}
directory={escaped(PROJECT)}
autorestart=true
startsecs=1
startretries=1000
stopsignal=TERM
stopwaitsecs={program.stop_s}
killasgroup=true
redirect_stderr=true
stdout_logfile={escaped(logs / f"{program.name}.log")}
stdout_logfile_maxbytes={LOG_BYTES}
stdout_logfile_backups={OLD_LOGS}
{environment}"""


def escaped(value: object) -> str:
    """supervisord expands ``%(name)s`` in every value."""
    return str(value).replace("%", "%%")


def open_files() -> int:
    """As many as this user may have, up to WANTED_FILES."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, WANTED_FILES)


def start(configuration: Path, logs: Path) -> "subprocess.Popen[bytes]":
    """Start it in a session of its own, so that Ctrl-C reaches ``up`` alone, which stops it in order."""
    command = [sys.executable, "-S", "-E", parent_death_signal.__file__, "0"]
    command += [sys.executable, "-m", "supervisor.supervisord", "-c", str(configuration)]
    environment = {**os.environ, parent_death_signal.PARENT: str(os.getpid()), "PYTHONPATH": str(PROJECT)}
    with (logs / "supervisor.out").open("wb") as output:
        return subprocess.Popen(
            command,
            cwd=PROJECT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
