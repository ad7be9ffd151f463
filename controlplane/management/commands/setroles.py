"""``manage.py setroles NAME ROLE…``: what an account may do from now on, and in which fleets."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from controlplane.access.grants import Access
from controlplane.management.base import SwitchyardCommand
from controlplane.management.roles import ROLE_HELP, role
from controlplane.services import accounts
from controlplane.services.errors import ServiceError


class Command(SwitchyardCommand):
    help = "Replaces all roles of an account, from its next request on."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="what its owner signs in with")
        parser.add_argument("role", nargs="+", type=role, help=ROLE_HELP)

    def handle(self, *args: Any, **options: Any) -> None:
        grants = options["role"]
        try:
            before = accounts.set_roles(options["name"], grants, self.actor)
        except ServiceError as error:
            raise CommandError(error.detail) from error
        self.stdout.write(f"{options['name']}: {before.text()} → {Access(tuple(grants)).text()}")
