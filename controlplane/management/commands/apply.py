"""``switchyard apply FILE``: makes the fleets be as a fleet file says."""

import sys
from argparse import ArgumentParser
from functools import partial
from typing import Any

from django.core.management.base import CommandError

from controlplane.management.base import SwitchyardCommand
from controlplane.management.confirmation import confirmed
from controlplane.probes import settings_trial
from controlplane.services import fleet_files
from controlplane.services.confirmation import NeedsConfirmation
from controlplane.services.errors import ServiceError
from controlplane.services.validation import STRATEGIES
from routing.contract import input_file
from routing.contract.fleet_file import FleetFile, FleetFileError, loadb
from routing.contract.fleet_file.parser import MAX_BYTES
from routing.contract.input_file import STANDARD_INPUT

QUESTION = "Apply?"


class Command(SwitchyardCommand):
    help = (
        "Applies a fleet file and prints what changed. Applying it again changes nothing. A fleet's replicas "
        "are afterwards those that the file lists, and settings that it leaves out go back to their defaults."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="a fleet file (docs/fleet-file.md); - reads standard input")
        parser.add_argument(
            "--prune",
            action="store_true",
            help="also remove fleets, hardware classes and accelerators that it does not name",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="only print what would change; nothing is written"
        )
        parser.add_argument(
            "--confirm",
            action="store_true",
            help="also if all or most of what serves goes at once, or a fleet comes to expose another's "
            "server; asked at a terminal otherwise",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        source = "standard input" if options["file"] == STANDARD_INPUT else options["file"]
        try:
            file = self.read(options["file"], source, options["prune"])
            asks = options["file"] != STANDARD_INPUT and sys.stdin.isatty()
            lines = self.apply(file, options, asks=asks)
        except OSError as error:
            raise CommandError(f"{source}: {error.strerror}") from error
        except FleetFileError as error:
            raise CommandError(str(error)) from error
        except NeedsConfirmation as drop:
            words = f"{drop.detail} Nothing was changed. If that is meant: --confirm"
            raise CommandError(f"{source}: {words}") from drop
        except ServiceError as error:  # somebody else wrote since the file was checked
            places = [field.words for field in error.errors] or [error.detail]
            raise CommandError("\n".join(f"{source}: {place}" for place in places)) from error
        for line in lines:
            self.stdout.write(line)
        if not lines:
            self.stdout.write("Nothing to change.")
        elif options["dry_run"]:
            self.stdout.write("Nothing was written: this was a dry run.")

    def apply(self, file: FleetFile, options: dict[str, Any], *, asks: bool) -> list[str]:
        """What changed. ``asks``: at the terminal, for exactly what is shown. Raises ServiceError."""
        lockouts = []
        if options["dry_run"]:
            lockouts = self.lockout(file)
        elif not options["confirm"]:
            trial = partial(settings_trial.refuse_lockout_by_file, file)
            confirmed(trial, QUESTION, self.stdout.write, asks=asks)
        write = partial(
            fleet_files.apply,
            file,
            actor=self.actor,
            prune=options["prune"],
            dry_run=options["dry_run"],
            confirm_all=options["confirm"],
        )
        return confirmed(write, QUESTION, self.stdout.write, asks=asks) + lockouts

    def lockout(self, file: FleetFile) -> list[str]:
        try:
            settings_trial.refuse_lockout_by_file(file)
        except NeedsConfirmation as drop:
            return [f"to be confirmed: {drop.detail}"]
        return []

    def read(self, file: str, source: str, prune: bool) -> FleetFile:
        """Raises OSError, and FleetFileError with all that is wrong in it and with what exists beside it."""
        if file == STANDARD_INPUT:
            if sys.stdin.isatty():
                self.stderr.write("Reading the fleet file from the terminal; Ctrl-D ends it.")
            data = input_file.read_standard_input(MAX_BYTES)
        else:
            data = input_file.read_once(file, MAX_BYTES)
        return loadb(data, source, strategies=STRATEGIES, existing=fleet_files.elsewhere(prune=prune))
