"""What is wrong with the database, in one sentence, when a command ran into it."""

from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import Error


def sentence() -> str | None:
    """What to do about the database; None: it answers and has all its tables, so it is something else."""
    connection.close()  # whatever the command left behind
    try:
        executor = MigrationExecutor(connection)
        pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except Error as error:
        first = str(error).strip().partition("\n")[0]
        return f"The database {_place()} cannot be used: {first} (see SWITCHYARD_DATABASE_URL)."
    finally:
        connection.close()
    if not pending:
        return None
    state = "is of an older version" if executor.loader.applied_migrations else "has no tables yet"
    return (
        f"The database {_place()} {state}: `switchyard migrate` (or `manage.py migrate`) brings it up to "
        "date. If you mean another one: that of `up --data-dir X` is named by SWITCHYARD_DATA_DIR=X, "
        "any other by SWITCHYARD_DATABASE_URL."
    )


def _place() -> str:
    """Where it is, without its password."""
    settings = connection.settings_dict
    if connection.vendor == "sqlite":
        return str(settings["NAME"])
    host = settings["HOST"] or "this machine"
    return f"{settings['NAME']} at {host}{':' if settings['PORT'] else ''}{settings['PORT']}"
