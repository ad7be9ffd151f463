"""State directory of the proxy that ``up`` starts: the last routing table on disk, and whose it is."""

import shutil
from pathlib import Path

from controlplane.models import TableState
from controlplane.publishing import installation
from routing.contract.decode_errors import DECODE_ERRORS
from routing.contract.state_directory import MANIFEST_FILE
from routing.contract.table import decode_manifest


def owner(directory: Path) -> str:
    """Installation of the table that is on disk; empty: there is none, or it does not say."""
    try:
        return decode_manifest((directory / MANIFEST_FILE).read_bytes()).installation
    except (OSError, *DECODE_ERRORS):
        return ""


def prepare(directory: Path) -> str:
    """Before the proxy is started beside a Redis that starts with it. Returns what is to be told, or nothing.

    Our own copy goes: Redis will be up in a moment, and the copy would have the proxy trust replicas of the
    last run that are not loaded yet. That of another installation stays: this database is then a new or a
    mistyped one, and only the copy knows what the proxy routed for.
    """
    owner_id = owner(directory)
    if owner_id and not _is_ours(owner_id, installation.settled()):
        return (
            f"the proxy goes on with the table of installation {owner_id}, which is not that of this "
            "database: put its database back (docs/backup.md). If this one is to replace it: `switchyard "
            "takeover`; if nothing of it is needed: stop, `make reset`, and start again."
        )
    shutil.rmtree(directory, ignore_errors=True)
    return ""


def _is_ours(owner_id: str, row: TableState) -> bool:
    return owner_id == row.installation or owner_id in row.succeeded
