"""Installation id: whose table a proxy routes from, and why it refuses that of another control plane.

An installation is one database with its control plane. Its id is part of every table, so a proxy remembers
it with the last good one, in memory and on disk: a conductor on an empty or another database cannot replace
that table, even after Redis has lost everything. ``switchyard takeover`` does so on purpose.
"""

from routing.contract.table import FleetSnapshot, Manifest, Version, implausible


def objection(held: Manifest, table: Manifest | FleetSnapshot) -> str:
    """Why a proxy that routes from ``held`` must not take ``table``, for people; empty: it may.

    No control plane writes a version that nothing could be newer than. A table without an id is of an older
    control plane (one version apart works together), and accepted. It may not remove all fleets, however:
    that is what a manifest written by mistake looks like.
    """
    if why := implausible(Version(table.epoch, table.version)):
        return why
    ours, theirs = held.installation, table.installation
    succeeded = table.succeeded if isinstance(table, Manifest) else ()
    if ours and theirs and theirs != ours and ours not in succeeded:
        return (
            f"it is of installation {theirs}, and this proxy routes for {ours}: connect that control plane "
            "to a Redis of its own, or run `switchyard takeover` there if it is to replace this one"
        )
    if ours and not theirs and isinstance(table, Manifest) and held.fleets and not table.fleets:
        return "it has no fleets and names no installation: no control plane wrote it"
    return ""
