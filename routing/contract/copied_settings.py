"""Settings of a replica that the table has as they are set: one name and one meaning in both."""

from routing.contract.fleet_file.structs import ReplicaEntry
from routing.contract.table import ReplicaSpec

_RESOLVED = frozenset({"weight", "hardware", "accelerators", "admin_state", "move", "credential"})
"""Settings that refer to something else, or whose default does. Who makes a table states each of them."""

COPIED = tuple(
    name
    for name in ReplicaEntry.__struct_fields__
    if name in ReplicaSpec.__struct_fields__ and name not in _RESOLVED
)
