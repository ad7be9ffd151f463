"""Client key of the example client, while requests need one.

No key is made before somebody else has created the first, because then every request would need one. If this
key is revoked, another is made only after a time without any active key, or when the file is gone.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from django.db import Error as DatabaseError
from django.db import connection

from controlplane.models import ClientKey, Fleet
from controlplane.publishing.snapshots import current_state
from controlplane.services import client_keys
from controlplane.services.errors import ServiceError
from controlplane.supervision.programs import EXAMPLE_FLEETS

NAME = "example client"
ACTOR = "up"


class ExampleKey:
    """``file`` holds the key itself, readable by this user only; it is there while the client needs one."""

    def __init__(self, file: Path, say: Callable[[str], None]) -> None:
        self._file = file
        self._say = say
        self._reported = ""

    def keep(self) -> None:
        """To be called periodically. An error is logged once; the next call tries again."""
        try:
            self._keep()
            self._reported = ""
        except (DatabaseError, ServiceError, OSError) as error:
            words = f"the example client has no client key: {error}"
            if words != self._reported:
                self._say(words)
            self._reported = words
        finally:
            connection.close()

    def _keep(self) -> None:
        in_force = ClientKey.objects.filter(revoked_at=None)
        if not (in_force.exists() and current_state().keys_required):
            self._file.unlink(missing_ok=True)
        elif not self._file.exists():
            fleets = sorted(Fleet.objects.filter(name__in=EXAMPLE_FLEETS).values_list("name", flat=True))
            if fleets:
                for lost in in_force.filter(name=NAME, created_by=ACTOR):
                    client_keys.revoke(lost.pk, ACTOR)
                made = client_keys.create({"name": NAME, "fleets": fleets}, ACTOR)
                self._write(made.key)
                self._say(f'requests need a client key now: made "{NAME}" for the example client')

    def _write(self, key: str) -> None:
        """Written to a temporary file and moved: the client never reads half of it."""
        aside = self._file.with_name(f"{self._file.name}.part")
        with suppress(FileNotFoundError):
            aside.unlink()
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as stream:
            stream.write(key + "\n")
        aside.replace(self._file)
