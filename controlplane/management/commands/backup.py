"""``manage.py backup FILE``: all that the database holds, as of one moment, while everything runs."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from controlplane.backups.backup import save
from controlplane.backups.backup_file import BackupError
from controlplane.management.base import SwitchyardCommand


class Command(SwitchyardCommand):
    help = (
        "Writes the database into one file that SQLite and PostgreSQL can both restore, while everything "
        "runs. Sessions are left out. The secret key is not in it: keep that apart."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "file", type=Path, help="where to; an existing file is replaced when it is complete"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        file: Path = options["file"]
        try:
            rows = save(file)
        except BackupError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{file}: {rows} rows, {file.stat().st_size} bytes. Keep the secret key too.")
