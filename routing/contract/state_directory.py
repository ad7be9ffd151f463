"""Files of a proxy's state directory, by name: the disk cache of its routing table.

The proxy writes them; ``up`` looks whose they are before it starts a proxy on them.
"""

MANIFEST_FILE = "manifest.json"
"""The manifest as Redis carries it: which fleets, in which version, of which installation."""

FLEET_FILE_PREFIX = "fleet-"
"""Then the fleet's name and ``.json``: its snapshot."""
