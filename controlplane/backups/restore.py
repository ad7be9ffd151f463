"""Restore: file → database, and a new epoch, for proxies know later tables than the one that comes back.

Nothing is sent to proxies from here, because the database need not be the one that they are routed by: a
restore into another one is how a backup is tried out. The conductor that runs on the database sends its
table, as it sends everything that Redis lacks.
"""

from collections.abc import Callable
from contextlib import nullcontext
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.core.management.color import no_style
from django.db import DatabaseError, connection, models, transaction
from django.db.migrations.executor import MigrationExecutor
from redis.exceptions import RedisError

from controlplane.backups import backup_file, tables
from controlplane.backups.backup import AT_ONCE, key_check
from controlplane.backups.backup_file import BackupError, BackupHeader, BackupRow
from controlplane.datastores import postgres_timeouts
from controlplane.models import Event
from controlplane.publishing import epochs
from controlplane.services import dropping
from controlplane.services.unit_of_work import lock_writes, record_event


class Restored(NamedTuple):
    head: BackupHeader
    rows: int
    epoch: int
    same_key: bool
    """False: the backup's API tokens are not known under this installation's secret keys. Client keys are."""


def check(file: Path) -> tuple[BackupHeader, int]:
    """Its head and number of rows. Raises BackupError: not a whole backup, or of a newer schema."""
    head = backup_file.read_head(file)
    rows = sum(1 for _ in backup_file.read_rows(file))
    _refuse_newer(file, head)
    return head, rows


def restore(
    file: Path, *, replace: bool, actor: str, confirm: str = "", confirm_all: bool = False
) -> Restored:
    """Loads the file into an empty database, or in place of what is there.

    Raises BackupError before anything is written: not a whole backup, of a newer schema, or into a database
    that holds something. All rows come in one transaction.

    Raises NeedsConfirmation where most of what serves is not in the backup: it may be an old one, or that of
    another installation. ``confirm``: its token; ``confirm_all``: it was confirmed beforehand, whatever goes.
    """
    head, rows = check(file)
    postgres_timeouts.lift(connection)
    present = tables.applied_migrations()
    if present and present != sorted(head.migrations):
        raise BackupError(
            f"{file} was made before the database's last migration: restore it into a new, empty database "
            "(it is migrated afterwards), or with the version of Switchyard that made it."
        )
    if not replace:
        _refuse_full(present)
    if not present:
        MigrationExecutor(connection).migrate(_last_of(head.migrations))
    seen = _newest_in_redis()
    try:
        epoch = _load(file, head, seen, confirm, confirm_all)
    except (DatabaseError, ValidationError, LookupError, TypeError, ValueError) as error:
        raise BackupError(f"{file} cannot be loaded, and nothing was changed: {error}") from error
    call_command("migrate", interactive=False, verbosity=0)
    text = f"Restored from the backup of {head.made_at[:19]} UTC; its table is epoch {epoch}."
    record_event(Event.Kind.SYSTEM, text, actor=actor)
    known = {key_check(), *map(key_check, settings.SECRET_KEY_FALLBACKS)}
    return Restored(head, rows, epoch, head.key_check in known)


def _refuse_newer(file: Path, head: BackupHeader) -> None:
    unknown = sorted(set(head.migrations) - tables.known_migrations())
    if unknown:
        names = ", ".join(f"{app}.{name}" for app, name in unknown)
        raise BackupError(
            f"{file} is of a newer schema than this Switchyard knows ({names}): upgrade, then restore."
        )


def _refuse_full(present: list[tables.MigrationKey]) -> None:
    full = [
        f"{count} in {tables.label(model)}"
        for model in (tables.models_at(present) if present else [])
        if tables.label(model) not in tables.MADE_BY_MIGRATE and (count := model._base_manager.count())
    ]
    if full:
        raise BackupError(
            f"The database is not empty ({', '.join(full)} …): --replace empties it first. "
            "Make a backup of it before."
        )


def _last_of(migrations: list[tables.MigrationKey]) -> list[tables.MigrationKey]:
    """The last migration of each app, which bring the others along."""
    loader: Any = MigrationExecutor(connection).loader
    inside = set(migrations)
    return [
        key for key in migrations if not any(child in inside for child in loader.graph.node_map[key].children)
    ]


def _load(file: Path, head: BackupHeader, seen: int, confirm: str, confirm_all: bool) -> int:
    """All rows in one transaction; returns the new epoch, which is later than any that is known here."""
    found = {tables.label(model): model for model in tables.models_at(head.migrations)}
    state: Any = found["controlplane.tablestate"]
    with transaction.atomic():
        lock_writes()
        before = state.objects.order_by("pk").first()
        had_fleets = found["controlplane.fleet"]._base_manager.exists()
        replicas: Any = found["controlplane.replica"]._base_manager.all()
        with nullcontext() if confirm_all else dropping.confirmed(confirm, replicas):
            _empty(found)
            for table, rows in groupby(backup_file.read_rows(file), key=lambda row: row.table):
                _insert(found[table], rows)
        _count_on(list(found.values()))
        row = state.objects.order_by("pk").first() or state()
        row.epoch = max(row.epoch, before.epoch if before else 0, seen) + 1
        if hasattr(row, "installation"):  # of a schema that has it
            _settle_installation(row, before, had_fleets)
        row.save()
    return int(row.epoch)


def _settle_installation(row: Any, before: Any, had_fleets: bool) -> None:
    """A database that has routed for fleets stays the installation that it is. Any other becomes that of the
    backup, and follows the one that it was: its Redis and its proxies may know that id already."""
    known = before is not None and before.installation
    if known and (had_fleets or before.installation == row.installation):
        for name in ("installation", "instance", "place", "succeeded"):
            setattr(row, name, getattr(before, name))
        return
    row.instance = row.place = ""  # made anew, for the database of the backup may be alive
    if known and row.installation:
        row.succeeded = [*row.succeeded, before.installation]


def _empty(found: dict[str, type[models.Model]]) -> None:
    """Constraints are checked when the transaction ends, so the order does not matter."""
    with connection.cursor() as cursor:
        present = connection.introspection.table_names(cursor)
        names = [model._meta.db_table for model in found.values()]
        for name in [*names, *(name for name in ("django_session",) if name in present)]:
            cursor.execute(f"DELETE FROM {connection.ops.quote_name(name)}")


def _insert(model: type[models.Model], rows: Any) -> None:
    fields = {field.attname: field for field in model._meta.concrete_fields}
    batch: list[models.Model] = []
    for row in rows:
        batch.append(_object(model, fields, row))
        if len(batch) == AT_ONCE:
            model._base_manager.bulk_create(batch)
            batch = []
    model._base_manager.bulk_create(batch)


def _object(model: type[models.Model], fields: dict[str, Any], row: BackupRow) -> models.Model:
    to_python: dict[str, Callable[[Any], Any]] = {name: field.to_python for name, field in fields.items()}
    values = zip(row.fields, row.values, strict=True)
    return model(**{name: to_python[name](value) for name, value in values})


def _count_on(found: list[type[models.Model]]) -> None:
    """PostgreSQL's sequences go on after the highest number that came back."""
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), found):
            cursor.execute(statement)


def _newest_in_redis() -> int:
    """The latest epoch in Redis; 0 when it is empty or away."""
    try:
        return epochs.newest_in_redis()
    except RedisError:
        return 0
