"""Which rows are kept: everything but sessions."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from django.db import connection, models, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

APPS = ("contenttypes", "auth", "controlplane")
MADE_BY_MIGRATE = frozenset({"contenttypes.contenttype", "auth.permission", "controlplane.tablestate"})
"""Tables that have rows in an installation in which nothing has been done yet."""

MigrationKey: TypeAlias = tuple[str, str]
"""(app, name)."""


def applied_migrations() -> list[MigrationKey]:
    """Of the kept apps, in the database; empty where it has no tables yet."""
    return sorted(key for key in MigrationRecorder(connection).applied_migrations() if key[0] in APPS)


def known_migrations() -> set[MigrationKey]:
    """Of the kept apps, in this version's code."""
    return {key for key in MigrationLoader(None).graph.nodes if key[0] in APPS}


def models_at(migrations: Collection[MigrationKey]) -> list[type[models.Model]]:
    """The models of the kept tables as they are after these migrations, in a fixed order.

    They are of this call alone. Times that are set by themselves are not: a restored row keeps its own.
    """
    state: Any = MigrationLoader(None).graph.make_state(nodes=tuple(migrations))
    found = [
        model
        for model in state.apps.get_models(include_auto_created=True)
        if model._meta.app_label in APPS and model._meta.managed and not model._meta.proxy
    ]
    for model in found:
        for field in model._meta.concrete_fields:
            if isinstance(field, models.DateField):
                field.auto_now = field.auto_now_add = False
    return sorted(found, key=label)


def label(model: type[models.Model]) -> str:
    return model._meta.label_lower


def field_names(model: type[models.Model]) -> list[str]:
    return [field.attname for field in model._meta.concrete_fields]


@contextmanager
def one_moment() -> Iterator[None]:
    """Inside, every read sees the database as it was at the first one, and nobody's write has to wait."""
    if connection.vendor == "postgresql":
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield
        return
    with connection.cursor() as cursor:
        cursor.execute("BEGIN DEFERRED")
        try:
            yield
        finally:
            cursor.execute("ROLLBACK")
