"""What all of Switchyard's own commands share."""

import os
import sys
from pathlib import Path

from django.core.management.base import BaseCommand

from routing.contract.version import VERSION

PROGRAMS = ("switchyard", "manage.py")


class SwitchyardCommand(BaseCommand):
    """One of our commands: its version is Switchyard's, and its help lists its own flags only.

    Django's flags (``--settings``, ``--traceback``, …) work all the same.
    """

    suppressed_base_arguments = {
        *("-v", "--verbosity", "--settings", "--pythonpath", "--traceback", "--no-color", "--force-color")
    }

    def get_version(self) -> str:
        return VERSION

    @property
    def program(self) -> str:
        """``switchyard apply`` or ``manage.py apply``, as it was called; for the timeline."""
        called = Path(sys.argv[0]).name
        command = type(self).__module__.rpartition(".")[2]
        return f"{called if called in PROGRAMS else PROGRAMS[0]} {command}"

    @property
    def actor(self) -> str:
        """Who changes something: the user of this machine, or where that is not known, the program."""
        return os.environ.get("USER") or self.program
