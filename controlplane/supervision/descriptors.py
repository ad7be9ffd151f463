"""File descriptor limit (ulimit -n) of everything that ``up`` starts."""

import resource
from contextlib import suppress

WANTED_FILES = 65_536
"""Open files (connections) that the proxy may have where the system allows as many."""


def raise_limit() -> None:
    """For this process and those that it starts: as many as this user may have, up to WANTED_FILES."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, WANTED_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
