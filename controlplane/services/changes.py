"""Change: what a service function returns: the change in words, and the table version that has it."""

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.models import Fleet
from controlplane.services.unit_of_work import UnitOfWork, table_state
from routing.contract.table import Version


@dataclass(frozen=True, slots=True)
class Change:
    fleet: Fleet
    lines: Sequence[str]
    """What changed, one line each; empty: everything already was as asked for."""
    version: Version
    """Of the fleet's snapshot that shows the change to proxies."""
    unit_of_work: UnitOfWork

    @property
    def published(self) -> bool:
        """Whether Redis holds the change. False: Redis is away; it follows within seconds of its return."""
        return self.unit_of_work.published is not False if self.lines else True

    @property
    def revision(self) -> int:
        return self.fleet.revision


def change_of(fleet: Fleet, lines: Sequence[str], unit_of_work: UnitOfWork) -> Change:
    """Called inside the write, with the fleet's row as it now is."""
    fleet.refresh_from_db()
    return Change(fleet, lines, Version(table_state().epoch, fleet.table_version), unit_of_work)
