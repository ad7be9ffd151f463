"""Run by test_rollback.py with a database of its own: writes with the newest version, takes every migration
back, applies all again, and prints what each table held after each step as one JSON list."""

import json
from pathlib import Path

import django
from django.core.management import call_command
from django.db import connection

MIGRATIONS = Path(__file__).resolve().parent.parent.parent / "controlplane" / "migrations"
EARLIER = sorted(path.stem for path in MIGRATIONS.glob("0*.py"))[:-1]
ABOUT_TABLES = {"django_migrations", "django_content_type", "auth_permission"}
"""Django's own of which tables there are."""

Rows = list[dict[str, str]]


def write() -> None:
    """Something in every table that people fill, and something deleted."""
    from django.contrib.auth.models import User

    from controlplane.services import client_keys, fleets, policies, replicas, tokens

    anna = User.objects.create_user("anna", password="a long enough password", is_staff=True)
    rows = [{"name": "a", "url": "http://127.0.0.1:9"}, {"name": "b", "url": "http://127.0.0.1:10"}]
    fleet = {
        "name": "llm",
        "protocol": "openai",
        "aliases": ["chat"],
        "adapters": ["sql"],
        "match": [{"host": "llm.example.com"}],
    }
    fleets.create({**fleet, "replicas": rows}, "anna")
    fleets.create({"name": "gone", "protocol": "generic", "replicas": rows}, "anna")
    policies.change("llm", {"strategy": "round_robin", "parameters": {}}, "anna")
    replicas.delete("llm", "b", "anna")
    fleets.delete("gone", "anna")
    tokens.create(anna, "laptop", "anna")
    client_keys.create({"name": "shop", "fleets": ["llm"]}, "anna")


def tables() -> dict[str, Rows]:
    """Table → its rows, as text, in the order of their keys."""
    found: dict[str, Rows] = {}
    with connection.cursor() as cursor:
        for table in sorted({*connection.introspection.table_names(cursor)} - ABOUT_TABLES):
            cursor.execute(f"SELECT * FROM {table} ORDER BY 1")
            names = [column[0] for column in cursor.description]
            found[table] = [dict(zip(names, map(str, row), strict=True)) for row in cursor.fetchall()]
    return found


def main() -> None:
    django.setup()
    call_command("migrate", verbosity=0)
    write()
    states = [tables()]
    for name in reversed(EARLIER):
        call_command("migrate", "controlplane", name, verbosity=0)
        states.append(tables())
    call_command("migrate", verbosity=0)
    print(json.dumps([*states, tables()]))


if __name__ == "__main__":
    main()
