"""What all of Switchyard's own commands share."""

from django.core.management.base import BaseCommand

from controlplane.services import local_actor
from routing.contract.version import VERSION


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
        return local_actor.program(self._command)

    @property
    def actor(self) -> str:
        """Who changes something: the user of this machine, or where that is not known, the program."""
        return local_actor.local_actor(self._command)

    @property
    def _command(self) -> str:
        return type(self).__module__.rpartition(".")[2]
