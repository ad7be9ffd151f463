"""``manage.py createaccount NAME``: an account with read-only access, or with write access."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from controlplane.management.base import SwitchyardCommand
from controlplane.services import accounts
from controlplane.services.errors import ServiceError


class Command(SwitchyardCommand):
    help = "Makes an account with a one-time password and prints it once. It has read-only access."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="what its owner signs in with")
        parser.add_argument(
            "--may-change",
            action="store_true",
            help="give it write access: fleets, policies, client keys",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            password = accounts.create(options["name"], self.program, may_change=options["may_change"])
        except ServiceError as error:
            raise CommandError(error.detail) from error
        may = "write access" if options["may_change"] else "read-only access"
        self.stdout.write(f"Account: {options['name']} ({may})")
        self.stdout.write(f"One-time password: {password}")
        self.stdout.write("A new one is asked for at the first login.")
