"""``manage.py dump``: the fleet file that describes all that is there."""

from argparse import ArgumentParser
from typing import Any

from controlplane.management.base import SwitchyardCommand
from controlplane.services import fleet_files
from routing.contract.fleet_file import dump


class Command(SwitchyardCommand):
    help = "Prints a fleet file that describes every fleet, replica, hardware class and accelerator."

    def add_arguments(self, parser: ArgumentParser) -> None:
        return

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(dump(fleet_files.read()), ending="")
