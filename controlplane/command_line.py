"""The command ``switchyard``: everything there is to run, in one place. A thin front of ``manage.py``.

Django is imported only by the commands that need it, so that ``import`` and the list of commands
work without a database, settings or a secret key.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from routing.contract.version import VERSION

COMMANDS = {
    "up": "start everything on this machine; Ctrl-C stops it",
    "down": "stop what up has started, and what a killed one has left",
    "import": "write a fleet file from an nginx or LiteLLM configuration (docs/import.md)",
    "agent": "register the model server beside it, and have it drained at the end (docs/discovery.md)",
    "apply": "make the fleets match a fleet file",
    "dump": "print a fleet file of the current fleets",
    "backup": "write the whole database into one file (docs/backup.md)",
    "restore": "load a backup file into a database",
    "takeover": "have a Redis and its proxies follow this database instead of another (docs/production.md)",
    "ensure_admin": "make the first administrator, when there is none",
    "createtoken": "make an API token and print it once",
    "keysalt": "replace the salt of client keys, with an overlap (docs/production.md)",
    "changepassword": "set a user's password",
    "createaccount": "make an account that may read everything, or has the roles given by --role",
    "setroles": "replace the roles of an account",
    "accounts": "list the accounts with their roles",
    "createsuperuser": "make another administrator",
    "migrate": "migrate the database to this version",
    "check": "check the settings",
    "conductor": "run the process that merges telemetry and keeps Redis in step",
    "keda_scaler": "run KEDA's external scaler (docs/scaling.md)",
    "proxy": "run the data plane alone (docs/proxy.md)",
    "settings_page": "print every setting, as docs/settings.md has them",
    "version": "print the version of Switchyard",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status. Whatever is not in the list is handed to Django, whose commands all work too."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("help", "-h", "--help"):
        print(_usage())
        return 0 if given else 2
    command, *rest = given
    if command in ("version", "--version"):
        print(f"switchyard {VERSION}")
        return 0
    if command == "import":
        from controlplane.importing.command import main as import_

        return import_(rest)
    if command == "agent":
        from controlplane.agent.command import main as agent

        return agent(rest)
    if command == "proxy":
        # The project's folder is where this package lies, whatever the current one is.
        folders = [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
        os.execv(sys.executable, [sys.executable, "-m", "routing", *rest])
    django(["switchyard", command, *rest])
    return 0


def django(argv: list[str]) -> None:
    """Run one of Django's commands or ours, as ``manage.py`` does. Raises SystemExit with its status."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    if argv[1:2] in (["up"], ["down"]):
        # Its flags decide where data live, and settings are read only once.
        from controlplane.supervision.environment import prepare

        prepare(argv[2:])
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db.utils import Error as DatabaseError

    try:
        execute_from_command_line(argv)
    except ImproperlyConfigured as error:
        sys.exit(f"Settings: {error}")
    except (DatabaseError, OSError) as error:
        from controlplane.datastores import database_errors, disk_full

        words = None if "--traceback" in argv else disk_full.sentence(error)
        if words is None and isinstance(error, DatabaseError) and "--traceback" not in argv:
            words = database_errors.sentence()
        if words is None:
            raise
        sys.exit(words)


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {words}" for name, words in COMMANDS.items()]
    return "\n".join(
        ["usage: switchyard COMMAND [arguments]; switchyard COMMAND --help has details", "", *lines]
    )
