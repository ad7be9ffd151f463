"""The tables of django-axes, which an upgraded database still has, are dropped."""

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from tests.controlplane.migrations.conftest import Migrate

pytestmark = pytest.mark.database

TABLES = {
    "axes_accessattempt": "id integer PRIMARY KEY, username varchar(255)",
    "axes_accessattemptexpiration": "access_attempt_id integer PRIMARY KEY REFERENCES axes_accessattempt (id)",
    "axes_accesslog": "id integer PRIMARY KEY, user_agent varchar(255)",
    "axes_accessfailurelog": "id integer PRIMARY KEY, ip_address varchar(45)",
}


def recorded() -> set[str]:
    return {app for app, _ in MigrationRecorder(connection).applied_migrations()}


def test_the_tables_go_with_what_is_in_them(migrate: Migrate) -> None:
    migrate("0017_fleet_labels")
    with connection.cursor() as cursor:
        for table, columns in TABLES.items():
            cursor.execute(f"CREATE TABLE {table} ({columns})")
        cursor.execute("INSERT INTO axes_accessattempt VALUES (1, 'anna')")
        cursor.execute("INSERT INTO axes_accessattemptexpiration VALUES (1)")
    MigrationRecorder(connection).record_applied("axes", "0010_accessattemptexpiration")
    migrate("0018_drop_axes")
    assert not [name for name in connection.introspection.table_names() if name.startswith("axes")]
    # A version that has django-axes finds nothing recorded, and makes its tables anew.
    assert "axes" not in recorded()


def test_a_database_without_them_is_left_alone(migrate: Migrate) -> None:
    migrate("0017_fleet_labels")
    before = set(connection.introspection.table_names())
    migrate("0018_drop_axes")
    assert set(connection.introspection.table_names()) == before
