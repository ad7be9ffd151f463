"""``manage.py apply FILE``: makes the fleets be as a fleet file says."""

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.models import HardwareClass
from controlplane.services import fleet_files
from controlplane.services.checking import STRATEGIES
from controlplane.services.errors import ServiceError
from routing.contract.fleet_file import FleetFileError, load


class Command(BaseCommand):
    help = "Applies a fleet file and prints what changed. Applying it again changes nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="a fleet file (docs/fleet-file.md)")
        parser.add_argument(
            "--prune",
            action="store_true",
            help="also remove fleets and hardware classes that it does not name",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        actor = os.environ.get("USER") or "manage.py apply"
        hardware = set(HardwareClass.objects.values_list("name", flat=True))
        try:
            file = load(options["file"], strategies=STRATEGIES, hardware=hardware)
            lines = fleet_files.apply(file, actor=actor, prune=options["prune"])
        except OSError as error:
            raise CommandError(f"{options['file']}: {error.strerror}") from error
        except FleetFileError as error:
            raise CommandError(str(error)) from error
        except ServiceError as error:
            places = [field.words for field in error.errors] or [error.detail]
            raise CommandError("\n".join(f"{options['file']}: {place}" for place in places)) from error
        for line in lines:
            self.stdout.write(line)
        if not lines:
            self.stdout.write("Nothing to change.")
