"""State file (``up.json`` in the data folder): which processes ``up`` has started, so that they can be found.

A process id alone is no proof, because it may be another's by now: with it is when the process was started.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

import msgspec

from controlplane.supervision.running_process import Found

NAME = "up.json"


class StartedProgram(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    pid: int
    started: str
    """See :func:`controlplane.supervision.processes.started_at`."""
    command: list[str]
    settings: str
    """Digest of the settings that it was started with."""
    group: int
    stop_s: float

    @property
    def process(self) -> Found:
        return Found(self.pid, self.started)


class SupervisorState(msgspec.Struct, frozen=True, kw_only=True):
    up_pid: int = 0
    up_started: str = ""
    programs: list[StartedProgram] = []

    @property
    def up(self) -> Found:
        """The ``up`` that has written this."""
        return Found(self.up_pid, self.up_started)

    def running(self) -> list[StartedProgram]:
        return [one for one in self.programs if one.process.end() is None]


def read(data: Path) -> SupervisorState:
    """What was written last; empty where there is nothing that can be read."""
    try:
        return msgspec.json.decode((data / NAME).read_bytes(), type=SupervisorState)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return SupervisorState()


def write(data: Path, state: SupervisorState) -> None:
    """Replace the file as a whole. Raises OSError."""
    aside = data / f".{NAME}.new"
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(state))
        aside.replace(data / NAME)
    finally:
        aside.unlink(missing_ok=True)


def remove(data: Path) -> None:
    """Nothing runs any more. What cannot be removed (a folder of that name) is no reason to fail."""
    with suppress(OSError):
        (data / NAME).unlink(missing_ok=True)


def settings_digest() -> str:
    """Of the settings in the environment: a program that was started with others is not the same."""
    named = sorted((name, value) for name, value in os.environ.items() if name.startswith("SWITCHYARD_"))
    return hashlib.sha256(repr(named).encode()).hexdigest()[:16]
