"""``manage.py keysalt``: replaces the salt of client keys, with an overlap."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from controlplane.management.base import SwitchyardCommand
from controlplane.services import key_salts
from controlplane.services.errors import ServiceError


class Command(SwitchyardCommand):
    help = "Replaces the salt that keys the hashes of client keys; those made before stay valid for a while."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", choices=("status", "replace", "end"), help="end: revokes keys left over")
        parser.add_argument(
            "--days", type=int, help="with replace: how long the former one stays; else till end"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if options["what"] == "replace":
                key_salts.replace(self.actor, options["days"])
            elif options["what"] == "end":
                ended = key_salts.end(self.actor)
                self.stdout.write(f"Client keys revoked: {ended}")
        except ServiceError as error:
            raise CommandError(error.detail) from error
        has_former, until = key_salts.state()
        if not has_former:
            self.stdout.write("There is one salt, and every client key is under it.")
            return
        ends = "somebody ends it: keysalt end" if until is None else f"{until:%Y-%m-%d %H:%M} UTC"
        names = sorted(key_salts.left().values_list("name", flat=True))
        self.stdout.write(f"There is a former salt, until {ends}.")
        self.stdout.write(f"Client keys under it, to be replaced: {', '.join(names) or 'none'}")
