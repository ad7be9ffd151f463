"""Preparation before the first process starts: database tables, static files, an administrator."""

import hashlib
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command

from controlplane.publishing import installation
from controlplane.publishing.installation import NotOurRedis
from controlplane.services import accounts
from controlplane.supervision.errors import UpError

STAMP = "collected"
UNUSED = ["redoc"]
"""The second documentation page that comes with the first: compressing it is half of all the work."""
FIRST_NAME = "admin"


class Administrator(NamedTuple):
    name: str
    password: str | None
    """A new one-time password; ``None`` when the administrator was there already."""


def ensure_administrator() -> Administrator:
    """Make the first administrator on the first start."""
    password = accounts.ensure_administrator(FIRST_NAME, "up")
    if password is not None:
        return Administrator(FIRST_NAME, password)
    known = get_user_model().objects.filter(is_superuser=True).order_by("pk").first()
    return Administrator(known.get_username() if known else FIRST_NAME, None)


def migrate() -> None:
    """Bring the database up to date; a no-op takes a tenth of a second."""
    call_command("migrate", interactive=False, verbosity=0)


def refuse_foreign_redis() -> None:
    """Before anything is started: raise :class:`UpError` where Redis runs and is another installation's."""
    try:
        installation.check_at_start()
    except NotOurRedis as refused:
        raise UpError(str(refused)) from refused


def collect_static() -> bool:
    """Copy and compress static files where any has changed since the last start; whether it did."""
    if not settings.COLLECTED_STATIC:
        return False
    stamp = Path(settings.STATIC_ROOT) / STAMP
    state = state_of_sources()
    if stamp.exists() and stamp.read_text() == state:
        return False
    call_command("collectstatic", interactive=False, clear=True, verbosity=0, ignore_patterns=UNUSED)
    stamp.write_text(state)
    return True


def state_of_sources() -> str:
    """Digest over names, sizes and times of all source files."""
    digest = hashlib.sha256()
    for finder in get_finders():
        for name, storage in finder.list([]):
            path = Path(storage.path(name))
            status = path.stat()
            digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()
