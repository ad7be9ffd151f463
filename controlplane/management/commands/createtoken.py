"""``manage.py createtoken USER NAME``: an API token, shown once."""

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError
from django.utils import timezone

from controlplane.access.selectors import parse_selector
from controlplane.management.base import SwitchyardCommand
from controlplane.models import RoleGrant
from controlplane.services import token_rules, tokens
from controlplane.services.errors import ServiceError


class Command(SwitchyardCommand):
    help = "Makes an API token and prints it. It cannot be shown again: only a keyed hash is kept."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="whose rights the token carries")
        parser.add_argument("name", help="what it is for, as people will read it in the list")
        roles = RoleGrant.RoleChoice.values
        parser.add_argument("--role", choices=roles, help="never above the user's; that, if left out")
        parser.add_argument("--labels", help="only fleets with these labels: team=search,env=prod")
        parser.add_argument("--expires-in-days", type=int, metavar="DAYS", help="never, if left out")
        parser.add_argument(
            "--service", action="store_true", help="stays when the user's password changes; others do not"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        user = get_user_model().objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(f"There is no user {options['user']}.")
        said = {name: options[name] for name in ("name", "role", "expires_in_days", "service")}
        given = {name: value for name, value in said.items() if value is not None}
        try:
            labels = {"labels": parse_selector(options["labels"])} if options["labels"] else {}
            settings = token_rules.checked({**given, **labels}, timezone.now())
        except ServiceError as error:
            raise CommandError(error.detail) from error
        except ValueError as error:
            raise CommandError(f"--labels: {error}") from error
        _, token = tokens.create(user, settings, self.program)
        self.stdout.write(token)
