"""Rotation of the salt of client keys, with an overlap in which keys made under the former one stay valid.

A key cannot be hashed anew without the key itself, which only proxies ever see, and these write nothing into
the database. So a new salt is for keys made from then on: clients get new keys during the overlap, and what
is left under the former salt is revoked at its end.
"""

from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils import timezone

from controlplane.models import ClientKey, Event, TableState
from controlplane.publishing.snapshots import current_state
from controlplane.services import client_keys
from controlplane.services.errors import Conflict, FieldError, Invalid
from controlplane.services.unit_of_work import table_state, unit_of_work
from routing.contract.client_keys import new_salt

MOST_DAYS = 36_500


def replace(actor: str, days: int | None = None) -> int:
    """Make a new salt. ``days``: how long the former one stays; None: until :func:`end`. Answers how many
    keys in force are under the former one now.

    Raises Conflict: there is a former one already, or no key yet; Invalid.
    """
    if days is not None and not 1 <= days <= MOST_DAYS:
        raise Invalid([FieldError("/days", f"days must be from 1 to {MOST_DAYS}, not {days}")])
    with unit_of_work(actor) as write:
        state = table_state()
        if state.former_salt:
            raise Conflict("There is a former salt still: end it first (keysalt end).")
        if not state.key_salt:
            raise Conflict("There is no salt yet: the first client key brings it along.")
        until = None if days is None else timezone.now() + timedelta(days=days)
        TableState.objects.filter(pk=state.pk).update(
            key_salt=new_salt(), former_salt=state.key_salt, former_salt_until=until
        )
        ClientKey.objects.update(under_former_salt=True)
        keys = left().count()
        end_words = "somebody ends it" if until is None else f"{until:%Y-%m-%d %H:%M} UTC"
        write.audit("client_key_settings.update", "salt", after={"former_salt_until": end_words})
        write.event(
            Event.Kind.ADMIN,
            f"{actor} replaced the salt of client keys. {keys} made under the former one are valid until "
            f"{end_words}: give their clients new ones.",
        )
        write.manifest_changed()
        return keys


def left() -> QuerySet[ClientKey]:
    """Keys in force that are under the former salt."""
    return ClientKey.objects.filter(revoked_at=None, under_former_salt=True)


def state() -> tuple[bool, datetime | None]:
    """Whether there is a former salt, and until when."""
    row = current_state()
    return bool(row.former_salt), row.former_salt_until


def end(actor: str) -> int:
    """The former salt is forgotten, and keys that are under it are revoked: answers how many. Without one
    nothing is written."""
    with unit_of_work(actor) as write:
        row = table_state()
        if not row.former_salt:
            return 0
        keys = list(left().values_list("pk", flat=True))
        for pk in keys:
            client_keys.revoke(pk, actor)
        TableState.objects.filter(pk=row.pk).update(former_salt="", former_salt_until=None)
        ClientKey.objects.update(under_former_salt=False)
        write.audit("client_key_settings.update", "salt", after={"former_salt": "ended"})
        write.manifest_changed()
        return len(keys)


def end_if_due(actor: str) -> int:
    """:func:`end`, where its time has come."""
    has_former, until = state()
    return end(actor) if has_former and until is not None and until <= timezone.now() else 0
