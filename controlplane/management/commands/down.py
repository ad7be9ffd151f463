"""``manage.py down``: stops what ``up`` has started on a data folder, and what a killed one has left."""

import signal
import sys
import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from controlplane.management.base import SwitchyardCommand
from controlplane.supervision import processes, run_lock, state_file
from controlplane.supervision.environment import socket_path
from controlplane.supervision.errors import UpError
from controlplane.supervision.run_lock import only_one_on
from controlplane.supervision.running_process import Found
from controlplane.supervision.stack import remove_socket
from controlplane.supervision.stop_signals import StopSignals, stop_signals
from controlplane.supervision.stopping import Stoppable, stop_in_order, strays

GRACE_S = 0.5
POLL_EVERY_S = 0.1


class Command(SwitchyardCommand):
    help = (
        "Stop everything that `up` has started on a data folder, and what a killed one has left. The proxy "
        "finishes its requests first."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--data-dir", help="data folder (var/, or SWITCHYARD_DATA_DIR)")
        parser.add_argument("--now", action="store_true", help="cut what is not finished after 5 s")

    def handle(self, *args: Any, **options: Any) -> None:
        """Exit status 0 when nothing runs any more, 1 after one sentence about what does."""
        data = Path(settings.DATA_DIR)
        with stop_signals() as asked:
            asked.begin_stop()
            if options["now"]:
                asked.on_stop(signal.SIGINT, None)
            try:
                self.stdout.write(self.stopped(data, asked))
            except UpError as error:
                self.stderr.write(str(error))
                sys.exit(1)

    def stopped(self, data: Path, asked: StopSignals) -> str:
        """What was done, in words."""
        started = time.monotonic()
        up = run_lock.holder(data) or state_file.read(data).up
        ran = up.end() is None
        if ran:
            self.end_up(up, asked)
        with only_one_on(data):
            left = [
                Stoppable(one.name, one.process, one.group, one.stop_s)
                for one in state_file.read(data).running()
            ]
            left += strays(data, [one.process.pid for one in left])
            stop_in_order(left, asked.is_hasty, self.stdout.write)
            if pids := processes.end_left(data, GRACE_S):
                raise UpError(f"These processes could not be ended: {', '.join(map(str, pids))}.")
            state_file.remove(data)
            remove_socket(socket_path(data), data)
        if not (ran or left):
            return f"Nothing of Switchyard runs on {data}."
        return f"stopped in {time.monotonic() - started:.1f} s"

    def end_up(self, up: Found, asked: StopSignals) -> None:
        """Have a running ``up`` stop everything, as by its own signals."""
        hasty = False
        up.send(signal.SIGTERM)
        while up.end() is None:
            if asked.is_hasty() and not hasty:
                hasty = True
                up.send(signal.SIGINT)
            time.sleep(POLL_EVERY_S)
