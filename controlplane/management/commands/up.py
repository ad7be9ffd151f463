"""``manage.py up``: starts all of Switchyard on this machine under one supervisor, until Ctrl-C."""

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from controlplane.management.base import SwitchyardCommand
from controlplane.supervision import example_fleets, preparation
from controlplane.supervision.banner import banner
from controlplane.supervision.errors import UpError
from controlplane.supervision.example_key import ExampleKey
from controlplane.supervision.options import UpOptions, add_arguments, from_parsed
from controlplane.supervision.programs import EXAMPLE_KEY
from controlplane.supervision.run_lock import only_one_on
from controlplane.supervision.stack import RunningStack, close_to_others
from controlplane.supervision.stop_signals import StopRequested, StopSignals, stop_signals


class Command(SwitchyardCommand):
    help = "Start everything on this machine: Redis, dashboard and API, probes, proxy, example fleets."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        add_arguments(parser)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.started = time.monotonic()

    def handle(self, *args: Any, **flags: Any) -> None:
        """Exit status 0 after an orderly stop, 1 after one sentence about what went wrong."""
        try:
            with stop_signals() as asked:
                self.run(from_parsed(flags), asked)
        except UpError as error:
            self.stderr.write(str(error))
            sys.exit(1)
        except StopRequested:
            self.say("stopped before anything was started")

    def run(self, options: UpOptions, asked: StopSignals) -> None:
        data = Path(settings.DATA_DIR)
        stack = RunningStack(options, data, settings.REDIS_URL, self.progress)
        close_to_others(data, self.progress)
        with only_one_on(data, is_up=True):
            stack.check()
            stack.take_over(asked.is_hasty)
            asked.pass_on = stack.send_to_proxy
            failed = True
            try:
                self.start(stack)
                failed = False
                stack.watch(*self.periodic_tasks(stack))
            except StopRequested:
                failed = False
                self.say("\nstopping …")
            finally:
                asked.begin_stop()
                self.stop(stack, asked, leave_adopted=failed)

    def start(self, stack: RunningStack) -> None:
        preparation.migrate()
        self.progress("database is up to date")
        if preparation.collect_static():
            self.progress("static files are collected")
        preparation.refuse_foreign_redis()
        administrator = preparation.ensure_administrator()
        stack.start()
        stack.wait_for_redis()
        self.register_examples(stack)
        stack.wait_until_ready()
        seconds = time.monotonic() - self.started
        self.say(banner(stack.options, stack.data, administrator, seconds))

    def register_examples(self, stack: RunningStack) -> None:
        options = stack.options
        if not options.examples:
            return
        if names := example_fleets.register(options):
            self.progress(f"registered the example fleets: {', '.join(names)}")
        example_fleets.forget_health(options, stack.adopted)
        if elsewhere := example_fleets.registered_elsewhere(options):
            flag = f"--examples-port {options.examples_port}"
            self.progress(f"registered at other addresses than {flag} gives: {', '.join(elsewhere)}")

    def periodic_tasks(self, stack: RunningStack) -> list[Callable[[], None]]:
        if not stack.options.client:
            return []
        return [ExampleKey(stack.data / EXAMPLE_KEY, self.progress).keep]

    def stop(self, stack: RunningStack, asked: StopSignals, leave_adopted: bool) -> None:
        started = time.monotonic()
        if not stack.stop(asked.is_hasty, leave_adopted):
            raise UpError("Some processes could not be ended.")
        self.say(f"stopped in {time.monotonic() - started:.1f} s")

    def progress(self, text: str) -> None:
        self.say(f"{time.monotonic() - self.started:6.1f} s  {text}")

    def say(self, text: str) -> None:
        """A terminal that was closed, or a full disk under a redirected output, is no reason to stop."""
        with suppress(OSError, ValueError):
            self.stdout.write(text)
            self.stdout.flush()
