"""``manage.py createtoken USER NAME``: an API token, shown once."""

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError

from controlplane.management.base import SwitchyardCommand
from controlplane.services import tokens


class Command(SwitchyardCommand):
    help = "Makes an API token and prints it. It cannot be shown again: only a keyed hash is kept."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="whose rights the token carries")
        parser.add_argument("name", help="what it is for, as people will read it in the list")

    def handle(self, *args: Any, **options: Any) -> None:
        user = get_user_model().objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(f"There is no user {options['user']}.")
        if not options["name"].strip() or len(options["name"]) > 100:
            raise CommandError("A token's name has 1 to 100 characters.")
        _, token = tokens.create(user, options["name"].strip(), self.program)
        self.stdout.write(token)
