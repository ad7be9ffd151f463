"""``manage.py restore FILE``: the database as a backup holds it, in an epoch that proxies accept."""

import sys
from argparse import ArgumentParser
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from controlplane.backups.backup_file import BackupError
from controlplane.backups.restore import Restored, check, restore
from controlplane.management.base import SwitchyardCommand
from controlplane.management.confirmation import confirmed
from controlplane.services.confirmation import NeedsConfirmation


class Command(SwitchyardCommand):
    requires_system_checks: list[str] = []  # the database may be as empty as on the first day
    help = (
        "Loads a backup into an empty database; --replace empties it first. Proxies take its table when the "
        "conductor runs on that database."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="what manage.py backup wrote")
        parser.add_argument(
            "--replace",
            action="store_true",
            help="first delete everything that the database holds; this cannot be undone",
        )
        parser.add_argument(
            "--confirm",
            action="store_true",
            help="also if the backup lacks all or most of what serves now; asked at a terminal otherwise",
        )
        parser.add_argument("--check", action="store_true", help="only read the file; nothing is written")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["check"]:
            self.check_file(options["file"])
            return
        try:
            done = self.restore(options, asks=sys.stdin.isatty())
        except BackupError as error:
            raise CommandError(str(error)) from error
        except NeedsConfirmation as drop:
            words = f"{options['file']} does not hold most of what serves now. {drop.detail}"
            raise CommandError(f"{words} Nothing was changed. If that is meant: --confirm") from drop
        self.stdout.write(f"Restored {done.rows} rows of {done.head.made_at[:19]} UTC as epoch {done.epoch}.")
        if not done.same_key:
            self.stdout.write(
                "The backup was made under another secret key: its API tokens are not known here. Set "
                "SWITCHYARD_SECRET_KEY to the old one, or make new tokens. Client keys and passwords work."
            )
        self.stdout.write(
            "Proxies take its table from the conductor that runs on this database, within a second."
        )

    def restore(self, options: dict[str, Any], *, asks: bool) -> Restored:
        """``asks``: at the terminal, for exactly the loss shown. Raises BackupError, NeedsConfirmation."""
        load = partial(
            restore,
            options["file"],
            replace=options["replace"],
            actor=self.actor,
            confirm_all=options["confirm"],
        )
        return confirmed(load, "Restore?", self.stdout.write, asks=asks)

    def check_file(self, file: Path) -> None:
        try:
            head, rows = check(file)
        except BackupError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"{file} is whole: {rows} rows of {head.made_at[:19]} UTC, from {head.database}. "
            "This version can restore it."
        )
