"""``manage.py ensure_admin``: makes the first administrator, once."""

import json
from argparse import ArgumentParser
from typing import Any

from controlplane.management.base import SwitchyardCommand
from controlplane.services import accounts


class Command(SwitchyardCommand):
    help = "Makes an administrator with a one-time password, when there is none yet, and prints it once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--name", default="admin", help="the administrator's name (default: admin)")
        parser.add_argument("--json", action="store_true", help='print {"name": …, "password": … or null}')

    def handle(self, *args: Any, **options: Any) -> None:
        password = accounts.ensure_administrator(options["name"], self.program)
        if options["json"]:
            self.stdout.write(
                json.dumps({"name": options["name"] if password else None, "password": password})
            )
        elif password is None:
            self.stdout.write("An administrator exists already.")
        else:
            self.stdout.write(f"Administrator: {options['name']}")
            self.stdout.write(f"One-time password: {password}")
            self.stdout.write("You will be asked for a new one at the first login.")
