"""``switchyard takeover``: a Redis and its proxies go over to this installation, on purpose."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from redis.exceptions import RedisError

from controlplane.management.base import SwitchyardCommand
from controlplane.publishing.installation import NotOurRedis
from controlplane.services import takeover
from controlplane.services.takeover import Takeover


class Command(SwitchyardCommand):
    help = (
        "Binds Redis to this database's installation, and has the proxies take its table in place of another "
        "installation's. Asks first. Needed after a database was lost, or to replace an installation."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--yes", "--confirm", action="store_true", help="do not ask")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            found = takeover.look()
            if not found.needed:
                self.stdout.write("Nothing to take over: this Redis and its proxies are this installation's.")
                return
            self.say(found)
            self.confirm(options["yes"])
            takeover.take_over(found, self.actor)
        except RedisError as error:
            raise CommandError(f"Redis does not answer: {error}") from error
        except NotOurRedis as refused:  # it was taken back at once
            raise CommandError(str(refused)) from refused
        self.stdout.write("Taken over. Proxies take the table of this database within seconds.")

    def say(self, found: Takeover) -> None:
        self.stdout.write(f"This database: installation {found.ours}; fleets: {_listed(found.own_fleets)}.")
        bound = found.bound_to or "no installation"
        copy = ", but to another database with that id (a copy)" if found.by_copy else ""
        self.stdout.write(f"Redis is bound to {bound}{copy}; fleets: {_listed(found.fleets)}.")
        for name, count in found.workers.items():
            self.stdout.write(f"Proxy workers that route for {name}: {count}.")
        if found.is_running and (found.by_copy or found.bound_to != found.ours):
            self.stdout.write("The other control plane is running: stop it first, or it keeps trying.")
        self.stdout.write(f"Fleets whose requests are refused afterwards: {_listed(found.lost)}.")

    def confirm(self, said_yes: bool) -> None:
        if said_yes:
            return
        if not sys.stdin.isatty():
            raise CommandError("Nothing was changed: without a terminal to ask at, say --yes.")
        if input("Take over? [y/N] ").strip().lower() not in ("y", "yes"):
            raise CommandError("Nothing was changed.")


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "none"
