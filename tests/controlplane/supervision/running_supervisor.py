"""A supervisor as a process: ``python -m tests.controlplane.supervision.running_supervisor FOLDER``.

It runs what ``programs.json`` in the folder lists, and ends as ``up`` does, by SIGTERM or Ctrl-C.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from controlplane.supervision.liveness_checks import CheckLimits
from controlplane.supervision.programs import Group, Program
from controlplane.supervision.stop_signals import StopRequested, stop_signals
from controlplane.supervision.supervisor import Supervisor


def say(line: str) -> None:
    print(line, flush=True)


def program(group: str, redis_socket: str = "", **more: Any) -> Program:
    """One of the list: what JSON does not know is told by its name."""
    return Program(group=Group[group], redis_socket=Path(redis_socket) if redis_socket else None, **more)


def main() -> None:
    folder = Path(sys.argv[1])
    limits = CheckLimits(every_s=0.1, silent=2, starting=100)
    listed = json.loads((folder / "programs.json").read_text())
    programs = [program(**one) for one in listed]
    with stop_signals() as asked:
        supervisor = Supervisor(programs, folder, folder, limits)
        try:
            supervisor.take_over(asked.is_hasty, say)
            asked.pass_on = lambda number: supervisor.send("passed", number)
            supervisor.start()
            say("started")
            while True:
                while supervisor.news:
                    say(supervisor.news.popleft())
                time.sleep(0.02)
        except StopRequested:
            say("stopping")
        finally:
            asked.begin_stop()
            say(f"left: {supervisor.stop(asked.is_hasty, say)}")


if __name__ == "__main__":
    main()
