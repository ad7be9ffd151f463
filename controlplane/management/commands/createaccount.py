"""``manage.py createaccount NAME --role ROLE``: an account; without a role it may read everything."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from controlplane.access.grants import ADMINISTER_ALL, READ_ALL, Access
from controlplane.management.base import SwitchyardCommand
from controlplane.management.roles import ROLE_HELP, role
from controlplane.services import accounts
from controlplane.services.errors import ServiceError


class Command(SwitchyardCommand):
    help = (
        "Makes an account with a one-time password and prints it once. Without a role it may read everything."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="what its owner signs in with")
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--role", action="append", type=role, help=f"may be given again: {ROLE_HELP}")
        which.add_argument("--may-change", action="store_true", help="the same as --role administer")

    def handle(self, *args: Any, **options: Any) -> None:
        grants = options["role"] or [ADMINISTER_ALL if options["may_change"] else READ_ALL]
        try:
            password = accounts.create(options["name"], self.program, grants)
        except ServiceError as error:
            raise CommandError(error.detail) from error
        self.stdout.write(f"Account: {options['name']} ({Access(tuple(grants)).text()})")
        self.stdout.write(f"One-time password: {password}")
        self.stdout.write("A new one is asked for at the first login.")
